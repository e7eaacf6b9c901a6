/** From the tensors of a session to the bytes of an inference response. */
import type { TypedArray } from '../tensor/typed_array';
import { answer, type Answer } from './answer';

import type { ModelDescription, ValueSpec } from './model';
import type { RunResult } from './queue';
import { Refusal } from './refusal';
import type { InferRequest } from './request';
import { nextTurn } from './timers';

/** How many elements are turned into text in one turn of the event loop: 1 to 3 ms, at 20 to 40 ms per MiB of text. */
const PIECE = 2 ** 12;

/**
 * Encodes a response. Binary tensors are sent as they lie, without a copy.
 *
 * @param run - with a tensor for each requested output
 * @throws Refusal 406 for what JSON lacks, and for more of it than `maxJsonBytes`
 */
export async function encodeResponse(
  model: ModelDescription,
  request: InferRequest,
  run: RunResult,
  maxJsonBytes: number,
): Promise<Answer> {
  const texts: string[] = [];
  const binary: Uint8Array[] = [];
  let left = maxJsonBytes;
  for (const [index, { spec, binary: isBinary }] of request.outputs.entries()) {
    const { dims, elements } = run.tensors[index]!;
    const parameters = isBinary ? { binary_data_size: elements.byteLength } : undefined;
    const head = JSON.stringify({
      name: spec.name,
      datatype: spec.datatype.name,
      shape: dims,
      parameters,
    });
    if (isBinary) {
      binary.push(bytesOf(elements));
      texts.push(head);
    } else {
      const data = await elementsText(spec, elements, left);
      left -= data.length;
      texts.push(`${head.slice(0, -1)},"data":[${data}]}`);
    }
  }
  const head = JSON.stringify({ model_name: model.name, model_version: model.version, id: request.id });
  const json = Buffer.from(`${head.slice(0, -1)},"outputs":[${texts.join(',')}]}`);
  const timing = serverTiming(run);
  if (binary.length === 0) {
    return answer(200, [json], { 'Content-Type': 'application/json', 'Server-Timing': timing });
  }
  return answer(200, [json, ...binary], {
    'Content-Type': 'application/octet-stream',
    'Inference-Header-Content-Length': String(json.length),
    'Server-Timing': timing,
  });
}

/** The W3C's header, which browsers show beside a request. */
function serverTiming({ waited, computed }: RunResult): string {
  return `queue;dur=${waited.toFixed(3)}, compute;dur=${computed.toFixed(3)}`;
}

function bytesOf(elements: TypedArray): Uint8Array {
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}

/** Elements with commas between them, of at most so many characters. */
async function elementsText(
  { name, datatype }: ValueSpec,
  elements: TypedArray,
  limit: number,
): Promise<string> {
  const pieces: string[] = [];
  let length = 0;
  for (let start = 0; start < elements.length; start += PIECE) {
    if (start > 0) await nextTurn();
    const values = datatype.values(elements.subarray(start, start + PIECE));
    if (datatype.isFloat && !Array.prototype.every.call(values, Number.isFinite)) {
      throw binaryOnly(`output '${name}' has elements that are infinite or not a number, which JSON lacks`);
    }
    const piece = values.join(',');
    length += piece.length;
    if (length > limit) throw binaryOnly(`output '${name}' is longer than the JSON of a response may be`);
    pieces.push(piece);
  }
  return pieces.join(',');
}

function binaryOnly(message: string): Refusal {
  return new Refusal(406, `${message}; ask for it by parameters.binary_data_output`);
}

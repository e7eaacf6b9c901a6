/** ONNX files as graphs. */
import { invalid, mismatch } from '../../check';
import { WarpconvError } from '../../errors';
import { atOnce, inSlices, type Sliced } from '../../slices';
import { isDetached, kindOf, lengthOf, partOf } from '../../tensor/typed_array';
import { invalidModel } from '../complaints';
import type { Graph } from '../graph';
import { externalTensors, readExternalData, type ExternalData, type GivenFiles } from './external_data';
import { allocate, COPIED_AT_ONCE, readFilePart, sizeOfFile } from './files';
import { readModel } from './read_model';
import { decodeModel } from './wire';

const NO_DATA: ExternalData = new Map();

/** Protocol buffers end here. */
const LARGEST_FILE = 2 ** 31 - 1;

/** A file that was read before: what is loaded from it is of one state of the file, however often. */
export class OnnxFile {
  readonly #isOne = true;

  private constructor(
    readonly path: string,
    readonly bytes: Uint8Array,
  ) {}

  static async read(path: string): Promise<OnnxFile> {
    return new OnnxFile(path, await readFile(path));
  }

  /** `instanceof` would run code of a caller's proxy. */
  static is(value: unknown): value is OnnxFile {
    return typeof value === 'object' && value !== null && #isOne in value;
  }
}

/**
 * Loads an ONNX model, in slices. Only its form is checked here: `checkOperators` tells which nodes a compiler can take.
 *
 * @param model - a file, or its path: its external data are read from its folder. Or a file's bytes, which are copied: the
 * caller may change them or transfer them away when the promise has settled
 * @param given - external data that are not read from there
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming what is wrong with the file, `ERR_WARPCONV_UNSUPPORTED` for its version or the
 * types of its inputs and outputs, `ERR_WARPCONV_INVALID_ARGUMENT` where there is no file
 */
export async function loadOnnx(
  model: string | OnnxFile | Uint8Array,
  given: GivenFiles = new Map(),
): Promise<Graph> {
  if (typeof model === 'string') return load(await OnnxFile.read(model), given);
  if (OnnxFile.is(model)) return load(model, given);
  return load({ path: undefined, bytes: await inSlices(copyBytes(model)) }, given);
}

async function load(
  { path, bytes }: { readonly path: string | undefined; readonly bytes: Uint8Array },
  given: GivenFiles,
): Promise<Graph> {
  const proto = await inSlices(decodeModel(bytes));
  const external = await inSlices(externalTensors(proto));
  const data = external.length === 0 ? NO_DATA : await readExternalData(external, path, given);
  return inSlices(readModel(proto, data));
}

/** {@link loadOnnx} for bytes, all at once: they are free again when this returns. */
export function parseOnnx(model: Uint8Array): Graph {
  return atOnce(readBytes(model));
}

function* readBytes(model: Uint8Array): Sliced<Graph> {
  const proto = yield* decodeModel(yield* copyBytes(model));
  const [external] = yield* externalTensors(proto);
  if (external !== undefined) {
    throw invalidModel(`${external.what} has its data in another file; load the model by its path`);
  }
  return yield* readModel(proto, NO_DATA);
}

/** Constants are views of the bytes, and native code keeps their addresses: nobody else may have a say over this memory. */
function* copyBytes(model: unknown): Sliced<Uint8Array> {
  if (kindOf(model) !== 'Uint8Array') throw mismatch('model', 'the path of a file or a Uint8Array', model);
  const bytes = model as Uint8Array;
  if (isDetached(bytes)) throw invalid('model is detached: its buffer was transferred away');
  const copy = allocate(lengthOf(bytes));
  for (let at = 0; at < copy.length; at += COPIED_AT_ONCE) {
    yield;
    copyPart(bytes, copy, at);
  }
  return copy;
}

/** The caller may have done something to the bytes since the part before. */
function copyPart(bytes: Uint8Array, copy: Uint8Array, at: number): void {
  if (lengthOf(bytes) !== copy.length) {
    throw invalid(
      'model changed its length while it was read; leave its buffer alone until the call has settled',
    );
  }
  copy.set(partOf(bytes, at, at + COPIED_AT_ONCE), at);
}

async function readFile(file: string): Promise<Uint8Array> {
  try {
    const size = await sizeOfFile(file);
    if (size > LARGEST_FILE) {
      throw invalidModel(`the model's file has ${size} bytes; an ONNX file has at most ${LARGEST_FILE}`);
    }
    return await readFilePart(file, 0, size);
  } catch (cause) {
    if (cause instanceof WarpconvError) throw cause;
    throw new WarpconvError(
      'ERR_WARPCONV_INVALID_ARGUMENT',
      `model cannot be read: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

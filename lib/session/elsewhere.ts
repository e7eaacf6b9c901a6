/** Sessions whose model another runtime runs: what they take and give is checked and made here. */
import { readFile } from 'node:fs/promises';

import { WarpconvError } from '../errors';
import type { Graph, ValueInfo } from '../model/graph';
import { arraysOf, isDataType, tensorOver, type Tensor } from '../tensor/tensor';
import { bytesUnder, kindOf, type TypedArray } from '../tensor/typed_array';
import { arrayOf, type Feed } from './feeds';
import {
  Fallback,
  onnxruntimeNode,
  type OtherMetadata,
  type OtherSession,
  type OtherTensor,
} from './fallback';
import { keep, type OnnxModelFile } from './create_arguments';
import { outputFor } from './outputs';
import type { RunArguments, SessionRequest } from './session_options';

/** The fallback of a session to onnxruntime-node, on the CPU. It keeps the bytes of the model and of its files for that time. */
export function toOnnxruntime(model: OnnxModelFile, request: SessionRequest): Fallback {
  const kept = keep(model);
  const files = [...request.externalData].map(([path, data]) => [path, keep(data)] as const);
  return new Fallback('onnxruntime-node', async () => {
    const options = {
      executionProviders: ['cpu'],
      freeDimensionOverrides: Object.fromEntries(request.freeDimensions),
      externalData: await Promise.all(files.map(readFileOf)),
    };
    const session = await onnxruntimeNode().InferenceSession.create(kept, options);
    try {
      outlineOf(session);
      return session;
    } catch (error) {
      await session.release();
      throw error;
    }
  });
}

async function readFileOf([path, data]: readonly [path: string, data: Uint8Array | string]) {
  return { path, data: typeof data === 'string' ? await readFile(data) : data };
}

/** What the other session says of the model, without its nodes. */
export function outlineOf({ inputMetadata, outputMetadata }: OtherSession): Graph {
  return {
    opset: 0,
    inputs: inputMetadata.map(infoOf),
    outputs: outputMetadata.map(infoOf),
    nodes: [],
    constants: new Map(),
  };
}

function infoOf({ name, type, shape }: OtherMetadata): ValueInfo {
  if (type === undefined || !isDataType(type)) throw strange(name, type);
  // Neither scalars nor values of unknown rank have extents.
  if (shape === undefined || shape.length === 0) return { name, type, shape: undefined };
  return { name, type, shape: shape.map((extent) => (extent === '' ? null : extent)) };
}

function strange(name: string, type: string | undefined): WarpconvError {
  const what = type === undefined ? 'no tensor' : `a tensor of type '${type}'`;
  return new WarpconvError(
    'ERR_WARPCONV_UNSUPPORTED',
    `'${name}' is ${what}, which there is none of here; use onnxruntime-node's own sessions, with 'warpconv/onnxruntime'`,
  );
}

/** Runs the model there, with feeds that have been checked. */
export async function runElsewhere(
  other: OtherSession,
  inputs: readonly Feed[],
  { fetches }: RunArguments,
): Promise<Record<string, Tensor>> {
  const feeds = inputs.map((feed) => {
    const { name, type, dims } = feed;
    return [name, { type, dims, data: arrayOf(feed), location: 'cpu' }] as const;
  });
  const names = fetches === undefined ? other.outputNames : [...fetches.keys()];
  const outputs = await other.run(Object.fromEntries(feeds), names).catch((cause: unknown) => {
    const message = `onnxruntime did not run the model: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new WarpconvError('ERR_WARPCONV_UNSUPPORTED', message, { cause });
  });
  return Object.fromEntries(
    names.map((name) => [name, ownTensor(name, outputs[name]!, fetches?.get(name) ?? undefined)]),
  );
}

/** Over the same elements; or the caller's tensor, which they are written to. */
function ownTensor(name: string, output: OtherTensor, given: Tensor | undefined): Tensor {
  const { type, data } = output;
  const dims = Object.freeze([...output.dims]);
  if (!isDataType(type) || !arraysOf(type).includes(kindOf(data) ?? '')) throw strange(name, type);
  if (given === undefined) return tensorOver(type, data as TypedArray, dims);
  bytesUnder(outputFor({ name, type, dims }, given)).set(bytesUnder(data as TypedArray));
  return given;
}

/** ONNX files as graphs. */
import path from 'node:path';

import { invalid, mismatch } from '../../check';
import { WarpconvError } from '../../errors';
import { isDetached, kindOf, lengthOf } from '../../typed_array';
import { invalidModel } from '../complaints';
import type { Graph } from '../graph';
import { externalTensors, readExternalData } from './external_data';
import { allocate, readFilePart, sizeOfFile } from './files';
import { readModel } from './read_model';
import { decodeModel } from './wire';

/** Protocol buffers end here. */
const LARGEST_FILE = 2 ** 31 - 1;

/**
 * Loads an ONNX model. Only its form is checked here: `checkOperators` tells which nodes a compiler can take.
 *
 * @param model - the path of a file, whose external data are read from its folder, or a file's bytes, which are copied: the
 * caller may change them or transfer them away as soon as this returns
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming what is wrong with the file, `ERR_WARPCONV_UNSUPPORTED` for its version or the
 * types of its inputs and outputs, `ERR_WARPCONV_INVALID_ARGUMENT` where there is no file
 */
export async function loadOnnx(model: string | Uint8Array): Promise<Graph> {
  if (typeof model === 'string') return loadFile(model);
  return parseOnnx(model);
}

/** {@link loadOnnx} for bytes. */
export function parseOnnx(model: Uint8Array): Graph {
  const proto = decodeModel(copyBytes(model));
  const [external] = externalTensors(proto);
  if (external !== undefined) {
    throw invalidModel(`${external.what} has its data in another file; load the model by its path`);
  }
  return readModel(proto, new Map());
}

/** Constants are views of the bytes, and native code keeps their addresses: nobody else may have a say over this memory. */
function copyBytes(model: unknown): Uint8Array {
  if (kindOf(model) !== 'Uint8Array') throw mismatch('model', 'the path of a file or a Uint8Array', model);
  const bytes = model as Uint8Array;
  if (isDetached(bytes)) throw invalid('model is detached: its buffer was transferred away');
  const copy = allocate(lengthOf(bytes));
  copy.set(bytes);
  return copy;
}

async function loadFile(file: string): Promise<Graph> {
  const proto = decodeModel(await readFile(file));
  const external = externalTensors(proto);
  if (external.length === 0) return readModel(proto, new Map());
  return readModel(proto, await readExternalData(external, path.dirname(file)));
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

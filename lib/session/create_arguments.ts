/** The ways in which onnxruntime-common's `InferenceSession.create` is called, as one. */
import { types } from 'node:util';

import { checkInteger, invalid } from '../check';

/** A path, or bytes. */
export type OnnxModelFile = string | Uint8Array;

export interface CreateArguments {
  readonly model: OnnxModelFile;
  readonly options: unknown;
}

/**
 * @param model - a path or bytes, and `rest` is the options. Or a buffer, and `rest` is the offset of the model in it, its
 * length, and the options. The length may be left out or undefined, and so may both.
 */
export function readCreateArguments(model: unknown, rest: readonly unknown[]): CreateArguments {
  if (!types.isAnyArrayBuffer(model)) {
    if (rest.length > 1) throw invalid(`create(model, options) takes two arguments, got ${rest.length + 1}`);
    return { model: model as OnnxModelFile, options: rest[0] };
  }
  const firstOther = rest.slice(0, 2).findIndex((value) => typeof value !== 'number' && value !== undefined);
  const range = rest.slice(0, firstOther === -1 ? 2 : firstOther);
  const [options, ...more] = rest.slice(range.length);
  if (more.length > 0)
    throw invalid(
      'create(buffer, byteOffset, byteLength, options) takes no other arguments, in no other order',
    );
  return { model: bytesOf(model, range), options };
}

/** The model for a later time: the caller may change bytes once the session is there. */
export function keep(model: OnnxModelFile): OnnxModelFile {
  return types.isUint8Array(model) && model.byteLength > 0 ? Uint8Array.prototype.slice.call(model) : model;
}

function bytesOf(buffer: ArrayBufferLike, [byteOffset = 0, byteLength]: readonly unknown[]): Uint8Array {
  const whole = buffer.byteLength;
  const offset = checkInteger('byteOffset', byteOffset, { min: 0, max: whole });
  const length = checkInteger('byteLength', byteLength ?? whole - offset, { min: 0, max: whole - offset });
  return new Uint8Array(buffer, offset, length);
}

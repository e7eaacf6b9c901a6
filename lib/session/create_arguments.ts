/** The ways in which onnxruntime-common's `InferenceSession.create` is called, as one. */
import { isAnyArrayBuffer } from 'node:util/types';

import { checkInteger, invalid } from '../check';

export interface CreateArguments {
  readonly model: string | Uint8Array;
  readonly options: unknown;
}

/**
 * @param model - a path or bytes, followed by options; or a buffer, followed by the offset and the length of the model in it,
 * of which the length or both may be left out, and options
 */
export function readCreateArguments(model: unknown, rest: readonly unknown[]): CreateArguments {
  if (!isAnyArrayBuffer(model)) {
    if (rest.length > 1) throw invalid(`create(model, options) takes two arguments, got ${rest.length + 1}`);
    return { model: model as string | Uint8Array, options: rest[0] };
  }
  const numbers = rest.findIndex((value) => typeof value !== 'number');
  const range = numbers === -1 ? rest : rest.slice(0, numbers);
  const [options, ...more] = rest.slice(range.length);
  if (range.length > 2 || more.length > 0)
    throw invalid(
      'create(buffer, byteOffset, byteLength, options) takes no other arguments, in no other order',
    );
  return { model: bytesOf(model, range), options };
}

function bytesOf(buffer: ArrayBufferLike, [byteOffset = 0, byteLength]: readonly unknown[]): Uint8Array {
  const whole = buffer.byteLength;
  const offset = checkInteger('byteOffset', byteOffset, { min: 0, max: whole });
  const length = checkInteger('byteLength', byteLength ?? whole - offset, { min: 0, max: whole - offset });
  return new Uint8Array(buffer, offset, length);
}

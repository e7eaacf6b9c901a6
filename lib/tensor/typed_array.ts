/**
 * Facts about typed arrays, read past the object itself: the intrinsic getters see through subclasses and own
 * properties, and work on arrays of other realms, where `instanceof` does not.
 */
import { types } from 'node:util';

/** The arrays that can hold a tensor's elements. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object;

function intrinsic<T>(prototype: object, property: PropertyKey): (target: object) => T {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, property);
  return (target) => descriptor?.get?.call(target) as T;
}

const kind = intrinsic<string | undefined>(typedArrayPrototype, Symbol.toStringTag);
const resizable = intrinsic<boolean>(ArrayBuffer.prototype, 'resizable');

export const lengthOf = intrinsic<number>(typedArrayPrototype, 'length');
export const bufferOf = intrinsic<ArrayBufferLike>(typedArrayPrototype, 'buffer');
const byteOffsetOf = intrinsic<number>(typedArrayPrototype, 'byteOffset');
const byteLengthOf = intrinsic<number>(typedArrayPrototype, 'byteLength');

/** `'Float32Array'` and so on; `undefined` for anything that is not a typed array. */
export function kindOf(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null ? kind(value) : undefined;
}

/** Whether the array's memory was transferred away. */
export function isDetached(array: TypedArray): boolean {
  const buffer = bufferOf(array);
  if (lengthOf(array) > 0 || types.isSharedArrayBuffer(buffer)) return false;
  // ArrayBuffer.prototype.detached came after Node 20; a view on a detached buffer is refused everywhere.
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

/** Why native code may not hold on to the array's memory during a call; `undefined` when it may. */
export function instability(array: TypedArray): 'shared' | 'resizable' | undefined {
  const buffer = bufferOf(array);
  if (types.isSharedArrayBuffer(buffer)) return 'shared';
  return resizable(buffer) ? 'resizable' : undefined;
}

/** The same memory, as bytes. */
export function bytesUnder(array: TypedArray): Uint8Array {
  return new Uint8Array(bufferOf(array), byteOffsetOf(array), byteLengthOf(array));
}

/** The bytes of an array of bytes from one place to another, as a view. */
export function partOf(array: Uint8Array, start: number, end: number): Uint8Array {
  return bytesUnder(array).subarray(start, end);
}

/** Whether two arrays have bytes in common. */
export function overlap(a: TypedArray, b: TypedArray): boolean {
  const [startA, startB] = [byteOffsetOf(a), byteOffsetOf(b)];
  return (
    bufferOf(a) === bufferOf(b) && startA < startB + byteLengthOf(b) && startB < startA + byteLengthOf(a)
  );
}

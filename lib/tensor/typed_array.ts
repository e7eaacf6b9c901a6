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

/** The runtime's array of float16. What a polyfill makes is of another kind, if it is a typed array at all. */
const Float16 = (globalThis as { Float16Array?: Float16Constructor }).Float16Array;
type Float16Constructor = new (buffer?: ArrayBufferLike, byteOffset?: number, length?: number) => Uint16Array;

/** Whether float16 has an array of its own here: Node.js 24 and later have it. */
export const HAS_FLOAT16 = Float16 !== undefined && kindOf(new Float16()) === 'Float16Array';

/** Elements of float16 as their bits, for native code: not every version of Node-API has heard of a `Float16Array`. */
export function bitsOf(array: TypedArray): TypedArray {
  if (kindOf(array) !== 'Float16Array' || isDetached(array)) return array;
  return new Uint16Array(bufferOf(array), byteOffsetOf(array), lengthOf(array));
}

/** Bits of float16 as callers are given them. */
export function halvesOf(bits: TypedArray): TypedArray {
  if (!HAS_FLOAT16 || kindOf(bits) !== 'Uint16Array') return bits;
  return new Float16!(bufferOf(bits), byteOffsetOf(bits), lengthOf(bits));
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

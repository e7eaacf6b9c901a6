/** Shared memory of the package's own, whose threads leave it alone while a call reads it. */
import { bufferOf, type TypedArray } from './typed_array';

const lent = new WeakSet<ArrayBufferLike>();

/** Notes that whoever writes to a buffer lends what he has written to calls, and waits for their end. */
export function noteLent(buffer: SharedArrayBuffer): void {
  lent.add(buffer);
}

export function isLent(array: TypedArray): boolean {
  return lent.has(bufferOf(array));
}

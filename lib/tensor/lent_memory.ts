/** Shared memory of the package's own, whose threads leave it alone while a call reads it. */
import { bufferOf, type TypedArray } from './typed_array';

const lent = new WeakSet<ArrayBufferLike>();

/** Notes a buffer whose contents stay as they are while a call reads them: who writes to it waits for the call. */
export function noteLent(buffer: SharedArrayBuffer): void {
  lent.add(buffer);
}

export function isLent(array: TypedArray): boolean {
  return lent.has(bufferOf(array));
}

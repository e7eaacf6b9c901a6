/** Memory for results. */
import { constants } from 'node:buffer';

import { allocate } from './allocation';
import { elementCount } from '../check';
import { addon } from '../load';
import { arrayLength } from './packed';
import { CONSTRUCTORS, type DataType, type DataTypeMap } from './tensor';

/**
 * An array for an output of which a call that succeeds writes every element, and which nobody sees if it fails: what it
 * holds until then is noise, which may be what an earlier result was.
 *
 * @param scratchBytes - bytes of CPU memory that the call takes besides
 */
export function newOutputArray<T extends DataType>(
  type: T,
  dims: readonly number[],
  scratchBytes = 0,
): DataTypeMap[T] {
  const Elements = CONSTRUCTORS[type];
  const bytes = arrayLength(type, elementCount(dims)) * Elements.BYTES_PER_ELEMENT;
  const purpose = { what: 'an output', dims, bytes, scratchBytes };
  return allocate(purpose, () => new Elements(allocateBytes(bytes)));
}

/** An ArrayBuffer of its own, as transferable as any other: over recycled memory, or else uninitialised where possible. */
function allocateBytes(bytes: number): ArrayBuffer {
  if (bytes < LEAST_UNINITIALISED_BYTES || bytes > constants.MAX_LENGTH) return new ArrayBuffer(bytes);
  const recycled = bytes < LEAST_RECYCLED_BYTES ? null : addon().allocateOutput(bytes);
  return recycled ?? allocateUninitialised(bytes);
}

/** Zeros that are about to be overwritten took half a millisecond of the event loop for 12.8 MB, of a convolution of 3. */
function allocateUninitialised(bytes: number): ArrayBuffer {
  const buffer = Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer;
  if (bytes >= LEAST_HUGE_BYTES) addon().adviseHugePages(new Uint8Array(buffer));
  return buffer;
}

/** To ask for such memory takes longer than to fill less with zeros. */
const LEAST_UNINITIALISED_BYTES = 4 * 2 ** 10;

/**
 * Recycled memory is whole pages, of which less leaves a good part unused. The C library of Linux takes less from memory
 * that was used before.
 */
const LEAST_RECYCLED_BYTES = 32 * 2 ** 10;

/**
 * Of memory that is not recycled: the C library gives freed memory from here on back to the system, so that every such
 * output is new to it; 40 MB were written in 25 ms with huge pages and in 56 without.
 */
const LEAST_HUGE_BYTES = 32 * 2 ** 20;

/** Reading files that may be larger than what Node.js reads at once, or no files at all. */
import { constants } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';

import { allocate as allocateFor } from '../../tensor/allocation';
import type { Sliced } from '../../slices';

// Node.js reads less than 2 GiB at once.
const LONGEST_READ = 2 ** 30;

/** No system takes longer ones. */
const LONGEST_PATH = 32_767;

/** The size in bytes; throws for what is no file. To open a pipe would be to wait for its other end. */
export async function sizeOfFile(file: string): Promise<number> {
  // A message has the path in it.
  if (file.length > LONGEST_PATH) throw new Error(`its path has ${file.length} characters`);
  const status = await stat(file);
  requireFile(status, file);
  return status.size;
}

/** @throws `ERR_WARPCONV_OUT_OF_MEMORY`, or whatever went wrong with the file */
export async function readFilePart(file: string, offset: number, length: number): Promise<Uint8Array> {
  const bytes = allocate(length);
  const handle = await openFile(file);
  try {
    for (let done = 0; done < length;) {
      const { bytesRead } = await handle.read(
        bytes,
        done,
        Math.min(length - done, LONGEST_READ),
        offset + done,
      );
      if (bytesRead === 0) throw new Error('it became shorter while it was read');
      done += bytesRead;
    }
  } finally {
    await handle.close();
  }
  return bytes;
}

/** Opens a file, which something else may have replaced since anybody looked. Windows has no such flag, nor such pipes. */
async function openFile(file: string): Promise<FileHandle> {
  const handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    requireFile(await handle.stat(), file);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function requireFile(status: { isFile(): boolean }, file: string): void {
  if (!status.isFile()) throw new Error(`it is not a file: '${file}'`);
}

/** @throws `ERR_WARPCONV_OUT_OF_MEMORY` */
export function allocate(length: number): Uint8Array {
  return allocateFor({ what: 'the model', bytes: length }, () => new Uint8Array(length));
}

/** Bytes that are copied in a tenth of a millisecond to half of one, where the memory is new. */
export const COPIED_AT_ONCE = 2 ** 20;

/** Copies bytes to a place in others. */
export function* copyInSlices(from: Uint8Array, to: Uint8Array, place: number): Sliced<void> {
  for (let at = 0; at < from.length; at += COPIED_AT_ONCE) {
    yield;
    to.set(from.subarray(at, at + COPIED_AT_ONCE), place + at);
  }
}

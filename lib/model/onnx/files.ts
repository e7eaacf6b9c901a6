/** Reading files that may be larger than what Node.js reads at once, or no files at all. */
import { open, stat } from 'node:fs/promises';

import { plural } from '../../check';
import { WarpconvError } from '../../errors';

// Node.js reads less than 2 GiB at once.
const LONGEST_READ = 2 ** 30;

/** The size in bytes; throws for what is no file. To open a pipe would be to wait for its other end. */
export async function sizeOfFile(file: string): Promise<number> {
  const status = await stat(file);
  if (!status.isFile()) throw new Error('it is not a file');
  return status.size;
}

/** @throws `ERR_WARPCONV_OUT_OF_MEMORY`, or whatever went wrong with the file */
export async function readFilePart(file: string, offset: number, length: number): Promise<Uint8Array> {
  const bytes = allocate(length);
  const handle = await open(file);
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

/** @throws `ERR_WARPCONV_OUT_OF_MEMORY` */
export function allocate(length: number): Uint8Array {
  try {
    return new Uint8Array(length);
  } catch (cause) {
    throw new WarpconvError(
      'ERR_WARPCONV_OUT_OF_MEMORY',
      `there is no memory for ${plural(length, 'byte')} of the model`,
      { cause },
    );
  }
}

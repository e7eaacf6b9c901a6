/** Memory that callers and models ask for by their dims, and whether it can be had. */
import { readFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';

import { describe } from '../check';
import { WarpconvError } from '../errors';
import { addon } from '../load';

/** What memory is asked for. */
export interface Purpose {
  readonly what: string;
  readonly dims?: readonly number[];
  readonly bytes: number;
  /** Bytes that native code takes besides, for the same call; default 0 */
  readonly scratchBytes?: number;
}

/** To ask what is available takes 0.2 ms, and to write to that much memory 30 times as long. */
export const LEAST_CHECKED_BYTES = 64 * 2 ** 20;

/**
 * What `make` makes, which does nothing but ask for memory.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`, with a `RangeError` for its cause
 */
export function allocate<T>(purpose: Purpose, make: () => T): T {
  admit(purpose);
  try {
    return make();
  } catch (cause) {
    throw unavailable(purpose, 'the runtime refuses', cause);
  }
}

/**
 * Checks that so much CPU memory can be had, where it is much. Linux gives more than there is, and ends the process when
 * it is used.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`
 */
export function admit(purpose: Purpose): void {
  const needed = purpose.bytes + (purpose.scratchBytes ?? 0);
  if (needed < LEAST_CHECKED_BYTES) return;
  const available = availableMemory(needed);
  if (needed <= available) return;
  const reason = `${available} bytes are available`;
  throw unavailable(purpose, reason, new RangeError(reason));
}

function unavailable({ what, dims, bytes, scratchBytes = 0 }: Purpose, reason: string, cause: unknown) {
  const shape = dims === undefined ? '' : ` of dims ${describe(dims)}`;
  const scratch = scratchBytes === 0 ? '' : ` and ${scratchBytes} of scratch memory`;
  return new WarpconvError(
    'ERR_WARPCONV_OUT_OF_MEMORY',
    `cannot allocate ${bytes} bytes for ${what}${shape}${scratch}: ${reason}; work on fewer images at a time`,
    { cause },
  );
}

/**
 * Bytes of CPU memory that this process can take without driving the system, or its container, out of memory. Systems other
 * than Linux swap what is in use, so that all of their memory counts.
 *
 * @param wanted - where less is available, what former outputs have left goes back to the system first
 */
export function availableMemory(wanted = 0): number {
  const available = askForAvailable();
  if (wanted <= available) return available;
  addon().releaseIdleOutputs();
  return askForAvailable();
}

function askForAvailable(): number {
  if (process.platform !== 'linux') return totalmem();
  const limit = process.constrainedMemory();
  const left = process.availableMemory?.();
  // Without a limit, Node.js has 0 or more than the machine; and 0 is left where /proc is not mounted.
  if (!(limit > 0 && limit < totalmem())) return Math.min(freemem(), left || Infinity);
  const free = Math.min(freemem(), left ?? Infinity);
  // What is left of a limit does not count the files that the kernel keeps in memory until somebody needs it.
  return Math.min(freemem(), free + cachedFiles());
}

/** Bytes of files that the kernel holds for this process's control group, and gives up before it ends a process. */
function cachedFiles(): number {
  for (const [file, prefix] of groupStatistics()) {
    const text = readText(file);
    if (text === undefined) continue;
    const count = (name: string) => Number(new RegExp(`^${prefix}${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
    // As the kernel reckons: some of the files in use had better stay.
    return count('inactive_file') + count('active_file') / 2;
  }
  return 0;
}

/** Where the statistics of the group may be, and what their names begin with, for both versions of control groups. */
function* groupStatistics(): Generator<[file: string, prefix: string]> {
  const groups = readText('/proc/self/cgroup') ?? '';
  const [, first] = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups) ?? [];
  const [, second] = /^0::(.*)$/m.exec(groups) ?? [];
  if (first !== undefined) {
    yield [`/sys/fs/cgroup/memory${first}/memory.stat`, 'total_'];
    // In a container the path may be that of the host.
    yield ['/sys/fs/cgroup/memory/memory.stat', 'total_'];
  }
  if (second !== undefined) yield [`/sys/fs/cgroup${second}/memory.stat`, ''];
  yield ['/sys/fs/cgroup/memory.stat', ''];
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

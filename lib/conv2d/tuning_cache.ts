/**
 * What tuning has measured, kept for this process and for others: one small file for each problem in the user's cache
 * directory, named by a hash of all that the measurement depends on, and holding that, too.
 *
 * A file for each entry is what makes it safe. A writer fills a temporary file and renames it, which readers see done or not
 * done, whenever the writer is killed. Processes that measure different problems write different files, so that nothing has
 * to be merged, no update is lost and no lock can go stale; of two that measure the same problem the later rename wins, and
 * both are right. One file for all would need a lock from reading to writing back; lines appended to one file may be cut
 * short by a full disk, and the next line then continues a torn one. All that a kill can leave is a temporary file, which
 * nothing reads.
 *
 * Files are read and written on the calling thread: they are of a few kilobytes, read once for a problem, and written after a
 * measurement that took a thousand times as long. What is no file, or too large for one of ours, is not read: a pipe or a
 * device in its place would have the process wait for ever.
 */
import { createHash, randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

import type { NativeMeasurement } from '../addon';
import { cacheFolder } from '../cache_folder';
import { isObject } from '../check';

/** All that a measurement depends on, as JSON. */
export type TuningKey = string;

/** What a measurement found. */
export interface TuningRecord {
  /** ISO 8601 */
  readonly measuredAt: string;
  /** At least one; the fastest first */
  readonly measurements: readonly NativeMeasurement[];
}

/** Changes with the form of the files. */
const FORMAT = 1;

export class TuningCache {
  readonly #records = new Map<TuningKey, TuningRecord>();
  readonly #warned = new Set<Trouble>();

  /** What was found for the key, by this process or another. */
  recall(key: TuningKey): TuningRecord | undefined {
    const known = this.#records.get(key) ?? this.#read(key);
    if (known !== undefined) this.#records.set(key, known);
    return known;
  }

  /** Never fails: where nothing can be written, this process alone remembers. */
  remember(key: TuningKey, record: TuningRecord): void {
    this.#records.set(key, record);
    try {
      writeAtomically(fileOf(key), `${JSON.stringify({ key: JSON.parse(key) as unknown, ...record })}\n`);
    } catch (error) {
      this.#warn(
        'unwritable',
        `cannot be written: ${String(error)}; what is measured is forgotten with the process, ` +
          'unless WARPCONV_CACHE_DIR is set to a directory that can be',
      );
    }
  }

  #read(key: TuningKey): TuningRecord | undefined {
    const found = readEntry(key);
    if (typeof found !== 'string') return found;
    this.#warn('unreadable', `${found}; it is ignored, and its problem measured again`);
    return undefined;
  }

  /** Once for each kind of trouble: what befalls one file often befalls them all. */
  #warn(trouble: Trouble, message: string): void {
    if (this.#warned.has(trouble)) return;
    this.#warned.add(trouble);
    process.emitWarning(`the tuning cache ${message}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_TUNING_CACHE',
    });
  }
}

type Trouble = 'unreadable' | 'unwritable';

function fileOf(key: TuningKey): string {
  const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
  return path.join(cacheFolder(), `tuning-${FORMAT}`, `${name}.json`);
}

function writeAtomically(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  // Process numbers are not unique where containers share a directory.
  const temporary = `${file}.${randomUUID()}.tmp`;
  try {
    writeFileSync(temporary, text, { flag: 'wx' });
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** The entry of that key, nothing where there is none, or a sentence on what is wrong with it. */
function readEntry(key: TuningKey): TuningRecord | string | undefined {
  let file: string;
  try {
    file = fileOf(key);
  } catch {
    // remember() warns of it.
    return undefined;
  }
  let text: string;
  try {
    text = readSmallFile(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    return `cannot be read: ${String(error)}`;
  }
  return parseEntry(text, key) ?? `has a file that is not as it was written, ${file}`;
}

/** Far more than there are algorithms and variants. */
const MOST_BYTES = 2 ** 20;

function readSmallFile(file: string): string {
  // Without the flag, which Windows does not have, a pipe would not be open before somebody writes to it.
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw new Error(`${file} is not a file`);
    if (status.size > MOST_BYTES)
      throw new Error(`${file} has ${status.size} bytes, and at most ${MOST_BYTES} are read`);
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

function parseEntry(text: string, key: TuningKey): TuningRecord | undefined {
  let entry: Partial<Record<keyof TuningRecord | 'key', unknown>>;
  let found: string | undefined;
  try {
    entry = Object(JSON.parse(text)) as typeof entry;
    // Of lists in lists it throws before JSON.parse does.
    found = JSON.stringify(entry.key);
  } catch {
    return undefined;
  }
  const { measuredAt, measurements } = entry;
  if (found !== key || typeof measuredAt !== 'string') return undefined;
  if (!Array.isArray(measurements) || measurements.length === 0) return undefined;
  return measurements.every(isMeasurement) ? { measuredAt, measurements } : undefined;
}

function isMeasurement(value: unknown): value is NativeMeasurement {
  if (!isObject(value)) return false;
  const { algorithm, variant, milliseconds } = value as Partial<Record<keyof NativeMeasurement, unknown>>;
  return typeof algorithm === 'string' && typeof variant === 'string' && typeof milliseconds === 'number';
}

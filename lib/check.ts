/**
 * The one place that words complaints. Every check takes the name of what it checks as the caller wrote it, for
 * example `weight.dims` or `options.stride`.
 */
import { WarpconvError } from './errors';
import { isDetached, kindOf, lengthOf, type TypedArray } from './typed_array';

/** The largest stride, dilation, padding or group count: native code counts in 32 bits. */
export const MAX_INT32 = 2 ** 31 - 1;

const LONGEST_QUOTE = 40;
const LONGEST_LIST = 8;

/** A value as a message shows it: short, and without running the value's own code. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value.length > LONGEST_QUOTE ? `'${value.slice(0, LONGEST_QUOTE)}…'` : `'${value}'`;
    case 'bigint':
      return `${value}n`;
    case 'function':
      return 'a function';
    case 'object':
      return describeObject(value);
    default:
      return String(value);
  }
}

function describeObject(value: object | null): string {
  if (value === null) return 'null';
  const array = kindOf(value);
  if (array !== undefined) return `${array} of ${plural(lengthOf(value), 'element')}`;
  if (!Array.isArray(value)) return 'an object';
  const shown = value.slice(0, LONGEST_LIST).map((element) => (isObject(element) ? '…' : describe(element)));
  return `[${shown.join(', ')}${value.length > LONGEST_LIST ? ', …' : ''}]`;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** `'a', 'b' or 'c'` */
export function alternatives(words: readonly string[]): string {
  const quoted = words.map((word) => `'${word}'`);
  return quoted.length < 2 ? quoted.join() : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function invalid(message: string): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', message);
}

export function mismatch(name: string, expected: string, value: unknown): WarpconvError {
  return invalid(`${name} must be ${expected}, got ${describe(value)}`);
}

export interface IntegerRange {
  readonly min: 0 | 1;
  readonly max: number;
}

function isIntegerIn(value: unknown, { min, max }: IntegerRange): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

function kindOfInteger({ min, max }: IntegerRange, value: unknown): string {
  const kind = min === 1 ? 'a positive integer' : 'a non-negative integer';
  return typeof value === 'number' && value > max ? `${kind} of at most ${max}` : kind;
}

export function checkInteger(name: string, value: unknown, range: IntegerRange): number {
  if (!isIntegerIn(value, range)) throw mismatch(name, kindOfInteger(range, value), value);
  return value;
}

/** Copies a list of integers, reading each element once. `shape` says what the list is, for example `[N, C, H, W]`. */
export function checkIntegers(
  name: string,
  value: unknown,
  lengths: readonly number[] | 'any',
  range: IntegerRange,
  shape: string,
): number[] {
  if (!Array.isArray(value)) throw mismatch(name, shape, value);
  const length = value.length;
  if (lengths !== 'any' && !lengths.includes(length)) throw mismatch(name, shape, value);
  const integers: number[] = [];
  for (let index = 0; index < length; index++) {
    const element: unknown = value[index];
    // The element gets its name only for a complaint: names took half of the time of a small call.
    integers.push(isIntegerIn(element, range) ? element : checkInteger(`${name}[${index}]`, element, range));
  }
  return integers;
}

/** A number for both axes, or `[height, width]`. */
export function checkPair(name: string, value: unknown, range: IntegerRange): [number, number] {
  const shape = `${kindOfInteger(range, value)} or [height, width]`;
  if (isIntegerIn(value, range)) return [value, value];
  const [height, width] = checkIntegers(name, value, [2], range, shape);
  return [height!, width!];
}

export function checkNumber(name: string, value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) throw mismatch(name, 'a number', value);
  return value;
}

export function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw mismatch(name, 'true or false', value);
  return value;
}

export function checkOneOf<T extends string>(name: string, value: unknown, words: readonly T[]): T {
  if (words.includes(value as T)) return value as T;
  const guess = typeof value === 'string' ? didYouMean(value, words) : '';
  throw invalid(`${name} must be ${alternatives(words)}, got ${describe(value)}${guess}`);
}

/** Checks that `data` is there and has the elements that `dims` describe. `owner` is `'weight.'`, say, or empty. */
export function checkElements(owner: string, data: TypedArray, dims: readonly number[]): void {
  if (isDetached(data)) {
    throw invalid(
      `${owner}data is detached: its buffer was transferred away; pass the array that has it now`,
    );
  }
  checkCount(owner, lengthOf(data), dims);
}

/** Checks that so many elements are what `dims` describe. */
export function checkCount(owner: string, count: number, dims: readonly number[]): void {
  const needed = elementCount(dims);
  if (count === needed) return;
  throw invalid(
    `${owner}data has ${plural(count, 'element')}; ${owner}dims ${describe(dims)} needs ${needed}`,
  );
}

export function areSameDims(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

export function elementCount(dims: readonly number[]): number {
  let count = 1;
  for (const extent of dims) count *= extent;
  return count;
}

/**
 * Reads the properties of an options object, each once, filling in defaults for those that are undefined. The keys
 * of `defaults` are the whole set; any other is refused, since a misspelt option that is ignored does nothing.
 */
export function readProperties<D extends object>(
  name: string,
  value: unknown,
  defaults: D,
): Record<keyof D, unknown> {
  if (!isObject(value) || Array.isArray(value) || kindOf(value) !== undefined) {
    throw mismatch(name, 'an object', value);
  }
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(defaults, key)) throw stranger(name, key, Object.keys(defaults));
  }
  const given = value as Readonly<Record<string, unknown>>;
  const filled = { ...defaults } as Record<string, unknown>;
  for (const key of Object.keys(defaults)) {
    const property = given[key];
    if (property !== undefined) filled[key] = property;
  }
  return filled as Record<keyof D, unknown>;
}

function stranger(name: string, key: string, known: readonly string[]): WarpconvError {
  const guess = didYouMean(key, known) || `; ${name} takes ${known.join(', ')}`;
  return invalid(`${name}.${key} is not known${guess}`);
}

function didYouMean(word: string, words: readonly string[]): string {
  const nearest = words
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)[0];
  const near = nearest !== undefined && nearest.distance <= Math.max(2, Math.floor(word.length / 3));
  return near ? `; did you mean '${nearest.candidate}'?` : '';
}

/** Levenshtein's: insertions, deletions and substitutions that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const substitution = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1));
    }
    previous = current;
  }
  return previous[b.length]!;
}

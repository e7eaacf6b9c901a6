/**
 * The one place that words complaints. Every check takes the name of what it checks as the caller wrote it, for
 * example `weight.dims` or `options.stride`.
 *
 * Arguments are hostile: getters and proxies throw or change their answers, lists have holes, and somebody may have put
 * options on `Object.prototype`. So every property is read once, and lists by their index, never by their own methods.
 */
import { types } from 'node:util';

import { WarpconvError } from './errors';
import { nearest } from './nearest';
import { isDetached, kindOf, lengthOf, type TypedArray } from './tensor/typed_array';

/** The largest stride, dilation, padding or group count: native code counts in 32 bits. */
export const MAX_INT32 = 2 ** 31 - 1;

const LONGEST_QUOTE = 40;
const LONGEST_LIST = 8;

/** Most elements of a list of dims, names or problems: a proxy of a list may claim to have 2^32. */
const MOST_LISTED = 65_536;

/** A value as a message shows it: short, and without running the value's own code. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `'${shorten(value)}'`;
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
  if (types.isPromise(value)) return 'a promise';
  // Nothing about a proxy can be told without asking it.
  if (types.isProxy(value) || !Array.isArray(value)) return 'an object';
  const shown: string[] = [];
  for (let index = 0; index < value.length && index < LONGEST_LIST; index++)
    shown.push(describeAt(value, index));
  return `[${shown.join(', ')}${value.length > LONGEST_LIST ? ', …' : ''}]`;
}

/** An element of a list. A hole is undefined; what a getter would give is not asked for. */
function describeAt(list: readonly unknown[], index: number): string {
  const property = Object.getOwnPropertyDescriptor(list, index);
  const isShown = property === undefined || ('value' in property && !isObject(property.value));
  return isShown ? describe(property?.value) : '…';
}

/** As much of a text as a message shows. */
export function shorten(text: string): string {
  return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** `'a', 'b' or 'c'` */
export function alternatives(words: readonly string[]): string {
  const quoted = words.map((word) => `'${shorten(word)}'`);
  return quoted.length < 2 ? quoted.join() : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Array.isArray, which throws on a proxy that was revoked. */
export function isList(name: string, value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch (error) {
    throw unreadable(name, error);
  }
}

export function invalid(message: string): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', message);
}

/** @param remedy - what to do, to be appended */
export function mismatch(name: string, expected: string, value: unknown, remedy = ''): WarpconvError {
  return invalid(`${name} must be ${expected}, got ${describe(value)}${remedy}`);
}

/** The error for what was thrown while an argument was read. Our own errors stay as they are. */
export function unreadable(name: string, cause: unknown): WarpconvError {
  if (isOurs(cause)) return cause;
  const message = `${name} cannot be read: ${describeThrown(cause)}`;
  return new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', message, { cause });
}

/** Whatever is thrown can be a proxy, too. */
function isOurs(thrown: unknown): thrown is WarpconvError {
  try {
    return thrown instanceof WarpconvError;
  } catch {
    return false;
  }
}

function describeThrown(thrown: unknown): string {
  const message: unknown =
    types.isNativeError(thrown) && Object.getOwnPropertyDescriptor(thrown, 'message')?.value;
  return typeof message === 'string' ? shorten(message) : `it threw ${describe(thrown)}`;
}

/**
 * A property of an argument, read once: its own or its class's. What somebody put on `Object.prototype` is every object's
 * and nobody's argument.
 */
export function propertyOf(object: object, key: string): unknown {
  const value = (object as Readonly<Record<string, unknown>>)[key];
  return value === undefined || !(key in Object.prototype) || has(object, key) ? value : undefined;
}

/** Longer chains of prototypes are those of proxies without an end. */
const LONGEST_CHAIN = 100;

/** Whether the object or one of its classes has the property. */
function has(object: object, key: string): boolean {
  let holder: object | null = object;
  for (let links = 0; links < LONGEST_CHAIN; links++) {
    if (holder === null || holder === Object.prototype) return false;
    if (Object.hasOwn(holder, key)) return true;
    holder = Object.getPrototypeOf(holder) as object | null;
  }
  return false;
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
  return positiveZero(value);
}

/** Zero has one sign here: dims are compared, and make keys. */
function positiveZero(value: number): number {
  return value + 0;
}

/**
 * Copies a list of integers, reading each element once.
 *
 * @param shape - what the list is, for example `[N, C, H, W]`
 * @param first - the range of the first element, where that is another
 */
export function checkIntegers(
  name: string,
  value: unknown,
  lengths: readonly number[] | 'any',
  range: IntegerRange,
  shape: string,
  first = range,
): number[] {
  try {
    if (!Array.isArray(value)) throw mismatch(name, shape, value);
    const length = value.length;
    if (lengths === 'any') requireListable(name, length);
    else if (!lengths.includes(length)) throw mismatch(name, shape, value);
    const integers: number[] = [];
    for (let index = 0; index < length; index++) {
      const element: unknown = value[index];
      // The element gets its name only for a complaint: names took half of the time of a small call.
      const isInteger = isIntegerIn(element, index === 0 ? first : range);
      integers.push(isInteger ? positiveZero(element) : checkInteger(`${name}[${index}]`, element, range));
    }
    return integers;
  } catch (error) {
    throw unreadable(name, error);
  }
}

function requireListable(name: string, length: number): void {
  if (length <= MOST_LISTED) return;
  throw invalid(`${name} has ${length} elements; a list here has at most ${MOST_LISTED}`);
}

/**
 * Reads a list, each element once. A hole is an element that is undefined.
 *
 * @param what - what the list is, for example `'a list of problems'`
 * @param read - checks an element, by its name
 */
export function checkList<T>(
  name: string,
  value: unknown,
  what: string,
  read: (name: string, element: unknown) => T,
): T[] {
  try {
    if (!Array.isArray(value)) throw mismatch(name, what, value);
    const length = value.length;
    requireListable(name, length);
    const elements: T[] = [];
    for (let index = 0; index < length; index++) elements.push(read(`${name}[${index}]`, value[index]));
    return elements;
  } catch (error) {
    throw unreadable(name, error);
  }
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

export function checkName(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw mismatch(name, 'a string that is not empty', value);
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

/**
 * Checks that `data` is there and has the elements that `dims` describe, or as many bytes of packed ones. `owner` is
 * `'weight.'`, say, or empty.
 */
export function checkElements(
  owner: string,
  data: TypedArray,
  dims: readonly number[],
  needed = elementCount(dims),
): void {
  if (isDetached(data)) {
    throw invalid(
      `${owner}data is detached: its buffer was transferred away; pass the array that has it now`,
    );
  }
  checkCount(owner, lengthOf(data), dims, needed);
}

/** Checks that so many elements are what `dims` describe. */
export function checkCount(
  owner: string,
  count: number,
  dims: readonly number[],
  needed = elementCount(dims),
): void {
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

/** Whether dims `[N, …]` hold no images. */
export function isEmptyBatch(dims: readonly number[]): boolean {
  return dims[0] === 0;
}

export function elementCount(dims: readonly number[]): number {
  let count = 1;
  for (const extent of dims) count *= extent;
  return count;
}

/**
 * The names and values of an object that lists things by their names, each value read once.
 *
 * @param what - what the object is, for example `'an object of tensors by name'`
 */
export function readEntries(name: string, value: unknown, what: string): [string, unknown][] {
  try {
    if (!isObject(value) || Array.isArray(value) || kindOf(value) !== undefined)
      throw mismatch(name, what, value);
    const entries = Object.entries(value);
    // A Map has entries of its own, which nobody would look at.
    if (entries.length === 0 && !isPlain(value)) throw mismatch(name, what, value);
    return entries;
  } catch (error) {
    throw unreadable(name, error);
  }
}

/**
 * Reads the properties of an options object, each once, filling in defaults for those that are undefined. The keys
 * of `defaults` are the whole set; any other is refused, since a misspelt option that is ignored does nothing. Options are
 * the object's own properties or those of its class, such as getters; what is on `Object.prototype` is none.
 */
export function readProperties<D extends object>(
  name: string,
  value: unknown,
  defaults: D,
): Record<keyof D, unknown> {
  try {
    if (!isObject(value) || Array.isArray(value) || kindOf(value) !== undefined) {
      throw mismatch(name, 'an object', value);
    }
    const keys = Object.keys(value);
    for (const key of keys) {
      if (!Object.hasOwn(defaults, key)) throw stranger(name, key, Object.keys(defaults));
    }
    if (keys.length === 0) requireOptions(name, value, Object.keys(defaults));
    const filled = { ...defaults } as Record<string, unknown>;
    for (const key of Object.keys(defaults)) {
      const property = propertyOf(value, key);
      if (property !== undefined) filled[key] = property;
    }
    return filled as Record<keyof D, unknown>;
  } catch (error) {
    throw unreadable(name, error);
  }
}

/** An empty object has no options; an instance of a class without any, such as a `Map` of them, is a mistake. */
function requireOptions(name: string, value: object, known: readonly string[]): void {
  if (isPlain(value) || known.some((key) => has(value, key))) return;
  throw invalid(
    `${name} must be an object whose properties are ${known.join(', ')}; got ${describe(value)} with none`,
  );
}

/** Whether it is of no class, in any realm. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function stranger(name: string, key: string, known: readonly string[]): WarpconvError {
  const guess = didYouMean(key, known) || `; ${name} takes ${known.join(', ')}`;
  return invalid(`${name}.${shorten(key)} is not known${guess}`);
}

function didYouMean(word: string, words: readonly string[]): string {
  const meant = nearest(word, words);
  return meant === undefined ? '' : `; did you mean '${meant}'?`;
}

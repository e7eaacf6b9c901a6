/**
 * The JSON of requests, parsed so that no body holds up the event loop.
 *
 * `JSON.parse` takes 1 to 12 ms of processor time for a MiB of text or of numbers, and up to 90 for one of small lists,
 * objects and keys (Node.js 20, one EPYC core). The elements of tensors, of which there may be many, are therefore taken
 * out and parsed piece by piece; the rest may have only so many parts.
 */
import { randomUUID } from 'node:crypto';

import { describe, elementCount, invalid, mismatch, plural } from '../check';
import type { TypedArray } from '../tensor/typed_array';
import type { Datatype } from './datatypes';
import { Refusal } from './refusal';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const SPACE = 0x20;

/** Lists of elements that are shorter are parsed with the rest. */
const SHORT = 256;

/** Most lists, objects and strings beside the elements of tensors: 1 ms of parsing, where they are of the worst kind. */
const MOST_PARTS = 1024;
/** And that many more for each input and output of the model, which take 13 with parameters. */
const PARTS_OF_VALUE = 64;
/** What parsing a part takes, as a multiple of a byte of a number; other elements of lists are in between. */
const PART_WEIGHT = 32;
const COMMA_WEIGHT = 4;

/** How many bytes of elements are parsed in one turn of the event loop: up to 2 ms. */
const PIECE = 2 ** 16;

/** In place of a list that was taken out. Nobody who sends JSON can know it. */
const MARK = randomUUID();

/** Long lists named `data`, as they stand in the JSON. */
export class LongLists {
  readonly #lists = new Map<string, Buffer>();

  /** @returns what stands for the list */
  add(list: Buffer): string {
    const mark = `${MARK} ${this.#lists.size}`;
    this.#lists.set(mark, list);
    return mark;
  }

  /** The list that a parsed value stands for, once. */
  take(value: unknown): Buffer | undefined {
    const list = this.#lists.get(value as string);
    this.#lists.delete(value as string);
    return list;
  }

  requireAllTaken(): void {
    if (this.#lists.size > 0) throw invalid('the request has a long list of data that belongs to no input');
  }
}

/**
 * @param values - how many inputs and outputs the model has
 * @throws Refusal 413 for more parts than a request needs; an error of the client's for what is not JSON
 */
export function parseJson(
  text: Buffer,
  values: number,
): { readonly value: unknown; readonly lists: LongLists } {
  const lists = new LongLists();
  const skeleton = takeOutLists(text, lists, MOST_PARTS + PARTS_OF_VALUE * values);
  try {
    return { value: JSON.parse(skeleton), lists };
  } catch (error) {
    throw invalid(`the request is not JSON: ${(error as Error).message}`);
  }
}

function takeOutLists(text: Buffer, lists: LongLists, mostParts: number): string {
  // A part takes a byte.
  if (text.length <= mostParts) return text.toString();
  const kept: string[] = [];
  let start = 0;
  let weight = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text[at]) {
      case QUOTE:
        at = endOfString(text, at);
        weight += PART_WEIGHT;
        break;
      case OPEN_LIST: {
        const end = isData(text, at) ? endOfElements(text, at) : -1;
        if (end - at < SHORT) {
          weight += PART_WEIGHT;
          break;
        }
        kept.push(text.toString('utf8', start, at), `"${lists.add(text.subarray(at, end))}"`);
        start = end;
        at = end - 1;
        break;
      }
      case OPEN_OBJECT:
        weight += PART_WEIGHT;
        break;
      case COMMA:
        weight += COMMA_WEIGHT;
        break;
      default:
        if (text[at]! > SPACE) weight++;
    }
    if (weight > mostParts * PART_WEIGHT) {
      throw new Refusal(
        413,
        `the JSON has too much beside the data of its inputs: of lists, objects and strings, say, more than ${mostParts}`,
      );
    }
  }
  kept.push(text.toString('utf8', start));
  return kept.join('');
}

/** The place of the closing quote, or the length of the text. */
function endOfString(text: Buffer, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== QUOTE) at += text[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** Whether a list is the value of a member `data`. */
function isData(text: Buffer, start: number): boolean {
  const colon = lastVisible(text, start);
  if (text[colon] !== COLON) return false;
  const quote = lastVisible(text, colon);
  return text.toString('latin1', quote - 5, quote + 1) === '"data"' && text[quote - 6] !== BACKSLASH;
}

/** The place of the last byte before `end` that is no white space. */
function lastVisible(text: Buffer, end: number): number {
  let at = end - 1;
  while (at >= 0 && isSpace(text[at]!)) at--;
  return at;
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Behind a list in which there are no strings and objects; -1 where there are, and where it does not end. */
function endOfElements(text: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const byte = text[at]!;
    // Digits, commas and white space first: there is little else.
    if (byte < COLON && byte !== QUOTE) continue;
    if (byte === OPEN_LIST) depth++;
    else if (byte === CLOSE_LIST && --depth === 0) return at + 1;
    else if (NOT_IN_ELEMENTS.has(byte)) return -1;
  }
  return -1;
}

const NOT_IN_ELEMENTS: ReadonlySet<number> = new Set([QUOTE, COLON, OPEN_OBJECT, CLOSE_OBJECT]);

/** A tensor's elements on their way from JSON. */
export class ElementSink {
  readonly #at: string;
  readonly #dims: readonly number[];
  readonly #datatype: Datatype;
  readonly #elements: TypedArray;
  /** Of what was added, be there room for it or not */
  length = 0;

  constructor(at: string, dims: readonly number[], datatype: Datatype) {
    const count = elementCount(dims);
    this.#at = at;
    this.#dims = dims;
    this.#datatype = datatype;
    this.#elements = new datatype.Elements(new ArrayBuffer(count * datatype.bytes), 0, count);
  }

  /** @returns whether there was room for all of them */
  add(values: readonly unknown[]): boolean {
    const { parse, expected } = this.#datatype;
    const elements = this.#elements;
    const first = this.length;
    this.length += values.length;
    if (this.length > elements.length) return false;
    for (let index = 0; index < values.length; index++) {
      const element = parse(values[index]);
      if (element === undefined) {
        throw mismatch(`${this.#at}: element ${first + index}`, expected, values[index]);
      }
      elements[first + index] = element as never;
    }
    return true;
  }

  end(): TypedArray {
    checkLength(this.#at, this.length, this.#dims);
    return this.#elements;
  }
}

export function checkLength(at: string, length: number, dims: readonly number[]): void {
  const count = elementCount(dims);
  if (length === count) return;
  throw invalid(`${at} has ${plural(length, 'element')}; shape ${describe(dims)} needs ${count}`);
}

export function notNested(at: string, dims: readonly number[], extent: number, got: string): Error {
  const shape = describe(dims);
  return invalid(`${at} must be nested as shape ${shape} is, with a list of ${extent} here, got ${got}`);
}

/**
 * Reads the elements of a long list, which is flat or nested as the shape is. The list is overwritten.
 *
 * @param turn - lets the event loop turn, after each piece but the last
 */
export async function parseLongList(
  at: string,
  list: Buffer,
  dims: readonly number[],
  datatype: Datatype,
  turn: () => Promise<void>,
): Promise<TypedArray> {
  // Before memory is allocated for what a shape only claims: an element takes two bytes, with its comma.
  if (elementCount(dims) > list.length / 2) checkLength(at, countCommas(list) + 1, dims);
  const sink = new ElementSink(at, dims, datatype);
  const nesting = list.includes(OPEN_LIST, 1) ? new Nesting(at, dims, list) : undefined;
  const end = list.length - 1;
  // From a bracket or comma to the next: brackets take the place of either.
  for (let start = 0; start < end;) {
    const comma = start + PIECE < end ? list.indexOf(COMMA, start + PIECE) : -1;
    const stop = comma < 0 ? end : comma;
    nesting?.flatten(start + 1, stop + 1);
    const next = list[stop]!;
    if (!sink.add(parsePiece(at, list, start, stop))) {
      list[stop] = next;
      checkLength(at, sink.length + countCommas(list.subarray(stop)), dims);
    }
    start = stop;
    if (start < end) await turn();
  }
  return sink.end();
}

function parsePiece(at: string, list: Buffer, start: number, stop: number): readonly unknown[] {
  list[start] = OPEN_LIST;
  list[stop] = CLOSE_LIST;
  let elements: unknown[];
  try {
    elements = JSON.parse(list.toString('latin1', start, stop + 1)) as unknown[];
  } catch (error) {
    // It counts from the beginning of the piece.
    const reason = (error as Error).message.replace(/ (in JSON )?at position .*$/s, '');
    throw invalid(`the request is not JSON: ${at}: ${reason}`);
  }
  if (elements.length === 0) throw invalid(`the request is not JSON: ${at} has a comma without an element`);
  return elements;
}

function countCommas(list: Buffer): number {
  let count = 0;
  for (let at = 0; at < list.length; at++) if (list[at] === COMMA) count++;
  return count;
}

/** Checks that a list is nested as a shape is, and makes it flat. */
class Nesting {
  readonly #at: string;
  readonly #dims: readonly number[];
  readonly #list: Buffer;
  /** How deep the elements are */
  readonly #rank: number;
  /** How deep the next byte is */
  #depth = 1;
  /** The commas since each open list began, by depth */
  readonly #commas: number[];

  constructor(at: string, dims: readonly number[], list: Buffer) {
    this.#at = at;
    this.#dims = dims;
    this.#list = list;
    let first = 1;
    while (isSpace(list[first]!)) first++;
    this.#rank = list[first] === OPEN_LIST ? Math.max(1, dims.length) : 1;
    this.#commas = new Array<number>(this.#rank + 1).fill(0);
  }

  /** The bytes from `start` up to `stop`; the list's own end is the last that there is. */
  flatten(start: number, stop: number): void {
    const list = this.#list;
    const commas = this.#commas;
    let isAtElements = this.#depth === this.#rank;
    for (let at = start; at < stop; at++) {
      const byte = list[at]!;
      if (byte === COMMA) {
        commas[this.#depth]!++;
      } else if (byte === OPEN_LIST || byte === CLOSE_LIST) {
        if (byte === OPEN_LIST) this.#open();
        else this.#close();
        list[at] = SPACE;
        isAtElements = this.#depth === this.#rank;
      } else if (!isAtElements && !isSpace(byte)) {
        throw notNested(this.#at, this.#dims, this.#dims[this.#depth]!, 'something else');
      }
    }
  }

  #open(): void {
    if (this.#depth === this.#rank) {
      const shape = describe(this.#dims);
      throw invalid(
        `${this.#at} must be flat, or nested as shape ${shape} is, and has lists that are deeper`,
      );
    }
    this.#commas[++this.#depth] = 0;
  }

  #close(): void {
    const depth = this.#depth--;
    const length = this.#commas[depth]! + 1;
    const extent = this.#rank === 1 ? length : this.#dims[depth - 1]!;
    if (length !== extent) throw notNested(this.#at, this.#dims, extent, `one of ${length}`);
  }
}

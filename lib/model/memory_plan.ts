/** Which scratch tensors may share memory. */
import { isDue, type Sliced } from '../slices';
import { buffersRead, type Step } from './steps';
import type { Operand, Storage } from './values';

/** A cache line, and a register of AVX-512. */
const ALIGNMENT = 64;

export interface MemoryPlan {
  readonly offsets: ReadonlyMap<Storage, number>;
  readonly bytes: number;
}

/**
 * Places every scratch tensor so that no two overlap in memory and in time. Largest first, each at the lowest free
 * place: over the networks of the bench this takes no more than the largest sum of tensors alive at once needs, plus a
 * few percent.
 *
 * @param apart - storages that have memory of their own
 */
export function* planMemory(
  steps: readonly Step<Operand>[],
  apart: { has(storage: Storage): boolean } = new Set(),
): Sliced<MemoryPlan> {
  const { storages, last } = yield* lifetimes(steps, apart);
  const memory = new MemoryOverTime(storages.length);
  const offsets = new Map<Storage, number>();
  let bytes = 0;
  for (const [place, index] of largestFirst(storages).entries()) {
    if (isDue(place)) yield;
    const storage = storages[index]!;
    const size = Math.ceil(storage.bytes / ALIGNMENT) * ALIGNMENT;
    const offset = memory.take(index, last[index]!, size);
    offsets.set(storage, offset);
    bytes = Math.max(bytes, offset + size);
  }
  return { offsets, bytes };
}

interface Lifetimes {
  /** In the order in which they are first touched */
  readonly storages: readonly Storage[];
  /** For each the last storage that is first touched while it is in use: all those between live at the same time */
  readonly last: Int32Array;
}

function* lifetimes(
  steps: readonly Step<Operand>[],
  apart: { has(storage: Storage): boolean },
): Sliced<Lifetimes> {
  const indices = new Map<Storage, number>();
  const lastSteps: number[] = [];
  /** How many storages have been touched when a step has run */
  const touched = new Int32Array(steps.length);
  for (let at = 0; at < steps.length; at++) {
    if (isDue(at)) yield;
    const step = steps[at]!;
    for (const { storage } of [...buffersRead(step), step.output]) {
      if (storage.space !== 'arena' || apart.has(storage)) continue;
      const index = indices.get(storage) ?? indices.size;
      if (index === indices.size) indices.set(storage, index);
      lastSteps[index] = at;
    }
    touched[at] = indices.size;
  }
  return { storages: [...indices.keys()], last: Int32Array.from(lastSteps, (at) => touched[at]! - 1) };
}

/** Indices by the bytes of the storages; those of equal size in their own order. */
function largestFirst(storages: readonly Storage[]): number[] {
  const bySize = new Map<number, number[]>();
  storages.forEach(({ bytes }, index) => {
    const others = bySize.get(bytes);
    if (others === undefined) bySize.set(bytes, [index]);
    else others.push(index);
  });
  const sizes = Float64Array.from(bySize.keys()).sort().reverse();
  return Array.from(sizes, (size) => bySize.get(size)!).flat();
}

/** Ranges of memory in ascending order, no two of which touch: start, end, start, end and so on. */
type Ranges = number[];

/** Adds a range, which may overlap those that are there. */
function add(ranges: Ranges, start: number, end: number): void {
  const from = firstEndingFrom(ranges, start);
  if (from < ranges.length && ranges[from]! <= start && end <= ranges[from + 1]!) return;
  let to = from;
  for (; to < ranges.length && ranges[to]! <= end; to += 2) {
    start = Math.min(start, ranges[to]!);
    end = Math.max(end, ranges[to + 1]!);
  }
  ranges.splice(from, to - from, start, end);
}

/** The index of the first range that does not end before an address. */
function firstEndingFrom(ranges: Ranges, address: number): number {
  let [low, high] = [0, ranges.length / 2];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[2 * middle + 1]! < address) low = middle + 1;
    else high = middle;
  }
  return 2 * low;
}

/** The lowest address from which so many bytes are free in all of several lists. */
function lowestFree(lists: readonly Ranges[], size: number): number {
  const next = lists.map(() => 0);
  let address = 0;
  // Each list in turn moves the address behind what is in its way, until none has moved it for a whole round.
  for (let [i, unmoved] = [0, 0]; unmoved < lists.length; i = (i + 1) % lists.length) {
    const ranges = lists[i]!;
    const before = address;
    let at = next[i]!;
    for (; at < ranges.length && ranges[at]! < address + size; at += 2)
      address = Math.max(address, ranges[at + 1]!);
    next[i] = at;
    unmoved = address === before ? unmoved + 1 : 1;
  }
  return address;
}

/**
 * What is taken of memory over time, in moments that are counted from 0: a binary tree of spans of time, stored as a heap
 * is, with the halves of node i in the nodes 2 i and 2 i + 1. Since tensors lie side by side, a node has few ranges,
 * however many tensors are alive at once.
 */
class MemoryOverTime {
  /** The node of the first moment */
  readonly #leaves: number;
  /** By node, what is taken all through its span, unless a node above it has that already */
  readonly #throughout: (Ranges | undefined)[];
  /** By node, what is taken at some moment of its span, unless a node above it has it for the whole of its own */
  readonly #sometime: (Ranges | undefined)[];

  constructor(moments: number) {
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(1, moments)));
    this.#throughout = new Array<undefined>(2 * this.#leaves);
    this.#sometime = new Array<undefined>(2 * this.#leaves);
  }

  /** Takes the lowest place that is free from one moment to another. */
  take(first: number, last: number, size: number): number {
    const start = lowestFree(this.#takenDuring(first, last), size);
    if (size > 0) this.#add(first, last, start, start + size);
    return start;
  }

  #takenDuring(first: number, last: number): Ranges[] {
    const lists: Ranges[] = [];
    const collect = (ranges: Ranges | undefined) => {
      if (ranges !== undefined) lists.push(ranges);
    };
    this.#visitSpans(first, last, (node) => collect(this.#sometime[node]));
    this.#visitAbove(first, last, (node) => collect(this.#throughout[node]));
    return lists;
  }

  #add(first: number, last: number, start: number, end: number): void {
    const addTo = (nodes: (Ranges | undefined)[], node: number) => {
      const ranges = nodes[node];
      if (ranges === undefined) nodes[node] = [start, end];
      else add(ranges, start, end);
    };
    this.#visitSpans(first, last, (node) => {
      addTo(this.#sometime, node);
      // A single moment is above no other.
      if (node < this.#leaves) addTo(this.#throughout, node);
    });
    this.#visitAbove(first, last, (node) => addTo(this.#sometime, node));
  }

  /** The nodes whose spans, put together, last from one moment to another. */
  #visitSpans(first: number, last: number, visit: (node: number) => void): void {
    let [low, high] = [first + this.#leaves, last + this.#leaves];
    for (; low <= high; low >>= 1, high >>= 1) {
      if (low % 2 === 1) visit(low++);
      if (high % 2 === 0) visit(high--);
    }
  }

  /** The nodes above the first moment, and those above the last: all that are above the spans. */
  #visitAbove(first: number, last: number, visit: (node: number) => void): void {
    let [low, high] = [(first + this.#leaves) >> 1, (last + this.#leaves) >> 1];
    for (; low > 0; low >>= 1, high >>= 1) {
      visit(low);
      if (high !== low) visit(high);
    }
  }
}

/** Which scratch tensors may share memory. */
import { buffersRead, type Step } from './steps';
import type { Operand, Storage } from './values';

/** A cache line, and a register of AVX-512. */
const ALIGNMENT = 64;

interface Interval {
  readonly storage: Storage;
  /** The steps that first and last touch it */
  first: number;
  last: number;
}

export interface MemoryPlan {
  readonly offsets: ReadonlyMap<Storage, number>;
  readonly bytes: number;
}

/**
 * Places every scratch tensor so that no two overlap in memory and in time. Largest first, each at the lowest free
 * place: over the networks of the bench this takes no more than the largest sum of tensors alive at once needs, plus a
 * few percent.
 */
export function planMemory(steps: readonly Step<Operand>[]): MemoryPlan {
  const intervals = [...lifetimes(steps).values()].sort((a, b) => b.storage.bytes - a.storage.bytes);
  const placed: (Interval & { offset: number; end: number })[] = [];
  const offsets = new Map<Storage, number>();
  let bytes = 0;
  for (const interval of intervals) {
    const size = Math.ceil(interval.storage.bytes / ALIGNMENT) * ALIGNMENT;
    const alive = placed
      .filter((other) => other.first <= interval.last && interval.first <= other.last)
      .sort((a, b) => a.offset - b.offset);
    let offset = 0;
    for (const other of alive) {
      if (offset + size <= other.offset) break;
      offset = Math.max(offset, other.end);
    }
    placed.push({ ...interval, offset, end: offset + size });
    offsets.set(interval.storage, offset);
    bytes = Math.max(bytes, offset + size);
  }
  return { offsets, bytes };
}

function lifetimes(steps: readonly Step<Operand>[]): Map<Storage, Interval> {
  const intervals = new Map<Storage, Interval>();
  steps.forEach((step, index) => {
    for (const { storage } of [...buffersRead(step), step.output]) {
      if (storage.space !== 'arena') continue;
      const interval = intervals.get(storage);
      if (interval === undefined) intervals.set(storage, { storage, first: index, last: index });
      else interval.last = index;
    }
  });
  return intervals;
}

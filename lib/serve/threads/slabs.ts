/** Memory for the bodies of requests that another thread reads in place, in a few large pieces that stay. */
import { bytesUnder, type TypedArray } from '../../tensor/typed_array';
import type { RequestMemory } from '../memory';
import { setTimeout } from '../timers';
import type { SharedElements } from './messages';

/** Enough for a few dozen small images, and little enough to be pinned in a few milliseconds. */
const SLAB_BYTES = 8 * 2 ** 20;

/** Pieces begin at multiples of the lines of the caches. */
const ALIGNMENT = 64;

/** A slab of which nothing was used for so long is let go of. */
const IDLE_MS = 30_000;

interface Range {
  start: number;
  end: number;
}

interface Slab {
  readonly id: number;
  readonly memory: SharedArrayBuffer;
  /** What nobody has, in order, no two of them side by side */
  readonly free: Range[];
  /** How often pieces were taken */
  taken: number;
}

interface Piece extends Range {
  readonly slab: Slab;
}

/** Told of slabs that come and go. */
export interface SlabWatcher {
  added(id: number, memory: SharedArrayBuffer): void;
  retired(id: number): void;
}

export class Slabs {
  readonly #slabs = new Map<ArrayBufferLike, Slab>();
  #made = 0;

  constructor(readonly watcher: SlabWatcher) {}

  /** Memory for one request. */
  forRequest(): SlabMemory {
    return new SlabMemory(this);
  }

  take(bytes: number): Piece {
    const size = Math.max(Math.ceil(bytes / ALIGNMENT), 1) * ALIGNMENT;
    for (const slab of this.#slabs.values()) {
      const piece = takeFrom(slab, size);
      if (piece !== undefined) return piece;
    }
    return takeFrom(this.#add(size), size)!;
  }

  giveBack({ slab, start, end }: Piece): void {
    const { free } = slab;
    const next = free.findIndex((range) => range.start >= end);
    const at = next < 0 ? free.length : next;
    const [before, after] = [free[at - 1], free[at]];
    const joinsBefore = before?.end === start;
    const joinsAfter = after?.start === end;
    if (joinsBefore && joinsAfter) {
      before.end = after.end;
      free.splice(at, 1);
    } else if (joinsBefore) before.end = end;
    else if (joinsAfter) after.start = start;
    else free.splice(at, 0, { start, end });
    if (isFree(slab)) this.#watch(slab);
  }

  /** The number of the slab that a buffer is; `undefined` for other memory. */
  idOf(buffer: ArrayBufferLike): number | undefined {
    return this.#slabs.get(buffer)?.id;
  }

  #add(size: number): Slab {
    const bytes = Math.ceil(size / SLAB_BYTES) * SLAB_BYTES;
    const memory = new SharedArrayBuffer(bytes);
    const slab = { id: this.#made++, memory, free: [{ start: 0, end: bytes }], taken: 0 };
    this.#slabs.set(memory, slab);
    this.watcher.added(slab.id, memory);
    return slab;
  }

  #watch(slab: Slab): void {
    const { taken } = slab;
    setTimeout(() => {
      if (slab.taken !== taken) return;
      this.#slabs.delete(slab.memory);
      this.watcher.retired(slab.id);
    }, IDLE_MS).unref();
  }
}

function isFree({ free, memory }: Slab): boolean {
  return free.length === 1 && free[0]!.end - free[0]!.start === memory.byteLength;
}

/** From the first range that is long enough. */
function takeFrom(slab: Slab, size: number): Piece | undefined {
  const { free } = slab;
  const at = free.findIndex(({ start, end }) => end - start >= size);
  if (at < 0) return undefined;
  const range = free[at]!;
  const { start } = range;
  range.start += size;
  if (range.start === range.end) free.splice(at, 1);
  slab.taken++;
  return { slab, start, end: start + size };
}

/** The pieces of one request. */
export class SlabMemory implements RequestMemory {
  readonly #slabs: Slabs;
  readonly #pieces: Piece[] = [];
  #holders = 1;

  constructor(slabs: Slabs) {
    this.#slabs = slabs;
  }

  allocate(length: number, alignedAt: number): Buffer {
    const padding = (8 - (alignedAt % 8)) % 8;
    const piece = this.#slabs.take(length + padding);
    this.#pieces.push(piece);
    return Buffer.from(piece.slab.memory, piece.start + padding, length);
  }

  /** Where elements lie, copied to where others see them if they do not. */
  share(elements: TypedArray): SharedElements {
    const { buffer, byteOffset, length } = elements;
    const slab = this.#slabs.idOf(buffer);
    if (slab !== undefined) return { slab, offset: byteOffset, length };
    const copy = this.allocate(elements.byteLength, 0);
    copy.set(bytesUnder(elements));
    return { slab: this.#slabs.idOf(copy.buffer)!, offset: copy.byteOffset, length };
  }

  hold(): void {
    this.#holders++;
  }

  letGo(): void {
    if (--this.#holders > 0) return;
    for (const piece of this.#pieces.splice(0)) this.#slabs.giveBack(piece);
  }
}

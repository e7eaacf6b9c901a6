/**
 * Long work on the event loop's thread, in slices of a few milliseconds between which the loop turns. Whatever goes on at
 * the same time takes turns, so that all of it together holds the loop up no longer than one does.
 */
import { onNextTurn } from './turn';

/** Work that may be interrupted wherever it yields. */
export type Sliced<T> = Generator<void, T, void>;

/** Milliseconds. A collection, which may fall into one, takes up to 4 more. */
const SLICE = 1;

/** Milliseconds without any such work after which the loop counts as turned: what else runs then is not ours to cut. */
const PAUSE = 1;

// Test frameworks fake clocks, and work must not stop for that.
const clock = performance.now.bind(performance);

/**
 * Whether work that has come to an item of this number had better yield, where an item takes some microseconds: each yield
 * takes one or two itself.
 */
export function isDue(index: number): boolean {
  return index % 8 === 0;
}

/** All of the work, in the calling turn. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const next = work.next();
    if (next.done) return next.value;
  }
}

/** The work in slices, the first of them in the calling turn. What is short is done in that. */
export async function inSlices<T>(work: Sliced<T>): Promise<T> {
  slices.goOn();
  for (;;) {
    const next = work.next();
    if (next.done) return next.value;
    if (slices.isOver()) await slices.next();
  }
}

/** What is there at once, or is made in slices. */
export type MaybeSliced<T> = T | Sliced<T>;

export function isSliced<T extends object | undefined>(result: MaybeSliced<T>): result is Sliced<T> {
  return result !== undefined && 'next' in result;
}

/** What is there, or becomes of the work. */
export function* resultOf<T extends object | undefined>(result: MaybeSliced<T>): Sliced<T> {
  return isSliced(result) ? yield* result : result;
}

interface Waiting {
  readonly resume: () => void;
  readonly fail: (error: unknown) => void;
}

class Slices {
  /** When the slice of this turn began */
  #since = -Infinity;
  /** When work was last seen */
  #seen = -Infinity;
  readonly #waiting: Waiting[] = [];

  /** Called before work. */
  goOn(): void {
    const now = clock();
    if (now > this.#seen + PAUSE) this.#since = now;
    this.#seen = now;
  }

  isOver(): boolean {
    this.#seen = clock();
    return this.#seen >= this.#since + SLICE;
  }

  /** Resolves in a later turn, which is nobody else's. */
  next(): Promise<void> {
    return new Promise((resume, fail) => {
      this.#waiting.push({ resume, fail });
      if (this.#waiting.length === 1) this.#ask();
    });
  }

  #ask(): void {
    try {
      onNextTurn(() => this.#begin());
    } catch (error) {
      for (const { fail } of this.#waiting.splice(0)) fail(error);
    }
  }

  #begin(): void {
    this.#since = this.#seen = clock();
    const { resume } = this.#waiting.shift()!;
    if (this.#waiting.length > 0) this.#ask();
    resume();
  }
}

const slices = new Slices();

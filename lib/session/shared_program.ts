import type { Compiled } from '../model/compile';
import type { NativeProgram } from '../model/steps';
import type { Footprint } from './session_memory';

/** A program for one set of input dims. */
export interface Prepared {
  readonly compiled: Compiled;
  readonly native: NativeProgram;
  readonly footprint: Footprint;
  /** Milliseconds that its last run took; infinite before the first */
  lastRun: number;
}

/** A program on its way or there, shared by a session's cache and the runs: let go of when the last lets go. */
export class SharedProgram {
  #now: Prepared | undefined;
  #holders = 0;

  /** @param end - disposes the program */
  constructor(
    readonly prepared: Promise<Prepared>,
    readonly end: (prepared: Prepared) => void,
  ) {
    prepared.then(
      (now) => (this.#now = now),
      () => {},
    );
  }

  /** The program, once it is there. */
  get now(): Prepared | undefined {
    return this.#now;
  }

  hold(): this {
    this.#holders++;
    return this;
  }

  letGo(): void {
    if (--this.#holders > 0) return;
    // At once, where that can be: whoever evicts it needs the memory.
    if (this.#now !== undefined) this.end(this.#now);
    else this.prepared.then(this.end, () => {});
  }
}

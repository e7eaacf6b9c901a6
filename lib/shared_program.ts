import type { Compiled } from './model/compile';
import type { NativeProgram } from './model/steps';

/** A program for one set of input dims. */
export interface Prepared {
  readonly compiled: Compiled;
  readonly native: NativeProgram;
  /** Milliseconds that its last run took; infinite before the first, and on a GPU */
  lastRun: number;
}

/** A program on its way or there, shared by a session's cache and the runs: disposed when the last lets go. */
export class SharedProgram {
  #now: Prepared | undefined;
  #holders = 0;

  constructor(readonly prepared: Promise<Prepared>) {
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
    this.prepared.then(
      ({ native }) => native.dispose(),
      () => {},
    );
  }
}

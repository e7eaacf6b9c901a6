import { clearTimeout, setTimeout } from './timers';

/** The time of a request, from now on. */
export class Deadline {
  readonly #begun = performance.now();
  readonly #onLate: (milliseconds: number) => void;
  #milliseconds: number;
  #timer: NodeJS.Timeout;

  /** @param onLate - called when the time is up, with how much it was */
  constructor(milliseconds: number, onLate: (milliseconds: number) => void) {
    this.#milliseconds = milliseconds;
    this.#onLate = onLate;
    this.#timer = this.#start();
  }

  /** Takes less time, if it is less. */
  shorten(milliseconds = Infinity): void {
    if (milliseconds >= this.#milliseconds) return;
    clearTimeout(this.#timer);
    this.#milliseconds = milliseconds;
    if (performance.now() - this.#begun >= milliseconds) this.#onLate(milliseconds);
    else this.#timer = this.#start();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  #start(): NodeJS.Timeout {
    const left = Math.max(0, this.#begun + this.#milliseconds - performance.now());
    return setTimeout(() => this.#onLate(this.#milliseconds), left);
  }
}

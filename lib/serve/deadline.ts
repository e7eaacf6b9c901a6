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
    this.#timer = this.#start(milliseconds);
  }

  /** Takes less time, if it is less. */
  shorten(milliseconds = Infinity): void {
    if (milliseconds >= this.#milliseconds) return;
    clearTimeout(this.#timer);
    this.#milliseconds = milliseconds;
    const left = this.#begun + milliseconds - performance.now();
    if (left <= 0) this.#onLate(milliseconds);
    else this.#timer = this.#start(left);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  #start(left: number): NodeJS.Timeout {
    return setTimeout(() => this.#onLate(this.#milliseconds), left);
  }
}

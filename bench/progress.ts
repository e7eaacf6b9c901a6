/** How far a bench is: a bar on a terminal, a line every so often elsewhere. */

/** What a progress is shown on, as `process.stderr` is. */
interface Screen {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Between two lines where there is no terminal */
const LINE_MILLISECONDS = 10_000;

const BAR = 30;
const CLEAR_LINE = '\r\x1b[K';

export class Progress {
  readonly #begun: number;
  #written: number;
  #isOver = false;

  /** @param total - of the things that are done one after the other, called `unit` */
  constructor(
    private readonly title: string,
    private readonly total: number,
    private readonly unit: string,
    private readonly screen: Screen = process.stderr,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#begun = this.#written = now();
  }

  /** @param part - of the whole time that this many take, where not all take the same */
  show(done: number, part = done / this.total): void {
    if (this.#isOver) return;
    this.#isOver = done === this.total;
    const time = this.now();
    if (this.screen.isTTY)
      this.screen.write(CLEAR_LINE + this.#line(done, part) + (this.#isOver ? '\n' : ''));
    else if (this.#isOver || time - this.#written >= LINE_MILLISECONDS) {
      this.#written = time;
      this.screen.write(`${this.#line(done, part)}\n`);
    }
  }

  /** A line of its own, above the bar. */
  note(line: string): void {
    this.screen.write(`${this.screen.isTTY ? CLEAR_LINE : ''}${line}\n`);
  }

  #line(done: number, part: number): string {
    const filled = Math.round(BAR * part);
    const bar = this.screen.isTTY ? `${'█'.repeat(filled).padEnd(BAR, '░')} ` : '';
    return `${this.title} ${bar}${done} of ${this.total} ${this.unit}${this.#time(part)}`;
  }

  #time(part: number): string {
    const passed = this.now() - this.#begun;
    if (this.#isOver) return `, ${durationOf(passed)}`;
    return part === 0 ? '' : `, ${durationOf((passed * (1 - part)) / part)} left`;
  }
}

function durationOf(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  return seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

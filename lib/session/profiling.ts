/** What runs took, step by step, as a file that trace viewers open. */
import { writeFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';

import type { PlannedStep } from '../model/builder';

/** In Chrome's trace format; times are in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly cat: 'run' | 'step';
  readonly ph: 'X';
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Later ones are not recorded: a server that is left so would run out of memory. */
const MOST_EVENTS = 1_000_000;

const MICROSECONDS = 1000;

export class Profiling {
  readonly #events: TraceEvent[] = [];
  readonly #start = performance.now();

  constructor(private readonly prefix: string) {}

  /** @param milliseconds - of each step, one after the other, in a run that has just ended */
  add(steps: readonly PlannedStep[], milliseconds: readonly number[]): void {
    if (this.#events.length + milliseconds.length >= MOST_EVENTS) return;
    const total = milliseconds.reduce((sum, one) => sum + one, 0);
    let at = performance.now() - total - this.#start;
    this.#add('run', 'run', at, total, {});
    for (const [i, { step, nodes }] of steps.entries()) {
      this.#add(nodes.join(' + ') || step.kind, 'step', at, milliseconds[i]!, { kind: step.kind });
      at += milliseconds[i]!;
    }
  }

  #add(name: string, cat: TraceEvent['cat'], at: number, duration: number, args: TraceEvent['args']): void {
    const [ts, dur] = [at * MICROSECONDS, duration * MICROSECONDS];
    this.#events.push({ name, cat, ph: 'X', ts, dur, pid: process.pid, tid: threadId, args });
  }

  /** @returns the path of the file; `undefined` where nothing was recorded, so that there is none */
  write(): string | undefined {
    if (this.#events.length === 0) return undefined;
    const time = new Date().toISOString().replaceAll(/[:.]/g, '-');
    return writeNew(`${this.prefix}_${time}`, JSON.stringify(this.#events));
  }
}

/** Sessions that end together write at the same time: none may take the file of another. */
function writeNew(name: string, text: string): string {
  for (let count = 1; ; count++) {
    const file = count === 1 ? `${name}.json` : `${name}-${count}.json`;
    try {
      writeFileSync(file, text, { flag: 'wx' });
      return file;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** Where a session ends: it has ended even if its profile cannot be written, and `dispose()` has nobody to tell. */
export function writeOrWarn(write: () => unknown): void {
  try {
    write();
  } catch (error) {
    process.emitWarning(`the profile of a session is lost: ${(error as Error).message}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_PROFILE_LOST',
    });
  }
}

/** How busy the GPUs are, by nvidia-smi. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

const COMMAND = ['--query-gpu=utilization.gpu', '--format=csv,noheader,nounits', '-lms', '200'];

/** Samples the share of time in which a kernel ran, on every GPU that is listed. */
export class GpuBusy {
  #sum = 0;
  #count = 0;
  readonly #child: ChildProcessByStdio<null, Readable, null>;

  constructor(program = 'nvidia-smi') {
    this.#child = spawn(program, COMMAND, { stdio: ['ignore', 'pipe', 'ignore'] });
    // Without nvidia-smi there are no samples.
    this.#child.on('error', () => {});
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#add(line));
  }

  #add(line: string): void {
    // An idle or divided GPU may say [N/A].
    const percent = Number.parseFloat(line);
    if (Number.isNaN(percent)) return;
    this.#sum += percent / 100;
    this.#count++;
  }

  /** From 0 to 1: the mean since this was last asked for; undefined where there is no sample. */
  mean(): number | undefined {
    const mean = this.#count === 0 ? undefined : this.#sum / this.#count;
    this.#sum = this.#count = 0;
    return mean;
  }

  stop(): void {
    this.#child.kill();
  }
}

/** What the runs of one version of a model came to, in the terms of Triton's statistics extension. */
import type { ModelDescription } from './model';

/** The stages of a run, by `performance.now()`. */
export interface RunTimes {
  /** When its inputs began to be put together */
  readonly begun: number;
  /** When the session began to run */
  readonly started: number;
  /** When the session had run */
  readonly ended: number;
  /** When its outputs had been taken apart */
  readonly done: number;
}

/** A request that a run served. */
interface Ran {
  /** When it was queued, by `performance.now()` */
  readonly queued: number;
}

/** How often, and for how long in all. */
class Duration {
  count = 0;
  #milliseconds = 0;

  add(milliseconds: number, count = 1): void {
    this.count += count;
    this.#milliseconds += milliseconds;
  }

  describe(): object {
    return { count: this.count, ns: Math.round(this.#milliseconds * 1e6) };
  }
}

class Stages {
  readonly #input = new Duration();
  readonly #infer = new Duration();
  readonly #output = new Duration();

  add({ begun, started, ended, done }: RunTimes, count: number): void {
    this.#input.add(count * (started - begun), count);
    this.#infer.add(count * (ended - started), count);
    this.#output.add(count * (done - ended), count);
  }

  describe(): object {
    return {
      compute_input: this.#input.describe(),
      compute_infer: this.#infer.describe(),
      compute_output: this.#output.describe(),
    };
  }
}

/** Most batch sizes that are counted apart: a client chooses how many rows it sends. */
const MOST_SIZES = 256;

export class ModelStatistics {
  #last = 0;
  #inferences = 0;
  #executions = 0;
  readonly #success = new Duration();
  readonly #fail = new Duration();
  readonly #queue = new Duration();
  readonly #stages = new Stages();
  readonly #sizes = new Map<number, Stages>();

  /**
   * Counts a run.
   *
   * @param requests - those whose clients still wait
   * @param rows - of all requests, or how many there were where the model has no rows
   */
  ran(requests: readonly Ran[], rows: number, times: RunTimes): void {
    this.#executions++;
    if (requests.length === 0) return;
    this.#last = Date.now();
    this.#inferences += rows;
    for (const { queued } of requests) {
      this.#success.add(times.done - queued);
      this.#queue.add(times.begun - queued);
    }
    this.#stages.add(times, requests.length);
    let size = this.#sizes.get(rows);
    if (size === undefined && this.#sizes.size < MOST_SIZES) this.#sizes.set(rows, (size = new Stages()));
    size?.add(times, 1);
  }

  /** Counts a request that a run failed, or that was given up. */
  failed(milliseconds: number): void {
    this.#last = Date.now();
    this.#fail.add(milliseconds);
  }

  /** An element of `model_stats`, as plain data. */
  describe({ name, version }: ModelDescription): object {
    const sizes = [...this.#sizes].sort(([one], [other]) => one - other);
    return {
      ...{ name, version, last_inference: this.#last },
      ...{ inference_count: this.#inferences, execution_count: this.#executions },
      inference_stats: {
        success: this.#success.describe(),
        fail: this.#fail.describe(),
        queue: this.#queue.describe(),
        ...this.#stages.describe(),
      },
      batch_stats: sizes.map(([batch_size, stages]) => ({ batch_size, ...stages.describe() })),
    };
  }
}

import type { Cancellation } from './cancellation';
import type { Exchange, TraceContext } from './exchange';
import type { Held } from './memory';
import type { ValueSpec } from './model';
import type { InputTensor, OutputTensor } from './tensors';

/** What a run gave to one of its requests. */
export interface RunResult {
  /** For each output that the request asked for. */
  readonly tensors: readonly OutputTensor[];
  /** Milliseconds in the queue. */
  readonly waited: number;
  /** Milliseconds of the run, of joining its inputs and of splitting its outputs. */
  readonly computed: number;
  /** Requests that the run served. */
  readonly requests: number;
  /** The span of the run, where it has one. */
  readonly trace: TraceContext | undefined;
}

/** Of requests that say nothing of it: RFC 9218's default. */
export const USUAL_URGENCY = 3;

/** Where requests wait for a model. */
export interface Queue {
  /** Requests that wait, those in runs not counted. */
  readonly waiting: number;
  /** @throws Refusal 503 */
  refuseIfFull(): void;
  /**
   * Queues a request.
   *
   * @param cancellation - takes the request out of the queue or, where it is running, leaves its result unused; either
   *   way the promise rejects at once with its reason
   * @param memory - of the inputs; held for as long as they are needed, which is longer where a running request is cancelled
   * @param urgency - from 0, which goes first, to 7; equal ones go in the order in which they came
   * @param exchange - the request that it is part of
   * @returns with a tensor for each of `outputs`
   */
  run(
    inputs: ReadonlyMap<string, InputTensor>,
    outputs: readonly ValueSpec[],
    cancellation: Cancellation,
    memory: Held,
    urgency: number,
    exchange: Exchange,
  ): Promise<RunResult>;
}

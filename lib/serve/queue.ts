import type { Cancellation } from './cancellation';
import type { Exchange } from './exchange';
import type { RunTimes } from './exchange_record';
import type { Held } from './memory';
import type { ModelDescription, ValueSpec } from './model';
import type { InputTensor, OutputTensor } from './tensors';
import type { Users } from './users';

/** What a run gave to one of its requests. */
export interface RunResult extends RunTimes {
  /** For each output that the request asked for. */
  readonly tensors: readonly OutputTensor[];
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

/** A model, and where requests for it wait. */
export interface QueuedModel extends ModelDescription {
  readonly queue: Queue;
  readonly users: Users;
}

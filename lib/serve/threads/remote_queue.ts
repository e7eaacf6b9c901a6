/** The queues of models that another thread runs. */
import { refuseIfFull } from '../batcher';
import type { Cancellation } from '../cancellation';
import type { Exchange } from '../exchange';
import type { Held } from '../memory';
import { bringsImage, type ModelDescription, type ValueSpec } from '../model';
import type { Queue, RunResult } from '../queue';
import { Refusal } from '../refusal';

import type { FromReader, Outbox as Outboxes, ToReader } from './messages';
import type { SharedNumber } from './shared_counters';
import type { SlabMemory } from './slabs';
import type { InputTensor } from '../tensors';

type Outbox = Outboxes<FromReader>;

interface Call {
  readonly memory: Held;
  readonly resolve: (result: RunResult) => void;
  readonly reject: (error: Error) => void;
}

type Reply = Extract<ToReader, { readonly kind: 'ran' | 'refused' | 'freed' }>;

/** The requests that the other thread has. */
export class RemoteCalls {
  readonly #calls = new Map<number, Call>();
  #made = 0;

  add(call: Call): number {
    const id = this.#made++;
    this.#calls.set(id, call);
    return id;
  }

  settle(reply: Reply): void {
    const call = this.#calls.get(reply.id)!;
    if (reply.kind === 'ran') call.resolve(reply);
    else if (reply.kind === 'refused') call.reject(refusalOf(reply));
    else {
      this.#calls.delete(reply.id);
      call.memory.letGo();
    }
  }
}

function refusalOf({ status, message, headers }: Extract<Reply, { readonly kind: 'refused' }>): Refusal {
  const refusal = new Refusal(status, message, headers);
  // Where it was thrown.
  refusal.isReported = true;
  return refusal;
}

export class RemoteQueue implements Queue {
  /**
   * @param index - the model's place in the list of all
   * @param length - of the queue, as the other thread says
   */
  constructor(
    readonly index: number,
    readonly model: ModelDescription,
    readonly maxQueue: number,
    readonly length: SharedNumber,
    readonly calls: RemoteCalls,
    readonly outbox: Outbox,
  ) {}

  get waiting(): number {
    return this.length.value;
  }

  refuseIfFull(): void {
    refuseIfFull(this.model.name, this.waiting, this.maxQueue);
  }

  run(
    inputs: ReadonlyMap<string, InputTensor>,
    outputs: readonly ValueSpec[],
    cancellation: Cancellation,
    memory: Held,
    urgency: number,
    { start }: Exchange,
  ): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      cancellation.throwIfRequested();
      const shared = this.model.inputs.map(({ name }) => {
        const { type, dims, data } = inputs.get(name)!;
        const isImage = bringsImage(this.model.image, name, type);
        return { isImage, dims, ...(memory as SlabMemory).share(data) };
      });
      memory.hold();
      const stop = () => {
        this.outbox.tell({ kind: 'cancel', id });
        reject(cancellation.reason);
      };
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          cancellation.unfollow(stop);
          settle(value);
        };
      const id = this.calls.add({ memory, resolve: settled(resolve), reject: settled(reject) });
      cancellation.follow(stop);
      const wanted = outputs.map((spec) => this.model.outputs.indexOf(spec));
      const what = { model: this.index, inputs: shared, outputs: wanted, urgency, start };
      this.outbox.tell({ kind: 'run', id, ...what });
    });
  }
}

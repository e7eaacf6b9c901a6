/** Takes to the queues of the models what one reader sends, and back what they give. */
import { noteLent } from '../../tensor/lent_memory';
import { Cancellation } from '../cancellation';
import { Exchange } from '../exchange';
import type { ExchangeEnd, ExchangeStart, Watch } from '../exchange_record';
import type { ModelDescription } from '../model';
import type { RunResult } from '../queue';
import type { Queues } from '../queues';
import { clientGone, refusalFor, reportIfOurs } from '../refusal';

import type { FromReader, Outbox, SharedInput, ToReader } from './messages';
import type { InputTensor } from '../tensors';

/** Makes memory readable for GPUs in place, until the function that it returns is called. */
export type PinMemory = (memory: SharedArrayBuffer) => () => void;

interface Slab {
  readonly memory: SharedArrayBuffer;
  readonly unpin: () => void;
}

type Run = Extract<FromReader, { readonly kind: 'run' }>;

export class Desk {
  readonly #slabs = new Map<number, Slab>();
  readonly #running = new Map<number, Cancellation>();
  /** Of requests that came here and are not answered yet */
  readonly #watched = new Map<number, { readonly start: ExchangeStart; readonly watch: Watch }>();

  constructor(
    readonly queues: Queues,
    readonly outbox: Outbox<ToReader>,
    readonly pin: PinMemory,
  ) {}

  addSlab(slab: number, memory: SharedArrayBuffer): void {
    noteLent(memory);
    this.#slabs.set(slab, { memory, unpin: this.pin(memory) });
  }

  retireSlab(slab: number): void {
    this.#slabs.get(slab)!.unpin();
    this.#slabs.delete(slab);
  }

  /** Queues a request, whose answer it sends. */
  async run({ id, model: place, inputs, outputs, urgency, start }: Run): Promise<void> {
    const model = this.queues.at(place);
    const cancellation = new Cancellation();
    this.#running.set(id, cancellation);
    const memory = new Lent(() => this.outbox.tell({ kind: 'freed', id }));
    try {
      const wanted = outputs.map((place) => model.outputs[place]!);
      const exchange = new Exchange(start, start && this.#watch(start).context);
      const read = this.#read(model, inputs);
      const run = await model.queue.run(read, wanted, cancellation, memory, urgency, exchange);
      this.#answer(id, run);
    } catch (error) {
      this.#refuse(id, error, model);
    } finally {
      this.#running.delete(id);
      memory.letGo();
    }
  }

  /** The reader has answered a request. */
  answered(start: ExchangeStart, end: ExchangeEnd): void {
    const watch = this.#watched.get(start.key)?.watch ?? this.queues.settings.watcher!.begin(start);
    this.#watched.delete(start.key);
    watch.end(end);
  }

  cancel(id: number): void {
    this.#running.get(id)?.request(clientGone());
  }

  /** The reader is gone, and whoever waited for it. */
  close(): void {
    for (const id of this.#running.keys()) this.cancel(id);
    for (const slab of [...this.#slabs.keys()]) this.retireSlab(slab);
    for (const { start } of [...this.#watched.values()]) this.answered(start, lost(start));
  }

  #watch(start: ExchangeStart): Watch {
    const watch = this.queues.settings.watcher!.begin(start);
    this.#watched.set(start.key, { start, watch });
    return watch;
  }

  #read(model: ModelDescription, inputs: readonly SharedInput[]): Map<string, InputTensor> {
    const tensors = model.inputs.map(({ name, datatype: own }, index) => {
      const { isImage, dims, slab, offset, length } = inputs[index]!;
      const datatype = isImage ? model.image!.spec.datatype : own;
      const data = new datatype.Elements(this.#slabs.get(slab)!.memory, offset, length);
      return [name, { type: datatype.type, dims, data, location: 'cpu' }] as const;
    });
    return new Map(tensors);
  }

  #answer(id: number, { tensors, waited, computed, requests, trace }: RunResult): void {
    // Rows of a batch are views of all of it, which would go over whole.
    const own = tensors.map(({ dims, elements }) => ({ dims, elements: elements.slice() }));
    const transfer = own.map(({ elements }) => elements.buffer as ArrayBuffer);
    this.outbox.tell({ kind: 'ran', id, tensors: own, waited, computed, requests, trace }, transfer);
  }

  #refuse(id: number, error: unknown, model: ModelDescription): void {
    const refusal = refusalFor(error, model);
    reportIfOurs(this.queues.settings.logger, refusal, error, model);
    const { status, message, headers } = refusal;
    this.outbox.tell({ kind: 'refused', id, status, message, headers });
  }
}

/** Of a request whose reader has ended: its client sees its connection closed. */
function lost({ time }: ExchangeStart): ExchangeEnd {
  return {
    status: 500,
    ...{ route: undefined, model: undefined, version: undefined, run: undefined },
    ...{ bytesIn: undefined, bytesOut: undefined },
    duration: Math.max(0, Date.now() - time),
    reason: 'the thread that read the request failed; the log of the server says why',
  };
}

/** Memory of a reader's, which hears when nobody holds it any more. */
class Lent {
  #holders = 1;

  constructor(readonly onFree: () => void) {}

  hold(): void {
    this.#holders++;
  }

  letGo(): void {
    if (--this.#holders === 0) this.onFree();
  }
}

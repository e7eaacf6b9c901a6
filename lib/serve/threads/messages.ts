/** What a thread that reads requests and the thread of the models tell each other. */
import type { TypedArray } from '../../tensor/typed_array';
import type { Question, Told } from '../administration';
import type { ExchangeEnd, ExchangeStart, TraceContext } from '../exchange_record';
import type { RequestCounts } from '../metrics';

import type { PlainModel } from './plain_model';

/** Elements in the memory that a reader shares. */
export interface SharedElements {
  readonly slab: number;
  /** Bytes from the beginning of the slab */
  readonly offset: number;
  /** Of elements */
  readonly length: number;
}

export interface SharedInput extends SharedElements {
  /** Whether it is an image in place of what the input takes itself. */
  readonly isImage: boolean;
  readonly dims: readonly number[];
}

/** A failure, for the logger: an error does not survive the way between threads whole. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly cause: Failure | undefined;
}

export function failureOf(error: unknown): Failure {
  const { name, message, stack, cause } = error instanceof Error ? error : new Error(String(error));
  return { name, message, stack, cause: cause === undefined ? undefined : failureOf(cause) };
}

export function errorOf({ cause, ...failure }: Failure): Error {
  const options = cause === undefined ? undefined : { cause: errorOf(cause) };
  return Object.assign(new Error(failure.message, options), failure);
}

/** What a reader is asked to do. Those about models: see {@link ReadingThreads}. */
export type Task =
  | 'count'
  | 'drain'
  | 'hold'
  | 'release'
  | 'close'
  | { readonly serve: PlainModel }
  | { readonly remove: number }
  | { readonly gone: number };

/** From a reader to the models. Requests are known by numbers of the reader's, models and outputs by their places. */
export type FromReader =
  | { readonly kind: 'slab'; readonly slab: number; readonly memory: SharedArrayBuffer }
  | { readonly kind: 'retired'; readonly slab: number }
  | {
      readonly kind: 'run';
      readonly id: number;
      readonly model: number;
      readonly inputs: readonly SharedInput[];
      readonly outputs: readonly number[];
      readonly urgency: number;
      /** Where somebody is told of the request */
      readonly start: ExchangeStart | undefined;
    }
  | { readonly kind: 'answered'; readonly start: ExchangeStart; readonly end: ExchangeEnd }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'failed'; readonly failure: Failure; readonly model: string | undefined }
  | { readonly kind: 'page' }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  | { readonly kind: 'counts'; readonly counts: RequestCounts }
  | { readonly kind: 'done'; readonly id: number; readonly counts: RequestCounts };

/** To a reader. */
export type ToReader =
  | { readonly kind: 'connection'; readonly descriptor: number }
  | {
      readonly kind: 'ran';
      readonly id: number;
      readonly tensors: readonly { readonly dims: readonly number[]; readonly elements: TypedArray }[];
      readonly waited: number;
      readonly computed: number;
      readonly requests: number;
      readonly trace: TraceContext | undefined;
    }
  | {
      readonly kind: 'refused';
      readonly id: number;
      readonly status: number;
      readonly message: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  /** The inputs of a request are not read any more. */
  | { readonly kind: 'freed'; readonly id: number }
  | { readonly kind: 'page'; readonly text: string }
  | { readonly kind: 'told'; readonly id: number; readonly told: Told }
  | { readonly kind: 'do'; readonly id: number; readonly task: Task };

/** What can be posted between threads: a worker, or the port to its parent. */
interface Port<Told> {
  postMessage(messages: readonly Told[], transfer: readonly ArrayBuffer[]): void;
}

/** Posts what is told in one turn of the microtasks together: each message costs some 10 µs on either side. */
export class Outbox<Told> {
  #messages: Told[] = [];
  #transfer: ArrayBuffer[] = [];

  constructor(readonly port: Port<Told>) {}

  /** @param transfer - buffers of the message that go over without a copy, and are gone here */
  tell(message: Told, transfer: readonly ArrayBuffer[] = []): void {
    // No microtask of the global function, which test frameworks fake.
    if (this.#messages.length === 0) void Promise.resolve().then(() => this.#post());
    this.#messages.push(message);
    this.#transfer.push(...transfer);
  }

  #post(): void {
    const [messages, transfer] = [this.#messages, this.#transfer];
    this.#messages = [];
    this.#transfer = [];
    this.port.postMessage(messages, transfer);
  }
}

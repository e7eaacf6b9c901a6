/** Reads requests from connections that it is handed, and writes their answers. Models are on another thread. */
import { createServer } from 'node:http';
import { Socket } from 'node:net';
import type { MessagePort } from 'node:worker_threads';

import { LINGER_MS } from '../body';
import type { Cors } from '../cors';
import { DecoderProcesses } from '../decoders/processes';
import type { Watcher } from '../exchange_record';
import { listenerOf } from '../handler';
import { MemoryBudget } from '../memory';
import { RequestMetrics } from '../metrics';
import type { ServeLogger } from '../options';
import type { BodyLimits } from '../request';
import type { Question, Told } from '../administration';
import { Service } from '../service';
import type { QueuedModel } from '../queue';
import { Users } from '../users';
import { holdRequests } from '../stop_listening';
import { nextTurn, setInterval, setTimeout } from '../timers';
import { Tracing } from '../tracing';
import { TakenDescriptors } from './descriptors';
import { failureOf, Outbox, type FromReader, type Task, type ToReader } from './messages';
import { modelOf, type PlainModel } from './plain_model';
import { RemoteCalls, RemoteQueue } from './remote_queue';
import { SharedByteCounter, SharedNumber, type CounterMemory } from './shared_counters';
import { Slabs } from './slabs';

/** What a reader is started with. */
export interface ReaderData extends BodyLimits {
  readonly index: number;
  /** At first */
  readonly models: readonly PlainModel[];
  readonly extensions: readonly string[];
  readonly counters: CounterMemory;
  /** Of {@link TakenDescriptors} */
  readonly descriptors: SharedArrayBuffer;
  /** Processes that decode its images, at most */
  readonly decoders: number;
  readonly maxQueue: number;
  readonly maxHeldBytes: number;
  readonly timeout: number;
  readonly cors: Cors | undefined;
  /** What the thread of the models is told of requests; `undefined` for nothing */
  readonly watching: Watching | undefined;
}

type Watching = Pick<Watcher, 'traceHeaders' | 'isLogged'>;

/** How often it says what it has counted, for those who cannot wait for an answer. */
const COUNTS_MS = 1000;

export class Reader {
  readonly #port: MessagePort;
  readonly #outbox: Outbox<FromReader>;
  readonly #calls = new RemoteCalls();
  readonly #metrics = new RequestMetrics();
  readonly #connections: SharedNumber;
  readonly #descriptors: TakenDescriptors;
  readonly #decoder: DecoderProcesses;
  readonly #service: Service;
  readonly #server;
  /** Those who wait for a page of metrics */
  readonly #pages: ((text: string) => void)[] = [];
  /** By the names of models */
  readonly #models = new Map<string, QueuedModel>();
  /** All that have requests, by their places */
  readonly #places = new Map<number, QueuedModel>();
  readonly #questions = new Map<number, (told: Told) => void>();
  readonly #maxQueue: number;
  #asked = 0;
  #release = () => {};

  /** @param port - to the thread of the models */
  constructor(port: MessagePort, data: ReaderData) {
    this.#port = port;
    this.#outbox = new Outbox(port);
    const { counters, index, maxHeldBytes, maxQueue } = data;
    this.#maxQueue = maxQueue;
    for (const model of data.models) this.#serve(model);
    this.#connections = new SharedNumber(counters.connections, index);
    this.#descriptors = new TakenDescriptors(data.descriptors);
    const slabs = new Slabs({
      added: (slab, memory) => this.#outbox.tell({ kind: 'slab', slab, memory }),
      retired: (slab) => this.#outbox.tell({ kind: 'retired', slab }),
    });
    this.#decoder = new DecoderProcesses(data.decoders);
    this.#service = new Service({
      ...data,
      models: this.#models,
      ask: (question) => this.#ask(question),
      budget: new MemoryBudget(maxHeldBytes, new SharedByteCounter(counters, index)),
      newMemory: () => slabs.forRequest(),
      decoder: this.#decoder,
      metrics: this.#metrics,
      metricsPage: () => this.#askForPage(),
      logger: this.#logger(),
    });
    const watcher = data.watching && this.#watcher(data.watching);
    this.#server = createServer(listenerOf(this.#service, { cors: data.cors, watcher }));
    // From then on node:http looks for clients that are too slow.
    this.#server.emit('listening');
    const tellCounts = () => this.#outbox.tell({ kind: 'counts', counts: this.#metrics.counts() });
    setInterval(tellCounts, COUNTS_MS).unref();
  }

  hear(message: ToReader): void {
    switch (message.kind) {
      case 'connection':
        return this.#connect(message.descriptor);
      case 'page':
        return this.#pages.shift()!(message.text);
      case 'told':
        this.#questions.get(message.id)!(message.told);
        return void this.#questions.delete(message.id);
      case 'do':
        return void this.#do(message);
      default:
        return this.#calls.settle(message);
    }
  }

  /** What a thread begins with it may be told again. */
  #serve(plain: PlainModel): void {
    if (this.#places.has(plain.place)) return;
    const model = modelOf(plain);
    const { place, waiting } = plain;
    const length = new SharedNumber(waiting);
    const queue = new RemoteQueue(place, model, this.#maxQueue, length, this.#calls, this.#outbox);
    const queued = { ...model, queue, users: new Users() };
    this.#models.set(model.name, queued);
    this.#places.set(place, queued);
  }

  #remove(place: number): void {
    const model = this.#places.get(place);
    if (model !== undefined && this.#models.get(model.name) === model) this.#models.delete(model.name);
  }

  /** One that ended before this thread began is not known here. */
  async #gone(place: number): Promise<void> {
    await this.#places.get(place)?.users.gone();
    this.#places.delete(place);
  }

  #ask(question: Question): Promise<Told> {
    return new Promise((resolve) => {
      const id = this.#asked++;
      this.#questions.set(id, resolve);
      this.#outbox.tell({ kind: 'ask', id, question });
    });
  }

  #logger(): ServeLogger {
    return {
      error: (details) => {
        const { err, model } = details as { err: unknown; model: string | undefined };
        this.#outbox.tell({ kind: 'failed', failure: failureOf(err), model });
      },
    };
  }

  /** The application's own instrumentation of HTTP may have been loaded in this thread too. */
  #watcher({ traceHeaders, isLogged }: Watching): Watcher {
    const tracing = Tracing.open();
    return {
      traceHeaders,
      isLogged,
      activeSpan: () => tracing?.activeSpan(),
      begin: (start) => ({
        context: undefined,
        end: (end) => this.#outbox.tell({ kind: 'answered', start, end }),
      }),
    };
  }

  #connect(descriptor: number): void {
    this.#descriptors.note(descriptor, true);
    const socket = new Socket({ fd: descriptor, readable: true, writable: true, allowHalfOpen: true });
    socket.once('close', () => this.#connections.add(-1));
    // As servers of node:http have it.
    socket.setNoDelay(true);
    this.#server.emit('connection', socket);
  }

  #askForPage(): Promise<string> {
    return new Promise((resolve) => {
      this.#pages.push(resolve);
      this.#outbox.tell({ kind: 'page' });
    });
  }

  async #do({ id, task }: Extract<ToReader, { readonly kind: 'do' }>): Promise<void> {
    await this.#perform(task);
    this.#outbox.tell({ kind: 'done', id, counts: this.#metrics.counts() });
    if (task === 'count') this.#metrics.resetDelays();
  }

  async #perform(task: Task): Promise<void> {
    if (typeof task !== 'string') return this.#change(task);
    switch (task) {
      case 'count':
        return;
      case 'drain':
        return this.#service.drain();
      case 'hold':
        this.#release = holdRequests(this.#server);
        return;
      case 'release':
        return this.#release();
      case 'close':
        return this.#close();
    }
  }

  async #change(task: Exclude<Task, string>): Promise<void> {
    if ('serve' in task) return this.#serve(task.serve);
    if ('remove' in task) return this.#remove(task.remove);
    return this.#gone(task.gone);
  }

  /** Ends the thread, once there are no connections: what is not idle by now sends requests that are refused. */
  async #close(): Promise<void> {
    // Connections may have come a moment ago: in between the event loop reads what they brought.
    await nextTurn();
    await nextTurn();
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), LINGER_MS);
    timer.unref();
    this.#service.close();
    this.#decoder.close();
    this.#metrics.close();
    this.#port.unref();
  }
}

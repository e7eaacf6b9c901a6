/** The threads that read requests for one server, as the thread of the models sees them. */
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { Worker } from 'node:worker_threads';

import { pinMemory } from '../../tensor/shared_memory';
import { LINGER_MS } from '../body';
import { pastCounts, type RequestCounts } from '../metrics';
import { administrationOf, type Ask } from '../administration';
import { extensionsOf } from '../local_service';
import type { BatchedModel, Queues, ReadingThreads } from '../queues';
import { clearTimeout, setTimeout, wait } from '../timers';
import { Desk } from './desk';
import { descriptorOf, duplicateDescriptor, TakenDescriptors } from './descriptors';
import { errorOf, Outbox, type FromReader, type Task, type ToReader } from './messages';
import { plainModel } from './plain_model';
import type { ReaderData } from './reader';
import { SharedByteCounter, SharedNumber, type CounterMemory } from './shared_counters';

/** A reader that ended by itself is replaced after this long: whatever ended it may go on. */
const RESTART_MS = 100;

/** What all readers of a server have in common. */
interface Shared {
  readonly queues: Queues;
  readonly counters: CounterMemory;
  /** The GPU whose driver pins memory; `undefined` where no model runs on one */
  readonly gpu: `cuda:${number}` | undefined;
  /** Processes that decode images, of each reader */
  readonly decoders: number;
}

interface Question {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** One thread. */
class ReaderThread {
  /** What it has counted, as far as it was asked */
  counts: RequestCounts | undefined;
  readonly connections: SharedNumber;
  /** Resolves when the thread has ended. */
  readonly ended: Promise<void>;
  readonly #shared: Shared;
  readonly #worker: Worker;
  readonly #outbox: Outbox<ToReader>;
  readonly #desk: Desk;
  readonly #held: SharedByteCounter;
  readonly #onPage: () => Promise<string>;
  readonly #onQuestion: Ask;
  readonly #onLost: (descriptors: readonly number[]) => void;
  readonly #questions = new Map<number, Question>();
  /** What it was handed, and whether it has taken it */
  readonly #handed = new Set<number>();
  readonly #descriptors = new TakenDescriptors();
  #hasEnded = false;
  #asked = 0;

  /** @param onLost - given the connections that it was handed and has not taken, when it has ended */
  constructor(
    shared: Shared,
    index: number,
    onPage: () => Promise<string>,
    onLost: (descriptors: readonly number[]) => void,
  ) {
    this.#shared = shared;
    this.#held = new SharedByteCounter(shared.counters, index);
    this.#onLost = onLost;
    this.#onPage = onPage;
    this.#onQuestion = administrationOf(shared.queues);
    const { queues, counters, gpu } = shared;
    const { maxQueue, maxBodyBytes, maxJsonBytes, maxHeldBytes, timeout, cors, watcher } = queues.settings;
    const workerData: ReaderData = {
      ...{ index, counters, descriptors: this.#descriptors.memory, decoders: shared.decoders },
      ...{ maxQueue, maxBodyBytes, maxJsonBytes, maxHeldBytes, timeout, cors },
      watching: watcher && { traceHeaders: watcher.traceHeaders, isLogged: watcher.isLogged },
      models: [...queues.models.values()].map(plainModel),
      extensions: extensionsOf(queues.settings),
    };
    this.connections = new SharedNumber(counters.connections, index);
    this.connections.value = 0;
    this.#worker = new Worker(path.join(__dirname, 'reader_thread.js'), {
      workerData,
      name: `warpconv reader ${index}`,
    });
    this.#outbox = new Outbox(this.#worker);
    this.#desk = new Desk(queues, this.#outbox, (memory) => pinMemory(gpu, memory));
    this.#worker.on('message', (messages: readonly FromReader[]) =>
      messages.forEach((one) => this.#hear(one)),
    );
    this.#worker.on('error', (error) =>
      queues.settings.logger.error({ err: error }, 'a reader thread failed'),
    );
    this.ended = new Promise((resolve) => this.#worker.once('exit', resolve)).then(() => this.#clear());
  }

  /** Hands it a connection. False where it has ended. */
  connect(descriptor: number): boolean {
    if (this.#hasEnded || !this.#descriptors.canHold(descriptor)) return false;
    this.connections.add(1);
    this.#handed.add(descriptor);
    this.#descriptors.note(descriptor, false);
    this.#outbox.tell({ kind: 'connection', descriptor });
    return true;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** @returns once it is done; rejects where the thread ends before */
  ask(task: Task): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#hasEnded) return reject(gone());
      const id = this.#asked++;
      this.#questions.set(id, { resolve, reject });
      this.#outbox.tell({ kind: 'do', id, task });
    });
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  #hear(message: FromReader): void {
    const desk = this.#desk;
    switch (message.kind) {
      case 'slab':
        return desk.addSlab(message.slab, message.memory);
      case 'retired':
        return desk.retireSlab(message.slab);
      case 'run':
        return void desk.run(message);
      case 'cancel':
        return desk.cancel(message.id);
      case 'answered':
        return desk.answered(message.start, message.end);
      case 'page':
        return void this.#onPage().then((text) => this.#outbox.tell({ kind: 'page', text }));
      case 'ask': {
        const { id, question } = message;
        return void this.#onQuestion(question).then((told) => this.#outbox.tell({ kind: 'told', id, told }));
      }
      case 'failed': {
        const { failure, model } = message;
        const err = errorOf(failure);
        return this.#shared.queues.settings.logger.error({ err, model }, 'a request failed');
      }
      case 'counts':
        this.counts = message.counts;
        return;
      case 'done':
        this.counts = message.counts;
        this.#questions.get(message.id)!.resolve();
        return void this.#questions.delete(message.id);
    }
  }

  #clear(): void {
    this.#hasEnded = true;
    this.#desk.close();
    this.#held.clear();
    this.#onLost([...this.#handed].filter((descriptor) => !this.#descriptors.isTaken(descriptor)));
    for (const { reject } of this.#questions.values()) reject(gone());
    this.#questions.clear();
  }
}

function gone(): Error {
  return new Error('a thread that reads requests has ended; the log of the server says why');
}

export class Readers implements ReadingThreads {
  readonly #shared: Shared;
  readonly #threads: ReaderThread[] = [];
  /** What threads that ended by themselves had counted */
  #past: RequestCounts = pastCounts([]);
  #isClosing = false;
  #closed: Promise<void> | undefined;

  private constructor(shared: Shared) {
    this.#shared = shared;
  }

  /**
   * Starts the threads.
   *
   * @param own - what the thread of the models counts itself
   * @throws what keeps one from starting
   */
  static async start(shared: Shared, count: number, own: () => RequestCounts): Promise<Readers> {
    const readers = new Readers(shared);
    const page = async () => {
      await readers.#askAll('count');
      return shared.queues.metricsPage([own(), ...readers.counts()]);
    };
    try {
      for (let index = 0; index < count; index++) readers.#add(index, page);
      // From now on they are told of models that come and go.
      shared.queues.threads = readers;
      await Promise.all(readers.#threads.map((thread) => thread.ask('count')));
      return readers;
    } catch (error) {
      readers.#isClosing = true;
      await Promise.all(readers.#threads.map((thread) => thread.terminate()));
      throw error;
    }
  }

  /** So many connections are open. */
  get connections(): number {
    return this.#threads.reduce((sum, { connections }) => sum + connections.value, 0);
  }

  /** What all have counted, when they were last asked. */
  counts(): RequestCounts[] {
    return [this.#past, ...this.#threads.flatMap(({ counts }) => counts ?? [])];
  }

  /** Hands a connection, of which nothing has been read, to the thread that has the fewest. False where that cannot be. */
  take(socket: Socket): boolean {
    const thread = this.#leastLoaded();
    const descriptor = descriptorOf(socket);
    // Readers that are closing may be gone before they have it.
    if (thread === undefined || descriptor === undefined || this.#closed !== undefined) return false;
    const copy = duplicateDescriptor(descriptor);
    if (copy === null) return false;
    const isTaken = thread.connect(copy);
    if (isTaken) socket.destroy();
    else closeSync(copy);
    return isTaken;
  }

  async drain(): Promise<void> {
    this.#isClosing = true;
    await this.#askAll('drain');
  }

  /** Keeps requests from being answered, until the function that it returns is called. */
  async hold(): Promise<() => void> {
    await this.#askAll('hold');
    return () => void this.#askAll('release');
  }

  serve(model: BatchedModel): Promise<void> {
    return this.#askAll({ serve: plainModel(model) });
  }

  remove(place: number): Promise<void> {
    return this.#askAll({ remove: place });
  }

  gone(place: number): Promise<void> {
    return this.#askAll({ gone: place });
  }

  /** Ends the threads. Again is harmless. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  #leastLoaded(): ReaderThread | undefined {
    const alive = this.#threads.filter(({ hasEnded }) => !hasEnded);
    const least = Math.min(...alive.map(({ connections }) => connections.value));
    return alive.find(({ connections }) => connections.value === least);
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    await this.#askAll('close');
    const timer = setTimeout(() => this.#threads.forEach((thread) => void thread.terminate()), 2 * LINGER_MS);
    await Promise.all(this.#threads.map(({ ended }) => ended));
    clearTimeout(timer);
  }

  #add(index: number, page: () => Promise<string>): void {
    const thread = new ReaderThread(this.#shared, index, page, (lost) => this.#handOn(lost));
    this.#threads[index] = thread;
    void thread.ended.then(async () => {
      if (this.#isClosing) return;
      if (thread.counts !== undefined) this.#past = pastCounts([this.#past, thread.counts]);
      thread.counts = undefined;
      await wait(RESTART_MS);
      if (!this.#isClosing) this.#add(index, page);
    });
  }

  /** Of these nothing has been read. */
  #handOn(descriptors: readonly number[]): void {
    for (const descriptor of descriptors) {
      if (this.#leastLoaded()?.connect(descriptor) !== true) closeSync(descriptor);
    }
  }

  /** Those that end meanwhile have nothing to do any more. */
  async #askAll(task: Task): Promise<void> {
    await Promise.allSettled(this.#threads.map((thread) => thread.ask(task)));
  }
}

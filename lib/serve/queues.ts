/** The queues of a server's models, all in one thread, whoever reads the requests. */
import { Batcher } from './batcher';
import type { ModelFolder } from './folder/model_folder';
import type { ModelFollower } from './folder/follower';
import { GpuShares } from './gpu_shares';
import { MemoryBudget } from './memory';
import { metricsPage, RunMetrics, type Gauges, type RequestCounts } from './metrics';
import type { Model } from './model';
import type { HandlerSettings } from './options';
import type { QueuedModel } from './queue';
import { SharedNumber } from './threads/shared_counters';
import { Users } from './users';

/** A model, its queue in this thread, and what other threads need to queue requests there. */
export interface BatchedModel extends QueuedModel {
  readonly queue: Batcher;
  /** Of all models that the server has ever had */
  readonly place: number;
  /** Has the length of the queue. */
  readonly waiting: SharedArrayBuffer;
}

/** The threads that read requests for a server's models. Each of these resolves when they all have done it. */
export interface ReadingThreads {
  /** Serves a model in place of the one that had its name. */
  serve(model: BatchedModel): Promise<void>;
  /** Serves a model no longer. */
  remove(place: number): Promise<void>;
  /** Waits for the requests of a model that is not served any more. */
  gone(place: number): Promise<void>;
}

/** One for each model, and what they count. */
export class Queues implements ModelFollower {
  /** Set where there are any. */
  threads: ReadingThreads | undefined;
  /** Those of a folder come and go. */
  readonly models = new Map<string, BatchedModel>();
  readonly folder: ModelFolder | undefined;
  readonly #places = new Map<number, BatchedModel>();
  readonly #runs = new RunMetrics();
  readonly #gauges: Gauges;
  readonly #gpus = new GpuShares();
  readonly #unfollow: () => void;
  #placed = 0;

  constructor(
    readonly settings: HandlerSettings,
    readonly budget: MemoryBudget = new MemoryBudget(settings.maxHeldBytes),
  ) {
    for (const model of settings.models.values()) this.#add(model);
    this.folder = settings.folder;
    this.#unfollow = this.folder?.follow(this) ?? (() => {});
    this.#gauges = {
      queueLengths: () => [...this.models].map(([name, { queue }]) => [name, queue.waiting] as const),
      heldBytes: () => this.budget.held,
    };
  }

  /** Of a model that has requests */
  at(place: number): BatchedModel {
    return this.#places.get(place)!;
  }

  async serve(model: Model): Promise<void> {
    const queued = this.#add(model);
    await this.threads?.serve(queued);
  }

  async remove(model: Model): Promise<void> {
    const queued = this.#find(model);
    if (queued === undefined) return;
    this.models.delete(model.name);
    await this.threads?.remove(queued.place);
  }

  async gone(model: Model): Promise<void> {
    const queued = this.#find(model);
    if (queued === undefined) return;
    const { place, queue, users } = queued;
    await Promise.all([users.gone(), this.threads?.gone(place)]);
    queue.close();
    this.#places.delete(place);
  }

  /** Goes on with the models that there are, for requests that are refused. */
  close(): void {
    this.#unfollow();
  }

  metricsPage(threads: readonly RequestCounts[]): string {
    return metricsPage(threads, this.#runs, this.#gauges);
  }

  #add(model: Model): BatchedModel {
    const { name } = model;
    const place = this.#placed++;
    const length = new SharedNumber();
    const onRun = (...run: [requests: number, milliseconds: number]) => this.#runs.ran(name, ...run);
    const onWaiting = (requests: number) => (length.value = requests);
    const queue = new Batcher(
      model,
      this.settings.maxQueue,
      onRun,
      onWaiting,
      this.#gpus,
      this.settings.tracing,
    );
    const queued = { ...model, queue, place, waiting: length.memory, users: new Users() };
    this.models.set(name, queued);
    this.#places.set(place, queued);
    return queued;
  }

  /** Nothing of one that had been replaced before this began to follow. */
  #find(model: Model): BatchedModel | undefined {
    return [...this.#places.values()].find(({ queue }) => queue.model === model);
  }
}

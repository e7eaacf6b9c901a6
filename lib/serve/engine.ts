/** The models of a server, and what the threads that serve them share. */
import { Batcher } from './batcher';
import { HEAP, MemoryBudget } from './memory';
import { metricsPage, RequestMetrics, RunMetrics, type Gauges, type RequestCounts } from './metrics';
import type { HandlerSettings } from './options';
import { Service, type QueuedModel } from './service';

/** The queues of all models, and what they count. */
export class Engine {
  readonly models: ReadonlyMap<string, QueuedModel>;
  readonly #runs = new RunMetrics();
  readonly #gauges: Gauges;

  /** @param onWaiting - told how many requests wait for the model of that place, whenever that changes */
  constructor(
    readonly settings: HandlerSettings,
    readonly budget: MemoryBudget = new MemoryBudget(settings.maxHeldBytes),
    onWaiting: (model: number, requests: number) => void = () => {},
  ) {
    const models = [...settings.models].map(([name, model], index) => {
      const onRun = (...run: [requests: number, milliseconds: number]) => this.#runs.ran(name, ...run);
      const queue = new Batcher(model, settings.maxQueue, onRun, (count) => onWaiting(index, count));
      return [name, { ...model, queue }] as const;
    });
    this.models = new Map(models);
    this.#gauges = {
      queueLengths: () => models.map(([name, { queue }]) => [name, queue.waiting] as const),
      heldBytes: () => this.budget.held,
    };
  }

  metricsPage(threads: readonly RequestCounts[]): string {
    return metricsPage(threads, this.#runs, this.#gauges);
  }
}

/** A service in the thread of the models. */
export class LocalService extends Service {
  readonly #metrics: RequestMetrics;
  readonly #page: () => string;

  /** @param others - what other threads have counted that serve the same models */
  constructor(engine: Engine, others: () => readonly RequestCounts[] = () => []) {
    const metrics = new RequestMetrics();
    const page = () => engine.metricsPage([this.counts(), ...others()]);
    const { models, budget, settings } = engine;
    super({ ...settings, models, budget, metrics, metricsPage: page, newMemory: () => HEAP });
    this.#metrics = metrics;
    this.#page = page;
  }

  /** So far. Delays of the event loop are those since the last time. */
  counts(): RequestCounts {
    const counts = this.#metrics.counts();
    this.#metrics.resetDelays();
    return counts;
  }

  metrics(): string {
    return this.#page();
  }

  override close(): void {
    super.close();
    this.#metrics.close();
  }
}

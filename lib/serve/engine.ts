/** The models of a server, and what the threads that serve them share. */
import { Batcher } from './batcher';
import { HEAP, MemoryBudget } from './memory';
import { metricsPage, RequestMetrics, RunMetrics, type Gauges, type RequestCounts } from './metrics';
import type { HandlerSettings } from './options';
import { Service, type QueuedModel } from './service';

/** The queues of all models, and what they count. */
export class Engine {
  readonly models: ReadonlyMap<string, QueuedModel>;
  readonly budget: MemoryBudget;
  readonly #runs = new RunMetrics();
  readonly #gauges: Gauges;

  /** @param budget - by default one of this thread alone */
  constructor(
    readonly settings: HandlerSettings,
    budget?: MemoryBudget,
  ) {
    this.budget = budget ?? new MemoryBudget(settings.maxHeldBytes);
    const models = Array.from(settings.models, ([name, model]) => {
      const onRun = (...run: [requests: number, milliseconds: number]) => this.#runs.ran(name, ...run);
      return [name, { ...model, queue: new Batcher(model, settings.maxQueue, onRun) }] as const;
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

  constructor(engine: Engine) {
    const metrics = new RequestMetrics();
    const page = () => engine.metricsPage([metrics.counts()]);
    const { models, budget, settings } = engine;
    super({ ...settings, models, budget, metrics, metricsPage: page, newMemory: () => HEAP });
    this.#metrics = metrics;
    this.#page = page;
  }

  metrics(): string {
    return this.#page();
  }

  override close(): void {
    super.close();
    this.#metrics.close();
  }
}

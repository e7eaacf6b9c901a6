/** The queues of a server's models, all in one thread, whoever reads the requests. */
import { Batcher, gpusOf } from './batcher';
import { GpuShares } from './gpu_shares';
import { MemoryBudget } from './memory';
import { metricsPage, RunMetrics, type Gauges, type RequestCounts } from './metrics';
import type { HandlerSettings } from './options';
import type { QueuedModel } from './service';

/** One for each model, and what they count. */
export class Queues {
  readonly models: ReadonlyMap<string, QueuedModel>;
  readonly #runs = new RunMetrics();
  readonly #gauges: Gauges;

  /** @param onWaiting - told how many requests wait for the model of that place, whenever that changes */
  constructor(
    readonly settings: HandlerSettings,
    readonly budget: MemoryBudget = new MemoryBudget(settings.maxHeldBytes),
    onWaiting: (model: number, requests: number) => void = () => {},
  ) {
    const gpus = new GpuShares([...settings.models.values()].map(gpusOf));
    const models = [...settings.models].map(([name, model], index) => {
      const onRun = (...run: [requests: number, milliseconds: number]) => this.#runs.ran(name, ...run);
      const queue = new Batcher(model, settings.maxQueue, onRun, (count) => onWaiting(index, count), gpus);
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

import { LOCAL } from './decoders/sharp';
import { HEAP } from './memory';
import { RequestMetrics, type RequestCounts } from './metrics';
import type { Queues } from './queues';
import { Service } from './service';

/** A service in the thread of the models. */
export class LocalService extends Service {
  readonly #metrics: RequestMetrics;
  readonly #page: () => string;

  /** @param others - what other threads have counted that serve the same models */
  constructor(queues: Queues, others: () => readonly RequestCounts[] = () => []) {
    const metrics = new RequestMetrics();
    const page = () => queues.metricsPage([this.counts(), ...others()]);
    const { models, budget, settings } = queues;
    const newMemory = () => HEAP;
    super({ ...settings, models, budget, metrics, metricsPage: page, newMemory, decoder: LOCAL });
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

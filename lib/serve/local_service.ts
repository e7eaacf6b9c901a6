import { administrationOf } from './administration';
import { LOCAL } from './decoders/sharp';
import { HEAP } from './memory';
import { RequestMetrics, type RequestCounts } from './metrics';
import type { HandlerSettings } from './options';
import type { Queues } from './queues';
import { Service } from './service';

/** Of the protocol, that depend on the models */
export function extensionsOf({ folder }: HandlerSettings): readonly string[] {
  return folder?.control === 'explicit' ? ['model_repository'] : [];
}

/** A service in the thread of the models. */
export class LocalService extends Service {
  readonly #metrics: RequestMetrics;
  readonly #page: () => string;
  readonly #queues: Queues;

  /** @param others - what other threads have counted that serve the same models */
  constructor(queues: Queues, others: () => readonly RequestCounts[] = () => []) {
    const metrics = new RequestMetrics();
    const page = () => queues.metricsPage([this.counts(), ...others()]);
    const { models, budget, settings } = queues;
    const newMemory = () => HEAP;
    const ask = administrationOf(queues);
    const extensions = extensionsOf(settings);
    super({
      ...settings,
      models,
      extensions,
      ask,
      budget,
      metrics,
      metricsPage: page,
      newMemory,
      decoder: LOCAL,
    });
    this.#queues = queues;
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
    this.#queues.close();
  }
}

import { availableParallelism } from 'node:os';

import { isGpu } from '../../placement';
import { listenerOf, type Handler } from '../handler';
import { LocalService } from '../local_service';
import { MemoryBudget } from '../memory';
import { devicesOf, type HandlerSettings } from '../options';
import { Queues } from '../queues';
import { Readers } from './readers';
import { allocateCounters, SharedByteCounter } from './shared_counters';

/**
 * Starts threads that read requests for the models of this one.
 *
 * @returns with a handler that speaks for all threads, and answers requests on this one
 */
export async function startReaders(
  settings: HandlerSettings,
  threads: number,
): Promise<{ handler: Handler; readers: Readers }> {
  const counters = allocateCounters(threads);
  const budget = new MemoryBudget(settings.maxHeldBytes, new SharedByteCounter(counters));
  const queues = new Queues(settings, budget);
  let counts: Readers['counts'] = () => [];
  const service = new LocalService(queues, () => counts());
  const gpu = devicesOf(settings).find(isGpu);
  const decoders = Math.max(1, Math.floor(availableParallelism() / threads));
  const shared = { queues, counters, gpu, decoders };
  const readers = await Readers.start(shared, threads, () => service.counts()).catch((error: unknown) => {
    service.close();
    throw error;
  });
  counts = () => readers.counts();
  const handler = Object.assign(listenerOf(service, settings), {
    drain: async () => void (await Promise.all([service.drain(), readers.drain()])),
    close: () => {
      service.close();
      void readers.close();
    },
    metrics: () => service.metrics(),
  });
  return { handler, readers };
}

/** A server with its clients, a device and its time, all of them simulated. */
import type { KindSizes } from '../../../lib/serve/batch_sizes';
import { Random } from '../../support/random';

/** Milliseconds of a run of so many requests, so many milliseconds after the first one. */
export type Device = (size: number, now: number, random: Random) => number;

/** A few times that are a bit longer than they could be, and a few that are twice as long. */
export function noisy(milliseconds: (size: number) => number, noise: number): Device {
  return (size, _, random) => {
    const factor = 1 - noise * Math.log(1 - random.uniform());
    return milliseconds(size) * factor * (random.chance(0.01) ? 2 : 1);
  };
}

export interface Measured {
  readonly perSecond: number;
  readonly p99: number;
  /** How many runs there were of each size. */
  readonly runs: ReadonlyMap<number, number>;
}

/** Joins nothing, as the server does at `maxBatch: 1`. */
export const ONE_BY_ONE: Pick<KindSizes, 'choose' | 'ran'> = { choose: () => 1, ran: () => {} };

/** What a session keeps of what it compiled: fewer shapes than there are sizes, and the others are compiled again. */
const CACHED_SHAPES = 4;

/** Clients that ask again as soon as they are answered, which is while the next run computes. */
export function simulate(
  device: Device,
  sizes: Pick<KindSizes, 'choose' | 'ran'>,
  load: { readonly clients: number; readonly seconds: number; readonly seed: number },
): Measured {
  const random = new Random(load.seed);
  const [latencies, runs, compiled] = [[] as number[], new Map<number, number>(), [] as number[]];
  let waiting = new Array<number>(load.clients).fill(0);
  let coming: number[] = [];
  let now = 0;
  while (now < 1000 * load.seconds) {
    if (waiting.length === 0) waiting = coming.splice(0);
    const size = sizes.choose(waiting.length);
    const batch = waiting.splice(0, size);
    waiting.push(...coming);
    let milliseconds = device(size, now, random);
    if (!compiled.includes(size)) milliseconds *= 2;
    compiled.splice(
      0,
      compiled.length,
      ...compiled.filter((one) => one !== size).slice(1 - CACHED_SHAPES),
      size,
    );
    now += milliseconds;
    sizes.ran(size, milliseconds);
    runs.set(size, (runs.get(size) ?? 0) + 1);
    latencies.push(...batch.map((asked) => now - asked));
    coming = batch.map(() => now);
  }
  latencies.sort((a, b) => a - b);
  const p99 = latencies[Math.floor(0.99 * latencies.length)]!;
  return { perSecond: (1000 * latencies.length) / now, p99, runs };
}

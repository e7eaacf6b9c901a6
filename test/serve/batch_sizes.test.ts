/** Which requests are joined, by the times of simulated devices: never to anybody's harm, and where it pays, soon. */
import { BatchSizes } from '../../lib/serve/batch_sizes';
import { noisy, ONE_BY_ONE, simulate, type Device, type Measured } from './support/simulated_server';

const SEED = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 31);
const MOST = 32;
const CLIENTS = [3, 8, 32, 128];
/** The 99th percentiles of two simulations that join nothing differ by up to so much, by their seeds. */
const NOISE = 0.05;

beforeAll(() => process.stdout.write(`seed ${SEED}\n`));

const sizesFor = (kind = 'x') => new BatchSizes('cpu').of(kind, MOST);

interface Beside extends Measured {
  /** Answers per second over those one by one, and the same of the 99th percentile. */
  readonly throughput: number;
  readonly latency: number;
}

function besideOneByOne(device: Device, load: { clients: number; seconds: number }): Beside {
  const [joined, alone] = [sizesFor(), ONE_BY_ONE].map((sizes) =>
    simulate(device, sizes, { ...load, seed: SEED }),
  ) as [Measured, Measured];
  const throughput = joined.perSecond / alone.perSecond;
  return { ...joined, throughput, latency: joined.p99 / alone.p99 };
}

/** Times that follow each other for a while: those of the second begin so many seconds after those of the first. */
const after =
  (seconds: number, first: Device, second: Device): Device =>
  (size, now, random) =>
    (now < 1000 * seconds ? first : second)(size, now, random);

/** Slower by half and back, within seconds. */
const waving =
  (device: Device): Device =>
  (size, now, random) =>
    device(size, now, random) * (1.25 + Math.sin(now / 2000) / 4);

describe('a device that takes as long for each request of a batch', () => {
  test.each<[string, Device]>([
    ['and is fast', noisy((size) => 8 * size, 0.05)],
    ['and is slow', noisy((size) => 50 * size, 0.05)],
    ['and even longer', noisy((size) => 5 * size ** 1.1, 0.05)],
    ['or a little less', noisy((size) => 1 + 9 * size, 0.05)],
    ['and is noisy', noisy((size) => 10 * size, 0.3)],
    ['and is now faster, now slower', waving(noisy((size) => 10 * size, 0.05))],
  ])('%s is no worse off than one by one', (_, device) => {
    for (const clients of CLIENTS) {
      const { throughput, latency } = besideOneByOne(device, { clients, seconds: 600 });
      expect(throughput).toBeGreaterThan(0.995);
      expect(latency).toBeLessThan(1 + NOISE);
    }
  });

  test('is no worse off in its first minute either', () => {
    const device = noisy((size) => 50 * size, 0.05);
    for (const clients of CLIENTS) {
      const { throughput, runs } = besideOneByOne(device, { clients, seconds: 60 });
      expect(throughput).toBeGreaterThan(0.98);
      const joined = [...runs].filter(([size]) => size > 1).reduce((sum, [, count]) => sum + count, 0);
      expect(joined).toBeLessThan(10);
    }
  });
});

test('a GPU whose clients become many finds its sizes at once', () => {
  /** Milliseconds of a ResNet-50 on an H100 */
  const times = new Map(Object.entries({ 1: 0.36, 2: 0.62, 4: 1.1, 8: 1.7, 16: 2.8, 32: 4.4 }));
  const noise = 0.3;
  const device = noisy((size) => times.get(String(size))!, noise);
  for (let seed = SEED; seed < SEED + 20; seed++) {
    const sizes = new BatchSizes('gpu').of('x', MOST);
    for (const clients of [1, 8]) simulate(device, sizes, { clients, seconds: 3, seed });
    const { perSecond } = simulate(device, sizes, { clients: 128, seconds: 3, seed });
    expect(perSecond).toBeGreaterThan((0.8 * 32_000) / (times.get('32')! * (1 + noise)));
  }
});

describe('a device that takes less for each request of a batch', () => {
  test.each<[string, Device, number]>([
    ['nothing for more than one', noisy(() => 2, 0.05), 0.9],
    ['a seventh for each more', noisy((size) => 1 + size / 6, 0.05), 0.9],
    ['half as much', noisy((size) => 5 + 5 * size, 0.05), 0.85],
  ])('%s gets large ones', (_, device, share) => {
    for (const clients of CLIENTS.slice(1)) {
      const { perSecond, latency } = besideOneByOne(device, { clients, seconds: 60 });
      // Half of the clients are in the run, and the others wait.
      const size = Math.min(clients / 2, MOST);
      const best = (1000 * size) / device(size, 0, { uniform: () => 0, chance: () => false } as never);
      expect(perSecond).toBeGreaterThan(share * best);
      expect(latency).toBeLessThan(1);
    }
  });

  test('but only up to a size gets none beyond', () => {
    const device = noisy((size) => (size <= 4 ? 2 + size : 4 * size), 0.05);
    const { throughput, latency, runs } = besideOneByOne(device, { clients: 32, seconds: 60 });
    expect(throughput).toBeGreaterThan(1.9);
    expect(latency).toBeLessThan(0.8);
    const requests = [...runs].reduce((sum, [size, count]) => sum + (size > 4 ? size * count : 0), 0);
    expect(requests).toBeLessThan(0.02 * 60_000);
  });

  test('but only from a size on is found out in time', () => {
    const device = noisy((size) => (size < 8 ? size : size / 2), 0.05);
    const { throughput, latency } = besideOneByOne(device, { clients: 32, seconds: 300 });
    expect(throughput).toBeGreaterThan(1.7);
    expect(latency).toBeLessThan(1 + NOISE);
  });
});

test('a device that becomes one that batches pay on gets them, and back', () => {
  const [cpu, gpu] = [noisy((size) => 2 * size, 0.05), noisy((size) => 2 + size / 10, 0.05)];
  for (const [first, second, gets] of [
    [cpu, gpu, true],
    [gpu, cpu, false],
  ] as const) {
    const { runs } = besideOneByOne(after(60, first, second), { clients: 32, seconds: 120 });
    const before = besideOneByOne(first, { clients: 32, seconds: 60 }).runs;
    const since = (size: number) => runs.get(size)! - (before.get(size) ?? 0);
    if (gets) expect(since(16)).toBeGreaterThan(since(1));
    else expect(since(16)).toBeLessThan(100);
  }
});

test('a machine that becomes slower does not change what pays', () => {
  const device = noisy((size) => 5 + 5 * size, 0.02);
  const slower: Device = (...run) => 3 * device(...run);
  const { throughput } = besideOneByOne(after(30, device, slower), { clients: 32, seconds: 60 });
  expect(throughput).toBeGreaterThan(1.6);
});

describe('the first requests', () => {
  const milliseconds = (size: number) => 2 + size;

  /** The sizes of runs while so many wait. */
  function sizesOf(runs: number, { waiting = 100, most = MOST, time = milliseconds } = {}): number[] {
    const sizes = new BatchSizes('cpu').of('x', most);
    return Array.from({ length: runs }, () => {
      const size = sizes.choose(waiting);
      sizes.ran(size, time(size));
      return size;
    });
  }

  test('are run alone, until the time of one is known', () => {
    // The first of all compiles.
    expect(sizesOf(9)).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 2]);
  });

  test('are joined by twice as many as soon as that is known to pay', () => {
    const sizes = sizesOf(300);
    const firsts = [2, 4, 8, 16, 32].map((size) => sizes.indexOf(size));
    expect(firsts).toEqual(firsts.toSorted((a, b) => a - b));
    expect(firsts[0]).toBe(8);
    // Nothing is tried any longer.
    expect(sizes.slice(-50).filter((size) => size !== 32).length).toBeLessThan(6);
  });

  test.each([
    [1, [1]],
    [2, [1, 2]],
    [3, [1, 2]],
    [31, [1, 2, 4, 8, 16]],
    [1000, [1, 2, 4, 8, 16, 32, 64]],
  ])('of which at most %d are joined are in powers of two', (most, expected) => {
    expect([...new Set(sizesOf(1000, { most }))].sort((a, b) => a - b)).toEqual(expected);
  });

  test('are never joined by more than wait', () => {
    expect([...new Set(sizesOf(1000, { waiting: 7 }))].sort()).toEqual([1, 2, 4]);
  });

  test('are joined by as many as make none wait longer', () => {
    // Two take 1.7 times as long: with two waiting, the next one would wait for 3.4 instead of 3.
    const time = (size: number) => 3 + 7 * size;
    const [two, ten] = [2, 10].map((waiting) => sizesOf(1000, { waiting, most: 2, time }));
    expect(two!.slice(-50)).not.toContain(2);
    expect(ten!.slice(-50).filter((size) => size === 2).length).toBeGreaterThan(40);
  });
});

test('a size that the session refuses is not tried again soon', () => {
  const sizes = sizesFor();
  let refused = 0;
  for (let run = 0; run < 2000; run++) {
    const size = sizes.choose(2);
    if (size === 2) {
      refused++;
      sizes.refused(2);
    }
    sizes.ran(1, 5);
  }
  expect(refused).toBeGreaterThan(1);
  expect(refused).toBeLessThan(6);
});

test('a size that pays and is refused is dropped', () => {
  const sizes = sizesFor();
  const run = () => {
    const size = sizes.choose(2);
    sizes.ran(size, 5);
    return size;
  };
  expect(Array.from({ length: 50 }, run)).toContain(2);
  while (sizes.choose(2) === 1) run();
  sizes.refused(2);
  expect(Array.from({ length: 50 }, run)).not.toContain(2);
});

test('kinds have sizes of their own, and one budget for trials', () => {
  const model = new BatchSizes('cpu');
  const kinds = [2, 5].map((each) => ({ each, sizes: model.of(`${each}`, MOST) }));
  let joined = 0;
  for (let run = 0; run < 500; run++) {
    for (const { each, sizes } of kinds) {
      const size = sizes.choose(2);
      if (size > 1) joined++;
      sizes.ran(size, each * size);
    }
  }
  // One of them has had a trial, and the other one waits for its turn.
  expect(joined).toBe(4);
  expect(model.of('2', MOST)).toBe(kinds[0]!.sizes);
});

test('kinds are forgotten when there are many', () => {
  const model = new BatchSizes('cpu');
  const [often, once] = [model.of('often', MOST), model.of('once', MOST)];
  for (let kind = 0; kind < 1000; kind++) {
    model.of(`${kind}`, MOST);
    expect(model.of('often', MOST)).toBe(often);
  }
  expect(model.of('once', MOST)).not.toBe(once);
});

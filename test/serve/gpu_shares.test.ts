/** Several models on one GPU, by a clock of the test's own: who runs when, and how much each gets. */
import { setImmediate } from 'node:timers/promises';

import { createHandler, type ServedSession } from '../../lib/serve';
import { unwatched } from '../../lib/serve/exchange';
import { HEAP, MemoryBudget } from '../../lib/serve/memory';
import { handlerSettings, HANDLER_DEFAULTS } from '../../lib/serve/options';
import { USUAL_URGENCY } from '../../lib/serve/queue';
import { Queues } from '../../lib/serve/queues';
import { Cancellation } from '../../lib/serve/cancellation';
import { doublingSession, FakeSession } from './support/fake_session';

afterEach(() => jest.restoreAllMocks());

/** Turns of the event loop in which whatever can begin has begun. */
const TURNS = 12;

interface SimulatedRun {
  readonly name: string;
  /** Milliseconds of a GPU to itself */
  left: number;
  readonly resolve: () => void;
}

/** GPUs that work off runs in the order in which they came, or those of different models side by side. */
class SimulatedGpus {
  now = 0;
  /** Milliseconds that each model has had */
  readonly had = new Map<string, number>();
  readonly #queues = new Map<string, SimulatedRun[]>();

  constructor(readonly order: 'in order' | 'side by side' = 'in order') {
    jest.spyOn(performance, 'now').mockImplementation(() => this.now);
  }

  session(name: string, device: string, { milliseconds, fails }: Loaded): ServedSession {
    const { inputMetadata, outputMetadata, compute } = doublingSession();
    const session = new FakeSession(inputMetadata, outputMetadata, compute);
    const run: ServedSession['run'] = async (feeds) => {
      const queue = this.#queues.get(device) ?? [];
      this.#queues.set(device, queue);
      await new Promise<void>((resolve) => queue.push({ name, left: milliseconds, resolve }));
      if (fails) throw new Error('no');
      return compute(feeds);
    };
    return Object.assign(session, { device, run });
  }

  /** Goes on until that time by the clock, or until nothing is left to do. */
  async runUntil(time: number): Promise<void> {
    for (;;) {
      for (let turn = 0; turn < TURNS; turn++) await setImmediate();
      const atWork = [...this.#queues.values()].map((queue) => this.#heads(queue));
      const untilNext = Math.min(...atWork.flatMap((heads) => heads.map(({ left }) => left * heads.length)));
      if (!(this.now + untilNext <= time)) return;
      this.now += untilNext;
      for (const heads of atWork) for (const run of heads) this.#progress(run, untilNext / heads.length);
      for (const queue of this.#queues.values()) {
        const ended = queue.filter(({ left }) => left < 1e-9);
        ended.forEach((run) => queue.splice(queue.indexOf(run), 1)[0]!.resolve());
      }
    }
  }

  /** Those that a GPU works on. */
  #heads(queue: readonly SimulatedRun[]): SimulatedRun[] {
    if (this.order === 'in order') return queue.slice(0, 1);
    return queue.filter((run) => queue.find(({ name }) => name === run.name) === run);
  }

  #progress(run: SimulatedRun, milliseconds: number): void {
    run.left -= milliseconds;
    this.had.set(run.name, (this.had.get(run.name) ?? 0) + milliseconds);
  }
}

interface Loaded {
  readonly milliseconds: number;
  readonly clients: number;
  readonly gpuShare?: number;
  readonly devices?: readonly string[];
  readonly fails?: boolean;
}

type Load = Readonly<Record<string, Loaded>>;

/** The models, and clients of which each asks again once it has been answered. */
function load(gpus: SimulatedGpus, models: Load) {
  const served = Object.entries(models).map(([name, model]) => {
    const { gpuShare, devices = ['cuda:0'] } = model;
    const session = devices.map((device) => gpus.session(name, device, model));
    return [name, { session, maxBatch: 1, gpuShare }];
  });
  const settings = handlerSettings({ ...HANDLER_DEFAULTS, models: Object.fromEntries(served) as object });
  const queues = new Queues(settings, new MemoryBudget(2 ** 20));
  const latencies = new Map<string, number[]>();
  const ask = async (name: string) => {
    const { queue, outputs } = queues.models.get(name)!;
    const x = { type: 'float32', dims: [1, 2], data: Float32Array.of(1, 2), location: 'cpu' } as const;
    const asked = gpus.now;
    await queue.run(new Map([['x', x]]), outputs, new Cancellation(), HEAP, USUAL_URGENCY, unwatched());
    latencies.set(name, [...(latencies.get(name) ?? []), gpus.now - asked]);
  };
  const start = (name: string, clients = models[name]!.clients) => {
    for (let client = 0; client < clients; client++) {
      void (async () => {
        for (;;) await ask(name).catch(() => {});
      })();
    }
  };
  return { start, latencies };
}

/** The part of the GPU's time that each of the models had. */
async function partsOf(models: Load, order?: SimulatedGpus['order']): Promise<Record<string, number>> {
  const milliseconds = 10_000;
  const gpus = new SimulatedGpus(order);
  const { start } = load(gpus, models);
  for (const name of Object.keys(models)) start(name);
  await gpus.runUntil(milliseconds);
  const all = [...gpus.had.values()].reduce((sum, had) => sum + had, 0);
  expect(all).toBeGreaterThan(0.99 * milliseconds);
  return Object.fromEntries([...gpus.had].map(([name, had]) => [name, had / all]));
}

describe('models that all have more requests than the GPU can run', () => {
  test.each(['in order', 'side by side'] as const)(
    'get as much time each, however long their runs are, %s',
    async (order) => {
      const long = { milliseconds: 8, clients: 4 };
      const { short } = await partsOf({ long, short: { milliseconds: 2, clients: 64 } }, order);
      expect(short).toBeGreaterThan(0.4);
      expect(short).toBeLessThan(0.6);
    },
  );

  test.each(['in order', 'side by side'] as const)('get time by their shares, %s', async (order) => {
    const load = { milliseconds: 3, clients: 8 };
    const parts = await partsOf({ a: { ...load, gpuShare: 6 }, b: { ...load, gpuShare: 3 }, c: load }, order);
    // Side by side, the one whose run is the oldest pays for what others do meanwhile.
    const error = order === 'in order' ? 0.01 : 0.06;
    expect(Math.abs(parts.a! - 0.6)).toBeLessThan(error);
    expect(Math.abs(parts.b! - 0.3)).toBeLessThan(error);
    expect(Math.abs(parts.c! - 0.1)).toBeLessThan(error);
  });

  test('do so on each of several GPUs', async () => {
    const gpus = new SimulatedGpus();
    const devices = ['cuda:0', 'cuda:1'];
    const { start } = load(gpus, {
      a: { milliseconds: 3, clients: 8, gpuShare: 3, devices },
      b: { milliseconds: 3, clients: 8, devices },
    });
    ['a', 'b'].forEach((name) => start(name));
    await gpus.runUntil(5000);
    expect(gpus.had.get('a')! / 10_000).toBeCloseTo(0.75, 1);
    expect(gpus.had.get('b')! / 10_000).toBeCloseTo(0.25, 1);
  });
});

test('a model that has less to do than its share leaves the rest', async () => {
  const gpus = new SimulatedGpus();
  const { start, latencies } = load(gpus, {
    busy: { milliseconds: 5, clients: 32 },
    seldom: { milliseconds: 1, clients: 1, gpuShare: 100 },
  });
  ['busy', 'seldom'].forEach((name) => start(name));
  await gpus.runUntil(5000);
  expect(gpus.had.get('busy')! + gpus.had.get('seldom')!).toBeGreaterThan(4950);
  expect(gpus.had.get('busy')!).toBeGreaterThan(3500);
  // Behind the two runs that had begun.
  expect(Math.max(...latencies.get('seldom')!)).toBeLessThanOrEqual(11);
});

test('a model alone has two runs at once, and one beside an idle model, too', async () => {
  const gpus = new SimulatedGpus();
  const { start } = load(gpus, {
    a: { milliseconds: 2, clients: 8 },
    idle: { milliseconds: 2, clients: 0 },
  });
  start('a');
  await gpus.runUntil(1000);
  expect(gpus.had.get('a')).toBeGreaterThan(998);
});

test('a model that was idle has saved nothing up, and one that was alone owes nothing', async () => {
  const gpus = new SimulatedGpus();
  const { start } = load(gpus, { a: { milliseconds: 2, clients: 8 }, b: { milliseconds: 2, clients: 8 } });
  start('a');
  await gpus.runUntil(2000);
  start('b');
  await gpus.runUntil(2100);
  expect(gpus.had.get('a')! - 2000).toBeGreaterThan(40);
  expect(gpus.had.get('b')!).toBeGreaterThan(40);
});

test('a model whose runs fail gets its time, and holds nobody up', async () => {
  const parts = await partsOf({
    good: { milliseconds: 2, clients: 8 },
    bad: { milliseconds: 2, clients: 8, fails: true },
  });
  expect(parts.good).toBeCloseTo(0.5, 1);
});

test.each([0, -1, NaN, Infinity, '2', null])('a gpuShare of %p is refused', (gpuShare) => {
  const models = { m: { session: doublingSession(), gpuShare } };
  expect(() => createHandler({ models: models as never })).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining('options.models.m.gpuShare must be a number'),
    }),
  );
});

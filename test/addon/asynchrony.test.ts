/** Convolutions run beside JavaScript, not in its way, and give back what they hold. */
import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

import { Conv2d, conv2d, conv2dSync, devices, memory, setThreads, Tensor, threads } from '../../lib';
import { cleanEnding, runChild } from '../support/child';
import { expectWithinBudget } from '../support/compare';
import { withoutGarbage } from '../support/garbage';
import { conv2dArguments } from '../support/library';
import { fuzzProblem, Random, realOperands } from '../support/random';
import { reference } from '../support/reference';

function tensor(dims: readonly number[], seed = 1): Tensor<'float32'> {
  const random = new Random(seed);
  const size = dims.reduce((product, extent) => product * extent);
  const data = Float32Array.from({ length: size }, () => 2 * random.uniform() - 1);
  return new Tensor(data, dims);
}

// About half a second: the readable algorithm, on one thread.
const inputDims = [1, 64, 56, 56];
const input = tensor(inputDims);
const weight = tensor([64, 64, 7, 7]);
const slow = { padding: 3, algorithm: 'direct', device: 'cpu' } as const;

const smallDims = [1, 8, 12, 13];
const small = tensor(smallDims);
const smallWeight = tensor([16, 8, 3, 3]);

// Each test's plans are disposed after it: one left to the collector could vanish in the middle of a later
// test that reads how much memory plans hold.
const open: Conv2d[] = [];
afterEach(() => open.splice(0).forEach((plan) => plan.dispose()));

async function keep(creation: Promise<Conv2d>): Promise<Conv2d> {
  const plan = await creation;
  open.push(plan);
  return plan;
}

function createPlan(): Promise<Conv2d> {
  return keep(Conv2d.create(weight, { ...slow, inputDims }));
}

function smallPlan(): Promise<Conv2d> {
  return keep(Conv2d.create(smallWeight, { inputDims: smallDims, device: 'cpu' }));
}

describe('the event loop', () => {
  test('turns while a convolution runs', async () => {
    let settled = false;
    const call = conv2d(input, weight, slow).finally(() => (settled = true));
    const turns = { timers: 0, immediates: 0 };
    const count = (kind: keyof typeof turns, again: (next: () => void) => void) => {
      const tick = () => {
        if (settled) return;
        turns[kind]++;
        again(tick);
      };
      again(tick);
    };
    count('timers', (next) => setTimeout(next, 1));
    count('immediates', (next) => setImmediate(next));
    await call;
    expect(turns.timers).toBeGreaterThan(5);
    expect(turns.immediates).toBeGreaterThan(5);
  });

  /** Runs chains of calls, and says how many calls ended between two turns of the loop at most. */
  async function mostEndsInATurn(
    chains: number,
    length: number,
    call: () => Promise<unknown>,
  ): Promise<number> {
    let [most, ends, ended] = [0, 0, false];
    const follow = async () => {
      for (let i = 0; i < length; i++) {
        await call();
        ends++;
      }
    };
    const all = Promise.all(Array.from({ length: chains }, follow)).finally(() => (ended = true));
    while (!ended) {
      ends = 0;
      await nextTurn();
      most = Math.max(most, ends);
    }
    await all;
    return most;
  }

  test('gets to its timers while small calls follow each other without end', async () => {
    const plan = await smallPlan();
    const output = await plan.run(small);
    let [fired, calls] = [false, 0];
    setTimeout(() => (fired = true), 20);
    // Without turns of the loop this would go on for ever.
    for (; !fired && calls < 2_000_000; calls++) await plan.run(small, { output });
    expect(fired).toBe(true);
  });

  test('turns between small calls', async () => {
    const length = 20_000;
    const plan = await smallPlan();
    const output = await plan.run(small);
    const most = await mostEndsInATurn(1, length, () => plan.run(small, { output }));
    expect(most).toBeLessThan(length / 4);
  });

  test('turns between small calls of conv2d', async () => {
    const length = 20_000;
    const most = await mostEndsInATurn(1, length, () => conv2d(small, smallWeight, { device: 'cpu' }));
    expect(most).toBeLessThan(length / 4);
  });

  test('turns between the ends of small calls on other threads', async () => {
    const plan = await smallPlan();
    const output = await plan.run(small);
    const { signal } = new AbortController();
    const chains = 8;
    const most = await mostEndsInATurn(chains, 2_000, () => plan.run(small, { output, signal }));
    // Each chain can end one call where the loop polls and one after that, and by chance one more.
    expect(most).toBeLessThanOrEqual(4 * chains);
  });

  test("has libuv's pool to itself", async () => {
    const ending = await runChild(['readfile_during_convolutions.cjs'], { env: { UV_THREADPOOL_SIZE: '1' } });
    expect(ending).toEqual(cleanEnding('pending\n'));
  });

  test('brings ends of calls where timers are faked', async () => {
    const stdout = ['conv2d', 'a plan', 'tune', 'a session'].map((step) => `${step} settles\n`).join('');
    expect(await runChild(['faked_timers.cjs'])).toEqual(cleanEnding(stdout));
  });

  test('never meets a rejection that nobody handles', async () => {
    const codes = ['ABORTED', 'DISPOSED', 'INVALID_ARGUMENT', 'NO_DEVICE'];
    const stdout = `${codes.map((code) => `ERR_WARPCONV_${code}`).join(' ')}\n`;
    expect(await runChild(['rejections.cjs'])).toEqual(cleanEnding(stdout));
  });
});

describe('a small call', () => {
  const before = threads();
  afterEach(() => setThreads(before));

  test('that nothing is before has run when the call returns', async () => {
    const plan = await smallPlan();
    const output = await plan.run(small);
    const expected = output.data.slice();
    output.data.fill(NaN);
    await nextTurn();
    const call = plan.run(small, { output });
    const written = output.data.slice();
    expect(await call).toBe(output);
    expect(written).toEqual(expected);
  });

  test('does not overtake a longer one', async () => {
    setThreads(1);
    const plan = await smallPlan();
    const settled: string[] = [];
    await nextTurn();
    await Promise.all([
      plan.run(small).then(() => settled.push('first')),
      conv2d(input, weight, slow).then(() => settled.push('long')),
      plan.run(small).then(() => settled.push('second')),
      conv2d(small, smallWeight, { device: 'cpu' }).then(() => settled.push('third')),
    ]);
    expect(settled).toEqual(['first', 'long', 'second', 'third']);
  });
});

test('many different convolutions at once do not disturb each other', async () => {
  const cases = Array.from({ length: 100 }, (_, seed) => {
    const random = new Random(seed);
    const problem = fuzzProblem(random);
    return { seed, problem, operands: realOperands(problem, random) };
  });
  const outputs = await Promise.all(
    cases.map(({ problem, operands }) => conv2d(...conv2dArguments(problem, operands))),
  );
  cases.forEach(({ seed, problem, operands }, index) => {
    expectWithinBudget(outputs[index]!.data, reference(problem, operands), `seed ${seed}`);
  });
});

describe('dispose', () => {
  test('lets running calls finish and refuses later ones', async () => {
    const plan = await createPlan();
    const running = [plan.run(input), plan.run(input)];
    plan.dispose();
    plan.dispose();
    await expect(plan.run(input)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
    expect(() => plan.runSync(input)).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }));
    const expected = conv2dSync(input, weight, slow).data;
    for (const output of await Promise.all(running))
      expect(Buffer.compare(bytes(output.data), bytes(expected))).toBe(0);
  });

  test('in its asynchronous form resolves after the running calls', async () => {
    const plan = await createPlan();
    let settled = 0;
    const running = [1, 2].map(() => plan.run(input).finally(() => settled++));
    await plan[Symbol.asyncDispose]();
    expect(settled).toBe(running.length);
  });

  test('gives back the packed weights, when the last running call ends', async () => {
    const before = await withoutGarbage(memory);
    const plan = await createPlan();
    expect(memory().plans).toBe(before.plans + 1);
    expect(memory().cpu).toBeGreaterThan(before.cpu);
    const running = plan.run(input);
    plan.dispose();
    expect(memory().plans).toBe(before.plans);
    await running;
    expect(memory().cpu).toBe(before.cpu);
  });
});

function bytes(data: Float32Array): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

describe('an AbortSignal', () => {
  const reason = new Error('no longer wanted');
  const aborted = { code: 'ERR_WARPCONV_ABORTED', cause: reason };

  test('takes queued calls out, and the next call works', async () => {
    const { cores } = devices()[0] as { cores: number };
    const plan = await smallPlan();
    const blockers = Array.from({ length: cores }, () => conv2d(input, weight, slow));
    const controller = new AbortController();
    const { signal } = controller;
    const queued = [
      ...Array.from({ length: 50 }, () => plan.run(small, { signal })),
      ...Array.from({ length: 50 }, () => conv2d(small, smallWeight, { device: 'cpu', signal })),
    ];
    controller.abort(reason);
    for (const call of queued) await expect(call).rejects.toMatchObject(aborted);
    const next = await plan.run(small);
    expect(next.data).toEqual(plan.runSync(small).data);
    await Promise.all(blockers);
    plan.dispose();
  });

  test.each(['sconv', 'direct'] as const)('stops a running call of %s', async (algorithm) => {
    const controller = new AbortController();
    // Many seconds of work, were it to run to its end.
    const [many, large] = [tensor([8, 128, 64, 64]), tensor([128, 128, 11, 11])];
    const options = { padding: 5, algorithm, device: 'cpu', signal: controller.signal } as const;
    const call = conv2d(many, large, options);
    const started = sleep(20).then(() => controller.abort(reason));
    await expect(call).rejects.toMatchObject(aborted);
    await started;
  });

  test('that is aborted already stops a call before it starts', async () => {
    const signal = AbortSignal.abort(reason);
    const options = { device: 'cpu', signal } as const;
    await expect(conv2d(small, smallWeight, options)).rejects.toMatchObject(aborted);
    await expect(Conv2d.create(smallWeight, { ...options, inputDims: smallDims })).rejects.toMatchObject(
      aborted,
    );
    expect(() => conv2dSync(small, smallWeight, options)).toThrow(expect.objectContaining(aborted));
  });

  test('is left without listeners, and aborting it later harms nothing', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    await conv2d(small, smallWeight, { device: 'cpu', signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    controller.abort();
  });
});

describe('the data of a call', () => {
  /** A copy of the tensor in shared memory. */
  function shared({ data, dims }: Tensor<'float32'>): Tensor<'float32'> {
    const view = new Float32Array(new SharedArrayBuffer(data.byteLength));
    view.set(data);
    return new Tensor<'float32'>(view, dims);
  }

  test('over a SharedArrayBuffer is copied before the call returns', async () => {
    const bias = tensor([16]);
    const residual = tensor([1, 16, 12, 13]);
    const copies = {
      x: shared(small),
      w: shared(smallWeight),
      bias: shared(bias),
      residual: shared(residual),
    };
    const { x, w, ...addends } = copies;
    const options = { padding: 1, device: 'cpu' } as const;
    const call = conv2d(x, w, { ...options, ...addends });
    for (const { data } of Object.values(copies)) data.fill(NaN);
    expect((await call).data).toEqual(conv2dSync(small, smallWeight, { ...options, bias, residual }).data);
  });

  /** Bytes of ArrayBuffers that a call allocates before it returns. */
  function bytesAllocatedBy(start: () => Promise<unknown>): { bytes: number; call: Promise<unknown> } {
    const before = process.memoryUsage().arrayBuffers;
    const call = start();
    return { bytes: process.memoryUsage().arrayBuffers - before, call };
  }

  test('is otherwise used in place', async () => {
    // 16 MiB in, 16 KiB out: a copy of the input would show, and with shared memory it does.
    const dims = [1, 1, 2048, 2048];
    const plain = tensor(dims);
    const point = new Tensor(Float32Array.of(2), [1, 1, 1, 1]);
    const options = { stride: 32, device: 'cpu' } as const;
    const sharedPlain = shared(plain);
    const inPlace = bytesAllocatedBy(() => conv2d(plain, point, options));
    const copied = bytesAllocatedBy(() => conv2d(sharedPlain, point, options));
    await Promise.all([inPlace.call, copied.call]);
    expect(inPlace.bytes).toBeLessThan(plain.data.byteLength / 2);
    expect(copied.bytes).toBeGreaterThan(plain.data.byteLength / 2);
  });

  test('may be dropped and collected while the call runs', async () => {
    const ending = await runChild(['collected_during_run.cjs'], { nodeOptions: ['--expose-gc'] });
    expect(ending).toEqual(cleanEnding('6 of 6 right\nno plans left\n'));
  });

  test('that a plan was made from may be overwritten afterwards', async () => {
    const own = new Tensor<'float32'>(smallWeight.data.slice(), smallWeight.dims);
    const bias = tensor([16]);
    const ownBias = new Tensor<'float32'>(bias.data.slice(), [16]);
    const plan = await keep(Conv2d.create(own, { inputDims: smallDims, bias: ownBias, device: 'cpu' }));
    own.data.fill(NaN);
    ownBias.data.fill(NaN);
    const output = await plan.run(small);
    plan.dispose();
    expect(output.data).toEqual(conv2dSync(small, smallWeight, { bias, device: 'cpu' }).data);
  });

  test('of a new output is all result, in large ones too', () => {
    // 36 MiB: of the size that huge pages are asked for.
    const filters = new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9), [9, 1, 1, 1]);
    const map = new Tensor(new Float32Array(1024 * 1024).fill(3), [1, 1, 1024, 1024]);
    const { data } = conv2dSync(map, filters, { device: 'cpu' });
    for (let k = 0; k < 9; k++) {
      const channel = data.subarray(k * map.size, (k + 1) * map.size);
      expect(channel.every((value) => value === 3 * (k + 1))).toBe(true);
    }
  });

  test('goes into the output that the caller gives, and that one is returned', async () => {
    const plan = await smallPlan();
    const data = new Float32Array(plan.outputDims.reduce((product, extent) => product * extent)).fill(NaN);
    const output = new Tensor(data, plan.outputDims);
    expect(await plan.run(small, { output })).toBe(output);
    expect(data).toEqual(conv2dSync(small, smallWeight, { device: 'cpu' }).data);
    data.fill(NaN);
    expect(plan.runSync(small, { output })).toBe(output);
    expect(data).toEqual(conv2dSync(small, smallWeight, { device: 'cpu' }).data);
    plan.dispose();
  });
});

/** What a session may take of memory, against what native code says that it holds. */
import { InferenceSession, memory, Tensor, type SessionOptions } from '../../lib';
import { withoutGarbage } from '../support/garbage';
import { pretendMachine, restoreMachine } from '../support/memory';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

const OUT_OF_MEMORY = expect.objectContaining({ code: 'ERR_WARPCONV_OUT_OF_MEMORY' }) as Error;
const CHANNELS = 16;

/** Two convolutions of 16 channels with padding, and a sum that keeps the tensor between them. */
const weights = Array.from({ length: CHANNELS * CHANNELS * 9 }, (_, i) => (i % 7) - 3);
const model = onnxModel({
  inputs: [value('x', ['n', CHANNELS, 32, 32])],
  initializers: [tensor('w', [CHANNELS, CHANNELS, 3, 3], weights)],
  nodes: [
    node('Conv', ['x', 'w'], ['a'], { pads: [1, 1, 1, 1] }),
    node('Conv', ['a', 'w'], ['y'], { pads: [1, 1, 1, 1] }),
  ],
  outputs: [value('y')],
});

const imageBytes = CHANNELS * 32 * 32 * 4;
const feeds = (n: number) => {
  const data = new Float32Array((n * imageBytes) / 4).map((_, i) => (i % 5) - 2);
  return { x: new Tensor('float32', data, [n, CHANNELS, 32, 32]) };
};
const create = (options?: SessionOptions) => InferenceSession.create(model, { device: 'cpu', ...options });

/** What a session holds for dims of n images, and what a run of them takes besides. */
async function measure(n: number): Promise<{ held: number; outputs: number }> {
  const session = await create();
  const before = (await withoutGarbage(memory)).cpu;
  await session.run(feeds(n));
  const held = memory().cpu - before;
  await session.release();
  return { held, outputs: n * imageBytes };
}

let one: { held: number; outputs: number };
let two: { held: number; outputs: number };
beforeAll(async () => {
  one = await measure(1);
  two = await measure(2);
});

it('is taken for weights and for what lies between the steps', () => {
  expect(one.held).toBeGreaterThanOrEqual(imageBytes + weights.length * 4);
  expect(two.held - one.held).toBeGreaterThanOrEqual(imageBytes);
});

it('admits what fits to the byte', async () => {
  const session = await create({ memoryLimit: one.held + one.outputs });
  const expected = await (await create()).run(feeds(1));
  for (let run = 0; run < 3; run++) {
    const { y } = await session.run(feeds(1));
    expect(y!.data).toEqual(expected.y!.data);
    expect(session.runSync(feeds(1)).y!.data).toEqual(expected.y!.data);
  }
  await session.release();
});

it('refuses what needs one byte more, and stays usable', async () => {
  const session = await create({ memoryLimit: two.held + two.outputs - 1 });
  await expect(session.run(feeds(2))).rejects.toEqual(OUT_OF_MEMORY);
  await expect(session.run(feeds(2))).rejects.toThrow(/memoryLimit is \d+/);
  await session.run(feeds(1));
  await session.release();
});

it('refuses a model of fixed dims when it is loaded', async () => {
  const freeDimensionOverrides = { n: 1 };
  await expect(create({ memoryLimit: 1000, freeDimensionOverrides })).rejects.toEqual(OUT_OF_MEMORY);
  const bytes = one.held + one.outputs;
  await expect(create({ memoryLimit: bytes - 1, freeDimensionOverrides })).rejects.toEqual(OUT_OF_MEMORY);
  await (await create({ memoryLimit: bytes, freeDimensionOverrides })).release();
});

it('makes room by giving up what was compiled for other dims', async () => {
  const before = await withoutGarbage(memory);
  const session = await create({ memoryLimit: two.held + two.outputs, cachedShapes: 4 });
  await session.run(feeds(1));
  await session.run(feeds(2));
  expect(memory().cpu - before.cpu).toBe(two.held);
  expect(memory().plans - before.plans).toBe(1);
  expect(() => session.runSync(feeds(1))).toThrow(/has not been compiled/);
  await session.run(feeds(1));
  await session.release();
  expect(memory()).toMatchObject({ cpu: before.cpu, plans: before.plans });
});

it('keeps what there is room for', async () => {
  const before = (await withoutGarbage(memory)).plans;
  const session = await create({ memoryLimit: one.held + two.held + two.outputs });
  await session.run(feeds(1));
  await session.run(feeds(2));
  expect(memory().plans - before).toBe(2);
  session.runSync(feeds(1));
  await session.release();
});

it('counts runs at the same time, and lets their memory go', async () => {
  const session = await create({ memoryLimit: one.held + one.outputs });
  const signal = new AbortController().signal;
  await session.run(feeds(1));
  for (let round = 0; round < 3; round++) {
    // The signal keeps them off the event loop's thread, where they would come one after the other.
    const runs = await Promise.allSettled([1, 2, 3].map(() => session.run(feeds(1), { signal })));
    expect(runs.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(runs.slice(1).map((run) => (run as PromiseRejectedResult).reason as Error)).toEqual([
      OUT_OF_MEMORY,
      OUT_OF_MEMORY,
    ]);
  }
  await session.release();
});

it('lets the memory of runs go that fail', async () => {
  const session = await create({ memoryLimit: one.held + one.outputs });
  await session.run(feeds(1));
  const wrong = { y: new Tensor(new Float32Array(1)) };
  for (let run = 0; run < 5; run++)
    await expect(session.run(feeds(1), wrong)).rejects.toThrow(/fetches.y must be/);
  const controller = new AbortController();
  const aborted = session.run(feeds(1), { signal: controller.signal });
  controller.abort();
  await expect(aborted).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  await session.run(feeds(1));
  await session.release();
});

describe('on a machine with little memory', () => {
  afterEach(restoreMachine);
  const GIB = 2 ** 30;

  it('a session is refused that needs more than is available, and says how much', async () => {
    // As they lie in the model: how large weights are when they are packed is not known before.
    const expected = 4 * weights.length + 2 * imageBytes;
    pretendMachine({ total: 64 * GIB, free: expected - 1 });
    const refused = create({ freeDimensionOverrides: { n: 1 } });
    await expect(refused).rejects.toEqual(OUT_OF_MEMORY);
    await expect(refused).rejects.toThrow(/needs \d+ bytes of memory, and \d+ are available/);
    restoreMachine();
    pretendMachine({ total: 64 * GIB, free: one.held + one.outputs });
    await (await create({ freeDimensionOverrides: { n: 1 } })).release();
  });

  it('what was compiled for other dims is given up first', async () => {
    const before = (await withoutGarbage(memory)).plans;
    const session = await create();
    await session.run(feeds(1));
    pretendMachine({ total: 64 * GIB, free: 0 });
    await expect(session.run(feeds(2))).rejects.toEqual(OUT_OF_MEMORY);
    expect(memory().plans).toBe(before);
    restoreMachine();
    await session.run(feeds(2));
    await session.release();
  });
});

it.each([-1, 1.5, NaN, '1', 10n, null, -Infinity])('cannot be %p', async (memoryLimit) => {
  await expect(create({ memoryLimit: memoryLimit as number })).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining('options.memoryLimit must be a non-negative integer') as string,
  });
});

/** One network with inputs of many dims. */
import { InferenceSession, memory, Tensor, type SessionOptions } from '../../lib';
import { withoutGarbage } from '../support/garbage';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

const CHANNELS = 32;
const weightBytes = CHANNELS * CHANNELS * 9 * 4;
const integers = (count: number, modulus: number) =>
  Array.from({ length: count }, (_, i) => (i % modulus) - 2);

/** Two convolutions with padding, each scaled and shifted by channel and followed by Relu: the second one's tensor lies between. */
const filters = [CHANNELS, CHANNELS, 3, 3];
const byChannel = [1, CHANNELS, 1, 1];
const model = onnxModel({
  inputs: [value('x', ['n', CHANNELS, 'h', 'w'])],
  initializers: [
    tensor('w', filters, integers(weightBytes / 4, 7)),
    tensor('v', filters, integers(weightBytes / 4, 5)),
    tensor('s', byChannel, integers(CHANNELS, 4)),
    tensor('b', byChannel, integers(CHANNELS, 6)),
  ],
  nodes: [
    node('Conv', ['x', 'w'], ['a'], { pads: [1, 1, 1, 1] }),
    node('Mul', ['a', 's'], ['c']),
    node('Add', ['c', 'b'], ['d']),
    node('Relu', ['d'], ['e']),
    node('Conv', ['e', 'v'], ['f'], { pads: [1, 1, 1, 1] }),
    node('Mul', ['f', 's'], ['y']),
  ],
  outputs: [value('y')],
});

const create = (options?: SessionOptions) => InferenceSession.create(model, { device: 'cpu', ...options });

function feeds(n: number, extent = 8) {
  const dims = [n, CHANNELS, extent, extent];
  const data = Float32Array.from({ length: n * CHANNELS * extent * extent }, (_, i) => (i % 3) - 1);
  return { x: new Tensor('float32', data, dims) };
}

it('packs weights once for all dims', async () => {
  const session = await create();
  const before = (await withoutGarbage(memory)).cpu;
  await session.run(feeds(1));
  const one = memory().cpu - before;
  expect(one).toBeGreaterThan(2 * weightBytes);
  for (const n of [2, 3, 4, 5, 6]) await session.run(feeds(n));
  const betweenBytes = 6 * CHANNELS * 64 * 4;
  expect(memory().cpu - before).toBeLessThan(one + betweenBytes + weightBytes / 10);
  await session.release();
  expect(memory().cpu).toBe(before);
});

it('gives what a session of these dims alone gives, whatever came before', async () => {
  const session = await create();
  for (const [n, extent] of [
    [1, 8],
    [5, 8],
    [2, 33],
    [1, 1],
    [3, 2],
    [5, 8],
  ] as const) {
    const { y } = await session.run(feeds(n, extent));
    const alone = await create();
    const { y: expected } = await alone.run(feeds(n, extent));
    expect(y!.dims).toEqual(expected!.dims);
    expect(y!.data).toEqual(expected!.data);
    await alone.release();
  }
  await session.release();
});

it('keeps the weights of the dims that are left when others are given up', async () => {
  const session = await create({ cachedShapes: 1 });
  const before = await withoutGarbage(memory);
  const { y: expected } = await session.run(feeds(2));
  const held = memory().cpu;
  for (let round = 0; round < 3; round++) {
    await session.run(feeds(1));
    const { y } = await session.run(feeds(2));
    expect(y!.data).toEqual(expected!.data);
  }
  expect(memory().cpu).toBe(held);
  expect(memory().plans - before.plans).toBe(1);
  await session.release();
});

it('runs of several dims at once share no memory', async () => {
  const session = await create();
  const sizes = [1, 2, 3, 4, 1, 2, 3, 4];
  const expected = await Promise.all(sizes.map(async (n) => (await session.run(feeds(n))).y!.data));
  const signal = new AbortController().signal;
  for (let round = 0; round < 5; round++) {
    const runs = await Promise.all(sizes.map((n) => session.run(feeds(n), { signal })));
    runs.forEach(({ y }, i) => expect(y!.data).toEqual(expected[i]));
  }
  await session.release();
});

describe('after a while without a run', () => {
  afterEach(() => jest.useRealTimers());

  it('the memory between steps is given back, and taken again', async () => {
    const session = await create();
    const before = (await withoutGarbage(memory)).cpu;
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance'] });
    const { y: expected } = await session.run(feeds(4));
    const betweenBytes = 4 * CHANNELS * 64 * 4;
    const held = memory().cpu - before;
    jest.advanceTimersByTime(20_000);
    const { y: again } = await session.run(feeds(4));
    expect(again!.data).toEqual(expected!.data);
    jest.advanceTimersByTime(20_000);
    expect(memory().cpu - before).toBe(held);
    jest.advanceTimersByTime(60_000);
    expect(memory().cpu - before).toBe(held - betweenBytes);
    const { y } = await session.run(feeds(4));
    expect(y!.data).toEqual(expected!.data);
    expect(memory().cpu - before).toBe(held);
    await session.release();
    expect(jest.getTimerCount()).toBe(0);
  });
});

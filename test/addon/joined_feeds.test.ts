/** runJoined: inputs that come as lists of parts along dimension 0 give what their concatenations give. */
import { setImmediate } from 'node:timers/promises';

import type { InferenceSession } from '../../lib';
import { Tensor, type TensorLike } from '../../lib';
import { noteLent } from '../../lib/tensor/lent_memory';
import type { DataType } from '../../lib/tensor/tensor';
import { bitsIn } from '../support/float16_bits';
import { node, onnxModel, tensor, value, type OnnxType } from '../support/onnx_builder';
import { Random } from '../support/random';
import { create } from '../support/sessions';

/** Twice x plus y, and the greatest of each row of that. */
const twoInputs = onnxModel({
  inputs: [value('x', ['N', 3]), value('y', ['N', 3])],
  initializers: [tensor('two', [], [2])],
  nodes: [
    node('Mul', ['x', 'two'], ['d']),
    node('Add', ['d', 'y'], ['sum']),
    node('ReduceMax', ['sum'], ['most'], { axes: [1], keepdims: 0 }),
  ],
  outputs: [value('sum', ['N', 3]), value('most', ['N'])],
});

/** x under the dims that the other input brings as its elements. */
const reshape = onnxModel({
  inputs: [value('x', ['N']), value('dims', ['R'], 'int64')],
  nodes: [node('Reshape', ['x', 'dims'], ['y'])],
  outputs: [value('y')],
});

type Numbers = Float32Array | Float64Array | BigInt64Array | Int32Array | Uint16Array | Uint8Array;

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int64: BigInt64Array,
  int32: Int32Array,
  float16: Uint16Array,
  uint8: Uint8Array,
  bool: Uint8Array,
} as const satisfies Partial<Record<DataType & OnnxType, unknown>>;

type Type = keyof typeof ARRAYS;

const sizeOf = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);

/** Elements that every type has, and that float16 has as bits: no NaN, which equals nothing. */
function anyPart(random: Random, type: Type, dims: readonly number[]): TensorLike {
  const length = sizeOf(dims);
  const most = type === 'bool' ? 1 : type === 'float16' ? 0x7bff : 250;
  const data = new ARRAYS[type](length) as Numbers;
  for (let i = 0; i < length; i++) {
    const element = random.integer(0, most);
    data[i] = type === 'int64' ? BigInt(element) : element;
  }
  return { type, dims, data: data as ArrayLike<number> };
}

/** The parts as one tensor. */
function joined(parts: readonly TensorLike[]): TensorLike {
  const { type, dims, data } = parts[0]!;
  const length = parts.reduce((sum, part) => sum + part.data.length, 0);
  const whole = new (data.constructor as new (length: number) => Uint8Array)(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part.data as Uint8Array, at);
    at += part.data.length;
  }
  const rows = parts.reduce((sum, part) => sum + part.dims[0]!, 0);
  return { type, dims: [rows, ...dims.slice(1)], data: whole };
}

/** Runs parts and their concatenation, and expects the same of both. */
async function expectSame(
  session: InferenceSession,
  feeds: Readonly<Record<string, readonly TensorLike[]>>,
): Promise<Record<string, Tensor>> {
  const whole = Object.fromEntries(Object.entries(feeds).map(([name, parts]) => [name, joined(parts)]));
  // Parts come first: what they left behind would else be right already.
  const results = await session.runJoined(feeds);
  const expected = await session.run(whole);
  expect(Object.keys(results)).toEqual(Object.keys(expected));
  for (const [name, { type, dims, data }] of Object.entries(expected)) {
    const { type: gotType, dims: gotDims, data: gotData } = results[name]!;
    expect([gotType, gotDims]).toEqual([type, dims]);
    // Jest takes seconds to compare a million elements.
    expect(Buffer.compare(bytesOf(gotData), bytesOf(data))).toBe(0);
  }
  return results;
}

const bytesOf = (data: ArrayLike<unknown>) => {
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return Buffer.from(buffer, byteOffset, byteLength);
};

function seeded(): Random {
  const seed = Math.floor(Math.random() * 2 ** 32);
  process.stdout.write(`seed ${seed}\n`);
  return new Random(seed);
}

const rows = (...data: number[]) => new Tensor('float32', data, [data.length / 3, 3]);
const good = { x: [rows(1, 2, 3), rows(4, 5, 6)], y: [rows(10, 20, 30, 40, 50, 60)] };
const ANSWER = Float32Array.of(12, 24, 36, 48, 60, 72);

describe('parts give what their concatenation gives', () => {
  test.each<[Type, string]>([
    ['float32', 'Identity'],
    ['float64', 'Cast'],
    ['int64', 'Identity'],
    ['int32', 'Identity'],
    ['float16', 'Identity'],
    ['uint8', 'Cast'],
    ['bool', 'Cast'],
  ])('of %s, by %s', async (type, operator) => {
    const random = seeded();
    const attributes: Record<string, number> = operator === 'Cast' ? { to: 1 } : {};
    const session = await create(
      onnxModel({
        inputs: [value('x', ['N', 5], type)],
        nodes: [node(operator, ['x'], ['y'], attributes)],
        outputs: [value('y')],
      }),
    );
    for (let count = 1; count <= 5; count++) {
      const x = Array.from({ length: count }, () => anyPart(random, type, [random.integer(1, 7), 5]));
      const { y } = await expectSame(session, { x });
      if (operator === 'Identity') expect(bitsIn(y!.data)).toEqual(joined(x).data);
    }
  });

  test('of several inputs, each cut elsewhere', async () => {
    const random = seeded();
    const session = await create(twoInputs);
    for (let round = 0; round < 30; round++) {
      const count = random.integer(1, 12);
      const cut = () => {
        const parts: TensorLike[] = [];
        for (let left = count; left > 0; left -= parts.at(-1)!.dims[0]!)
          parts.push(anyPart(random, 'float32', [random.integer(1, left), 3]));
        return parts;
      };
      await expectSame(session, { x: cut(), y: cut() });
    }
  });

  test('of many parts', async () => {
    const random = seeded();
    const session = await create(twoInputs);
    const one = () => anyPart(random, 'float32', [1, 3]);
    const parts = () => Array.from({ length: 300 }, one);
    await expectSame(session, { x: parts(), y: parts() });
  });

  test('of more than a MiB', async () => {
    const random = seeded();
    const session = await create(
      onnxModel({
        inputs: [value('x', ['N', 3, 64, 64])],
        initializers: [tensor('w', [4, 3, 3, 3], new Float32Array(108).fill(0.25))],
        nodes: [node('Conv', ['x', 'w'], ['c'], { pads: [1, 1, 1, 1] }), node('Relu', ['c'], ['y'])],
        outputs: [value('y')],
      }),
    );
    for (const counts of [[33], [30, 3], [1, 40, 2], [25, 25, 25, 25]]) {
      const x = counts.map((count) => anyPart(random, 'float32', [count, 3, 64, 64]));
      await expectSame(session, { x });
    }
  });

  test('of parts that are views, at any offset', async () => {
    const session = await create(twoInputs);
    const memory = Float32Array.from({ length: 40 }, (_, index) => index);
    const view = (start: number, count: number): TensorLike => ({
      type: 'float32',
      dims: [count, 3],
      data: memory.subarray(start, start + 3 * count),
    });
    // Some overlap, and one is there twice.
    await expectSame(session, { x: [view(1, 2), view(4, 3), view(4, 3)], y: [view(7, 8)] });
  });

  test('of parts without rows', async () => {
    const session = await create(twoInputs);
    const none: TensorLike = { type: 'float32', dims: [0, 3], data: new Float32Array(0) };
    const two = rows(1, 2, 3, 4, 5, 6);
    for (const x of [
      [none, two],
      [two, none],
      [rows(1, 2, 3), none, none, rows(4, 5, 6)],
    ]) {
      const { sum } = await expectSame(session, { x, y: good.y });
      expect(sum!.data).toEqual(ANSWER);
    }
    const { sum } = await expectSame(session, { x: [none, none], y: [none] });
    expect(sum!.dims).toEqual([0, 3]);
  });

  test('again and again, on the event loop and off it', async () => {
    const session = await create(twoInputs);
    // Short runs that come one by one stay on the calling thread.
    for (let round = 0; round < 20; round++) {
      const x = [rows(round, 2, 3), rows(4, 5, 6)];
      const { sum } = await session.runJoined({ x, y: good.y });
      expect(sum!.data).toEqual(Float32Array.of(2 * round + 10, 24, 36, 48, 60, 72));
    }
    const runs = Array.from({ length: 50 }, (_, k) =>
      session.runJoined({ x: [rows(k, 2, 3), rows(4, 5, 6)], y: good.y }),
    );
    (await Promise.all(runs)).forEach(({ sum }, k) =>
      expect(sum!.data).toEqual(Float32Array.of(2 * k + 10, 24, 36, 48, 60, 72)),
    );
    expect((await session.run({ x: joined(good.x), y: good.y[0]! })).sum!.data).toEqual(ANSWER);
  });

  test('where the model fixes the rows', async () => {
    const session = await create(
      onnxModel({
        inputs: [value('x', [4, 2])],
        nodes: [node('Neg', ['x'], ['y'])],
        outputs: [value('y')],
      }),
    );
    const part = (...data: number[]) => new Tensor('float32', data, [data.length / 2, 2]);
    const { y } = await expectSame(session, { x: [part(1, 2), part(3, 4, 5, 6), part(7, 8)] });
    expect(y!.data).toEqual(Float32Array.of(-1, -2, -3, -4, -5, -6, -7, -8));
    await expect(session.runJoined({ x: [part(1, 2, 3, 4), part(5, 6)] })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: 'the dims of feeds.x together must be [4, 2] as the model says, got [3, 2]',
    });
  });

  test('where the model says nothing of the shape', async () => {
    const session = await create(
      onnxModel({
        inputs: [value('x')],
        nodes: [node('Neg', ['x'], ['y'])],
        outputs: [value('y')],
      }),
    );
    for (const rest of [[], [2], [2, 3]]) {
      const part = (count: number) =>
        new Tensor(new Float32Array(sizeOf([count, ...rest])), [count, ...rest]);
      await expectSame(session, { x: [part(1), part(3)] });
    }
  });

  test('of no dimensions, which come alone', async () => {
    const session = await create(
      onnxModel({
        inputs: [value('x', [])],
        nodes: [node('Neg', ['x'], ['y'])],
        outputs: [value('y')],
      }),
    );
    const scalar = new Tensor(Float32Array.of(7), []);
    expect((await session.runJoined({ x: [scalar] })).y!.data).toEqual(Float32Array.of(-7));
    await expect(session.runJoined({ x: [scalar, scalar] })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/^feeds\.x\[0\]\.dims must be dims with at least one/),
    });
  });

  test('where an input decides shapes', async () => {
    const session = await create(reshape);
    const x = [new Tensor('float32', [1, 2], [2]), new Tensor('float32', [3, 4, 5, 6], [4])];
    const list = (...dims: number[]) => new Tensor(BigInt64Array.from(dims, BigInt));
    for (const [parts, dims] of [
      [
        [list(2), list(3)],
        [2, 3],
      ],
      [
        [list(3), list(2)],
        [3, 2],
      ],
      [
        [list(1, 2), list(3)],
        [1, 2, 3],
      ],
      [[list(6)], [6]],
    ] as const) {
      const { y } = await session.runJoined({ x, dims: parts });
      expect([y!.dims, y!.data]).toEqual([dims, Float32Array.of(1, 2, 3, 4, 5, 6)]);
    }
  });
});

describe('parts in memory that threads share', () => {
  function sharedPart(...data: number[]): Tensor<'float32'> {
    const elements = new Float32Array(new SharedArrayBuffer(4 * data.length));
    elements.set(data);
    return new Tensor('float32', elements, [data.length / 3, 3]);
  }

  /** The first run compiles, so that what is changed here is changed before it begins. */
  async function changedDuring(parts: readonly Tensor<'float32'>[]): Promise<ArrayLike<unknown>> {
    const session = await create(twoInputs);
    const run = session.runJoined({ x: parts, y: good.y });
    for (const { data } of parts) data.fill(-1);
    return (await run).sum!.data;
  }

  test('are copied when the call begins', async () => {
    expect(await changedDuring([sharedPart(1, 2, 3), sharedPart(4, 5, 6)])).toEqual(ANSWER);
    expect(await changedDuring([sharedPart(1, 2, 3, 4, 5, 6)])).toEqual(ANSWER);
  });

  test('are read in place where the memory was lent', async () => {
    const parts = [sharedPart(1, 2, 3), sharedPart(4, 5, 6)];
    for (const { data } of parts) noteLent(data.buffer as unknown as SharedArrayBuffer);
    expect(await changedDuring(parts)).toEqual(Float32Array.of(8, 18, 28, 38, 48, 58));
    // Only those that were lent are.
    const [lent, other] = [sharedPart(1, 2, 3), sharedPart(4, 5, 6)];
    noteLent(lent.data.buffer as unknown as SharedArrayBuffer);
    expect(await changedDuring([lent, other])).toEqual(Float32Array.of(8, 18, 28, 48, 60, 72));
  });

  test('may lie one beside the other in it', async () => {
    const memory = new SharedArrayBuffer(1024);
    noteLent(memory);
    const at = (offset: number, ...data: number[]): TensorLike => {
      const elements = new Float32Array(memory, offset, data.length);
      elements.set(data);
      return { type: 'float32', dims: [data.length / 3, 3], data: elements };
    };
    const session = await create(twoInputs);
    const x = [at(64, 1, 2, 3), at(512, 4, 5, 6)];
    expect((await session.runJoined({ x, y: [at(76, 10, 20, 30, 40, 50, 60)] })).sum!.data).toEqual(ANSWER);
  });
});

describe('is refused:', () => {
  const resident = {
    ...{ type: 'float32', dims: [1, 3], data: new Float32Array(3), location: 'gpu-buffer' },
    ...{ device: 'cuda:0', gpuBuffer: {} },
  };
  const foreign = { ...resident, device: undefined, gpuBuffer: undefined };
  const detached = rows(1, 2, 3);
  structuredClone(detached.data.buffer, { transfer: [detached.data.buffer as ArrayBuffer] });
  const [first] = good.x;

  test.each<[string, Record<string, unknown>, RegExp]>([
    ['a missing feed', { x: good.x }, /^feeds\.y is missing/],
    ['an empty list', { ...good, x: [] }, /^feeds\.x is an empty list; it needs a tensor at least/],
    [
      'a tensor instead of a list',
      { ...good, x: rows(1, 2, 3, 4, 5, 6) },
      /^feeds\.x must be a list of tensors/,
    ],
    ['null', { ...good, x: null }, /^feeds\.x must be a list of tensors, got null/],
    ['a typed array', { ...good, x: new Float32Array(6) }, /^feeds\.x must be a list of tensors/],
    ['a list of what are no tensors', { ...good, x: [first, 5] }, /^feeds\.x\[1\] must be a tensor/],
    ['a hole in the list', { ...good, x: [first, , first] }, /^feeds\.x\[1\] must be a tensor/],
    ['a list in the list', { ...good, x: [[first], first] }, /^feeds\.x\[0\]/],
    [
      'another type',
      { ...good, x: [first, new Tensor(Int32Array.of(1, 2, 3), [1, 3])] },
      /^feeds\.x\[1\]\.type must be 'float32', got 'int32'/,
    ],
    [
      'another rank',
      { ...good, x: [first, new Tensor('float32', [1, 2, 3], [3])] },
      /^feeds\.x\[1\]\.dims must be \[\?, 3\] as the model says, got \[3\]/,
    ],
    [
      'another extent',
      { ...good, x: [first, new Tensor('float32', [1, 2], [1, 2])] },
      /^feeds\.x\[1\]\.dims must be \[\?, 3\] as the model says, got \[1, 2\]/,
    ],
    [
      'too few elements',
      { ...good, x: [first, { type: 'float32', dims: [1, 3], data: new Float32Array(2) }] },
      /^feeds\.x\[1\]\.data has 2 elements/,
    ],
    ['rows that disagree', { ...good, x: [first] }, /dimension 'N'/],
    ['a part on a GPU', { ...good, x: [first, resident] }, /^feeds\.x\[1\] is on 'cuda:0'/],
    ['a part on a GPU of somebody else', { ...good, x: [first, foreign] }, /^feeds\.x\[1\] is in GPU memory/],
    ['a part that was transferred away', { ...good, x: [first, detached] }, /^feeds\.x\[1\]/],
  ])('%s', async (_, feeds, message) => {
    const session = await create(twoInputs);
    const given = feeds as Record<string, readonly TensorLike[]>;
    await expect(session.runJoined(given)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    });
    expect((await session.runJoined(good)).sum!.data).toEqual(ANSWER);
  });

  test('parts of a model without a shape whose dims differ', async () => {
    const model = onnxModel({
      inputs: [value('x')],
      nodes: [node('Neg', ['x'], ['y'])],
      outputs: [value('y')],
    });
    const session = await create(model);
    const parts = [new Tensor(new Float32Array(6), [2, 3]), new Tensor(new Float32Array(4), [2, 2])];
    await expect(session.runJoined({ x: parts })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: 'feeds.x[1].dims must be [any, 3], as the first has, got [2, 2]',
    });
  });

  test('feeds that are no object', async () => {
    const session = await create(twoInputs);
    for (const feeds of [undefined, null, 5, [good.x]]) {
      await expect(session.runJoined(feeds as never)).rejects.toMatchObject({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      });
    }
  });

  test('a part that is disposed', async () => {
    const session = await create(twoInputs);
    const gone = rows(4, 5, 6);
    gone.dispose();
    await expect(session.runJoined({ ...good, x: [first!, gone] })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_DISPOSED',
      message: 'feeds.x[1] has been disposed',
    });
  });

  test('a part whose getter throws', async () => {
    const session = await create(twoInputs);
    const hostile = Object.defineProperty({ type: 'float32', dims: [1, 3] }, 'data', {
      get() {
        throw new Error('mine');
      },
    });
    await expect(
      session.runJoined({ ...good, x: [first!, hostile as unknown as TensorLike] }),
    ).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
  });

  test('whatever comes after the release', async () => {
    const session = await create(twoInputs);
    await session.release();
    await expect(session.runJoined(good)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });
});

describe('fetches and signals', () => {
  test('outputs are chosen by name', async () => {
    const session = await create(twoInputs);
    const results = await session.runJoined(good, ['most']);
    expect(Object.keys(results)).toEqual(['most']);
    expect(results.most!.data).toEqual(Float32Array.of(36, 72));
    await expect(session.runJoined(good, ['summ'])).rejects.toThrow(/did you mean 'sum'/);
  });

  test('a tensor to write into must not be one of the parts', async () => {
    const session = await create(twoInputs);
    const memory = new Float32Array(9);
    const part = new Tensor('float32', memory.subarray(0, 3), [1, 3]);
    const sum = new Tensor('float32', memory.subarray(3), [2, 3]);
    const feeds = { x: [part, rows(4, 5, 6)], y: good.y };
    const { sum: written } = await session.runJoined(feeds, { sum });
    expect(written).toBe(sum);
    expect(sum.data).toEqual(Float32Array.of(10, 20, 30, 48, 60, 72));
    const within = new Tensor('float32', memory.subarray(2, 8), [2, 3]);
    await expect(session.runJoined(feeds, { sum: within })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/^fetches\.sum shares memory with feeds\.x/),
    });
  });

  test('a signal that has aborted, and one that does not', async () => {
    const session = await create(twoInputs);
    const aborted = { signal: AbortSignal.abort(new Error('enough')) };
    for (const run of [session.runJoined(good, aborted), session.runJoined(good, ['sum'], aborted)]) {
      await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: { message: 'enough' } });
    }
    const { signal } = new AbortController();
    expect((await session.runJoined(good, { signal })).sum!.data).toEqual(ANSWER);
    expect((await session.runJoined(good, ['sum'], { signal })).sum!.data).toEqual(ANSWER);
  });

  test('a signal that aborts while the network is compiled', async () => {
    const session = await create(twoInputs);
    const controller = new AbortController();
    const run = session.runJoined(good, { signal: controller.signal });
    controller.abort();
    await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
    expect((await session.runJoined(good)).sum!.data).toEqual(ANSWER);
  });
});

test('parts that are transferred away once the call has begun are read, or the call is refused', async () => {
  const session = await create(twoInputs);
  const count = 20_000;
  const filled = (element: number) =>
    new Tensor('float32', new Float32Array(3 * count).fill(element), [count, 3]);
  const outcomes = new Map<string, number>();
  for (let round = 0; round < 40; round++) {
    // The first run has still to compile; later ones begin at once.
    const x = [filled(1), filled(round)];
    const run = session.runJoined({ x, y: [filled(3), filled(4)] });
    if (round % 2 === 1) await setImmediate();
    const buffer = x[round % 4 < 2 ? 0 : 1]!.data.buffer as ArrayBuffer;
    const kept = structuredClone(buffer, { transfer: [buffer] });
    expect(kept.byteLength).toBe(12 * count);
    const outcome = await run.then(
      ({ sum }) => {
        const data = sum!.data as Float32Array;
        expect([data[0], data[3 * count - 1]]).toEqual([5, 5]);
        expect([data[3 * count], data[6 * count - 1]]).toEqual([2 * round + 4, 2 * round + 4]);
        return 'right';
      },
      ({ code }: { code: string }) => code,
    );
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
  process.stdout.write(`${JSON.stringify([...outcomes])}\n`);
  // A run that had not begun has lost a part.
  outcomes.delete('right');
  expect([...outcomes.keys()]).toEqual(['ERR_WARPCONV_INVALID_ARGUMENT']);
});

test('parts that decide shapes and are transferred away are refused by a code', async () => {
  const session = await create(reshape);
  const x = [new Tensor('float32', [1, 2, 3, 4, 5, 6], [6])];
  const dims = () => [2, 3].map((extent) => new Tensor(BigInt64Array.of(BigInt(extent))));
  const given = dims();
  const run = session.runJoined({ x, dims: given });
  const buffer = given[1]!.data.buffer as ArrayBuffer;
  structuredClone(buffer, { transfer: [buffer] });
  await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  expect((await session.runJoined({ x, dims: dims() })).y!.dims).toEqual([2, 3]);
});

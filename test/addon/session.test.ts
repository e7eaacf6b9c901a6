/** InferenceSession as its users have it: names, dims, feeds, fetches, life and death. */
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { Conv2d, InferenceSession, memory, Tensor, type TensorLike } from '../../lib';
import { withoutGarbage } from '../support/garbage';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { create } from '../support/sessions';

/** Twice x plus y, and the greatest of each row of that. */
const twoOutputs = onnxModel({
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
  inputs: [value('x', ['N']), value('dims', [2], 'int64')],
  nodes: [node('Reshape', ['x', 'dims'], ['y'])],
  outputs: [value('y')],
});

const rows = (...data: number[]) => new Tensor('float32', data, [data.length / 3, 3]);
const feeds = { x: rows(1, 2, 3), y: rows(10, 20, 30) };

/** A convolution that takes about a tenth of a second. */
async function slowSession(): Promise<{ session: InferenceSession; x: Tensor<'float32'> }> {
  const dims = [1, 32, 112, 112];
  const model = onnxModel({
    inputs: [value('x', dims)],
    initializers: [tensor('w', [32, 32, 7, 7], new Float32Array(32 * 32 * 49).fill(0.01))],
    nodes: [
      node('Conv', ['x', 'w'], ['a'], { pads: [3, 3, 3, 3] }),
      node('Conv', ['a', 'w'], ['b'], { pads: [3, 3, 3, 3] }),
    ],
    outputs: [value('b')],
  });
  const x = new Tensor('float32', new Float32Array(32 * 112 * 112).fill(1), dims);
  return { session: await create(model, { algorithm: 'direct' }), x };
}

describe('a session', () => {
  test('tells names, types and shapes', async () => {
    const session = await create(twoOutputs);
    expect(session).toMatchObject({
      device: TEST_DEVICE === 'cpu' ? 'cpu' : 'cuda:0',
      inputNames: ['x', 'y'],
      outputNames: ['sum', 'most'],
      inputMetadata: [
        { name: 'x', isTensor: true, type: 'float32', shape: ['N', 3] },
        { name: 'y', isTensor: true, type: 'float32', shape: ['N', 3] },
      ],
      outputMetadata: [
        { name: 'sum', type: 'float32', shape: ['N', 3] },
        { name: 'most', type: 'float32', shape: ['N'] },
      ],
    });
  });

  test('loads a file by its path', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'warpconv-'));
    try {
      const file = path.join(folder, 'model.onnx');
      writeFileSync(file, twoOutputs);
      const session = await create(file);
      expect((await session.run(feeds)).most!.data).toEqual(Float32Array.of(36));
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('does not depend on the bytes that it was made of', async () => {
    const weights = Float32Array.from({ length: 64 }, (_, index) => index);
    const model = onnxModel({
      inputs: [value('x', ['N', 8])],
      initializers: [tensor('w', [8, 8], weights)],
      nodes: [node('MatMul', ['x', 'w'], ['y'])],
      outputs: [value('y')],
    });
    const x = new Tensor('float32', [1, 0, 0, 0, 0, 0, 0, 0], [1, 8]);
    // One of four places of the bytes in memory aligns the constants.
    for (const shift of [0, 1, 2, 3]) {
      const bytes = new Uint8Array(new ArrayBuffer(model.length + shift), shift);
      bytes.set(model);
      const session = await create(bytes);
      await session.run({ x });
      bytes.fill(0);
      expect((await session.run({ x })).y!.data).toEqual(weights.subarray(0, 8));
    }
  });

  test('runs any extent of a named dimension, each compiled once', async () => {
    const session = await create(twoOutputs);
    for (const n of [1, 4, 1, 7, 2, 9, 4]) {
      const x = new Tensor('float32', new Float32Array(3 * n).fill(n), [n, 3]);
      const { most } = await session.run({ x, y: x });
      expect(most!.dims).toEqual([n]);
      expect(most!.data).toEqual(new Float32Array(n).fill(3 * n));
    }
  });

  test('reads dims that an input brings as its elements', async () => {
    const session = await create(reshape);
    const x = new Tensor('float32', [1, 2, 3, 4, 5, 6], [6]);
    for (const dims of [
      [2, 3],
      [3, 2],
      [6, 1],
    ]) {
      const { y } = await session.run({ x, dims: new Tensor(BigInt64Array.from(dims, BigInt)) });
      expect(y!.dims).toEqual(dims);
    }
  });

  test('reads them for runs that are the first at once', async () => {
    const session = await create(reshape);
    const x = new Tensor('float32', [1, 2, 3, 4, 5, 6], [6]);
    const asked = [
      [2, 3],
      [3, 2],
      [2, 3],
    ];
    const runs = asked.map((dims) => session.run({ x, dims: new Tensor(BigInt64Array.from(dims, BigInt)) }));
    expect((await Promise.all(runs)).map(({ y }) => y!.dims)).toEqual(asked);
  });

  test('says that dims are not enough to explain what elements decide', async () => {
    const session = await create(reshape);
    const explained = session.explain({ x: [6], dims: [2] });
    await expect(explained).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
    await expect(explained).rejects.toThrow(/needs the elements of 'dims' .*; profile\(feeds\) explains it/);
    const feed = {
      x: new Tensor('float32', [1, 2, 3, 4, 5, 6], [6]),
      dims: new Tensor(BigInt64Array.of(2n, 3n)),
    };
    const { outputs } = await session.profile(feed, { runs: 1 });
    expect(outputs.map(({ dims }) => dims)).toEqual([[2, 3]]);
  });

  test('explains and measures its steps', async () => {
    const session = await create(twoOutputs);
    const { steps } = await session.explain({ x: [2, 3], y: [2, 3] });
    expect(steps.map(({ kind }) => kind)).toEqual(['elementwise', 'reduce']);
    const profile = await session.profile(feeds, { runs: 3 });
    for (const { milliseconds } of profile.steps) expect(milliseconds).toBeGreaterThanOrEqual(0);
  });
});

describe('fetches', () => {
  test('choose outputs by name', async () => {
    const session = await create(twoOutputs);
    expect(Object.keys(await session.run(feeds, ['most']))).toEqual(['most']);
    expect(Object.keys(await session.run(feeds))).toEqual(['sum', 'most']);
  });

  test('may bring the tensors to write into', async () => {
    const session = await create(twoOutputs);
    const sum = rows(0, 0, 0);
    const results = await session.run(feeds, { sum, most: null });
    expect(results.sum).toBe(sum);
    expect(sum.data).toEqual(Float32Array.of(12, 24, 36));
    expect(results.most!.data).toEqual(Float32Array.of(36));
  });

  test.each([
    ['an unknown name', ['summ'], /did you mean 'sum'/],
    ['no name', [], /names no output/],
    [
      'a tensor of other dims',
      { most: rows(1, 2, 3) },
      /fetches\.most must be a float32 tensor of dims \[1\]/,
    ],
  ])('of %s are refused', async (_, fetches, message) => {
    const session = await create(twoOutputs);
    const run = session.run(feeds, fetches as string[]);
    await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    await expect(run).rejects.toThrow(message);
  });

  const ofSum = (data: ArrayLike<unknown>) => ({ type: 'float32', dims: [1, 3], data });
  const resizable = Reflect.construct(ArrayBuffer, [12, { maxByteLength: 12 }]) as ArrayBuffer;
  const detached = new Float32Array(3);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  const both = new Float32Array(5);

  test.each<[string, Record<string, unknown>, RegExp]>([
    ['memory that may shrink', { sum: ofSum(new Float32Array(resizable)) }, /resizable buffer/],
    [
      'memory of other threads, too',
      { sum: ofSum(new Float32Array(new SharedArrayBuffer(12))) },
      /shared buffer/,
    ],
    ['memory that was transferred away', { sum: ofSum(detached) }, /fetches\.sum\.data is detached/],
    ['another kind of array', { sum: ofSum(new Float64Array(3)) }, /sum\.data must be a Float32Array/],
    ['too few elements', { sum: ofSum(new Float32Array(2)) }, /sum\.data has 2 elements/],
    ['dims that are no list', { sum: { ...ofSum(new Float32Array(3)), dims: 5 } }, /dims 5/],
    [
      'a GPU',
      { sum: { ...ofSum(new Float32Array(3)), location: 'gpu-buffer' } },
      TEST_DEVICE === 'cpu'
        ? /in CPU memory, got .* location 'gpu-buffer'/
        : /in GPU memory that is not warpconv's own/,
    ],
    ['a feed', { sum: feeds.x }, /fetches\.sum shares memory with feeds\.x/],
    [
      'another output',
      {
        sum: ofSum(both.subarray(0, 3)),
        most: { type: 'float32', dims: [1], data: both.subarray(2, 3) },
      },
      /fetches\.most shares memory with fetches\.sum/,
    ],
  ])('over %s are refused', async (_, given, message) => {
    const session = await create(twoOutputs);
    const fetches = given as Record<string, Tensor>;
    await session.run(feeds);
    const refusal = { code: 'ERR_WARPCONV_INVALID_ARGUMENT', message: expect.stringMatching(message) };
    await expect(session.run(feeds, fetches)).rejects.toMatchObject(refusal);
    expect(() => session.runSync(feeds, fetches)).toThrow(expect.objectContaining(refusal));
  });

  test('that are disposed are refused as such', async () => {
    const session = await create(twoOutputs);
    const sum = rows(0, 0, 0);
    sum.dispose();
    await expect(session.run(feeds, { sum })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_DISPOSED',
      message: 'fetches.sum has been disposed',
    });
  });

  test('are asked for their data once', async () => {
    const session = await create(twoOutputs);
    const given = [new Float32Array(3), new Float32Array(3)];
    const sum = {
      type: 'float32',
      dims: [1, 3],
      location: 'cpu',
      get data() {
        return given.pop();
      },
    };
    await session.run(feeds, { sum: sum as unknown as Tensor });
    expect(given).toEqual([new Float32Array(3)]);
  });
});

describe('feeds', () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    ['without one', { x: feeds.x }, /feeds\.y is missing: .*; given were \['x'\]$/],
    ['without any', {}, /feeds\.x is missing: .*; none was given$/],
    [
      'that are a tensor',
      rows(1, 2, 3) as never,
      /^feeds must be an object of tensors by name, got a tensor; pass it by name, as \{ 'x': … \}$/,
    ],
    [
      'that are an array',
      new Float32Array(3) as never,
      /^feeds must be .*, got Float32Array of 3 elements; pass it by name, as \{ 'x': … \}$/,
    ],
    [
      'that are a promise',
      Promise.resolve(feeds) as never,
      /^feeds must be .*, got a promise; await it first$/,
    ],
    [
      'of which one is an array',
      { ...feeds, y: new Float32Array(3) },
      /^feeds\.y must be a tensor .*, got Float32Array of 3 elements; wrap it: new Tensor\('float32', data, dims\)$/,
    ],
    ['of which one is a list', { ...feeds, y: [1, 2, 3] }, /^feeds\.y must be .*; wrap it: new Tensor\(/],
    [
      'of which one is a promise',
      { ...feeds, y: Promise.resolve(feeds.y) },
      /^feeds\.y must be a tensor .*, got a promise; await it first$/,
    ],
    [
      'of another type',
      { ...feeds, x: new Tensor(Int32Array.of(1, 2, 3), [1, 3]) },
      /feeds\.x\.type must be 'float32'/,
    ],
    ['of another rank', { ...feeds, x: new Tensor('float32', [1, 2, 3], [3]) }, /\[N, 3\] as the model says/],
    [
      'of another extent',
      { ...feeds, x: new Tensor('float32', [1, 2], [1, 2]) },
      /\[N, 3\] as the model says/,
    ],
    ['that disagree', { ...feeds, x: rows(1, 2, 3, 4, 5, 6) }, /'N'/],
    [
      'with too few elements',
      { ...feeds, x: { type: 'float32', dims: [1, 3], data: new Float32Array(2) } },
      /2 elements/,
    ],
  ])('%s are refused', async (_, given, message) => {
    const session = await create(twoOutputs);
    const attempt = async () => session.run(given as Record<string, TensorLike>);
    await expect(attempt()).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    await expect(attempt()).rejects.toThrow(message);
    expect((await session.run(feeds)).most!.data).toEqual(Float32Array.of(36));
  });

  test('that are a tensor are told from feeds also where an input is called as a part of one', async () => {
    const model = onnxModel({
      inputs: [value('data', [3])],
      nodes: [node('Relu', ['data'], ['y'])],
      outputs: [value('y')],
    });
    const session = await create(model);
    const data = new Tensor('float32', [1, 2, 3]);
    await expect(session.run(data as never)).rejects.toThrow(/^feeds must be .*, got a tensor; /);
    await expect(session.run({ data: data.data } as never)).rejects.toThrow(/^feeds\.data must be a tensor /);
  });

  test.each([[[]], [[1]], [[1, 1]]])('of one element and dims %j are taken for a scalar', async (dims) => {
    const scalar = onnxModel({
      inputs: [value('x', []), value('y', [2])],
      nodes: [node('Mul', ['x', 'y'], ['product'])],
      outputs: [value('product')],
    });
    const session = await create(scalar);
    const y = new Tensor('float32', [1, 2], [2]);
    const { product } = await session.run({ x: new Tensor('float32', [3], dims), y });
    expect([...(product!.data as Float32Array)]).toEqual([3, 6]);
    await expect(session.run({ x: y, y })).rejects.toThrow('feeds.x.dims must be [] as the model says');
  });

  test('of any make are taken, over shared memory too', async () => {
    const session = await create(twoOutputs);
    const shared = new Float32Array(new SharedArrayBuffer(12));
    shared.set([1, 2, 3]);
    const x = { type: 'float32', dims: [1, 3], data: shared };
    expect((await session.run({ x, y: feeds.y })).most!.data).toEqual(Float32Array.of(36));
  });
});

describe('runs', () => {
  test('overlap and do not disturb each other', async () => {
    const session = await create(twoOutputs);
    const results = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const n = 1 + (i % 3);
        const x = new Tensor('float32', new Float32Array(3 * n).fill(i), [n, 3]);
        return (await session.run({ x, y: x })).most!.data;
      }),
    );
    results.forEach((data, i) => expect(data).toEqual(new Float32Array(1 + (i % 3)).fill(3 * i)));
  });

  test('that are aborted stop, and later ones go on', async () => {
    const { session, x } = await slowSession();
    const expected = (await session.run({ x })).b!.data;
    const controller = new AbortController();
    const aborted = session.run({ x }, { signal: controller.signal });
    const abort = () => controller.abort(new Error('enough'));
    // On a GPU it must come before the kernels are launched.
    if (TEST_DEVICE === 'cpu') setTimeout(abort, 5);
    else abort();
    await expect(aborted).rejects.toMatchObject({
      code: 'ERR_WARPCONV_ABORTED',
      cause: { message: 'enough' },
    });
    expect((await session.run({ x })).b!.data).toEqual(expected);
  });

  test('finish when the session is released meanwhile, and later ones are refused', async () => {
    const before = await withoutGarbage(memory);
    const { session, x } = await slowSession();
    const running = session.run({ x });
    await new Promise(setImmediate);
    const released = session.release();
    await expect(session.run({ x })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
    expect((await running).b!.size).toBe(x.size);
    await released;
    expect(memory().plans).toBe(before.plans);
  });
});

describe('more sets of dims at once than are kept', () => {
  const ofRows = (n: number) => {
    const x = new Tensor('float32', new Float32Array(3 * n).fill(n), [n, 3]);
    return { x, y: x };
  };

  test('are all run, those that are new and those that were there', async () => {
    const before = await withoutGarbage(memory);
    const session = await create(twoOutputs);
    const extents = [1, 2, 3, 4, 5, 6];
    for (let round = 0; round < 3; round++) {
      const results = await Promise.all(extents.map((n) => session.run(ofRows(n))));
      results.forEach(({ most }, i) =>
        expect(most!.data).toEqual(new Float32Array(extents[i]!).fill(3 * extents[i]!)),
      );
    }
    await session.release();
    expect(memory().plans).toBe(before.plans);
  });

  test('leave a run its program that another one evicts', async () => {
    const session = await create(twoOutputs, { cachedShapes: 1 });
    await session.run(ofRows(1));
    const [known] = await Promise.all([session.run(ofRows(1)), session.run(ofRows(2))]);
    expect(known.most!.data).toEqual(Float32Array.of(3));
  });

  test('leave explain() and profile() theirs, and release() waits for these', async () => {
    const before = await withoutGarbage(memory);
    const session = await create(twoOutputs, { cachedShapes: 1 });
    await session.run(ofRows(1));
    const looking = [session.profile(ofRows(1), { runs: 20 }), session.explain({ x: [1, 3], y: [1, 3] })];
    for (const n of [2, 3, 4]) await session.run(ofRows(n));
    const released = session.release();
    for (const { steps } of await Promise.all(looking)) expect(steps).toHaveLength(2);
    await released;
    expect(memory().plans).toBe(before.plans);
  });
});

describe('runs on the calling thread', () => {
  test('give what others give, all outputs or those wanted, into memory of the caller', async () => {
    const session = await create(twoOutputs);
    const expected = await session.run(feeds);
    expect(session.runSync(feeds)).toEqual(expected);
    expect(session.runSync(feeds, ['most'])).toEqual({ most: expected.most });
    const most = new Tensor('float32', new Float32Array(1), [1]);
    expect(session.runSync(feeds, { most }).most!.data).toBe(most.data);
    expect(most.data).toEqual(expected.most!.data);
  });

  test('need no run before where the model fixes all dims', async () => {
    const model = onnxModel({
      inputs: [value('x', [2, 2])],
      nodes: [node('Relu', ['x'], ['y'])],
      outputs: [value('y')],
    });
    const x = new Tensor('float32', [-1, 2, -3, 4], [2, 2]);
    const session = await create(model);
    expect(session.runSync({ x }).y!.data).toEqual(Float32Array.of(0, 2, 0, 4));
  });

  test('are refused for dims that are new, with a signal that has aborted, and after the release', async () => {
    const session = await create(twoOutputs);
    const both = { x: rows(1, 2, 3, 4, 5, 6), y: rows(1, 2, 3, 4, 5, 6) };
    await session.run(feeds);
    expect(() => session.runSync(both)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_UNSUPPORTED',
        message:
          "runSync() compiles nothing, and the network has not been compiled for 'x' [2, 3], 'y' [2, 3]; " +
          'await run() with such inputs once',
      }),
    );
    await session.run(both);
    expect(session.runSync(both).most!.dims).toEqual([2]);
    expect(() => session.runSync(both, { signal: AbortSignal.abort() })).toThrow(
      expect.objectContaining({ code: 'ERR_WARPCONV_ABORTED' }),
    );
    expect(() => session.runSync({ x: feeds.x })).toThrow('feeds.y is missing');
    await session.release();
    expect(() => session.runSync(both)).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }));
  });
});

describe('a model', () => {
  test('with operators that nothing computes is refused with all of them', async () => {
    const model = onnxModel({
      inputs: [value('x', [3])],
      nodes: [
        node('TfIdfVectorizer', ['x'], ['a'], {}, { name: 'first' }),
        node('Bernoulli', ['a'], ['b'], {}, { name: 'second' }),
      ],
      outputs: [value('b')],
    });
    const creation = create(model);
    await expect(creation).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
    await expect(creation).rejects.toThrow(/TfIdfVectorizer: 'first'\s+Bernoulli: 'second'/);
  });

  describe('that cannot take the dims', () => {
    /** Halves and doubles x, so that only even extents fit; the other inputs are not at fault. */
    const halving = (extents: readonly (string | number)[], others = 0) =>
      onnxModel({
        inputs: [
          value('x', [1, 1, ...extents]),
          ...Array.from({ length: others }, (_, i) => value(`o${i}`, ['N'])),
        ],
        initializers: [tensor('scales', [4], [1, 1, 2, 2])],
        nodes: [
          node('MaxPool', ['x'], ['half'], { kernel_shape: [2, 2], strides: [2, 2] }),
          node('Resize', ['half', '', 'scales'], ['whole']),
          node('Concat', ['x', 'whole'], ['y'], { axis: 1 }),
        ],
        outputs: [value('y')],
      });
    const ofExtent = (height: number) =>
      new Tensor('float32', new Float32Array(4 * height), [1, 1, height, 4]);

    test('names those that the model leaves open', async () => {
      const session = await create(halving(['height', 4]));
      expect((await session.run({ x: ofExtent(2) })).y!.dims).toEqual([1, 2, 2, 4]);
      const refusal = {
        code: 'ERR_WARPCONV_INVALID_MODEL',
        message: expect.stringMatching(/^Concat .*; compiled for 'x' \[1, 1, 5, 4\]$/) as string,
        cause: expect.objectContaining({
          message: expect.not.stringContaining('compiled for') as string,
        }) as Error,
      };
      await expect(session.run({ x: ofExtent(5) })).rejects.toMatchObject(refusal);
      await expect(session.runJoined({ x: [ofExtent(5)] })).rejects.toMatchObject(refusal);
      await expect(session.explain({ x: [1, 1, 5, 4] })).rejects.toMatchObject(refusal);
      const creation = create(halving(['height', 4]), { freeDimensionOverrides: { height: 5 } });
      await expect(creation).rejects.toMatchObject(refusal);
    });

    test('names a few of many', async () => {
      const others = Object.fromEntries([0, 1, 2, 3, 4].map((i) => [`o${i}`, new Tensor('float32', [1])]));
      const session = await create(halving(['height', 4], 5));
      await expect(session.run({ ...others, x: ofExtent(5) })).rejects.toThrow(
        /; compiled for 'x' \[1, 1, 5, 4\], 'o0' \[1\], 'o1' \[1\], 'o2' \[1\] and 2 more$/,
      );
    });

    test('names none that the model fixes', async () => {
      await expect(create(halving([5, 4]))).rejects.toThrow(/^Concat ((?!compiled for).)*$/);
      const session = await create(halving([5, 4], 1));
      await expect(session.run({ x: ofExtent(5), o0: new Tensor('float32', [1, 2]) })).rejects.toThrow(
        /; compiled for 'o0' \[2\]$/,
      );
    });
  });

  test('that would need more memory than there is, is refused', async () => {
    const model = onnxModel({
      inputs: [value('x', [1, 1, 2, 2])],
      initializers: [tensor('w', [1, 1, 1, 1], [1])],
      nodes: [
        node('Conv', ['x', 'w'], ['a'], { pads: [500_000, 500_000, 500_000, 500_000] }),
        node('Abs', ['a'], ['y']),
      ],
      outputs: [value('y')],
    });
    await expect(create(model)).rejects.toMatchObject({ code: 'ERR_WARPCONV_OUT_OF_MEMORY' });
  });

  test.each([
    [
      'cannot be added',
      [node('Add', ['x', 'w'], ['y'])],
      [4],
      /Add 'Add#0' has inputs that cannot be broadcast/,
    ],
    [
      'have no such axis',
      [node('Concat', ['x', 'w'], ['y'], { axis: 7 })],
      [3],
      /Concat 'Concat#0' has axis 7/,
    ],
  ])('whose tensors %s is refused with the name of the node', async (_, nodes, dims, message) => {
    const size = dims.reduce((product, extent) => product * extent, 1);
    const initializers = [tensor('w', dims, new Float32Array(size))];
    const model = onnxModel({ inputs: [value('x', [3])], initializers, nodes, outputs: [value('y')] });
    await expect(create(model)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_MODEL' });
    await expect(create(model)).rejects.toThrow(message);
  });
});

test('tuning pins what was measured', async () => {
  const dims = [1, 8, 12, 12];
  const model = onnxModel({
    inputs: [value('x', dims)],
    initializers: [tensor('w', [8, 8, 3, 3], new Float32Array(576).fill(0.5))],
    nodes: [node('Conv', ['x', 'w'], ['y'], { pads: [1, 1, 1, 1] })],
    outputs: [value('y')],
  });
  const x = new Tensor('float32', new Float32Array(8 * 144).fill(1), dims);
  const tuned = await create(model, { algorithm: 'tune' });
  const { algorithm } = (await tuned.explain()).steps[0]!;
  const plan = await Conv2d.create(new Tensor(new Float32Array(576), [8, 8, 3, 3]), {
    inputDims: dims,
    padding: 1,
    device: TEST_DEVICE,
    algorithm: 'tune',
  });
  // The plan finds what the session has measured.
  expect(plan.explain()).toMatchObject({ algorithm, tuning: { fromCache: true } });
  plan.dispose();
  const expected = (await (await create(model)).run({ x })).y!.data;
  expect((await tuned.run({ x })).y!.data).toEqual(expected);
});

test('tuning leaves a network whose weights are fed what the choice by prediction gives', async () => {
  const dims = [1, 8, 12, 12];
  const model = onnxModel({
    inputs: [value('x', dims), value('w', [8, 8, 3, 3])],
    nodes: [node('Conv', ['x', 'w'], ['y'], { pads: [1, 1, 1, 1] })],
    outputs: [value('y')],
  });
  const x = new Tensor('float32', new Float32Array(8 * 144).fill(1), dims);
  const w = new Tensor('float32', new Float32Array(576).fill(0.5), [8, 8, 3, 3]);
  const [auto, tuned] = [await create(model), await create(model, { algorithm: 'tune' })];
  expect((await tuned.explain()).steps).toEqual((await auto.explain()).steps);
  expect((await tuned.run({ x, w })).y!.data).toEqual((await auto.run({ x, w })).y!.data);
});

describe('execution providers', () => {
  const deviceOf = async (executionProviders: unknown) =>
    (await create(twoOutputs, { device: undefined, executionProviders } as never)).device;

  test.each([
    [['cpu']],
    [['webgpu', 'cpu', 'cuda']],
    [[{ name: 'cpu', useArena: true }]],
    [
      [
        { name: 'webgpu', preferredLayout: 'NHWC' },
        { name: 'warpconv', device: 'cpu' },
      ],
    ],
  ])('%j is the CPU', async (providers) => {
    expect(await deviceOf(providers)).toBe('cpu');
  });

  test('a list that is empty says nothing', async () => {
    expect(await deviceOf([])).toBe(await deviceOf(undefined));
  });

  test.each<[unknown, string, RegExp]>([
    [
      ['cuda9'],
      'ERR_WARPCONV_INVALID_ARGUMENT',
      /^options\.executionProviders\[0\] must be one of 'cpu', 'cuda', 'warpconv'/,
    ],
    [
      [{ name: 'cuda', deviceId: -1 }],
      'ERR_WARPCONV_INVALID_ARGUMENT',
      /executionProviders\[0\]\.deviceId must be/,
    ],
    [
      [{ name: 'cuda', precision: 'fp16' }],
      'ERR_WARPCONV_INVALID_ARGUMENT',
      /executionProviders\[0\]\.precision is not known; .* takes name, deviceId$/,
    ],
    ['cpu', 'ERR_WARPCONV_INVALID_ARGUMENT', /must be a list of names/],
    [['webgpu'], 'ERR_WARPCONV_UNSUPPORTED', /names none that there is here; add 'cpu'/],
    [['CPUExecutionProvider'], 'ERR_WARPCONV_INVALID_ARGUMENT', /; did you mean 'cpu'\?$/],
    [[{ name: 'CUDAExecutionProvider' }], 'ERR_WARPCONV_INVALID_ARGUMENT', /; did you mean 'cuda'\?$/],
    [['TensorrtExecutionProvider'], 'ERR_WARPCONV_INVALID_ARGUMENT', /; did you mean 'tensorrt'\?$/],
    [['AzureExecutionProvider'], 'ERR_WARPCONV_INVALID_ARGUMENT', /got 'AzureExecutionProvider'$/],
  ])('%j is refused', async (providers, code, message) => {
    await expect(deviceOf(providers)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  });

  const both = (device: string, executionProviders: unknown) =>
    create(twoOutputs, { device, executionProviders } as never);

  test.each<[string, unknown]>([
    ['cpu', ['cuda', 'cpu']],
    ['cpu', ['warpconv']],
    ['cpu', []],
    ['auto', ['cpu']],
  ])('device %j with %j is the CPU', async (device, providers) => {
    expect((await both(device, providers)).device).toBe('cpu');
  });

  test.each<[string, unknown, string]>([
    ['cuda', ['cpu'], "options.device is 'cuda' and options.executionProviders says 'cpu'; give one"],
    ['cpu', ['cuda', 'webgpu'], "is 'cpu' and options.executionProviders says 'cuda'"],
    ['cuda:1', ['cpu', { name: 'cuda', deviceId: 0 }], "says 'cpu' or 'cuda:0'"],
    ['cuda', [{ name: 'warpconv', device: 'cpu' }], "executionProviders says 'cpu'"],
    ['cpu9', ['cpu'], 'options.device must be'],
  ])('device %j with %j is refused', async (device, providers, message) => {
    await expect(both(device, providers)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining(message) as string,
    });
  });
});

describe('a model in a buffer', () => {
  const padded = (Buffer: new (length: number) => ArrayBufferLike) => {
    const buffer = new Buffer(twoOutputs.length + 7);
    new Uint8Array(buffer).set(twoOutputs, 3);
    return buffer;
  };

  test.each([ArrayBuffer, SharedArrayBuffer])(
    'is loaded from %p, with and without a range',
    async (Buffer) => {
      const options = { device: TEST_DEVICE } as const;
      const whole = new Buffer(twoOutputs.length);
      new Uint8Array(whole).set(twoOutputs);
      const { outputNames } = await InferenceSession.create(whole, options);
      expect(outputNames).toEqual((await InferenceSession.create(twoOutputs, options)).outputNames);
      const inside = await InferenceSession.create(padded(Buffer), 3, twoOutputs.length, options);
      expect(inside.outputNames).toEqual(outputNames);
    },
  );

  test.each<[string, unknown[]]>([
    ['an undefined length', [3, undefined]],
    ['no length', [3]],
  ])('%s is the rest of the buffer', async (_, range) => {
    const buffer = new ArrayBuffer(twoOutputs.length + 3);
    new Uint8Array(buffer).set(twoOutputs, 3);
    const load = (options: object) =>
      InferenceSession.create(buffer, ...([...range, options] as unknown as [number]));
    expect((await load({ device: TEST_DEVICE })).outputNames).toEqual(['sum', 'most']);
    await expect(load({ devise: 'cpu' })).rejects.toThrow(/did you mean 'device'/);
  });

  test.each<[string, unknown[], RegExp]>([
    ['an offset beyond the end', [1e9], /^byteOffset must be/],
    ['a length beyond the end', [3, 1e9], /^byteLength must be/],
    ['options before the range', [{}, 3], /takes no other arguments/],
    ['what follows the options', [3, undefined, {}, {}], /takes no other arguments/],
    ['a third number', [3, twoOutputs.length, 1], /^options must be an object, got 1/],
  ])('%s is refused', async (_, rest, message) => {
    const call = InferenceSession.create(padded(ArrayBuffer), ...(rest as [number]));
    await expect(call).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(message) as string,
    });
  });
});

test('options that are misspelt are refused, and those of onnxruntime taken', async () => {
  await expect(create(twoOutputs, { devise: 'cpu' } as never)).rejects.toThrow(/did you mean 'device'/);
  await create(twoOutputs, { graphOptimizationLevel: 'all', executionProviders: [TEST_DEVICE] } as never);
});

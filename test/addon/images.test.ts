/** forImages: a network gives for images of 8 bits what it gives for the numbers that are made of them by hand. */
import { InferenceSession, memory, Tensor, type ImageOptions, type TensorLike } from '../../lib';
import { withoutGarbage } from '../support/garbage';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';
import { create } from '../support/sessions';

const invalid = (message: string | RegExp) =>
  expect.objectContaining({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringMatching(message),
  }) as Error;
const DISPOSED = expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }) as Error;

const sizeOf = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);

/** N, C, H and W */
type Extents = readonly [number, number, number, number];

/** An image, and the numbers that the options make of it, by the formula of the documentation. */
function imageOf(
  random: Random,
  [n, c, h, w]: Extents,
  { scale = 1 / 255, mean = 0, std = 1, layout = 'NHWC' }: ImageOptions,
): { image: TensorLike; numbers: Tensor<'float32'> } {
  const dims = layout === 'NHWC' ? [n, h, w, c] : [n, c, h, w];
  const bytes = Uint8Array.from({ length: sizeOf(dims) }, () => random.integer(0, 255));
  const of = (values: number | readonly number[], channel: number) =>
    typeof values === 'number' ? values : values[values.length === 1 ? 0 : channel]!;
  const numbers = new Float32Array(bytes.length);
  for (let at = 0; at < numbers.length; at++) {
    const [plane, pixel] = [Math.floor(at / (h * w)), at % (h * w)];
    const [row, channel] = [Math.floor(plane / c), plane % c];
    const byte = bytes[layout === 'NHWC' ? (row * h * w + pixel) * c + channel : at]!;
    numbers[at] = (byte * scale - of(mean, channel)) / of(std, channel);
  }
  return {
    image: { type: 'uint8', dims, data: bytes },
    numbers: new Tensor('float32', numbers, [n, c, h, w]),
  };
}

function seeded(): Random {
  const seed = Math.floor(Math.random() * 2 ** 32);
  process.stdout.write(`seed ${seed}\n`);
  return new Random(seed);
}

/** Within a few roundings of the largest number, which normalisation and a small convolution have. */
function expectClose(actual: ArrayLike<unknown>, expected: ArrayLike<number>): void {
  const largest = Array.from(expected).reduce((most, one) => Math.max(most, Math.abs(one)), 1);
  const off = Array.from(expected, (one, index) => Math.abs(one - (actual[index] as number)));
  expect(actual.length).toBe(expected.length);
  expect(Math.max(...off) / largest).toBeLessThan(1e-5);
}

type Shape = readonly (number | string)[];

const identity = (shape: Shape) =>
  onnxModel({
    inputs: [value('x', shape)],
    nodes: [node('Identity', ['x'], ['y'])],
    outputs: [value('y')],
  });

/** A convolution to eight channels, padded so that normalised zeros and zeros of the padding differ. */
function convolving(shape: Shape, channels: number): Uint8Array {
  const weights = Float32Array.from(
    { length: 8 * channels * 9 },
    (_, index) => ((index * 37) % 19) / 19 - 0.4,
  );
  return onnxModel({
    inputs: [value('x', shape)],
    initializers: [tensor('w', [8, channels, 3, 3], weights), tensor('b', [8], [1, -1, 2, -2, 3, -3, 4, -4])],
    nodes: [node('Conv', ['x', 'w', 'b'], ['c'], { pads: [1, 1, 1, 1] }), node('Relu', ['c'], ['y'])],
    outputs: [value('y')],
  });
}

/** A convolution of 32 channels that takes about a tenth of a second. */
async function slow(): Promise<{ session: InferenceSession; images: InferenceSession; x: TensorLike }> {
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
  const session = await create(model, { algorithm: 'direct' });
  const x = { type: 'uint8', dims, data: new Uint8Array(sizeOf(dims)).fill(1) };
  return { session, images: session.forImages({ layout: 'NCHW' }), x };
}

const PER_CHANNEL: Readonly<Record<number, ImageOptions>> = {
  1: { mean: [0.4], std: [0.2] },
  3: { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] },
  4: { mean: [0.1, -0.2, 0.3, 0], std: [0.5, 0.25, -2, 1] },
};

describe.each(['NHWC', 'NCHW'] as const)('images in %s give what their numbers give', (layout) => {
  describe.each([1, 3, 4])('with %i channels', (channels) => {
    const kinds: [string, ImageOptions][] = [
      ['by default', {}],
      ['with one mean and std', { mean: 0.5, std: 0.25 }],
      ['with a scale', { scale: 2, mean: -3 }],
      ['without a scale', { scale: 0, mean: 1 }],
      ['with a mean and std for each channel', PER_CHANNEL[channels]!],
      ['with a list of one and a list of more', { mean: [0.5], std: PER_CHANNEL[channels]!.std! }],
    ];
    test.each(kinds)('%s', async (_, options) => {
      const random = seeded();
      const all = { layout, ...options };
      for (const model of [identity, (shape: Shape) => convolving(shape, channels)]) {
        const session = await create(model(['N', channels, 'H', 'W']));
        const images = session.forImages(all);
        for (const extents of [
          [1, channels, 5, 7],
          [2, channels, 1, 1],
          [3, channels, 16, 9],
        ] as const) {
          const { image, numbers } = imageOf(random, extents, all);
          const { y } = await images.run({ x: image });
          const expected = await session.run({ x: numbers });
          expect(y!.dims).toEqual(expected.y!.dims);
          expectClose(y!.data, expected.y!.data as Float32Array);
          if (model === identity) expectClose(y!.data, numbers.data);
        }
      }
    });
  });
});

test('every byte becomes its number', async () => {
  const images = (await create(identity(['N', 3, 16, 16]))).forImages(PER_CHANNEL[3]!);
  const { mean, std } = PER_CHANNEL[3] as { mean: number[]; std: number[] };
  const data = Uint8Array.from({ length: 3 * 256 }, (_, index) => Math.floor(index / 3));
  const { y } = await images.run({ x: { type: 'uint8', dims: [1, 16, 16, 3], data } });
  for (let channel = 0; channel < 3; channel++) {
    const plane = (y!.data as Float32Array).subarray(256 * channel, 256 * (channel + 1));
    plane.forEach((element, byte) =>
      expect(element).toBeCloseTo((byte / 255 - mean[channel]!) / std[channel]!, 5),
    );
  }
});

describe('a session for images', () => {
  test('tells of bytes in its layout, and of all else as it was', async () => {
    const model = onnxModel({
      inputs: [value('x', ['N', 3, 4, 'W']), value('s', ['N', 1])],
      nodes: [node('ReduceSum', ['x'], ['r'], { keepdims: 0 }), node('Add', ['r', 's'], ['y'])],
      outputs: [value('y', ['N', 1])],
    });
    const session = await create(model);
    const before = [session.inputMetadata, session.outputMetadata];
    for (const [layout, shape] of [
      ['NHWC', ['N', 4, 'W', 3]],
      ['NCHW', ['N', 3, 4, 'W']],
    ] as const) {
      const images = session.forImages({ layout });
      expect(images).toBeInstanceOf(InferenceSession);
      expect(images).toMatchObject({
        device: session.device,
        inputNames: ['x', 's'],
        outputNames: ['y'],
        inputMetadata: [
          { name: 'x', isTensor: true, type: 'uint8', shape },
          { name: 's', isTensor: true, type: 'float32', shape: ['N', 1] },
        ],
        outputMetadata: session.outputMetadata,
      });
    }
    expect([session.inputMetadata, session.outputMetadata]).toEqual(before);
  });

  test('takes batches of any size, in any order, and at once', async () => {
    const random = seeded();
    const session = await create(convolving(['N', 3, 9, 8], 3));
    const images = session.forImages(PER_CHANNEL[3]);
    const runs = [1, 2, 3, 4, 5, 3, 1, 5, 2, 4].map(async (n) => {
      const { image, numbers } = imageOf(random, [n, 3, 9, 8], PER_CHANNEL[3]!);
      const [{ y }, expected] = await Promise.all([images.run({ x: image }), session.run({ x: numbers })]);
      expect(y!.dims).toEqual([n, 8, 9, 8]);
      expectClose(y!.data, expected.y!.data as Float32Array);
    });
    await Promise.all(runs);
  });

  test('of a model of fixed dims, and of one whose free dims are chosen', async () => {
    const random = seeded();
    const free = { freeDimensionOverrides: { N: 2, H: 6, W: 5 } };
    for (const [shape, options] of [
      [[2, 3, 6, 5], {}],
      [['N', 3, 'H', 'W'], free],
    ] as const) {
      const session = await create(convolving(shape, 3), options);
      const images = session.forImages();
      const { image, numbers } = imageOf(random, [2, 3, 6, 5], {});
      // Unlike the session's, its network has not been compiled yet.
      expect(() => images.runSync({ x: image })).toThrow(/runSync\(\) compiles nothing/);
      const expected = session.runSync({ x: numbers }).y!.data as Float32Array;
      expectClose((await images.run({ x: image })).y!.data, expected);
      expectClose(images.runSync({ x: image }).y!.data, expected);
      expect((await images.explain()).steps.length).toBeGreaterThan(0);
    }
  });

  test('takes one of several inputs, by its name', async () => {
    const random = seeded();
    const model = onnxModel({
      inputs: [value('a', ['N', 3, 4, 4]), value('shift', ['N', 3, 1, 1]), value('b', ['N', 3, 4, 4])],
      nodes: [node('Sub', ['a', 'b'], ['d']), node('Add', ['d', 'shift'], ['y'])],
      outputs: [value('y')],
    });
    const session = await create(model);
    expect(() => session.forImages()).toThrow(invalid(/^options\.input must be .*'a' or 'shift' or 'b'/));
    const one = imageOf(random, [2, 3, 4, 4], PER_CHANNEL[3]!);
    const other = imageOf(random, [2, 3, 4, 4], {});
    const shift = new Tensor('float32', [1, 2, 3, 4, 5, 6], [2, 3, 1, 1]);
    const expected = (await session.run({ a: one.numbers, b: other.numbers, shift })).y!.data as Float32Array;
    const asA = session.forImages({ input: 'a', ...PER_CHANNEL[3] });
    expectClose((await asA.run({ a: one.image, b: other.numbers, shift })).y!.data, expected);
    const asB = session.forImages({ input: 'b' });
    expectClose((await asB.run({ a: one.numbers, b: other.image, shift })).y!.data, expected);
    await expect(asB.run({ a: one.image, b: other.image, shift })).rejects.toEqual(
      invalid(`^feeds.a.type must be 'float32', got 'uint8'`),
    );
  });

  test('takes an input that several steps read, and whose derived names are taken', async () => {
    const random = seeded();
    const model = onnxModel({
      inputs: [value('x', ['N', 3, 4, 4])],
      initializers: [tensor('x factors', [], [2]), tensor('x summands', [], [3])],
      nodes: [
        node('Mul', ['x', 'x factors'], ['x scaled']),
        node('Add', ['x scaled', 'x'], ['x shifted']),
        node('Mul', ['x', 'x'], ['x as numbers']),
        node('Add', ['x shifted', 'x as numbers'], ['x in planes']),
        node('Sub', ['x in planes', 'x summands'], ['y']),
      ],
      outputs: [value('y')],
    });
    const session = await create(model);
    const { image, numbers } = imageOf(random, [2, 3, 4, 4], PER_CHANNEL[3]!);
    const { y } = await session.forImages(PER_CHANNEL[3]).run({ x: image });
    expectClose(y!.data, (await session.run({ x: numbers })).y!.data as Float32Array);
  });

  test.each(['tune', 'direct'] as const)('of algorithm %s', async (algorithm) => {
    const random = seeded();
    const session = await create(convolving(['N', 3, 12, 12], 3), { algorithm });
    const images = session.forImages(PER_CHANNEL[3]);
    const { image, numbers } = imageOf(random, [2, 3, 12, 12], PER_CHANNEL[3]!);
    const { y } = await images.run({ x: image });
    expectClose(y!.data, (await session.run({ x: numbers })).y!.data as Float32Array);
  });

  test('takes turns with the session, where one compiled network is kept', async () => {
    const random = seeded();
    const before = await withoutGarbage(memory);
    const session = await create(convolving(['N', 3, 6, 6], 3), { cachedShapes: 1 });
    const forms = [PER_CHANNEL[3]!, { layout: 'NCHW' } as const, {}];
    const images = forms.map((form) => session.forImages(form));
    for (let round = 0; round < 12; round++) {
      const which = round % forms.length;
      const { image, numbers } = imageOf(random, [1 + (round % 2), 3, 6, 6], forms[which]!);
      const calls = [images[which]!.run({ x: image }), session.run({ x: numbers })] as const;
      const [{ y }, expected] = round < 6 ? await Promise.all(calls) : [await calls[0], await calls[1]];
      expectClose(y!.data, expected.y!.data as Float32Array);
    }
    await session.release();
    expect(memory().plans).toBe(before.plans);
  });

  test('is not taken for another one of the same dims', async () => {
    const session = await create(identity(['N', 1, 1, 2]));
    const data = Uint8Array.of(10, 20);
    const run = async (options: ImageOptions) => {
      const dims = options.layout === 'NCHW' ? [1, 1, 1, 2] : [1, 1, 2, 1];
      const { y } = await session.forImages(options).run({ x: { type: 'uint8', dims, data } });
      return [...(y!.data as Float32Array)];
    };
    for (let round = 0; round < 2; round++) {
      expect(await run({ scale: 1 })).toEqual([10, 20]);
      expect(await run({ scale: 2 })).toEqual([20, 40]);
      expect(await run({ scale: 1, mean: 5 })).toEqual([5, 15]);
      expect(await run({ scale: 1, std: 2 })).toEqual([5, 10]);
      expect(await run({ scale: 1, layout: 'NCHW' })).toEqual([10, 20]);
    }
  });

  test('gives what parts give together', async () => {
    const random = seeded();
    const session = await create(convolving(['N', 3, 7, 5], 3));
    const images = session.forImages(PER_CHANNEL[3]);
    for (const counts of [[1], [1, 1], [3, 1, 2], new Array<number>(20).fill(1)]) {
      const parts = counts.map((n) => imageOf(random, [n, 3, 7, 5], PER_CHANNEL[3]!));
      const { y } = await images.runJoined({ x: parts.map(({ image }) => image) });
      const expected = await session.runJoined({ x: parts.map(({ numbers }) => numbers) });
      expect(y!.dims).toEqual(expected.y!.dims);
      expectClose(y!.data, expected.y!.data as Float32Array);
    }
    await expect(images.runJoined({ x: [parts(1), parts(0)] })).rejects.toEqual(invalid(/^feeds\.x\[1\]/));

    function parts(isRight: number): TensorLike {
      return { type: isRight ? 'uint8' : 'int8', dims: [1, 7, 5, 3], data: new Uint8Array(105) };
    }
  });

  test('says which runs can be joined, as the session does', async () => {
    const session = await create(convolving(['N', 3, 7, 5], 3));
    const images = session.forImages();
    expect(images.canJoin({ x: [2, 7, 5, 3] }, [2, 2])).toBe(true);
    expect(images.canJoin({ x: [2, 7, 5, 3] }, [1, 4])).toBe(true);
    expect(() => images.canJoin({ x: [2, 3, 7, 5] }, [2, 2])).toThrow(invalid(/^inputDims\.x/));
    const mixing = await create(
      onnxModel({
        inputs: [value('x', ['N', 3, 4, 4])],
        nodes: [node('Softmax', ['x'], ['y'], { axis: 0 })],
        outputs: [value('y')],
      }),
    );
    expect(mixing.forImages().canJoin({ x: [1, 4, 4, 3] }, [1, 1])).toBe(false);
  });

  test('explains and profiles what it runs', async () => {
    const session = await create(convolving(['N', 3, 7, 5], 3));
    const images = session.forImages(PER_CHANNEL[3]);
    const [own, plain] = [
      await images.explain({ x: [2, 7, 5, 3] }),
      await session.explain({ x: [2, 3, 7, 5] }),
    ];
    expect(own.device).toBe(plain.device);
    expect(own.steps.length).toBeGreaterThan(plain.steps.length);
    await expect(images.explain({ x: [2, 3, 7, 5] })).rejects.toEqual(
      invalid(/^inputDims\.x must be \[N, 7, 5, 3\]/),
    );
    await expect(images.explain()).rejects.toEqual(invalid(`needs the dims of 'x'`));
    const { steps } = await images.profile(
      { x: imageOf(new Random(1), [2, 3, 7, 5], {}).image },
      { runs: 3 },
    );
    expect(steps).toHaveLength(own.steps.length);
    for (const { milliseconds } of steps as readonly { milliseconds?: number }[])
      expect(milliseconds).toBeGreaterThanOrEqual(0);
  });

  test('writes where it is told to, and heeds a signal', async () => {
    const session = await create(identity(['N', 1, 1, 2]));
    const images = session.forImages({ scale: 1 });
    const x: TensorLike = { type: 'uint8', dims: [1, 1, 2, 1], data: Uint8Array.of(1, 2) };
    const y = new Tensor('float32', new Float32Array(2), [1, 1, 1, 2]);
    expect((await images.run({ x }, { y })).y).toBe(y);
    expect(y.data).toEqual(Float32Array.of(1, 2));
    await expect(images.run({ x }, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_ABORTED',
    });
  });
});

describe('memory', () => {
  const CHANNELS = 64;
  const WEIGHT_BYTES = 2 * CHANNELS * CHANNELS * 49 * 4;

  /** Two convolutions of 1.6 MB of weights in all. */
  const heavy = () => {
    const weights = new Float32Array(CHANNELS * CHANNELS * 49).fill(0.001);
    return onnxModel({
      inputs: [value('x', ['N', CHANNELS, 8, 8])],
      initializers: [
        tensor('v', [CHANNELS, CHANNELS, 7, 7], weights),
        tensor(
          'w',
          [CHANNELS, CHANNELS, 7, 7],
          weights.map((one) => -one),
        ),
      ],
      nodes: [
        node('Conv', ['x', 'v'], ['a'], { pads: [3, 3, 3, 3] }),
        node('Conv', ['a', 'w'], ['y'], { pads: [3, 3, 3, 3] }),
      ],
      outputs: [value('y')],
    });
  };
  const held = () => (TEST_DEVICE === 'cpu' ? memory().cpu : memory().gpu['cuda:0']!);
  const { image, numbers } = imageOf(new Random(1), [1, CHANNELS, 8, 8], {});

  test('is shared by the forms of a network: weights are there once', async () => {
    const before = await withoutGarbage(held);
    const session = await create(heavy(), { algorithm: 'direct' });
    await session.run({ x: numbers });
    const first = held() - before;
    expect(first).toBeGreaterThan(WEIGHT_BYTES / 2);
    await session.forImages().run({ x: image });
    await session.forImages({ mean: 0.5 }).run({ x: image });
    const more = held() - before - first;
    process.stdout.write(`${first} bytes, and ${more} more of two forms for images\n`);
    expect(more).toBeLessThan(first / 2);
    await session.release();
    expect(held()).toBe(before);
  });

  test('is had by images first, too', async () => {
    const before = await withoutGarbage(held);
    const session = await create(heavy(), { algorithm: 'direct' });
    await session.forImages().run({ x: image });
    const first = held() - before;
    await session.run({ x: numbers });
    expect(held() - before - first).toBeLessThan(first / 2);
  });

  test('is limited for all forms together', async () => {
    const before = await withoutGarbage(held);
    const measured = await create(heavy(), { algorithm: 'direct' });
    const runBoth = async (session: InferenceSession) => {
      const { y } = await session.run({ x: numbers });
      const other = await session.forImages().run({ x: image });
      expectClose(other.y!.data, y!.data as Float32Array);
    };
    await runBoth(measured);
    // With the output of a run, which is gone by then.
    const needed = held() - before + CHANNELS * 64 * 4;
    await measured.release();
    const enough = await create(heavy(), { algorithm: 'direct', memoryLimit: needed });
    for (let round = 0; round < 3; round++) await runBoth(enough);
    expect(held() - before).toBeLessThanOrEqual(needed);
    await enough.release();
    const little = await create(heavy(), { algorithm: 'direct', memoryLimit: WEIGHT_BYTES / 4 });
    await expect(little.forImages().run({ x: image })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_OUT_OF_MEMORY',
    });
    await expect(little.run({ x: numbers })).rejects.toMatchObject({ code: 'ERR_WARPCONV_OUT_OF_MEMORY' });
  });
});

describe('the end', () => {
  const x: TensorLike = { type: 'uint8', dims: [1, 2, 2, 1], data: Uint8Array.of(1, 2, 3, 4) };
  const numbers = new Tensor('float32', [1, 2, 3, 4], [1, 1, 2, 2]);

  test('of a form for images leaves the session and other forms', async () => {
    const session = await create(identity(['N', 1, 2, 2]));
    const [images, others] = [session.forImages({ scale: 1 }), session.forImages({ scale: 1 })];
    await images.run({ x });
    await images.release();
    await expect(images.run({ x })).rejects.toEqual(DISPOSED);
    await expect(images.runJoined({ x: [x] })).rejects.toEqual(DISPOSED);
    await expect(images.explain()).rejects.toEqual(DISPOSED);
    await expect(images.profile({ x })).rejects.toEqual(DISPOSED);
    expect(() => images.runSync({ x })).toThrow(DISPOSED);
    expect(() => images.canJoin({ x: [1, 2, 2, 1] }, [1, 1])).toThrow(DISPOSED);
    expect(() => images.forImages()).toThrow(DISPOSED);
    await images.release();
    expect((await session.run({ x: numbers })).y!.data).toEqual(Float32Array.of(1, 2, 3, 4));
    expect((await others.run({ x })).y!.data).toEqual(Float32Array.of(1, 2, 3, 4));
    expect((await session.forImages({ scale: 2 }).run({ x })).y!.data).toEqual(Float32Array.of(2, 4, 6, 8));
  });

  test('of the session is that of its forms', async () => {
    const before = await withoutGarbage(memory);
    const session = await create(identity(['N', 1, 2, 2]));
    const images = session.forImages();
    await images.run({ x });
    await session.release();
    await expect(images.run({ x })).rejects.toEqual(DISPOSED);
    expect(() => images.runSync({ x })).toThrow(DISPOSED);
    expect(() => session.forImages()).toThrow(DISPOSED);
    expect(memory()).toMatchObject({ plans: before.plans, cpu: before.cpu, gpu: before.gpu });
  });

  test('of the session comes after the runs of its forms', async () => {
    const before = await withoutGarbage(memory);
    const { session, images, x: large } = await slow();
    let hasEnded = false;
    const running = images.run({ x: large }).finally(() => (hasEnded = true));
    await new Promise(setImmediate);
    expect(hasEnded).toBe(false);
    const released = session.release();
    await expect(images.run({ x: large })).rejects.toEqual(DISPOSED);
    expect((await running).b!.size).toBe(large.data.length);
    await released;
    expect(memory().plans).toBe(before.plans);
  });

  // release(): 'Resolves when the running ones have ended.'
  test('of a form for images comes after its runs', async () => {
    const { images, x: large } = await slow();
    let hasEnded = false;
    const running = images.run({ x: large }).finally(() => (hasEnded = true));
    await new Promise(setImmediate);
    await images.release();
    await new Promise(setImmediate);
    const atRelease = hasEnded;
    await running;
    expect(atRelease).toBe(true);
  });
});

describe('refused are', () => {
  const twoInputs = onnxModel({
    inputs: [value('x', ['N', 3, 4, 4]), value('i', ['N', 3, 4, 4], 'int32'), value('v', ['N', 3])],
    nodes: [
      node('Cast', ['i'], ['c'], { to: 1 }),
      node('Add', ['x', 'c'], ['y']),
      node('Identity', ['v'], ['z']),
    ],
    outputs: [value('y'), value('z')],
  });

  test.each<[string, unknown, string]>([
    ['an option that is not there', { means: 0 }, `^options.means is not known; did you mean 'mean'?`],
    ['options that are none', 3, '^options must be an object, got 3'],
    ['no options at all', null, '^options must be an object, got null'],
    ['the options of a server', { resize: 'cover' }, '^options.resize is not known'],
    ['a std of 0', { std: 0 }, '^options.std has a 0'],
    ['a 0 among the std', { std: [1, -0, 1] }, '^options.std has a 0'],
    ['a mean that is NaN', { mean: NaN }, '^options.mean must be a finite number, got NaN'],
    ['a std that is infinite', { std: [1, Infinity, 1] }, '^options.std\\[1\\] must be a finite number'],
    ['a scale in words', { scale: '1' }, `^options.scale must be a finite number, got '1'`],
    ['a list of scales', { scale: [1, 1, 1] }, '^options.scale must be a finite number'],
    ['too few means', { mean: [1, 2] }, '^options.mean has 2 numbers, and the input 3 channels'],
    ['too many std', { std: [1, 2, 3, 4] }, '^options.std has 4 numbers, and the input 3 channels'],
    ['an empty list', { mean: [] }, '^options.mean must be a number or a list of numbers'],
    ['a list with a hole', { mean: [1, , 3] }, '^options.mean\\[1\\] must be a finite number, got undefined'],
    ['a typed array', { mean: Float32Array.of(1, 2, 3) }, '^options.mean must be a number or a list'],
    ['a layout of another kind', { layout: 'HWC' }, `^options.layout must be 'NHWC' or 'NCHW', got 'HWC'`],
    ['an input that is not there', { input: 'w' }, `^options.input must be .*'x', got 'w'`],
    ['an input of integers', { input: 'i' }, `^options.input must be .*'x', got 'i'`],
    ['an input of two dims', { input: 'v' }, `^options.input must be .*'x', got 'v'`],
    ['an output', { input: 'y' }, `^options.input must be .*'x', got 'y'`],
    ['an input that is no name', { input: 0 }, `^options.input must be .*'x', got 0`],
  ])('%s', async (_, options, message) => {
    const session = await create(twoInputs);
    expect(() => session.forImages(options as ImageOptions)).toThrow(invalid(message));
  });

  test('models without a float32 input of four dims', async () => {
    const of = (shape: Shape, type: 'float32' | 'float64' | 'uint8' = 'float32') =>
      onnxModel({
        inputs: [value('x', shape, type)],
        nodes: [node('Cast', ['x'], ['y'], { to: 1 })],
        outputs: [value('y')],
      });
    for (const model of [
      of(['N', 3]),
      of([1, 3, 4, 4], 'float64'),
      of([1, 3, 4, 4], 'uint8'),
      of([1, 3, 4, 4, 1]),
    ]) {
      const session = await create(model);
      expect(() => session.forImages()).toThrow(invalid('the model has no float32 input of four dims'));
      expect(() => session.forImages({ input: 'x' })).toThrow(invalid('^options.input'));
    }
  });

  test('an input that is an output, too', async () => {
    const model = onnxModel({
      inputs: [value('x', ['N', 3, 4, 4])],
      nodes: [node('Relu', ['x'], ['y'])],
      outputs: [value('y'), value('x', ['N', 3, 4, 4])],
    });
    const session = await create(model);
    expect(() => session.forImages()).toThrow(invalid('^options.input'));
    expect(() => session.forImages({ input: 'x' })).toThrow(invalid('^options.input'));
  });

  test('a form of a form', async () => {
    const images = (await create(twoInputs)).forImages();
    expect(() => images.forImages()).toThrow(invalid('takes images already'));
    expect(() => images.forImages({ mean: 1 })).toThrow(invalid('takes images already'));
  });

  test.each<[string, unknown, string]>([
    [
      'numbers',
      new Tensor('float32', new Float32Array(48), [1, 4, 4, 3]),
      `^feeds.x.type must be 'uint8', got`,
    ],
    ['signed bytes', { type: 'int8', dims: [1, 4, 4, 3], data: new Int8Array(48) }, '^feeds.x.type must be'],
    [
      'another layout',
      { type: 'uint8', dims: [1, 3, 4, 4], data: new Uint8Array(48) },
      '^feeds.x.dims must be \\[N, 4, 4, 3\\] as the model says, got \\[1, 3, 4, 4\\]',
    ],
    ['one dim less', { type: 'uint8', dims: [4, 4, 3], data: new Uint8Array(48) }, '^feeds.x.dims must be'],
    ['too few bytes', { type: 'uint8', dims: [1, 4, 4, 3], data: new Uint8Array(47) }, '^feeds.x.data'],
    [
      'an array of floats',
      { type: 'uint8', dims: [1, 4, 4, 3], data: new Float32Array(48) },
      '^feeds.x.data',
    ],
    ['nothing', undefined, '^feeds.x is missing'],
  ])('runs of %s', async (_, x, message) => {
    const session = await create(convolving(['N', 3, 4, 4], 3));
    const images = session.forImages();
    await expect(images.run({ x: x as TensorLike })).rejects.toEqual(invalid(message));
    expect(() => images.runSync({ x: x as TensorLike })).toThrow(invalid(message));
  });

  test('images of another number of channels than means, where the model leaves them free', async () => {
    const session = await create(identity(['N', 'C', 'H', 'W']));
    const images = session.forImages({ mean: [1, 2, 3] });
    const of = (channels: number): TensorLike => ({
      type: 'uint8',
      dims: [1, 2, 2, channels],
      data: new Uint8Array(4 * channels),
    });
    expect((await images.run({ x: of(3) })).y!.dims).toEqual([1, 3, 2, 2]);
    await expect(images.run({ x: of(4) })).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_WARPCONV/),
    });
    await expect(images.run({ x: of(2) })).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_WARPCONV/),
    });
  });

  // A grey image becomes three planes: the session says that it has as many channels as it was given.
  test('grey images with three means, where the model leaves channels free', async () => {
    const images = (await create(identity(['N', 'C', 'H', 'W']))).forImages({ mean: [1, 2, 3] });
    const x: TensorLike = { type: 'uint8', dims: [1, 2, 2, 1], data: new Uint8Array(4) };
    await expect(images.run({ x })).rejects.toMatchObject({ code: expect.stringMatching(/^ERR_WARPCONV/) });
  });
});

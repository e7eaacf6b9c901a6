/** Single operators of a model against what is computed here, where ONNX's own test data has no such case. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { float, node, onnxModel, tensor, value, type OnnxModel } from '../support/onnx_builder';

type Model = Pick<OnnxModel, 'nodes'> & Partial<OnnxModel>;

/** What the model's y is for an x of those dims and elements. */
async function run(model: Model, dims: readonly number[], elements: ArrayLike<number>) {
  const bytes = onnxModel({ inputs: [value('x', dims)], outputs: [value('y')], ...model });
  const session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  try {
    const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(elements), dims) });
    return { type: y!.type, dims: [...y!.dims], elements: Array.from(y!.data as Float32Array, Number) };
  } finally {
    await session.release();
  }
}

/** 1, 2, 3 and so on. */
const counted = (size: number) => Array.from({ length: size }, (_, i) => i + 1);

describe('LayerNormalization', () => {
  test.each([[[2, 3, 4]], [[4, 768]]])('needs no bias: %j', async (dims) => {
    const count = dims.at(-1)!;
    const size = dims.reduce((product, extent) => product * extent, 1);
    const x = counted(size).map((i) => Math.fround(Math.sin(i)));
    const scale = counted(count).map((i) => 1 + i / count);
    const nodes = [node('LayerNormalization', ['x', 'scale'], ['y'])];
    const y = await run({ opset: 17, initializers: [tensor('scale', [count], scale)], nodes }, dims, x);
    expect(y.dims).toEqual(dims);
    for (let first = 0; first < size; first += count) {
      const row = x.slice(first, first + count);
      const mean = row.reduce((sum, element) => sum + element, 0) / count;
      const variance = row.reduce((sum, element) => sum + (element - mean) ** 2, 0) / count;
      row.forEach((element, i) => {
        const expected = ((element - mean) / Math.sqrt(variance + 1e-5)) * scale[i]!;
        expect(y.elements[first + i]).toBeCloseTo(expected, 5);
      });
    }
  });
});

// onnxruntime has it in ONNX's domain, and some exporters write it in Microsoft's.
describe.each(['', 'ai.onnx', 'com.microsoft'])(
  'SimplifiedLayerNormalization of the domain "%s"',
  (domain) => {
    const scale = [0.5, -1, 2, 3, 1.5, -0.25];
    const initializers = [tensor('scale', [2, 3], scale)];
    const simplified = (attributes: Parameters<typeof node>[3]) =>
      node('SimplifiedLayerNormalization', ['x', 'scale'], ['y'], attributes, { domain });

    test('divides by the root of the mean of squares', async () => {
      const x = counted(24).map((i) => Math.fround(Math.sin(i)));
      const nodes = [simplified({ axis: 1, epsilon: float(0.25), stash_type: 1 })];
      const y = await run({ initializers, nodes }, [4, 2, 3], x);
      expect(y.dims).toEqual([4, 2, 3]);
      y.elements.forEach((element, i) => {
        const row = x.slice(i - (i % 6)).slice(0, 6);
        const mean = row.reduce((sum, one) => sum + one ** 2, 0) / 6;
        expect(element).toBeCloseTo((x[i]! / Math.sqrt(mean + 0.25)) * scale[i % 6]!, 6);
      });
    });

    test('gives one over that root, too', async () => {
      const x = counted(24).map((i) => Math.fround(Math.sin(i)));
      const attributes = { axis: 1, epsilon: float(0.25) };
      const nodes = [
        node('SimplifiedLayerNormalization', ['x', 'scale'], ['unread', 'y'], attributes, { domain }),
      ];
      const y = await run({ initializers, nodes }, [4, 2, 3], x);
      expect(y.type).toBe('float32');
      expect(y.dims).toEqual([4, 1, 1]);
      y.elements.forEach((element, row) => {
        const sum = x.slice(6 * row, 6 * row + 6).reduce((total, one) => total + one ** 2, 0);
        expect(element).toBeCloseTo(1 / Math.sqrt(sum / 6 + 0.25), 6);
      });
    });

    test('has its attributes checked', async () => {
      const nodes = [simplified({ axis: 1, epsilon: 1 })];
      await expect(run({ initializers, nodes }, [4, 2, 3], counted(24))).rejects.toMatchObject({
        code: 'ERR_WARPCONV_INVALID_MODEL',
        message: expect.stringContaining("'epsilon'") as string,
      });
    });
  },
);

describe('after a convolution that is reshaped', () => {
  const ones = tensor('ones', [4, 1, 1, 1], [1, 1, 1, 1]);
  const numbers = [10, 20, 30, 40];
  const conv = node('Conv', ['x', 'ones'], ['c']);

  test('Add is along the axes of the new shape', async () => {
    const initializers = [ones, tensor('shape', [2], [4, 4], 'int64'), tensor('numbers', [4], numbers)];
    const nodes = [conv, node('Reshape', ['c', 'shape'], ['v']), node('Add', ['v', 'numbers'], ['y'])];
    const { elements } = await run({ initializers, nodes }, [1, 1, 2, 2], counted(4));
    expect(elements).toEqual(numbers.flatMap(() => [11, 22, 33, 44]));
  });

  test('Mul is along the axes of the new shape', async () => {
    const initializers = [ones, tensor('axes', [1], [0], 'int64'), tensor('numbers', [4, 1], numbers)];
    const nodes = [conv, node('Squeeze', ['c', 'axes'], ['v']), node('Mul', ['v', 'numbers'], ['y'])];
    const { elements } = await run({ initializers, nodes }, [1, 1, 4, 2], counted(8));
    expect(elements).toEqual(
      numbers.flatMap(() => counted(8).map((x, i) => x * numbers[Math.floor(i / 2)]!)),
    );
  });
});

describe('BatchNormalization', () => {
  // The quotient of scale and deviation is 1e50, 1e-44 and 1 / 0.
  test.each([
    [1e30, 0, 1, 1e-40, [1, 2]],
    [1e-25, 0, 0, 1e38, [1e38, -1e38]],
    [1, 3, 1, 0, [2, 0]],
  ])('by scale %d, shift %d, mean %d and variance %d, of which no factor is made', async (...given) => {
    const [scale, shift, mean, variance, x] = given;
    const numbers = { scale, shift, mean, variance };
    const initializers = Object.entries(numbers).map(([name, number]) => tensor(name, [1], [number]));
    const nodes = [node('BatchNormalization', ['x', ...Object.keys(numbers)], ['y'], { epsilon: float(0) })];
    const y = await run({ initializers, nodes }, [1, 1, 1, 2], x);
    const exact = x.map((element) => ((element - mean) / Math.sqrt(Math.fround(variance))) * scale + shift);
    exact.forEach((expected, i) => {
      const isInfinity = Math.fround(expected) === y.elements[i]!;
      const isClose = Math.abs(y.elements[i]! - expected) <= 1e-6 * Math.abs(expected);
      expect([expected, y.elements[i], isInfinity || isClose]).toEqual([expected, y.elements[i], true]);
    });
  });
});

describe('Div by one number', () => {
  const divide = (by: number) => [tensor('number', [], [by])];

  test.each([3, 10, 41, 49, 93])('gives whole quotients of multiples of %d', async (by) => {
    const nodes = [node('Div', ['x', 'number'], ['q']), node('Floor', ['q'], ['y'])];
    const x = counted(200).map((i) => i * by);
    expect((await run({ initializers: divide(by), nodes }, [200], x)).elements).toEqual(counted(200));
  });

  test.each([1e-40, 2 ** -149, 2 ** -20, 8, 3e38, 2 ** 127, Infinity])('rounds only once: %d', async (by) => {
    const x = [1e-41, 2 ** -149, 1e-5, 1, 1e38, 3e38].map(Math.fround);
    const expected = x.map((element) => Math.fround(element / Math.fround(by)));
    const nodes = [node('Div', ['x', 'number'], ['y'])];
    expect((await run({ initializers: divide(by), nodes }, [6], x)).elements).toEqual(expected);
  });
});

describe('Clip', () => {
  const MAX = 3.4028234663852886e38;
  const x = [NaN, -Infinity, -MAX, -1, -0, 2, MAX, Infinity];
  const clipped = (low: number, high: number) =>
    x.map((element) => (Number.isNaN(element) ? NaN : Math.min(high, Math.max(low, element))));

  test.each([
    ['no bound', undefined, undefined, clipped(-MAX, MAX)],
    ['a lower bound', -5, undefined, clipped(-5, MAX)],
    ['the lower bound 0', 0, undefined, clipped(0, MAX)],
    ['an upper bound', undefined, 1, clipped(-MAX, 1)],
    ['an infinite bound', -Infinity, 1, clipped(-Infinity, 1)],
    ['bounds that cross', 3, 1, x.map((element) => (Number.isNaN(element) ? NaN : 1))],
  ])('by %s, in every version, alone and after a convolution', async (_, low, high, expected) => {
    for (const [opset, isFused] of [7, 10, 11, 12, 13].flatMap(
      (version) =>
        [
          [version, false],
          [version, true],
        ] as const,
    )) {
      const bounds = {
        ...(low !== undefined && { min: float(low) }),
        ...(high !== undefined && { max: float(high) }),
      };
      const clip =
        opset < 11
          ? node('Clip', ['c'], ['y'], bounds)
          : node('Clip', ['c', low === undefined ? '' : 'low', high === undefined ? '' : 'high'], ['y']);
      const initializers = [
        tensor('w', [1, 1, 1, 1], [1]),
        tensor('zero', [], [0]),
        tensor('low', [], [low ?? 0]),
        tensor('high', [], [high ?? 0]),
      ];
      const before = isFused ? node('Conv', ['x', 'w'], ['c']) : node('Identity', ['x'], ['c']);
      const y = await run({ opset, initializers, nodes: [before, clip] }, [1, 1, 2, 4], x);
      expect(y.elements.map((element) => element + 0)).toEqual(expected.map((element) => element + 0));
    }
  });

  test.each([
    [undefined, 1],
    [-5, undefined],
    [3, 1],
  ])('by bounds that a run computes: %p and %p', async (low, high) => {
    const nodes = [
      node('ReduceSum', ['x'], ['sum'], { keepdims: 0 }),
      node('Sub', ['sum', 'sum'], ['nothing']),
      node('Add', ['low', 'nothing'], ['lowest']),
      node('Add', ['high', 'nothing'], ['highest']),
      node('Clip', ['z', low === undefined ? '' : 'lowest', high === undefined ? '' : 'highest'], ['y']),
    ];
    const initializers = [
      tensor('low', [], [low ?? 0]),
      tensor('high', [], [high ?? 0]),
      tensor('z', [8], x),
    ];
    const y = await run({ initializers, nodes }, [2], [1, 2]);
    expect(y.elements.map((element) => element + 0)).toEqual(
      x.map((element) =>
        Number.isNaN(element) ? NaN : Math.min(high ?? MAX, Math.max(low ?? -MAX, element)) + 0,
      ),
    );
  });
});

test.each([3, 7, 41])('Mean of %d inputs divides once', async (count) => {
  const names = counted(count - 1).map((i) => `x${i}`);
  const initializers = names.map((name) => tensor(name, [], [82]));
  const nodes = [node('Mean', ['x', ...names], ['y'])];
  expect((await run({ initializers, nodes }, [1], [82])).elements).toEqual([82]);
});

test('Mul by one number keeps the sign of zero', async () => {
  const nodes = [node('Mul', ['x', 'number'], ['z']), node('Reciprocal', ['z'], ['y'])];
  const y = await run({ initializers: [tensor('number', [], [3])], nodes }, [2], [-0, 0]);
  expect(y.elements).toEqual([-Infinity, Infinity]);
});

describe('Resize', () => {
  test.each([
    [10, 0.7, 7],
    [20, 0.35, 7],
    [30, 0.9, 27],
    [10, 1.3, 13],
    [10, 0.75, 7],
  ])('makes of %d by the scale %d %d', async (input, scale, output) => {
    const initializers = [tensor('none', [0], []), tensor('scales', [4], [1, 1, 1, scale])];
    for (const mode of ['nearest', 'linear']) {
      const nodes = [node('Resize', ['x', 'none', 'scales'], ['y'], { mode })];
      const { dims } = await run({ initializers, nodes }, [1, 1, 1, input], counted(input));
      expect(dims).toEqual([1, 1, 1, output]);
    }
  });

  // Those of ONNX's own tests of opset 10: resize_downsample_nearest and resize_upsample_nearest.
  test.each([
    [
      [2, 4],
      [0.6, 0.6],
      [1, 3],
    ],
    [
      [2, 2],
      [2, 3],
      [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4],
    ],
  ])('of opset 10 takes of %j by %j the nearest', async (map, scales, expected) => {
    const initializers = [tensor('scales', [4], [1, 1, ...scales])];
    const nodes = [node('Resize', ['x', 'scales'], ['y'], { mode: 'nearest' })];
    const x = counted(map[0]! * map[1]!);
    const { elements } = await run({ opset: 10, initializers, nodes }, [1, 1, ...map], x);
    expect(elements).toEqual(expected);
  });
});

describe('Slice', () => {
  test.each([
    [4, -100, -200, -1, [1]],
    [4, 100, -200, -1, [4, 3, 2, 1]],
    [4, 100, 200, -1, []],
    [4, -100, -200, 1, []],
    [4, -100, 200, 3, [1, 4]],
    [0, 0, -1, -1, []],
    [0, -1, -100, -1, []],
  ])('of %d elements from %d to %d by %d is %j, folded too', async (extent, start, end, step, expected) => {
    const numbers = { start, end, axis: 0, step };
    const bounds = Object.entries(numbers).map(([name, number]) => tensor(name, [1], [number], 'int64'));
    const initializers = [...bounds, tensor('known', [extent], counted(extent))];
    for (const input of ['x', 'known']) {
      const nodes = [node('Slice', [input, ...Object.keys(numbers)], ['y'])];
      const y = await run({ initializers, nodes }, [extent], counted(extent));
      expect(y).toEqual({ type: 'float32', dims: [expected.length], elements: expected });
    }
  });
});

describe('ConstantOfShape', () => {
  // What is too large to be folded is a step.
  test.each([
    [3, 2],
    [300, 300],
  ])('has the type of its value, %d x %d', async (...dims) => {
    const filling = { value: tensor('', [1], [7], 'int64') };
    const nodes = [node('Shape', ['x'], ['shape']), node('ConstantOfShape', ['shape'], ['y'], filling)];
    const size = dims[0] * dims[1];
    const y = await run({ nodes }, dims, counted(size));
    expect(y).toEqual({ type: 'int64', dims, elements: counted(size).fill(7) });
  });

  test('is of float32 zeros where nothing says otherwise', async () => {
    const nodes = [node('Shape', ['x'], ['shape']), node('ConstantOfShape', ['shape'], ['y'])];
    const y = await run({ nodes }, [300, 300], counted(90_000));
    expect(y).toEqual({ type: 'float32', dims: [300, 300], elements: counted(90_000).fill(0) });
  });
});

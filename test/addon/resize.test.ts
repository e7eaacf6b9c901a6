/**
 * Resize against positions that are computed here in exact fractions, with integers of any length. To repeat a failure,
 * set WARPCONV_FUZZ_SEED to the seed that it prints.
 */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { float, floats, node, onnxModel, tensor, value, type AttributeValue } from '../support/onnx_builder';
import { Random } from '../support/random';

const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));

type Attributes = Readonly<Record<string, AttributeValue>>;

interface Resizing {
  readonly opset?: number;
  readonly operator?: string;
  readonly dims: readonly number[];
  readonly scales?: readonly number[];
  readonly sizes?: readonly number[];
  readonly roi?: readonly number[];
  readonly type?: 'float32' | 'float64' | 'int8' | 'uint8' | 'int32';
  readonly attributes?: Attributes;
}

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int32: Int32Array,
};

async function resize(
  { opset = 19, operator = 'Resize', dims, scales, sizes, roi, type = 'float32', attributes = {} }: Resizing,
  elements: ArrayLike<number>,
) {
  const given = scales === undefined ? [] : [tensor('scales', [scales.length], scales)];
  if (sizes !== undefined) given.push(tensor('sizes', [sizes.length], sizes, 'int64'));
  if (roi !== undefined) given.push(tensor('roi', [roi.length], roi));
  const named = ['x', roi ? 'roi' : '', scales ? 'scales' : '', sizes ? 'sizes' : ''];
  const inputs = opset < 11 ? ['x', 'scales'] : named;
  const bytes = onnxModel({
    opset,
    inputs: [value('x', dims, type)],
    initializers: given,
    nodes: [node(operator, opset < 9 ? ['x'] : inputs, ['y'], attributes)],
    outputs: [value('y', undefined, type)],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const x = new Tensor(type, ARRAYS[type].from(elements as ArrayLike<number>) as never, dims);
  const { y } = await session.run({ x });
  expect(y!.type).toBe(type);
  return { dims: [...y!.dims], elements: Array.from(y!.data as Float32Array) };
}

interface Fraction {
  readonly n: bigint;
  readonly d: bigint;
}

/** The position of the input that ONNX's formulas give for output `i`, where the scale is output / input. */
function positionOf(coordinates: string, i: number, input: number, output: number): Fraction {
  const [x, from, to] = [BigInt(i), BigInt(input), BigInt(output)];
  switch (coordinates) {
    case 'asymmetric':
      return { n: x * from, d: to };
    case 'align_corners':
      return to === 1n ? { n: 0n, d: 1n } : { n: x * (from - 1n), d: to - 1n };
    case 'pytorch_half_pixel':
      return to === 1n ? { n: 0n, d: 1n } : { n: (2n * x + 1n) * from - to, d: 2n * to };
    default:
      return { n: (2n * x + 1n) * from - to, d: 2n * to };
  }
}

function floorOf({ n, d }: Fraction): bigint {
  return n >= 0n || n % d === 0n ? n / d : n / d - 1n;
}

const ceilOf = ({ n, d }: Fraction) => -floorOf({ n: -n, d });

function nearestOf({ n, d }: Fraction, rounding: string): number {
  const rounded = {
    floor: floorOf({ n, d }),
    ceil: ceilOf({ n, d }),
    round_prefer_floor: ceilOf({ n: 2n * n - d, d: 2n * d }),
    round_prefer_ceil: floorOf({ n: 2n * n + d, d: 2n * d }),
  }[rounding]!;
  return Number(rounded);
}

const clampTo = (extent: number, position: number) => Math.min(extent - 1, Math.max(0, position));

/** Keys' kernel at a distance. */
function cubic(distance: number, a: number): number {
  const d = Math.abs(distance);
  if (d <= 1) return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  return d < 2 ? a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a : 0;
}

function interpolated(mode: string, position: Fraction, elements: readonly number[]): number {
  const whole = Number(floorOf(position));
  const share = Number(position.n - floorOf(position) * position.d) / Number(position.d);
  const at = (offset: number) => elements[clampTo(elements.length, whole + offset)]!;
  if (mode === 'linear') return (1 - share) * at(0) + share * at(1);
  return [-1, 0, 1, 2].reduce((sum, tap) => sum + cubic(share - tap, -0.75) * at(tap), 0);
}

const COORDINATES = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
];
const ROUNDINGS = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'];

async function check(random: Random): Promise<void> {
  const input = random.integer(1, 70);
  const output = random.integer(1, 90);
  const [coordinates, rounding] = [random.pick(COORDINATES), random.pick(ROUNDINGS)];
  const mode = random.pick(['nearest', 'nearest', 'linear', 'cubic']);
  const elements = Array.from({ length: input }, () => random.integer(-100, 100));
  const by = random.chance(0.5) ? { sizes: [1, output] } : { scales: [1, output / input] };
  const attributes = { mode, coordinate_transformation_mode: coordinates, nearest_mode: rounding };
  const y = await resize({ dims: [1, input], ...by, attributes }, elements);
  const expected = Array.from({ length: output }, (_, i) => {
    const position = positionOf(coordinates, i, input, output);
    return mode === 'nearest'
      ? elements[clampTo(input, nearestOf(position, rounding))]!
      : interpolated(mode, position, elements);
  });
  expect(y.dims).toEqual([1, output]);
  // Weights and sums of four are rounded to float32; the weights' magnitudes add up to 1.75 at most.
  const allowed = mode === 'nearest' ? 0 : 100 * 1.75 * 5 * 2 ** -24;
  y.elements.forEach((element, i) => {
    if (Math.abs(element - expected[i]!) <= allowed) return;
    const how = JSON.stringify({ input, output, by, attributes });
    throw new Error(`element ${i} of ${how} is ${element}, not ${expected[i]}`);
  });
}

test('any extent to any other, by scale and by size', async () => {
  for (let index = 0; index < 600; index++) {
    const seed = (firstSeed + index) % 2 ** 32;
    await check(new Random(seed)).catch((error: unknown) => {
      throw new Error(`${String(error)}; repeat with WARPCONV_FUZZ_SEED=${seed}`, { cause: error });
    });
  }
  process.stdout.write(`Resize, first seed ${firstSeed}\n`);
}, 60_000);

const counted = (size: number) => Array.from({ length: size }, (_, i) => i);

test.each([
  ['not_larger', [4, 8], [8, 12], [6, 12]],
  ['not_smaller', [4, 8], [8, 12], [8, 16]],
  ['not_larger', [3, 7], [5, 20], [5, 12]],
  ['not_larger', [0, 4], [0, 8], [0, 8]],
])('%s: %j by sizes %j is %j', async (policy, dims, sizes, expected) => {
  const attributes = { mode: 'nearest', keep_aspect_ratio_policy: policy };
  const y = await resize({ dims, sizes, attributes }, counted(dims[0]! * dims[1]!));
  expect(y.dims).toEqual(expected);
});

test('a scale that is no quotient of the extents is the decimal that was written', async () => {
  const y = await resize(
    {
      dims: [1, 7],
      scales: [1, 1.2],
      attributes: { coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' },
    },
    counted(7),
  );
  expect(y.elements).toEqual([0, 0, 1, 2, 3, 4, 5, 5]);
});

describe('antialias', () => {
  /** Every input by its distance on a line that is as dense as the outputs, edges repeated without end. */
  function smoothed(mode: string, position: number, scale: number, elements: readonly number[]): number {
    const weigh = (d: number) => (mode === 'linear' ? Math.max(0, 1 - Math.abs(d)) : cubic(d, -0.75));
    const all = Array.from({ length: 8 * elements.length }, (_, i) => i - 4 * elements.length);
    const weights = all.map((place) => weigh((place - position) * Math.min(1, scale)));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const at = (place: number) => elements[clampTo(elements.length, place)]!;
    return all.reduce((sum, place, i) => sum + weights[i]! * at(place), 0) / total;
  }

  test.each([
    ['linear', 40, 7],
    ['linear', 9, 8],
    ['linear', 12, 1],
    ['linear', 5, 15],
    ['cubic', 40, 7],
    ['cubic', 37, 36],
    ['cubic', 12, 1],
    ['cubic', 5, 15],
  ])('%s from %i to %i', async (mode, input, output) => {
    const elements = Array.from({ length: input }, (_, i) => ((i * 37) % 101) - 50);
    const attributes = { mode, antialias: 1 };
    const expected = Array.from({ length: output }, (_, i) =>
      smoothed(mode, ((i + 0.5) * input) / output - 0.5, output / input, elements),
    );
    for (const type of ['float32', 'float64'] as const) {
      const y = await resize({ dims: [1, input], sizes: [1, output], type, attributes }, elements);
      // Weights and sums are rounded; the magnitudes of weights add up to less than 2.
      const allowed = 50 * 2 * (2 * input + 4) * (type === 'float32' ? 2 ** -24 : 2 ** -53);
      y.elements.forEach((element, i) =>
        expect(Math.abs(element - expected[i]!)).toBeLessThanOrEqual(allowed),
      );
    }
  });

  test('leaves what is outside out, where the model says so', async () => {
    const attributes = { mode: 'linear', antialias: 1, exclude_outside: 1 };
    // Of output 0, at 0.5, inputs -1 … 2 weigh 1, 3, 3, 1 eighths.
    const y = await resize({ dims: [1, 4], sizes: [1, 2], attributes }, [7, 14, 21, 28]);
    expect(y.elements).toEqual([(3 * 7 + 3 * 14 + 21) / 7, (14 + 3 * 21 + 3 * 28) / 7].map(Math.fround));
  });

  test('along axes that keep their aspect', async () => {
    const attributes = { mode: 'linear', antialias: 1, keep_aspect_ratio_policy: 'not_larger' };
    const y = await resize({ dims: [2, 4], sizes: [2, 2], attributes }, [8, 16, 24, 32, 8, 16, 24, 32]);
    expect(y).toEqual({ dims: [1, 2], elements: [13, 27] });
  });

  test('with more taps than there is room for is refused', async () => {
    const attributes = { mode: 'cubic', antialias: 1 };
    const size = 2 ** 18;
    await expect(resize({ dims: [1, size], sizes: [1, 3], attributes }, counted(size))).rejects.toMatchObject(
      { code: 'ERR_WARPCONV_UNSUPPORTED' },
    );
  });
});

describe('tf_crop_and_resize', () => {
  const attributes = { mode: 'linear', coordinate_transformation_mode: 'tf_crop_and_resize' };

  test('takes a part of the input, also backwards', async () => {
    const [dims, sizes] = [
      [1, 9],
      [1, 5],
    ];
    const part = await resize({ dims, sizes, roi: [0, 0.25, 1, 0.75], attributes }, counted(9));
    expect(part.elements).toEqual([2, 3, 4, 5, 6]);
    const turned = await resize({ dims, sizes, roi: [0, 0.75, 1, 0.25], attributes }, counted(9));
    expect(turned.elements).toEqual([6, 5, 4, 3, 2]);
  });

  test('makes one element from the middle of the part', async () => {
    const y = await resize({ dims: [1, 9], sizes: [1, 1], roi: [0, 0.25, 1, 0.5], attributes }, counted(9));
    expect(y.elements).toEqual([3]);
  });

  test.each(['nearest', 'linear', 'cubic'])('has a value for what is beyond the input: %s', async (mode) => {
    const beyond = { ...attributes, mode, extrapolation_value: float(-7) };
    const y = await resize(
      { dims: [3, 5], sizes: [3, 7], roi: [0, -0.25, 0.5, 1.25], attributes: beyond },
      counted(15),
    );
    const row = (first: number) => [-7, first, first + 1, first + 2, first + 3, first + 4, -7];
    // Rows come from 0, 0.5 and 1.
    const between = mode === 'nearest' ? row(0) : mode === 'linear' ? row(2.5) : undefined;
    expect(y.elements.slice(0, 7)).toEqual(row(0));
    if (between !== undefined) expect(y.elements.slice(7, 14)).toEqual(between);
    expect(y.elements.slice(14)).toEqual(row(5));
  });

  test('of nothing but what is beyond is its value, rounded for integers', async () => {
    for (const mode of ['nearest', 'linear']) {
      const beyond = { ...attributes, mode, extrapolation_value: float(2.5) };
      const y = await resize(
        { dims: [1, 3], sizes: [1, 2], roi: [0, 1.5, 1, 2], type: 'int8', attributes: beyond },
        [1, 2, 3],
      );
      expect(y.elements).toEqual([2, 2]);
    }
  });

  test('crops the axes that the node names, in their order', async () => {
    const y = await resize(
      {
        ...{ dims: [3, 5], sizes: [3, 1], roi: [0.5, 0, 1, 0] },
        attributes: { ...attributes, axes: [1, 0] },
      },
      counted(15),
    );
    expect(y).toEqual({ dims: [1, 3], elements: [2, 3, 4] });
  });
});

test('tf_half_pixel_for_nn goes half a pixel less back', async () => {
  const attributes = {
    ...{ mode: 'nearest', nearest_mode: 'floor' },
    coordinate_transformation_mode: 'tf_half_pixel_for_nn',
  };
  // (i + 0.5) * 5 / 3 is 0.83, 2.5 and 4.17.
  const y = await resize({ opset: 11, dims: [1, 5], sizes: [1, 3], roi: [], attributes }, counted(5));
  expect(y.elements).toEqual([0, 2, 4]);
});

describe('other types', () => {
  test.each(['int8', 'uint8', 'int32', 'float64'] as const)('%s is copied to the nearest', async (type) => {
    const y = await resize({ dims: [1, 3], sizes: [1, 6], type }, [1, 127, 3]);
    expect(y.elements).toEqual([1, 1, 127, 127, 3, 3]);
  });

  test('integers are rounded to the nearest, of two to the even one', async () => {
    const attributes = { mode: 'linear', coordinate_transformation_mode: 'align_corners' };
    const y = await resize({ dims: [1, 4], sizes: [1, 7], type: 'int8', attributes }, [0, 1, 4, -7]);
    // Between them lie 0.5, 2.5 and -1.5.
    expect(y.elements).toEqual([0, 0, 1, 2, 4, -2, -7]);
  });

  test.each([
    ['uint8' as const, 0, 255],
    ['int8' as const, -128, 127],
  ])('%s stays within its bounds where a cubic goes beyond', async (type, low, high) => {
    const attributes = { mode: 'cubic' };
    const y = await resize({ dims: [1, 4], scales: [1, 2], type, attributes }, [low, low, high, high]);
    expect(y.elements.slice(0, 2)).toEqual([low, low]);
    expect(y.elements.slice(-2)).toEqual([high, high]);
    expect(Math.min(...y.elements.slice(2, 4))).toBe(low);
  });

  test.each([['linear'], ['cubic']])('float64 keeps its digits: %s', async (mode) => {
    const elements = [1 + 2 ** -40, 1 - 2 ** -41, 1, 1 + 2 ** -39];
    const attributes = { mode };
    const y = await resize({ dims: [1, 4], sizes: [1, 9], type: 'float64', attributes }, elements);
    y.elements.forEach((element, i) => {
      const expected = interpolated(mode, positionOf('half_pixel', i, 4, 9), elements);
      expect(Math.abs(element - expected)).toBeLessThanOrEqual(16 * 2 ** -53);
    });
  });
});

test.each([['nearest'], ['linear'], ['cubic']])('of no images is one of no images: %s', async (mode) => {
  expect(await resize({ dims: [0, 4], scales: [1, 2], attributes: { mode } }, [])).toEqual({
    dims: [0, 8],
    elements: [],
  });
  expect(await resize({ dims: [0, 4], sizes: [0, 3], attributes: { mode } }, [])).toEqual({
    dims: [0, 3],
    elements: [],
  });
  expect(await resize({ dims: [2, 0], scales: [1.5, 1.5], attributes: { mode } }, [])).toEqual({
    dims: [3, 0],
    elements: [],
  });
});

test('to no elements is none', async () => {
  expect(await resize({ dims: [1, 4], sizes: [1, 0] }, counted(4))).toEqual({ dims: [1, 0], elements: [] });
});

describe('is refused', () => {
  const invalid: readonly (readonly [string, Resizing])[] = [
    ['by scale 0', { dims: [1, 4], scales: [1, 0] }],
    ['by a negative scale', { dims: [1, 4], scales: [1, -2] }],
    ['by NaN', { dims: [1, 4], scales: [1, NaN] }],
    ['by infinity', { dims: [1, 4], scales: [1, Infinity] }],
    ['by a scale that leaves nothing', { dims: [1, 4], scales: [1, 0.125] }],
    ['by the smallest scale', { dims: [1, 4], scales: [1, 2 ** -149] }],
    ['to a negative size', { dims: [1, 4], sizes: [1, -4] }],
    ['to elements from none', { dims: [1, 0], sizes: [1, 4] }],
    ['by too few scales', { dims: [1, 4], scales: [2] }],
    ['by too many sizes', { dims: [1, 4], sizes: [1, 2, 3] }],
    ['with an axis named twice', { dims: [1, 4], sizes: [2, 2], attributes: { axes: [1, -1] } }],
    ['with an axis that is not there', { dims: [1, 4], sizes: [2], attributes: { axes: [2] } }],
    ['without scales and sizes', { dims: [1, 4] }],
    [
      'to a part without a region',
      {
        ...{ dims: [1, 4], sizes: [1, 2] },
        attributes: { coordinate_transformation_mode: 'tf_crop_and_resize' },
      },
    ],
    [
      'to a part by a region of too few numbers',
      {
        ...{ dims: [1, 4], sizes: [1, 2], roi: [0, 1] },
        attributes: { coordinate_transformation_mode: 'tf_crop_and_resize' },
      },
    ],
    ['as Upsample 7 without scales', { dims: [1, 4], operator: 'Upsample', opset: 7 }],
    [
      'as Upsample 7 by infinity',
      { dims: [1, 4], operator: 'Upsample', opset: 7, attributes: { scales: floats(1, Infinity) } },
    ],
  ];
  test.each(invalid)('%s', async (_, resizing) => {
    const size = resizing.dims.reduce((product, extent) => product * extent, 1);
    await expect(resize(resizing, counted(size))).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
    });
  });

  const tooLarge: readonly (readonly [string, Resizing])[] = [
    ['by a huge scale', { dims: [1, 4], scales: [1, 3e38] }],
    ['to a huge size', { dims: [1, 4], sizes: [1, 2 ** 62] }],
    ['by 2^25', { dims: [1, 4], scales: [1, 2 ** 25] }],
    [
      'to a huge size that keeps the aspect',
      { dims: [3, 4], sizes: [1, 2 ** 62], attributes: { keep_aspect_ratio_policy: 'not_smaller' } },
    ],
  ];
  test.each(tooLarge)('%s', async (_, resizing) => {
    const size = resizing.dims.reduce((product, extent) => product * extent, 1);
    for (const mode of ['nearest', 'linear', 'cubic']) {
      const attributes = { mode, ...resizing.attributes };
      await expect(resize({ ...resizing, attributes }, counted(size))).rejects.toMatchObject({
        code: 'ERR_WARPCONV_UNSUPPORTED',
      });
    }
  });
});

/**
 * Resize against positions that are computed here in exact fractions, with integers of any length. To repeat a failure,
 * set WARPCONV_FUZZ_SEED to the seed that it prints.
 */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { floats, node, onnxModel, tensor, value, type AttributeValue } from '../support/onnx_builder';
import { Random } from '../support/random';

const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));

type Attributes = Readonly<Record<string, AttributeValue>>;

interface Resizing {
  readonly opset?: number;
  readonly operator?: string;
  readonly dims: readonly number[];
  readonly scales?: readonly number[];
  readonly sizes?: readonly number[];
  readonly attributes?: Attributes;
}

async function resize(
  { opset = 19, operator = 'Resize', dims, scales, sizes, attributes = {} }: Resizing,
  elements: ArrayLike<number>,
) {
  const given = scales === undefined ? [] : [tensor('scales', [scales.length], scales)];
  if (sizes !== undefined) given.push(tensor('sizes', [sizes.length], sizes, 'int64'));
  const inputs = opset < 11 ? ['x', 'scales'] : ['x', '', scales ? 'scales' : '', sizes ? 'sizes' : ''];
  const bytes = onnxModel({
    opset,
    inputs: [value('x', dims)],
    initializers: given,
    nodes: [node(operator, opset < 9 ? ['x'] : inputs, ['y'], attributes)],
    outputs: [value('y')],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(elements), dims) });
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

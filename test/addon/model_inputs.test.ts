/** Nodes whose inputs and attributes are not what their operator takes, and legal ones that look like it. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, value, type AttributeValue, type OnnxType } from '../support/onnx_builder';

type Parameter = readonly [dims: readonly number[], elements: readonly number[], type?: OnnxType];

interface Case {
  readonly operator: string;
  readonly dims: readonly number[];
  readonly elements?: readonly number[];
  readonly type?: 'float32' | 'int64';
  /** Inputs after the first, as initializers */
  readonly parameters?: readonly Parameter[];
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
  readonly opset?: number;
}

/** 1, 2, 3 and so on. */
const counted = (size: number) => Array.from({ length: size }, (_, i) => i + 1);
const sizeOf = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);

async function run({ operator, dims, elements, parameters = [], attributes = {}, opset = 13 }: Case) {
  const names = parameters.map((_, i) => `p${i}`);
  const bytes = onnxModel({
    opset,
    inputs: [value('x', dims)],
    outputs: [value('y')],
    initializers: parameters.map(([shape, list, type], i) => tensor(names[i]!, shape, list, type)),
    nodes: [node(operator, ['x', ...names], ['y'], attributes)],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const x = new Tensor('float32', Float32Array.from(elements ?? counted(sizeOf(dims))), dims);
  const { y } = await session.run({ x });
  return { dims: y!.dims, elements: Array.from(y!.data as Float32Array) };
}

const HALVES: Readonly<Record<number, number>> = { 1: 0x3c00, 2: 0x4000 };
const BRAINS: Readonly<Record<number, number>> = { 1: 0x3f80, 2: 0x4000 };

describe('parameters of another float type', () => {
  const dims = [1, 2, 2, 1];
  const normalised = counted(4).map((x, i) => {
    const p = i < 2 ? 1 : 2;
    return ((x - p) / Math.sqrt(p + 1e-5)) * p + p;
  });

  describe.each<[OnnxType, (element: number) => number]>([
    ['float16', (element) => HALVES[element]!],
    ['bfloat16', (element) => BRAINS[element]!],
    ['float64', (element) => element],
  ])('%s', (type, encode) => {
    const other: Parameter = [[2], [1, 2].map(encode), type];
    const own: Parameter = [[2], [1, 2]];

    test.each([
      ['mean and variance', [own, own, other, other]],
      ['scale and shift', [other, other, own, own]],
    ])('%s of BatchNormalization', async (_, parameters) => {
      const y = await run({ operator: 'BatchNormalization', dims, parameters, opset: 15 });
      y.elements.forEach((element, i) => expect(element).toBeCloseTo(normalised[i]!, 5));
    });

    test('an exponent', async () => {
      const square: Parameter = [[], [encode(2)], type];
      expect((await run({ operator: 'Pow', dims, parameters: [square] })).elements).toEqual([1, 4, 9, 16]);
      const each: Parameter = [[2, 1, 1], [1, 2].map(encode), type];
      expect((await run({ operator: 'Pow', dims, parameters: [each] })).elements).toEqual([1, 2, 9, 16]);
    });
  });
});

test('integers as an exponent', async () => {
  const parameters: Parameter[] = [[[2], [3, 1], 'int32']];
  expect((await run({ operator: 'Pow', dims: [2], parameters })).elements).toEqual([1, 2]);
});

describe('a convolution', () => {
  const filter = tensor('w', [1, 1, 1, 1], [3]);
  const conv = (input: string, output: string) => node('Conv', [input, 'w'], [output]);
  const ten = tensor('c', [1, 1, 1, 2], [10, 20]);
  const parts = { inputs: [value('x', [1, 1, 1, 2])], outputs: [value('y')], initializers: [filter, ten] };

  test.each([
    ['of a constant', [conv('c', 'k'), node('Add', ['k', 'x'], ['y'])], [31, 62]],
    ['with a constant added', [conv('x', 'k'), node('Add', ['k', 'c'], ['y'])], [13, 26]],
  ])('%s', async (_, nodes, expected) => {
    await using session = await InferenceSession.create(onnxModel({ ...parts, nodes }), {
      device: TEST_DEVICE,
    });
    const x = new Tensor('float32', Float32Array.of(1, 2), [1, 1, 1, 2]);
    expect(Array.from((await session.run({ x })).y!.data as Float32Array)).toEqual(expected);
  });
});

test('normalises one channel where there is no axis for them', async () => {
  const one: Parameter = [[1], [1]];
  const y = await run({ operator: 'BatchNormalization', dims: [2], parameters: [one, one, one, one] });
  expect(y.dims).toEqual([2]);
  expect(y.elements[0]).toBeCloseTo(1, 5);
});

describe.each(['MaxPool', 'AveragePool'])('%s', (operator) => {
  test('of windows that reach far beyond the map', async () => {
    // Two taps, of which at most one is inside.
    const attributes = {
      kernel_shape: [1, 2],
      dilations: [1, 2 ** 28],
      pads: [0, 2 ** 28, 0, 2 ** 28],
      strides: [1, 2 ** 27],
    };
    const y = await run({ operator, dims: [1, 1, 1, 3], attributes, opset: 19 });
    // Windows begin at -2^28, -2^27, 0, …: the first ends at 0, the third begins there, the second sees nothing.
    expect(y.elements.slice(0, 3)).toEqual([1, operator === 'MaxPool' ? -Infinity : 0, 1]);
  });

  test('of windows of 2^30 taps', async () => {
    const extent = 2 ** 15;
    const attributes = {
      kernel_shape: [extent, extent],
      pads: Array<number>(4).fill(extent - 1),
      strides: [extent, extent],
    };
    const y = await run({ operator, dims: [1, 1, 1, 3], attributes });
    // The first ends at the first element, the second begins behind it.
    expect(y).toEqual({ dims: [1, 1, 1, 2], elements: [1, operator === 'MaxPool' ? 3 : 2.5] });
  });
});

const NORMALIZED: Case = { operator: 'InstanceNormalization', dims: [1, 4, 2] };
const ones = (length: number): Parameter => [[length], counted(length).fill(1)];

test.each<[string, Case]>([
  ['a short scale', { ...NORMALIZED, parameters: [ones(1), ones(4)] }],
  ['a long scale', { ...NORMALIZED, parameters: [ones(5), ones(4)] }],
  ['a short shift', { ...NORMALIZED, parameters: [ones(4), ones(1)] }],
  ['no shift', { ...NORMALIZED, parameters: [ones(4)] }],
  [
    'a scale for other groups',
    {
      operator: 'GroupNormalization',
      dims: [1, 4, 2],
      parameters: [ones(3), ones(3)],
      attributes: { num_groups: 2 },
      opset: 21,
    },
  ],
  [
    'channels that there are not',
    { operator: 'BatchNormalization', dims: [1, 1, 2], parameters: Array<Parameter>(4).fill(ones(2)) },
  ],
  [
    'a transposed bias for other filters',
    {
      operator: 'ConvTranspose',
      dims: [1, 1, 1, 1],
      parameters: [
        [
          [1, 4, 1, 1],
          [1, 1, 1, 1],
        ],
        ones(1),
      ],
    },
  ],
  [
    'transposed filters of another type',
    { operator: 'ConvTranspose', dims: [1, 1, 1, 1], parameters: [[[1, 1, 1, 1], [1], 'float64']] },
  ],
  [
    'no groups',
    {
      operator: 'ConvTranspose',
      dims: [1, 1, 1, 1],
      parameters: [[[1, 1, 1, 1], [1]]],
      attributes: { group: 0 },
    },
  ],
  [
    'output_padding for one axis of two',
    {
      operator: 'ConvTranspose',
      dims: [1, 1, 1, 1],
      parameters: [[[1, 1, 1, 1], [1]]],
      attributes: { output_padding: [1] },
    },
  ],
  ['a bound of another type', { operator: 'Clip', dims: [2], parameters: [[[], [1], 'float64']] }],
  ['two bounds for one', { operator: 'Clip', dims: [2], parameters: [[[2], [1, 1]]] }],
  ['a negative blocksize', { operator: 'DepthToSpace', dims: [1, 4, 1, 1], attributes: { blocksize: -1 } }],
  ['no blocksize', { operator: 'SpaceToDepth', dims: [1, 1, 2, 2], attributes: { blocksize: 0 } }],
  ['a negative part', { operator: 'Split', dims: [2], parameters: [[[1], [-2], 'int64']] }],
  ['a negative extent', { operator: 'Expand', dims: [1], parameters: [[[1], [-5], 'int64']] }],
  ['two extents that follow', { operator: 'Reshape', dims: [1], parameters: [[[2], [-1, -1], 'int64']] }],
  ['an axis that is added twice', { operator: 'Unsqueeze', dims: [2], parameters: [[[2], [0, 0], 'int64']] }],
  [
    'an axis that is cut twice',
    {
      operator: 'Slice',
      dims: [4],
      parameters: [
        [[2], [3, 3], 'int64'],
        [[2], [4, 4], 'int64'],
        [[2], [0, -1], 'int64'],
      ],
    },
  ],
  [
    'padding of an empty axis by itself',
    { operator: 'Pad', dims: [0], parameters: [[[2], [1, 1], 'int64']], attributes: { mode: 'edge' } },
  ],
  [
    'more cut away than there is',
    { operator: 'Pad', dims: [2], parameters: [[[2], [-2, -1], 'int64']], attributes: { mode: 'wrap' } },
  ],
  [
    'a mode that there is not, though nothing is padded',
    { operator: 'Pad', dims: [2], parameters: [[[2], [0, 0], 'int64']], attributes: { mode: 'bogus' } },
  ],
  ['no axes to add', { operator: 'Unsqueeze', dims: [2], opset: 11 }],
  ['no axis to join along', { operator: 'Concat', dims: [2] }],
  [
    'a slope that is larger than the input',
    { operator: 'PRelu', dims: [2], parameters: [[[3, 2], counted(6)]] },
  ],
  [
    "a kernel_shape that is not the filter's",
    {
      operator: 'Conv',
      dims: [1, 1, 2],
      parameters: [
        [
          [1, 1, 2],
          [1, 1],
        ],
      ],
      attributes: { kernel_shape: [1] },
    },
  ],
  [
    'parts by number and by size',
    {
      operator: 'Split',
      dims: [2],
      parameters: [[[1], [2], 'int64']],
      attributes: { num_outputs: 1 },
      opset: 18,
    },
  ],
  ['a size below 1', { operator: 'LRN', dims: [1, 2, 2], attributes: { size: 0 } }],
  ['a list of two axes', { operator: 'ReduceSum', dims: [2], parameters: [[[1, 1], [0], 'int64']] }],
])('is refused: %s', async (_, broken) => {
  await expect(run(broken)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_MODEL' });
});

test.each(['nearest', 'linear', 'cubic'])('an axis that would be listed without end: %s', async (mode) => {
  const bytes = onnxModel({
    opset: 13,
    inputs: [value('x', [1, 1, 1, 2])],
    outputs: [value('y')],
    initializers: [tensor('sizes', [4], [1, 1, 1, 2 ** 24], 'int64')],
    nodes: [node('Resize', ['x', '', '', 'sizes'], ['y'], { mode })],
  });
  const session = InferenceSession.create(bytes, { device: TEST_DEVICE });
  await expect(session).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
});

test('transposed filters of no elements, whatever their extents', async () => {
  const shape = [1, 0, 2 ** 40, 1];
  const y = await run({ operator: 'ConvTranspose', dims: [1, 1, 1, 1], parameters: [[shape, []]] });
  expect(y).toEqual({ dims: [1, 0, 2 ** 40, 1], elements: [] });
});

test('a model that computes ahead without end', async () => {
  const count = 100;
  const names = Array.from({ length: count + 1 }, (_, i) => `v${i}`);
  const bytes = onnxModel({
    opset: 13,
    inputs: [value('x', [1], 'int64')],
    outputs: [value('y')],
    initializers: [
      tensor('start', [], [0], 'int64'),
      tensor('limit', [], [2 ** 16], 'int64'),
      tensor('step', [], [1], 'int64'),
    ],
    nodes: [
      node('Range', ['start', 'limit', 'step'], [names[0]!]),
      ...names.slice(1).map((name, i) => node('Add', [names[i]!, 'step'], [name])),
      node('Concat', [names.at(-1)!, 'x'], ['y'], { axis: 0 }),
    ],
  });
  const session = InferenceSession.create(bytes, { device: TEST_DEVICE });
  await expect(session).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
});

test('more axes than anybody has', async () => {
  const axes = Array.from({ length: 100_000 }, (_, axis) => axis);
  const bytes = onnxModel({
    opset: 13,
    inputs: [value('x', [1])],
    outputs: [value('z')],
    initializers: [tensor('axes', [axes.length], axes, 'int64')],
    nodes: [node('Unsqueeze', ['x', 'axes'], ['y']), node('Transpose', ['y'], ['z'])],
  });
  const session = InferenceSession.create(bytes, { device: TEST_DEVICE });
  await expect(session).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
});

test.each([2 ** 31 - 1, 2 ** 31, 2 ** 40])('ConvTranspose refuses a dilation of %d', async (dilation) => {
  const filter: Parameter = [
    [1, 1, 2, 1],
    [1, 2],
  ];
  const attributes = { dilations: [dilation, 1] };
  const call = run({ operator: 'ConvTranspose', dims: [1, 1, 1, 1], parameters: [filter], attributes });
  await expect(call).rejects.toMatchObject({
    code: expect.stringMatching(/^ERR_WARPCONV_(INVALID_MODEL|UNSUPPORTED|OUT_OF_MEMORY)$/),
  });
});

test('an index out of range fails the run', async () => {
  const bytes = onnxModel({
    inputs: [value('x', [3]), value('i', [2], 'int64')],
    outputs: [value('y')],
    nodes: [node('Gather', ['x', 'i'], ['y'])],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const x = new Tensor('float32', Float32Array.of(1, 2, 3), [3]);
  const gather = async (...indices: bigint[]) =>
    (await session.run({ x, i: new Tensor('int64', BigInt64Array.from(indices), [2]) })).y!.data;
  for (const wrong of [3n, -4n, 2n ** 62n, -(2n ** 63n)]) {
    await expect(gather(0n, wrong)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  }
  expect(await gather(-1n, 0n)).toEqual(Float32Array.of(3, 1));
});

/** Integers of 8 bits that stand for numbers, in operators of `com.microsoft`. */
import { sizeOf, type Dims, type ElementType, type RefTensor } from '../../onnx_reference/tensor';
import { float, int, recipes, type Draw, type Drawn, type Recipe } from '../draw';
import { narrower } from '../values';
import { maps, pool } from './windows';

/** Of which few are so round that their multiples lie in the middle of two others. */
export const SCALES = [0.0041, 0.013, 0.0371, 0.11, 0.25, 1.3];

export const scaleOf = (draw: Draw): RefTensor => ({
  type: 'float32',
  dims: draw.random.chance(0.8) ? [] : [1],
  data: [Math.fround(draw.random.pick(SCALES))],
});

export const zeroOf = (draw: Draw, type: ElementType): RefTensor => ({
  type,
  dims: draw.random.chance(0.8) ? [] : [1],
  data: draw.integers(1, type === 'uint8' ? 0 : -20, type === 'uint8' ? 255 : 20),
});

export const bytes = (draw: Draw, dims: Dims, type: ElementType): RefTensor => {
  const [low, high] = type === 'uint8' ? [0, 255] : [-128, 127];
  return { type, dims, data: draw.integers(sizeOf(dims), low, high) };
};

const scalars = (draw: Draw, type: ElementType) => [
  scaleOf(draw),
  draw.random.chance(0.8) ? zeroOf(draw, type) : undefined,
];

const binary: Recipe = (draw) => {
  const type = draw.type();
  const dims = draw.dims({ most: 4 });
  const [a, b] = draw.random.chance(0.5)
    ? [dims, narrower(dims, draw.random)]
    : [narrower(dims, draw.random), dims];
  return {
    inputs: [
      ...[bytes(draw, a, type), ...scalars(draw, type)],
      ...[bytes(draw, b, type), ...scalars(draw, type), ...scalars(draw, type)],
    ],
  };
};

function unary(draw: Draw, dims: Dims): Drawn {
  const type = draw.type();
  return { inputs: [bytes(draw, dims, type), ...scalars(draw, type), ...scalars(draw, type)] };
}

const elementwise: Recipe = (draw) => ({
  ...unary(draw, draw.dims()),
  attributes: draw.maybe('alpha', () => float(draw.random.pick([0.01, 0.2, 1.5, -0.5]))),
});

const softmax: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = draw.random.integer(0, dims.length - 1);
  return {
    ...unary(draw, dims),
    attributes: {
      ...draw.maybe('axis', () => int(draw.axis(axis, dims.length, 1))),
      opset: int(draw.random.pick([11, 12, 13, 17])),
    },
  };
};

/** The channels as the last axis, instead of the second. */
const withLast = ([batch, channels, ...spatial]: Dims) => [batch!, ...spatial, channels!];

const averagePool: Recipe = (draw) => {
  const { attributes, inputs } = pool(draw);
  const isLast = draw.random.chance(0.3);
  const { dims } = inputs[0]!;
  return {
    ...unary(draw, isLast ? withLast(dims) : dims),
    attributes: {
      ...attributes,
      ...(isLast || draw.random.chance(0.2) ? { channels_last: int(Number(isLast)) } : {}),
    },
  };
};

const globalPool: Recipe = (draw) => {
  const { batch, channels, spatial } = maps(draw);
  const isLast = draw.random.chance(0.3);
  const dims = [batch, channels, ...spatial];
  return {
    ...unary(draw, isLast ? withLast(dims) : dims),
    attributes: isLast || draw.random.chance(0.2) ? { channels_last: int(Number(isLast)) } : {},
  };
};

const concat: Recipe = (draw) => {
  const type = draw.type();
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = draw.random.integer(0, dims.length - 1);
  const parts = Array.from({ length: draw.random.integer(1, 3) }, () => [
    bytes(draw, dims.with(axis, draw.random.integer(1, 5)), type),
    scaleOf(draw),
    zeroOf(draw, type),
  ]);
  return {
    attributes: { axis: int(draw.axis(axis, dims.length, 1)) },
    inputs: [scaleOf(draw), zeroOf(draw, type), ...parts.flat()],
  };
};

interface Matrices {
  readonly m: number;
  readonly k: number;
  readonly n: number;
  readonly a: Dims;
  readonly b: Dims;
}

export function matrices(draw: Draw): Matrices {
  const { random } = draw;
  const extent = () => (random.chance(0.02) ? 0 : random.integer(1, 12));
  const [m, k, n] = [
    extent(),
    random.chance(0.1) ? random.integer(250, 300) : random.integer(1, 20),
    extent(),
  ];
  const batch = random.chance(0.3) ? [random.integer(1, 3)] : [];
  return { m, k, n, a: [...batch, m, k], b: [...(random.chance(0.4) ? batch : []), k, n] };
}

/** One, or one for each column. */
export function byColumn(draw: Draw, n: number, make: () => RefTensor): RefTensor {
  if (draw.random.chance(0.5)) return make();
  const many = Array.from({ length: n }, () => make());
  return { type: make().type, dims: [n], data: many.flatMap(({ data }) => data) };
}

const bias = (draw: Draw, n: number) =>
  draw.random.chance(0.5) ? draw.tensor([n], 'float32', 'whole') : undefined;

const matMulIntegerToFloat: Recipe = (draw) => {
  const { n, a, b } = matrices(draw);
  const [left, right] = [draw.type('A'), draw.type('B')];
  return {
    inputs: [
      ...[bytes(draw, a, left), bytes(draw, b, right), scaleOf(draw), byColumn(draw, n, () => scaleOf(draw))],
      draw.random.chance(0.7) ? zeroOf(draw, left) : undefined,
      draw.random.chance(0.7) ? byColumn(draw, n, () => zeroOf(draw, right)) : undefined,
      bias(draw, n),
    ],
  };
};

const dynamicQuantizeMatMul: Recipe = (draw) => {
  const { n, a, b } = matrices(draw);
  const type = draw.type('B');
  return {
    inputs: [
      draw.tensor(a, 'float32', draw.random.pick(['unit', 'positive', 'whole'] as const)),
      ...[bytes(draw, b, type), byColumn(draw, n, () => scaleOf(draw))],
      draw.random.chance(0.7) ? byColumn(draw, n, () => zeroOf(draw, type)) : undefined,
      bias(draw, n),
    ],
  };
};

const qGemm: Recipe = (draw) => {
  const { random } = draw;
  const { m, k, n } = matrices(draw);
  const [left, right, result] = [draw.type('A'), draw.type('B'), draw.type('Y')];
  const [a, b] = [random.chance(0.4), random.chance(0.4)];
  const isQuantized = random.chance(0.6);
  const c: RefTensor = { type: 'int32', dims: narrower([m, n], random), data: [] };
  return {
    attributes: {
      ...(a ? { transA: int(1) } : {}),
      ...(b ? { transB: int(1) } : {}),
      ...draw.maybe('alpha', () => float(random.pick([0.5, 1, -2])), 0.4),
    },
    inputs: [
      ...[bytes(draw, a ? [k, m] : [m, k], left), scaleOf(draw), zeroOf(draw, left)],
      ...[bytes(draw, b ? [n, k] : [k, n], right), byColumn(draw, n, () => scaleOf(draw))],
      byColumn(draw, n, () => zeroOf(draw, right)),
      random.chance(0.6) ? { ...c, data: draw.integers(sizeOf(c.dims), -5000, 5000) } : undefined,
      ...(isQuantized ? [scaleOf(draw), zeroOf(draw, result)] : []),
    ],
  };
};

const matMulNBits: Recipe = (draw) => {
  const { random } = draw;
  const [bits, block] = [random.pick([4, 4, 8]), random.pick([16, 16, 32, 64])];
  const [n, k] = [random.integer(1, 8), random.integer(1, 80)];
  const blocks = Math.ceil(k / block);
  const batch = random.chance(0.3) ? [2] : [];
  const type = draw.type();
  const zeros = [n * Math.ceil((blocks * bits) / 8)];
  const kindOfZeros = random.uniform();
  return {
    attributes: {
      ...{ K: int(k), N: int(n), block_size: int(block) },
      ...(bits === 4 && random.chance(0.4) ? {} : { bits: int(bits) }),
      ...draw.maybe('accuracy_level', () => int(random.integer(0, 1)), 0.2),
    },
    inputs: [
      draw.tensor([...batch, random.integer(1, 5), k], type, 'unit'),
      bytes(draw, [n, blocks, (block * bits) / 8], 'uint8'),
      draw.tensor([n * blocks], type, 'unit'),
      kindOfZeros < 0.4
        ? bytes(draw, zeros, 'uint8')
        : kindOfZeros < 0.6
          ? draw.tensor([n * blocks], type, 'whole')
          : undefined,
      undefined,
      random.chance(0.4) ? draw.tensor([n], type, 'unit') : undefined,
    ],
  };
};

const lstm: Recipe = (draw) => {
  const { random } = draw;
  const [steps, batch] = [random.integer(1, 4), random.integer(1, 3)];
  const [inputs, hidden] = [random.integer(1, 5), random.integer(1, 5)];
  const direction = random.pick(['forward', 'reverse', 'bidirectional']);
  const directions = direction === 'bidirectional' ? 2 : 1;
  const float32 = (dims: Dims) => (random.chance(0.5) ? draw.tensor(dims, 'float32', 'unit') : undefined);
  const perGate = random.chance(0.4);
  const scales = perGate ? [directions, 4 * hidden] : [directions];
  const scale = (): RefTensor => ({
    type: 'float32',
    dims: scales,
    data: Array.from({ length: sizeOf(scales) }, () => Math.fround(random.pick([0.001, 0.003, 0.0007]))),
  });
  const zero = (type: ElementType): RefTensor => ({
    type,
    dims: scales,
    data: draw.integers(sizeOf(scales), type === 'uint8' ? 100 : -10, type === 'uint8' ? 150 : 10),
  });
  const [ofW, ofR] = [draw.type('W'), draw.type('R')];
  const lengths: RefTensor = { type: 'int32', dims: [batch], data: draw.integers(batch, 1, steps) };
  return {
    attributes: {
      direction: { kind: 'string', value: direction },
      ...draw.maybe('hidden_size', () => int(hidden), 0.9),
      ...draw.maybe('input_forget', () => int(random.integer(0, 1)), 0.2),
    },
    inputs: [
      draw.tensor([steps, batch, inputs], 'float32', 'unit'),
      bytes(draw, [directions, inputs, 4 * hidden], ofW),
      bytes(draw, [directions, hidden, 4 * hidden], ofR),
      float32([directions, 8 * hidden]),
      random.chance(0.3) ? lengths : undefined,
      float32([directions, batch, hidden]),
      float32([directions, batch, hidden]),
      float32([directions, 3 * hidden]),
      ...[scale(), zero(ofW), scale(), zero(ofR)],
    ],
    outputs: random.integer(1, 3),
  };
};

export const quantized: Readonly<Record<string, Recipe>> = {
  ...recipes(binary, 'com.microsoft.QLinearAdd com.microsoft.QLinearMul'),
  ...recipes(elementwise, 'com.microsoft.QLinearLeakyRelu com.microsoft.QLinearSigmoid'),
  'com.microsoft.DynamicQuantizeLSTM': lstm,
  'com.microsoft.DynamicQuantizeMatMul': dynamicQuantizeMatMul,
  'com.microsoft.MatMulIntegerToFloat': matMulIntegerToFloat,
  'com.microsoft.MatMulNBits': matMulNBits,
  'com.microsoft.QGemm': qGemm,
  'com.microsoft.QLinearAveragePool': averagePool,
  'com.microsoft.QLinearConcat': concat,
  'com.microsoft.QLinearGlobalAveragePool': globalPool,
  'com.microsoft.QLinearSoftmax': softmax,
};

/** ONNX's own operators of integers, and of floats of 8 bits and less, that stand for numbers. */
import { highestOf, lowestOf, roundTo } from '../../onnx_reference/precision';
import { numberOfQuantized } from '../../onnx_reference/quantization';
import { isFloat, sizeOf, type Dims, type ElementType, type RefTensor } from '../../onnx_reference/tensor';
import { int, type Attributes, type Draw, type Recipe } from '../draw';
import { byColumn, bytes, matrices, SCALES, scaleOf, zeroOf } from './quantized';
import { convolution } from './windows';

interface Granularity {
  readonly attributes: Attributes;
  /** Of scales and of zero points */
  readonly dims: Dims;
}

/** One scale for all, one for each position of an axis, or one for each block of it. */
function granularity(draw: Draw, dims: Dims): Granularity {
  const { random } = draw;
  const knows = (name: string) => dims.length > 0 && name in draw.schema.attributes;
  const kind = random.pick(['tensor', 'axis', 'block']);
  const isBlock = kind === 'block' && knows('block_size');
  if (kind === 'tensor' || (!isBlock && !knows('axis'))) return { attributes: {}, dims: [] };
  const axis = random.integer(0, dims.length - 1);
  const isNamed = axis !== 1 || random.chance(0.5);
  const named: Attributes = isNamed ? { axis: int(draw.axis(axis, dims.length)) } : {};
  if (!isBlock) return { attributes: named, dims: [dims[axis]!] };
  const block = random.pick([1, 2, 3, 4, 16]);
  const blocks = Math.ceil(dims[axis]! / block);
  return { attributes: { ...named, block_size: int(block) }, dims: dims.with(axis, blocks) };
}

function scalesOf(draw: Draw, dims: Dims, type: ElementType): RefTensor {
  const scale = () => {
    if (!isFloat(type)) return BigInt(draw.random.integer(1, 5));
    return roundTo(type, Math.fround(draw.random.pick(SCALES)));
  };
  return { type, dims, data: Array.from({ length: sizeOf(dims) }, scale) };
}

/** Floats have a zero of their own. */
function zerosOf(draw: Draw, dims: Dims, type: ElementType): RefTensor {
  if (isFloat(type)) return { type, dims, data: new Array<number>(sizeOf(dims)).fill(0) };
  if (type === 'int32') return { type, dims, data: new Array<bigint>(sizeOf(dims)).fill(0n) };
  return whole(draw, dims, type);
}

/** Of the whole range of the type. */
function whole(draw: Draw, dims: Dims, type: ElementType): RefTensor {
  const [low, high] = type === 'int32' ? [-(2 ** 24), 2 ** 24] : [lowestOf(type), highestOf(type)];
  return { type, dims, data: draw.integers(sizeOf(dims), Number(low), Number(high)) };
}

/** Until opset 23 the scales had the type of the input, but before there were halves. */
function scaleType(draw: Draw, input: ElementType): ElementType {
  return draw.opset >= 23 || draw.opset < 19 ? draw.type('S') : input;
}

const quantizeLinear: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ most: 4 });
  const input = draw.type('X');
  const { attributes, dims: own } = granularity(draw, dims);
  const type = draw.type('Z');
  const isNamed = 'output_dtype' in draw.schema.attributes && random.chance(0.4);
  const hasZero = !isNamed || random.chance(0.5);
  return {
    attributes: {
      ...attributes,
      ...(isNamed ? { output_dtype: int(numberOfQuantized(type)) } : {}),
      ...draw.maybe('saturate', () => int(random.integer(0, 1)), 0.4),
      ...draw.maybe('precision', () => int(1), 0.3),
    },
    inputs: [
      draw.tensor(dims, input, random.pick(['unit', 'whole', 'positive', undefined] as const)),
      scalesOf(draw, own, scaleType(draw, input)),
      hasZero && random.chance(0.9) ? zerosOf(draw, own, type) : undefined,
    ],
  };
};

const dequantizeLinear: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ most: 4 });
  const type = draw.type('Q');
  const { attributes, dims: own } = granularity(draw, dims);
  const wide = () => int(numberOfQuantized(random.pick(['float32', 'float16', 'bfloat16'] as const)));
  return {
    attributes: { ...attributes, ...draw.maybe('output_dtype', wide, 0.4) },
    inputs: [
      isFloat(type) ? draw.tensor(dims, type) : whole(draw, dims, type),
      scalesOf(draw, own, draw.type('S')),
      random.chance(0.6) ? zerosOf(draw, own, type) : undefined,
    ],
  };
};

const dynamicQuantizeLinear: Recipe = (draw) => ({
  inputs: [draw.tensor(draw.dims({ isEmptyAllowed: false }), 'float32')],
  outputs: 3,
});

/** One, or one for each row of a matrix or of several. */
function byRow(draw: Draw, dims: Dims, make: () => RefTensor): RefTensor {
  if (draw.random.chance(0.6)) return make();
  const own = dims.length === 2 && draw.random.chance(0.6) ? [dims[0]!] : dims.with(-1, 1);
  const many = Array.from({ length: sizeOf(own) }, () => make());
  return { type: make().type, dims: own, data: many.flatMap(({ data }) => data) };
}

const matMulInteger: Recipe = (draw) => {
  const { random } = draw;
  const { n, a, b } = matrices(draw);
  const [left, right] = [draw.type('A'), draw.type('B')];
  return {
    inputs: [
      ...[bytes(draw, a, left), bytes(draw, b, right)],
      random.chance(0.7) ? byRow(draw, a, () => zeroOf(draw, left)) : undefined,
      random.chance(0.7) ? byColumn(draw, n, () => zeroOf(draw, right)) : undefined,
    ],
  };
};

/** A scale and a zero point of one shape. */
function pair(draw: Draw, type: ElementType, make: (one: () => RefTensor) => RefTensor): RefTensor[] {
  const scale = make(() => scaleOf(draw));
  const zeros = draw.integers(scale.data.length, type === 'uint8' ? 0 : -20, type === 'uint8' ? 255 : 20);
  return [scale, { type, dims: scale.dims, data: zeros }];
}

const qLinearMatMul: Recipe = (draw) => {
  const { n, a, b } = matrices(draw);
  const [left, right, result] = [draw.type('A'), draw.type('B'), draw.type('Y')];
  const type = draw.type('F');
  const inType = ({ dims, data }: RefTensor): RefTensor => ({
    type,
    dims,
    data: (data as readonly number[]).map((x) => roundTo(type, x)),
  });
  const [aScale, aZero] = pair(draw, left, (one) => byRow(draw, a, one));
  const [bScale, bZero] = pair(draw, right, (one) => byColumn(draw, n, one));
  const [yScale, yZero] = pair(draw, result, (one) => one());
  return {
    inputs: [
      ...[bytes(draw, a, left), inType(aScale!), aZero],
      ...[bytes(draw, b, right), inType(bScale!), bZero],
      ...[inType(yScale!), yZero],
    ],
  };
};

/** The windows of a convolution, its input and its filters in bytes. */
function ofBytes(draw: Draw) {
  const { attributes, x, w } = convolution(draw);
  const [input, weight] = [draw.type('X'), draw.type('W')];
  return { attributes, input, weight, x: bytes(draw, x, input), w: bytes(draw, w, weight) };
}

const convInteger: Recipe = (draw) => {
  const { attributes, input, weight, x, w } = ofBytes(draw);
  const { random } = draw;
  return {
    attributes,
    inputs: [
      ...[x, w],
      random.chance(0.7) ? zeroOf(draw, input) : undefined,
      random.chance(0.7) ? byColumn(draw, w.dims[0]!, () => zeroOf(draw, weight)) : undefined,
    ],
  };
};

const qLinearConv: Recipe = (draw) => {
  const { attributes, input, weight, x, w } = ofBytes(draw);
  const filters = w.dims[0]!;
  const bias: RefTensor = { type: 'int32', dims: [filters], data: draw.integers(filters, -5000, 5000) };
  return {
    attributes,
    inputs: [
      ...[x, ...pair(draw, input, (one) => one())],
      ...[w, ...pair(draw, weight, (one) => byColumn(draw, filters, one))],
      ...pair(draw, draw.type('Y'), (one) => one()),
      draw.random.chance(0.5) ? bias : undefined,
    ],
  };
};

export const quantization: Readonly<Record<string, Recipe>> = {
  ConvInteger: convInteger,
  DequantizeLinear: dequantizeLinear,
  DynamicQuantizeLinear: dynamicQuantizeLinear,
  MatMulInteger: matMulInteger,
  QLinearConv: qLinearConv,
  QLinearMatMul: qLinearMatMul,
  QuantizeLinear: quantizeLinear,
};

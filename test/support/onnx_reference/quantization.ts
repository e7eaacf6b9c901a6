/** Integers, and floats of 8 bits and less, that stand for numbers: (element - zero point) * scale. */
import type { Operator } from './elementwise';
import { roundHalfToEven } from './functions';
import { ANYTHING, exact, times, type Inexact } from './inexact';
import type { Node } from './node';
import { arithmeticOf, greatestOf, highestOf, lowestOf, roundTo, ulp } from './precision';
import { products } from './products';
import { quantized } from './quantized';
import {
  axisOf,
  broadcastData,
  broadcastStrides,
  forEachIndex,
  Illegal,
  isFloat,
  isSmallFloat,
  offsetOf,
  requireBroadcastTo,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
  type SmallFloat,
} from './tensor';

/**
 * A scale or a zero point at every place of the input: of one element, or of one for each position of an axis or for each
 * block of it.
 */
function spread(node: Node, parameter: RefTensor): readonly Scalar[] {
  const { dims } = node.input(0);
  const { dims: own, data } = parameter;
  const block = node.integer('block_size', 0);
  if (block < 0) throw new Illegal(`blocks of ${block}`);
  if (data.length === 1) {
    if (own.length > 0) node.tolerate();
    return broadcastData({ ...parameter, dims: [] }, dims);
  }
  const axis = axisOf(node.integer('axis', 1), dims.length);
  const blocks = dims.with(axis, Math.ceil(dims[axis]! / (block || 1)));
  const along = block > 0 ? blocks : dims.map((extent, i) => (i === axis ? extent : 1));
  if (own.join() !== (block > 0 ? along : [dims[axis]]).join()) {
    throw new Illegal(`parameters of [${own}] for axis ${axis} of [${dims}] in blocks of ${block}`);
  }
  const strides = broadcastStrides(along, dims);
  const result: Scalar[] = [];
  forEachIndex(dims, (at) => {
    result.push(data[offsetOf(at.with(axis, Math.floor(at[axis]! / (block || 1))), strides)]!);
  });
  return result;
}

function zerosOf(node: Node): readonly Scalar[] | undefined {
  const [scale, zero] = [node.input(1), node.optional(2)];
  if (zero === undefined) return undefined;
  if (zero.dims.join() !== scale.dims.join()) node.tolerate();
  if (isFloat(zero.type) && zero.data.some((x) => x !== 0)) throw new Unjudged('a zero point of floats');
  return spread(node, zero);
}

const TYPE_NUMBERS: Readonly<Record<number, ElementType>> = {
  ...{ 1: 'float32', 2: 'uint8', 3: 'int8', 4: 'uint16', 5: 'int16', 10: 'float16', 16: 'bfloat16' },
  ...{ 17: 'float8e4m3fn', 18: 'float8e4m3fnuz', 19: 'float8e5m2', 20: 'float8e5m2fnuz' },
  ...{ 21: 'uint4', 22: 'int4', 23: 'float4e2m1', 25: 'uint2', 26: 'int2' },
};

/** By which numbers ONNX names the types of results. */
export function numberOfQuantized(type: ElementType): number {
  return Number(Object.keys(TYPE_NUMBERS).find((number) => TYPE_NUMBERS[Number(number)] === type));
}

/** @param isRight - whether the operator can make such a type */
function namedType(node: Node, isRight: (type: ElementType) => boolean): ElementType | undefined {
  const number = node.integer('output_dtype', 0);
  if (number === 0) return undefined;
  // Floats of 6 bits, and opsets before they came.
  if (number === 27 || number === 28) throw new Unjudged('floats of 6 bits');
  const type = TYPE_NUMBERS[number];
  if (type === undefined || !isRight(type)) throw new Illegal(`output_dtype ${number}`);
  return type;
}

const isWide = (type: ElementType) => isFloat(type) && !isSmallFloat(type);

/** How near to the middle of two integers a quotient in float32 may become either. */
const TIE = 4 * 2 ** -24;
/** ONNX divides halves in their type, and other runtimes in float32. */
const TIES: Readonly<Partial<Record<ElementType, number>>> = { float16: 2 ** -11, bfloat16: 2 ** -8 };

function tieOf(node: Node): number {
  const precision = node.integer('precision', 0);
  if (![0, 1, 10, 16].includes(precision)) throw new Unjudged(`precision ${precision}`);
  const types = [node.input(0).type, node.input(1).type, TYPE_NUMBERS[precision] ?? 'float32'];
  return Math.max(...types.map((type) => TIES[type] ?? 0)) + TIE;
}

type Place = (quotient: number, zero: number) => Scalar;

/** The nearest integer, of two the even one, brought into the type's range. */
function placeInIntegers(type: ElementType): Place {
  const [low, high] = [Number(lowestOf(type)), Number(highestOf(type))];
  return (x, zero) => BigInt(Math.min(Math.max(roundHalfToEven(x) + zero, low), high));
}

/** What is too large becomes the greatest number, or else what ONNX's table of casts has for it. */
function placeInFloats(type: SmallFloat, saturates: boolean): Place {
  const greatest = greatestOf(type);
  return (x) => {
    const rounded = roundTo(type, x);
    if (!(Math.abs(rounded) > greatest)) return rounded;
    if (saturates || type === 'float4e2m1') return Math.sign(x) * greatest;
    return type === 'float8e5m2' ? Math.sign(x) * Infinity : NaN;
  };
}

/** From one to the other; nothing is known of what lies between a number and none. */
function between(below: Scalar, above: Scalar): readonly [Scalar, number] {
  if (Object.is(below, above)) return [below, 0];
  const distance = Math.abs(Number(above) - Number(below));
  return [below, Number.isFinite(distance) ? distance : ANYTHING];
}

const quantizeLinear: Operator = (node) => {
  const { type: from, dims, data } = node.input(0);
  const [scale, zero] = [node.input(1), node.optional(2)];
  // Until opset 23 both were of one type.
  if (node.opset < 23 && node.opset >= 19 && from !== scale.type) node.tolerate();
  const named = namedType(node, (type) => !isWide(type));
  if (named !== undefined && zero !== undefined && named !== zero.type) {
    throw new Illegal(`output_dtype ${named} with a zero point of ${zero.type}`);
  }
  const type: ElementType = zero?.type ?? named ?? 'uint8';
  const [scales, zeros, tie] = [spread(node, scale), zerosOf(node), tieOf(node)];
  const saturates = node.integer('saturate', 1) !== 0;
  const place = isSmallFloat(type) ? placeInFloats(type, saturates) : placeInIntegers(type);
  const results = data.map((x, i) => {
    const [quotient, zeroPoint] = [Number(x) / Number(scales[i]), Number(zeros?.[i] ?? 0)];
    const isNone = Number.isNaN(quotient) && (!isSmallFloat(type) || type === 'float4e2m1');
    if (isNone) return [isFloat(type) ? 0 : 0n, ANYTHING] as const;
    // Whether it is the number or its rounding that is too large, ONNX does not say.
    if (isSmallFloat(type) && !saturates && isJustBeyond(type, quotient)) return [0, ANYTHING] as const;
    const slack = Math.abs(quotient) < 2 ** 30 ? tie * Math.abs(quotient) + 2 ** -25 : 0;
    return between(place(quotient - slack, zeroPoint), place(quotient + slack, zeroPoint));
  });
  return [{ type, dims, data: results.map(([y]) => y), allowed: results.map(([, off]) => off) }];
};

function isJustBeyond(type: SmallFloat, x: number): boolean {
  const greatest = greatestOf(type);
  return Math.abs(x) > greatest * (1 - 2 ** -8) && Math.abs(x) < greatest + ulp(type, greatest);
}

const dequantizeLinear: Operator = (node) => {
  const { type: from, dims, data } = node.input(0);
  const scale = node.input(1);
  const type = namedType(node, isWide) ?? scale.type;
  const [scales, zeros] = [spread(node, scale), zerosOf(node)];
  const difference = (x: Scalar, i: number): number =>
    isFloat(from) ? Number(x) : Number(BigInt(x) - BigInt(zeros?.[i] ?? 0n));
  const results = data.map((x, i) => difference(x, i) * (scales[i] as number));
  const allowed = results.map((y, i) => {
    // Differences of 32 bits are rounded, too.
    const rounded = from === 'int32' ? 2 : 1;
    return difference(data[i]!, i) === 0 ? 0 : rounded * 0.51 * ulp('float32', y);
  });
  return [{ type, dims, data: results, allowed }];
};

const FLOAT32 = arithmeticOf('float32');

/** The elements less their zero point, in whole numbers. */
function centred({ dims, data }: RefTensor, zeros: readonly Scalar[]): RefTensor {
  return { type: 'int32', dims, data: data.map((x, i) => BigInt(x) - BigInt(zeros[i]!)) };
}

/**
 * A parameter of a matrix at each of its elements: of one element, or of one for each row of the left factor, and each
 * column of the right one.
 */
function spreadOverMatrix(
  node: Node,
  parameter: RefTensor | undefined,
  dims: Dims,
  isLeft: boolean,
): Scalar[] {
  if (parameter === undefined) return broadcastData({ type: 'int32', dims: [], data: [0n] }, dims);
  const { dims: own, data } = parameter;
  if (data.length === 1) {
    if (own.length > 0) node.tolerate();
    return broadcastData({ ...parameter, dims: [] }, dims);
  }
  if (dims.length < 2) throw new Unjudged(`a parameter of [${own}] for a vector`);
  const ofVector = isLeft ? [own[0]!, 1] : [1, own[0]!];
  const along = own.length === 1 ? ofVector : own;
  if (along.at(isLeft ? -1 : -2) !== 1) throw new Illegal(`a parameter of [${own}] for [${dims}]`);
  // ONNX has lists for two dimensions alone, and for more such of all of them.
  if (
    along.length < dims.length ||
    along.some((extent, i) => extent === 1 && dims.at(i - along.length) !== 1 && i < along.length - 2)
  )
    node.tolerate();
  requireBroadcastTo(along, dims);
  return broadcastData({ ...parameter, dims: along }, dims);
}

/** Products of integers without their zero points, summed in 32 bits. */
const matMulInteger: Operator = (node) => {
  const [a, b] = [node.input(0), node.input(1)];
  const left = centred(a, spreadOverMatrix(node, node.optional(2), a.dims, true));
  const right = centred(b, spreadOverMatrix(node, node.optional(3), b.dims, false));
  return products.MatMul!(node.with([left, right]));
};

/** The zero points of filters, of which there is one, or one for each. */
function spreadOverFilters(parameter: RefTensor, dims: Dims): Scalar[] {
  const { dims: own, data } = parameter;
  if (data.length === 1 && own.length < 2) return broadcastData({ ...parameter, dims: [] }, dims);
  if (own.join() !== `${dims[0]}`) throw new Illegal(`a parameter of [${own}] for filters of [${dims}]`);
  return broadcastData({ ...parameter, dims: dims.map((extent, i) => (i === 0 ? extent : 1)) }, dims);
}

const NO_ZERO: RefTensor = { type: 'int32', dims: [], data: [0n] };

function convolved(
  node: Node,
  x: RefTensor,
  xZero: bigint,
  w: RefTensor,
  wZero: RefTensor,
  bias?: RefTensor,
) {
  const filters = centred(w, spreadOverFilters(wZero, w.dims));
  const input = centred(
    x,
    x.data.map(() => xZero),
  );
  return products.Conv!(node.with([input, filters, bias]))[0]!;
}

const convInteger: Operator = (node) => {
  const zero = BigInt(node.optionalOne(2) ?? 0);
  return [convolved(node, node.input(0), zero, node.input(1), node.optional(3) ?? NO_ZERO)];
};

/** Sums in 32 bits times what each stands for. */
function scaled({ dims, data }: Expected, scaleAt: (index: number) => Inexact) {
  const of = data.map((sum, i) => {
    const y = Number(sum);
    return times(FLOAT32, { y, off: 2 ** -24 * Math.abs(y) }, scaleAt(i));
  });
  return { dims, of };
}

const qLinearConv: Operator = (node) => {
  const [w, scales] = [node.input(3), node.input(4)];
  const sums = convolved(node, node.input(0), BigInt(node.one(2)), w, node.input(5), node.optional(8));
  const ofFilters = spreadOverFilters(scales, [w.dims[0]!]);
  const inner = sums.dims.slice(2).reduce((a, b) => a * b, 1);
  const scaleAt = (i: number) => {
    const filter = Math.floor(i / inner) % w.dims[0]!;
    return times(FLOAT32, exact(node.one(1)), exact(Number(ofFilters[filter])));
  };
  return [quantized(node.input(7).type, scaled(sums, scaleAt), node.one(6), node.one(7))];
};

/** Parameters of rows are those of the result's rows, and those of columns of its columns. */
const qLinearMatMul: Operator = (node) => {
  const [a, b] = [node.input(0), node.input(3)];
  const left = centred(a, spreadOverMatrix(node, node.input(2), a.dims, true));
  const right = centred(b, spreadOverMatrix(node, node.input(5), b.dims, false));
  const [sums] = products.MatMul!(node.with([left, right]));
  const { dims } = sums!;
  if (dims.length < 2 && node.input(1).data.length + node.input(4).data.length > 2)
    throw new Unjudged('scales of vectors');
  const ofLeft = spreadOverMatrix(node, node.input(1), dims, true);
  const ofRight = spreadOverMatrix(node, node.input(4), dims, false);
  const scaleAt = (i: number) => times(FLOAT32, exact(Number(ofLeft[i])), exact(Number(ofRight[i])));
  return [quantized(node.input(7).type, scaled(sums!, scaleAt), node.one(6), node.one(7))];
};

/** By a scale from the least to the greatest element, either of which 0 stands in for. */
const dynamicQuantizeLinear: Operator = (node) => {
  const { dims, data } = node.input(0) as { dims: Dims; data: readonly number[] };
  const [least, greatest] = [Math.min, Math.max].map((pick) => data.reduce((x, y) => pick(x, y), 0)) as [
    number,
    number,
  ];
  const scale = (greatest - least) / 255;
  // Of zeros alone there is no scale, and what is too small or too large for float32 is lost on the way.
  const isKnown = scale > 2 ** -100 && scale < 2 ** 118;
  const place = (x: number, zero: number) => BigInt(Math.min(Math.max(roundHalfToEven(x) + zero, 0), 255));
  const ends = (x: number): readonly [number, number] => [x - TIE * Math.abs(x), x + TIE * Math.abs(x)];
  const [low, high] = ends(-least / scale).map((x) => Number(isKnown ? place(x, 0) : 0)) as [number, number];
  const elements = data.map((x) => {
    if (!isKnown) return [0n, ANYTHING] as const;
    const [below, above] = ends(x / scale);
    return between(place(below, low), place(above, high));
  });
  return [
    { type: 'uint8', dims, data: elements.map(([y]) => y), allowed: elements.map(([, off]) => off) },
    { type: 'float32', dims: [], data: [scale], allowed: [isKnown ? TIE * scale : ANYTHING] },
    { type: 'uint8', dims: [], data: [BigInt(low)], allowed: [isKnown ? high - low : ANYTHING] },
  ];
};

export const quantization: Readonly<Record<string, Operator>> = {
  ConvInteger: convInteger,
  DequantizeLinear: dequantizeLinear,
  DynamicQuantizeLinear: dynamicQuantizeLinear,
  MatMulInteger: matMulInteger,
  QLinearConv: qLinearConv,
  QLinearMatMul: qLinearMatMul,
  QuantizeLinear: quantizeLinear,
};

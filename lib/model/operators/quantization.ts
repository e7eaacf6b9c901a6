/** Integers that stand for numbers: (integer - zero point) * scale. */
import { integer } from '../attributes';
import { shapeOf } from '../builder';
import { elementType } from '../element_types';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { DataType } from '../../tensor/tensor';
import { smallFloatOf } from '../../tensor/small_floats';
import { sizeOf, type Value } from '../values';
import { castTo } from './casts';
import { convolveWith } from './convolution';
import { areKnown, computed } from './known';
import { along, takeAlong } from './layout';
import { multiply } from './matrix';
import { reduceTo } from './reduction';
import { apply, asFloat32, choose, mapped, requireWithin, scalar } from './typed';
import type { Sliced } from '../../slices';

const RANGES: Readonly<Partial<Record<DataType, readonly [least: number, greatest: number]>>> = {
  int8: [-128, 127],
  uint8: [0, 255],
  int16: [-32768, 32767],
  uint16: [0, 65535],
  int4: [-8, 7],
  uint4: [0, 15],
  int2: [-2, 1],
  uint2: [0, 3],
};

/**
 * A scale or a zero point in dims that are broadcast to the input's: of one element, of one for each position of an axis,
 * or of one for each block of an axis.
 */
function* spread(x: Lowering, parameter: Value, input: Value): Sliced<Value> {
  const block = integer(x.node, 'block_size', 0);
  if (block < 0) throw x.invalid(`has block_size ${block}; it takes 0 or a positive integer`);
  if (sizeOf(parameter.dims) === 1) return x.build.view(parameter, []);
  const rank = input.dims.length;
  const axis = x.axis(integer(x.node, 'axis', 1), rank);
  if (block === 0) {
    if (parameter.dims.length !== 1 || parameter.dims[0] !== input.dims[axis]) {
      throw x.invalid(`scales ${shapeOf(input)} along axis ${axis} by ${shapeOf(parameter)}`);
    }
    return x.build.view(parameter, new Array<number>(rank).fill(1).with(axis, input.dims[axis]!));
  }
  const blocks = Math.ceil(input.dims[axis]! / block);
  if (parameter.dims.join() !== input.dims.with(axis, blocks).join()) {
    throw x.invalid(`scales ${shapeOf(input)} in blocks of ${block} by ${shapeOf(parameter)}`);
  }
  const places = Array.from({ length: input.dims[axis]! }, (_, i) => Math.floor(i / block));
  x.build.admitPositions(places.length);
  return yield* takeAlong(x, parameter, axis, places);
}

/** What is not there counts as 0. */
function* zeroPointOf(x: Lowering, i: number, input: Value): Sliced<Value | undefined> {
  const given = x.optional(i);
  return given && (yield* spread(x, given, input));
}

function* quantizeLinear(x: Lowering): Sliced<Value> {
  const input = x.input(0);
  const given = x.optional(2);
  const number = integer(x.node, 'output_dtype', 0);
  const type = given?.type ?? (number === 0 ? 'uint8' : elementType(number));
  const isFloat = type !== undefined && smallFloatOf(type) !== undefined;
  if (type === undefined || (RANGES[type] === undefined && !isFloat)) {
    throw unsupportedNode(x.node, `makes ${type ?? `ONNX's type ${number}`}`);
  }
  if (number !== 0 && elementType(number) !== type) {
    throw x.invalid(`has output_dtype ${number} and a zero point of ${type}; both say what it makes`);
  }
  const scale = yield* spread(x, x.input(1), input);
  const zero = yield* zeroPointOf(x, 2, input);
  // Floats have a zero of their own.
  if (isFloat) return castTo(x, apply(x, 'divide', [asFloat32(x, input), asFloat32(x, scale)]), type);
  return quantized(x, asFloat32(x, input), asFloat32(x, scale), zero, type);
}

/** The nearest integers, of two the even one, brought into the type's range. */
function quantized(x: Lowering, input: Value, scale: Value, zero: Value | undefined, type: DataType): Value {
  return integersOf(x, apply(x, 'divide', [input, scale]), zero, type);
}

export function integersOf(x: Lowering, input: Value, zero: Value | undefined, type: DataType): Value {
  const [least, greatest] = RANGES[type]!;
  const rounded = apply(x, 'round', [input]);
  const moved = zero === undefined ? rounded : apply(x, 'add', [rounded, asFloat32(x, zero)]);
  return mapped(x, 'identity', [apply(x, 'clip', [moved], { p: least, q: greatest })], type);
}

function* dequantizeLinear(x: Lowering): Sliced<Value> {
  const input = x.input(0);
  const scale = yield* spread(x, x.input(1), input);
  const zero = yield* zeroPointOf(x, 2, input);
  const number = integer(x.node, 'output_dtype', 0);
  const type = number === 0 ? x.input(1).type : elementType(number);
  if (type === undefined) throw unsupportedNode(x.node, `makes ONNX's type ${number}`);
  if (type !== 'float32' && type !== 'float16' && type !== 'bfloat16') {
    throw x.invalid(`makes ${type} by output_dtype ${number}; that has to name float32, float16 or bfloat16`);
  }
  return x.build.cast(yield* dequantized(x, input, asFloat32(x, scale), zero), type);
}

/** Differences are exact: they are taken of integers. */
export function* centred(x: Lowering, input: Value, zero: Value | undefined): Sliced<Value> {
  requireWithin(x, zero, input.dims);
  if (zero !== undefined && areKnown(input, zero)) {
    return yield* computed(x, 'centred', [input, zero], (element, from) => element - from);
  }
  const isZero = zero?.constant?.data.length === 1 && Number(zero.constant.data[0]) === 0;
  if (zero === undefined || isZero || smallFloatOf(input.type) !== undefined) return asFloat32(x, input);
  return mapped(x, 'subtract', [input, zero], 'float32', { compute: 'int64' });
}

export function* dequantized(
  x: Lowering,
  input: Value,
  scale: Value,
  zero: Value | undefined,
): Sliced<Value> {
  requireWithin(x, scale, input.dims);
  requireWithin(x, zero, input.dims);
  if (!areKnown(input, scale, zero)) {
    return apply(x, 'multiply', [yield* centred(x, input, zero), scale]);
  }
  const values = zero === undefined ? [input, scale] : [input, scale, zero];
  return yield* computed(x, 'numbers', values, (element, step, from) => Math.fround(element - from) * step);
}

/** A scale and a zero point that the elements themselves say, for bytes. */
export function quantizedDynamically(
  x: Lowering,
  input: Value,
): { values: Value; scale: Value; zero: Value } {
  const axes = input.dims.map((_, axis) => axis);
  const none = scalar(x, 'float32', 0);
  const least = apply(x, 'minimum', [reduceTo(x, input, axes, 'minimum', false), none]);
  const greatest = apply(x, 'maximum', [reduceTo(x, input, axes, 'maximum', false), none]);
  const range = apply(x, 'divide', [apply(x, 'subtract', [greatest, least]), scalar(x, 'float32', 255)]);
  // Of zeros alone any scale does.
  const scale = choose(x, mapped(x, 'equal', [range, none], 'bool'), scalar(x, 'float32', 1), range);
  const place = apply(x, 'negate', [apply(x, 'divide', [least, scale])]);
  const zero = mapped(
    x,
    'identity',
    [apply(x, 'clip', [apply(x, 'round', [place])], { p: 0, q: 255 })],
    'uint8',
  );
  return { values: quantized(x, input, scale, zero, 'uint8'), scale, zero };
}

const dynamicQuantizeLinear: Lower = (x) => {
  const { values, scale, zero } = quantizedDynamically(x, x.input(0));
  return [values, scale, zero];
};

/** Sums of products of this many bytes at most are floats exactly. */
const EXACT_TERMS = Math.floor(2 ** 24 / 255 ** 2);

/**
 * The product of matrices of integers of 8 bits, less their zero points, in int32. It is computed in float32, as many
 * terms at once as that has bits for, so that it comes out exactly.
 */
export function multiplyIntegers(x: Lowering, left: Value, right: Value): Value {
  const depth = left.dims.at(-1);
  if (depth === undefined || depth !== right.dims.at(right.dims.length > 1 ? -2 : -1)) {
    throw x.invalid(`multiplies ${shapeOf(left)} by ${shapeOf(right)}`);
  }
  let sum: Value | undefined;
  for (let first = 0; first < depth; first += EXACT_TERMS) {
    const count = Math.min(EXACT_TERMS, depth - first);
    const part = mapped(
      x,
      'identity',
      [multiply(x, columns(x, left, first, count), rows(x, right, first, count))],
      'int32',
    );
    sum = sum === undefined ? part : apply(x, 'add', [sum, part]);
  }
  return sum ?? mapped(x, 'identity', [multiply(x, left, right)], 'int32');
}

function columns(x: Lowering, value: Value, start: number, count: number): Value {
  return alongAxis(x, value, value.dims.length - 1, start, count);
}

function rows(x: Lowering, value: Value, start: number, count: number): Value {
  return alongAxis(x, value, Math.max(0, value.dims.length - 2), start, count);
}

function alongAxis(x: Lowering, value: Value, axis: number, start: number, count: number): Value {
  if (count === value.dims[axis]) return value;
  return along(x, value, [{ axis, start, step: 1, count }]);
}

/**
 * A parameter of one element, or of one for each row of the left matrix, [M] or [..., M, 1], or for each column of the
 * right one, [N] or [..., 1, N], in dims that are broadcast to the matrix's.
 */
function overMatrix<V extends Value | undefined>(x: Lowering, value: V, side: 'row' | 'column'): V | Value {
  if (value === undefined) return value;
  const { dims } = value;
  if (sizeOf(dims) === 1) return x.build.view(value, []);
  if (dims.length === 1) return side === 'row' ? x.build.view(value, [dims[0]!, 1]) : value;
  if (dims.at(side === 'row' ? -1 : -2) === 1) return value;
  throw x.invalid(`has ${shapeOf(value)} for a matrix; it takes one element, or one for each ${side}`);
}

function* matMulInteger(x: Lowering): Sliced<Value> {
  const left = yield* centred(x, x.input(0), overMatrix(x, x.optional(2), 'row'));
  const right = yield* centred(x, x.input(1), overMatrix(x, x.optional(3), 'column'));
  return multiplyIntegers(x, left, right);
}

/** One element as a scalar. */
function scalarOr(x: Lowering, value: Value, dims: readonly number[]): Value {
  return x.build.view(value, sizeOf(value.dims) === 1 ? [] : dims);
}

/** Inputs are a, its scale and zero point, b, its scale and zero point, and the scale and zero point of the result. */
function* qLinearMatMul(x: Lowering): Sliced<Value> {
  const left = yield* centred(x, x.input(0), overMatrix(x, x.input(2), 'row'));
  const right = yield* centred(x, x.input(3), overMatrix(x, x.input(5), 'column'));
  const sums = asFloat32(x, multiplyIntegers(x, left, right));
  const [ofLeft, ofRight] = [overMatrix(x, x.input(1), 'row'), overMatrix(x, x.input(4), 'column')];
  const factor = apply(x, 'multiply', [asFloat32(x, ofLeft), asFloat32(x, ofRight)]);
  requireWithin(x, factor, sums.dims);
  const step = asFloat32(x, x.build.view(x.input(6), []));
  const zero = x.build.view(x.input(7), []);
  return integersOf(x, apply(x, 'multiply', [sums, apply(x, 'divide', [factor, step])]), zero, zero.type);
}

/**
 * A convolution of integers of 8 bits, less their zero points, in int32: in float32 by as many channels at once as that
 * has bits for. Filters that are known may be small enough for all of them.
 */
function convolveIntegers(x: Lowering, input: Value, weight: Value): Value {
  const groups = integer(x.node, 'group', 1);
  const channels = weight.dims[1]!;
  const parts = partsOf(x, weight);
  if (groups > 1 && parts > 1) {
    const [wideInput, wideWeight] = [input, weight].map((value) => x.build.cast(value, 'float64')) as [
      Value,
      Value,
    ];
    return mapped(x, 'identity', [convolveWith(x, wideInput, wideWeight, undefined)], 'int32');
  }
  const count = Math.ceil(channels / parts);
  let sum: Value | undefined;
  for (let start = 0; start < channels; start += count) {
    const part = [{ axis: 1, start, step: 1, count: Math.min(count, channels - start) }];
    const [own, filters] =
      parts === 1 ? [input, weight] : [along(x, input, part), channelsOf(x, weight, part[0]!)];
    const made = mapped(x, 'identity', [convolveWith(x, own, filters, undefined, true)], 'int32');
    sum = sum === undefined ? made : apply(x, 'add', [sum, made]);
  }
  return sum ?? mapped(x, 'identity', [convolveWith(x, input, weight, undefined, true)], 'int32');
}

function channelsOf(
  x: Lowering,
  weight: Value,
  part: { readonly start: number; readonly count: number },
): Value {
  const { start, count } = part;
  const { constant } = weight;
  if (constant === undefined) return along(x, weight, [{ axis: 1, step: 1, ...part }]);
  const [filters, channels] = weight.dims as [number, number];
  const taps = sizeOf(weight.dims.slice(2));
  return x.derive(`channels from ${start} on, ${count}`, [weight], () => {
    const data = new Float32Array(filters * count * taps);
    for (let k = 0; k < filters; k++) {
      const from = (k * channels + start) * taps;
      data.set((constant.data as Float32Array).subarray(from, from + count * taps), k * count * taps);
    }
    return { type: 'float32', dims: weight.dims.with(1, count), data };
  });
}

/** How many parts the channels of a filter are divided into, so that each one's sums are floats exactly. */
function partsOf(x: Lowering, weight: Value): number {
  const [filters, channels] = weight.dims as [number, number];
  const taps = sizeOf(weight.dims.slice(2));
  const { constant } = weight;
  if (constant === undefined) return Math.max(1, Math.ceil((channels * taps) / EXACT_TERMS));
  return x.build.constants.once([x.node, 'parts', constant.data], () => {
    const numbers = constant.data as Float32Array;
    let greatest = 0;
    for (let k = 0, at = 0; k < filters; k++) {
      let sum = 0;
      for (let i = 0; i < channels * taps; i++, at++) sum += Math.abs(numbers[at]!);
      greatest = Math.max(greatest, sum);
    }
    // A part of the channels has no more than all of them have.
    return greatest * 255 <= 2 ** 24 ? 1 : Math.max(1, Math.ceil((channels * taps) / EXACT_TERMS));
  });
}

/** One for each filter. */
function ofFilters(x: Lowering, value: Value, rank: number): Value {
  return scalarOr(x, value, [sizeOf(value.dims), ...new Array<number>(rank - 1).fill(1)]);
}

function* convInteger(x: Lowering): Sliced<Value> {
  const [input, weight] = [x.input(0), x.input(1)];
  const [zero, zeros] = [x.optional(2), x.optional(3)];
  const own = yield* centred(x, input, zero && x.build.view(zero, []));
  const filters = yield* centred(x, weight, zeros && ofFilters(x, zeros, weight.dims.length));
  return convolveIntegers(x, own, filters);
}

/** Inputs are x, its scale and zero point, w, its scale and zero point, the scale and zero point of the result, and B. */
function* qLinearConv(x: Lowering): Sliced<Value> {
  const [input, weight, bias] = [x.input(0), x.input(3), x.optional(8)];
  const rank = weight.dims.length;
  const own = yield* centred(x, input, x.build.view(x.input(2), []));
  const filters = yield* centred(x, weight, ofFilters(x, x.input(5), rank));
  const sums = convolveIntegers(x, own, filters);
  const channels = (value: Value) =>
    x.build.view(value, [sizeOf(value.dims), ...new Array<number>(rank - 2).fill(1)]);
  const whole = bias === undefined ? sums : apply(x, 'add', [sums, channels(bias)]);
  const scales = x.input(4);
  requireWithin(x, ofFilters(x, scales, rank), weight.dims);
  const ofWeight = sizeOf(scales.dims) === 1 ? x.build.view(scales, []) : channels(scales);
  const scale = apply(x, 'multiply', [x.build.view(x.input(1), []), ofWeight]);
  const factor = apply(x, 'divide', [scale, x.build.view(x.input(6), [])]);
  const zero = x.build.view(x.input(7), []);
  return integersOf(x, apply(x, 'multiply', [asFloat32(x, whole), factor]), zero, zero.type);
}

export const quantization: Record<string, Lower> = {
  ConvInteger: convInteger,
  DequantizeLinear: dequantizeLinear,
  DynamicQuantizeLinear: dynamicQuantizeLinear,
  MatMulInteger: matMulInteger,
  QLinearConv: qLinearConv,
  QLinearMatMul: qLinearMatMul,
  QuantizeLinear: quantizeLinear,
};

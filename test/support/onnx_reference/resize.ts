/** Maps brought to other extents. Coordinates are exact, as fractions of whole numbers. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf, highestOf, lowestOf } from './precision';
import {
  axesOf,
  Illegal,
  isFloat,
  requireSmall,
  sizeOf,
  stridesOf,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

/** n / d, with d > 0 */
interface Fraction {
  readonly n: bigint;
  readonly d: bigint;
}

function fraction(n: bigint, d: bigint): Fraction {
  return d < 0n ? { n: -n, d: -d } : { n, d };
}

/** A finite number of JavaScript as what it is exactly. */
function exactly(x: number): Fraction {
  let d = 1n;
  let scaled = x;
  for (; !Number.isInteger(scaled); scaled *= 2) d *= 2n;
  return { n: BigInt(scaled), d };
}

const plus = (a: Fraction, b: Fraction) => fraction(a.n * b.d + b.n * a.d, a.d * b.d);
const minus = (a: Fraction, b: Fraction) => fraction(a.n * b.d - b.n * a.d, a.d * b.d);
const times = (a: Fraction, b: Fraction) => fraction(a.n * b.n, a.d * b.d);
const over = (a: Fraction, b: Fraction) => fraction(a.n * b.d, a.d * b.n);
const whole = (x: number): Fraction => ({ n: BigInt(x), d: 1n });
const HALF: Fraction = { n: 1n, d: 2n };

function floorOf({ n, d }: Fraction): number {
  const quotient = n / d;
  return Number(n % d !== 0n && n < 0n ? quotient - 1n : quotient);
}

const ceilOf = ({ n, d }: Fraction) => -floorOf({ n: -n, d });

function numberOf({ n, d }: Fraction): number {
  const floor = floorOf({ n, d });
  const rest = n - BigInt(floor) * d;
  return floor + Number((rest << 64n) / d) / 2 ** 64;
}

interface Axis {
  readonly input: number;
  readonly output: number;
  readonly scale: Fraction;
  /** Whether `scale` is what a decimal number became when it was rounded: then neighbours of a boundary are open */
  readonly isRounded: boolean;
  /** Of tf_crop_and_resize */
  readonly roi?: readonly [start: Fraction, end: Fraction];
}

const COORDINATES = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
  'tf_half_pixel_for_nn',
  'tf_crop_and_resize',
] as const;
const ROUNDINGS = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] as const;

interface Method {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly coordinates: (typeof COORDINATES)[number];
  readonly rounding: (typeof ROUNDINGS)[number];
  readonly a: number;
  readonly excludesOutside: boolean;
  readonly antialias: boolean;
  readonly extrapolation: number;
}

function coordinateOf(i: number, axis: Axis, coordinates: Method['coordinates']): Fraction {
  const { input, output, scale } = axis;
  const x = whole(i);
  const halfPixel = () => minus(over(plus(x, HALF), scale), HALF);
  switch (coordinates) {
    case 'half_pixel':
      return halfPixel();
    case 'half_pixel_symmetric': {
      const adjustment = over(whole(output), times(scale, whole(input)));
      return plus(times(over(whole(input), whole(2)), minus(whole(1), adjustment)), halfPixel());
    }
    case 'pytorch_half_pixel':
      return output > 1 ? halfPixel() : whole(0);
    case 'align_corners':
      return output > 1 ? over(times(x, whole(input - 1)), whole(output - 1)) : whole(0);
    case 'asymmetric':
      return over(x, scale);
    case 'tf_half_pixel_for_nn':
      return over(plus(x, HALF), scale);
    case 'tf_crop_and_resize': {
      const [start, end] = axis.roi!;
      const last = whole(input - 1);
      if (output === 1) return times(times(HALF, plus(start, end)), last);
      const step = over(times(minus(end, start), last), whole(output - 1));
      return plus(times(start, last), times(x, step));
    }
  }
}

/** The inputs of one output and what they weigh. */
interface Taps {
  readonly places: readonly number[];
  readonly weights: readonly number[];
  /** Where rounding may pick a neighbour of them */
  readonly isOpen: boolean;
  /** Where the place is whole, or would be by the decimal number: a neighbour may come in with next to no weight */
  readonly isEdge: boolean;
  /** By how much all weights together may differ, where the scale may mean the decimal number that it was rounded from */
  readonly slack: number;
  /** Whether it is no place of the input, and the extrapolation value takes its place */
  readonly isBeyond: boolean;
}

/** A float32's relative error moves the place; weights change by no more than this for each element that it moves. */
function slackOf(place: Fraction, { isRounded }: Axis, { mode, a }: Method): number {
  const slope = mode === 'linear' ? 2 : 8 * (1 + Math.abs(a));
  return isRounded ? slope * (Math.abs(numberOf(place)) + 1) * 2 ** -23 : 0;
}

function tapsOf(i: number, axis: Axis, method: Method): Taps {
  const place = coordinateOf(i, axis, method.coordinates);
  const exact = times(axis.scale, whole(axis.input));
  // ONNX's text has the extent here, its test data what the scale would make of it.
  const isByExtent = ['align_corners', 'tf_crop_and_resize'].includes(method.coordinates);
  const isUnclear = isByExtent && exact.n !== BigInt(axis.output) * exact.d;
  const isBeyond = axis.roi !== undefined && isOutside(place, axis.input);
  if (method.mode === 'nearest') {
    const nearest = nearestOf(place, axis, method.rounding);
    return { ...nearest, isOpen: nearest.isOpen || isUnclear, isBeyond };
  }
  const widening = wideningOf(axis, method);
  const first = floorOf(place);
  const rest = numberOf(minus(place, whole(first)));
  const isEdge = axis.isRounded && Math.min(rest, 1 - rest) < 1e-5 * (1 + Math.abs(numberOf(place)));
  const taps = widening > 1 ? widenedOf(first, rest, widening, method) : plainOf(first, rest, method);
  const places = taps.weights.map((_, tap) => taps.first + tap);
  const isInside = (at: number) => at >= 0 && at < axis.input;
  const kept = taps.weights.map((weight, tap) =>
    !method.excludesOutside || isInside(places[tap]!) ? weight : 0,
  );
  const total = method.excludesOutside ? kept.reduce((sum, weight) => sum + weight, 0) : 1;
  return {
    places: places.map((at) => clamp(at, axis.input)),
    weights: kept.map((weight) => weight / total),
    // A tap that is left out makes a jump where it comes in.
    isOpen: isUnclear || (method.excludesOutside && isEdge),
    isEdge: isEdge || (widening > 1 && axis.isRounded),
    // Each input that a wider filter adds may be off as those of the plain one, and their sum, too.
    slack: slackOf(place, axis, method) * (widening > 1 ? 4 : 1),
    isBeyond,
  };
}

function isOutside(place: Fraction, extent: number): boolean {
  return place.n < 0n || minus(whole(extent - 1), place).n < 0n;
}

/** By how much filters are wider than where nothing shrinks. */
function wideningOf({ scale }: Axis, { antialias }: Method): number {
  return antialias ? Math.max(1, numberOf(over(whole(1), scale))) : 1;
}

function plainOf(first: number, rest: number, { mode, a }: Method): { first: number; weights: number[] } {
  return mode === 'linear' ? { first, weights: [1 - rest, rest] } : cubicOf(first, rest, a);
}

/** Of all inputs that may lie within the filter what they weigh, brought to a sum of 1. */
function widenedOf(
  floor: number,
  rest: number,
  widening: number,
  { mode, a }: Method,
): { first: number; weights: number[] } {
  const reach = Math.ceil((mode === 'linear' ? 1 : 2) * widening) + 1;
  const weights = Array.from({ length: 2 * reach + 1 }, (_, tap) => {
    const distance = Math.abs(tap - reach - rest) / widening;
    return mode === 'linear' ? Math.max(0, 1 - distance) : keys(distance, a);
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return { first: floor - reach, weights: weights.map((weight) => weight / sum) };
}

const clamp = (at: number, extent: number) => Math.min(Math.max(at, 0), extent - 1);

function nearestOf(place: Fraction, { input, isRounded }: Axis, rounding: Method['rounding']): Taps {
  const at = {
    round_prefer_floor: () => ceilOf(minus(place, HALF)),
    round_prefer_ceil: () => floorOf(plus(place, HALF)),
    floor: () => floorOf(place),
    ceil: () => ceilOf(place),
  }[rounding]();
  const boundary = rounding.startsWith('round') ? plus(place, HALF) : place;
  const rest = numberOf(minus(boundary, whole(floorOf(boundary))));
  const isNear = Math.min(rest, 1 - rest) < 1e-5 * (1 + Math.abs(numberOf(place)));
  return {
    places: [clamp(at, input)],
    weights: [1],
    isOpen: isRounded && isNear,
    ...{ isEdge: false, slack: 0, isBeyond: false },
  };
}

/** Keys' kernel. */
function keys(d: number, a: number): number {
  if (d <= 1) return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  return d < 2 ? a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a : 0;
}

/** It, around the element before the place. */
function cubicOf(floor: number, rest: number, a: number): { first: number; weights: number[] } {
  return { first: floor - 1, weights: [1 + rest, rest, 1 - rest, 2 - rest].map((d) => keys(d, a)) };
}

/** All axes at once: the weights of an output's inputs are products of those along each axis. */
function interpolate(input: RefTensor, axes: readonly Axis[], method: Method): Expected {
  const dims = axes.map(({ output }) => output);
  requireSmall(dims);
  if (method.mode !== 'nearest' && input.type === 'bool' && !axes.every(isKept))
    throw new Unjudged('interpolates bool');
  const tables = axes.map((axis) =>
    Array.from({ length: axis.output }, (_, i) => (isKept(axis) ? kept(i) : tapsOf(i, axis, method))),
  );
  const strides = stridesOf(input.dims);
  const data: Scalar[] = [];
  const allowed: number[] = [];
  const most = mostOf(input.data);
  const count = sizeOf(dims);
  const outputStrides = stridesOf(dims);
  for (let index = 0; index < count; index++) {
    const taps = tables.map((table, axis) => table[Math.floor(index / outputStrides[axis]!) % dims[axis]!]!);
    const isBeyond = taps.some((one) => one.isBeyond);
    const [y, bound] = isBeyond
      ? elementOf(input.type, method.extrapolation, 0)
      : combine(input, most, taps, strides, method.mode === 'nearest');
    data.push(y);
    allowed.push(taps.some(({ isOpen }) => isOpen) ? NaN : bound);
  }
  return { type: input.type, dims, data, allowed };
}

function isKept({ input, output, scale, roi }: Axis): boolean {
  return input === output && scale.n === scale.d && (roi === undefined || isKeptRegion(roi));
}

function isKeptRegion([start, end]: NonNullable<Axis['roi']>): boolean {
  return start.n === 0n && end.n === end.d;
}

const kept = (i: number): Taps => ({
  ...{ places: [i], weights: [1] },
  ...{ isOpen: false, isEdge: false, slack: 0, isBeyond: false },
});

/** The nearest integer, of two the even one. */
function toInteger(x: number): bigint {
  const floor = Math.floor(x);
  const isUp = x - floor > 0.5 || (x - floor === 0.5 && floor % 2 !== 0);
  return BigInt(isUp ? floor + 1 : floor);
}

/** A number as an element: of integers the one that it is rounded to, brought to what the type can hold. */
function elementOf(type: ElementType, y: number, bound: number): readonly [Scalar, number] {
  if (isFloat(type)) return [y, bound];
  const [low, high] = [lowestOf(type), highestOf(type)] as [bigint, bigint];
  const hold = (x: bigint) => (x < low ? low : x > high ? high : x);
  const [least, most] = [hold(toInteger(y - bound)), hold(toInteger(y + bound))];
  return [least, Number(most - least)];
}

/** The greatest magnitude; NaN counts as infinite. */
function mostOf(data: readonly Scalar[]): number {
  return data.reduce(
    (most: number, x) => Math.max(most, Number.isNaN(x) ? Infinity : Math.abs(Number(x))),
    0,
  );
}

/** @param mostOfAll - the greatest magnitude of all elements */
function combine(
  input: RefTensor,
  mostOfAll: number,
  taps: readonly Taps[],
  strides: Dims,
  isCopy: boolean,
): readonly [Scalar, number] {
  let terms: { at: number; weight: number }[] = [{ at: 0, weight: 1 }];
  taps.forEach(({ places, weights }, axis) => {
    terms = terms.flatMap(({ at, weight }) =>
      places.map((place, tap) => ({ at: at + place * strides[axis]!, weight: weight * weights[tap]! })),
    );
  });
  if (isCopy || terms.length === 1) return [input.data[terms[0]!.at]!, 0];
  const products = terms.map(({ at, weight }) => weight * Number(input.data[at]));
  const y = products.reduce((a, b) => a + b, 0);
  const size = products.reduce((a, b) => a + Math.abs(b), 0);
  const hasEdge = taps.some(({ isEdge }) => isEdge);
  const most = hasEdge ? mostOfAll : mostOf(terms.map(({ at }) => input.data[at]!));
  const slack = taps.reduce((sum, one) => sum + one.slack, 0) * most * 2 ** taps.length;
  const { type, sumRule, tiny, extreme } = arithmeticOf(isFloat(input.type) ? input.type : 'float64');
  // Weights that nearly are none are off by as much as those of 1; in float64, for which nothing but rounding is allowed,
  // by as much as the terms of their polynomials, some of which are sixteen times as large.
  const bound = sumRule(terms.length) * (size + most * (type === 'float64' ? 16 : 1)) + slack + tiny;
  // Whether an infinite neighbour of weight 0 counts is open, and one axis may make such of what is large.
  return most < extreme / 64 ? elementOf(input.type, y, bound) : [y, NaN];
}

const rounded = (scale: number) => {
  const { n, d } = exactly(scale);
  return d > 64n || n > 4096n;
};

function axisByScale(input: number, scale: number): Axis {
  if (!(scale > 0) || !Number.isFinite(scale)) throw new Illegal(`a scale of ${scale}`);
  // ONNX's own shape inference multiplies in float32.
  const output = Math.floor(Math.fround(input * scale));
  return { input, output, scale: exactly(scale), isRounded: rounded(scale) };
}

function axesBySize(node: Node, dims: Dims, sizes: readonly number[], axes: readonly number[]): Axis[] {
  const result = dims.map((extent) => axisByScale(extent, 1));
  const policy = node.string('keep_aspect_ratio_policy', ['stretch', 'not_larger', 'not_smaller']);
  if (sizes.some((size) => size < 0)) throw new Illegal(`sizes [${sizes}]`);
  // Whether an axis may come to nothing, ONNX does not say.
  if (sizes.includes(0)) throw new Unjudged(`sizes [${sizes}]`);
  if (axes.some((axis) => dims[axis] === 0)) throw new Unjudged('sizes of an empty axis');
  const ratios = axes.map((axis, i) => fraction(BigInt(sizes[i]!), BigInt(dims[axis]!)));
  const order = [...ratios].sort((a, b) => Number(a.n * b.d - b.n * a.d));
  axes.forEach((axis, i) => {
    const input = dims[axis]!;
    if (policy === 'stretch') {
      result[axis] = { input, output: sizes[i]!, scale: ratios[i]!, isRounded: false };
      return;
    }
    const ratio = policy === 'not_larger' ? order[0]! : order.at(-1)!;
    const output = floorOf(plus(times(ratio, whole(input)), HALF));
    result[axis] = { input, output, scale: ratio, isRounded: false };
  });
  return result;
}

function axesByScales(dims: Dims, scales: readonly number[], axes: readonly number[]): Axis[] {
  const result = dims.map((extent) => axisByScale(extent, 1));
  axes.forEach((axis, i) => (result[axis] = axisByScale(dims[axis]!, scales[i]!)));
  return result;
}

/** An empty list stands for one that is left out. */
function given(node: Node, index: number): number[] | undefined {
  const tensor = node.optional(index);
  if (tensor === undefined) return undefined;
  if (tensor.dims.length > 1) throw new Illegal(`a list of rank ${tensor.dims.length}`);
  if (tensor.data.length === 0) return undefined;
  // Other runtimes take a scalar for a list of one.
  if (tensor.dims.length === 0) throw new Unjudged('a scalar for a list');
  return tensor.data.map(Number);
}

const resize: Operator = (node) => {
  const input = node.input(0);
  const { dims } = input;
  const isOld = node.opset < 11;
  const names = node.opset >= 18 ? node.integers('axes') : undefined;
  const axes = names === undefined ? dims.map((_, axis) => axis) : axesOf(names, dims.length);
  const roi = isOld ? undefined : node.optional(1);
  // Other runtimes take a scalar for a list of one.
  if (roi?.dims.length === 0) node.tolerate();
  if (roi !== undefined && roi.dims.length > 1) throw new Illegal(`a roi of [${roi.dims}]`);
  const [scales, sizes] = isOld ? [given(node, 1), undefined] : [given(node, 2), given(node, 3)];
  if ((scales === undefined) === (sizes === undefined)) {
    if (dims.length === 0 && scales === undefined) throw new Unjudged('resizes a scalar');
    throw new Illegal('neither scales nor sizes, or both');
  }
  if ((scales ?? sizes)!.length !== axes.length)
    throw new Illegal(`${(scales ?? sizes)!.length} numbers, ${axes.length} axes`);
  const method: Method = {
    mode: node.string(
      'mode',
      isOld ? ['nearest', 'linear'] : ['nearest', 'linear', 'cubic'],
    ) as Method['mode'],
    coordinates: isOld ? 'asymmetric' : node.string('coordinate_transformation_mode', COORDINATES),
    rounding: isOld ? 'floor' : node.string('nearest_mode', ROUNDINGS),
    a: node.float('cubic_coeff_a', -0.75),
    excludesOutside: node.flag('exclude_outside'),
    antialias: node.flag('antialias'),
    extrapolation: node.float('extrapolation_value', 0),
  };
  const whole = sizes === undefined ? axesByScales(dims, scales!, axes) : axesBySize(node, dims, sizes, axes);
  const resized = method.coordinates === 'tf_crop_and_resize' ? cropped(whole, given(node, 1), axes) : whole;
  // By ONNX's text a region changes the extents that scales make; by its shape inference it does not.
  if (sizes === undefined && !resized.every(({ roi }) => roi === undefined || isKeptRegion(roi)))
    throw new Unjudged('scales of a region');
  requireOutputs(resized);
  // How opset 10 rounds where an axis shrinks, ONNX did not say.
  const isSilent = isOld && method.mode === 'nearest' && scales!.some((scale) => scale < 1);
  const output = interpolate(input, resized, method);
  return [isSilent ? { ...output, allowed: output.data.map(() => NaN) } : output];
};

function cropped(
  resized: readonly Axis[],
  roi: readonly number[] | undefined,
  axes: readonly number[],
): Axis[] {
  if (roi?.length !== 2 * axes.length) throw new Illegal(`a roi of ${roi?.length} for ${axes.length} axes`);
  if (!roi.every(Number.isFinite)) throw new Unjudged('a region that is not finite');
  return resized.map((one, axis): Axis => {
    const i = axes.indexOf(axis);
    return i < 0 ? one : { ...one, roi: [exactly(roi[i]!), exactly(roi[i + axes.length]!)] };
  });
}

function requireOutputs(axes: readonly Axis[]): void {
  if (axes.some(({ input, output }) => input > 0 && output < 1)) throw new Unjudged('an extent of 0');
}

const upsample: Operator = (node) => {
  const input = node.input(0);
  const scales = node.opset < 9 ? node.floats('scales')! : node.list(1);
  if (scales.length !== input.dims.length) throw new Illegal(`${scales.length} scales of [${input.dims}]`);
  if (scales.some((scale) => !(scale >= 1))) throw new Illegal(`scales [${scales}]`);
  const axes = axesByScales(input.dims, scales, [...input.dims.keys()]);
  const mode = node.string('mode', ['nearest', 'linear']) as Method['mode'];
  return [
    interpolate(input, axes, {
      mode,
      coordinates: 'asymmetric',
      rounding: 'floor',
      a: 0,
      excludesOutside: false,
      antialias: false,
      extrapolation: 0,
    }),
  ];
};

export const resizing: Readonly<Record<string, Operator>> = { Resize: resize, Upsample: upsample };

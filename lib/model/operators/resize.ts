/** Maps brought to other extents. */
import type { Sliced } from '../../slices';
import { flag, float, floats, integers, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { DataType } from '../../tensor/tensor';
import { extentOf, sizeOf, type Value } from '../values';
import { eachPosition, padWith, POSITIONS_AT_ONCE, repeated, takeAlong } from './layout';
import { reduceTo } from './reduction';
import { apply, mapped, scalar } from './typed';

const COORDINATES = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
  'tf_half_pixel_for_nn',
] as const;
type Coordinates = (typeof COORDINATES)[number];
const ROUNDINGS = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] as const;
type Rounding = (typeof ROUNDINGS)[number];

/** p / q, of integers that are exact as numbers */
interface Ratio {
  readonly p: number;
  readonly q: number;
}

/** Where the first and the last output come from, as shares of the way from the first input to the last */
type Region = readonly [start: number, end: number];

/** How one axis grows or shrinks. */
interface Axis {
  readonly axis: number;
  readonly input: number;
  readonly output: number;
  readonly scale: Ratio;
  /** Of tf_crop_and_resize alone */
  readonly region?: Region;
}

interface Method {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly coordinates: Coordinates;
  /** 'by_scale' is up where an axis shrinks, else down. */
  readonly rounding: Rounding | 'by_scale';
  readonly cubicA: number;
  readonly excludesOutside: boolean;
  /** Whether filters are widened where an axis shrinks, so that every input counts */
  readonly smooths: boolean;
  /** What is beyond the input of tf_crop_and_resize */
  readonly extrapolation: number;
}

/**
 * Positions of the input, all multiples of 1 / `per`: output i comes from (first + i * step) / per. They are integers,
 * because a coordinate that is whole or a half decides which pixel is nearest, and must not be off by a rounding.
 */
interface Line {
  readonly first: number;
  readonly step: number;
  readonly per: number;
}

const START: Line = { first: 0, step: 0, per: 1 };

/** ONNX's formulas for (i + 1/2) / scale - 1/2 and the like, over a common denominator. */
function lineOf({ input, output, scale: { p, q } }: Axis, coordinates: Coordinates): Line {
  const halfPixel = { first: q - p, step: 2 * q, per: 2 * p };
  switch (coordinates) {
    case 'half_pixel':
      return halfPixel;
    case 'half_pixel_symmetric':
      // The output is a cut-out of what the scale would give, from its middle.
      return { ...halfPixel, first: halfPixel.first + (input * p - output * q) };
    case 'pytorch_half_pixel':
      return output > 1 ? halfPixel : START;
    case 'align_corners':
      // The formula is about an output of scale * input elements, even where that is no whole number.
      return input * p > q ? { first: 0, step: (input - 1) * q, per: input * p - q } : START;
    case 'asymmetric':
      return { first: 0, step: q, per: p };
    case 'tf_half_pixel_for_nn':
      return { first: q, step: 2 * q, per: 2 * p };
  }
}

/** A position of the input: whole + rest / per, with a rest of at least 0 and below `per`. */
interface Place {
  readonly whole: number;
  readonly rest: number;
  readonly per: number;
}

/** From one position to the next by additions, since i * step may be no exact number. */
function placesOf(x: Lowering, count: number, { first, step, per }: Line): Sliced<Place[]> {
  const [wholeStep, restStep] = [Math.floor(step / per), step % per];
  let rest = ((first % per) + per) % per;
  let whole = (first - rest) / per;
  return eachPosition(x, count, () => {
    const place = { whole, rest, per };
    rest += restStep;
    whole += wholeStep + (rest >= per ? 1 : 0);
    rest -= rest >= per ? per : 0;
    return place;
  });
}

/**
 * By tf_crop_and_resize, output i of n comes from (start * (n - 1 - i) + end * i) / (n - 1) of the way to the last input.
 * Divided at the end, this is exact at the ends of a region. As in align_corners, n may be no whole number.
 */
function croppedPlace({ input, scale: { p, q } }: Axis, [start, end]: Region, i: number): Place {
  const last = (input * p) / q - 1;
  const way = (share: number) => share * (input - 1);
  const place = last > 0 ? way(start * (last - i) + end * i) / last : way(start + end) / 2;
  const whole = Math.floor(place);
  return { whole, rest: place - whole, per: 1 };
}

function placesAlong(x: Lowering, axis: Axis, { coordinates }: Method): Sliced<Place[]> {
  const { output, region } = axis;
  if (region === undefined) return placesOf(x, output, lineOf(axis, coordinates));
  return eachPosition(x, output, (i) => croppedPlace(axis, region, i));
}

function isInside({ whole, rest }: Place, extent: number): boolean {
  return whole >= 0 && (whole < extent - 1 || (whole === extent - 1 && rest === 0));
}

function round({ whole, rest, per }: Place, rounding: Rounding): number {
  switch (rounding) {
    case 'round_prefer_floor':
      return 2 * rest > per ? whole + 1 : whole;
    case 'round_prefer_ceil':
      return 2 * rest >= per ? whole + 1 : whole;
    case 'floor':
      return whole;
    case 'ceil':
      return rest > 0 ? whole + 1 : whole;
  }
}

const within = (position: number, extent: number) => Math.min(extent - 1, Math.max(0, position));

/** The inputs of one output and what they weigh. */
interface Taps {
  readonly positions: readonly number[];
  readonly weights: readonly number[];
}

/** What an input weighs by its distance; nothing from `reach` on. */
interface Filter {
  readonly reach: number;
  readonly weigh: (distance: number) => number;
  /** Distances are multiplied by it: below 1, more inputs count. */
  readonly shrinkage: Ratio;
  /** Whether weights are divided by their sum */
  readonly isNormalized: boolean;
}

/** Keys' cubic convolution with the parameter a. */
function cubic(d: number, a: number): number {
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

function filterOf({ mode, cubicA, smooths }: Method, { p, q }: Ratio): Filter {
  const isWidened = smooths && p < q;
  const common = { shrinkage: isWidened ? { p, q } : ONE, isNormalized: isWidened };
  return mode === 'linear'
    ? { reach: 1, weigh: (distance) => Math.max(0, 1 - distance), ...common }
    : { reach: 2, weigh: (distance) => cubic(distance, cubicA), ...common };
}

/** How many inputs lie within a filter on either side of a place. */
function sideOf({ reach, shrinkage: { p, q } }: Filter): number {
  return Math.ceil((reach * q) / p);
}

function tapsOf({ whole, rest, per }: Place, { weigh, shrinkage, ...filter }: Filter): Taps {
  const side = sideOf({ weigh, shrinkage, ...filter });
  const offsets = Array.from({ length: 2 * side }, (_, tap) => tap + 1 - side);
  const weights = offsets.map((offset) =>
    weigh((Math.abs(offset * per - rest) * shrinkage.p) / (per * shrinkage.q)),
  );
  const taps = { positions: offsets.map((offset) => whole + offset), weights };
  return filter.isNormalized ? normalized(taps) : taps;
}

function normalized({ positions, weights }: Taps): Taps {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return { positions, weights: weights.map((weight) => weight / total) };
}

function withoutOutside({ positions, weights }: Taps, extent: number): Taps {
  const isKept = (position: number) => position >= 0 && position < extent;
  return normalized({ positions, weights: weights.map((weight, i) => (isKept(positions[i]!) ? weight : 0)) });
}

/** The taps of all outputs of one axis, as many of each. */
interface Interpolation {
  readonly taps: number;
  readonly positions: Int32Array;
  readonly weights: Float64Array;
}

function* interpolationOf(
  x: Lowering,
  places: readonly Place[],
  { input, scale }: Axis,
  method: Method,
): Sliced<Interpolation> {
  const filter = filterOf(method, scale);
  const taps = 2 * sideOf(filter);
  if (filter.isNormalized) x.build.admitPositions(places.length * taps);
  const positions = new Int32Array(places.length * taps);
  const weights = new Float64Array(places.length * taps);
  const atOnce = Math.ceil(POSITIONS_AT_ONCE / taps);
  for (const [i, place] of places.entries()) {
    if (i % atOnce === 0) yield;
    const exact = tapsOf(place, filter);
    const own = method.excludesOutside ? withoutOutside(exact, input) : exact;
    positions.set(
      own.positions.map((position) => within(position, input)),
      i * taps,
    );
    weights.set(own.weights, i * taps);
  }
  return { taps, positions, weights };
}

function* resizeAxis(
  x: Lowering,
  value: Value,
  axis: Axis,
  places: readonly Place[],
  method: Method,
): Sliced<Value> {
  if (method.mode === 'nearest') {
    const shrinks = axis.scale.p < axis.scale.q;
    const rounding = method.rounding === 'by_scale' ? (shrinks ? 'ceil' : 'floor') : method.rounding;
    const positions = places.map((place) => within(round(place, rounding), axis.input));
    return yield* takeAlong(x, value, axis.axis, positions);
  }
  const interpolation = yield* interpolationOf(x, places, axis, method);
  if (value.type !== 'float32') return yield* interpolateAny(x, value, axis.axis, interpolation);
  const output = x.build.scratch('float32', value.dims.with(axis.axis, places.length));
  x.build.emit({
    kind: 'interpolate',
    outer: extentOf(value.dims, 0, axis.axis),
    axis: axis.input,
    count: places.length,
    inner: extentOf(value.dims, axis.axis + 1, value.dims.length),
    ...interpolation,
    input: value.operand,
    output: output.operand,
  });
  return output;
}

/** Of float64: the elements of all taps next to each other, and the sums of their products with the weights. */
function* interpolateAny(
  x: Lowering,
  value: Value,
  axis: number,
  { taps, positions, weights }: Interpolation,
): Sliced<Value> {
  const count = positions.length / taps;
  const taken = yield* takeAlong(x, value, axis, positions);
  const [outer, inner] = [value.dims.slice(0, axis), value.dims.slice(axis + 1)];
  const factors = x.build.constant({
    type: 'float64',
    dims: [count, taps, ...inner.map(() => 1)],
    data: weights,
  });
  const products = apply(x, 'multiply', [
    x.build.view(taken, [...outer, count, taps, ...inner]),
    x.build.cast(factors, value.type),
  ]);
  return reduceTo(x, products, [axis + 1], 'sum', false);
}

/** Up to here every product of extents and of a scale's terms is below 2^53. */
const LONGEST_AXIS = 2 ** 26;

function requireResizable(x: Lowering, extent: number): void {
  if (extent <= LONGEST_AXIS) return;
  throw unsupportedNode(x.node, `resizes an axis of ${extent}; here it can be of ${LONGEST_AXIS}`);
}

function* resizeAll(x: Lowering, axes: readonly Axis[], method: Method): Sliced<Value> {
  const input = x.input(0);
  const changing = axes.filter(
    ({ input: from, output, scale: { p, q }, region = [0, 1] }) =>
      from !== output || p !== q || region[0] !== 0 || region[1] !== 1,
  );
  for (const { axis, input: from, output } of changing) {
    if (from === 0) throw x.invalid(`makes ${output} elements of axis ${axis}, which has none`);
    requireResizable(x, from);
  }
  const dims = changing.reduce((made, { axis, output }) => made.with(axis, output), input.dims);
  if (sizeOf(dims) === 0) return x.build.scratch(input.type, dims);
  if (changing.length === 0) return input;
  const { type } = input;
  let value = method.mode === 'nearest' ? input : asNumbers(x, input);
  const [before, after] = [dims.map(() => 0), dims.map(() => 0)];
  // The shrinking axes first, so that little is left for the others; of two that are alike the inner one, since along the
  // outer one whole rows are taken.
  const growth = ({ input: from, output }: Axis) => output / from;
  for (const axis of changing.sort((a, b) => growth(a) - growth(b) || b.axis - a.axis)) {
    const all = yield* placesAlong(x, axis, method);
    // They go one way, so those within the input follow each other.
    const places = axis.region === undefined ? all : all.filter((place) => isInside(place, axis.input));
    before[axis.axis] = Math.max(0, all.indexOf(places[0]!));
    after[axis.axis] = all.length - places.length - before[axis.axis]!;
    value = yield* resizeAxis(x, value, axis, places, method);
  }
  const isWhole = [...before, ...after].every((count) => count === 0);
  const filling = () => fromNumber(x, scalar(x, 'float64', method.extrapolation), value.type);
  const padded = isWhole ? value : padWith(x, value, before, after, (whole) => repeated(x, filling(), whole));
  return fromNumber(x, padded, type);
}

/** In what elements are interpolated: integers in float64. */
function asNumbers(x: Lowering, value: Value): Value {
  if (value.type === 'bool') {
    throw unsupportedNode(x.node, `interpolates ${shapeOf(value)}; here it can numbers`);
  }
  return value.type === 'float32' ? value : x.build.cast(value, 'float64');
}

/** As ONNX brings numbers back to integers: to the nearest one, of two to the even one, and of those beyond to the last. */
function fromNumber(x: Lowering, value: Value, type: DataType): Value {
  if (value.type === type) return value;
  return type.startsWith('float') ? x.build.cast(value, type) : mapped(x, 'round', [value], type);
}

/** Scales come as an input since opset 9 (10 as Resize), sizes since 11; axes as an attribute since 18. */
function axesOf(x: Lowering): readonly Axis[] {
  const { dims } = x.input(0);
  const indices = (integers(x.node, 'axes', null) ?? dims.map((_, axis) => axis)).map((axis) =>
    x.axis(axis, dims.length),
  );
  if (new Set(indices).size < indices.length) throw x.invalid(`names an axis twice: [${indices.join(', ')}]`);
  const sizes = x.opset >= 11 ? present(x, 3) : undefined;
  const scales = present(x, x.opset >= 11 ? 2 : 1);
  if (sizes !== undefined && scales !== undefined) throw x.invalid('has both scales and sizes');
  if (sizes !== undefined) return axesBySize(x, indices, sizes);
  if (scales === undefined) throw x.invalid('has neither scales nor sizes');
  return axesByScale(x, indices, scales);
}

/** An empty tensor stands for one that is not there. */
function present(x: Lowering, i: number): number[] | undefined {
  const numbers = x.optionalNumbers(i);
  return numbers?.length ? numbers : undefined;
}

function axesByScale(x: Lowering, indices: readonly number[], scales: readonly number[]): Axis[] {
  if (scales.length !== indices.length) {
    throw x.invalid(`has ${scales.length} scales for ${indices.length} axes`);
  }
  return indices.map((axis, i) => {
    const scale = Math.fround(scales[i]!);
    if (!(scale > 0 && scale < Infinity)) {
      throw x.invalid(`has scale ${scale} for axis ${axis}; it must be positive and finite`);
    }
    const input = x.input(0).dims[axis]!;
    if (scale === 1 || input === 0) return { axis, input, output: input, scale: ONE };
    requireResizable(x, input);
    const ratio = meantBy(scale, input);
    const output = Math.floor((input * ratio.p) / ratio.q);
    if (output === 0)
      throw x.invalid(`leaves nothing of axis ${axis}: ${input} elements by the scale ${scale}`);
    return { axis, input, output, scale: ratio };
  });
}

const ONE: Ratio = { p: 1, q: 1 };

/**
 * The scale that a file means by a float32. Exporters write quotients of two extents, or decimals: 0.2 is 1 / 5, though
 * the float32 next to it lies above, and pixel 1 of the output is pixel 5 of the input. onnxruntime divides in float32,
 * where 1 / 0.2 happens to round to 5; other quotients do not round to what was meant. So of all numbers that round to
 * the float32 this takes the quotient that makes a whole extent of the input's, and otherwise the simplest one.
 */
function meantBy(scale: number, input: number): Ratio {
  const output = Math.round(input * scale);
  // Where less than half an element is left, it is nothing by any of these numbers.
  if (output === 0 || Math.fround(output / input) === scale) return { p: output, q: input };
  // Numbers within half a unit in the last place round to the scale: with `per` below it, the half is 1.
  const per = 2 ** (24 - Math.floor(Math.log2(scale)));
  return simplestBetween({ p: scale * per - 1, q: per }, { p: scale * per + 1, q: per });
}

/** The quotient of the smallest terms between two others, by their continued fractions; `high` may be 1 / 0. */
function simplestBetween(low: Ratio, high: Ratio): Ratio {
  const rest = low.p % low.q;
  const whole = (low.p - rest) / low.q;
  if ((whole + 1) * high.q < high.p) return { p: whole + 1, q: 1 };
  const { p, q } = simplestBetween({ p: high.q, q: high.p - whole * high.q }, { p: low.q, q: rest });
  return { p: whole * p + q, q: p };
}

function axesBySize(x: Lowering, indices: readonly number[], sizes: readonly number[]): readonly Axis[] {
  if (sizes.length !== indices.length)
    throw x.invalid(`has ${sizes.length} sizes for ${indices.length} axes`);
  if (!sizes.every((size) => Number.isInteger(size) && size >= 0)) {
    throw x.invalid(`has sizes [${sizes.join(', ')}]; they must be extents`);
  }
  const policy = string(
    x.node,
    'keep_aspect_ratio_policy',
    ['stretch', 'not_larger', 'not_smaller'],
    'stretch',
  );
  const axes = indices.map((axis, i) => {
    const [input, output] = [x.input(0).dims[axis]!, sizes[i]!];
    return { axis, input, output, scale: input === output ? ONE : { p: output, q: input } };
  });
  return policy === 'stretch' ? axes : keepAspectRatio(axes, policy);
}

/** All axes by the smallest scale of them, or by the largest; an axis of no elements has none. */
function keepAspectRatio(axes: readonly Axis[], policy: 'not_larger' | 'not_smaller'): readonly Axis[] {
  const sign = policy === 'not_larger' ? 1 : -1;
  const [first] = axes
    .filter(({ input }) => input > 0)
    .sort((a, b) => sign * (a.output * b.input - b.output * a.input));
  return axes.map((axis) => {
    if (first === undefined || axis.input === 0) return axis;
    const { p, q } = first.scale;
    return { ...axis, output: Math.floor((2 * axis.input * p + q) / (2 * q)), scale: first.scale };
  });
}

/** The axes with their regions, which are [starts …, ends …]. */
function croppedAxes(x: Lowering, axes: readonly Axis[]): readonly Axis[] {
  const roi = present(x, 1);
  if (roi?.length !== 2 * axes.length) {
    throw x.invalid(
      `crops ${axes.length} axes by ${roi?.length ?? 'no'} numbers of roi; it takes two an axis`,
    );
  }
  return axes.map((axis, i) => ({ ...axis, region: [roi[i]!, roi[i + axes.length]!] }));
}

const resize: Lower = (x) => {
  const asked = string(
    x.node,
    'coordinate_transformation_mode',
    [...COORDINATES, 'tf_crop_and_resize'],
    x.opset < 11 ? 'asymmetric' : 'half_pixel',
  );
  const crops = asked === 'tf_crop_and_resize';
  return resizeAll(x, crops ? croppedAxes(x, axesOf(x)) : axesOf(x), {
    mode: string(
      x.node,
      'mode',
      x.opset < 11 ? ['nearest', 'linear'] : ['nearest', 'linear', 'cubic'],
      'nearest',
    ),
    // Regions have coordinates of their own.
    coordinates: crops ? 'align_corners' : asked,
    rounding: x.opset < 11 ? 'by_scale' : string(x.node, 'nearest_mode', ROUNDINGS, 'round_prefer_floor'),
    cubicA: float(x.node, 'cubic_coeff_a', -0.75),
    excludesOutside: flag(x.node, 'exclude_outside', false),
    smooths: flag(x.node, 'antialias', false),
    extrapolation: float(x.node, 'extrapolation_value', 0),
  });
};

/** What Resize was called before opset 10. */
const upsample: Lower = (x) => {
  const scales = x.opset < 9 ? floats(x.node, 'scales') : x.numbers(1);
  const axes = axesByScale(
    x,
    x.input(0).dims.map((_, axis) => axis),
    scales,
  );
  return resizeAll(x, axes, {
    mode: string(x.node, 'mode', ['nearest', 'linear'], 'nearest'),
    coordinates: 'asymmetric',
    rounding: 'floor',
    cubicA: -0.75,
    excludesOutside: false,
    smooths: false,
    extrapolation: 0,
  });
};

export const resizing: Record<string, Lower> = { Resize: resize, Upsample: upsample };

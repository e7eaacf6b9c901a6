/** Maps brought to other extents. */
import type { Sliced } from '../../slices';
import { flag, float, floats, integers, string } from '../attributes';
import { requireFloat } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { extentOf, sizeOf, type Value } from '../values';
import { eachPosition, POSITIONS_AT_ONCE, takeAlong } from './layout';

const COORDINATES = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
] as const;
type Coordinates = (typeof COORDINATES)[number];
const ROUNDINGS = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] as const;
type Rounding = (typeof ROUNDINGS)[number];

/** p / q, of integers that are exact as numbers */
interface Ratio {
  readonly p: number;
  readonly q: number;
}

/** How one axis grows or shrinks. */
interface Axis {
  readonly axis: number;
  readonly input: number;
  readonly output: number;
  readonly scale: Ratio;
}

interface Method {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly coordinates: Coordinates;
  /** 'by_scale' is up where an axis shrinks, else down. */
  readonly rounding: Rounding | 'by_scale';
  readonly cubicA: number;
  readonly excludesOutside: boolean;
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

function linearTaps({ whole, rest, per }: Place): Taps {
  return { positions: [whole, whole + 1], weights: [(per - rest) / per, rest / per] };
}

/** Keys' cubic convolution with the parameter a. */
function cubicTaps({ whole, rest, per }: Place, a: number): Taps {
  const distances = [per + rest, rest, per - rest, 2 * per - rest].map((distance) => distance / per);
  const weights = distances.map((d) =>
    d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0,
  );
  return { positions: [whole - 1, whole, whole + 1, whole + 2], weights };
}

function withoutOutside({ positions, weights }: Taps, extent: number): Taps {
  const kept = weights.map((weight, i) => (positions[i]! >= 0 && positions[i]! < extent ? weight : 0));
  const total = kept.reduce((sum, weight) => sum + weight, 0);
  return { positions, weights: kept.map((weight) => weight / total) };
}

function tapsOf(place: Place, extent: number, method: Method): Taps {
  const exact = method.mode === 'linear' ? linearTaps(place) : cubicTaps(place, method.cubicA);
  return method.excludesOutside ? withoutOutside(exact, extent) : exact;
}

function* resizeAxis(x: Lowering, value: Value, axis: Axis, method: Method): Sliced<Value> {
  const places = yield* placesOf(x, axis.output, lineOf(axis, method.coordinates));
  if (method.mode === 'nearest') {
    const shrinks = axis.scale.p < axis.scale.q;
    const rounding = method.rounding === 'by_scale' ? (shrinks ? 'ceil' : 'floor') : method.rounding;
    const positions = places.map((place) => within(round(place, rounding), axis.input));
    return yield* takeAlong(x, value, axis.axis, positions);
  }
  const count = method.mode === 'linear' ? 2 : 4;
  const positions = new Int32Array(places.length * count);
  const weights = new Float64Array(places.length * count);
  for (const [i, place] of places.entries()) {
    if (i % POSITIONS_AT_ONCE === 0) yield;
    const taps = tapsOf(place, axis.input, method);
    positions.set(
      taps.positions.map((position) => within(position, axis.input)),
      i * count,
    );
    weights.set(taps.weights, i * count);
  }
  const output = x.build.scratch('float32', value.dims.with(axis.axis, axis.output));
  x.build.emit({
    kind: 'interpolate',
    outer: extentOf(value.dims, 0, axis.axis),
    axis: axis.input,
    count: axis.output,
    inner: extentOf(value.dims, axis.axis + 1, value.dims.length),
    taps: count,
    positions,
    weights,
    input: value.operand,
    output: output.operand,
  });
  return output;
}

/** Up to here every product of extents and of a scale's terms is below 2^53. */
const LONGEST_AXIS = 2 ** 26;

function requireResizable(x: Lowering, extent: number): void {
  if (extent <= LONGEST_AXIS) return;
  throw unsupportedNode(x.node, `resizes an axis of ${extent}; here it can be of ${LONGEST_AXIS}`);
}

function* resizeAll(x: Lowering, axes: readonly Axis[], method: Method): Sliced<Value> {
  const input = x.input(0);
  requireFloat(x.node, input);
  const changing = axes.filter(({ input: from, output, scale: { p, q } }) => from !== output || p !== q);
  for (const { axis, input: from, output } of changing) {
    if (from === 0) throw x.invalid(`makes ${output} elements of axis ${axis}, which has none`);
    requireResizable(x, from);
  }
  const dims = changing.reduce((made, { axis, output }) => made.with(axis, output), input.dims);
  if (sizeOf(dims) === 0) return x.build.scratch('float32', dims);
  // Along the innermost axes first while they are small: the shrinking ones.
  let value = input;
  for (const axis of changing.sort((a, b) => a.output / a.input - b.output / b.input)) {
    value = yield* resizeAxis(x, value, axis, method);
  }
  return value;
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

const resize: Lower = (x) => {
  if (flag(x.node, 'antialias', false)) throw unsupportedNode(x.node, 'smooths by antialias');
  const asked = string(
    x.node,
    'coordinate_transformation_mode',
    [...COORDINATES, 'tf_crop_and_resize', 'tf_half_pixel_for_nn'],
    x.opset < 11 ? 'asymmetric' : 'half_pixel',
  );
  if (asked === 'tf_crop_and_resize' || asked === 'tf_half_pixel_for_nn') {
    throw unsupportedNode(x.node, `has coordinates by ${asked}`);
  }
  return resizeAll(x, axesOf(x), {
    mode: string(
      x.node,
      'mode',
      x.opset < 11 ? ['nearest', 'linear'] : ['nearest', 'linear', 'cubic'],
      'nearest',
    ),
    coordinates: asked,
    rounding: x.opset < 11 ? 'by_scale' : string(x.node, 'nearest_mode', ROUNDINGS, 'round_prefer_floor'),
    cubicA: float(x.node, 'cubic_coeff_a', -0.75),
    excludesOutside: flag(x.node, 'exclude_outside', false),
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
  });
};

export const resizing: Record<string, Lower> = { Resize: resize, Upsample: upsample };

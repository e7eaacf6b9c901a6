/** Maps brought to other extents. */
import { flag, float, integers, string } from '../attributes';
import { requireFloat, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { extentOf, type Value } from '../values';
import { eachPosition, takeAlong } from './layout';

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

/** How one axis grows or shrinks. */
interface Axis {
  readonly axis: number;
  readonly input: number;
  readonly output: number;
  readonly scale: number;
}

interface Method {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly coordinates: Coordinates;
  /** 'by_scale' is up where an axis shrinks, else down. */
  readonly rounding: Rounding | 'by_scale';
  readonly cubicA: number;
  readonly excludesOutside: boolean;
}

/** Which position of the input an output position comes from. */
function coordinateOf(i: number, { input, output, scale }: Axis, coordinates: Coordinates): number {
  // Where the scale gives no whole number, the output is shorter than what the formulas are about.
  const exact = scale * input;
  switch (coordinates) {
    case 'half_pixel':
      return (i + 0.5) / scale - 0.5;
    case 'half_pixel_symmetric': {
      // The output is a cut-out of what the scale would give, from its middle.
      const adjustment = output / exact;
      return (input / 2) * (1 - adjustment) + (i + 0.5) / scale - 0.5;
    }
    case 'pytorch_half_pixel':
      return exact > 1 ? (i + 0.5) / scale - 0.5 : 0;
    case 'align_corners':
      return exact > 1 ? (i * (input - 1)) / (exact - 1) : 0;
    case 'asymmetric':
      return i / scale;
  }
}

function round(position: number, rounding: Rounding): number {
  switch (rounding) {
    case 'round_prefer_floor':
      return Math.ceil(position - 0.5);
    case 'round_prefer_ceil':
      return Math.floor(position + 0.5);
    case 'floor':
      return Math.floor(position);
    case 'ceil':
      return Math.ceil(position);
  }
}

const within = (position: number, extent: number) => Math.min(extent - 1, Math.max(0, position));

/** The inputs of one output and what they weigh. */
interface Taps {
  readonly positions: readonly number[];
  readonly weights: readonly number[];
}

function linearTaps(position: number): Taps {
  const first = Math.floor(position);
  const share = position - first;
  return { positions: [first, first + 1], weights: [1 - share, share] };
}

/** Keys' cubic convolution with the parameter a. */
function cubicTaps(position: number, a: number): Taps {
  const first = Math.floor(position) - 1;
  const positions = [0, 1, 2, 3].map((i) => first + i);
  const weights = positions.map((tap) => {
    const d = Math.abs(position - tap);
    return d <= 1
      ? ((a + 2) * d - (a + 3)) * d * d + 1
      : d < 2
        ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        : 0;
  });
  return { positions, weights };
}

function withoutOutside({ positions, weights }: Taps, extent: number): Taps {
  const kept = weights.map((weight, i) => (positions[i]! >= 0 && positions[i]! < extent ? weight : 0));
  const total = kept.reduce((sum, weight) => sum + weight, 0);
  return { positions, weights: kept.map((weight) => weight / total) };
}

function resizeAxis(x: Lowering, value: Value, axis: Axis, method: Method): Value {
  const places = eachPosition(x, axis.output, (i) => coordinateOf(i, axis, method.coordinates));
  if (method.mode === 'nearest') {
    const rounding = method.rounding === 'by_scale' ? (axis.scale < 1 ? 'ceil' : 'floor') : method.rounding;
    const positions = places.map((place) => within(round(place, rounding), axis.input));
    return takeAlong(x, value, axis.axis, positions);
  }
  const taps = places.map((place) => {
    const exact = method.mode === 'linear' ? linearTaps(place) : cubicTaps(place, method.cubicA);
    return method.excludesOutside ? withoutOutside(exact, axis.input) : exact;
  });
  const output = x.build.scratch('float32', value.dims.with(axis.axis, axis.output));
  x.build.emit({
    kind: 'interpolate',
    outer: extentOf(value.dims, 0, axis.axis),
    axis: axis.input,
    count: axis.output,
    inner: extentOf(value.dims, axis.axis + 1, value.dims.length),
    taps: method.mode === 'linear' ? 2 : 4,
    positions: taps.flatMap(({ positions }) => positions.map((position) => within(position, axis.input))),
    weights: taps.flatMap(({ weights }) => weights),
    input: value.operand,
    output: output.operand,
  });
  return output;
}

function resizeAll(x: Lowering, axes: readonly Axis[], method: Method): Value {
  const input = x.input(0);
  requireFloat(x.node, input);
  if (axes.some(({ output }) => output < 1)) throw x.invalid(`brings ${shapeOf(input)} to nothing`);
  // Along the innermost axes first while they are small: the shrinking ones.
  const changing = axes.filter(({ input: from, output, scale }) => from !== output || scale !== 1);
  return [...changing]
    .sort((a, b) => a.output / a.input - b.output / b.input)
    .reduce((value, axis) => resizeAxis(x, value, axis, method), input);
}

/** Scales come as an input since opset 9 (10 as Resize), sizes since 11; axes as an attribute since 18. */
function axesOf(x: Lowering): Axis[] {
  const { dims } = x.input(0);
  const indices = (integers(x.node, 'axes', null) ?? dims.map((_, axis) => axis)).map((axis) =>
    x.axis(axis, dims.length),
  );
  const sizes = x.opset >= 11 ? present(x, 3) : undefined;
  if (sizes !== undefined) return axesBySize(x, indices, sizes);
  const scales = present(x, x.opset >= 11 ? 2 : 1);
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
    const input = x.input(0).dims[axis]!;
    // As float32, like the scale: 10 * 0.7 is 7, though the float32 next to 0.7 lies below it.
    return { axis, input, output: Math.floor(Math.fround(input * scales[i]!)), scale: scales[i]! };
  });
}

function axesBySize(x: Lowering, indices: readonly number[], sizes: readonly number[]): Axis[] {
  if (sizes.length !== indices.length)
    throw x.invalid(`has ${sizes.length} sizes for ${indices.length} axes`);
  const { dims } = x.input(0);
  const policy = string(
    x.node,
    'keep_aspect_ratio_policy',
    ['stretch', 'not_larger', 'not_smaller'],
    'stretch',
  );
  const scales = indices.map((axis, i) => sizes[i]! / dims[axis]!);
  if (policy === 'stretch') {
    return indices.map((axis, i) => ({ axis, input: dims[axis]!, output: sizes[i]!, scale: scales[i]! }));
  }
  const scale = policy === 'not_larger' ? Math.min(...scales) : Math.max(...scales);
  return indices.map((axis) => {
    const input = dims[axis]!;
    return { axis, input, output: Math.floor(scale * input + 0.5), scale };
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
    mode: string(x.node, 'mode', ['nearest', 'linear', 'cubic'], 'nearest'),
    coordinates: asked,
    rounding: x.opset < 11 ? 'by_scale' : string(x.node, 'nearest_mode', ROUNDINGS, 'round_prefer_floor'),
    cubicA: float(x.node, 'cubic_coeff_a', -0.75),
    excludesOutside: flag(x.node, 'exclude_outside', false),
  });
};

/** What Resize was called before opset 10. */
const upsample: Lower = (x) => {
  const scales = x.opset < 9 ? (x.node.attributes.get('scales') as readonly number[]) : x.numbers(1);
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

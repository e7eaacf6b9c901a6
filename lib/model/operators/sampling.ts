/** Elements of maps at places between them. */
import { areSameDims, MAX_INT32 } from '../../check';
import { flag, float, integer, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { typedArray } from '../typed_constants';
import { sizeOf, stridesOf, type Value } from '../values';
import { emitIndexed } from './indexing';
import { along } from './layout';
import { multiply } from './matrix';
import { apply, choose, mapped, scalar } from './typed';

const plus = (x: Lowering, a: Value, b: Value) => apply(x, 'add', [a, b]);
const minus = (x: Lowering, a: Value, b: Value) => apply(x, 'subtract', [a, b]);
const times = (x: Lowering, a: Value, b: Value) => apply(x, 'multiply', [a, b]);
const affine = (x: Lowering, value: Value, p: number, q: number) => apply(x, 'affine', [value], { p, q });
const within = (x: Lowering, value: Value, p: number, q: number) => apply(x, 'clip', [value], { p, q });

type Padding = 'zeros' | 'border' | 'reflection';

/** One of the elements that a place lies between: for each axis its number, a float, and its weight. */
export interface Tap {
  readonly place: Value;
  readonly weight: Value | undefined;
}

const gridSample: Lower = (x) => {
  const [input, grid] = [x.input(0), x.input(1)];
  const rank = input.dims.length - 2;
  if (grid.dims.length !== rank + 2 || grid.dims.at(-1) !== rank || grid.dims[0] !== input.dims[0]) {
    throw x.invalid(`samples ${shapeOf(input)} at ${shapeOf(grid)}`);
  }
  const isAligned = flag(x.node, 'align_corners', false);
  const modes = ['linear', 'bilinear', 'nearest', 'cubic', 'bicubic'] as const;
  const mode = string(x.node, 'mode', modes, 'linear').replace('bi', '') as 'linear' | 'nearest' | 'cubic';
  const padding = string(x.node, 'padding_mode', ['zeros', 'border', 'reflection'] as const, 'zeros');
  const dims = grid.dims.slice(0, -1);
  const axes = Array.from({ length: rank }, (_, axis): Tap[] => {
    const extent = input.dims[axis + 2]!;
    // The last number of a grid's element is along the first axis of a map.
    const part = along(x, grid, [{ axis: rank + 1, start: rank - 1 - axis, step: 1, count: 1 }]);
    const given = x.build.view(part, dims);
    const place = isAligned
      ? affine(x, given, (extent - 1) / 2, (extent - 1) / 2)
      : affine(x, given, extent / 2, (extent - 1) / 2);
    return tapsOf(x, place, extent, mode, padding, isAligned);
  });
  return sample(x, input, axes, padding);
};

/** The elements along one axis that make the one at a place, and their weights. */
export function tapsOf(
  x: Lowering,
  place: Value,
  extent: number,
  mode: 'linear' | 'nearest' | 'cubic',
  padding: Padding,
  isAligned: boolean,
): Tap[] {
  const inside = (value: Value) => bring(x, value, extent, padding, isAligned);
  // Of two equally near elements the even one, counted before it is reflected.
  if (mode === 'nearest') return [{ place: inside(apply(x, 'round', [place])), weight: undefined }];
  const own = mode === 'cubic' ? stopped(x, place, extent, padding, isAligned) : inside(place);
  const floor = apply(x, 'floor', [own]);
  const rest = minus(x, own, floor);
  if (mode === 'linear') {
    return [
      { place: inside(floor), weight: affine(x, rest, -1, 1) },
      { place: inside(affine(x, floor, 1, 1)), weight: rest },
    ];
  }
  return cubicWeights(x, rest).map((weight, i) => ({ place: inside(affine(x, floor, 1, i - 1)), weight }));
}

/** Of Keys's cubic convolution, with -0.75 */
function cubicWeights(x: Lowering, rest: Value): Value[] {
  const a = -0.75;
  const near = (t: Value) => {
    const inner = affine(x, t, a + 2, -(a + 3));
    return affine(x, times(x, times(x, inner, t), t), 1, 1);
  };
  const far = (t: Value) => {
    // ((a t - 5 a) t + 8 a) t - 4 a
    const first = affine(x, t, a, -5 * a);
    const second = affine(x, times(x, first, t), 1, 8 * a);
    return affine(x, times(x, second, t), 1, -4 * a);
  };
  return [far(affine(x, rest, 1, 1)), near(rest), near(affine(x, rest, -1, 1)), far(affine(x, rest, -1, 2))];
}

/** The middles of the outer elements of a map, or their outer edges. */
function bordersOf(extent: number, isAligned: boolean): readonly [low: number, high: number] {
  return isAligned ? [0, extent - 1] : [-0.5, extent - 0.5];
}

/** Places beyond the borders brought within; those between an outer element's middle and its edge stay where they are. */
function stopped(x: Lowering, place: Value, extent: number, padding: Padding, isAligned: boolean): Value {
  if (padding === 'zeros') return place;
  if (padding === 'reflection') return reflected(x, place, extent, isAligned);
  const isWithin = mapped(x, 'equal', [place, within(x, place, ...bordersOf(extent, isAligned))], 'bool');
  return choose(x, isWithin, place, within(x, place, 0, extent - 1));
}

/** Places beyond the map: zeros are looked for later, others are brought into it. */
function bring(x: Lowering, place: Value, extent: number, padding: Padding, isAligned: boolean): Value {
  if (padding === 'zeros') return place;
  const own = padding === 'border' ? place : reflected(x, place, extent, isAligned);
  return within(x, own, 0, extent - 1);
}

/** Within the borders. */
function reflected(x: Lowering, place: Value, extent: number, isAligned: boolean): Value {
  const [low, high] = bordersOf(extent, isAligned);
  const range = high - low;
  if (range === 0) return affine(x, place, 0, low);
  // Reflected again and again: of every second period the distance from its end.
  const period = scalar(x, place.type, 2 * range);
  const along = mapped(x, 'modulo', [affine(x, place, 1, -low), period], place.type);
  return affine(x, apply(x, 'minimum', [along, affine(x, along, -1, 2 * range)]), 1, low);
}

/** The sum over all combinations of taps of [N, C, …] as [N, C, places]. */
export function sample(
  x: Lowering,
  input: Value,
  axes: readonly (readonly Tap[])[],
  padding: Padding,
): Value {
  const [n, c] = input.dims as [number, number];
  const outputs = axes[0]![0]!.place.dims.slice(1);
  const count = sizeOf(outputs);
  const combinations = axes.reduce<readonly (readonly Tap[])[]>(
    (list, taps) => list.flatMap((before) => taps.map((tap) => [...before, tap])),
    [[]],
  );
  const parts = combinations.map((taps) => {
    const places = taps.map(({ place }) => place);
    const taken = takeAt(x, input, places, count);
    const over = (value: Value) => x.build.view(value, [n, 1, count]);
    // Chosen, and not multiplied: nothing times an infinity is NaN.
    const padded =
      padding === 'zeros'
        ? choose(x, over(insideOf(x, places, input)), taken, scalar(x, taken.type, 0))
        : taken;
    const weights = taps.flatMap(({ weight }) => weight ?? []);
    return weights.reduce((value, weight) => times(x, value, over(weight)), padded);
  });
  const [first, ...others] = parts;
  const sum = others.reduce((total, part) => plus(x, total, part), first!);
  return x.build.view(sum, [n, c, ...outputs]);
}

/** Whether places are in the map. */
function insideOf(x: Lowering, places: readonly Value[], input: Value): Value {
  const isInside: Value[] = places.map((place, axis) => {
    return mapped(x, 'equal', [place, within(x, place, 0, input.dims[axis + 2]! - 1)], 'bool');
  });
  return isInside.slice(1).reduce((all, one) => mapped(x, 'logicalAnd', [all, one], 'bool'), isInside[0]!);
}

/** The elements of all channels at these places, those beyond the map taken from its border. */
function takeAt(x: Lowering, input: Value, places: readonly Value[], count: number): Value {
  const [n, c, ...spatial] = input.dims as [number, number, ...number[]];
  const strides = stridesOf(spatial);
  const flat = places.map((place, axis) => {
    const safe = mapped(x, 'identity', [within(x, place, 0, spatial[axis]! - 1)], 'int64', {
      compute: 'float64',
    });
    return times(x, safe, scalar(x, 'int64', strides[axis]!));
  });
  const indices = flat.slice(1).reduce((sum, one) => plus(x, sum, one), flat[0]!);
  const size = sizeOf(spatial);
  if (size === 0 && n * c * count > 0)
    throw unsupportedNode(x.node, `samples maps of no elements, ${shapeOf(input)}`);
  const data = x.build.view(input, [n * c * size]);
  const dims = [n, c, count];
  const values = x.build.scratch(input.type, dims);
  emitIndexed(x, {
    mode: 'gather',
    ...{ axes: [], axis: { extent: size, stride: 1 }, indices, data, values },
    free: {
      extents: dims,
      valueStrides: stridesOf(dims),
      dataStrides: [c * size, size, 0],
      indexStrides: [count, 0, 1],
    },
  });
  return values;
}

/** Of a grid, whose numbers are listed as it is compiled */
const MOST_PLACES = 2 ** 24;

/** For each place of an output the place of the input, from -1 to 1 along each axis. */
const affineGrid: Lower = (x) => {
  const theta = x.input(0);
  const [n, channels, ...spatial] = x.numbers(1) as [number, number, ...number[]];
  const isAligned = flag(x.node, 'align_corners', false);
  const rank = spatial.length;
  const isFitting =
    areSameDims(theta.dims, [n, rank, rank + 1]) && [channels, ...spatial].every((extent) => extent >= 0);
  if ((rank !== 2 && rank !== 3) || !isFitting)
    throw x.invalid(`makes a grid of [${x.numbers(1).join(', ')}] by ${shapeOf(theta)}`);
  const count = sizeOf(spatial);
  if (count > MOST_PLACES)
    throw unsupportedNode(x.node, `makes a grid of ${count} places; here it can of ${MOST_PLACES}`);
  // The coordinates of every place, the last axis first, and 1.
  const grid = x.derive(`${theta.type} grid of ${spatial.join()} ${isAligned}`, [], () => {
    const data = new Array<number>(count * (rank + 1));
    const strides = stridesOf(spatial);
    for (let i = 0; i < count; i++) {
      for (let axis = 0; axis < rank; axis++) {
        const [place, extent] = [Math.floor(i / strides[axis]!) % spatial[axis]!, spatial[axis]!];
        const along = isAligned ? (2 * place) / (extent - 1) - 1 : (2 * place + 1) / extent - 1;
        data[(rank - 1 - axis) * count + i] = extent === 1 && isAligned ? -1 : along;
      }
      data[rank * count + i] = 1;
    }
    return { type: theta.type, dims: [rank + 1, count], data: typedArray(theta.type, data) };
  });
  const product = multiply(x, theta, grid);
  return x.build.view(x.build.transpose(product, [0, 2, 1]), [theta.dims[0]!, ...spatial, rank]);
};

/** Along each axis of a bin: more would take minutes. */
const MOST_SAMPLES = 1024;

/** Of each region, a box in the map of one image, as many averages or greatest elements as the output has. */
const roiAlign: Lower = (x) => {
  const [input, boxes, images] = [x.input(0), x.input(1), x.input(2)];
  x.requireRank(input, 4);
  if (boxes.dims[1] !== 4) throw x.invalid(`takes four numbers for each region, got ${shapeOf(boxes)}`);
  const { type } = input;
  if (type !== 'float32' && type !== 'float64') throw x.invalid(`has maps of ${type}; it takes floats`);
  const [n, channels, h, w] = input.dims as [number, number, number, number];
  const [p, q] = [integer(x.node, 'output_height', 1), integer(x.node, 'output_width', 1)];
  if (p < 1 || q < 1) throw x.invalid(`makes regions of ${p} x ${q}; it takes positive integers`);
  if (p > MAX_INT32 || q > MAX_INT32)
    throw unsupportedNode(x.node, `makes regions of ${p} x ${q}; the most is ${MAX_INT32}`);
  const regions = boxes.dims[0]!;
  const output = x.build.scratch(type, [regions, channels, p, q]);
  if (h * w === 0 && sizeOf(output.dims) > 0)
    throw unsupportedNode(x.node, `samples maps of no elements, ${shapeOf(input)}`);
  const modes = ['half_pixel', 'output_half_pixel'] as const;
  x.build.emit({
    kind: 'roiAlign',
    ...{ type, regions, n, channels, h, w, p, q },
    greatest: string(x.node, 'mode', ['avg', 'max'], 'avg') === 'max',
    samples: samplingRatio(x),
    scale: float(x.node, 'spatial_scale', 1),
    halfPixel:
      x.opset >= 16 && string(x.node, 'coordinate_transformation_mode', modes, 'half_pixel') === 'half_pixel',
    ...{ images: images.operand, boxes: boxes.operand, input: input.operand, output: output.operand },
  });
  return output;
};

/** 0 for as many samples as a bin of the region is long. */
function samplingRatio(x: Lowering): number {
  const ratio = integer(x.node, 'sampling_ratio', 0);
  if (ratio < 0) throw x.invalid(`has sampling_ratio ${ratio}; it takes 0 or a positive integer`);
  if (ratio > MOST_SAMPLES) {
    throw unsupportedNode(x.node, `has sampling_ratio ${ratio}; here it can have ${MOST_SAMPLES}`);
  }
  return ratio;
}

export const sampling: Record<string, Lower> = {
  AffineGrid: affineGrid,
  GridSample: gridSample,
  RoiAlign: roiAlign,
};

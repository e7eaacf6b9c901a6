/** Elements of maps at places between them. */
import type { Operator } from './elementwise';
import { roundHalfToEven } from './functions';
import { ANYTHING, range, tensorOf, type Inexact, exact, sum, times } from './inexact';
import { arithmeticOf, type Arithmetic } from './precision';
import {
  Illegal,
  offsetOf,
  placeOf,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type RefTensor,
} from './tensor';

const MOST_SAMPLES = 2 ** 20;

type Mode = 'linear' | 'nearest' | 'cubic';
type Padding = 'zeros' | 'border' | 'reflection';

interface Sampling {
  readonly mode: Mode;
  readonly padding: Padding;
  readonly isAligned: boolean;
  readonly arithmetic: Arithmetic;
}

/** One of the elements along an axis that a place lies between; beyond the map there is none. */
interface Tap {
  readonly index: number | undefined;
  readonly weight: number;
}

/** Along one axis the elements, and by how much the place may be off; NaN where that decides which ones they are. */
interface Taps {
  readonly taps: readonly Tap[];
  readonly off: number;
}

/** Over and over, until it lies between. */
function reflected(place: number, low: number, high: number): number {
  const span = high - low;
  if (span === 0) return low;
  const along = (((place - low) % (2 * span)) + 2 * span) % (2 * span);
  return low + Math.min(along, 2 * span - along);
}

const clamped = (place: number, extent: number) => Math.min(Math.max(place, 0), extent - 1);

function bordersOf(extent: number, isAligned: boolean): readonly [number, number] {
  return isAligned ? [0, extent - 1] : [-0.5, extent - 0.5];
}

/** An element's own place, or that of the one which stands for it. */
function indexOf(place: number, extent: number, { padding, isAligned }: Sampling): number | undefined {
  if (place >= 0 && place < extent) return place;
  if (padding === 'zeros') return undefined;
  if (padding === 'border') return clamped(place, extent);
  return clamped(reflected(place, ...bordersOf(extent, isAligned)), extent);
}

/** Keys's cubic convolution, with -0.75 */
function cubic(distance: number): number {
  const [a, t] = [-0.75, Math.abs(distance)];
  return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

function tapsOf(position: number, extent: number, sampling: Sampling): Taps {
  const { mode, padding, isAligned, arithmetic } = sampling;
  const [low, high] = bordersOf(extent, isAligned);
  const place = isAligned ? ((position + 1) / 2) * (extent - 1) : ((position + 1) * extent - 1) / 2;
  // Some steps to the place, and some to its reflection.
  const off = 8 * arithmetic.unit * (2 * extent + Math.abs(place) + 1);
  const isOpen = (border: number) => Math.abs(place - border) <= off;
  if (mode === 'nearest') {
    const index = roundHalfToEven(place);
    const isKnown = roundHalfToEven(place - off) === index && roundHalfToEven(place + off) === index;
    return { taps: [{ index: indexOf(index, extent, sampling), weight: 1 }], off: isKnown ? 0 : ANYTHING };
  }
  const isBeyond = place < low || place > high;
  const stops = padding === 'border' ? clamped(place, extent) : reflected(place, low, high);
  const own = isBeyond && padding !== 'zeros' ? stops : place;
  const jumps = mode === 'cubic' && padding === 'border' && (isOpen(low) || isOpen(high));
  const first = Math.floor(own) - (mode === 'cubic' ? 1 : 0);
  const taps = range(mode === 'cubic' ? 4 : 2).map((i): Tap => {
    const distance = own - first - i;
    const weight = mode === 'cubic' ? cubic(distance) : 1 - Math.abs(distance);
    return { index: indexOf(first + i, extent, sampling), weight };
  });
  return { taps, off: jumps ? ANYTHING : off };
}

/** All combinations of taps, one of each axis. */
function combined(axes: readonly Taps[], strides: readonly number[]): Tap[] {
  return axes.reduce<Tap[]>(
    (list, { taps }, axis) =>
      list.flatMap((before) =>
        taps.map(({ index, weight }) => ({
          index:
            before.index === undefined || index === undefined
              ? undefined
              : before.index + index * strides[axis]!,
          weight: before.weight * weight,
        })),
      ),
    [{ index: 0, weight: 1 }],
  );
}

/** By how much the weights of an axis change at most, all together, where the place does by 1 */
const STEEPNESS = { nearest: 0, linear: 2, cubic: 6 };
/** The most that they add up to, each without its sign */
const WEIGHT = { nearest: 1, linear: 1, cubic: 1.375 };
/** Roundings of a weight, in units of 1 */
const ROUNDINGS = { nearest: 0, linear: 2, cubic: 64 };

/** @param at - of a channel the element at a place */
function sampled(
  axes: readonly Taps[],
  strides: readonly number[],
  map: readonly number[],
  of: Sampling,
): Inexact {
  const { mode, arithmetic } = of;
  const { sumRule, unit, tiny } = arithmetic;
  const most = map.reduce((a, x) => Math.max(a, Number.isFinite(x) ? Math.abs(x) : Infinity), 0);
  const taps = combined(axes, strides);
  const terms = taps.map(({ index, weight }) => (index === undefined ? 0 : map[index]! * weight));
  const y = terms.reduce((a, b) => a + b, 0);
  if (mode === 'nearest' && axes.every(({ off }) => off === 0)) return { y, off: 0 };
  // Weights that are nothing times elements that are none make either.
  if (!(most < arithmetic.extreme / 2 ** 10)) return { y: 0, off: ANYTHING };
  const steepness = STEEPNESS[mode] * axes.reduce((a, { off }) => a + off, 0);
  const beside = WEIGHT[mode] ** (axes.length - 1);
  const perWeight = ROUNDINGS[mode] * unit * axes.length * taps.length;
  const size = terms.reduce((a, term) => a + Math.abs(term), 0);
  return { y, off: (steepness * beside + perWeight) * most + sumRule(taps.length) * size + tiny };
}

const gridSample: Operator = (node) => {
  const [input, grid] = [node.input(0), node.input(1)];
  const rank = input.dims.length - 2;
  const [batch, channels, ...spatial] = input.dims as [number, number, ...number[]];
  if (rank < 1 || grid.dims.length !== rank + 2 || grid.dims.at(-1) !== rank || grid.dims[0] !== batch) {
    throw new Illegal(`[${input.dims}] at [${grid.dims}]`);
  }
  if (spatial.includes(0)) throw new Unjudged('maps of nothing');
  const words = node.opset < 20 ? ['bilinear', 'nearest', 'bicubic'] : ['linear', 'nearest', 'cubic'];
  const others = node.opset < 20 ? ['linear', 'cubic'] : ['bilinear', 'bicubic'];
  const given = node.string('mode', [...words, ...others]);
  // Names of other opsets.
  if (others.includes(given)) node.tolerate();
  const isDouble = input.type === 'float64' && grid.type === 'float64';
  const sampling: Sampling = {
    mode: given.replace('bi', '') as Mode,
    padding: node.string('padding_mode', ['zeros', 'border', 'reflection']),
    isAligned: node.flag('align_corners'),
    arithmetic: arithmeticOf(isDouble ? 'float64' : 'float32'),
  };
  const dims = [batch, channels, ...grid.dims.slice(1, -1)];
  requireSmall(dims);
  const elements = input.data as readonly number[];
  const [size, strides, ofGrid] = [sizeOf(spatial), stridesOf(spatial), stridesOf(grid.dims)];
  return [
    tensorOf(input.type, dims, ([n, c, ...at]) => {
      const first = offsetOf([n!, ...at, 0], ofGrid);
      // The last number is along the first axis of a map.
      const places = spatial.map((_, axis) => Number(grid.data[first + rank - 1 - axis]));
      if (!places.every((place) => Math.abs(place) < 2 ** 10)) return { y: 0, off: ANYTHING };
      const axes = places.map((place, axis) => tapsOf(place, spatial[axis]!, sampling));
      const from = (n! * channels + c!) * size;
      return sampled(axes, strides, elements.slice(from, from + size), sampling);
    }),
  ];
};

interface Regions {
  readonly ratio: number;
  readonly isHalf: boolean;
  readonly scale: number;
  readonly arithmetic: Arithmetic;
}

/** The samples of one bin along one axis. */
function samplesOf(from: number, to: number, bins: number, bin: number, { ratio, isHalf, scale }: Regions) {
  const shift = isHalf ? 0.5 : 0;
  const extent = (to - from) * scale;
  const size = isHalf ? extent : Math.max(extent, 1);
  const count = ratio > 0 ? ratio : Math.max(0, Math.ceil(size / bins));
  return range(count).map((i) => from * scale - shift + ((bin + (i + 0.5) / count) * size) / bins);
}

/** Whether rounding decides how many samples a bin has: a length near an integer is rounded up to it, or to the next. */
function isCountOpen(from: number, to: number, bins: number, { ratio, scale, arithmetic }: Regions): boolean {
  const length = ((to - from) * scale) / bins;
  const distance = Math.abs(length - Math.round(length));
  const largest = Math.max(Math.abs(from), Math.abs(to)) * Math.abs(scale);
  return ratio === 0 && distance > 0 && distance < 4 * arithmetic.unit * (largest + 1);
}

/** Between two elements; up to one beyond the map they are those of its border, and further on there are none. */
function tapsOfRegion(place: number, extent: number, { arithmetic, scale }: Regions, largest: number): Taps {
  const off = 16 * arithmetic.unit * (largest * Math.abs(scale) + 1);
  const isOpen = Math.abs(place + 1) <= off || Math.abs(place - extent) <= off;
  const own = clamped(place, extent);
  const first = Math.floor(own);
  const isOutside = place < -1 || place > extent;
  const tap = (index: number, weight: number): Tap => ({ index: isOutside ? undefined : index, weight });
  return {
    taps: [tap(first, 1 - own + first), tap(Math.min(first + 1, extent - 1), own - first)],
    off: isOpen ? ANYTHING : off,
  };
}

const roiAlign: Operator = (node) => {
  const [input, regions, images] = [node.input(0), node.input(1), node.input(2)];
  if (input.dims.length !== 4 || regions.dims.length !== 2 || regions.dims[1] !== 4) {
    throw new Illegal(`[${input.dims}] in [${regions.dims}]`);
  }
  const count = regions.dims[0]!;
  if (images.dims.join() !== `${count}`) throw new Illegal(`[${images.dims}] images of ${count} regions`);
  const [batch, channels, height, width] = input.dims as [number, number, number, number];
  if (height === 0 || width === 0) throw new Unjudged('maps of nothing');
  const modes =
    node.opset < 16 ? (['output_half_pixel'] as const) : (['half_pixel', 'output_half_pixel'] as const);
  const of: Regions = {
    ratio: node.integer('sampling_ratio', 0),
    isHalf: node.string('coordinate_transformation_mode', modes) === 'half_pixel',
    scale: node.float('spatial_scale', 1),
    arithmetic: arithmeticOf(input.type),
  };
  if (of.ratio < 0) throw new Illegal(`sampling_ratio ${of.ratio}`);
  const isMax = node.string('mode', ['avg', 'max']) === 'max';
  const [rows, columns] = [node.integer('output_height', 1), node.integer('output_width', 1)];
  if (rows < 1 || columns < 1) throw new Illegal(`${rows} x ${columns}`);
  const dims = [count, channels, rows, columns];
  requireSmall(dims);
  if (sizeOf(dims) * of.ratio ** 2 > MOST_SAMPLES) throw new TooLarge(sizeOf(dims) * of.ratio ** 2);
  const sampling: Sampling = {
    mode: 'linear',
    padding: 'border',
    isAligned: true,
    arithmetic: of.arithmetic,
  };
  return [
    tensorOf(input.type, dims, ([region, channel, row, column]) => {
      const box = regions.data.slice(region! * 4, region! * 4 + 4).map(Number) as [
        number,
        number,
        number,
        number,
      ];
      const [x1, y1, x2, y2] = box;
      const largest = Math.max(...box.map(Math.abs));
      // Regions far beyond any map, whose samples may be as many as they are large.
      if (!(largest * Math.abs(of.scale) < 2 ** 8)) return { y: 0, off: ANYTHING };
      if (isCountOpen(y1, y2, rows, of) || isCountOpen(x1, x2, columns, of)) return { y: 0, off: ANYTHING };
      const image = placeOfImage(images, region!, batch);
      const from = (image * channels + channel!) * height * width;
      const map = (input.data as readonly number[]).slice(from, from + height * width);
      const [ys, xs] = [samplesOf(y1, y2, rows, row!, of), samplesOf(x1, x2, columns, column!, of)];
      const samples = ys.flatMap((y) =>
        xs.map((x) => {
          const taps = [tapsOfRegion(y, height, of, largest), tapsOfRegion(x, width, of, largest)];
          return isMax ? greatestTap(taps, width, map, sampling) : sampled(taps, [width, 1], map, sampling);
        }),
      );
      return isMax ? greatest(samples) : mean(samples, of.arithmetic);
    }),
  ];
};

/** Counting from the end ONNX does not know here. */
function placeOfImage(images: RefTensor, region: number, batch: number): number {
  const place = placeOf(images.data[region]!, batch);
  if (Number(images.data[region]) < 0) throw new Unjudged('images counted from the end');
  return place;
}

/** The greatest of the elements around a place, each times its weight: ONNX's reference and other runtimes have it so. */
function greatestTap(axes: readonly Taps[], width: number, map: readonly number[], of: Sampling): Inexact {
  const { off } = sampled(axes, [width, 1], map, of);
  const terms = combined(axes, [width, 1]).map(({ index, weight }) =>
    index === undefined ? 0 : map[index]! * weight,
  );
  return { y: Math.max(...terms), off };
}

function greatest(samples: readonly Inexact[]): Inexact {
  return {
    y: samples.length === 0 ? 0 : Math.max(...samples.map(({ y }) => y)),
    off: samples.reduce((most, { off }) => Math.max(most, off), 0),
  };
}

function mean(samples: readonly Inexact[], { sumRule, tiny }: Arithmetic): Inexact {
  const total = (of: (sample: Inexact) => number) => samples.reduce((a, sample) => a + of(sample), 0);
  const count = Math.max(1, samples.length);
  const off = total((sample) => sample.off) + sumRule(count + 1) * total(({ y }) => Math.abs(y));
  return { y: total(({ y }) => y) / count, off: off / count + tiny };
}

/** Each place of the output as a place of the input, from -1 to 1 along each axis. */
const affineGrid: Operator = (node) => {
  const [theta, size] = [node.input(0), node.list(1)];
  const rank = size.length - 2;
  if ((rank !== 2 && rank !== 3) || theta.dims.join() !== [size[0], rank, rank + 1].join())
    throw new Illegal(`[${theta.dims}] for [${size}]`);
  const isAligned = node.flag('align_corners');
  const spatial = size.slice(2);
  const dims = [size[0]!, ...spatial, rank];
  if (size[1]! < 0) throw new Illegal(`${size[1]} channels`);
  requireSmall(dims);
  // What lies from -1 to 1 where there is but one place, ONNX does not say.
  const isOpen = isAligned && spatial.includes(1);
  const arithmetic = arithmeticOf(theta.type);
  const strides = stridesOf(theta.dims);
  return [
    tensorOf(theta.type, dims, (at) => {
      if (isOpen) return { y: 0, off: ANYTHING };
      const [batch, row] = [at[0]!, at.at(-1)!];
      const terms = range(rank + 1).map((column) => {
        const factor = exact(theta.data[offsetOf([batch, row, column], strides)] as number);
        // The first number is along the last axis.
        const [place, extent] = [at[rank - column]!, spatial[rank - 1 - column]!];
        const along = isAligned ? (2 * place) / (extent - 1) - 1 : (2 * place + 1) / extent - 1;
        return column === rank ? factor : times(arithmetic, factor, { y: along, off: 4 * arithmetic.unit });
      });
      return sum(arithmetic, terms);
    }),
  ];
};

export const sampling: Readonly<Record<string, Operator>> = {
  AffineGrid: affineGrid,
  GridSample: gridSample,
  RoiAlign: roiAlign,
};

/**
 * Steps that go through tensors by extents and strides, once some of the tensors are halves in NHWC. The strides count
 * elements of NCHW, index = (n * channels + channel) * area + pixel; each axis becomes one of images, of channels or of
 * pixels, or two.
 */
import { coalesce, type Operand } from '../values';
import type { HalfTensor } from './tensor';

/** What a step goes through: a tensor of halves, or float32 as it lies. */
export interface Region {
  readonly tensor: HalfTensor | undefined;
  /** The first element */
  readonly first: number;
  readonly strides: readonly number[];
}

/** A step's way through a tensor, axis by axis, in pixels and channels. Of float32, elements are channels. */
export interface Way {
  readonly tensor: HalfTensor | undefined;
  readonly pixels: readonly number[];
  readonly channels: readonly number[];
  /** Where it begins */
  readonly pixel: number;
  readonly channel: number;
}

export interface Ways {
  readonly extents: readonly number[];
  readonly ways: readonly Way[];
}

/** `undefined` where an axis is none of images, channels or pixels of a tensor. The axes have the order of the first. */
export function waysThrough(extents: readonly number[], regions: readonly Region[]): Ways | undefined {
  const split = splitAxes(
    [...extents],
    regions.map(({ strides }) => [...strides]),
    regions,
  );
  if (split === undefined) return undefined;
  const ways = regions.map((region, i) => wayThrough(region, split.extents, split.strides[i]!));
  if (!ways.every((way) => way !== undefined)) return undefined;
  const [lead] = ways;
  const order = split.extents.map((_, axis) => axis);
  order.sort((a, b) => lead!.pixels[b]! - lead!.pixels[a]! || lead!.channels[b]! - lead!.channels[a]!);
  const sorted = (list: readonly number[]) => order.map((axis) => list[axis]!);
  return {
    extents: sorted(split.extents),
    ways: ways.map((way) => ({ ...way, pixels: sorted(way.pixels), channels: sorted(way.channels) })),
  };
}

interface Axes {
  readonly extents: number[];
  readonly strides: number[][];
}

/** Where an axis goes beyond the pixels of a map, or beyond the channels of an image, it becomes two. */
function splitAxes(extents: number[], strides: number[][], regions: readonly Region[]): Axes | undefined {
  for (let axis = 0; axis < extents.length; axis++) {
    for (const [i, { tensor }] of regions.entries()) {
      const inner = tensor && innerExtent(tensor, extents[axis]!, strides[i]![axis]!);
      if (inner === undefined) continue;
      if (!Number.isInteger(inner) || extents[axis]! % inner !== 0) return undefined;
      extents.splice(axis, 1, extents[axis]! / inner, inner);
      for (const list of strides) list.splice(axis, 1, list[axis]! * inner, list[axis]!);
      // The outer of the two may go beyond the next.
      return splitAxes(extents, strides, regions);
    }
  }
  return { extents, strides };
}

/** After how many steps an axis has left a map or an image; `undefined` where it does not. */
function innerExtent({ channels, area }: HalfTensor, extent: number, stride: number): number | undefined {
  const step = Math.abs(stride);
  for (const whole of [area, channels * area]) {
    if (step < whole && (extent - 1) * step >= whole) return whole / step;
  }
  return undefined;
}

function wayThrough(
  { tensor, first }: Region,
  extents: readonly number[],
  strides: readonly number[],
): Way | undefined {
  if (tensor === undefined) {
    return { tensor, pixels: strides.map(() => 0), channels: strides, pixel: 0, channel: first };
  }
  const { n, channels, area } = tensor;
  const image = channels * area;
  const begin = [Math.floor(first / image), Math.floor(first / area) % channels, first % area] as const;
  const end: number[] = [...begin];
  const way = {
    tensor,
    pixels: [] as number[],
    channels: [] as number[],
    pixel: begin[0] * area + begin[2],
    channel: begin[1],
  };
  for (const [axis, extent] of extents.entries()) {
    const stride = strides[axis]!;
    if (stride < 0) return undefined;
    const unit = stride >= image ? image : stride >= area ? area : 1;
    if (stride % unit !== 0) return undefined;
    const steps = stride / unit;
    const kind = unit === image ? 0 : unit === area ? 1 : 2;
    way.pixels.push(kind === 0 ? steps * area : kind === 2 ? steps : 0);
    way.channels.push(kind === 1 ? steps : 0);
    end[kind]! += (extent - 1) * steps;
  }
  return end[0]! < n && end[1]! < channels && end[2]! < area ? way : undefined;
}

/** Whether two go through their tensors the same way. */
export function areSameWays(a: Way, b: Way): boolean {
  return (
    a.pixels.every((step, i) => step === b.pixels[i]) && a.channels.every((step, i) => step === b.channels[i])
  );
}

/** Extents and strides as native code takes them, once it is known where tensors lie. */
export function placed({ extents, ways }: Ways): { extents: number[]; strides: number[][] } {
  return coalesce(
    extents,
    ways.map(({ tensor, pixels, channels }) =>
      channels.map((step, axis) => step + (tensor === undefined ? 0 : pixels[axis]! * tensor.pitch)),
    ),
  );
}

/** Where a way through halves begins. */
export function beginOf({ tensor, pixel, channel }: Way): Operand {
  return tensor!.part(pixel, channel, 1, 1, 1).operand;
}

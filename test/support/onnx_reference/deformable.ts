/** Convolutions of windows whose elements lie where an input says. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf } from './precision';
import {
  forEachIndex,
  Illegal,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
} from './tensor';
import { windowsOf } from './windows';

const MOST_SAMPLES = 2 ** 22;

/** An element between those of a map, which zeros surround: the weights of its corners that lie in it, and where they are. */
function cornersOf(place: readonly number[], extents: Dims): { at: number; weight: number }[] {
  const strides = stridesOf(extents);
  let corners = [{ at: 0, weight: 1 }];
  place.forEach((position, axis) => {
    const low = Math.floor(position);
    const sides = [
      { step: low, share: low + 1 - position },
      { step: low + 1, share: position - low },
    ].filter(({ step }) => step >= 0 && step < extents[axis]!);
    corners = corners.flatMap(({ at, weight }) =>
      sides.map(({ step, share }) => ({ at: at + step * strides[axis]!, weight: weight * share })),
    );
  });
  return corners;
}

function requireDims(dims: Dims, wanted: Dims): void {
  if (dims.join() !== wanted.join()) throw new Illegal(`[${dims}] instead of [${wanted}]`);
}

function numbersOf(node: Node, index: number): readonly number[] | undefined {
  const data = node.optional(index)?.data as readonly number[] | undefined;
  if (data?.some((x) => !Number.isFinite(x))) throw new Unjudged('what is not finite between elements');
  return data;
}

const deformConv: Operator = (node) => {
  const [x, w, offset] = [node.input(0), node.input(1), node.input(2)];
  if (x.dims.length < 3 || w.dims.length !== x.dims.length) throw new Illegal(`[${x.dims}] by [${w.dims}]`);
  const [group, offsetGroup] = [node.integer('group', 1), node.integer('offset_group', 1)];
  const [channels, filters, depth] = [x.dims[1]!, w.dims[0]!, w.dims[1]!];
  const kernel = w.dims.slice(2);
  if (group < 1 || depth * group !== channels || filters % group !== 0) throw new Illegal(`${group} groups`);
  if (offsetGroup < 1 || channels % offsetGroup !== 0) throw new Illegal(`${offsetGroup} groups of offsets`);
  if (kernel.some((extent) => extent < 1)) throw new Illegal(`a filter of [${kernel}]`);
  requireDims(node.integers('kernel_shape') ?? kernel, kernel);
  const axes = windowsOf(node, x.dims.slice(2), kernel);
  const outputs = axes.map(({ output }) => output);
  const [rank, taps] = [axes.length, sizeOf(kernel)];
  requireDims(offset.dims, [x.dims[0]!, offsetGroup * taps * rank, ...outputs]);
  const mask = node.optional(4);
  if (mask !== undefined) requireDims(mask.dims, [x.dims[0]!, offsetGroup * taps, ...outputs]);
  const bias = node.optional(3);
  if (bias !== undefined) requireDims(bias.dims, [filters]);
  const dims = [x.dims[0]!, filters, ...outputs];
  requireSmall(dims);
  if (sizeOf(dims) * depth * taps > MOST_SAMPLES) throw new TooLarge(sizeOf(dims) * depth * taps);
  const [maps, weights, offsets] = [numbersOf(node, 0)!, numbersOf(node, 1)!, numbersOf(node, 2)!];
  const [biases, masks] = [numbersOf(node, 3), numbersOf(node, 4)];
  const { sumRule, tiny } = arithmeticOf(x.type);
  const spatial = x.dims.slice(2);
  const [mapSize, outputSize] = [sizeOf(spatial), sizeOf(outputs)];
  const data: number[] = [];
  const allowed: number[] = [];
  forEachIndex(dims, (at, index) => {
    const [image, filter, ...window] = at as [number, number, ...number[]];
    const firstChannel = Math.floor(filter / (filters / group)) * depth;
    let [y, size] = [biases?.[filter] ?? 0, Math.abs(biases?.[filter] ?? 0)];
    for (let c = 0; c < depth; c++) {
      const channel = firstChannel + c;
      const shared = image * offsetGroup + Math.floor(channel / (channels / offsetGroup));
      forEachIndex(kernel, (tap, number) => {
        const entry = (shared * taps + number) * outputSize + (index % outputSize);
        const place = axes.map(({ stride, dilation, before }, axis) => {
          const moved = (shared * taps + number) * rank + axis;
          return (
            window[axis]! * stride -
            before +
            tap[axis]! * dilation +
            offsets[moved * outputSize + (index % outputSize)]!
          );
        });
        const factor = weights[(filter * depth + c) * taps + number]! * (masks?.[entry] ?? 1);
        for (const corner of cornersOf(place, spatial)) {
          const term = maps[(image * channels + channel) * mapSize + corner.at]! * corner.weight * factor;
          y += term;
          size += Math.abs(term);
        }
      });
    }
    data.push(y);
    allowed.push(sumRule(depth * taps * 2 ** rank + 4) * size + tiny);
  });
  return [{ type: x.type, dims, data, allowed }];
};

export const deformable: Readonly<Record<string, Operator>> = { DeformConv: deformConv };

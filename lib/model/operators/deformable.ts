/** Convolutions of windows whose elements lie where an input says. */
import { integer } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { sizeOf, type Value } from '../values';
import { readFilters, requireElements } from './convolution';
import { along } from './layout';
import { sample, tapsOf } from './sampling';
import { apply } from './typed';
import { convolveColumns } from './unfolding';
import { readAxes, type Window } from './windows';

/**
 * Each element of a window is sampled between those of the input, as by GridSample with zeros around it, and may have a
 * factor. Channels are in groups that share offsets [N, groups * taps * axes, outputs …] and a mask [N, groups * taps, …].
 */
const deformConv: Lower = (x) => {
  const [input, weight, offsets, bias, mask] = [
    x.input(0),
    x.input(1),
    x.input(2),
    x.optional(3),
    x.optional(4),
  ];
  const groups = integer(x.node, 'group', 1);
  const filters = readFilters(x, input, weight, bias, groups);
  const filter = weight.dims.slice(2);
  const axes = readAxes(x, input, filter);
  const outputs = axes.map(({ output }) => output);
  const [n, c] = input.dims as [number, number];
  requireElements(x, input, weight, { ...input, dims: [n, filters, ...outputs] });
  const parts = integer(x.node, 'offset_group', 1);
  if (parts < 1 || c % parts !== 0) throw x.invalid(`has ${parts} groups of offsets for ${c} channels`);
  const taps = sizeOf(filter);
  requireDims(x, offsets, [n, parts * taps * axes.length, ...outputs]);
  if (mask !== undefined) requireDims(x, mask, [n, parts * taps, ...outputs]);
  // The batch and the groups as one axis: what GridSample has a grid of its own for.
  const windows = [n * parts, taps, ...outputs];
  const grid = x.build.view(offsets, [n * parts, taps, axes.length, ...outputs]);
  const places = axes.map((axis, i) => {
    const offset = along(x, grid, [{ axis: 2, start: i, step: 1, count: 1 }]);
    const place = apply(x, 'add', [x.build.view(offset, windows), regularPlaces(x, filter, axes, i)]);
    return tapsOf(x, place, axis.input, 'linear', 'zeros', true);
  });
  const maps = x.build.view(input, [n * parts, c / parts, ...input.dims.slice(2)]);
  const sampled = sample(x, maps, places, 'zeros');
  const columns =
    mask === undefined
      ? sampled
      : apply(x, 'multiply', [sampled, x.build.view(mask, [n * parts, 1, taps, ...outputs])]);
  return convolveColumns(x, x.build.view(columns, [n, c, taps, ...outputs]), {
    weight,
    bias,
    groups,
    outputs,
  });
};

function requireDims(x: Lowering, value: Value, dims: readonly number[]): void {
  if (value.dims.join() === dims.join()) return;
  throw x.invalid(`takes dims [${dims.join(', ')}] for its windows, got ${shapeOf(value)}`);
}

/** Where along one axis the elements of windows lie that nothing moves, [taps, outputs …]; of other axes' outputs there is one. */
function regularPlaces(
  x: Lowering,
  filter: readonly number[],
  axes: readonly Window[],
  axis: number,
): Value<'float32'> {
  const { output, stride, dilation, before } = axes[axis]!;
  const taps = sizeOf(filter);
  // Taps are row-major: this many neighbours share a position on this axis.
  const repeats = sizeOf(filter.slice(axis + 1));
  return x.derive(`places of ${output} from ${-before} along ${axis} of [${filter.join()}]`, [], () => {
    const data = new Float32Array(taps * output);
    for (let i = 0; i < data.length; i++) {
      const [tap, window] = [Math.floor(i / output), i % output];
      data[i] = window * stride - before + (Math.floor(tap / repeats) % filter[axis]!) * dilation;
    }
    return { type: 'float32', dims: [taps, ...axes.map((_, k) => (k === axis ? output : 1))], data };
  });
}

export const deformable: Record<string, Lower> = { DeformConv: deformConv };

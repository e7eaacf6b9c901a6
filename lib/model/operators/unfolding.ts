/**
 * Convolutions and pools of any number of axes and of any type, by the definition: each window's elements next to each
 * other, and then a product or a reduction.
 */
import { flag, integer } from '../attributes';
import { shapeOf } from '../builder';
import type { Lowering } from '../lowering';
import { sizeOf, stridesOf, type Value } from '../values';
import { counting, emitIndexed, takeRows } from './indexing';
import { along, padWith, repeated } from './layout';
import { multiply } from './matrix';
import { extremeOfNone, reduceTo } from './reduction';
import { apply, mapped, scalar } from './typed';
import { attribute, readAxes, type Window } from './windows';

/** The windows of [N, C, …] as [N, C, taps of each axis, windows of each axis]; `filling` is what padding has. */
export function unfold(x: Lowering, input: Value, axes: readonly Window[], filling: Value): Value {
  const [n, c] = input.dims as [number, number];
  const none = [0, 0];
  const before = axes.map((axis) => axis.before);
  // What the last window reaches may be less than the input, or more than its padding.
  const after = axes.map((axis) => Math.max(0, reachOf(axis) - axis.input - axis.before));
  const isPadded = [...before, ...after].some((count) => count > 0);
  const padded = isPadded
    ? padWith(x, input, [...none, ...before], [...none, ...after], (dims) => repeated(x, filling, dims))
    : input;
  const strides = stridesOf(padded.dims);
  const along = (of: (axis: Window) => number) => axes.map((axis, i) => of(axis) * strides[i + 2]!);
  return x.build.gatherStrided(
    padded,
    [n, c, ...axes.map(({ filter }) => filter), ...axes.map(({ output }) => output)],
    [...strides.slice(0, 2), ...along(({ dilation }) => dilation), ...along(({ stride }) => stride)],
  );
}

/** From where the first window begins to where the last one ends. */
function reachOf({ output, stride, filter, dilation }: Window): number {
  return (output - 1) * stride + (filter - 1) * dilation + 1;
}

/** The other way round: elements that meet in one place are added up. `columns` are [N, C, taps …, windows …]. */
export function fold(x: Lowering, columns: Value, axes: readonly Window[]): Value {
  const [n, c] = columns.dims as [number, number];
  const extents = axes.map((axis) => Math.max(reachOf(axis), axis.before + axis.input));
  const data = repeated(x, scalar(x, columns.type, 0), [n, c, ...extents]);
  const [own, strides] = [stridesOf(columns.dims), stridesOf(data.dims)];
  const taps = axes.map(({ dilation }, i) => dilation * strides[i + 2]!);
  const windows = axes.map(({ stride }, i) => stride * strides[i + 2]!);
  const still = (count: number) => new Array<number>(count).fill(0);
  emitIndexed(x, {
    mode: 'add',
    free: {
      extents: [n, c],
      valueStrides: own.slice(0, 2),
      dataStrides: strides.slice(0, 2),
      indexStrides: still(2),
    },
    serial: {
      extents: columns.dims.slice(2),
      valueStrides: own.slice(2),
      dataStrides: [...taps, ...windows],
      indexStrides: still(columns.dims.length - 2),
    },
    // Where an element goes follows from its place alone.
    axes: [],
    indices: scalar(x, 'int64', 0),
    data,
    values: columns,
  });
  return along(
    x,
    data,
    axes.map(({ before, input }, i) => ({ axis: i + 2, start: before, step: 1, count: input })),
  );
}

export function convolveAny(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  groups: number,
): Value {
  const axes = readAxes(x, input, weight.dims.slice(2));
  const outputs = axes.map(({ output }) => output);
  return convolveColumns(x, unfold(x, input, axes, scalar(x, input.type, 0)), {
    weight,
    bias,
    groups,
    outputs,
  });
}

interface Filters {
  readonly weight: Value;
  readonly bias: Value | undefined;
  readonly groups: number;
  readonly outputs: readonly number[];
}

/** Of windows that lie next to each other: `columns` are [N, C, taps …, outputs …]. */
export function convolveColumns(
  x: Lowering,
  columns: Value,
  { weight, bias, groups, outputs }: Filters,
): Value {
  const [n, filters] = [columns.dims[0]!, weight.dims[0]!];
  const depth = sizeOf(weight.dims.slice(1));
  const product = multiply(
    x,
    x.build.view(weight, [groups, filters / groups, depth]),
    x.build.view(columns, [n, groups, depth, sizeOf(outputs)]),
  );
  return withBias(x, x.build.view(product, [n, filters, ...outputs]), bias);
}

export function convolveTransposed(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  axes: readonly Window[],
): Value {
  const groups = integer(x.node, 'group', 1);
  const [n, channels] = input.dims as [number, number];
  const filters = weight.dims[1]!;
  const filter = weight.dims.slice(2);
  const spatial = input.dims.slice(2);
  const depth = filters * sizeOf(filter);
  const turned = x.build.transpose(x.build.view(weight, [groups, channels / groups, depth]), [0, 2, 1]);
  const columns = multiply(x, turned, x.build.view(input, [n, groups, channels / groups, sizeOf(spatial)]));
  const whole = fold(x, x.build.view(columns, [n, groups * filters, ...filter, ...spatial]), axes);
  return withBias(x, whole, bias);
}

function withBias(x: Lowering, value: Value, bias: Value | undefined): Value {
  if (bias === undefined) return value;
  return apply(x, 'add', [
    value,
    x.build.view(bias, [sizeOf(bias.dims), ...value.dims.slice(2).map(() => 1)]),
  ]);
}

/** The windows' elements as one axis of [N, C, taps, windows …]. */
function columnsOf(x: Lowering, input: Value, axes: readonly Window[], filling: Value): Value {
  const columns = unfold(x, input, axes, filling);
  const taps = axes.reduce((product, { filter }) => product * filter, 1);
  return x.build.view(columns, [...input.dims.slice(0, 2), taps, ...axes.map(({ output }) => output)]);
}

function axesOfPool(x: Lowering, input: Value): Window[] {
  const filter = attribute(x, 'kernel_shape', input.dims.length - 2, 0);
  return readAxes(x, input, filter, { ceil: flag(x.node, 'ceil_mode', false), isPool: true });
}

/** The greatest element of each window and, where anybody wants it, its place in the tensor. */
export function maxPoolAny(x: Lowering, input: Value): Value | Value[] {
  const axes = axesOfPool(x, input);
  const columns = columnsOf(x, input, axes, extremeOfNone(x, input.type, 'maximum'));
  const greatest = reduceTo(x, columns, [2], 'maximum', false);
  if (!x.hasOutput(1)) return greatest;
  if (x.opset < 8) throw x.invalid('has two outputs; it has one before opset 8');
  const isByColumn = flag(x.node, 'storage_order', false);
  const spatial = input.dims.slice(2);
  const strides = isByColumn ? stridesOf([...spatial].reverse()).reverse() : stridesOf(spatial);
  const rank = axes.length + 2;
  const placesOf = (count: number, axis: number, stride: number, offset: number) =>
    linear(x, count, axis, rank, stride, offset);
  const taps = axes.reduce<readonly number[]>(
    (list, { filter, dilation }, i) =>
      list.flatMap((place) => {
        return Array.from({ length: filter }, (_, tap) => place + tap * dilation * strides[i]!);
      }),
    [0],
  );
  const table = x.derive(`taps at ${taps.join()}`, [], () => ({
    type: 'int64',
    dims: [taps.length],
    data: BigInt64Array.from(taps, BigInt),
  }));
  const first = takeRows(
    x,
    table,
    reduceTo(x, maximal(x, input, axes, columns, greatest), [2], 'argMaximum', false),
  );
  const size = sizeOf(spatial);
  const places = [
    placesOf(input.dims[0]!, 0, size * input.dims[1]!, 0),
    placesOf(input.dims[1]!, 1, size, 0),
    ...axes.map(({ output, stride, before }, i) =>
      placesOf(output, i + 2, stride * strides[i]!, -before * strides[i]!),
    ),
  ];
  return [greatest, places.reduce((sum, place) => apply(x, 'add', [sum, place]), first)];
}

/** Which elements of the windows are as great as the greatest; padding never is. */
function maximal(x: Lowering, input: Value, axes: readonly Window[], columns: Value, greatest: Value): Value {
  const best = x.build.view(greatest, [...columns.dims.slice(0, 2), 1, ...columns.dims.slice(3)]);
  const isBest = mapped(
    x,
    'logicalOr',
    [mapped(x, 'equal', [columns, best], 'bool'), mapped(x, 'isNaN', [columns], 'bool')],
    'bool',
  );
  const dims = [1, 1, ...input.dims.slice(2)];
  const isInside = columnsOf(x, repeated(x, scalar(x, 'bool', 1), dims), axes, scalar(x, 'bool', 0));
  return x.build.cast(mapped(x, 'logicalAnd', [isBest, isInside], 'bool'), 'uint8');
}

/** offset, offset + stride, … along one of so many axes */
function linear(
  x: Lowering,
  count: number,
  axis: number,
  rank: number,
  stride: number,
  offset: number,
): Value {
  const steps = apply(x, 'multiply', [counting(x, count, axis, rank), scalar(x, 'int64', stride)]);
  return apply(x, 'add', [steps, scalar(x, 'int64', offset)]);
}

export function averagePoolAny(x: Lowering, input: Value): Value {
  const axes = axesOfPool(x, input);
  const sums = reduceTo(x, columnsOf(x, input, axes, scalar(x, input.type, 0)), [2], 'sum', false);
  const includes = flag(x.node, 'count_include_pad', false);
  return axes.reduce((value, axis, i) => {
    const counts = Array.from({ length: axis.output }, (_, o) => tapsInside(axis, o, includes));
    const dims = new Array<number>(axes.length + 2).fill(1).with(i + 2, axis.output);
    const divisors = x.derive(`counts ${counts.join()} along ${i}`, [], () => ({
      type: 'float32',
      dims,
      data: Float32Array.from(counts),
    }));
    return apply(x, 'divide', [value, x.build.cast(divisors, input.type)]);
  }, sums);
}

/** How many elements of a window are no padding, or in the input and its padding. */
function tapsInside(
  { input, filter, stride, dilation, before, after }: Window,
  window: number,
  includes: boolean,
) {
  const [low, high] = includes ? [-before, input + after] : [0, input];
  const first = window * stride - before;
  const places = Array.from({ length: filter }, (_, tap) => first + tap * dilation);
  return Math.max(1, places.filter((place) => place >= low && place < high).length);
}

/** The p-norm of each window. */
export function normPool(x: Lowering, input: Value): Value {
  const p = scalar(x, input.type, integer(x.node, 'p', 2));
  const powers = apply(x, 'power', [apply(x, 'absolute', [input]), p]);
  const columns = columnsOf(x, powers, axesOfPool(x, input), scalar(x, input.type, 0));
  const sums = reduceTo(x, columns, [2], 'sum', false);
  return apply(x, 'power', [sums, scalar(x, input.type, 1 / integer(x.node, 'p', 2))]);
}

/** Blocks of images added up where they overlap. */
export function columnsToImage(x: Lowering): Value {
  const input = x.input(0);
  const [extents, filter] = [x.numbers(1), x.numbers(2)];
  if (extents.length !== filter.length) {
    throw x.invalid(`has images of [${extents.join(', ')}] and blocks of [${filter.join(', ')}]`);
  }
  const [n, width] = input.dims as [number, number];
  const channels = width / filter.reduce((product, extent) => product * extent, 1);
  // The windows are those over an image of these extents.
  const image = { ...input, dims: [n, channels, ...extents] };
  const axes = readAxes(x, image, filter);
  const outputs = axes.map(({ output }) => output);
  if (!Number.isInteger(channels) || sizeOf(outputs) !== input.dims[2]) {
    throw x.invalid(`makes images of [${extents.join(', ')}] of ${shapeOf(input)}`);
  }
  return fold(x, x.build.view(input, [n, channels, ...filter, ...outputs]), axes);
}

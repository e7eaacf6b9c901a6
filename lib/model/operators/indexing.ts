/** Elements by indices, which a run brings or computes: gathers, scatters, orders and masks. */
import { areSameDims } from '../../check';
import { flag, integer, integers, string } from '../attributes';
import { shapeOf } from '../builder';
import { elementType } from '../element_types';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { IndexedStep, ScanStep, ScatterMode } from '../steps';
import { broadcastStrides, coalesce, extentOf, sizeOf, stridesOf, type Operand, type Value } from '../values';
import { repeated } from './layout';
import { counts } from './windows';
import { apply, asType, choose, mapped, scalar, withHalves } from './typed';

/** Positions, and by which strides each finds its value, its place in the data and its indices. */
interface Positions {
  readonly extents: readonly number[];
  readonly valueStrides: readonly number[];
  readonly dataStrides: readonly number[];
  readonly indexStrides: readonly number[];
}

interface Indexing {
  readonly mode: IndexedStep<Operand>['mode'];
  /** Those that never meet in one place, and those that may */
  readonly free: Positions;
  readonly serial?: Positions;
  /** Of the data, which each component of an index counts along */
  readonly axes: readonly number[];
  /** In their place an axis that the data do not have */
  readonly axis?: { readonly extent: number; readonly stride: number };
  readonly indices: Value;
  readonly data: Value;
  readonly values: Value;
}

export function emitIndexed(
  x: Lowering,
  { mode, free, serial, axes, axis, indices, data, values }: Indexing,
): void {
  const own = joined(free);
  const met = serial === undefined ? { extents: [], strides: [[], [], []] } : joined(serial);
  const extents = [...own.extents, ...met.extents];
  if (sizeOf(extents) === 0) return;
  if (axes.some((axis) => data.dims[axis] === 0)) throw x.invalid(`takes elements of ${shapeOf(data)}`);
  const strides = own.strides.map((list, i) => [...list, ...met.strides[i]!]);
  const dataStrides = stridesOf(data.dims);
  x.build.emit({
    kind: 'indexed',
    mode,
    type: data.type,
    extents,
    valueStrides: strides[0]!,
    dataStrides: strides[1]!,
    indexStrides: strides[2]!,
    serialAxes: met.extents.length,
    // There is one component at least: of an axis of one position, it points nowhere else.
    axes: axes.length === 0 ? [axis?.extent ?? 1] : axes.map((one) => data.dims[one]!),
    axisStrides: axes.length === 0 ? [axis?.stride ?? 0] : axes.map((one) => dataStrides[one]!),
    dataCount: sizeOf(data.dims),
    indexCount: sizeOf(indices.dims),
    indices: asType(x, indices, 'int64').operand,
    input: (mode === 'gather' ? data : values).operand,
    output: (mode === 'gather' ? values : data).operand,
  });
}

function joined({ extents, valueStrides, dataStrides, indexStrides }: Positions) {
  return coalesce(extents, [valueStrides, dataStrides, indexStrides]);
}

function pick(positions: Positions, axes: readonly number[]): Positions {
  const of = (list: readonly number[]) => axes.map((axis) => list[axis]!);
  return {
    extents: of(positions.extents),
    valueStrides: of(positions.valueStrides),
    dataStrides: of(positions.dataStrides),
    indexStrides: of(positions.indexStrides),
  };
}

/** An index for each element, along one axis: each position has the others of its own. */
function requireElements(x: Lowering, data: Value, axis: number, dims: readonly number[]): void {
  const fits = dims.length === data.dims.length;
  if (fits && dims.every((extent, i) => i === axis || extent <= data.dims[i]!)) return;
  throw x.invalid(`has indices of dims [${dims.join(', ')}] along axis ${axis} of ${shapeOf(data)}`);
}

function elementPositions(
  data: Value,
  axis: number,
  dims: readonly number[],
  indexStrides: readonly number[],
) {
  return {
    extents: dims,
    valueStrides: stridesOf(dims),
    dataStrides: stridesOf(data.dims).with(axis, 0),
    indexStrides,
  };
}

/** Along the axis, for each position of `dims`, the element that the indices say; they may be broadcast. */
export function takeElements(
  x: Lowering,
  data: Value,
  axis: number,
  indices: Value,
  dims: readonly number[] = indices.dims,
): Value {
  requireElements(x, data, axis, dims);
  const values = x.build.scratch(data.type, dims);
  const free = elementPositions(data, axis, dims, broadcastStrides(indices.dims, dims));
  emitIndexed(x, { mode: 'gather', free, axes: [axis], indices, data, values });
  return values;
}

const gatherElements: Lower = (x) => {
  const data = x.input(0);
  return takeElements(x, data, x.axis(integer(x.node, 'axis', 0), data.dims.length), x.input(1));
};

/** Positions of rows of indices and, behind them, of the slices that those point to. */
function rowPositions(x: Lowering, data: Value, indices: Value, batch: number) {
  const depth = indices.dims.at(-1);
  const rows = indices.dims.slice(0, -1);
  const isLegal = depth !== undefined && depth >= 1 && batch + depth <= data.dims.length;
  if (!isLegal || rows.slice(0, batch).some((extent, axis) => extent !== data.dims[axis])) {
    throw x.invalid(
      `takes elements of ${shapeOf(data)} by ${shapeOf(indices)}, the first ${batch} axes alike`,
    );
  }
  const own = stridesOf(data.dims);
  const slice = data.dims.slice(batch + depth);
  const extents = [...rows, ...slice];
  return {
    axes: Array.from({ length: depth }, (_, i) => batch + i),
    rows: rows.length,
    positions: {
      extents,
      valueStrides: stridesOf(extents),
      dataStrides: [...rows.map((_, i) => (i < batch ? own[i]! : 0)), ...own.slice(batch + depth)],
      indexStrides: [...stridesOf(indices.dims).slice(0, -1), ...slice.map(() => 0)],
    },
  };
}

/** Slices of the first axis, by indices of any dims. */
export function takeRows(x: Lowering, data: Value, indices: Value): Value {
  const slice = data.dims.slice(1);
  const dims = [...indices.dims, ...slice];
  const values = x.build.scratch(data.type, dims);
  emitIndexed(x, {
    ...{ mode: 'gather', axes: [0], indices, data, values },
    free: {
      extents: dims,
      valueStrides: stridesOf(dims),
      dataStrides: [...indices.dims.map(() => 0), ...stridesOf(slice)],
      indexStrides: [...stridesOf(indices.dims), ...slice.map(() => 0)],
    },
  });
  return values;
}

const gatherND: Lower = (x) => {
  const [data, indices] = [x.input(0), x.input(1)];
  const batch = integer(x.node, 'batch_dims', 0);
  if (batch < 0 || batch >= Math.min(data.dims.length, indices.dims.length)) {
    throw x.invalid(`has batch_dims ${batch} for ${shapeOf(data)} and ${shapeOf(indices)}`);
  }
  const { axes, positions } = rowPositions(x, data, indices, batch);
  const values = x.build.scratch(data.type, positions.extents);
  emitIndexed(x, { mode: 'gather', free: positions, axes, indices, data, values });
  return values;
};

const REDUCTIONS = ['none', 'add', 'mul', 'min', 'max'] as const;
const SCATTERS: Readonly<Record<(typeof REDUCTIONS)[number], ScatterMode>> = {
  none: 'assign',
  add: 'add',
  mul: 'multiply',
  min: 'minimum',
  max: 'maximum',
};

function scatterMode(x: Lowering): ScatterMode {
  return SCATTERS[string(x.node, 'reduction', REDUCTIONS, 'none')];
}

/** A tensor of its own with the elements of another. */
function copied(x: Lowering, value: Value): Value {
  const copy = x.build.scratch(value.type, value.dims);
  x.build.copy(value, [sizeOf(value.dims)], [1], copy, [1]);
  return copy;
}

const scatterElements: Lower = (x) => {
  const [given, indices, values] = [x.input(0), x.input(1), x.input(2)];
  const axis = x.axis(integer(x.node, 'axis', 0), given.dims.length);
  requireElements(x, given, axis, indices.dims);
  if (values.dims.join() !== indices.dims.join()) {
    throw x.invalid(`has ${shapeOf(values)} for ${shapeOf(indices)}`);
  }
  const data = copied(x, given);
  const positions = elementPositions(data, axis, indices.dims, stridesOf(indices.dims));
  const others = indices.dims.map((_, i) => i).filter((i) => i !== axis);
  emitIndexed(x, {
    ...{ mode: scatterMode(x), axes: [axis], indices, data, values },
    ...{ free: pick(positions, others), serial: pick(positions, [axis]) },
  });
  return data;
};

const scatterND: Lower = (x) => {
  const [given, indices, values] = [x.input(0), x.input(1), x.input(2)];
  const { axes, positions, rows } = rowPositions(x, given, indices, 0);
  if (values.dims.join() !== positions.extents.join()) {
    throw x.invalid(`has ${shapeOf(values)}; these indices take dims [${positions.extents.join(', ')}]`);
  }
  const data = copied(x, given);
  const all = positions.extents.map((_, i) => i);
  emitIndexed(x, {
    ...{ mode: scatterMode(x), axes, indices, data, values },
    ...{ free: pick(positions, all.slice(rows)), serial: pick(positions, all.slice(0, rows)) },
  });
  return data;
};

/** Updates go to places of an axis, of each batch from another on; where the axis is a ring, they go on at its beginning. */
const tensorScatter: Lower = (x) => {
  const [given, values, starts] = [x.input(0), x.input(1), x.optional(2)];
  const rank = given.dims.length;
  const axis = x.axis(integer(x.node, 'axis', -2), rank);
  const isRing = string(x.node, 'mode', ['linear', 'circular'], 'linear') === 'circular';
  const length = values.dims[axis] ?? 0;
  const isFitting = areSameDims(values.dims, given.dims.with(axis, length)) && length <= given.dims[axis]!;
  if (axis === 0 || !isFitting)
    throw x.invalid(`writes ${shapeOf(values)} along axis ${axis} of ${shapeOf(given)}`);
  if (starts !== undefined && starts.dims[0] !== given.dims[0])
    throw x.invalid(`has places of ${shapeOf(starts)} for ${shapeOf(given)}`);
  const steps = counting(x, length, axis, rank);
  const dims = given.dims.map((extent, i) => (i === 0 ? extent : 1));
  const first = starts === undefined ? scalar(x, 'int64', 0) : x.build.view(starts, dims);
  const places = apply(x, 'add', [steps, first]);
  const indices = isRing
    ? mapped(x, 'modulo', [places, scalar(x, 'int64', given.dims[axis]!)], 'int64')
    : places;
  const data = copied(x, given);
  const free = elementPositions(data, axis, values.dims, broadcastStrides(indices.dims, values.dims));
  emitIndexed(x, { mode: 'assign', free, axes: [axis], indices, data, values });
  return data;
};

/** The places of the first elements of an axis in their order. */
export function sortedPlaces(
  x: Lowering,
  input: Value,
  axis: number,
  count: number,
  greatest: boolean,
): Value<'int64'> {
  const places = x.build.scratch('int64', input.dims.with(axis, count));
  x.build.emit({
    kind: 'sort',
    type: input.type,
    outer: extentOf(input.dims, 0, axis),
    length: input.dims[axis]!,
    inner: extentOf(input.dims, axis + 1, input.dims.length),
    count,
    greatest,
    input: input.operand,
    output: places.operand,
  });
  return places;
}

const topK: Lower = (x) => {
  const input = x.input(0);
  const axis = x.axis(integer(x.node, 'axis', -1), input.dims.length);
  const count = x.opset < 10 ? integer(x.node, 'k') : x.numbers(1)[0]!;
  // They are in their order whether anybody asks for it or not, and the flag is held to 0 or 1.
  flag(x.node, 'sorted', true);
  if (count < 0 || count > input.dims[axis]!) {
    throw x.invalid(`takes ${count} elements along axis ${axis} of ${shapeOf(input)}`);
  }
  const places = sortedPlaces(x, input, axis, count, flag(x.node, 'largest', true));
  return [takeElements(x, input, axis, places), places];
};

function cumulative(mode: 'sum' | 'product'): Lower {
  return (x) => {
    const input = x.input(0);
    return cumulate(x, input, x.axis(x.numbers(1)[0]!, input.dims.length), {
      mode,
      exclusive: flag(x.node, 'exclusive', false),
      reversed: flag(x.node, 'reverse', false),
    });
  };
}

/** Of each element the sum, or the product, of those up to it along an axis. */
export function cumulate(
  x: Lowering,
  input: Value,
  axis: number,
  {
    mode = 'sum',
    exclusive = false,
    reversed = false,
  }: Partial<Pick<ScanStep<Operand>, 'mode' | 'exclusive' | 'reversed'>> = {},
): Value {
  const output = x.build.scratch(input.type, input.dims);
  x.build.emit({
    kind: 'scan',
    ...{ mode, exclusive, reversed },
    type: input.type,
    outer: extentOf(input.dims, 0, axis),
    length: input.dims[axis]!,
    inner: extentOf(input.dims, axis + 1, input.dims.length),
    input: input.operand,
    output: output.operand,
  });
  return output;
}

/** 0, 1, … along one of so many axes, the others of extent 1. */
export function counting(x: Lowering, length: number, axis: number, rank: number): Value<'int64'> {
  x.build.admitPositions(length);
  const dims = new Array<number>(rank).fill(1).with(axis, length);
  return x.derive(`counting to ${length} along ${axis} of ${rank}`, [], () => ({
    type: 'int64',
    dims,
    data: BigInt64Array.from({ length }, (_, i) => BigInt(i)),
  }));
}

/** Of each element of a matrix how far it is to the right of the diagonal. */
function diagonals(x: Lowering, rows: number, columns: number): Value {
  return apply(x, 'subtract', [counting(x, columns, 1, 2), counting(x, rows, 0, 2)]);
}

const trilu: Lower = (x) => {
  const input = x.input(0);
  if (input.dims.length < 2) throw x.invalid(`takes a tensor of 2 axes or more, got ${shapeOf(input)}`);
  const [rows, columns] = input.dims.slice(-2) as [number, number];
  const k = x.optional(1);
  const from = k === undefined ? scalar(x, 'int64', 0) : x.build.view(k, []);
  const isUpper = flag(x.node, 'upper', true);
  const places = [diagonals(x, rows, columns), from];
  const mask = mapped(x, isUpper ? 'greaterOrEqual' : 'lessOrEqual', places, 'bool');
  return choose(x, mask, input, scalar(x, input.type, 0));
};

const eyeLike: Lower = (x) => {
  const input = x.input(0);
  x.requireRank(input, 2);
  const number = integer(x.node, 'dtype', null);
  const type = number === null ? input.type : elementType(number);
  if (type === undefined) throw unsupportedNode(x.node, `makes ONNX's type ${number}`);
  const [rows, columns] = input.dims as [number, number];
  const k = scalar(x, 'int64', integer(x.node, 'k', 0));
  return mapped(x, 'equal', [diagonals(x, rows, columns), k], type);
};

/** Negative indices count from the end; those beyond leave every element off. */
const oneHot: Lower = (x) => {
  const [indices, values] = [x.input(0), x.input(2)];
  const depth = Math.trunc(x.numbers(1)[0]!);
  if (!(depth >= 0)) throw x.invalid(`has a depth of ${depth}`);
  if (values.dims[0] !== 2) throw x.invalid(`takes two values, got ${shapeOf(values)}`);
  const rank = indices.dims.length + 1;
  const axis = x.axis(integer(x.node, 'axis', -1), rank);
  // What no int64 is, is beyond every depth.
  const inReach =
    indices.type === 'uint64'
      ? apply(x, 'minimum', [indices, scalar(x, 'uint64', depth, x.input(1))])
      : indices;
  const given = asType(x, inReach, 'int64');
  const size = scalar(x, 'int64', depth, x.input(1));
  const isNegative = mapped(x, 'less', [given, scalar(x, 'int64', 0)], 'bool');
  // They do so since opset 11.
  const places = x.opset < 11 ? given : choose(x, isNegative, apply(x, 'add', [given, size]), given);
  const spread = x.build.view(places, indices.dims.toSpliced(axis, 0, 1));
  const mask = mapped(x, 'equal', [spread, counting(x, depth, axis, rank)], 'bool');
  return choose(x, mask, x.build.view(values, [], 1), x.build.view(values, [], 0));
};

/** Of each batch as many elements as it is long, the other way round. */
const reverseSequence: Lower = (x) => {
  const input = x.input(0);
  const rank = input.dims.length;
  const [batch, time] = [integer(x.node, 'batch_axis', 1), integer(x.node, 'time_axis', 0)];
  if (rank < 2 || batch + time !== 1) throw x.invalid(`has batch_axis ${batch} and time_axis ${time}`);
  const lengths = x.input(1);
  if (lengths.dims[0] !== input.dims[batch]) throw x.invalid(`has ${shapeOf(lengths)} for ${shapeOf(input)}`);
  const ends = x.build.view(lengths, new Array<number>(rank).fill(1).with(batch, lengths.dims[0]!));
  const steps = counting(x, input.dims[time]!, time, rank);
  const back = apply(x, 'subtract', [apply(x, 'subtract', [ends, scalar(x, 'int64', 1)]), steps]);
  const places = choose(x, mapped(x, 'less', [steps, ends], 'bool'), back, steps);
  return takeElements(x, input, time, places, input.dims);
};

/** Elements go back to where a MaxPool found them, which counts in the tensor that the attributes say. */
const maxUnpool: Lower = (x) => {
  const [values, indices] = [x.input(0), x.input(1)];
  const rank = values.dims.length - 2;
  const filter = integersOf(x, 'kernel_shape', rank, false);
  const strides = integersOf(x, 'strides', rank);
  const pads = counts(x, 'pads', 2 * rank);
  const spatial = filter.map((extent, i) => {
    return (values.dims[i + 2]! - 1) * strides[i]! + extent - pads[i]! - pads[i + rank]!;
  });
  const dims = [...values.dims.slice(0, 2), ...spatial];
  if (values.dims.join() !== indices.dims.join())
    throw x.invalid(`has ${shapeOf(indices)} for ${shapeOf(values)}`);
  const data = repeated(x, scalar(x, values.type, 0), dims);
  const flat = x.build.view(data, [sizeOf(dims)]);
  // Here a negative index does not count from the end: it is out of range.
  const isNegative = mapped(x, 'less', [indices, scalar(x, 'int64', 0)], 'bool');
  const places = choose(x, isNegative, scalar(x, 'int64', sizeOf(dims)), indices);
  const [maps, size] = [values.dims[0]! * values.dims[1]!, sizeOf(values.dims.slice(2))];
  emitIndexed(x, {
    ...{ mode: 'assign', axes: [0], indices: places, data: flat, values },
    // An element goes back to its own map, where windows overlap more than once.
    free: { extents: [maps], valueStrides: [size], dataStrides: [0], indexStrides: [size] },
    serial: { extents: [size], valueStrides: [1], dataStrides: [0], indexStrides: [1] },
  });
  const wanted = x.optionalNumbers(2);
  if (wanted === undefined || wanted.join() === dims.join()) return data;
  if (wanted.length !== dims.length || wanted.some((extent, axis) => extent < dims[axis]!)) {
    throw x.invalid(`brings ${shapeOf(data)} to [${wanted.join(', ')}]`);
  }
  const output = repeated(x, scalar(x, values.type, 0), wanted);
  x.build.copy(data, dims, stridesOf(dims), output, stridesOf(wanted));
  return output;
};

function integersOf(x: Lowering, name: string, rank: number, isOptional = true): readonly number[] {
  if (!isOptional) integers(x.node, name);
  const given = x.node.attributes.has(name) ? counts(x, name, rank) : new Array<number>(rank).fill(1);
  if (given.every((value) => value >= 1)) return given;
  throw x.invalid(`has ${name} [${given.join(', ')}]; it takes ${rank} positive integers`);
}

/** What is added up or multiplied is rounded once, and what is not stays as it is. */
function scatter(lower: Lower): Lower {
  const { inFloats } = withHalves({ inFloats: lower });
  return (x) => (['add', 'multiply'].includes(scatterMode(x)) ? inFloats! : lower)(x);
}

export const indexing: Record<string, Lower> = {
  CumProd: cumulative('product'),
  CumSum: cumulative('sum'),
  EyeLike: eyeLike,
  GatherElements: gatherElements,
  GatherND: gatherND,
  MaxUnpool: maxUnpool,
  OneHot: oneHot,
  ReverseSequence: reverseSequence,
  Scatter: scatterElements,
  ScatterElements: scatter(scatterElements),
  ScatterND: scatter(scatterND),
  TensorScatter: tensorScatter,
  TopK: topK,
  Trilu: trilu,
};

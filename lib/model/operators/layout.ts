/** Elements in other places, or under other dims. */
import { MAX_INT32 } from '../../check';
import type { Sliced } from '../../slices';
import { flag, float, integer, integers, string, tensor } from '../attributes';
import { shapeOf } from '../builder';
import { elementType } from '../element_types';
import type { ConstantTensor } from '../graph';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { packedBits } from '../../tensor/packed';
import type { DataType } from '../../tensor/tensor';
import { typedArray } from '../typed_constants';
import { broadcastDims, broadcastStrides, bytesOf, extentOf, sizeOf, stridesOf, type Value } from '../values';
import { castTo } from './casts';
import { asType, scalar } from './typed';

const identity: Lower = (x) => x.input(0);

/** At inference nothing is dropped; the mask, where anybody wants it, is all true. */
const dropout: Lower = (x) => {
  const input = x.input(0);
  if (x.optional(2) !== undefined && x.numbers(2)[0] !== 0) throw unsupportedNode(x.node, 'trains');
  if (!x.hasOutput(1)) return input;
  // Until opset 10 the mask was of the data's type.
  if (x.opset < 10)
    return [input, filled(x, { type: input.type, dims: [], data: typedArray(input.type, [1]) }, input.dims)];
  return [input, filled(x, { type: 'bool', dims: [], data: Uint8Array.of(1) }, input.dims)];
};

/** A tensor whose elements are all the same. */
function filled(x: Lowering, filling: ConstantTensor, dims: readonly number[]): Value {
  return repeated(
    x,
    x.derive(`filling of ${filling.type}`, [], () => filling),
    dims,
  );
}

const reshape: Lower = (x) => {
  const input = x.input(0);
  const keepsZeros = flag(x.node, 'allowzero', false);
  const wanted = x.numbers(1).map((extent, i) => (extent === 0 && !keepsZeros ? input.dims[i]! : extent));
  const known = wanted.filter((extent) => extent !== -1).reduce((product, extent) => product * extent, 1);
  const dims = wanted.map((extent) => (extent === -1 ? sizeOf(input.dims) / known : extent));
  const isLegal = dims.every((extent) => Number.isInteger(extent) && extent >= 0);
  const isOpen = wanted.filter((extent) => extent === -1).length > 1;
  if (!isLegal || isOpen || sizeOf(dims) !== sizeOf(input.dims)) {
    throw x.invalid(`cannot bring ${shapeOf(input)} to [${x.numbers(1).join(', ')}]`);
  }
  return x.build.view(input, dims);
};

const flatten: Lower = (x) => {
  const { dims } = x.input(0);
  const axis = integer(x.node, 'axis', 1);
  const split = axis === dims.length ? axis : x.axis(axis, dims.length);
  return x.build.view(x.input(0), [extentOf(dims, 0, split), extentOf(dims, split, dims.length)]);
};

/** An attribute before that opset, an input since. */
function axesOf(x: Lowering): readonly number[] | undefined {
  return x.opset < 13 ? (integers(x.node, 'axes', null) ?? undefined) : x.optionalNumbers(1);
}

const squeeze: Lower = (x) => {
  const { dims } = x.input(0);
  const axes = axesOf(x)?.map((axis) => x.axis(axis, dims.length));
  const goes = (extent: number, axis: number) => axes?.includes(axis) ?? extent === 1;
  if (dims.some((extent, axis) => goes(extent, axis) && extent !== 1)) {
    throw x.invalid(`takes axes of extent 1 away from ${shapeOf(x.input(0))}, not [${axes!.join(', ')}]`);
  }
  return x.build.view(
    x.input(0),
    dims.filter((extent, axis) => !goes(extent, axis)),
  );
};

const unsqueeze: Lower = (x) => {
  const { dims } = x.input(0);
  const given = axesOf(x);
  if (given === undefined) throw x.invalid('has no axes');
  const rank = dims.length + given.length;
  const axes = new Set(x.axes(given, rank));
  const rest = dims[Symbol.iterator]();
  const widened = Array.from({ length: rank }, (_, axis) => (axes.has(axis) ? 1 : rest.next().value!));
  return x.build.view(x.input(0), widened);
};

const transpose: Lower = (x) => {
  const rank = x.input(0).dims.length;
  const order = integers(x.node, 'perm', null) ?? Array.from({ length: rank }, (_, i) => rank - 1 - i);
  const isOrder = order.length === rank && new Set(order).size === rank;
  if (!isOrder || order.some((axis) => axis < 0 || axis >= rank)) {
    throw x.invalid(`has perm [${order.join(', ')}] for ${shapeOf(x.input(0))}`);
  }
  return x.build.transpose(x.input(0), order);
};

const concat: Lower = (x) => join(x, x.inputs, x.axis(integer(x.node, 'axis'), x.input(0).dims.length));

/** One behind the other along an axis. */
export function join(x: Lowering, inputs: readonly Value[], axis: number): Value {
  const first = inputs[0]!;
  const fits = ({ type, dims }: Value) =>
    type === first.type &&
    dims.length === first.dims.length &&
    dims.every((extent, i) => i === axis || extent === first.dims[i]);
  if (!inputs.every(fits))
    throw x.invalid(`cannot join ${inputs.map(shapeOf).join(' and ')} on axis ${axis}`);
  const extent = inputs.reduce((sum, { dims }) => sum + dims[axis]!, 0);
  const output = x.build.scratch(first.type, first.dims.with(axis, extent));
  const strides = stridesOf(output.dims);
  let start = 0;
  for (const input of inputs) {
    x.build.copy(input, input.dims, stridesOf(input.dims), output, strides, 0, start * strides[axis]!);
    start += input.dims[axis]!;
  }
  return output;
}

/** `count` positions of axes from `start` on, every `step`-th. */
export function along(x: Lowering, input: Value, parts: readonly Part[]): Value {
  const strides = stridesOf(input.dims);
  const dims = [...input.dims];
  const steps = [...strides];
  let first = 0;
  for (const { axis, start, step, count } of parts) {
    dims[axis] = count;
    first += start * strides[axis]!;
    steps[axis] = strides[axis]! * step;
  }
  return isDense(dims, steps)
    ? x.build.view(input, dims, first)
    : x.build.gatherStrided(input, dims, steps, first);
}

interface Part {
  readonly axis: number;
  readonly start: number;
  readonly step: number;
  readonly count: number;
}

/** Whether these strides are those of a tensor of these dims, where an axis has more than one position. */
function isDense(dims: readonly number[], strides: readonly number[]): boolean {
  const dense = stridesOf(dims);
  return dims.includes(0) || dims.every((extent, axis) => extent === 1 || strides[axis] === dense[axis]);
}

const split: Lower = (x) => {
  const input = x.input(0);
  const axis = x.axis(integer(x.node, 'axis', 0), input.dims.length);
  const given = x.opset < 13 ? integers(x.node, 'split', null) : x.optionalNumbers(1);
  const parts = x.opset < 18 ? null : integer(x.node, 'num_outputs', null);
  if (parts !== null && (given || parts !== x.node.outputs.length)) {
    throw x.invalid(
      `splits into ${parts} by num_outputs and has ${given ? 'sizes, too' : `${x.node.outputs.length} outputs`}`,
    );
  }
  const counts = given ?? evenly(input.dims[axis]!, x.node.outputs.length);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const isLegal = counts.length === x.node.outputs.length && counts.every((count) => count >= 0);
  if (!isLegal || total !== input.dims[axis]) {
    throw x.invalid(`splits axis ${axis} of ${shapeOf(input)} into [${counts.join(', ')}]`);
  }
  let start = 0;
  return counts.map((count) => {
    const part = along(x, input, [{ axis, start, step: 1, count }]);
    start += count;
    return part;
  });
};

/** The last part is the smaller one. */
function evenly(extent: number, parts: number): number[] {
  const most = Math.ceil(extent / parts);
  return Array.from({ length: parts }, (_, i) => Math.max(0, Math.min(most, extent - i * most)));
}

const slice: Lower = (x) => {
  const input = x.input(0);
  const byInput = x.opset >= 10;
  const starts = byInput ? x.numbers(1) : integers(x.node, 'starts');
  const ends = byInput ? x.numbers(2) : integers(x.node, 'ends');
  const axes = (byInput ? x.optionalNumbers(3) : integers(x.node, 'axes', null)) ?? starts.map((_, i) => i);
  const steps = (byInput ? x.optionalNumbers(4) : undefined) ?? starts.map(() => 1);
  if (ends.length !== starts.length || axes.length !== starts.length || steps.length !== starts.length) {
    throw x.invalid('has starts, ends, axes and steps of different lengths');
  }
  const parts = x
    .axes(axes, input.dims.length)
    .map((axis, i): Part => ({ axis, ...range(x, input.dims[axis]!, starts[i]!, ends[i]!, steps[i]!) }));
  return along(x, input, parts);
};

/** Negative positions count from the end, and all are brought to the nearest that there is. */
function range(x: Lowering, extent: number, start: number, end: number, step: number) {
  if (step === 0) throw x.invalid('has a step of 0');
  const [low, high] = step > 0 ? [0, extent] : [-1, extent - 1];
  const bring = (position: number) =>
    Math.min(high, Math.max(low, position < 0 ? position + extent : position));
  // Only an end may lie before the first element.
  const first = Math.max(bring(start), 0);
  const count = extent === 0 ? 0 : Math.max(0, Math.ceil((bring(end) - first) / step));
  // The step of one position leads nowhere, and may be as large as integers are.
  return { start: first, step: count > 1 ? step : 1, count };
}

const gather: Lower = (x) => {
  const [input, indices] = [x.input(0), x.input(1)];
  const axis = x.axis(integer(x.node, 'axis', 0), input.dims.length);
  const output = x.build.scratch(input.type, [
    ...input.dims.slice(0, axis),
    ...indices.dims,
    ...input.dims.slice(axis + 1),
  ]);
  gatherAlong(x, input, axis, asType(x, indices, 'int64'), output);
  return output;
};

function gatherAlong(x: Lowering, input: Value, axis: number, indices: Value, output: Value): void {
  x.build.emit({
    kind: 'gather',
    bytes: bytesOf(input.type),
    outer: extentOf(input.dims, 0, axis),
    axis: input.dims[axis]!,
    count: sizeOf(indices.dims),
    inner: extentOf(input.dims, axis + 1, input.dims.length),
    indices: indices.operand,
    input: input.operand,
    output: output.operand,
  });
}

/** Something for each of so many positions of an axis. */
export function* eachPosition<T>(x: Lowering, count: number, make: (position: number) => T): Sliced<T[]> {
  x.build.admitPositions(count);
  const made: T[] = [];
  for (let position = 0; position < count; position++) {
    if (position % POSITIONS_AT_ONCE === 0) yield;
    made.push(make(position));
  }
  return made;
}

/** They take a tenth of a millisecond to one. */
export const POSITIONS_AT_ONCE = 1024;

/** Elements of an axis in another order, or repeated. */
export function* takeAlong(
  x: Lowering,
  input: Value,
  axis: number,
  positions: ArrayLike<number>,
): Sliced<Value> {
  const data = new BigInt64Array(positions.length);
  for (let i = 0; i < data.length; i++) {
    if (i % POSITIONS_AT_ONCE === 0) yield;
    data[i] = BigInt(positions[i]!);
  }
  const indices = x.build.constant({ type: 'int64', dims: [positions.length], data });
  const output = x.build.scratch(input.type, input.dims.with(axis, positions.length));
  gatherAlong(x, input, axis, indices, output);
  return output;
}

const pad: Lower = (x) => {
  const input = x.input(0);
  const rank = input.dims.length;
  const pads = x.opset < 11 ? integers(x.node, 'pads') : x.numbers(1);
  const axes = x.opset < 18 ? undefined : x.optionalNumbers(3);
  const where = x.axes(axes ?? input.dims.map((_, axis) => axis), rank);
  if (pads.length !== 2 * where.length) {
    throw x.invalid(`has ${pads.length} pads for ${where.length} axes`);
  }
  const before = new Array<number>(rank).fill(0);
  const after = new Array<number>(rank).fill(0);
  where.forEach((axis, i) => {
    before[axis] = pads[i]!;
    after[axis] = pads[i + where.length]!;
  });
  const mode = string(x.node, 'mode', ['constant', 'reflect', 'edge', 'wrap'], 'constant');
  if (pads.every((count) => count === 0)) return input;
  return mode === 'constant'
    ? padWith(x, input, before, after, (dims) => padding(x, input.type, dims))
    : padByInput(x, input, before, after, mode);
};

/** @param filling - one element of the input's type */
export function padWith(
  x: Lowering,
  input: Value,
  before: readonly number[],
  after: readonly number[],
  filling: (dims: readonly number[]) => Value = (dims) => repeated(x, scalar(x, input.type, 0), dims),
): Value {
  const dims = input.dims.map((extent, axis) => extent + before[axis]! + after[axis]!);
  if (dims.some((extent) => extent < 0)) throw x.invalid(`takes more away than ${shapeOf(input)} has`);
  const output = filling(dims);
  // Negative pads cut the input.
  const kept = input.dims.map((extent, i) => extent + Math.min(0, before[i]!) + Math.min(0, after[i]!));
  const [from, to] = [stridesOf(input.dims), stridesOf(dims)];
  const firstOfInput = before.reduce((sum, count, i) => sum + Math.max(0, -count) * from[i]!, 0);
  const firstOfOutput = before.reduce((sum, count, i) => sum + Math.max(0, count) * to[i]!, 0);
  if (kept.every((extent) => extent > 0)) {
    x.build.copy(input, kept, from, output, to, firstOfInput, firstOfOutput);
  }
  return output;
}

/** A tensor of padding alone. */
function padding(x: Lowering, type: DataType, dims: readonly number[]): Value {
  const given = x.opset < 11 ? undefined : x.optional(2);
  const number = x.opset < 11 ? float(x.node, 'value', 0) : 0;
  const isKnown = given === undefined || given.constant !== undefined;
  if (type === 'float32' && isKnown) {
    const output = x.build.scratch(type, dims);
    const value = given === undefined ? number : x.numbers(2)[0]!;
    x.build.emit({ kind: 'fill', count: sizeOf(dims), value, output: output.operand });
    return output;
  }
  return repeated(x, given ?? scalar(x, type, number), dims);
}

/** Axes brought to other extents: as much is cut off, or added, on both ends; an odd element less before. */
const centerCropPad: Lower = (x) => {
  const input = x.input(0);
  const wanted = x.numbers(1);
  const rank = input.dims.length;
  const axes = x.axes(integers(x.node, 'axes', null) ?? input.dims.map((_, axis) => axis), rank);
  if (wanted.length !== axes.length) throw x.invalid(`has ${wanted.length} extents for ${axes.length} axes`);
  const [before, after] = [new Array<number>(rank).fill(0), new Array<number>(rank).fill(0)];
  axes.forEach((axis, i) => {
    const more = wanted[i]! - input.dims[axis]!;
    before[axis] = more < 0 ? -Math.floor(-more / 2) : Math.floor(more / 2);
    after[axis] = more - before[axis];
  });
  return padWith(x, input, before, after);
};

/** One element, everywhere. */
export function repeated(x: Lowering, value: Value, dims: readonly number[]): Value {
  return x.build.gatherStrided(
    value,
    dims,
    dims.map(() => 0),
  );
}

function* padByInput(
  x: Lowering,
  input: Value,
  before: readonly number[],
  after: readonly number[],
  mode: 'reflect' | 'edge' | 'wrap',
): Sliced<Value> {
  let value = input;
  for (const [axis, extent] of input.dims.entries()) {
    if (before[axis] === 0 && after[axis] === 0) continue;
    const count = extent + before[axis]! + after[axis]!;
    if (count < 0 || (extent === 0 && count > 0)) {
      throw x.invalid(`makes ${count} elements of the ${extent} along axis ${axis} of ${shapeOf(input)}`);
    }
    const positions = yield* eachPosition(x, count, (i) => sourceOf(i - before[axis]!, extent, mode));
    value = yield* takeAlong(x, value, axis, positions);
  }
  return value;
}

function sourceOf(position: number, extent: number, mode: 'reflect' | 'edge' | 'wrap'): number {
  if (mode === 'edge' || extent === 1) return Math.min(extent - 1, Math.max(0, position));
  const period = mode === 'wrap' ? extent : 2 * (extent - 1);
  const within = ((position % period) + period) % period;
  return within < extent ? within : period - within;
}

const expand: Lower = (x) => {
  const input = x.input(0);
  const wanted = x.numbers(1);
  const dims = wanted.every((extent) => extent >= 0) ? broadcastDims(input.dims, wanted) : undefined;
  if (dims === undefined) throw x.invalid(`cannot expand ${shapeOf(input)} to [${wanted.join(', ')}]`);
  if (sizeOf(dims) === sizeOf(input.dims)) return x.build.view(input, dims);
  return x.build.gatherStrided(input, dims, broadcastStrides(input.dims, dims));
};

const tile: Lower = (x) => {
  const input = x.input(0);
  const repeats = x.numbers(1);
  if (repeats.length !== input.dims.length || repeats.some((count) => count < 0)) {
    throw x.invalid(`repeats ${shapeOf(input)} [${repeats.join(', ')}] times`);
  }
  // Each axis as two, the outer one repeated.
  const dims = input.dims.flatMap((extent, axis) => [repeats[axis]!, extent]);
  const strides = stridesOf(input.dims).flatMap((stride) => [0, stride]);
  const tiled = x.build.gatherStrided(input, dims, strides);
  return x.build.view(
    tiled,
    input.dims.map((extent, axis) => extent * repeats[axis]!),
  );
};

const cast: Lower = (x) => {
  const type = elementType(integer(x.node, 'to'));
  if (type === undefined) throw unsupportedNode(x.node, `casts to ONNX's type ${integer(x.node, 'to')}`);
  return castTo(x, x.input(0), type);
};

const widthOf = (type: DataType) => packedBits(type) ?? 8 * bytesOf(type);

/** The same bits. */
const bitCast: Lower = (x) => {
  const input = x.input(0);
  const type = elementType(integer(x.node, 'to'));
  if (type === undefined) throw unsupportedNode(x.node, `makes ONNX's type ${integer(x.node, 'to')}`);
  if (widthOf(type) !== widthOf(input.type))
    throw x.invalid(`takes the bits of ${shapeOf(input)} for ${type}`);
  const as = (value: Value, other: DataType): Value => {
    return { type: other, dims: value.dims, operand: value.operand };
  };
  const bits = packedBits(type);
  if (bits === undefined) return as(input, type);
  // Each element has a byte, which an integer with a sign fills: through the type without one.
  const unsigned = bits === 4 ? 'uint4' : 'uint2';
  const hasSign = (one: DataType) => one === 'int4' || one === 'int2';
  const codes = hasSign(input.type) ? x.build.cast(input, unsigned) : as(input, unsigned);
  return hasSign(type) ? x.build.cast(codes, type) : as(codes, type);
};

const castLike: Lower = (x) => castTo(x, x.input(0), x.input(1).type);

function blockSize(x: Lowering): number {
  const block = integer(x.node, 'blocksize');
  if (block >= 1 && block <= MAX_INT32) return block;
  throw x.invalid(`has blocksize ${block}; it takes a positive integer`);
}

const depthToSpace: Lower = (x) => {
  const input = x.input(0);
  x.requireRank(input, 4);
  const [n, c, h, w] = input.dims as [number, number, number, number];
  const block = blockSize(x);
  const mode = string(x.node, 'mode', ['DCR', 'CRD'], 'DCR');
  const channels = c / block ** 2;
  if (!Number.isInteger(channels)) throw x.invalid(`makes blocks of ${block} x ${block} of ${c} channels`);
  const split = mode === 'DCR' ? [n, block, block, channels, h, w] : [n, channels, block, block, h, w];
  const order = mode === 'DCR' ? [0, 3, 4, 1, 5, 2] : [0, 1, 4, 2, 5, 3];
  const moved = x.build.transpose(x.build.view(input, split), order);
  return x.build.view(moved, [n, channels, h * block, w * block]);
};

const spaceToDepth: Lower = (x) => {
  const input = x.input(0);
  x.requireRank(input, 4);
  const [n, c, h, w] = input.dims as [number, number, number, number];
  const block = blockSize(x);
  const [p, q] = [h / block, w / block];
  if (!Number.isInteger(p) || !Number.isInteger(q)) {
    throw x.invalid(`makes blocks of ${block} x ${block} of maps of ${h} x ${w}`);
  }
  const mode = string(x.node, 'mode', ['DCR', 'CRD'], 'DCR');
  const order = mode === 'DCR' ? [0, 3, 5, 1, 2, 4] : [0, 1, 3, 5, 2, 4];
  const moved = x.build.transpose(x.build.view(input, [n, c, p, block, q, block]), order);
  return x.build.view(moved, [n, c * block ** 2, p, q]);
};

/** A tensor of one value, of dims that are known only now. */
const constantOfShape: Lower = (x) => {
  const filling = tensor(x.node, 'value', null) ?? { type: 'float32', dims: [1], data: new Float32Array(1) };
  const size = sizeOf(filling.dims);
  if (size !== 1) throw x.invalid(`takes one element as 'value', got ${size}`);
  return filled(x, filling, x.numbers(0));
};

/** The second input with as many axes of extent 1 behind its own as bring them to those of the first from `axis` on. */
function alignedTo(x: Lowering, axis: number): Value {
  const [left, right] = [x.input(0), x.input(1)];
  if (sizeOf(right.dims) === 1) return right;
  const behind = left.dims.length - axis - right.dims.length;
  if (behind < 0) throw x.invalid(`brings ${shapeOf(right)} to axis ${axis} of ${shapeOf(left)}`);
  const dims = [...right.dims, ...new Array<number>(behind).fill(1)];
  const { constant } = right;
  if (constant === undefined) return x.build.view(right, dims);
  return x.derive(`aligned to [${dims.join()}]`, [right], () => ({ ...constant, dims }));
}

const alignAxis: Lower = (x) => alignedTo(x, x.axis(integer(x.node, 'axis'), x.input(0).dims.length));

/** A list is along the axis of channels; what has more axes is broadcast as it is. */
const alignChannels: Lower = (x) => {
  const isList = x.input(1).dims.length === 1 && x.input(0).dims.length > 1;
  return isList ? alignedTo(x, 1) : x.input(1);
};

/** How opsets before 7 broadcast. */
export const olderLayout: Record<string, Lower> = { AlignAxis: alignAxis, AlignChannels: alignChannels };

export const layout: Record<string, Lower> = {
  BitCast: bitCast,
  Cast: cast,
  CastLike: castLike,
  CenterCropPad: centerCropPad,
  Concat: concat,
  ConstantOfShape: constantOfShape,
  DepthToSpace: depthToSpace,
  Dropout: dropout,
  Expand: expand,
  Flatten: flatten,
  Gather: gather,
  Identity: identity,
  Pad: pad,
  Reshape: reshape,
  Slice: slice,
  SpaceToDepth: spaceToDepth,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};

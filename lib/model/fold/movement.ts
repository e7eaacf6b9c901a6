/** Operators that move elements: each of the result's is one of the input's. */
import { describe, elementCount } from '../../check';
import type { Sliced } from '../../slices';
import { integer, integers } from '../attributes';
import { invalidNode } from '../refusals';
import type { Operands } from './operands';
import { build, moved, offsetOf, roomFor, stridesOf, type Value } from './values';

export function transpose(operands: Operands): Sliced<Value> {
  const value = operands.value(0);
  const { dims } = value;
  const reversed = dims.map((_, axis) => dims.length - 1 - axis);
  const order = operands.axes(integers(operands.node, 'perm', reversed), dims.length);
  if (order.length !== dims.length) throw operands.invalid(`permutes ${order.length} axes of ${dims.length}`);
  const strides = stridesOf(dims);
  const permuted = (list: readonly number[]) => order.map((axis) => list[axis]!);
  return moved(value, permuted(dims), 0, permuted(strides));
}

export function concat(operands: Operands): Value {
  const values = operands.alike();
  const [{ type, dims }] = values;
  const axis = operands.axisAttribute(dims.length);
  const extents = values.map((value) => value.dims[axis] ?? 0);
  const joined = dims.with(
    axis,
    extents.reduce((sum, extent) => sum + extent, 0),
  );
  for (const [index, value] of values.entries()) {
    if (value.dims.join() === dims.with(axis, extents[index]!).join()) continue;
    throw operands.invalid(
      `cannot join dims ${describe(value.dims)} to ${describe(dims)} along axis ${axis}`,
    );
  }
  const elements = roomFor(type, joined);
  let next = 0;
  const inner = elementCount(dims.slice(axis + 1));
  // Without elements there may be any number of rows.
  const rows = elements.length === 0 ? 0 : elementCount(dims.slice(0, axis));
  for (let outer = 0; outer < rows; outer++) {
    values.forEach((value, index) => {
      const length = extents[index]! * inner;
      const end = (outer + 1) * length;
      for (let at = outer * length; at < end; at++) elements[next++] = value.elements[at]!;
    });
  }
  return { type, dims: joined, elements };
}

export function gather(operands: Operands): Sliced<Value> {
  const { type, dims, elements } = operands.value(0);
  const indices = operands.value(1);
  const axis = operands.axisAttribute(dims.length, 0);
  const extent = dims[axis]!;
  const places = Array.from(indices.elements, (index) => {
    const place = Number(index) < 0 ? Number(index) + extent : Number(index);
    if (Number.isInteger(place) && place >= 0 && place < extent) return place;
    throw operands.invalid(`takes element ${index} along an axis of ${extent}`);
  });
  const strides = stridesOf(dims);
  const indexStrides = stridesOf(indices.dims);
  const [before, after] = [dims.slice(0, axis), dims.slice(axis + 1)];
  const afterIndices = axis + indices.dims.length;
  return build(type, [...before, ...indices.dims, ...after], (at) => {
    const place = places[offsetOf(at.slice(axis, afterIndices), indexStrides)]!;
    return elements[offsetOf([...at.slice(0, axis), place, ...at.slice(afterIndices)], strides)]!;
  });
}

export function slice(operands: Operands): Sliced<Value> {
  const value = operands.value(0);
  const rank = value.dims.length;
  const starts = requiredList(operands, 'starts', 1);
  const ends = requiredList(operands, 'ends', 2);
  const axes = operands.axes(operands.optionalList('axes', 3) ?? starts.map((_, axis) => axis), rank);
  const steps = operands.has(4) ? operands.list(4) : starts.map(() => 1);
  if ([ends, axes, steps].some((list) => list.length !== starts.length)) {
    throw operands.invalid('has starts, ends, axes and steps of different lengths');
  }
  if (steps.includes(0)) throw operands.invalid('has a step of 0');
  const runs = value.dims.map((extent): Run => ({ start: 0, step: 1, count: extent }));
  axes.forEach((axis, index) => {
    runs[axis] = runOf(value.dims[axis]!, starts[index]!, ends[index]!, steps[index]!);
  });
  return take(value, runs);
}

function requiredList(operands: Operands, attribute: string, index: number): readonly number[] {
  const list = operands.optionalList(attribute, index);
  if (list === undefined) throw operands.invalid(`has no ${attribute}`);
  return list;
}

/** Some elements along one axis. */
interface Run {
  readonly start: number;
  readonly step: number;
  readonly count: number;
}

/** Negative ends count from the back; what lies beyond the axis is cut off. */
function runOf(extent: number, from: number, to: number, step: number): Run {
  const [first, last] = step > 0 ? [0, extent] : [-1, extent - 1];
  const place = (end: number) => Math.min(Math.max(end < 0 ? end + extent : end, first), last);
  // Only an end may lie before the first element.
  const start = Math.min(Math.max(place(from), 0), last);
  return { start, step, count: Math.max(Math.ceil((place(to) - start) / step), 0) };
}

function take(value: Value, runs: readonly Run[]): Sliced<Value> {
  const strides = stridesOf(value.dims);
  const origin = offsetOf(
    runs.map(({ start }) => start),
    strides,
  );
  const steps = strides.map((stride, axis) => stride * runs[axis]!.step);
  return moved(
    value,
    runs.map(({ count }) => count),
    origin,
    steps,
  );
}

export function* split(operands: Operands): Sliced<Value[]> {
  const value = operands.value(0);
  const axis = operands.axisAttribute(value.dims.length, 0);
  const extent = value.dims[axis]!;
  const given = operands.optionalList('split', 1);
  const { outputs, attributes } = operands.node;
  if (given !== undefined && attributes.has('num_outputs')) {
    throw operands.invalid('has both sizes and num_outputs');
  }
  const sizes = given ?? evenParts(operands, extent);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (sizes.length !== outputs.length || total !== extent || sizes.some((size) => size < 0)) {
    throw operands.invalid(
      `cannot split an axis of ${extent} into ${describe(sizes)}, ${outputs.length} outputs`,
    );
  }
  const parts: Value[] = [];
  let start = 0;
  for (const count of sizes) {
    const runs = value.dims.map((whole, other): Run =>
      other === axis ? { start, step: 1, count } : { start: 0, step: 1, count: whole },
    );
    start += count;
    parts.push(yield* take(value, runs));
  }
  return parts;
}

/** The last part may be smaller. */
function evenParts({ node }: Operands, extent: number): number[] {
  const parts = integer(node, 'num_outputs', node.outputs.length);
  if (parts !== node.outputs.length) {
    throw invalidNode(node, `has num_outputs ${parts} and ${node.outputs.length} outputs`);
  }
  const size = Math.ceil(extent / parts);
  return node.outputs.map((_, index) => Math.max(Math.min(size, extent - index * size), 0));
}

export function tile(operands: Operands): Sliced<Value> {
  const { type, dims, elements } = operands.value(0);
  const repeats = operands.list(1);
  if (repeats.length !== dims.length || repeats.some((count) => count < 0)) {
    throw operands.invalid(`cannot repeat dims ${describe(dims)} ${describe(repeats)} times`);
  }
  const strides = stridesOf(dims);
  return build(
    type,
    dims.map((extent, axis) => extent * repeats[axis]!),
    (at) =>
      elements[
        offsetOf(
          at.map((place, axis) => place % dims[axis]!),
          strides,
        )
      ]!,
  );
}

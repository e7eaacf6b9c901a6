/** Operators whose number of output elements depends on the elements of their inputs. */
import { elementCount } from '../../check';
import { flag, integer } from '../attributes';
import type { ConstantTensor } from '../graph';
import { invalidNode } from '../refusals';
import type { Hosted } from './hosted';
import { around, axisOf, elementsOf, int64s, required, takeSlices, zeros } from './tensors';
import { decoded } from '../../tensor/small_floats';
import { typedArray } from '../typed_constants';

/** The coordinates of the elements that are not zero, one row for each axis. A scalar counts as of one axis. */
export const nonZero: Hosted = (node, inputs) => {
  const input = required(node, inputs, 0);
  const dims = input.dims.length === 0 ? [1] : input.dims;
  const numbers = numbersOf(input);
  const places: number[] = [];
  for (let i = 0; i < numbers.length; i++) if (Number(numbers[i]) !== 0) places.push(i);
  const output = zeros('int64', [dims.length, places.length]);
  let stride = 1;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    for (const [i, place] of places.entries()) {
      output.data[axis * places.length + i] = BigInt(Math.floor(place / stride) % dims[axis]!);
    }
    stride *= dims[axis]!;
  }
  return [output];
};

/** Comparable numbers of any type. */
function numbersOf({ type, data }: ConstantTensor): ArrayLike<number | bigint> {
  return decoded(type, data);
}

export const range: Hosted = (node, inputs) => {
  const { type } = required(node, inputs, 0);
  const [start, limit, delta] = [0, 1, 2].map((i) => numbersOf(required(node, inputs, i))[0]!);
  if (Number(delta) === 0) throw invalidNode(node, 'has a step of 0');
  const count = stepsBetween(start!, limit!, delta!);
  if (!(count <= MOST_ELEMENTS)) {
    throw invalidNode(node, `goes from ${start} to ${limit} by ${delta}, which makes ${count} elements`);
  }
  const numbers = Array.from({ length: count }, (_, i) => place(start!, delta!, i));
  return [{ type, dims: [count], data: typedArray(type, numbers) } as ConstantTensor];
};

/** Of a range, which is a list of indices mostly: more would not fit into the longest typed array. */
const MOST_ELEMENTS = 2 ** 32;

/** Bounds are of one type. */
function stepsBetween(start: number | bigint, limit: number | bigint, delta: number | bigint): number {
  if (typeof start !== 'bigint') return Math.max(0, Math.ceil((Number(limit) - start) / Number(delta)));
  const distance = (limit as bigint) - start;
  const whole = distance / (delta as bigint);
  return Math.max(0, Number(whole * (delta as bigint) === distance ? whole : whole + 1n));
}

function place(start: number | bigint, delta: number | bigint, i: number): number | bigint {
  return typeof start === 'bigint' ? start + BigInt(i) * (delta as bigint) : start + i * Number(delta);
}

/** The slices of an axis, or the elements, for which the condition holds. */
export const compress: Hosted = (node, inputs) => {
  const [input, condition] = [required(node, inputs, 0), required(node, inputs, 1)];
  const axis = integer(node, 'axis', null);
  const tensor = axis === null ? { ...input, dims: [input.data.length] } : input;
  const along = axis === null ? 0 : axisOf(node, axis, input.dims.length);
  const extent = tensor.dims[along]!;
  const places = Array.from({ length: Math.min(extent, condition.data.length) }, (_, i) => i);
  return [
    takeSlices(
      tensor as ConstantTensor,
      along,
      places.filter((i) => elementsOf(condition)[i] !== 0),
    ),
  ];
};

/** The different elements, or slices of an axis; where each is first, which each element is, and how often each is there. */
export const unique: Hosted = (node, inputs) => {
  const input = required(node, inputs, 0);
  const given = integer(node, 'axis', null);
  const axis = given === null ? 0 : axisOf(node, given, input.dims.length);
  const tensor = (given === null ? { ...input, dims: [elementCount(input.dims)] } : input) as ConstantTensor;
  const slices = slicesOf(tensor, axis);
  const groups = new Map<string, number[]>();
  for (const [i, slice] of slices.entries()) {
    const key = slice.join();
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [i]);
    else group.push(i);
  }
  const found = [...groups.values()];
  if (flag(node, 'sorted', true)) found.sort((a, b) => compare(slices[a[0]!]!, slices[b[0]!]!));
  const inverse = new Array<number>(slices.length);
  for (const [place, group] of found.entries()) for (const i of group) inverse[i] = place;
  const firsts = found.map(([first]) => first!);
  return [
    takeSlices(tensor, axis, firsts),
    int64s([firsts.length], firsts),
    int64s([inverse.length], inverse),
    int64s(
      [found.length],
      found.map(({ length }) => length),
    ),
  ];
};

function slicesOf(tensor: ConstantTensor, axis: number): (number | bigint)[][] {
  const { outer, extent, inner } = around(tensor.dims, axis);
  const numbers = numbersOf(tensor);
  return Array.from({ length: extent }, (_, i) =>
    Array.from({ length: outer * inner }, (_, j) => {
      return numbers[(Math.floor(j / inner) * extent + i) * inner + (j % inner)]!;
    }),
  );
}

function compare(a: readonly (number | bigint)[], b: readonly (number | bigint)[]): number {
  for (const [i, x] of a.entries()) {
    const y = b[i]!;
    // NaN is behind all numbers.
    const order = Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || Number(x > y) - Number(x < y);
    if (order !== 0) return order;
  }
  return 0;
}

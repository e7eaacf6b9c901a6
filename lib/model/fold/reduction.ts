/** Operators that make one element of all along some axes. */
import { elementCount } from '../../check';
import type { MaybeSliced, Sliced } from '../../slices';
import { flag } from '../attributes';
import type { Operands } from './operands';
import {
  checkSmall,
  greatest,
  isFloat,
  least,
  LeftAlone,
  offsetOf,
  stridesOf,
  walk,
  wrap,
  type Scalar,
  type Value,
} from './values';

type Combine = <T extends Scalar>(a: T, b: T) => T;

const sum = (a: Scalar, b: Scalar) => (a as number) + (b as number);
const product = (a: Scalar, b: Scalar) => (a as number) * (b as number);

export const reduceSum = reduction(sum as Combine, 0);
export const reduceProd = reduction(product as Combine, 1);
export const reduceMin = reduction(least);
export const reduceMax = reduction(greatest);

/** @param empty - the result for no elements at all, where there is one */
function reduction(combine: Combine, empty?: number): (operands: Operands) => MaybeSliced<Value> {
  return (operands) => {
    const value = operands.value(0);
    const given = operands.optionalList('axes', 1) ?? [];
    if (given.length === 0 && flag(operands.node, 'noop_with_empty_axes', false)) return value;
    const rank = value.dims.length;
    const axes = new Set(given.length === 0 ? value.dims.keys() : operands.axes(given, rank));
    return reduce(value, axes, flag(operands.node, 'keepdims', true), combine, empty);
  };
}

function* reduce(
  { type, dims, elements }: Value,
  axes: ReadonlySet<number>,
  keepsAxes: boolean,
  combine: Combine,
  empty: number | undefined,
): Sliced<Value> {
  const kept = dims.map((extent, axis) => (axes.has(axis) ? 1 : extent));
  checkSmall(kept);
  const strides = stridesOf(kept).map((stride, axis) => (axes.has(axis) ? 0 : stride));
  const results = Array<Scalar | undefined>(elementCount(kept)).fill(undefined);
  yield* walk(dims, (at, index) => {
    const place = offsetOf(at, strides);
    const [before, element] = [results[place], elements[index]!];
    results[place] = before === undefined ? element : wrap(type, combine(before, element));
  });
  const filled = results.map((result) => {
    if (result !== undefined) return result;
    if (empty === undefined) throw new LeftAlone('the least or greatest of no elements');
    return isFloat(type) ? empty : BigInt(empty);
  });
  return { type, dims: keepsAxes ? kept : dims.filter((_, axis) => !axes.has(axis)), elements: filled };
}

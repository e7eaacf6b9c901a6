/** Sums and products of what lies before each element along an axis. */
import type { Operator } from './elementwise';
import { arithmeticOf, wrap } from './precision';
import {
  axisOf,
  forEachIndex,
  Illegal,
  isFloat,
  offsetOf,
  stridesOf,
  type ElementType,
  type Scalar,
} from './tensor';

const ANYTHING = NaN;

/** A total and by how much it may be off */
type Judged = readonly [total: Scalar, allowed: number];

/** The totals of the first elements of a line: of none, of one and so on. */
type Totals = (type: ElementType, line: readonly Scalar[]) => Judged[];

const sums: Totals = (type, line) => {
  if (!isFloat(type)) return integerTotals(type, line, 0n, (a, b) => a + b);
  const { extreme, unit } = arithmeticOf(type);
  let [sum, size] = [0, 0];
  const totals: Judged[] = [[0, 0]];
  line.forEach((x, i) => {
    sum += x as number;
    size += Number.isFinite(x as number) ? Math.abs(x as number) : 0;
    // One addition after the other, each of them rounded, here as there. The first is to nothing.
    totals.push([sum, size > extreme ? ANYTHING : 2 * i * unit * size]);
  });
  return totals;
};

const products: Totals = (type, line) => {
  if (!isFloat(type)) return integerTotals(type, line, 1n, (a, b) => a * b);
  const { extreme, unit } = arithmeticOf(type);
  let [product, isOpen] = [1, false];
  const totals: Judged[] = [[1, 0]];
  line.forEach((x, i) => {
    product *= x as number;
    const magnitude = Math.abs(product);
    // What has left the range of the floats does not come back to where it was.
    isOpen ||= product !== 0 && Number.isFinite(product) && (magnitude > extreme || magnitude < 1 / extreme);
    const isExact = i === 0 || product === 0 || !Number.isFinite(product);
    totals.push([product, isOpen ? ANYTHING : isExact ? 0 : 2 * i * unit * magnitude]);
  });
  return totals;
};

function integerTotals(
  type: ElementType,
  line: readonly Scalar[],
  none: bigint,
  combine: (a: bigint, b: bigint) => bigint,
): Judged[] {
  const totals: Judged[] = [[none, 0]];
  let total = none;
  for (const x of line) {
    total = wrap(type, combine(total, x as bigint));
    totals.push([total, 0]);
  }
  return totals;
}

function scan(totalsOf: Totals): Operator {
  return (node) => {
    const [input, given] = [node.input(0), node.input(1)];
    if (given.data.length !== 1) throw new Illegal(`axes of [${given.dims}]`);
    if (given.dims.length > 0) node.tolerate();
    const { type, dims } = input;
    const axis = axisOf(Number(given.data[0]), dims.length);
    const [isExclusive, isReversed] = [node.flag('exclusive'), node.flag('reverse')];
    const strides = stridesOf(dims);
    const data = new Array<Scalar>(input.data.length);
    const allowed = new Array<number>(input.data.length);
    forEachIndex(dims.with(axis, Math.min(1, dims[axis]!)), (at) => {
      const first = offsetOf(at, strides);
      const line = Array.from({ length: dims[axis]! }, (_, i) => first + i * strides[axis]!);
      if (isReversed) line.reverse();
      const totals = totalsOf(
        type,
        line.map((place) => input.data[place]!),
      );
      line.forEach((place, i) => ([data[place], allowed[place]] = totals[isExclusive ? i : i + 1]!));
    });
    return [{ type, dims, data, allowed }];
  };
}

export const scanning: Readonly<Record<string, Operator>> = { CumProd: scan(products), CumSum: scan(sums) };

/** Operators that look at whole axes. */
import type { Operator } from './elementwise';
import { asNumbers, type Node } from './node';
import { highestOf, lowestOf, SUM_RULE, TINY, wrap } from './precision';
import {
  axesOf,
  axisOf,
  forEachIndex,
  Illegal,
  isFloat,
  offsetOf,
  requireSmall,
  sizeOf,
  stridesOf,
  Unjudged,
  type Dims,
  type ElementType,
  type RefTensor,
  type Scalar,
} from './tensor';

const ANYTHING = NaN;

/** A result and by how much it may be off. */
type Judged = readonly [y: number, allowed: number];

/** A number that is far from what a float32 can hold on the way, and so may come out as infinity or zero. */
const isExtreme = (size: number) => size > 2 ** 126;

function judgedSum(terms: readonly number[], divisor = 1): Judged {
  const total = terms.reduce((a, b) => a + b, 0);
  // Of the finite ones, of which a partial sum may overflow.
  const size = terms.reduce((a, b) => a + (Number.isFinite(b) ? Math.abs(b) : 0), 0);
  return [total / divisor, isExtreme(size) ? ANYTHING : SUM_RULE * (size / divisor) + TINY];
}

/** Of floats, for the elements of one group; `undefined` of none, where ONNX says nothing. */
const FLOATS: Readonly<Record<string, (terms: readonly number[]) => Judged>> = {
  ReduceL1: (terms) => judgedSum(terms.map(Math.abs)),
  ReduceL2: (terms) => rootOf(judgedSum(terms.map((x) => x * x)), terms.length),
  ReduceLogSum: (terms) => logarithmOf(judgedSum(terms), terms),
  ReduceMax: (terms) => [terms.reduce((a, b) => Math.max(a, b), -Infinity), 0],
  ReduceMean: (terms) => judgedSum(terms, terms.length),
  ReduceMin: (terms) => [terms.reduce((a, b) => Math.min(a, b), Infinity), 0],
  ReduceProd: judgedProduct,
  ReduceSum: (terms) => judgedSum(terms),
  ReduceSumSquare: (terms) => judgedSum(terms.map((x) => x * x)),
};

function rootOf([square, allowed]: Judged, terms: number): Judged {
  if (Number.isNaN(allowed)) return [square, ANYTHING];
  // Squares below the smallest float are lost.
  const lost = Math.sqrt(terms * 2 ** -125);
  return [Math.sqrt(square), Number.isFinite(square) ? SUM_RULE * Math.sqrt(square) + lost : 0];
}

function logarithmOf([sum, allowed]: Judged, terms: readonly number[]): Judged {
  if (terms.length === 0) return [-Infinity, 0];
  if (!Number.isFinite(sum)) return [Math.log(sum), allowed];
  // Of a sum that rounding may have made negative, or zero, or none.
  if (!(Math.abs(sum) > 4 * allowed) && terms.some((x) => x !== 0)) return [sum, ANYTHING];
  const y = Math.log(sum);
  return [y, sum > 0 ? (2 * allowed) / sum + SUM_RULE * Math.abs(y) : 0];
}

function judgedProduct(terms: readonly number[]): Judged {
  const y = terms.reduce((a, b) => a * b, 1);
  const exponents = terms.filter((x) => Number.isFinite(x) && x !== 0).map((x) => Math.log2(Math.abs(x)));
  const up = exponents.reduce((sum, exponent) => sum + Math.max(0, exponent), 0);
  const down = exponents.reduce((sum, exponent) => sum + Math.min(0, exponent), 0);
  // Some order of multiplications leaves what a float32 can hold.
  if (up > 126 || down < -125) return [y, ANYTHING];
  return [y, Number.isFinite(y) ? Math.abs(y) * (terms.length + 1) * 2 ** -23 : 0];
}

const INTEGERS: Readonly<
  Record<string, (type: ElementType, terms: readonly bigint[]) => Scalar | undefined>
> = {
  ReduceL1: (_, terms) => terms.reduce((a, b) => a + (b < 0n ? -b : b), 0n),
  ReduceMax: (type, terms) => terms.reduce((a, b) => (b > a ? b : a), lowestOf(type) as bigint),
  ReduceMin: (type, terms) => terms.reduce((a, b) => (b < a ? b : a), highestOf(type) as bigint),
  ReduceProd: (_, terms) => terms.reduce((a, b) => a * b, 1n),
  ReduceSum: (_, terms) => terms.reduce((a, b) => a + b, 0n),
  ReduceSumSquare: (_, terms) => terms.reduce((a, b) => a + b * b, 0n),
};

/** The elements of a tensor in groups, one for each place along the axes that are kept. */
function groupsOf(input: RefTensor, axes: readonly number[]): { dims: number[]; groups: number[][] } {
  const dims = input.dims.map((extent, axis) => (axes.includes(axis) ? 1 : extent));
  requireSmall(dims);
  const strides = stridesOf(dims).map((stride, axis) => (axes.includes(axis) ? 0 : stride));
  const groups = Array.from({ length: sizeOf(dims) }, (): number[] => []);
  forEachIndex(input.dims, (at, index) => groups[offsetOf(at, strides)]!.push(index));
  return { dims, groups };
}

const withoutAxes = (dims: Dims, axes: readonly number[]) => dims.filter((_, axis) => !axes.includes(axis));

function reduce(operator: string): Operator {
  const inputSince = operator === 'ReduceSum' ? 13 : 18;
  return (node) => {
    const input = node.input(0);
    const rank = input.dims.length;
    const given = (node.opset < inputSince ? node.integers('axes') : node.optionalList(1)) ?? [];
    const isNoop = given.length === 0 && node.opset >= inputSince && node.flag('noop_with_empty_axes');
    const axes = isNoop ? [] : given.length === 0 ? input.dims.map((_, axis) => axis) : axesOf(given, rank);
    // Where nothing is reduced, nothing is kept.
    const keeps = axes.length === 0 || node.flag('keepdims', true);
    const { dims, groups } = groupsOf(input, axes);
    const results = groups.map((group) =>
      reduceGroup(operator, input, group, isNoop, node.opset >= inputSince),
    );
    return [
      {
        type: input.type,
        dims: keeps ? dims : withoutAxes(input.dims, axes),
        data: results.map(([y]) => y),
        allowed: results.map(([, allowed]) => allowed),
      },
    ];
  };
}

function reduceGroup(
  operator: string,
  { type, data }: RefTensor,
  group: readonly number[],
  isNoop: boolean,
  saysOfEmpty: boolean,
): readonly [Scalar, number] {
  const terms = group.map((index) => data[index]!);
  const silent = terms.length === 0 && (!saysOfEmpty || operator === 'ReduceMean');
  if (!isFloat(type)) {
    const compute = INTEGERS[operator];
    if (compute === undefined) throw new Unjudged(`${operator} of ${type}`);
    const y = compute(type, terms as bigint[]) as bigint;
    return [type === 'bool' ? y : wrap(type, y), silent ? ANYTHING : 0];
  }
  const [y, allowed] = FLOATS[operator]!(terms as number[]);
  const isCopy =
    isNoop && ['ReduceMax', 'ReduceMin', 'ReduceMean', 'ReduceProd', 'ReduceSum'].includes(operator);
  return [y, silent ? ANYTHING : isCopy ? 0 : allowed];
}

function argument(isBetter: (a: number, b: number) => boolean): Operator {
  return (node) => {
    const input = node.input(0);
    const axis = axisOf(node.integer('axis', 0), input.dims.length);
    const last = node.flag('select_last_index');
    const keeps = node.flag('keepdims', true);
    const { dims, groups } = groupsOf(input, [axis]);
    if (input.dims[axis] === 0 && groups.length > 0) throw new Illegal('the extreme of no elements');
    const elements = asNumbers(input);
    const winners = groups.map((group) => {
      const terms = group.map((index) => elements[index]!);
      const best = terms.reduce((a, b) => (isBetter(b, a) ? b : a));
      return last ? terms.lastIndexOf(best) : terms.indexOf(best);
    });
    const unclear = groups.map((group) => group.some((index) => Number.isNaN(elements[index])));
    return [
      {
        type: 'int64',
        dims: keeps ? dims : withoutAxes(input.dims, [axis]),
        data: winners.map((winner) => BigInt(winner)),
        allowed: unclear.map((isUnclear) => (isUnclear ? ANYTHING : 0)),
      },
    ];
  };
}

/** Before opset 13 all axes from `axis` on were one. */
function softmax(isLogarithm: boolean): Operator {
  return (node) => {
    const input = node.input(0);
    const rank = input.dims.length;
    const joins = node.opset < 13;
    const axis = softmaxAxis(node, rank, joins);
    const axes = joins ? input.dims.map((_, i) => i).slice(axis) : [axis];
    const { groups } = groupsOf(input, axes);
    const elements = asNumbers(input);
    const data = new Array<number>(elements.length);
    const allowed = new Array<number>(elements.length);
    for (const group of groups) {
      const judged = softmaxOf(
        group.map((index) => elements[index]!),
        isLogarithm,
      );
      group.forEach((index, i) => ([data[index], allowed[index]] = judged[i]!));
    }
    return [{ type: input.type, dims: input.dims, data, allowed }];
  };
}

function softmaxAxis(node: Node, rank: number, joins: boolean): number {
  const axis = node.integer('axis', joins ? 1 : -1);
  return axisOf(axis, rank);
}

/** Differences from the maximum are rounded, and their exponentials by as much times their size. */
function softmaxOf(terms: readonly number[], isLogarithm: boolean): Judged[] {
  const most = terms.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = terms.reduce((total, x) => total + Math.exp(x - most), 0);
  return terms.map((x): Judged => {
    const distance = most - x;
    const size = Number.isFinite(distance) ? distance : 0;
    if (isLogarithm) {
      const y = x - most - Math.log(sum);
      return [y, Number.isFinite(y) ? SUM_RULE * (1 + Math.log(sum)) + 2 ** -22 * size : 0];
    }
    const y = Math.exp(x - most) / sum;
    return [y, (SUM_RULE + 2 ** -22 * Math.min(size, 200)) * y + TINY];
  });
}

export const reduction: Readonly<Record<string, Operator>> = {
  ArgMax: argument((a, b) => a > b),
  ArgMin: argument((a, b) => a < b),
  LogSoftmax: softmax(true),
  Softmax: softmax(false),
  ...Object.fromEntries(Object.keys(FLOATS).map((operator) => [operator, reduce(operator)])),
};

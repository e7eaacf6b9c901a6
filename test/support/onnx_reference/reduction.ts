/** Operators that look at whole axes. */
import type { Operator } from './elementwise';
import { asNumbers, type Node } from './node';
import { arithmeticOf, highestOf, lowestOf, ulp, wrap, type Arithmetic } from './precision';
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
  type Dims,
  type ElementType,
  type RefTensor,
  type Scalar,
} from './tensor';

const ANYTHING = NaN;

/** A result and by how much it may be off. */
type Judged = readonly [y: number, allowed: number];

/** A total of numbers, of which doubles would lose bits: each addition's error is added up beside it. */
function exactTotal(terms: readonly number[]): number {
  let [sum, rest] = [0, 0];
  for (const x of terms) {
    const next = sum + x;
    rest += Math.abs(sum) >= Math.abs(x) ? sum - next + x : x - next + sum;
    sum = next;
  }
  return Number.isFinite(sum) ? sum + rest : sum;
}

function judgedSum(arithmetic: Arithmetic, terms: readonly number[], divisor = 1): Judged {
  const { extreme, sumRule, tiny } = arithmetic;
  const total = exactTotal(terms);
  // Of the finite ones, of which a partial sum may overflow.
  const size = terms.reduce((a, b) => a + (Number.isFinite(b) ? Math.abs(b) : 0), 0);
  return [total / divisor, size > extreme ? ANYTHING : sumRule(terms.length) * (size / divisor) + tiny];
}

const squares = (terms: readonly number[]) => terms.map((x) => x * x);

type OfFloats = (arithmetic: Arithmetic, terms: readonly number[]) => Judged;

/** Of floats, for the elements of one group */
const FLOATS: Readonly<Record<string, OfFloats>> = {
  ReduceL1: (arithmetic, terms) => judgedSum(arithmetic, terms.map(Math.abs)),
  ReduceL2: (arithmetic, terms) => rootOf(arithmetic, judgedSum(arithmetic, squares(terms)), terms.length),
  ReduceLogSum: (arithmetic, terms) => logarithmOf(arithmetic, judgedSum(arithmetic, terms), terms),
  ReduceLogSumExp: judgedLogSumExp,
  ReduceMax: (_, terms) => [terms.reduce((a, b) => Math.max(a, b), -Infinity), 0],
  ReduceMean: (arithmetic, terms) => judgedSum(arithmetic, terms, terms.length),
  ReduceMin: (_, terms) => [terms.reduce((a, b) => Math.min(a, b), Infinity), 0],
  ReduceProd: judgedProduct,
  ReduceSum: judgedSum,
  ReduceSumSquare: (arithmetic, terms) => judgedSum(arithmetic, squares(terms)),
};

function rootOf(arithmetic: Arithmetic, [square, allowed]: Judged, terms: number): Judged {
  if (Number.isNaN(allowed)) return [square, ANYTHING];
  // Squares below the smallest float are lost.
  const lost = Math.sqrt((2 * terms) / arithmetic.extreme);
  const root = Math.sqrt(square);
  return [root, Number.isFinite(square) ? arithmetic.sumRule(terms) * root + lost : 0];
}

function logarithmOf(
  { sumRule, unit }: Arithmetic,
  [sum, allowed]: Judged,
  terms: readonly number[],
): Judged {
  if (terms.length === 0) return [-Infinity, 0];
  if (!Number.isFinite(sum)) return [Math.log(sum), allowed];
  // Of a sum that rounding may have made negative, or zero, or none.
  if (!(Math.abs(sum) > 4 * allowed) && terms.some((x) => x !== 0)) return [sum, ANYTHING];
  const y = Math.log(sum);
  return [y, sum > 0 ? (2 * allowed) / sum + (sumRule(1) + 4 * unit) * Math.abs(y) : 0];
}

/**
 * Of powers of numbers brought to the greatest of them. Each such number is rounded, and its power by as much times its
 * size; the power and the logarithm are off by two units at most.
 */
function judgedLogSumExp({ sumRule, type, unit }: Arithmetic, terms: readonly number[]): Judged {
  const most = terms.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(most)) return [most, 0];
  const powers = terms.map((x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  // Powers that are lost altogether have no error that would matter.
  const ofPower = (x: number) => (Number.isFinite(x) ? (most - x + 6) * unit : 0);
  const off = powers.reduce((total, power, i) => total + power * ofPower(terms[i]!), 0);
  const logarithm = Math.log(sum);
  const y = logarithm + most;
  return [y, off / sum + sumRule(terms.length) + 6 * unit * Math.abs(logarithm) + 1.01 * ulp(type, y)];
}

function judgedProduct({ extreme, tiny, unit }: Arithmetic, terms: readonly number[]): Judged {
  const y = terms.reduce((a, b) => a * b, 1);
  const exponents = terms.filter((x) => Number.isFinite(x) && x !== 0).map((x) => Math.log2(Math.abs(x)));
  const up = exponents.reduce((sum, exponent) => sum + Math.max(0, exponent), 0);
  const down = exponents.reduce((sum, exponent) => sum + Math.min(0, exponent), 0);
  // Some order of multiplications leaves what a float can hold.
  if (up > Math.log2(extreme) || down < 1 - Math.log2(extreme)) return [y, ANYTHING];
  // Of doubles, twice as much: the reference rounds, too.
  return [y, Number.isFinite(y) ? Math.abs(y) * (terms.length + 1) * 2 * unit + (y === 0 ? 0 : tiny) : 0];
}

const sumOf = (terms: readonly bigint[]) => terms.reduce((a, b) => a + b, 0n);
const bigSquares = (terms: readonly bigint[]) => terms.map((x) => x * x);

/** Of integers, and whose results are integers */
const INTEGERS: Readonly<Record<string, (type: ElementType, terms: readonly bigint[]) => bigint>> = {
  ReduceL1: (_, terms) => terms.reduce((a, b) => a + (b < 0n ? -b : b), 0n),
  ReduceMax: (type, terms) => terms.reduce((a, b) => (b > a ? b : a), lowestOf(type) as bigint),
  ReduceMin: (type, terms) => terms.reduce((a, b) => (b < a ? b : a), highestOf(type) as bigint),
  ReduceProd: (_, terms) => terms.reduce((a, b) => a * b, 1n),
  ReduceSum: (_, terms) => sumOf(terms),
  ReduceSumSquare: (_, terms) => sumOf(bigSquares(terms)),
};

/** An integer, and how far above it a result may be. */
type Above = readonly [y: bigint, above: number];

/** Of integers, whose results are not: a runtime may bring one to either integer beside it. */
const BETWEEN_INTEGERS: Readonly<Record<string, (type: ElementType, terms: readonly bigint[]) => Above>> = {
  ReduceL2: (type, terms) => besideReal(type, Math.sqrt(Number(sumOf(bigSquares(terms))))),
  ReduceLogSum: (type, terms) => besideReal(type, Math.log(Number(sumOf(terms)))),
  ReduceLogSumExp: (type, terms) =>
    besideReal(type, judgedLogSumExp(arithmeticOf('float64'), terms.map(Number))[0]),
  ReduceMean: (type, terms) => besideQuotient(type, sumOf(terms), BigInt(terms.length)),
};

const isWithin = (type: ElementType, y: Scalar) => y >= lowestOf(type) && y <= highestOf(type);

function besideReal(type: ElementType, y: number): Above {
  // Beyond, sums of squares may wrap around on the way.
  if (!(Math.abs(y) < 2 ** 31) || !isWithin(type, y)) return [0n, ANYTHING];
  const slack = 1e-6;
  const [below, above] = [Math.floor(y - slack), Math.ceil(y + slack)];
  return [BigInt(below), above - below];
}

function besideQuotient(type: ElementType, sum: bigint, divisor: bigint): Above {
  if (divisor === 0n || !isWithin(type, sum)) return [0n, ANYTHING];
  const [quotient, rest] = [sum / divisor, sum % divisor];
  return [rest < 0n ? quotient - 1n : quotient, rest === 0n ? 0 : 1];
}

/** The elements of a tensor in groups, one for each place along the axes that are kept. */
/** Places of the elements that are reduced together, for each element of the result. */
export function groupsOf(input: RefTensor, axes: readonly number[]): { dims: number[]; groups: number[][] } {
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
    // Of a flag that decides nothing, any value may pass.
    if (axes.length === 0 && ![0, 1].includes(node.integer('keepdims', 1))) node.tolerate();
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
    if (compute === undefined) {
      const [y, above] = BETWEEN_INTEGERS[operator]!(type, terms as bigint[]);
      return [y, silent ? ANYTHING : above];
    }
    const y = compute(type, terms as bigint[]);
    return [type === 'bool' ? y : wrap(type, y), silent ? ANYTHING : 0];
  }
  const [y, allowed] = FLOATS[operator]!(arithmeticOf(type), terms as number[]);
  const isCopy =
    isNoop && ['ReduceMax', 'ReduceMin', 'ReduceMean', 'ReduceProd', 'ReduceSum'].includes(operator);
  return [y, silent ? ANYTHING : isCopy ? 0 : allowed];
}

function argument(isBetter: (a: Scalar, b: Scalar) => boolean): Operator {
  return (node) => {
    const input = node.input(0);
    const axis = axisOf(node.integer('axis', 0), input.dims.length);
    const last = node.flag('select_last_index');
    const keeps = node.flag('keepdims', true);
    const { dims, groups } = groupsOf(input, [axis]);
    if (input.dims[axis] === 0 && groups.length > 0) throw new Illegal('the extreme of no elements');
    const winners = groups.map((group) => {
      const terms = group.map((index) => input.data[index]!);
      const best = terms.reduce((a, b) => (isBetter(b, a) ? b : a));
      return last ? terms.lastIndexOf(best) : terms.indexOf(best);
    });
    const unclear = groups.map((group) => group.some((index) => Number.isNaN(input.data[index])));
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

/** Calls for each group of elements that are compared: before opset 13 all axes from `axis` on were one. */
function forEachGroup(
  node: Node,
  visit: (group: readonly number[], elements: readonly number[]) => void,
): void {
  const input = node.input(0);
  const joins = node.opset < 13;
  const axis = axisOf(node.integer('axis', joins ? 1 : -1), input.dims.length);
  const { groups } = groupsOf(input, joins ? input.dims.map((_, i) => i).slice(axis) : [axis]);
  const elements = asNumbers(input);
  for (const group of groups) {
    visit(
      group,
      group.map((index) => elements[index]!),
    );
  }
}

/** 1 where the first of the greatest elements is. */
const hardmax: Operator = (node) => {
  const { type, dims, data: given } = node.input(0);
  const data = new Array<number>(given.length).fill(0);
  const allowed = new Array<number>(given.length).fill(0);
  forEachGroup(node, (group, elements) => {
    // What is greatest beside NaN, ONNX does not say.
    if (elements.some(Number.isNaN)) group.forEach((index) => (allowed[index] = ANYTHING));
    else if (group.length > 0) data[group[elements.indexOf(Math.max(...elements))]!] = 1;
  });
  return [{ type, dims, data, allowed }];
};

function softmax(isLogarithm: boolean): Operator {
  return (node) => {
    const { type, dims, data: given } = node.input(0);
    const data = new Array<number>(given.length);
    const allowed = new Array<number>(given.length);
    forEachGroup(node, (group, elements) => {
      const judged = softmaxOf(arithmeticOf(type), elements, isLogarithm);
      group.forEach((index, i) => ([data[index], allowed[index]] = judged[i]!));
    });
    return [{ type, dims, data, allowed }];
  };
}

/** Differences from the maximum are rounded, and their exponentials by as much times their size. */
export function softmaxOf(
  { sumRule, tiny, unit }: Arithmetic,
  terms: readonly number[],
  isLogarithm: boolean,
): Judged[] {
  // Of powers that are off by a few units each.
  const rule = sumRule(terms.length + 8);
  const most = terms.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = terms.reduce((total, x) => total + Math.exp(x - most), 0);
  return terms.map((x): Judged => {
    const distance = most - x;
    const size = Number.isFinite(distance) ? distance : 0;
    if (isLogarithm) {
      const y = x - most - Math.log(sum);
      return [y, Number.isFinite(y) ? rule * (1 + Math.log(sum)) + 4 * unit * size : 0];
    }
    const y = Math.exp(x - most) / sum;
    return [y, (rule + 4 * unit * Math.min(size, 800)) * y + tiny];
  });
}

export const reduction: Readonly<Record<string, Operator>> = {
  ArgMax: argument((a, b) => a > b),
  ArgMin: argument((a, b) => a < b),
  Hardmax: hardmax,
  LogSoftmax: softmax(true),
  Softmax: softmax(false),
  ...Object.fromEntries(Object.keys(FLOATS).map((operator) => [operator, reduce(operator)])),
};

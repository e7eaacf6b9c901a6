/** Functions of whole axes. */
import { flag, integer, integers } from '../attributes';
import { CONSTRUCTORS, type DataType } from '../../tensor/tensor';
import { computeOf } from '../builder';
import type { ConstantTensor } from '../graph';
import type { Lower, Lowering } from '../lowering';
import type { ReduceStep, UnaryOperation } from '../steps';
import { bytesOf, extentOf, sizeOf, type Operand, type Value } from '../values';
import { counting } from './indexing';
import { repeated } from './layout';
import { apply, mapped, scalar } from './typed';

type Mode = ReduceStep<Operand>['mode'];

/** The middle of three axes that dims come down to around the axes from `start` up to `end`. */
function around(dims: readonly number[], start: number, end: number) {
  return {
    outer: extentOf(dims, 0, start),
    reduced: extentOf(dims, start, end),
    inner: extentOf(dims, end, dims.length),
  };
}

/** Axes were an attribute at first, and are an input since opset 18, of ReduceSum since 13. */
function reducedAxes(x: Lowering, inputSince: number): number[] {
  const rank = x.input(0).dims.length;
  const given = x.opset >= inputSince ? x.optionalNumbers(1) : integers(x.node, 'axes', null);
  if (!given?.length) {
    const keeps = flag(x.node, 'noop_with_empty_axes', false);
    return keeps ? [] : Array.from({ length: rank }, (_, axis) => axis);
  }
  return [...new Set(given.map((axis) => x.axis(axis, rank)))].sort((a, b) => a - b);
}

function reduceAxes(x: Lowering, input: Value, axes: readonly number[], mode: Mode): Value {
  return reduceTo(x, input, axes, mode, flag(x.node, 'keepdims', true));
}

/** The result has extents of 1 where axes went, or does not have them. */
export function reduceTo(
  x: Lowering,
  input: Value,
  axes: readonly number[],
  mode: Mode,
  keepsAxes: boolean,
  last = false,
): Value {
  const dims = input.dims.flatMap((extent, axis) =>
    axes.includes(axis) ? (keepsAxes ? [1] : []) : [extent],
  );
  const { tensor, start, end } = together(x, input, axes);
  const extents = around(tensor.dims, start, end);
  const isExtreme = mode === 'maximum' || mode === 'minimum';
  if (extents.reduced === 0 && isExtreme && input.type !== 'float32') {
    return repeated(x, extremeOfNone(x, input.type, mode), dims);
  }
  const output = x.build.scratch(mode.startsWith('arg') ? 'int64' : input.type, dims);
  const step = { mode, ...extents, last, input: tensor.operand, output: output.operand };
  if (input.type === 'float32') x.build.emit({ kind: 'reduce', ...step });
  else x.build.emit({ kind: 'typedReduce', type: input.type, ...step });
  return output;
}

/** The least number of the type, or the greatest. */
export function extremeOfNone(x: Lowering, type: DataType, mode: 'maximum' | 'minimum'): Value {
  const isLeast = mode === 'maximum';
  if (type.startsWith('float')) return scalar(x, type, isLeast ? -Infinity : Infinity);
  if (type === 'bool') return scalar(x, type, isLeast ? 0 : 1);
  const bits = bytesOf(type) * 8;
  const isSigned = !type.startsWith('u');
  const low = isSigned ? -(2n ** BigInt(bits - 1)) : 0n;
  const high = 2n ** BigInt(isSigned ? bits - 1 : bits) - 1n;
  const data = new CONSTRUCTORS[type](1);
  data[0] = (bits === 64 ? (isLeast ? low : high) : Number(isLeast ? low : high)) as never;
  return x.derive(`extreme of ${type} ${mode}`, [], () => ({ type, dims: [], data }) as ConstantTensor);
}

/** The tensor with the axes next to each other: as it is, or with them moved behind the others. */
function together(x: Lowering, input: Value, axes: readonly number[]) {
  const [first, last] = [axes[0]!, axes.at(-1)!];
  const gaps = input.dims.slice(first, last + 1).filter((_, i) => !axes.includes(first + i));
  if (gaps.every((extent) => extent === 1)) return { tensor: input, start: first, end: last + 1 };
  const others = input.dims.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const tensor = x.build.transpose(input, [...others, ...axes]);
  return { tensor, start: others.length, end: input.dims.length };
}

/** What is computed of a result. */
type After = 'sqrt' | 'log';

/** `before` each element, `after` each result. */
function reduce(
  mode: Mode,
  { before, after, inputSince = 18 }: { before?: UnaryOperation; after?: After; inputSince?: number } = {},
): Lower {
  const lower = (x: Lowering, input: Value): Value => {
    const axes = reducedAxes(x, inputSince);
    const mapped = before === undefined ? input : apply(x, before, [input]);
    if (axes.length === 0) return reduceNothing(x, mapped, mode, after);
    const reduced = reduceAxes(x, mapped, axes, mode);
    return after === undefined ? reduced : apply(x, after, [reduced]);
  };
  return (x) => (after === undefined ? lower(x, x.input(0)) : asNumbers(x, lower));
}

/** Integers are computed as numbers, and what comes out is cut towards zero. */
function asNumbers(x: Lowering, lower: (x: Lowering, input: Value) => Value): Value {
  const given = x.input(0);
  if (computeOf(given.type).startsWith('float')) return lower(x, given);
  const result = lower(x, x.build.cast(given, 'float64'));
  return mapped(x, 'identity', [result], given.type);
}

/** Over no axes every element is a sum of its own. */
function reduceNothing(x: Lowering, input: Value, mode: Mode, after: After | undefined): Value {
  const squared = mode === 'sumOfSquares' ? apply(x, 'multiply', [input, input]) : input;
  return after === undefined ? squared : apply(x, after, [squared]);
}

function argReduce(mode: 'argMaximum' | 'argMinimum'): Lower {
  return (x) => {
    const input = x.input(0);
    const axis = x.axis(integer(x.node, 'axis', 0), input.dims.length);
    if (input.dims[axis] === 0)
      throw x.invalid(`looks for the extreme of no elements: axis ${axis} is empty`);
    const keepsAxis = flag(x.node, 'keepdims', true);
    return reduceTo(x, input, [axis], mode, keepsAxis, flag(x.node, 'select_last_index', false));
  };
}

/** log(sum(exp(x))), of numbers brought to 0 and below so that no power overflows. */
const logSumExp: Lower = (x) => asNumbers(x, logSumExpOf);

function logSumExpOf(x: Lowering, input: Value): Value {
  const axes = reducedAxes(x, 18);
  if (axes.length === 0) return input;
  const greatest = reduceTo(x, input, axes, 'maximum', true);
  // Infinities are left to the powers: they have no difference.
  const isInfinite = mapped(x, 'isInfinite', [greatest], 'bool', { p: 1, q: 1 });
  const zero = scalar(x, input.type, 0);
  const offset = mapped(x, 'select', [isInfinite, zero, greatest], input.type, {
    compute: computeOf(input.type),
  });
  const powers = apply(x, 'exp', [apply(x, 'subtract', [input, offset])]);
  const sum = apply(x, 'log', [reduceTo(x, powers, axes, 'sum', true)]);
  const result = apply(x, 'add', [sum, offset]);
  if (flag(x.node, 'keepdims', true)) return result;
  return x.build.view(
    result,
    result.dims.filter((_, axis) => !axes.includes(axis)),
  );
}

/** 1 where the first greatest element is, and 0 elsewhere. Until opset 13 the axes from `axis` on were one. */
const hardmax: Lower = (x) => {
  const given = x.input(0);
  const joins = x.opset < 13;
  const axis = x.axis(integer(x.node, 'axis', joins ? 1 : -1), given.dims.length);
  const { outer, reduced, inner } = around(given.dims, axis, joins ? given.dims.length : axis + 1);
  const input = x.build.view(given, [outer, reduced, inner]);
  if (sizeOf(given.dims) === 0) return given;
  const place = reduceTo(x, input, [1], 'argMaximum', true);
  const places = counting(x, reduced, 1, 3);
  return x.build.view(mapped(x, 'equal', [places, place], input.type), given.dims);
};

/** Until opset 13 the axes from `axis` on were one, and the default was 1. */
function softmax(logarithm: boolean): Lower {
  return (x) => {
    const input = x.input(0);
    const joins = x.opset < 13;
    const axis = x.axis(integer(x.node, 'axis', joins ? 1 : -1), input.dims.length);
    return softmaxOf(x, input, axis, joins ? input.dims.length : axis + 1, logarithm);
  };
}

/** Over the axes from `start` up to `end` as over one. */
export function softmaxOf(
  x: Lowering,
  input: Value,
  start: number,
  end = start + 1,
  logarithm = false,
): Value {
  const extents = around(input.dims, start, end);
  if (input.type !== 'float32') return softmaxOfAny(x, input, extents, logarithm);
  const output = x.build.scratch('float32', input.dims);
  x.build.emit({ kind: 'softmax', ...extents, logarithm, input: input.operand, output: output.operand });
  return output;
}

/** By the definition, for types that have no kernel of their own. */
function softmaxOfAny(
  x: Lowering,
  given: Value,
  { outer, reduced, inner }: ReturnType<typeof around>,
  logarithm: boolean,
): Value {
  const input = x.build.view(given, [outer, reduced, inner]);
  if (sizeOf(given.dims) === 0) return given;
  const shifted = apply(x, 'subtract', [input, reduceTo(x, input, [1], 'maximum', true)]);
  const powers = apply(x, 'exp', [shifted]);
  const sum = reduceTo(x, powers, [1], 'sum', true);
  const result = logarithm
    ? apply(x, 'subtract', [shifted, apply(x, 'log', [sum])])
    : apply(x, 'divide', [powers, sum]);
  return x.build.view(result, given.dims);
}

export const reduction: Record<string, Lower> = {
  ArgMax: argReduce('argMaximum'),
  ArgMin: argReduce('argMinimum'),
  Hardmax: hardmax,
  LogSoftmax: softmax(true),
  ReduceL1: reduce('sum', { before: 'absolute' }),
  ReduceL2: reduce('sumOfSquares', { after: 'sqrt' }),
  ReduceLogSum: reduce('sum', { after: 'log' }),
  ReduceLogSumExp: logSumExp,
  ReduceMax: reduce('maximum'),
  ReduceMean: reduce('mean'),
  ReduceMin: reduce('minimum'),
  ReduceProd: reduce('product'),
  ReduceSum: reduce('sum', { inputSince: 13 }),
  ReduceSumSquare: reduce('sumOfSquares'),
  Softmax: softmax(false),
};

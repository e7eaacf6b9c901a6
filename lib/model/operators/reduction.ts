/** Functions of whole axes. */
import { flag, integer, integers } from '../attributes';
import { instruction, requireFloat } from '../builder';
import type { Lower, Lowering } from '../lowering';
import type { ReduceStep, UnaryOperation } from '../steps';
import { extentOf, type Operand, type Value } from '../values';

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
  const kept = flag(x.node, 'keepdims', true);
  const dims = input.dims.flatMap((extent, axis) => (axes.includes(axis) ? (kept ? [1] : []) : [extent]));
  const { tensor, start, end } = together(x, input, axes);
  const output = x.build.scratch('float32', dims);
  x.build.emit({
    kind: 'reduce',
    mode,
    ...around(tensor.dims, start, end),
    last: false,
    input: tensor.operand,
    output: output.operand,
  });
  return output;
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

/** `before` each element, `after` each result. */
function reduce(
  mode: Mode,
  {
    before,
    after,
    inputSince = 18,
  }: { before?: UnaryOperation; after?: UnaryOperation; inputSince?: number } = {},
): Lower {
  return (x) => {
    const input = x.input(0);
    requireFloat(x.node, input);
    const axes = reducedAxes(x, inputSince);
    const mapped = before === undefined ? input : apply(x, input, before);
    if (axes.length === 0) return reduceNothing(x, mapped, mode, after);
    const reduced = reduceAxes(x, mapped, axes, mode);
    return after === undefined ? reduced : apply(x, reduced, after);
  };
}

/** Over no axes every element is a sum of its own. */
function reduceNothing(x: Lowering, input: Value, mode: Mode, after: UnaryOperation | undefined): Value {
  const squared =
    mode === 'sumOfSquares'
      ? x.build.elementwise(x.node, [input], [instruction('multiply', { a: 0, b: 0 })])
      : input;
  return after === undefined ? squared : apply(x, squared, after);
}

function apply(x: Lowering, value: Value, operation: UnaryOperation): Value {
  return x.build.elementwise(x.node, [value], [instruction(operation)]);
}

function argReduce(mode: 'argMaximum' | 'argMinimum'): Lower {
  return (x) => {
    const input = x.input(0);
    requireFloat(x.node, input);
    const axis = x.axis(integer(x.node, 'axis', 0), input.dims.length);
    if (input.dims[axis] === 0)
      throw x.invalid(`looks for the extreme of no elements: axis ${axis} is empty`);
    const kept = flag(x.node, 'keepdims', true);
    const dims = input.dims.flatMap((extent, i) => (i === axis ? (kept ? [1] : []) : [extent]));
    const output = x.build.scratch('int64', dims);
    x.build.emit({
      kind: 'reduce',
      mode,
      ...around(input.dims, axis, axis + 1),
      last: flag(x.node, 'select_last_index', false),
      input: input.operand,
      output: output.operand,
    });
    return output;
  };
}

/** Until opset 13 the axes from `axis` on were one, and the default was 1. */
function softmax(logarithm: boolean): Lower {
  return (x) => {
    const input = x.input(0);
    requireFloat(x.node, input);
    const joins = x.opset < 13;
    const axis = x.axis(integer(x.node, 'axis', joins ? 1 : -1), input.dims.length);
    const output = x.build.scratch('float32', input.dims);
    x.build.emit({
      kind: 'softmax',
      ...around(input.dims, axis, joins ? input.dims.length : axis + 1),
      logarithm,
      input: input.operand,
      output: output.operand,
    });
    return output;
  };
}

export const reduction: Record<string, Lower> = {
  ArgMax: argReduce('argMaximum'),
  ArgMin: argReduce('argMinimum'),
  LogSoftmax: softmax(true),
  ReduceL1: reduce('sum', { before: 'absolute' }),
  ReduceL2: reduce('sumOfSquares', { after: 'sqrt' }),
  ReduceLogSum: reduce('sum', { after: 'log' }),
  ReduceMax: reduce('maximum'),
  ReduceMean: reduce('mean'),
  ReduceMin: reduce('minimum'),
  ReduceProd: reduce('product'),
  ReduceSum: reduce('sum', { inputSince: 13 }),
  ReduceSumSquare: reduce('sumOfSquares'),
  Softmax: softmax(false),
};

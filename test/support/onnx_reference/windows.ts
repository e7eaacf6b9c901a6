/** Windows that step over maps, and the pools that bring each to one element. */
import type { Operator } from './elementwise';
import { asNumbers, type Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import {
  forEachIndex,
  Illegal,
  isFloat,
  offsetOf,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
  type Expected,
} from './tensor';

/** Of one spatial axis */
export interface Axis {
  readonly input: number;
  readonly stride: number;
  readonly dilation: number;
  readonly before: number;
  readonly after: number;
  readonly output: number;
}

/** An attribute with a number of each spatial axis. */
export function spatialAttribute(
  node: Node,
  name: string,
  length: number,
  fallback: number,
  least: number,
): number[] {
  const given = node.integers(name) ?? new Array<number>(length).fill(fallback);
  if (given.length !== length || given.some((value) => value < least))
    throw new Illegal(`${name} [${given}]`);
  return given;
}

export function windowsOf(
  node: Node,
  input: Dims,
  kernel: Dims,
  { isPool = false, isCeil = false } = {},
): Axis[] {
  const rank = kernel.length;
  const strides = spatialAttribute(node, 'strides', rank, 1, 1);
  const dilations = spatialAttribute(node, 'dilations', rank, 1, 1);
  const pads = spatialAttribute(node, 'pads', 2 * rank, 0, 0);
  const mode = node.string('auto_pad', ['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID']);
  return input.map((extent, i): Axis => {
    const [stride, dilation] = [strides[i]!, dilations[i]!];
    const reach = (kernel[i]! - 1) * dilation + 1;
    if (mode.startsWith('SAME')) {
      const output = Math.ceil(extent / stride);
      if (isPool && output === 0) throw new Unjudged('windows of no elements');
      const total = Math.max(0, (output - 1) * stride + reach - extent);
      const less = Math.floor(total / 2);
      const before = mode === 'SAME_UPPER' ? less : total - less;
      return requireOutput({ input: extent, stride, dilation, before, after: total - before, output });
    }
    const [before, after] = mode === 'VALID' ? [0, 0] : [pads[i]!, pads[i + rank]!];
    const steps = (extent + before + after - reach) / stride;
    // By ONNX's formula they have a window less than by the integers that onnxruntime divides.
    if (isPool && steps < 0 && steps > -2) throw new Unjudged('windows larger than the input');
    let output = (isCeil ? Math.ceil(steps) : Math.floor(steps)) + 1;
    if (isCeil && mode === 'VALID' && !Number.isInteger(steps))
      throw new Unjudged('auto_pad VALID with ceil_mode');
    // Windows that would start in the padding after the input are ignored.
    if (isCeil && (output - 1) * stride >= extent + before) output--;
    return requireOutput({ input: extent, stride, dilation, before, after, output });
  });
}

function requireOutput(axis: Axis): Axis {
  if (axis.output < 1) throw new Illegal(`${axis.output} windows over ${axis.input} elements`);
  return axis;
}

const MOST_STEPS = 2 ** 24;

/** Of one window: the elements in it, and how many positions of it lie in the input or its padding. */
type Combine = (elements: readonly number[], positions: number) => readonly [y: number, allowed: number];

function pool(combineFor: (node: Node) => Combine): Operator {
  return (node) => {
    const input = node.input(0);
    if (input.dims.length < 3) throw new Illegal(`maps of rank ${input.dims.length}`);
    const rank = input.dims.length - 2;
    const kernel = spatialAttribute(node, 'kernel_shape', rank, 1, 1);
    const axes = windowsOf(node, input.dims.slice(2), kernel, {
      isPool: true,
      isCeil: node.flag('ceil_mode'),
    });
    const dims = [...input.dims.slice(0, 2), ...axes.map(({ output }) => output)];
    requireSmall(dims);
    if (sizeOf(dims) * sizeOf(kernel) > MOST_STEPS) throw new TooLarge(sizeOf(dims) * sizeOf(kernel));
    const indices: (readonly [bigint, number])[] = [];
    const placesOf = indexStrides(node, input.dims);
    const [elements, strides] = [asNumbers(input), stridesOf(input.dims)];
    const combine = combineFor(node);
    const results: (readonly [number, number])[] = [];
    forEachIndex(dims, (at) => {
      const [seen, found]: [number[], number[]] = [[], []];
      let positions = 0;
      forEachIndex(kernel, (tap) => {
        const places = axes.map(
          ({ stride, dilation, before }, i) => at[i + 2]! * stride + tap[i]! * dilation - before,
        );
        if (places.every((place, i) => place >= -axes[i]!.before && place < axes[i]!.input + axes[i]!.after))
          positions++;
        if (!places.every((place, i) => place >= 0 && place < axes[i]!.input)) return;
        const coordinates = [at[0]!, at[1]!, ...places];
        seen.push(elements[offsetOf(coordinates, strides)]!);
        found.push(offsetOf(coordinates, placesOf));
      });
      results.push(combine(seen, positions));
      indices.push(indexOfMaximum(seen, found));
    });
    return [
      resultOf(input.type, dims, results),
      { type: 'int64', dims, data: indices.map(([index]) => index), allowed: indices.map(([, off]) => off) },
    ];
  };
}

/** Where elements are in a list of all, by rows or by columns of each map. */
function indexStrides(node: Node, dims: Dims): number[] {
  const byRow = stridesOf(dims);
  if (node.outputs === 1 || !node.flag('storage_order')) return byRow;
  // Whether batches and channels are in another order, too, ONNX does not say.
  if (sizeOf(dims.slice(0, 2)) > 1) throw new Unjudged('columns of many maps');
  return [...byRow.slice(0, 2), ...stridesOf(dims.slice(2).toReversed()).toReversed()];
}

/** Which of several maxima it is, ONNX does not say. */
function indexOfMaximum(seen: readonly number[], found: readonly number[]): readonly [bigint, number] {
  const greatest = seen.reduce((a, b) => Math.max(a, b), -Infinity);
  const isClear = seen.filter((x) => x === greatest).length === 1;
  return isClear ? [BigInt(found[seen.indexOf(greatest)]!), 0] : [0n, NaN];
}

function resultOf(
  type: Expected['type'],
  dims: Dims,
  results: readonly (readonly [number, number])[],
): Expected {
  const data = results.map(([y]) => (isFloat(type) ? y : BigInt(Number.isFinite(y) ? y : 0)));
  return { type, dims, data, allowed: results.map(([, allowed]) => allowed) };
}

/** Of a window in nothing but padding ONNX does not say what it makes. */
const maximum: Combine = (elements) => [
  elements.reduce((a, b) => Math.max(a, b), -Infinity),
  elements.length === 0 ? NaN : 0,
];

function average(
  { extreme, sumRule, tiny }: Arithmetic,
  elements: readonly number[],
  divisor: number,
): readonly [number, number] {
  const total = elements.reduce((a, b) => a + b, 0);
  // Of the finite ones, of which a partial sum may overflow.
  const size = elements.reduce((a, b) => a + (Number.isFinite(b) ? Math.abs(b) : 0), 0);
  const isOpen = size > extreme || divisor === 0;
  return [total / divisor, isOpen ? NaN : (sumRule(elements.length) * size) / divisor + tiny];
}

function averageOf(node: Node): Combine {
  const arithmetic = arithmeticOf(node.input(0).type);
  const countsPadding = node.flag('count_include_pad');
  return (elements, positions) => average(arithmetic, elements, countsPadding ? positions : elements.length);
}

/** The p-norm of a window; padding is 0. */
function normOf(node: Node): Combine {
  const { extreme, sumRule, tiny, unit } = arithmeticOf(node.input(0).type);
  const p = node.integer('p', 2);
  if (p < 1) throw new Unjudged(`p of ${p}`);
  return (elements) => {
    const power = elements.reduce((total, x) => total + Math.abs(x) ** p, 0);
    const y = power ** (1 / p);
    if (!Number.isFinite(power)) return [y, elements.every((x) => !(Math.abs(x) < Infinity)) ? 0 : NaN];
    if (power > extreme) return [y, NaN];
    // Powers below the smallest float are lost, and exponents are rounded.
    const lost = ((2 * elements.length) / extreme) ** (1 / p);
    const exponents = power > 0 ? Math.abs(Math.log(power)) : 0;
    return [y, y * (sumRule(elements.length + p) + 4 * unit * (1 + exponents)) + lost + tiny];
  };
}

function globalPool(combineFor: (node: Node) => Combine): Operator {
  return (node) => {
    const combine = combineFor(node);
    const input = node.input(0);
    if (input.dims.length < 2) throw new Illegal(`maps of rank ${input.dims.length}`);
    if (input.dims.length < 3) throw new Unjudged(`maps of rank ${input.dims.length}`);
    const dims = input.dims.map((extent, axis) => (axis < 2 ? extent : 1));
    const elements = asNumbers(input);
    const size = sizeOf(input.dims.slice(2));
    const results = Array.from({ length: sizeOf(dims) }, (_, i) =>
      combine(elements.slice(i * size, (i + 1) * size), size),
    );
    return [resultOf(input.type, dims, results)];
  };
}

export const pooling: Readonly<Record<string, Operator>> = {
  AveragePool: pool(averageOf),
  GlobalAveragePool: globalPool(averageOf),
  GlobalLpPool: globalPool(normOf),
  GlobalMaxPool: globalPool(() => maximum),
  LpPool: pool(normOf),
  MaxPool: pool(() => maximum),
};

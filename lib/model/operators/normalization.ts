/** Scaling by statistics, of the model or of the input itself. */
import { flag, float, integer, integers } from '../attributes';
import { areSameDims, MAX_INT32 } from '../../check';
import { instruction, numbersOf, requireFloat, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { broadcastDims, extentOf, sizeOf, type Value } from '../values';
import { padWith } from './layout';
import { reduceTo } from './reduction';
import { apply, asFloat32, asType, choose, mapped, requireWithin, scalar } from './typed';

/** scale * (x - mean) / sqrt(variance + epsilon) + shift by channel, as one multiplication and one addition. */
const batchNormalization: Lower = (x) => {
  const input = x.input(0);
  const [scale, shift, mean, variance] = [1, 2, 3, 4].map((i) => x.input(i)) as Statistics;
  const channels = input.dims[1] ?? 1;
  if (scale.dims[0] !== channels) {
    throw x.invalid(
      `scales ${shapeOf(input)} by ${shapeOf(scale)}; it takes one element a channel, ${channels}`,
    );
  }
  if (flag(x.node, 'training_mode', false) || !flag(x.node, 'spatial', true)) {
    throw unsupportedNode(x.node, 'trains, or normalises each position by itself');
  }
  const epsilon = epsilonOf(x);
  const dims = [channels, ...input.dims.slice(2).map(() => 1)];
  const statistics: Statistics = [scale, shift, mean, variance];
  if (input.type === 'float64') return normalizeInSteps(x, input, statistics, dims, epsilon);
  const isKnown = statistics.every(({ constant }) => constant !== undefined);
  const folded = isKnown ? foldStatistics(x, statistics, epsilon) : undefined;
  if (isKnown && folded === undefined) return normalizeInSteps(x, input, statistics, dims, epsilon);
  const { factor, summand } = folded ?? computeStatistics(x, statistics, epsilon);
  return x.build.elementwise(
    x.node,
    [input, x.build.view(factor, dims), x.build.view(summand, dims)],
    AFFINE_CODE,
  );
};

const AFFINE_CODE = [instruction('multiply', { a: 0, b: 1 }), instruction('add', { a: 3, b: 2 })];

/** That of onnxruntime's operators which add before they normalise is another than ONNX's. */
function epsilonOf({ node }: Lowering): number {
  return float(node, 'epsilon', node.operator.startsWith('Skip') ? 1e-12 : 1e-5);
}

type Statistics = [scale: Value, shift: Value, mean: Value, variance: Value];

interface Affine {
  readonly factor: Value;
  readonly summand: Value;
}

/**
 * In double precision: these numbers go into the weights of the convolution before. `undefined` where one of them is no
 * normal float, though the normalised elements may be.
 */
function foldStatistics(x: Lowering, statistics: Statistics, epsilon: number): Affine | undefined {
  const folded = x.deriveAll('affine', statistics, () => {
    const [scale, shift, mean, variance] = statistics.map(({ constant }) => numbersOf(constant!));
    const factor = scale!.map((value, c) => value / Math.sqrt(variance![c]! + epsilon));
    const summand = shift!.map(
      (value, c) => value - (mean![c]! * scale![c]!) / Math.sqrt(variance![c]! + epsilon),
    );
    const [factors, summands] = [Float32Array.from(factor), Float32Array.from(summand)];
    const isNormal = (value: number, c: number) =>
      Number.isFinite(value) && (Math.abs(value) >= 2 ** -126 || scale![c] === 0);
    if (!factors.every(isNormal) || !summands.every(Number.isFinite)) return undefined;
    return [factors, summands].map((data) => ({ type: 'float32', dims: [data.length], data }) as const);
  });
  return folded && { factor: folded[0]!, summand: folded[1]! };
}

/** One operation after the other, in the input's type. */
function normalizeInSteps(
  x: Lowering,
  input: Value,
  statistics: Statistics,
  dims: readonly number[],
  epsilon: number,
): Value {
  const [scale, shift, mean, variance] = statistics.map((value) =>
    x.build.view(asType(x, value, input.type), dims),
  );
  const deviation = apply(x, 'sqrt', [apply(x, 'affine', [variance!], { p: 1, q: epsilon })]);
  const normal = apply(x, 'divide', [apply(x, 'subtract', [input, mean!]), deviation]);
  return apply(x, 'add', [apply(x, 'multiply', [normal, scale!]), shift!]);
}

function computeStatistics(x: Lowering, statistics: Statistics, epsilon: number): Affine {
  const [scale, shift, mean, variance] = statistics.map((value) => asFloat32(x, value)) as Statistics;
  const factor = x.build.elementwise(
    x.node,
    [scale, variance],
    [
      instruction('affine', { a: 1, p: 1, q: epsilon }),
      instruction('sqrt', { a: 2 }),
      instruction('divide', { a: 0, b: 3 }),
    ],
  );
  const summand = x.build.elementwise(
    x.node,
    [shift, mean, factor],
    [instruction('multiply', { a: 1, b: 2 }), instruction('subtract', { a: 0, b: 3 })],
  );
  return { factor, summand };
}

interface Rows {
  readonly rows: number;
  readonly count: number;
  readonly groups: number;
  readonly channels: number;
  readonly inner: number;
}

function normalize(x: Lowering, input: Value, rows: Rows, scale?: Value, shift?: Value): Value {
  if (input.type !== 'float32') return normalizeAny(x, input, rows, scale, shift);
  [scale, shift].forEach((value) => value && requireFloat(x.node, value));
  const output = x.build.scratch('float32', input.dims);
  x.build.emit({
    kind: 'normalize',
    ...rows,
    epsilon: epsilonOf(x),
    scale: scale?.operand ?? null,
    shift: shift?.operand ?? null,
    input: input.operand,
    output: output.operand,
  });
  return output;
}

/** By the definition: rows are [rows / groups, groups], and their elements [channels, inner]. */
function normalizeAny(
  x: Lowering,
  input: Value,
  { rows, count, groups, channels, inner }: Rows,
  scale?: Value,
  shift?: Value,
): Value {
  if (sizeOf(input.dims) === 0) return input;
  const matrix = x.build.view(input, [rows, count]);
  const { mean, deviation } = momentsOf(x, matrix);
  const normal = apply(x, 'divide', [apply(x, 'subtract', [matrix, mean]), deviation]);
  const parts = x.build.view(normal, [rows / groups, groups, channels, inner]);
  const parameter = (value: Value) => x.build.view(asType(x, value, input.type), [groups, channels, 1]);
  const scaled = scale === undefined ? parts : apply(x, 'multiply', [parts, parameter(scale)]);
  const whole = shift === undefined ? scaled : apply(x, 'add', [scaled, parameter(shift)]);
  return x.build.view(whole, input.dims);
}

/** Of each row of a matrix. */
function momentsOf(x: Lowering, rows: Value): { mean: Value; deviation: Value } {
  const mean = reduceTo(x, rows, [1], 'mean', true);
  const difference = apply(x, 'subtract', [rows, mean]);
  const variance = reduceTo(x, apply(x, 'multiply', [difference, difference]), [1], 'mean', true);
  const epsilon = epsilonOf(x);
  return { mean, deviation: apply(x, 'sqrt', [apply(x, 'affine', [variance], { p: 1, q: epsilon })]) };
}

const instanceNormalization: Lower = (x) => {
  const input = x.input(0);
  const [n, c] = input.dims as [number, number];
  const count = extentOf(input.dims, 2, input.dims.length);
  return normalize(
    x,
    input,
    { rows: n * c, count, groups: c, channels: 1, inner: count },
    x.input(1),
    x.input(2),
  );
};

const layerNormalization: Lower = (x) => {
  const input = x.input(0);
  const axis = x.axis(integer(x.node, 'axis', -1), input.dims.length);
  const count = extentOf(input.dims, axis, input.dims.length);
  const [scale, shift] = [x.input(1), x.optional(2)];
  const [whole, normalized] = [input.dims, input.dims.slice(axis)];
  const together = (value: Value, dims: readonly number[]) => broadcastDims(value.dims, dims) ?? [];
  const parameters = [scale, shift].filter((value) => value !== undefined);
  const described = `scales ${shapeOf(input)} by ${parameters.map(shapeOf).join(' and ')}`;
  if (!parameters.every((value) => areSameDims(together(value, whole), whole))) throw x.invalid(described);
  const isOfRow = (value: Value) =>
    sizeOf(value.dims) === count && sizeOf(together(value, normalized)) === count;
  const rows = extentOf(input.dims, 0, axis);
  const shape = { rows, count, groups: 1, channels: count, inner: 1 };
  const output = parameters.every(isOfRow)
    ? normalize(x, input, shape, scale, shift)
    : scaleAndShift(x, normalize(x, input, shape), scale, shift);
  return x.hasOutput(1) || x.hasOutput(2) ? [output, ...statistics(x, input, axis)] : output;
};

/** The parameters may have any dims that broadcast to the input's. */
function scaleAndShift(x: Lowering, input: Value, scale: Value, shift: Value | undefined): Value {
  const scaled = apply(x, 'multiply', [input, asType(x, scale, input.type)]);
  return shift === undefined ? scaled : apply(x, 'add', [scaled, asType(x, shift, input.type)]);
}

/** The mean of each row, and one over its standard deviation: in float32, whatever the input is. */
function statistics(x: Lowering, input: Value, axis: number): Value[] {
  const dims = input.dims.map((extent, i) => (i < axis ? extent : 1));
  const rows = [sizeOf(dims), extentOf(input.dims, axis, input.dims.length)];
  const { mean, deviation } = momentsOf(x, x.build.view(input, rows));
  return [mean, apply(x, 'reciprocal', [deviation])].map((value) => x.build.view(asFloat32(x, value), dims));
}

/** Until opset 21 scale and shift had one element a group. */
const groupNormalization: Lower = (x) => {
  const input = x.input(0);
  const [n, c] = input.dims as [number, number];
  const groups = integer(x.node, 'num_groups');
  if (groups < 1 || c % groups !== 0) throw x.invalid(`puts ${c} channels into ${groups} groups`);
  const inner = extentOf(input.dims, 2, input.dims.length);
  const [scale, shift] = [x.input(1), x.input(2)];
  const length = sizeOf(scale.dims);
  if (length !== c && length !== groups) {
    throw x.invalid(`scales ${c} channels in ${groups} groups by ${shapeOf(scale)}`);
  }
  const byGroup = length === groups && groups !== c;
  const count = (c / groups) * inner;
  const channels = byGroup ? { channels: 1, inner: count } : { channels: c / groups, inner };
  return normalize(x, input, { rows: n * groups, count, groups, ...channels }, scale, shift);
};

const localResponse: Lower = (x) => {
  const input = x.input(0);
  const size = integer(x.node, 'size');
  if (size < 1) throw x.invalid(`has size ${size}; it takes a positive integer`);
  if (size > MAX_INT32) throw unsupportedNode(x.node, `has size ${size}; the most is ${MAX_INT32}`);
  if (input.type !== 'float32') return localResponseAny(x, input, size);
  const output = x.build.scratch('float32', input.dims);
  x.build.emit({
    kind: 'localResponse',
    n: input.dims[0]!,
    channels: input.dims[1]!,
    inner: extentOf(input.dims, 2, input.dims.length),
    size,
    alpha: float(x.node, 'alpha', 1e-4),
    beta: float(x.node, 'beta', 0.75),
    k: float(x.node, 'bias', 1),
    input: input.operand,
    output: output.operand,
  });
  return output;
};

/** x / (bias + alpha / size * s) ^ beta, with s the sum of squares over a window of `size` channels: ONNX's formula. */
function localResponseAny(x: Lowering, input: Value, size: number): Value {
  if (sizeOf(input.dims) === 0) return input;
  const [n, c] = input.dims as [number, number];
  const inner = extentOf(input.dims, 2, input.dims.length);
  // Channels further away than there are any do not count.
  const [before, after] = [Math.floor((size - 1) / 2), Math.ceil((size - 1) / 2)].map((far) =>
    Math.min(far, c - 1),
  ) as [number, number];
  const squares = x.build.view(apply(x, 'multiply', [input, input]), [n, c, inner]);
  const padded = padWith(x, squares, [0, before, 0], [0, after, 0]);
  const windows = x.build.gatherStrided(
    padded,
    [n, before + 1 + after, c, inner],
    [padded.dims[1]! * inner, inner, inner, 1],
  );
  const [p, q] = [float(x.node, 'alpha', 1e-4) / size, float(x.node, 'bias', 1)];
  const base = apply(x, 'affine', [reduceTo(x, windows, [1], 'sum', false)], { p, q });
  const divisor = apply(x, 'power', [base, scalar(x, input.type, float(x.node, 'beta', 0.75))]);
  return apply(x, 'divide', [input, x.build.view(divisor, input.dims)]);
}

/** Of all axes from one on: x / sqrt(mean of squares + epsilon) * scale, in the type of the scale, and that root. */
function normalizeByRoot(x: Lowering): readonly [output: Value, root: Value] {
  const [input, scale] = [x.input(0), x.input(1)];
  const first = x.axis(integer(x.node, 'axis', -1), input.dims.length);
  requireWithin(x, scale, input.dims);
  const axes = input.dims.map((_, axis) => axis).slice(first);
  const mean = reduceTo(x, apply(x, 'multiply', [input, input]), axes, 'mean', true);
  const epsilon = scalar(x, input.type, epsilonOf(x));
  const root = apply(x, 'sqrt', [apply(x, 'add', [mean, epsilon])]);
  const normal = asType(x, apply(x, 'divide', [input, root]), scale.type);
  return [apply(x, 'multiply', [normal, scale]), root];
}

const rmsNormalization: Lower = (x) => normalizeByRoot(x)[0];

/** onnxruntime's, which gives one over the root, too: in float32, whatever the input is. */
export const simplifiedNormalization: Lower = (x) => {
  const [output, root] = normalizeByRoot(x);
  return x.hasOutput(1) ? [output, asFloat32(x, apply(x, 'reciprocal', [root]))] : output;
};

/** Along one axis each vector by its norm; one of zeros alone stays. */
const lpNormalization: Lower = (x) => {
  const input = x.input(0);
  const axis = x.axis(integer(x.node, 'axis', -1), input.dims.length);
  const p = integer(x.node, 'p', 2);
  if (p !== 1 && p !== 2) throw x.invalid(`has p ${p}; it takes 1 or 2`);
  const norm =
    p === 1
      ? reduceTo(x, apply(x, 'absolute', [input]), [axis], 'sum', true)
      : apply(x, 'sqrt', [reduceTo(x, input, [axis], 'sumOfSquares', true)]);
  const none = scalar(x, input.type, 0);
  const isNone = mapped(x, 'equal', [norm, none], 'bool');
  return choose(x, isNone, none, apply(x, 'divide', [input, norm]));
};

/** (x - mean) / (deviation + 1e-9), both over the axes */
const meanVarianceNormalization: Lower = (x) => {
  const input = x.input(0);
  const given = integers(x.node, 'axes', null) ?? [0, 2, 3];
  const axes = x.axes(given, input.dims.length).sort((a, b) => a - b);
  const difference = apply(x, 'subtract', [input, reduceTo(x, input, axes, 'mean', true)]);
  const variance = reduceTo(x, apply(x, 'multiply', [difference, difference]), axes, 'mean', true);
  const deviation = apply(x, 'add', [apply(x, 'sqrt', [variance]), scalar(x, input.type, 1e-9)]);
  return apply(x, 'divide', [difference, deviation]);
};

export const normalization: Record<string, Lower> = {
  BatchNormalization: batchNormalization,
  GroupNormalization: groupNormalization,
  InstanceNormalization: instanceNormalization,
  LpNormalization: lpNormalization,
  MeanVarianceNormalization: meanVarianceNormalization,
  RMSNormalization: rmsNormalization,
  LayerNormalization: layerNormalization,
  LRN: localResponse,
};

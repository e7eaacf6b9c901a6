/** Convolutions and their transposes. */
import type { ConvolutionSpec } from '../../addon';
import { areSameDims, MAX_INT32 } from '../../check';
import { integer, integers, string } from '../attributes';
import type { Sliced } from '../../slices';
import { shapeOf } from '../builder';
import type { ConstantTensor } from '../graph';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { sizeOf, stridesOf, type Value } from '../values';
import { convolveAny, convolveTransposed } from './unfolding';
import { attribute, counts, readWindows, type Window } from './windows';

interface Geometry extends Pick<ConvolutionSpec, 'stride' | 'dilation'> {
  /** Top, left, bottom, right */
  readonly padding: readonly [number, number, number, number];
}

const NO_ACTIVATION: ConvolutionSpec['activation'] = { name: 'none', parameters: [] };
const NO_SWITCHES: ConvolutionSpec['sconv'] = {
  schedule: null,
  presentation: null,
  vectorPacking: true,
  packing: 'onDemand',
};

/** A convolution of four-dimensional tensors without activation. The device is set where the program is made. */
function convolve(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  groups: number,
  geometry: Geometry,
  output: Value,
  keepsIntegers = false,
): void {
  requireElements(x, input, weight, output);
  const { stride, dilation, padding } = geometry;
  const beyond = [...input.dims, ...weight.dims, ...output.dims, ...stride, ...dilation, ...padding].find(
    (count) => count > MAX_INT32,
  );
  if (beyond !== undefined) {
    throw unsupportedNode(
      x.node,
      `has an extent, stride, dilation or padding of ${beyond}; the most is ${MAX_INT32}`,
    );
  }
  const convolution: ConvolutionSpec = {
    inputDims: input.dims,
    weightDims: weight.dims,
    ...geometry,
    groups,
    activation: NO_ACTIVATION,
    device: -1,
    algorithm: x.build.algorithm,
    variant: '',
    workspaceLimit: Infinity,
    sconv: NO_SWITCHES,
    keepsIntegers,
  };
  x.build.emit({
    kind: 'convolution',
    convolution,
    input: input.operand,
    weight: weight.operand,
    scale: null,
    bias: bias?.operand ?? null,
    residual: null,
    output: output.operand,
  });
}

/** An attribute that says again what the filter's dims say. */
function requireKernelShape(x: Lowering, weight: Value): void {
  if (weight.dims.slice(2).includes(0)) throw x.invalid(`has filters of no extent: ${shapeOf(weight)}`);
  const given = integers(x.node, 'kernel_shape', null);
  if (given === null || areSameDims(given, weight.dims.slice(2))) return;
  throw x.invalid(`has kernel_shape [${given.join(', ')}] and a filter of ${shapeOf(weight)}`);
}

/** A sum of no products is none that kernels make. */
export function requireElements(x: Lowering, input: Value, weight: Value, output: Value): void {
  const isEmpty = sizeOf(input.dims) === 0 || sizeOf(weight.dims) === 0;
  if (!isEmpty || sizeOf(output.dims) === 0) return;
  throw unsupportedNode(x.node, `convolves ${shapeOf(input)} with ${shapeOf(weight)}, one of which is empty`);
}

/** How many there are, once they are what the node and its input say. */
export function readFilters(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  groups: number,
): number {
  x.requireRank(weight, input.dims.length);
  const [filters, channels] = weight.dims as [number, number];
  if (groups < 1 || channels * groups !== input.dims[1] || filters % groups !== 0) {
    throw x.invalid(`convolves ${shapeOf(input)} with ${shapeOf(weight)} in ${groups} groups`);
  }
  if (bias !== undefined && sizeOf(bias.dims) !== filters) {
    throw x.invalid(`has a bias of ${shapeOf(bias)} for ${filters} filters`);
  }
  requireKernelShape(x, weight);
  return filters;
}

const conv: Lower = (x) => convolveWith(x, x.input(0), x.input(1), x.optional(2));

/** By the attributes of the node. */
export function convolveWith(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  keepsIntegers = false,
): Value {
  return convolveInGroups(x, input, weight, bias, integer(x.node, 'group', 1), keepsIntegers);
}

/** The same in groups that the node does not say. */
export function convolveInGroups(
  x: Lowering,
  input: Value,
  weight: Value,
  bias: Value | undefined,
  groups: number,
  keepsIntegers = false,
): Value {
  const filters = readFilters(x, input, weight, bias, groups);
  if (!isPlain(input)) {
    const output = convolveAny(x, input, weight, bias, groups);
    requireElements(x, input, weight, output);
    return output;
  }
  const { h, w, outputDims } = readWindows(x, input, weight.dims.slice(2));
  const output = x.build.scratch('float32', outputDims(filters));
  const geometry: Geometry = {
    stride: [h.stride, w.stride],
    dilation: [h.dilation, w.dilation],
    padding: [h.before, w.before, h.after, w.after],
  };
  convolve(x, flat(x, input), flat(x, weight), bias, groups, geometry, flat(x, output), keepsIntegers);
  return output;
}

/** Whether kernels of their own take it. */
function isPlain({ type, dims }: Value): boolean {
  return type === 'float32' && (dims.length === 3 || dims.length === 4);
}

/** A 1-D operand as a map of height 1. */
function flat(x: Lowering, value: Value): Value {
  if (value.dims.length === 4) return value;
  const [n, c, w] = value.dims as [number, number, number];
  return x.build.view(value, [n, c, 1, w]);
}

/** One axis of a transposed convolution. */
interface TransposedAxis {
  readonly input: number;
  readonly filter: number;
  readonly stride: number;
  readonly dilation: number;
  readonly before: number;
  readonly output: number;
}

/**
 * The outputs o of one axis with (o + before) mod stride = phase: an ordinary convolution of stride 1. Filter element r
 * reaches them where r * dilation mod stride = phase. With o + before = u * stride + phase, those elements are r = first
 * + j * step and see the inputs u - shift - j * dilation.
 */
interface Phase {
  /** Filter elements, in the order in which the convolution has them: the transposed one's backwards */
  readonly elements: readonly number[];
  readonly dilation: number;
  readonly before: number;
  readonly after: number;
  /** How many of the convolution's outputs to pass over, and how many to keep */
  readonly skip: number;
  readonly count: number;
  /** The first output that it makes */
  readonly start: number;
}

function phaseOf(axis: TransposedAxis, phase: number): Phase {
  const { input, filter, stride, dilation, before, output } = axis;
  const elements = Array.from({ length: filter }, (_, r) => r).filter(
    (r) => (r * dilation) % stride === phase,
  );
  const first = Math.max(0, Math.ceil((before - phase) / stride));
  const start = first * stride + phase - before;
  const count = start < output ? Math.ceil((output - start) / stride) : 0;
  const shifts = elements.map((r) => (r * dilation - phase) / stride);
  const step = shifts.length > 1 ? shifts[1]! - shifts[0]! : 1;
  // Output u of the phase begins its window at input u - reach; the window's last element is at u - shifts[0].
  const reach = shifts.at(-1) ?? 0;
  const padBefore = reach - first;
  const padAfter = first + count - 1 - (shifts[0] ?? 0) - (input - 1);
  return {
    elements: [...elements].reverse(),
    dilation: step,
    before: Math.max(0, padBefore),
    after: Math.max(0, padAfter),
    skip: Math.max(0, -padBefore),
    count,
    start,
  };
}

/**
 * A transposed convolution as ordinary ones: one for each phase of the output along both axes, by the part of the filter
 * that reaches it, and their results put between each other. No zero is multiplied.
 */
function* convTranspose(x: Lowering): Sliced<Value> {
  const [input, weight, bias] = [x.input(0), x.input(1), x.optional(2)];
  x.requireRank(weight, input.dims.length);
  const groups = integer(x.node, 'group', 1);
  const filters = weight.dims[1]! * groups;
  if (groups < 1 || weight.dims[0]! % groups !== 0) {
    throw x.invalid(`convolves ${shapeOf(input)} with ${shapeOf(weight)} in ${groups} groups`);
  }
  if (bias !== undefined && sizeOf(bias.dims) !== filters) {
    throw x.invalid(`has a bias of ${shapeOf(bias)} for ${filters} filters`);
  }
  requireKernelShape(x, weight);
  const axes = transposedAxes(x, input, weight);
  if (!isPlain(input) || weight.constant === undefined) {
    return convolveTransposed(x, input, weight, bias, axes.map(windowOf));
  }
  const extents = axes.map(({ output }) => output);
  const output = x.build.scratch('float32', [input.dims[0]!, filters, ...extents]);
  // Filters of no elements may have any extents, whose elements are counted below.
  requireElements(x, input, weight, output);
  if (sizeOf(output.dims) === 0) return output;
  const [h, w] = axes.length === 1 ? [FLAT_AXIS, axes[0]!] : [axes[0]!, axes[1]!];
  const maps = { input: flat(x, input), weight: flat(x, weight), output: flat(x, output) };
  const phases = { h: phasesOf(h), w: phasesOf(w) };
  if (phases.h.length < h.stride || phases.w.length < w.stride) fillWithBias(x, maps.output, bias);
  for (const a of phases.h) {
    for (const b of phases.w) yield* computePhase(x, maps, bias, groups, { h, w }, { h: a, w: b });
  }
  return output;
}

/** The axis with output and input changed: what the windows of a convolution over its result are. */
function windowOf({ input, filter, stride, dilation, before, output }: TransposedAxis): Window {
  const after = Math.max(0, (input - 1) * stride + (filter - 1) * dilation + 1 - before - output);
  return { input: output, filter, stride, dilation, before, after, output: input };
}

/** The phases that the filter reaches: with a stride beyond its extent, not all. */
function phasesOf(axis: TransposedAxis): Phase[] {
  const reached = Array.from({ length: axis.filter }, (_, r) => (r * axis.dilation) % axis.stride);
  return [...new Set(reached)].map((phase) => phaseOf(axis, phase)).filter(({ count }) => count > 0);
}

/** Every output is its channel's bias, until a phase is written over it. */
function fillWithBias(x: Lowering, output: Value, bias: Value | undefined): void {
  const [, filters] = output.dims as [number, number];
  const zeros = () => ({ type: 'float32', dims: [filters], data: new Float32Array(filters) }) as const;
  const rest = bias ?? x.derive('zeros', [x.input(1)], zeros);
  x.build.copy(rest, output.dims, [0, 1, 0, 0], output, stridesOf(output.dims));
}

const FLAT_AXIS: TransposedAxis = { input: 1, filter: 1, stride: 1, dilation: 1, before: 0, output: 1 };

function* computePhase(
  x: Lowering,
  { input, weight, output }: { input: Value; weight: Value; output: Value },
  bias: Value | undefined,
  groups: number,
  axes: { h: TransposedAxis; w: TransposedAxis },
  phase: { h: Phase; w: Phase },
): Sliced<void> {
  const { h, w } = phase;
  const [n, filters] = output.dims as [number, number];
  const kept = [n, filters, h.count, w.count];
  const strides = stridesOf(output.dims);
  const into = [strides[0]!, strides[1]!, strides[2]! * axes.h.stride, axes.w.stride];
  const first = h.start * strides[2]! + w.start;
  const part = yield* partOf(x, weight, groups, h.elements, w.elements);
  const dims = [n, filters, h.skip + h.count, w.skip + w.count];
  const between = x.build.scratch('float32', outputsOf(input, part, dims, phase));
  const geometry: Geometry = {
    stride: [1, 1],
    dilation: [h.dilation, w.dilation],
    padding: [h.before, w.before, h.after, w.after],
  };
  convolve(x, input, part, bias, groups, geometry, between);
  const from = stridesOf(between.dims);
  x.build.copy(between, kept, from, output, into, h.skip * from[2]! + w.skip, first);
}

/** What the convolution of a phase makes: at the end there may be outputs that nobody wants. */
function outputsOf(
  input: Value,
  part: Value,
  [n, k]: readonly number[],
  { h, w }: { h: Phase; w: Phase },
): number[] {
  const along = (axis: number, { before, after, dilation }: Phase) =>
    input.dims[axis]! + before + after - (part.dims[axis]! - 1) * dilation;
  return [n!, k!, along(2, h), along(3, w)];
}

/** The filter [C, K / groups, R, S] as one of a convolution, [K, C / groups, …], of these rows and columns alone. */
function partOf(
  x: Lowering,
  weight: Value,
  groups: number,
  rows: readonly number[],
  columns: readonly number[],
): Sliced<Value> {
  const { data } = x.constant(1);
  return x.deriveInSlices(`rows ${rows.join()} columns ${columns.join()}`, [x.input(1)], () =>
    rearranged(data as Float32Array, weight.dims, groups, rows, columns),
  );
}

/** Of a filter of some elements each; they take some microseconds. */
const CHANNELS_AT_ONCE = 64;

function* rearranged(
  data: Float32Array,
  weightDims: readonly number[],
  groups: number,
  rows: readonly number[],
  columns: readonly number[],
): Sliced<ConstantTensor<'float32'>> {
  const [channels, filters, r, s] = weightDims as [number, number, number, number];
  const groupChannels = channels / groups;
  const part = new Float32Array(filters * channels * rows.length * columns.length);
  let to = 0;
  for (let k = 0; k < filters * groups; k++) {
    for (let c = 0; c < groupChannels; c++) {
      if (c % CHANNELS_AT_ONCE === 0) yield;
      const channel = Math.floor(k / filters) * groupChannels + c;
      const from = (channel * filters + (k % filters)) * r;
      for (const row of rows) {
        for (const column of columns) part[to++] = data[(from + row) * s + column]!;
      }
    }
  }
  return {
    type: 'float32',
    dims: [filters * groups, groupChannels, rows.length, columns.length],
    data: part,
  };
}

function transposedAxes(x: Lowering, input: Value, weight: Value): TransposedAxis[] {
  const filter = weight.dims.slice(2);
  const rank = filter.length;
  const strides = attribute(x, 'strides', rank, 1);
  const dilations = attribute(x, 'dilations', rank, 1);
  const extra = counts(x, 'output_padding', rank);
  if (extra.some((count, i) => count >= Math.max(strides[i]!, dilations[i]!))) {
    throw x.invalid(`has output_padding [${extra.join(', ')}], which is no less than strides and dilations`);
  }
  const shape = integers(x.node, 'output_shape', null) ?? undefined;
  // Some exporters write those of images and channels, too.
  if (shape !== undefined && shape.length !== rank && shape.length !== rank + 2) {
    throw x.invalid(`has output_shape [${shape.join(', ')}] for ${rank} axes`);
  }
  const wanted = shape?.slice(-rank);
  const pads = counts(x, 'pads', 2 * rank);
  const mode = string(x.node, 'auto_pad', ['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID'], 'NOTSET');
  return filter.map((extent, i) => {
    const [stride, dilation, size] = [strides[i]!, dilations[i]!, input.dims[i + 2]!];
    const full = stride * (size - 1) + extra[i]! + (extent - 1) * dilation + 1;
    const target = wanted?.[i] ?? (mode.startsWith('SAME') ? size * stride : undefined);
    const total = target === undefined ? undefined : Math.max(0, full - target);
    const given = mode === 'NOTSET' ? [pads[i]!, pads[i + rank]!] : [0, 0];
    const [before, after] = total === undefined ? given : halves(total, mode);
    const output = target ?? full - before! - after!;
    if (output < 1) throw x.invalid(`has no output along axis ${i + 2}`);
    return { input: size, filter: extent, stride, dilation, before: before!, output };
  });
}

/** Which end has the odd element follows ONNX's formula for output_shape. */
function halves(total: number, mode: string): [before: number, after: number] {
  const less = Math.floor(total / 2);
  return mode === 'SAME_UPPER' ? [less, total - less] : [total - less, less];
}

export const convolution: Record<string, Lower> = { Conv: conv, ConvTranspose: convTranspose };

/** What convolutions and pools have in common: the attributes that say how a window steps over a map. */
import { MAX_INT32 } from '../../check';
import { integers, string } from '../attributes';
import type { Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { Value } from '../values';

/** Of one axis */
export interface Window {
  readonly input: number;
  readonly filter: number;
  readonly stride: number;
  readonly dilation: number;
  readonly before: number;
  readonly after: number;
  readonly output: number;
}

/** Windows over the height and the width; the height of a 1-D operator is 1. */
export interface Windows {
  readonly h: Window;
  readonly w: Window;
  /** The dims of a result with so many channels, in the rank of the node's input */
  readonly outputDims: (channels: number) => number[];
}

interface StepOptions {
  readonly ceil?: boolean;
  /** A pool has one window if a stride more would do, and then none: as onnxruntime counts. Elsewhere that is a fault. */
  readonly isPool?: boolean;
}

/** @param filter - spatial extents, of one or two axes */
export function readWindows(
  x: Lowering,
  input: Value,
  filter: readonly number[],
  options: StepOptions = {},
): Windows {
  const axes = readAxes(x, input, filter, options);
  const [h, w] = axes.length === 1 ? [FLAT, axes[0]!] : [axes[0]!, axes[1]!];
  const outputDims = (channels: number) => [input.dims[0]!, channels, ...axes.map(({ output }) => output)];
  return { h, w, outputDims };
}

/** @param filter - spatial extents */
export function readAxes(
  x: Lowering,
  input: Value,
  filter: readonly number[],
  { ceil = false, isPool = false }: StepOptions = {},
): Window[] {
  const { node } = x;
  const rank = filter.length;
  const spatial = input.dims.slice(2);
  const strides = attribute(x, 'strides', rank, 1);
  const dilations = attribute(x, 'dilations', rank, 1);
  const pads = counts(x, 'pads', 2 * rank);
  const mode = string(node, 'auto_pad', ['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID'], 'NOTSET');
  return spatial.map((extent, i): Window => {
    const [stride, dilation] = [strides[i]!, dilations[i]!];
    const reach = (filter[i]! - 1) * dilation + 1;
    const given = mode === 'NOTSET' ? { before: pads[i]!, after: pads[i + rank]! } : { before: 0, after: 0 };
    const { before, after } = mode.startsWith('SAME') ? samePadding(extent, reach, stride, mode) : given;
    const steps = (extent + before + after - reach) / stride;
    let output = (ceil ? Math.ceil(steps) : isPool ? Math.trunc(steps) : Math.floor(steps)) + 1;
    // A last window that begins beyond the input and the padding before it has nothing to see.
    if (ceil && output > 0 && (output - 1) * stride >= extent + before) output--;
    if (output < (isPool ? 0 : 1))
      throw x.invalid(`has windows of ${reach} that do not fit into ${extent} elements`);
    if (Math.max(extent, output, filter[i]!) > MAX_INT32) {
      throw unsupportedNode(node, `steps from ${extent} to ${output} elements; the most is ${MAX_INT32}`);
    }
    return { input: extent, filter: filter[i]!, stride, dilation, before, after, output };
  });
}

const FLAT: Window = { input: 1, filter: 1, stride: 1, dilation: 1, before: 0, after: 0, output: 1 };

/** As many outputs as the stride goes into the input; an odd element of padding is after it, or before. */
function samePadding(extent: number, reach: number, stride: number, mode: string) {
  const total = Math.max(0, (Math.ceil(extent / stride) - 1) * stride + reach - extent);
  const less = Math.floor(total / 2);
  return mode === 'SAME_LOWER'
    ? { before: total - less, after: less }
    : { before: less, after: total - less };
}

function bounded(x: Lowering, name: string, given: readonly number[]): readonly number[] {
  if (given.every((count) => count <= MAX_INT32)) return given;
  throw unsupportedNode(x.node, `has ${name} [${given.join(', ')}]; the most is ${MAX_INT32}`);
}

/** Integers that default to 0, and are not negative. */
export function counts(x: Lowering, name: string, length: number): readonly number[] {
  const given = integers(x.node, name, new Array<number>(length).fill(0));
  const isLegal = given.every((count) => count >= 0);
  if (given.length === length && isLegal) return bounded(x, name, given);
  throw x.invalid(`has ${name} [${given.join(', ')}]; it takes ${length} non-negative integers`);
}

/** Positive integers. */
export function attribute(x: Lowering, name: string, rank: number, fallback: number): readonly number[] {
  const given = integers(x.node, name, null) ?? new Array<number>(rank).fill(fallback);
  const isLegal = given.every((value) => value >= 1);
  if (given.length === rank && isLegal) return bounded(x, name, given);
  throw x.invalid(`has ${name} [${given.join(', ')}]; it takes ${rank} positive integers`);
}

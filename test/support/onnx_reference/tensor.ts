/** Tensors of the reference: plain lists of numbers, in row-major order. */

export const FLOATS = ['float16', 'bfloat16', 'float32', 'float64'] as const;
export const SIGNED = ['int8', 'int16', 'int32', 'int64'] as const;
export const UNSIGNED = ['uint8', 'uint16', 'uint32', 'uint64'] as const;
/** Which few operators take: those that quantise. */
export const SMALL_FLOATS = [
  ...(['float8e4m3fn', 'float8e4m3fnuz', 'float8e5m2', 'float8e5m2fnuz', 'float4e2m1'] as const),
] as const;
export const SMALL_INTEGERS = ['int4', 'uint4', 'int2', 'uint2'] as const;
export type SmallFloat = (typeof SMALL_FLOATS)[number];
export type ElementType =
  | (typeof FLOATS)[number]
  | (typeof SIGNED)[number]
  | (typeof UNSIGNED)[number]
  | SmallFloat
  | (typeof SMALL_INTEGERS)[number]
  | 'bool';

/** A number for a float type; a bigint for an integer type, and 0n or 1n for bool. */
export type Scalar = number | bigint;
export type Dims = readonly number[];

export interface RefTensor {
  readonly type: ElementType;
  readonly dims: Dims;
  readonly data: readonly Scalar[];
}

/** What an operator has to answer. */
export interface Expected extends RefTensor {
  /**
   * By how much each element may be off, in absolute terms; NaN where ONNX says nothing of the element. Left out where
   * elements are copies, whose bits must be the same.
   */
  readonly allowed?: readonly number[];
}

/** ONNX has no such model: it must be refused. */
export class Illegal extends Error {}

/** An index points beyond its axis. Only a run may know, and then it fails. */
export class OutOfRange extends Illegal {}

/** ONNX has the model, or leaves undefined what it does, and the reference has no answer: only a refusal can be judged. */
export class Unjudged extends Error {}

/** The model is legal, and this is larger than a test should compute. `size` is in elements, or in steps. */
export class TooLarge extends Error {
  constructor(readonly size: number) {
    super(`of size ${size}`);
  }
}

const MOST_ELEMENTS = 2 ** 20;

export function isFloat(type: ElementType): boolean {
  return (FLOATS as readonly string[]).includes(type) || isSmallFloat(type);
}

export function isSmallFloat(type: ElementType): type is SmallFloat {
  return (SMALL_FLOATS as readonly string[]).includes(type);
}

export function sizeOf(dims: Dims): number {
  return dims.reduce((product, extent) => product * extent, 1);
}

/** Results are made for dims that have gone through this. */
export function requireSmall(dims: Dims): void {
  const bad = dims.find((extent) => !(Number.isInteger(extent) && extent >= 0));
  if (bad !== undefined) throw new Illegal(`an extent of ${bad}`);
  if (sizeOf(dims) > MOST_ELEMENTS) throw new TooLarge(sizeOf(dims));
}

export function stridesOf(dims: Dims): number[] {
  return dims.map((_, axis) => sizeOf(dims.slice(axis + 1)));
}

/** Visits all coordinates in row-major order; the list of them is changed by the next step. */
export function forEachIndex(dims: Dims, visit: (at: readonly number[], index: number) => void): void {
  const at = dims.map(() => 0);
  const count = sizeOf(dims);
  for (let index = 0; index < count; index++) {
    visit(at, index);
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      if (++at[axis]! < dims[axis]!) break;
      at[axis] = 0;
    }
  }
}

export function offsetOf(at: readonly number[], strides: readonly number[]): number {
  let offset = 0;
  for (let axis = 0; axis < strides.length; axis++) offset += at[axis]! * strides[axis]!;
  return offset;
}

/** NumPy's broadcasting of several shapes to each other. */
export function broadcastDims(...shapes: readonly Dims[]): number[] {
  const rank = Math.max(...shapes.map((dims) => dims.length));
  return Array.from({ length: rank }, (_, axis) => {
    const extents = shapes.map((dims) => dims[axis - rank + dims.length] ?? 1);
    const extent = extents.find((candidate) => candidate !== 1) ?? 1;
    if (extents.some((other) => other !== 1 && other !== extent)) {
      throw new Illegal(`[${shapes.join('] and [')}] cannot be broadcast`);
    }
    return extent;
  });
}

/** Whether `dims` can be broadcast to `target` without changing it. */
export function requireBroadcastTo(dims: Dims, target: Dims): void {
  if (broadcastDims(dims, target).join() === target.join()) return;
  throw new Illegal(`[${dims}] cannot be broadcast to [${target}]`);
}

/** Strides by which a tensor of `dims` is read at coordinates of `target`. */
export function broadcastStrides(dims: Dims, target: Dims): number[] {
  const own = stridesOf(dims).map((stride, axis) => (dims[axis] === 1 ? 0 : stride));
  return [...new Array<number>(target.length - dims.length).fill(0), ...own];
}

/** The elements of a tensor at every place of the shape that it is broadcast to. */
export function broadcastData({ dims, data }: RefTensor, target: Dims): Scalar[] {
  requireSmall(target);
  const strides = broadcastStrides(dims, target);
  const result: Scalar[] = [];
  forEachIndex(target, (at) => result.push(data[offsetOf(at, strides)]!));
  return result;
}

/** A tensor whose elements are those of another, by the coordinates of each. */
export function moved(
  input: RefTensor,
  dims: Dims,
  source: (at: readonly number[], index: number) => number,
): Expected {
  requireSmall(dims);
  const data: Scalar[] = [];
  forEachIndex(dims, (at, index) => data.push(input.data[source(at, index)]!));
  return { type: input.type, dims, data };
}

/** A place on an axis, counted from the front. */
export function placeOf(index: Scalar, extent: number): number {
  const place = Number(index);
  if (place >= -extent && place < extent) return place < 0 ? place + extent : place;
  throw new OutOfRange(`element ${index} of ${extent}`);
}

/** An axis counted from the front. */
export function axisOf(axis: number, rank: number): number {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw new Illegal(`axis ${axis} of ${rank}`);
}

/** Different axes, counted from the front. What comes of one that is there twice ONNX mostly leaves undefined. */
export function axesOf(axes: readonly number[], rank: number): number[] {
  const counted = axes.map((axis) => axisOf(axis, rank));
  if (new Set(counted).size < counted.length)
    throw new Unjudged(`axes [${axes}] of ${rank}, one of them twice`);
  return counted;
}

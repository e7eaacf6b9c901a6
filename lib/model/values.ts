/** The tensors of a network that is being compiled. */
import { elementCount } from '../check';
import { CONSTRUCTORS, type DataType } from '../tensor/tensor';
import type { ConstantTensor } from './graph';

/** Memory that tensors lie in. Two are the same memory when they are the same object. */
export interface Storage {
  readonly space: 'input' | 'output' | 'constant' | 'arena';
  readonly bytes: number;
  /** Of a constant */
  readonly data?: ArrayBufferView;
  /** Whether a constant lives, and stays as it is, as long as the session */
  readonly isShared?: boolean;
}

/** A tensor's place: where in a storage it begins, in bytes. */
export interface Operand {
  readonly storage: Storage;
  readonly offset: number;
}

/** A tensor whose extents are known: dense and row-major. */
export interface Value<T extends DataType = DataType> {
  readonly type: T;
  readonly dims: readonly number[];
  readonly operand: Operand;
  /** Its elements, where they are known before a run */
  readonly constant?: ConstantTensor<T>;
  /** Whether dims and elements are the same for all dims of the network's inputs */
  readonly isFixed?: boolean;
}

/** Bytes of one element. */
export function bytesOf(type: DataType): number {
  return CONSTRUCTORS[type].BYTES_PER_ELEMENT;
}

export function sizeOf(dims: readonly number[]): number {
  return elementCount(dims);
}

/** Row-major strides in elements. */
export function stridesOf(dims: readonly number[]): number[] {
  const strides = new Array<number>(dims.length);
  let stride = 1;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= dims[axis]!;
  }
  return strides;
}

/** Whether strides go through extents row by row, without a gap. */
export function areDense(extents: readonly number[], strides: readonly number[]): boolean {
  const dense = stridesOf(extents);
  return extents.every((extent, axis) => extent === 1 || strides[axis] === dense[axis]);
}

/** Product of the extents of axes from `start` up to `end`. */
export function extentOf(dims: readonly number[], start: number, end: number): number {
  return dims.slice(start, end).reduce((product, extent) => product * extent, 1);
}

/**
 * Merges neighbouring axes that every list of strides steps through as through one, and drops axes of extent 1; one
 * axis is always left.
 */
export function coalesce(
  extents: readonly number[],
  strides: readonly (readonly number[])[],
): { extents: number[]; strides: number[][] } {
  const merged = { extents: [] as number[], strides: strides.map(() => [] as number[]) };
  extents.forEach((extent, axis) => {
    if (extent === 1) return;
    const steps = strides.map((list) => list[axis]!);
    const last = merged.extents.length - 1;
    const continues = last >= 0 && merged.strides.every((list, i) => list[last] === steps[i]! * extent);
    if (continues) {
      merged.extents[last]! *= extent;
      merged.strides.forEach((list, i) => (list[last] = steps[i]!));
    } else {
      merged.extents.push(extent);
      merged.strides.forEach((list, i) => list.push(steps[i]!));
    }
  });
  if (merged.extents.length === 0) return { extents: [1], strides: strides.map(() => [0]) };
  return merged;
}

/** The dims that operands of these dims are broadcast to, as in NumPy; `undefined` where they cannot be. */
export function broadcastDims(...all: readonly (readonly number[])[]): number[] | undefined {
  const rank = Math.max(0, ...all.map((dims) => dims.length));
  const result = new Array<number>(rank).fill(1);
  for (const dims of all) {
    for (let i = 0; i < dims.length; i++) {
      const axis = rank - dims.length + i;
      if (result[axis] === 1) result[axis] = dims[i]!;
      else if (dims[i] !== 1 && dims[i] !== result[axis]) return undefined;
    }
  }
  return result;
}

/** A dense operand's strides along the axes of dims that it is broadcast to: 0 where it is repeated. */
export function broadcastStrides(dims: readonly number[], to: readonly number[]): number[] {
  const own = stridesOf(dims);
  return to.map((_, axis) => {
    const i = axis - (to.length - dims.length);
    return i < 0 || dims[i] === 1 ? 0 : own[i]!;
  });
}

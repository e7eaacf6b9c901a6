/** Tensors in CPU memory, as hosted operators read and make them. */
import { elementCount } from '../../check';
import { CONSTRUCTORS, type DataType } from '../../tensor/tensor';
import type { ConstantTensor, GraphNode } from '../graph';
import { invalidNode } from '../refusals';

export type Elements = (number | bigint)[];

/** The elements by their places: typed arrays of numbers and of bigints have one form here. */
export function elementsOf({ data }: ConstantTensor): Elements {
  return data as unknown as Elements;
}

/** A tensor of zeros. */
export function zeros<T extends DataType>(type: T, dims: readonly number[]): ConstantTensor<T> {
  return { type, dims, data: new CONSTRUCTORS[type](elementCount(dims)) } as unknown as ConstantTensor<T>;
}

export function int64s(dims: readonly number[], values: readonly number[]): ConstantTensor {
  return { type: 'int64', dims, data: BigInt64Array.from(values, BigInt) };
}

/** The only element of an input, or a fallback where it is left out. */
export function scalarOf(
  node: GraphNode,
  inputs: readonly (ConstantTensor | undefined)[],
  i: number,
  fallback: number,
): number {
  const input = inputs[i];
  if (input === undefined) return fallback;
  if (input.data.length !== 1) throw invalidNode(node, `takes one element as its input ${i}`);
  return Number(elementsOf(input)[0]);
}

export function required(
  node: GraphNode,
  inputs: readonly (ConstantTensor | undefined)[],
  i: number,
): ConstantTensor {
  const input = inputs[i];
  if (input === undefined) throw invalidNode(node, `lacks its input ${i}`);
  return input;
}

/** An axis as a count from the front. */
export function axisOf(node: GraphNode, axis: number, rank: number): number {
  const counted = axis < 0 ? axis + rank : axis;
  if (Number.isInteger(counted) && counted >= 0 && counted < rank) return counted;
  throw invalidNode(node, `has axis ${axis}; its input has ${rank} axes`);
}

/** Of an axis how often what lies behind it is repeated, and how much that is. */
export function around(
  dims: readonly number[],
  axis: number,
): { outer: number; extent: number; inner: number } {
  return {
    outer: elementCount(dims.slice(0, axis)),
    extent: dims[axis]!,
    inner: elementCount(dims.slice(axis + 1)),
  };
}

/** The tensor's slices at these places of an axis. */
export function takeSlices(tensor: ConstantTensor, axis: number, places: readonly number[]): ConstantTensor {
  const { outer, extent, inner } = around(tensor.dims, axis);
  const taken = zeros(tensor.type, tensor.dims.with(axis, places.length));
  const data = tensor.data as Uint8Array;
  for (let o = 0; o < outer; o++) {
    for (const [i, place] of places.entries()) {
      const from = (o * extent + place) * inner;
      (taken.data as Uint8Array).set(data.subarray(from, from + inner), (o * places.length + i) * inner);
    }
  }
  return taken;
}

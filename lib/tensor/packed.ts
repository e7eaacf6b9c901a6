/**
 * Types of which several elements share a byte, the first of them in its low bits. Tensors and files have them so;
 * networks compute with one byte an element.
 */
import type { DataType } from './data_types';

const BITS: Readonly<Partial<Record<DataType, number>>> = {
  int4: 4,
  uint4: 4,
  float4e2m1: 4,
  int2: 2,
  uint2: 2,
};

/** Bits of an element of a type that is packed; `undefined` for others. */
export function packedBits(type: DataType): number | undefined {
  return BITS[type];
}

/** Elements of a type in one element of its array. */
export function elementsPerItem(type: DataType): number {
  return 8 / (BITS[type] ?? 8);
}

/** How long an array is that has so many elements of a type. */
export function arrayLength(type: DataType, count: number): number {
  const bits = BITS[type];
  return bits === undefined ? count : Math.ceil(count / (8 / bits));
}

/** Whether elements of a packed type have a sign. */
export function isSigned(type: DataType): boolean {
  return type === 'int4' || type === 'int2';
}

/** Puts elements `first` to `end` of a packed type into bytes of their own, integers with a sign as such. */
export function unpackTo(
  to: Int8Array | Uint8Array,
  type: DataType,
  packed: ArrayLike<number>,
  first: number,
  end: number,
): void {
  const bits = BITS[type]!;
  const mask = 2 ** bits - 1;
  const perByte = 8 / bits;
  const cut = isSigned(type) ? 32 - bits : 0;
  for (let i = first; i < end; i++) {
    const element = (packed[Math.floor(i / perByte)]! >> (bits * (i % perByte))) & mask;
    to[i] = (element << cut) >> cut;
  }
}

/** The bytes that hold such elements. What is left of the last one is zero. */
export function packTo(to: Int8Array | Uint8Array, type: DataType, elements: ArrayLike<number>): void {
  const bits = BITS[type]!;
  const mask = 2 ** bits - 1;
  const perByte = 8 / bits;
  for (let i = 0; i < elements.length; i++) {
    const place = Math.floor(i / perByte);
    to[place] = to[place]! | ((elements[i]! & mask) << (bits * (i % perByte)));
  }
}

/**
 * Types of 4 and 2 bits on their way into a network and out of it: tensors have several elements in a byte, networks one.
 */
import { arrayLength, elementsPerItem, packedBits, unpackTo } from '../tensor/packed';
import { CONSTRUCTORS, type DataType } from '../tensor/tensor';
import type { Sliced } from '../slices';
import type { Builder } from './builder';
import { sizeOf, type Value } from './values';

/** Elements that are unpacked one by one in a millisecond or less. */
const UNPACKED_AT_ONCE = 2 ** 18;

/** The elements of a constant, each in a byte of its own. */
export function* unpacked(type: DataType, packed: ArrayLike<number>, count: number): Sliced<Uint8Array> {
  const elements = new CONSTRUCTORS[type](count) as Uint8Array;
  for (let first = 0; first < count; first += UNPACKED_AT_ONCE) {
    yield;
    unpackTo(elements, type, packed, first, Math.min(first + UNPACKED_AT_ONCE, count));
  }
  return elements;
}

/** The bytes of elements under another type that is stored in as many. */
function relabelled<T extends DataType>(value: Value, type: T): Value<T> {
  return { type, dims: value.dims, operand: value.operand };
}

function byte(build: Builder, number: number): Value {
  return build.constant({ type: 'uint8', dims: [], data: Uint8Array.of(number) });
}

/** The tensor that so many bytes hold: the elements at each place of a byte by themselves, then one after the other. */
export function unpack(build: Builder, bytes: Value, type: DataType, dims: readonly number[]): Value {
  const bits = packedBits(type)!;
  const perByte = elementsPerItem(type);
  const [count] = bytes.dims as [number];
  // What a cast to an integer leaves are the low bits; a float would be rounded.
  const integer = type === 'float4e2m1' ? 'uint4' : type;
  const elements = build.scratch(type, [count * perByte]);
  for (let i = 0; i < perByte; i++) {
    const part = build.map('shiftRight', [bytes, byte(build, i * bits)], { outputType: integer });
    build.copy(part, [count], [1], elements, [perByte], 0, i);
  }
  return build.view(elements, dims);
}

/** The bytes that a tensor of a packed type is in; what is left of the last is zero. */
export function pack(build: Builder, value: Value): Value {
  const bits = packedBits(value.type)!;
  const perByte = elementsPerItem(value.type);
  const count = sizeOf(value.dims);
  const length = arrayLength(value.type, count);
  const elements = relabelled(build.view(value, [count]), 'uint8');
  let packed = build.scratch('uint8', [length]);
  for (let i = 0; i < perByte && length > 0; i++) {
    const places = Math.ceil((count - i) / perByte);
    const own = i === 0 ? packed : build.map('constant', [packed], { outputType: 'uint8', p: 0 });
    build.copy(elements, [places], [perByte], own, [1], i);
    const masked = build.map('bitAnd', [own, byte(build, 2 ** bits - 1)], { outputType: 'uint8' });
    const shifted = build.map('shiftLeft', [masked, byte(build, i * bits)], { outputType: 'uint8' });
    packed = i === 0 ? shifted : build.map('bitOr', [packed, shifted], { outputType: 'uint8' });
  }
  return packed;
}

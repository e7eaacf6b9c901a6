/** Elements of constants that are made of numbers, or of other constants. */
import { isSigned, packedBits } from '../tensor/packed';
import { fromBits, nearestBits, smallFloatOf } from '../tensor/small_floats';
import { CONSTRUCTORS, type DataType, type DataTypeMap } from '../tensor/tensor';
import type { ConstantTensor } from './graph';

/** The nearest of the type; integers are cut towards zero and keep their low bits. */
export function typedArray<T extends DataType>(
  type: T,
  numbers: readonly (number | bigint)[],
): DataTypeMap[T] {
  const Elements = CONSTRUCTORS[type] as { new (length: number): unknown };
  const data = new Elements(numbers.length) as (number | bigint)[];
  const to = converter(type);
  for (const [i, number] of numbers.entries()) data[i] = to(number);
  return data as unknown as DataTypeMap[T];
}

/** What a cast in a run makes of the elements: floats become the nearest integer of the type, and NaN becomes 0. */
export function convertedTo<T extends DataType>(
  type: T,
  { type: own, data }: ConstantTensor,
): DataTypeMap[T] {
  if (convertsAsArrays(own, type)) {
    const converted = new CONSTRUCTORS[type](data.length) as Float32Array;
    converted.set(data as Float32Array);
    return converted as unknown as DataTypeMap[T];
  }
  const elements = Array.from(data as ArrayLike<number | bigint>);
  const format = smallFloatOf(own);
  const isReal = format !== undefined || own.startsWith('float');
  const bounds = isReal ? boundsOf(type) : undefined;
  return typedArray(
    type,
    elements.map((element) => {
      if (typeof element === 'bigint') return element;
      const number = format === undefined ? element : fromBits(element, format);
      return bounds === undefined ? number : within(number, bounds);
    }),
  );
}

/** Types whose arrays hold what their elements stand for, as JavaScript's numbers. */
const PLAIN = /^(float32|float64|u?int(8|16|32))$/;

/** Whether an array of the one type that is made of one of the other is a cast: integers keep their low bits there, too. */
function convertsAsArrays(from: DataType, to: DataType): boolean {
  return PLAIN.test(from) && PLAIN.test(to) && (to.startsWith('float') || !from.startsWith('float'));
}

type Bounds = readonly [least: bigint, greatest: bigint];

function boundsOf(type: DataType): Bounds | undefined {
  const [, unsigned, width] = /^(u?)int(\d+)$/.exec(type) ?? [];
  if (width === undefined) return undefined;
  // Floats that become smaller integers do so by way of one of 8 bits, of which the low ones are left.
  if (packedBits(type) !== undefined) return [-128n, 127n];
  const bits = BigInt(width);
  return unsigned === 'u' ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
}

function within(number: number, [least, greatest]: Bounds): number | bigint {
  if (Number.isNaN(number)) return 0;
  if (number <= Number(least)) return least;
  // The greatest of 64 bits is no double: the nearest one is beyond it.
  return number >= Number(greatest) ? greatest : number;
}

function converter(type: DataType): (element: number | bigint) => number | bigint {
  const format = smallFloatOf(type);
  if (format !== undefined) return (element) => nearestBits(shortened(element), format);
  const bits = packedBits(type);
  if (bits !== undefined) return (element) => lowBits(type, bits, element);
  switch (type) {
    case 'int64':
    case 'uint64':
      return (element) => (typeof element === 'bigint' ? element : BigInt(Math.trunc(element)));
    case 'float32':
      return shortened;
    case 'bool':
      return (element) => Number(Number(element) !== 0);
    case 'float64':
      return Number;
    default:
      return (element) => (typeof element === 'bigint' ? Number(BigInt.asIntN(32, element)) : element);
  }
}

const DOUBLE_BITS = 53;

/** A double that is rounded to fewer bits as the element itself is: its last bit stands for all that are cut off. */
export function shortened(element: number | bigint): number {
  if (typeof element === 'number') return element;
  const magnitude = element < 0n ? -element : element;
  const cut = magnitude.toString(2).length - DOUBLE_BITS;
  if (cut <= 0) return Number(element);
  const whole = magnitude >> BigInt(cut);
  const rest = BigInt.asUintN(cut, magnitude);
  const odd = Number(rest === 0n ? whole : whole | 1n) * 2 ** cut;
  return element < 0n ? -odd : odd;
}

/** What is left of an integer in so many bits. */
function lowBits(type: DataType, bits: number, element: number | bigint): number {
  const integer = typeof element === 'bigint' ? element : BigInt(Math.trunc(element));
  return Number(isSigned(type) ? BigInt.asIntN(bits, integer) : BigInt.asUintN(bits, integer));
}

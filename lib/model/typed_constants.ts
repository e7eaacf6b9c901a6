/** Elements of constants that are made of numbers. */
import { BFLOAT16, FLOAT16, infinityOf, toBits, type Float16Format } from '../tensor/float16';
import { CONSTRUCTORS, type DataType, type DataTypeMap } from '../tensor/tensor';

/** The nearest of the type; integers are cut towards zero and keep their low bits. */
export function typedArray<T extends DataType>(type: T, numbers: readonly number[]): DataTypeMap[T] {
  const Elements = CONSTRUCTORS[type] as { new (length: number): unknown };
  const data = new Elements(numbers.length) as (number | bigint)[];
  const to = converter(type);
  for (const [i, number] of numbers.entries()) data[i] = to(number);
  return data as unknown as DataTypeMap[T];
}

function converter(type: DataType): (number: number) => number | bigint {
  switch (type) {
    case 'int64':
    case 'uint64':
      return (number) => BigInt(Math.trunc(number));
    case 'float16':
      return (number) => halfOf(number, FLOAT16);
    case 'bfloat16':
      return (number) => halfOf(number, BFLOAT16);
    case 'bool':
      return (number) => Number(number !== 0);
    default:
      return (number) => number;
  }
}

function halfOf(number: number, format: Float16Format): number {
  const infinity = infinityOf(format.fractionBits);
  if (Number.isNaN(number)) return infinity + 1;
  const bits = Number.isFinite(number) ? toBits(number, format) : undefined;
  return bits ?? (number < 0 ? 0x8000 | infinity : infinity);
}

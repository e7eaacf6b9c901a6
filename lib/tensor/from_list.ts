/** Elements of tensors that are given as a list of JavaScript values, as onnxruntime-common takes them. */
import { describe, invalid, mismatch, unreadable } from '../check';
import type { WarpconvError } from '../errors';
import { nearestBits, smallFloatOf } from './small_floats';
import type { DataType } from './data_types';
import type { TypedArray } from './typed_array';

/** No list of more is dense in V8. */
const MOST_ELEMENTS = 2 ** 27;

type ReadElement = (name: string, value: unknown) => number | bigint;

const READERS: Readonly<Record<DataType, ReadElement>> = {
  float32: readNumber,
  float64: readNumber,
  float16: codesOf('float16'),
  bfloat16: codesOf('bfloat16'),
  int8: integersFrom(-(2 ** 7), 2 ** 7 - 1),
  int16: integersFrom(-(2 ** 15), 2 ** 15 - 1),
  int32: integersFrom(-(2 ** 31), 2 ** 31 - 1),
  int64: bigIntegersFrom(-(2n ** 63n), 2n ** 63n - 1n),
  uint8: integersFrom(0, 2 ** 8 - 1),
  uint16: integersFrom(0, 2 ** 16 - 1),
  uint32: integersFrom(0, 2 ** 32 - 1),
  uint64: bigIntegersFrom(0n, 2n ** 64n - 1n),
  bool: readBool,
  float8e4m3fn: codesOf('float8e4m3fn'),
  float8e4m3fnuz: codesOf('float8e4m3fnuz'),
  float8e5m2: codesOf('float8e5m2'),
  float8e5m2fnuz: codesOf('float8e5m2fnuz'),
  float8e8m0: codesOf('float8e8m0'),
  float4e2m1: codesOf('float4e2m1'),
  int4: integersFrom(-8, 7),
  uint4: integersFrom(0, 15),
  int2: integersFrom(-2, 1),
  uint2: integersFrom(0, 3),
};

/**
 * @param allocate - makes the array of that length
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` naming the first element that the type has no room for
 */
export function fromList<A extends TypedArray>(
  type: DataType,
  values: readonly unknown[],
  allocate: (length: number) => A,
): A {
  try {
    const { length } = values;
    if (length > MOST_ELEMENTS) {
      throw invalid(
        `data has ${length} elements; a list has at most ${MOST_ELEMENTS}, a typed array may have more`,
      );
    }
    const array = allocate(length);
    const read = READERS[type];
    for (let index = 0; index < length; index++) array[index] = read(`data[${index}]`, values[index]);
    return array;
  } catch (error) {
    throw unreadable('data', error);
  }
}

/** The type of a list that comes without one: only of booleans is it known. */
export function typeOfList(values: readonly unknown[]): DataType {
  let first: unknown;
  try {
    first = values[0];
  } catch (error) {
    throw unreadable('data', error);
  }
  if (typeof first === 'boolean') return 'bool';
  if (typeof first === 'string') throw noStrings('data holds strings');
  throw mismatch(
    'data',
    'a typed array, a list of booleans, or given after the type of its elements',
    values,
  );
}

/** onnxruntime's tensors may hold them. */
export function noStrings(given: string): WarpconvError {
  return invalid(`${given}, and tensors of strings are not supported`);
}

function readNumber(name: string, value: unknown): number {
  if (typeof value !== 'number') throw mismatch(name, 'a number', value);
  return value;
}

function codesOf(type: DataType): ReadElement {
  const format = smallFloatOf(type)!;
  return (name, value) => nearestBits(readNumber(name, value), format);
}

function integersFrom(least: number, most: number): ReadElement {
  return (name, value) => {
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most)
      return value as number;
    throw mismatch(name, `an integer from ${least} to ${most}`, value);
  };
}

function bigIntegersFrom(least: bigint, most: bigint): ReadElement {
  return (name, value) => {
    const integer =
      typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value as number) : undefined;
    if (integer !== undefined && integer >= least && integer <= most) return integer;
    throw invalid(
      `${name} must be a bigint from ${least} to ${most}, or such an integer that a number holds exactly, got ${describe(value)}`,
    );
  };
}

function readBool(name: string, value: unknown): number {
  if (typeof value === 'boolean') return Number(value);
  if (value === 0 || value === 1) return value;
  throw mismatch(name, 'true or false', value);
}

/** The numbers by which ONNX names the types of elements, in files and in attributes such as Cast's `to`. */
import type { DataType } from '../tensor/tensor';

const SUPPORTED: Readonly<Record<number, DataType>> = {
  1: 'float32',
  2: 'uint8',
  3: 'int8',
  4: 'uint16',
  5: 'int16',
  6: 'int32',
  7: 'int64',
  9: 'bool',
  10: 'float16',
  11: 'float64',
  12: 'uint32',
  13: 'uint64',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
  24: 'float8e8m0',
  25: 'uint2',
  26: 'int2',
};

/** Those that warpconv has no name for, as complaints call them. */
const OTHERS: Readonly<Record<number, string>> = {
  8: 'string',
  14: 'complex64',
  15: 'complex128',
  27: 'float6e2m3',
  28: 'float6e3m2',
};

/** The type of that number, or `undefined` where warpconv does not support it. */
export function elementType(number: number): DataType | undefined {
  return SUPPORTED[number];
}

/** What ONNX calls the type of a number that {@link elementType} does not know; `undefined` where ONNX has no such number. */
export function unsupportedTypeName(number: number): string | undefined {
  return OTHERS[number];
}

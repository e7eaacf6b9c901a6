/** The types of elements. */

/** The arrays of float16: that of the runtime, too, where the program's TypeScript knows it. */
type Float16Elements = typeof globalThis extends {
  readonly Float16Array: { readonly prototype: infer Elements };
}
  ? Uint16Array | Elements
  : Uint16Array;

/**
 * The array that holds the elements of each type. Other floats of 16 bits and less travel as their bits, and types of 4 and
 * 2 bits packed, the first element in the low bits.
 */
export interface DataTypeMap {
  float32: Float32Array;
  float64: Float64Array;
  /**
   * A `Float16Array` of numbers where the runtime has one (Node.js 24 and later), else a `Uint16Array` of their bits. Either is
   * taken.
   */
  float16: Float16Elements;
  bfloat16: Uint16Array;
  int8: Int8Array;
  int16: Int16Array;
  int32: Int32Array;
  int64: BigInt64Array;
  uint8: Uint8Array;
  uint16: Uint16Array;
  uint32: Uint32Array;
  uint64: BigUint64Array;
  bool: Uint8Array;
  float8e4m3fn: Uint8Array;
  float8e4m3fnuz: Uint8Array;
  float8e5m2: Uint8Array;
  float8e5m2fnuz: Uint8Array;
  float8e8m0: Uint8Array;
  float4e2m1: Uint8Array;
  int4: Int8Array;
  uint4: Uint8Array;
  int2: Int8Array;
  uint2: Uint8Array;
}

type Integers64 = readonly (bigint | number)[];
type Lists = { readonly [T in DataType]: readonly number[] };

/** The lists that `Tensor` takes for each type. */
export interface ListMap extends Omit<Lists, 'int64' | 'uint64' | 'bool' | 'uint8'> {
  readonly int64: Integers64;
  readonly uint64: Integers64;
  readonly uint8: readonly number[] | Uint8ClampedArray;
  readonly bool: readonly (boolean | number)[];
}

/** The types of elements that a `Tensor` can hold. */
export type DataType = keyof DataTypeMap;

/** The types of elements. */

/** The array that holds the elements of each type. 16-bit floats travel as their bits. */
export interface DataTypeMap {
  float32: Float32Array;
  float64: Float64Array;
  /** A `Float16Array` is taken too, where the runtime has one. */
  float16: Uint16Array;
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
}

type Integers64 = readonly (bigint | number)[];
type Lists = { readonly [T in DataType]: readonly number[] };

/** The lists that `Tensor` takes for each type. */
export interface ListMap extends Omit<Lists, 'int64' | 'uint64' | 'bool'> {
  readonly int64: Integers64;
  readonly uint64: Integers64;
  readonly bool: readonly (boolean | number)[];
}

/** The types of elements a `Tensor` can hold; convolutions compute in float32. */
export type DataType = keyof DataTypeMap;

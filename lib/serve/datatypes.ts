/** The protocol's element types: their names there and in sessions, their arrays, and their elements in JSON. */
import type { DataType } from '../tensor/tensor';
import type { TypedArray } from '../tensor/typed_array';
import { BFLOAT16, FLOAT16, fromBits, toBits, type SmallFloat } from '../tensor/small_floats';

type ElementArray = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => TypedArray;

export interface Datatype {
  /** The protocol's name, such as `'FP32'`. */
  readonly name: string;
  /** The name in a session's metadata and tensors, such as `'float32'`. */
  readonly type: DataType;
  readonly bytes: number;
  readonly Elements: ElementArray;
  /** Whether JSON may say only some of the values: floating-point numbers, of which it has the finite ones. */
  readonly isFloat: boolean;
  /** What a JSON element must be, for a complaint. */
  readonly expected: string;
  /** A JSON element as an element of the array; `undefined` where it is none. */
  readonly parse: (element: unknown) => number | bigint | undefined;
  /** The elements as values whose texts are JSON's; the array itself where they already are. */
  readonly values: (elements: TypedArray) => ArrayLike<unknown> & { join(separator: string): string };
}

type Codec = Pick<Datatype, 'expected' | 'parse' | 'values' | 'isFloat'>;

const itself = (elements: TypedArray) => elements;

function integers(min: number, max: number): Codec {
  return {
    isFloat: false,
    expected: `an integer from ${min} to ${max}`,
    parse: (element) =>
      Number.isInteger(element) && (element as number) >= min && (element as number) <= max
        ? (element as number)
        : undefined,
    values: itself,
  };
}

function bigIntegers(min: number): Codec {
  return {
    isFloat: false,
    expected: `an integer from ${min} to ${Number.MAX_SAFE_INTEGER} (larger ones only as binary data)`,
    parse: (element) =>
      Number.isSafeInteger(element) && (element as number) >= min ? BigInt(element as number) : undefined,
    values: itself,
  };
}

function floats(expected: string, round: (value: number) => number): Codec {
  return {
    isFloat: true,
    expected,
    parse: (element) =>
      typeof element === 'number' && Number.isFinite(round(element)) ? element : undefined,
    values: itself,
  };
}

function halves(expected: string, format: SmallFloat): Codec {
  return {
    isFloat: true,
    expected,
    parse: (element) => (Number.isFinite(element) ? toBits(element as number, format) : undefined),
    values: (elements) => Float64Array.from(elements as Uint16Array, (bits) => fromBits(bits, format)),
  };
}

const booleans: Codec = {
  isFloat: false,
  expected: 'true or false',
  parse: (element) => (typeof element === 'boolean' ? Number(element) : undefined),
  values: (elements) => Array.from(elements as Uint8Array, (byte) => byte !== 0),
};

function datatype(
  name: string,
  type: DataType,
  Elements: ElementArray & { BYTES_PER_ELEMENT: number },
  codec: Codec,
): Datatype {
  return { name, type, Elements, bytes: Elements.BYTES_PER_ELEMENT, ...codec };
}

// Binary tensors are little-endian in the protocol, as is every processor that Node.js is built for but IBM's mainframes.
const DATATYPES: readonly Datatype[] = [
  datatype('BOOL', 'bool', Uint8Array, booleans),
  datatype('UINT8', 'uint8', Uint8Array, integers(0, 2 ** 8 - 1)),
  datatype('UINT16', 'uint16', Uint16Array, integers(0, 2 ** 16 - 1)),
  datatype('UINT32', 'uint32', Uint32Array, integers(0, 2 ** 32 - 1)),
  datatype('UINT64', 'uint64', BigUint64Array, bigIntegers(0)),
  datatype('INT8', 'int8', Int8Array, integers(-(2 ** 7), 2 ** 7 - 1)),
  datatype('INT16', 'int16', Int16Array, integers(-(2 ** 15), 2 ** 15 - 1)),
  datatype('INT32', 'int32', Int32Array, integers(-(2 ** 31), 2 ** 31 - 1)),
  datatype('INT64', 'int64', BigInt64Array, bigIntegers(Number.MIN_SAFE_INTEGER)),
  datatype('FP16', 'float16', Uint16Array, halves('a number within the range of float16', FLOAT16)),
  datatype('BF16', 'bfloat16', Uint16Array, halves('a number within the range of bfloat16', BFLOAT16)),
  datatype('FP32', 'float32', Float32Array, floats('a number within the range of float32', Math.fround)),
  datatype(
    'FP64',
    'float64',
    Float64Array,
    floats('a number within the range of float64', (value) => value),
  ),
];

/** The names that the protocol has for them. */
export const DATATYPE_NAMES = DATATYPES.map(({ name }) => name);

const byType = new Map<string, Datatype>(DATATYPES.map((one) => [one.type, one]));

/** The datatype of a session's type; `undefined` for strings and whatever else the protocol's numbers are not. */
export function datatypeOf(type: unknown): Datatype | undefined {
  return byType.get(type as string);
}

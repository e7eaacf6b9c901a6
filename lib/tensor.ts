import { WarpconvError } from './errors';
import { checkElements, checkIntegers, checkOneOf, mismatch } from './check';
import { checkDevice, locate, type Device } from './placement';
import { kindOf, lengthOf, type TypedArray } from './typed_array';

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

/** The types of elements a {@link Tensor} can hold; convolutions compute in float32. */
export type DataType = keyof DataTypeMap;

/** Where a tensor's elements are: `'none'` once it is disposed. */
export type Location = 'none' | 'cpu' | 'cpu-pinned' | 'gpu-buffer';

/** The kinds of array each type takes. Given data alone, its type is the first that takes it. */
const ARRAYS: Record<DataType, readonly string[]> = {
  float32: ['Float32Array'],
  float64: ['Float64Array'],
  int8: ['Int8Array'],
  int16: ['Int16Array'],
  int32: ['Int32Array'],
  int64: ['BigInt64Array'],
  uint8: ['Uint8Array'],
  uint16: ['Uint16Array'],
  uint32: ['Uint32Array'],
  uint64: ['BigUint64Array'],
  float16: ['Float16Array', 'Uint16Array'],
  bfloat16: ['Uint16Array'],
  bool: ['Uint8Array'],
};
const DATA_TYPES = Object.keys(ARRAYS) as DataType[];

let live = 0;
/** Whether a tensor still counts, outside the tensor, so that it can be asked about a collected one. */
interface Life {
  ended: boolean;
}

// Only a net for tensors that nobody disposed: it keeps the count right, and frees nothing. Disposed ones stay in it,
// because the token that would take them out makes a registration seven times as slow (0.55 instead of 0.08 µs).
const forgotten = new FinalizationRegistry<Life>(end);

function end(life: Life): void {
  if (life.ended) return;
  life.ended = true;
  live--;
}

/** Tensors of this thread that are neither disposed nor collected. */
export function liveTensors(): number {
  return live;
}

/**
 * A typed array with dimensions, in row-major order. The constructor keeps the array it is given: nothing is
 * copied, and writes through either are seen through both.
 *
 * @typeParam T - the type of the elements
 */
export class Tensor<T extends DataType = DataType> {
  readonly type: T;
  /** Outermost first, for example `[N, C, H, W]`; frozen. */
  readonly dims: readonly number[];
  /** Number of elements: the product of `dims`. */
  readonly size: number;
  #data: DataTypeMap[T] | undefined;
  readonly #life: Life = { ended: false };

  /**
   * @param type - the type of the elements
   * @param data - as many elements as `dims` describe; for the 32 and 64-bit float types also a list of numbers
   * @param dims - defaults to one dimension
   * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
   */
  constructor(type: T, data: DataTypeMap[T] | readonly number[], dims?: readonly number[]);
  /** As above, with the type of the elements taken from the array's. */
  constructor(data: DataTypeMap[T], dims?: readonly number[]);
  constructor(...args: unknown[]) {
    const typeFirst = typeof args[0] === 'string';
    const [data, dims] = typeFirst ? [args[1], args[2]] : args;
    this.type = (typeFirst ? checkOneOf('type', args[0], DATA_TYPES) : inferType(data)) as T;
    const array = checkArray(this.type, data);
    this.dims = Object.freeze(dims === undefined ? [lengthOf(array)] : checkDims(dims));
    checkElements('', array, this.dims);
    this.size = lengthOf(array);
    this.#data = array as DataTypeMap[T];
    live++;
    forgotten.register(this, this.#life);
  }

  get location(): Location {
    return this.#data === undefined ? 'none' : 'cpu';
  }

  /**
   * The elements, without a copy.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_DISPOSED`
   */
  get data(): DataTypeMap[T] {
    return this.#requireLive();
  }

  /**
   * The elements, brought to CPU memory where they are elsewhere.
   *
   * @param release - whether to free the memory elsewhere; a tensor in CPU memory has none
   */
  async getData(release?: boolean): Promise<DataTypeMap[T]> {
    void release;
    return this.data;
  }

  /**
   * The tensor on a device; a tensor that is there already is returned itself.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE` with what is missing
   */
  async to(device: Device): Promise<Tensor<T>> {
    this.#requireLive();
    locate(checkDevice('device', device));
    return this;
  }

  /** The same elements under other dimensions of the same product. */
  reshape(dims: readonly number[]): Tensor<T> {
    return new Tensor(this.type, this.data, dims);
  }

  /** Lets go of the elements; `location` is `'none'` from now on. Again is harmless. */
  dispose(): void {
    this.#data = undefined;
    end(this.#life);
  }

  /** As {@link Tensor.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** As {@link Tensor.dispose}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  #requireLive(): DataTypeMap[T] {
    if (this.#data === undefined)
      throw new WarpconvError('ERR_WARPCONV_DISPOSED', 'the tensor has been disposed');
    return this.#data;
  }
}

function inferType(data: unknown): DataType {
  const kind = kindOf(data);
  const type = DATA_TYPES.find((candidate) => ARRAYS[candidate].includes(kind ?? ''));
  if (type === undefined)
    throw mismatch('data', 'a typed array, or given after the type of its elements', data);
  return type;
}

function checkArray(type: DataType, data: unknown): TypedArray {
  if (Array.isArray(data) && (type === 'float32' || type === 'float64')) return fromNumbers(type, data);
  const kinds = ARRAYS[type];
  if (kinds.includes(kindOf(data) ?? '')) return data as TypedArray;
  throw mismatch('data', `a ${kinds.join(' or ')} for type '${type}'`, data);
}

function fromNumbers(type: 'float32' | 'float64', values: readonly unknown[]): TypedArray {
  const numbers = values.map((value, index) => {
    if (typeof value !== 'number') throw mismatch(`data[${index}]`, 'a number', value);
    return value;
  });
  return type === 'float32' ? Float32Array.from(numbers) : Float64Array.from(numbers);
}

function checkDims(dims: unknown): number[] {
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
  return checkIntegers('dims', dims, 'any', range, 'a list of non-negative integers');
}

import type { NativeGpuBuffer } from '../addon';
import { allocate } from './allocation';
import { callNativeAsync } from '../calls';
import {
  checkCount,
  checkElements,
  checkIntegers,
  checkOneOf,
  describe,
  elementCount,
  invalid,
  isList,
  isObject,
  mismatch,
  readProperties,
} from '../check';
import { callNative, WarpconvError } from '../errors';
import {
  imageData,
  imageElements,
  type FromImageOptions,
  type RawImage,
  type SharpOutput,
  type ToImageDataOptions,
} from './from_image';
import { fromList, noStrings, typeOfList } from './from_list';
import { isLent } from './lent_memory';
import { addon } from '../load';
import {
  checkDevice,
  indexOf,
  isProbed,
  locate,
  openPlace,
  openPlaceSync,
  probeElsewhere,
  type Device,
  type Place,
} from '../placement';
import type * as names from './data_types';
import type { DataType, DataTypeMap, ListMap } from './data_types';
import { decoded } from './small_floats';
import { arrayLength, elementsPerItem, packedBits, packTo } from './packed';
import {
  bitsOf,
  bytesUnder,
  halvesOf,
  instability,
  isDetached,
  kindOf,
  lengthOf,
  type TypedArray,
} from './typed_array';

export type { DataType, DataTypeMap, ListMap };

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
  float8e4m3fn: ['Uint8Array'],
  float8e4m3fnuz: ['Uint8Array'],
  float8e5m2: ['Uint8Array'],
  float8e5m2fnuz: ['Uint8Array'],
  float8e8m0: ['Uint8Array'],
  float4e2m1: ['Uint8Array'],
  int4: ['Int8Array'],
  uint4: ['Uint8Array'],
  int2: ['Int8Array'],
  uint2: ['Uint8Array'],
};
const DATA_TYPES = Object.keys(ARRAYS) as DataType[];

/** What the constructor takes for bytes, too. */
const CLAMPED = 'Uint8ClampedArray';

interface ArrayType<A> {
  new (length: number): A;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): A;
  readonly BYTES_PER_ELEMENT: number;
}

/** What elements that come from elsewhere, a GPU or a file, are put into: float16 as bits until a caller sees it. */
export const CONSTRUCTORS: { readonly [T in DataType]: ArrayType<DataTypeMap[T]> } = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  float8e4m3fn: Uint8Array,
  float8e4m3fnuz: Uint8Array,
  float8e5m2: Uint8Array,
  float8e5m2fnuz: Uint8Array,
  float8e8m0: Uint8Array,
  float4e2m1: Uint8Array,
  int4: Int8Array,
  uint4: Uint8Array,
  int2: Int8Array,
  uint2: Uint8Array,
};

/** Elements that the constructor of {@link Tensor} takes from this package alone. */
abstract class OwnElements {
  readonly #own = true;

  /** Without asking the value, as `instanceof` does. */
  static isOne(value: unknown): value is OwnElements {
    return typeof value === 'object' && value !== null && #own in value;
  }
}

/** Elements on a GPU, shared by the tensors that are reshapes of each other: freed when the last lets go. */
class GpuElements extends OwnElements {
  static readonly #byBuffer = new WeakMap<object, GpuElements>();
  #holders = 0;

  constructor(
    readonly place: Exclude<Place, 'cpu'>,
    readonly type: DataType,
    readonly buffer: NativeGpuBuffer,
    readonly length: number,
  ) {
    super();
    GpuElements.#byBuffer.set(buffer, this);
  }

  /** Those in a buffer, while a tensor holds them. */
  static over(buffer: object): GpuElements | undefined {
    const elements = GpuElements.#byBuffer.get(buffer);
    return elements !== undefined && elements.#holders > 0 ? elements : undefined;
  }

  hold(): this {
    this.#holders++;
    return this;
  }

  letGo(): void {
    if (--this.#holders === 0) this.buffer.dispose();
  }
}

/** Elements in pinned memory, shared likewise. The array has no elements any more when the last lets go. */
class PinnedElements extends OwnElements {
  #holders = 0;

  constructor(
    readonly array: TypedArray,
    readonly buffer: ArrayBuffer,
  ) {
    super();
  }

  hold(): this {
    this.#holders++;
    return this;
  }

  letGo(): void {
    if (--this.#holders === 0) addon().releasePinned(this.buffer);
  }
}

/** Elements that are known to be of their tensor's type and dims, float16 as bits. */
class UncheckedElements extends OwnElements {
  constructor(readonly array: TypedArray) {
    super();
  }
}

/** Memory on a GPU that has been opened, for that many elements: uninitialised. */
function allocateOn(place: Exclude<Place, 'cpu'>, type: DataType, length: number): GpuElements {
  const { GpuBuffer } = addon();
  const bytes = arrayLength(type, length) * CONSTRUCTORS[type].BYTES_PER_ELEMENT;
  return new GpuElements(
    place,
    type,
    callNative(() => new GpuBuffer(indexOf(place), bytes)),
    length,
  );
}

/** A tensor on a GPU that has been opened, its elements still to be written. */
export function emptyOnGpu<T extends DataType>(
  place: Exclude<Place, 'cpu'>,
  type: T,
  dims: readonly number[],
): Tensor<T> {
  const elements = allocateOn(place, type, elementCount(dims));
  return new Tensor<T>(type, elements as unknown as DataTypeMap[T], dims);
}

/**
 * A tensor of zeros in page-locked CPU memory, which a GPU reads and writes by itself: `to('cuda')`, and calls that run
 * on a GPU with such tensors as inputs, residuals or `output`, copy without a detour. Everything else takes it as any
 * other tensor in CPU memory. Locking and freeing pages takes long, and they are lost to the rest of the machine: make
 * few and use them again. The first use of a GPU in a process takes a good part of a second on the calling thread.
 *
 * `dispose()` frees the memory when no running call uses it, and leaves arrays over it without elements; tensors that
 * nobody disposed are freed by the collector. In a runtime that takes no foreign memory (Electron) the tensor is an
 * ordinary one, with `location` `'cpu'`.
 *
 * @param type - the type of the elements
 * @param dims - outermost first
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`, `ERR_WARPCONV_OUT_OF_MEMORY`; `ERR_WARPCONV_NO_DEVICE`
 * where there is no usable GPU, for which `new Tensor` makes tensors that are as good
 */
export function allocPinned<T extends DataType>(type: T, dims: readonly number[]): Tensor<T> {
  const Elements = CONSTRUCTORS[checkType('type', type)];
  const extents = checkDims(dims);
  const bytes = arrayLength(type, elementCount(extents)) * Elements.BYTES_PER_ELEMENT;
  if (!(bytes <= Number.MAX_SAFE_INTEGER))
    throw invalid(`dims ${describe(extents)} need more bytes than can be counted`);
  const place = locate('cuda');
  openPlaceSync(place);
  // No bytes need no locking.
  const buffer = bytes === 0 ? null : callNative(() => addon().allocatePinned(indexOf(place), bytes));
  const elements =
    buffer === null
      ? newArray(type, extents, 'a tensor')
      : new PinnedElements(shown(type, new Elements(buffer)), buffer);
  return new Tensor(type, elements as unknown as DataTypeMap[T], extents);
}

let live = 0;

/**
 * Only a net for tensors that nobody disposed: it keeps the count right, and frees nothing. Disposed ones are taken out,
 * since what is in it outlives the collections of young objects: that cost 2 µs a tensor, and taking it out 0.5. So it has
 * a mark of each tensor, and not the tensor, whose elements would wait for a collection of everything.
 */
const forgotten = new FinalizationRegistry<undefined>(() => live--);

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
  #data: DataTypeMap[T] | GpuElements | PinnedElements | undefined;
  /** Lives as long as the tensor does */
  readonly #mark = {};

  /**
   * @param type - the type of the elements
   * @param data - as many elements as `dims` describe: an array of the type, which is kept, or a list, which is copied: of
   * numbers, for 64-bit integers also of bigints, for `'bool'` of booleans; a `Uint8ClampedArray` is copied to `'uint8'`
   * @param dims - defaults to one dimension
   * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
   */
  constructor(type: T, data: DataTypeMap[T] | ListMap[T], dims?: readonly number[]);
  /** As above, with the type of the elements taken from the array's; a list of booleans is of type `'bool'`. */
  constructor(
    data:
      | DataTypeMap[T]
      | (T extends 'bool' ? readonly boolean[] : never)
      | (T extends 'uint8' ? Uint8ClampedArray : never),
    dims?: readonly number[],
  );
  constructor(...args: unknown[]) {
    const typeFirst = typeof args[0] === 'string';
    const [data, dims] = typeFirst ? [args[1], args[2]] : args;
    this.type = (typeFirst ? checkType('type', args[0]) : inferType(data)) as T;
    if (!OwnElements.isOne(data)) {
      const array = checkArray(this.type, data);
      const fallback = isList('data', data) ? data.length : lengthOf(array) * elementsPerItem(this.type);
      this.dims = Object.freeze(dims === undefined ? [fallback] : checkDims(dims));
      checkElements('', array, this.dims, arrayLength(this.type, elementCount(this.dims)));
      this.size = elementCount(this.dims);
      this.#data = array as DataTypeMap[T];
    } else if (data instanceof UncheckedElements) {
      this.dims = dims as readonly number[];
      this.size = elementCount(this.dims);
      this.#data = shown(this.type, data.array) as DataTypeMap[T];
    } else if (data instanceof GpuElements) {
      this.dims = Object.freeze(checkDims(dims));
      checkCount('', data.length, this.dims);
      this.size = data.length;
      this.#data = data.hold();
    } else {
      const pinned = data as PinnedElements;
      this.dims = Object.freeze(checkDims(dims));
      checkElements('', pinned.array, this.dims, arrayLength(this.type, elementCount(this.dims)));
      this.size = elementCount(this.dims);
      this.#data = pinned.hold();
    }
    live++;
    forgotten.register(this.#mark, undefined, this.#mark);
  }

  /**
   * An image as a tensor of dims [1, C, H, W] or, where the options say so, [1, H, W, C].
   *
   * @param image - pixels as sharp gives them or an `ImageData`; or an encoded image, which sharp decodes: its bytes, the
   * path of a file, or a `file:` URL, as an object or as text
   * @throws {@link WarpconvError}, as a rejection: `ERR_WARPCONV_INVALID_ARGUMENT`, `ERR_WARPCONV_UNSUPPORTED` where sharp is
   * needed and not installed
   */
  static async fromImage(
    image: RawImage | SharpOutput | Uint8Array | string | URL,
    options?: FromImageOptions,
  ): Promise<Tensor<'float32'> | Tensor<'uint8'>> {
    const { type, data, dims } = await imageElements(image, options);
    return type === 'float32'
      ? new Tensor(type, data as Float32Array, dims)
      : new Tensor(type, data as Uint8Array, dims);
  }

  /** As the constructor: memory that GPUs read in place is told by itself. */
  static fromPinnedBuffer<T extends DataType>(
    type: T,
    buffer: DataTypeMap[T],
    dims?: readonly number[],
  ): Tensor<T> {
    return new Tensor<T>(type, buffer, dims);
  }

  /**
   * Another tensor over the memory of one that is on a GPU. It holds that memory, too.
   *
   * @param buffer - the `gpuBuffer` of a tensor
   * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
   */
  static fromGpuBuffer<T extends DataType = 'float32'>(
    buffer: object,
    options: { readonly dims: readonly number[]; readonly dataType?: T },
  ): Tensor<T> {
    const given = readProperties('options', options, { dims: undefined, dataType: 'float32' });
    const type = checkType('options.dataType', given.dataType) as T;
    const elements = isObject(buffer) ? GpuElements.over(buffer) : undefined;
    if (elements?.type !== type) {
      throw mismatch('buffer', `the gpuBuffer of a tensor of ${type} that has not been disposed`, buffer);
    }
    return new Tensor<T>(type, elements as unknown as DataTypeMap[T], given.dims as readonly number[]);
  }

  get location(): Location {
    if (this.#data === undefined) return 'none';
    if (this.#data instanceof GpuElements) return 'gpu-buffer';
    return this.#data instanceof PinnedElements ? 'cpu-pinned' : 'cpu';
  }

  /** The device whose memory holds the elements: `'cpu'`, or for example `'cuda:0'`. */
  get device(): Place {
    const elements = this.#requireLive();
    return elements instanceof GpuElements ? elements.place : 'cpu';
  }

  /**
   * The elements, without a copy.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_DISPOSED`; `ERR_WARPCONV_INVALID_ARGUMENT` for a tensor on a GPU
   */
  get data(): DataTypeMap[T] {
    const elements = this.#requireLive();
    if (!(elements instanceof GpuElements)) return inCpuMemory(elements);
    throw invalid(`the tensor's data is on '${elements.place}'; await getData() to bring it to CPU memory`);
  }

  /**
   * The memory that holds the elements: nothing that can be read from JavaScript.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_DISPOSED`; `ERR_WARPCONV_INVALID_ARGUMENT` for a tensor in CPU memory
   */
  get gpuBuffer(): object {
    const elements = this.#requireLive();
    if (elements instanceof GpuElements) return elements.buffer;
    throw invalid(`the tensor is in CPU memory; await to('cuda') for one on a GPU`);
  }

  /**
   * The elements, brought to CPU memory where they are elsewhere.
   *
   * @param release - whether to free the memory elsewhere and keep the elements here; default false
   */
  async getData(release?: boolean): Promise<DataTypeMap[T]> {
    const elements = this.#requireLive();
    if (!(elements instanceof GpuElements)) return inCpuMemory(elements);
    const bits = newArray(this.type, this.dims, 'a tensor');
    await callNativeAsync((done) => elements.buffer.read(bits, done));
    const array = shown(this.type, bits) as DataTypeMap[T];
    if (release && this.#data === elements) {
      this.#data = array;
      elements.letGo();
    }
    return array;
  }

  /**
   * The tensor on a device: a new one, or this one where it is there already. Both are the caller's to dispose.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE` with what is missing, `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  async to(device: Device): Promise<Tensor<T>> {
    const from = this.device;
    const wanted = checkDevice('device', device);
    if (!isProbed(wanted)) await probeElsewhere(wanted);
    const place = locate(wanted);
    if (place === from) return this;
    const array = stable(this.type, await this.getData(), this.dims);
    if (place === 'cpu') return new Tensor(this.type, array as DataTypeMap[T], this.dims);
    await openPlace(place);
    const elements = allocateOn(place, this.type, this.size);
    const moved = new Tensor<T>(this.type, elements as unknown as DataTypeMap[T], this.dims);
    try {
      await callNativeAsync((done) => elements.buffer.write(bitsOf(array), done));
    } catch (error) {
      moved.dispose();
      throw error;
    }
    return moved;
  }

  /**
   * The first image of a tensor [N, C, H, W], or as the options say, in the form of an `ImageData`.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
   */
  toImageData(options?: ToImageDataOptions): ReturnType<typeof imageData> {
    if (packedBits(this.type) !== undefined)
      throw invalid(`the tensor is of ${this.type}; an image has elements of 8 bits or more`);
    return imageData(decoded(this.type, this.data), this.dims, options);
  }

  /** The same elements under other dimensions of the same product. */
  reshape(dims: readonly number[]): Tensor<T> {
    return new Tensor<T>(this.type, this.#requireLive() as DataTypeMap[T], dims);
  }

  /** Lets go of the elements; `location` is `'none'` from now on. Again is harmless. */
  dispose(): void {
    if (this.#data instanceof GpuElements || this.#data instanceof PinnedElements) this.#data.letGo();
    this.#data = undefined;
    if (forgotten.unregister(this.#mark)) live--;
  }

  /** As {@link Tensor.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** As {@link Tensor.dispose}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  #requireLive(): DataTypeMap[T] | GpuElements | PinnedElements {
    if (this.#data === undefined)
      throw new WarpconvError('ERR_WARPCONV_DISPOSED', 'the tensor has been disposed');
    return this.#data;
  }
}

/** onnxruntime-common's names of types. */
// eslint-disable-next-line @typescript-eslint/no-namespace -- they are in a namespace there
export declare namespace Tensor {
  /** The name of a type of elements. */
  export type Type = names.DataType;
  /** The array that holds the elements of each type. */
  export type DataTypeMap = names.DataTypeMap;
  /** An array of elements. */
  export type DataType = names.DataTypeMap[names.DataType];
  /** What an element of each type is. */
  export type ElementTypeMap = {
    readonly [T in keyof names.DataTypeMap]: T extends 'int64' | 'uint64'
      ? bigint
      : T extends 'bool'
        ? boolean
        : number;
  };
  /** An element. */
  export type ElementType = ElementTypeMap[names.DataType];
  /** Where the elements are. */
  export type DataLocation = Location;
  /** The types that pinned memory can hold: all. */
  export type CpuPinnedDataTypes = names.DataType;
  /** The types that a GPU's memory can hold: all. */
  export type GpuBufferDataTypes = names.DataType;
  /** What {@link Tensor.gpuBuffer} is. */
  export type GpuBufferType = object;
}

function inCpuMemory<T extends DataType>(elements: DataTypeMap[T] | PinnedElements): DataTypeMap[T] {
  return elements instanceof PinnedElements ? (elements.array as DataTypeMap[T]) : elements;
}

/** Elements in an array that the package made, as callers see them. */
function shown(type: DataType, array: TypedArray): TypedArray {
  return type === 'float16' ? halvesOf(array) : array;
}

/** The elements, or a copy of elements whose memory may change hands or shrink during a call. */
export function stable(type: DataType, array: TypedArray, dims: readonly number[]): TypedArray {
  return instability(array) === undefined || isLent(array) ? array : copyOf(type, array, dims);
}

/** The elements in memory of their own. Bytes are copied, not numbers: 16-bit floats may come as such or as their bits. */
export function copyOf(type: DataType, array: TypedArray, dims: readonly number[]): TypedArray {
  const from = bytesUnder(array);
  const purpose = { what: 'a copy of a tensor', dims, bytes: from.byteLength };
  const copy = allocate(purpose, () => new Uint8Array(from));
  return new CONSTRUCTORS[type](copy.buffer);
}

function checkType(name: string, value: unknown): DataType {
  if (value === 'string') throw noStrings(`${name} is 'string'`);
  return checkOneOf(name, value, DATA_TYPES);
}

function inferType(data: unknown): DataType {
  if (isList('data', data)) return typeOfList(data);
  const kind = kindOf(data);
  if (kind === CLAMPED) return 'uint8';
  const type = DATA_TYPES.find((candidate) => ARRAYS[candidate].includes(kind ?? ''));
  if (type === undefined)
    throw mismatch('data', 'a typed array, or given after the type of its elements', data);
  return type;
}

/** A new array for the elements of a tensor, which is `what` a message calls it. */
export function newArray(type: DataType, dims: readonly number[], what: string): TypedArray {
  const Elements = CONSTRUCTORS[type];
  const length = arrayLength(type, elementCount(dims));
  return allocate({ what, dims, bytes: length * Elements.BYTES_PER_ELEMENT }, () => new Elements(length));
}

/** Whether there are tensors of a type of that name. */
export function isDataType(name: string): name is DataType {
  return Object.hasOwn(ARRAYS, name);
}

/** The kinds of arrays that a type takes. */
export function arraysOf(type: DataType): readonly string[] {
  return ARRAYS[type];
}

/** A tensor over that array. Nothing is checked: the dims must be right, and frozen, since the tensor keeps them. */
export function tensorOver<T extends DataType>(
  type: T,
  array: TypedArray,
  dims: readonly number[],
): Tensor<T> {
  return new Tensor<T>(type, new UncheckedElements(array) as never, dims);
}

function checkArray(type: DataType, data: unknown): TypedArray {
  if (type === 'uint8' && kindOf(data) === CLAMPED) return unclamped(data as TypedArray);
  if (isList('data', data)) return listed(type, data);
  const kinds = ARRAYS[type];
  if (kinds.includes(kindOf(data) ?? '')) return data as TypedArray;
  throw mismatch('data', `a ${kinds.join(' or ')}, or a list, for type '${type}'`, data);
}

function listed(type: DataType, list: readonly unknown[]): TypedArray {
  if (packedBits(type) === undefined)
    return shown(
      type,
      fromList(type, list, (length) => newArray(type, [length], 'a tensor')),
    );
  const elements = fromList(type, list, (length) => newArray('uint8', [length], 'a list'));
  const packed = newArray(type, [elements.length], 'a tensor') as Uint8Array;
  packTo(packed, type, elements as Uint8Array);
  return packed;
}

/** Bytes as a canvas has them: a copy, as onnxruntime-common makes it. */
function unclamped(array: TypedArray): TypedArray {
  return isDetached(array) ? array : copyOf('uint8', array, [lengthOf(array)]);
}

function checkDims(dims: unknown): number[] {
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
  return checkIntegers('dims', dims, 'any', range, 'a list of non-negative integers');
}

/** Tensors as arguments: anything of the right shape is one, whoever made it. */
import { types } from 'node:util';

import type { FloatArray, FloatType, NativeElements, NativeGpuBuffer } from '../addon';
import { callNativeAsync } from '../calls';
import { WarpconvError } from '../errors';
import {
  alternatives,
  checkElements,
  checkIntegers,
  invalid,
  isList,
  isObject,
  mismatch,
  propertyOf,
  unreadable,
} from '../check';
import { addon } from '../load';
import { isGpu, type GpuPlace, type Place } from '../placement';
import { arraysOf, newArray, stable } from './tensor';
import { bitsOf, instability, kindOf, overlap, type TypedArray } from './typed_array';

/**
 * What the package accepts as a tensor: its own {@link Tensor}, onnxruntime's, or any object of this shape.
 * Elements lie in row-major order; a missing `location` means `'cpu'`. Only the package's own tensors may be on a GPU.
 */
export interface TensorLike<T extends string = string> {
  readonly type: T;
  readonly dims: readonly number[];
  readonly data: ArrayLike<unknown>;
  readonly location?: string;
}

/**
 * A tensor of a type that convolutions take: float32, float16 or bfloat16. Where TypeScript does not know the type, it is
 * checked when the call runs.
 */
export type FloatTensorLike<T extends string = string> = TensorLike<T> & {
  readonly type: [Extract<T, FloatType>, string extends T ? T : never] extends [never, never] ? FloatType : T;
};

/** A tensor argument, each of its properties read once. `name` is the argument as the caller wrote it. */
export type TensorArgument = InCpuMemory | InGpuMemory;

interface InCpuMemory {
  readonly name: string;
  readonly type: FloatType;
  readonly dims: readonly number[];
  readonly place: 'cpu';
  readonly elements: FloatArray;
}

interface InGpuMemory extends OnGpu {
  readonly name: string;
  readonly type: FloatType;
  readonly dims: readonly number[];
}

/** Elements on a GPU. */
export interface OnGpu {
  readonly place: GpuPlace;
  readonly elements: NativeGpuBuffer;
}

const A_TENSOR = 'a tensor ({ type, dims, data })';

/** Of a value that is no object. */
export function noTensor(name: string, value: unknown): WarpconvError {
  return mismatch(name, A_TENSOR, value);
}

/** Of a value that is no tensor of a type that is wanted, or no tensor at all: such have no type. */
export function wrongType(
  name: string,
  value: object,
  wanted: readonly string[],
  type: unknown,
): WarpconvError {
  if (types.isPromise(value)) return mismatch(name, A_TENSOR, value, '; await it first');
  if (kindOf(value) !== undefined || isList(name, value))
    return mismatch(name, A_TENSOR, value, `; wrap it: new Tensor('${wanted[0]}', data, dims)`);
  return mismatch(`${name}.type`, alternatives(wanted), type);
}

export const FLOAT_TYPES = ['float32', 'float16', 'bfloat16'] as const satisfies readonly FloatType[];

const SHAPES = { 1: '[K], one value per output channel', 4: 'a list of 4 positive integers' } as const;

/**
 * Reads a tensor of a convolution. This runs the caller's getters; what follows runs none.
 *
 * @param min - the least that the first extent may be: batches may be empty
 */
export function readTensor(
  name: string,
  value: unknown,
  rank: keyof typeof SHAPES,
  min: 0 | 1 = 1,
): TensorArgument {
  if (!isObject(value)) throw noTensor(name, value);
  try {
    const tensor = value as Partial<Record<keyof TensorLike, unknown>>;
    const location = readLocation(name, value);
    const type = readFloatType(name, value, tensor.type);
    const dims = readDims(`${name}.dims`, tensor.dims, SHAPES[rank], rank, min);
    if (location === 'gpu-buffer') return { name, type, dims, ...readOnGpu(name, value) };
    const data = tensor.data;
    const kinds = arraysOf(type);
    if (!kinds.includes(kindOf(data) ?? '')) throw mismatch(`${name}.data`, `a ${kinds.join(' or ')}`, data);
    const elements = (type === 'float16' ? bitsOf(data as FloatArray) : data) as FloatArray;
    return { name, type, dims, place: 'cpu', elements };
  } catch (error) {
    throw unreadable(name, error);
  }
}

function readFloatType(name: string, tensor: object, type: unknown): FloatType {
  if (type === 'float32' || type === 'float16' || type === 'bfloat16') return type;
  throw wrongType(name, tensor, FLOAT_TYPES, type);
}

/**
 * Checks that a tensor has the input's type.
 *
 * @param other - a type that goes with it
 */
export function requireType(
  { name, type }: TensorArgument,
  input: FloatType,
  other = input,
  meaning?: string,
): void {
  if (type === input || type === other) return;
  const types = alternatives(other === input ? [input] : [other, input]);
  throw invalid(`${name}.type must be ${types} (${meaning ?? `the input is ${input}`}), got '${type}'`);
}

/** What a {@link Tensor} on a GPU has. Native code checks that the buffer is one of its own. */
export function readOnGpu(name: string, tensor: { device?: unknown; gpuBuffer?: unknown }): OnGpu {
  const { device, gpuBuffer } = tensor;
  if (isObject(gpuBuffer) && isGpu(device)) return { place: device, elements: gpuBuffer as NativeGpuBuffer };
  throw foreign(name);
}

function foreign(name: string): WarpconvError {
  return invalid(`${name} is in GPU memory that is not warpconv's own; get its data into CPU memory first`);
}

/**
 * Reads dimensions of which none may be zero, save the first.
 *
 * @param min - the least that the first may be
 */
export function readDims(name: string, value: unknown, shape: string, rank: number, min: 0 | 1): number[] {
  const max = Number.MAX_SAFE_INTEGER;
  return checkIntegers(name, value, [rank], { min: 1, max }, shape, { min, max });
}

/** Where a tensor is. It is in CPU memory if it does not say. */
export function readLocation(name: string, tensor: { location?: unknown }): 'cpu' | 'gpu-buffer' {
  const { location } = tensor;
  if (location === undefined || location === 'cpu' || location === 'cpu-pinned') return 'cpu';
  return otherLocation(name, propertyOf(tensor, 'location'));
}

function otherLocation(name: string, location: unknown): 'cpu' | 'gpu-buffer' {
  if (location === undefined) return 'cpu';
  if (location === 'gpu-buffer') return location;
  if (location === 'none') throw new WarpconvError('ERR_WARPCONV_DISPOSED', `${name} has been disposed`);
  throw mismatch(`${name}.location`, `'cpu' or 'gpu-buffer'`, location);
}

/** The elements for a call on that device to read: resident there, or in CPU memory. */
export function readableElements(argument: TensorArgument, place: Place): NativeElements {
  if (argument.place === 'cpu') return stableData(argument);
  const { name, elements } = argument;
  if (argument.place === place) return elements;
  throw invalid(
    `${name} is on '${argument.place}' and the call runs on '${place}'; await ${name}.to('${place}') first`,
  );
}

/** The elements for a call on that device to write. */
export function writableElements(argument: TensorArgument, place: Place): NativeElements {
  return argument.place === 'cpu' ? writableData(argument) : readableElements(argument, place);
}

/** An argument whose elements are in CPU memory, brought there where they are not. */
export async function toCpu(argument: TensorArgument): Promise<TensorArgument> {
  if (argument.place === 'cpu') return argument;
  const { name, type, dims, elements } = argument;
  // Here a method of it is called, which somebody else's might never answer.
  if (!isOurs(elements)) throw foreign(name);
  const array = newArray(type, dims, `a copy of ${name}`) as FloatArray;
  await callNativeAsync((done) => elements.read(array, done));
  return { name, type, dims, place: 'cpu', elements: array };
}

function isOurs(buffer: object): boolean {
  // On whatever may be a proxy, `instanceof` would ask it.
  return !types.isProxy(buffer) && buffer instanceof addon().GpuBuffer;
}

/** The data for native code to read during a call: a view, or a copy where the memory may change hands or shrink. */
export function stableData(argument: TensorArgument): FloatArray {
  const data = dataInCpuMemory(argument);
  return stable(argument.type, data, argument.dims) as FloatArray;
}

function writableData(argument: TensorArgument): FloatArray {
  const data = dataInCpuMemory(argument);
  requireStable(argument.name, data);
  return data;
}

/** Checks that native code may write to the data of that tensor during a call. */
export function requireStable(name: string, data: TypedArray): void {
  const reason = instability(data);
  if (reason === undefined) return;
  throw invalid(`${name}.data must be over an ordinary ArrayBuffer, got one over a ${reason} buffer`);
}

/** Elements, and what the caller knows them by. */
export interface NamedElements {
  readonly name: string;
  readonly elements: TypedArray | NativeGpuBuffer;
}

/** The first of others that has memory in common with it. */
export function sharedMemory(
  one: NamedElements,
  others: readonly NamedElements[],
): NamedElements | undefined {
  return others.find(({ elements }) => shareMemory(one.elements, elements));
}

/** Checks that writing an output changes nothing else that the call reads or writes. */
export function requireApart(output: NamedElements, others: readonly NamedElements[]): void {
  const shared = sharedMemory(output, others);
  if (shared === undefined) return;
  throw invalid(`${output.name} shares memory with ${shared.name}; give it memory of its own`);
}

function shareMemory(a: NamedElements['elements'], b: NamedElements['elements']): boolean {
  return a === b || (ArrayBuffer.isView(a) && ArrayBuffer.isView(b) && overlap(a, b));
}

function dataInCpuMemory(argument: TensorArgument): FloatArray {
  const { name, dims } = argument;
  if (argument.place !== 'cpu') {
    throw invalid(
      `${name} must be in CPU memory, and is on '${argument.place}'; await ${name}.to('cpu') first`,
    );
  }
  checkElements(`${name}.`, argument.elements, dims);
  return argument.elements;
}

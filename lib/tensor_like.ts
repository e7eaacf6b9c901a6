/** Tensors as arguments: anything of the right shape is one, whoever made it. */
import { WarpconvError } from './errors';
import { checkElements, checkIntegers, describe, invalid, isObject, mismatch } from './check';
import { instability, kindOf } from './typed_array';

/**
 * What the package accepts as a tensor: its own {@link Tensor}, onnxruntime's, or any object of this shape.
 * Elements lie in row-major order; a missing `location` means `'cpu'`.
 */
export interface TensorLike {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<unknown>;
  readonly location?: string;
}

/** A tensor argument, each of its properties read once. `name` is the argument as the caller wrote it. */
export interface TensorArgument {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

const SHAPES = { 1: '[K], one value per output channel', 4: 'a list of 4 positive integers' } as const;

/** Reads a float32 tensor in CPU memory. This runs the caller's getters; {@link stableData} then runs none. */
export function readTensor(name: string, value: unknown, rank: keyof typeof SHAPES): TensorArgument {
  if (!isObject(value)) throw mismatch(name, 'a tensor ({ type, dims, data })', value);
  const tensor = value as Partial<Record<keyof TensorLike, unknown>>;
  checkLocation(name, tensor.location);
  const type = tensor.type;
  if (type !== 'float32') throw mismatch(`${name}.type`, `'float32'`, type);
  const dims = readDims(`${name}.dims`, tensor.dims, SHAPES[rank], rank);
  const data = tensor.data;
  if (kindOf(data) !== 'Float32Array') throw mismatch(`${name}.data`, 'a Float32Array', data);
  return { name, dims, data: data as Float32Array };
}

/** Reads dimensions of which none may be zero. */
export function readDims(name: string, value: unknown, shape: string, rank: number): number[] {
  return checkIntegers(name, value, [rank], { min: 1, max: Number.MAX_SAFE_INTEGER }, shape);
}

function checkLocation(name: string, location: unknown): void {
  if (location === undefined || location === 'cpu' || location === 'cpu-pinned') return;
  if (location === 'none') throw new WarpconvError('ERR_WARPCONV_DISPOSED', `${name} has been disposed`);
  throw invalid(
    `${name}.location must be 'cpu', got ${describe(location)}; get the data into CPU memory first`,
  );
}

function checkData({ name, data, dims }: TensorArgument): void {
  checkElements(`${name}.`, data, dims);
}

/** The data for native code to read during a call: a view, or a copy where the memory may change hands or shrink. */
export function stableData(argument: TensorArgument): Float32Array {
  checkData(argument);
  return instability(argument.data) === undefined ? argument.data : new Float32Array(argument.data);
}

/** The data for native code to write during a call. */
export function writableData(argument: TensorArgument): Float32Array {
  checkData(argument);
  const reason = instability(argument.data);
  if (reason === undefined) return argument.data;
  throw invalid(
    `${argument.name}.data must be over an ordinary ArrayBuffer, got one over a ${reason} buffer`,
  );
}

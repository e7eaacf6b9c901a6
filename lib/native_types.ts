import type { Precision } from './conv2d/names';

/** Types of the native binary that its surface (addon.ts) and the steps of networks (model/steps.ts) share. */

/** What went wrong in native code. `code` is an error code of the package without its `ERR_WARPCONV_` prefix. */
export interface NativeFailure {
  readonly code: string;
  readonly message: string;
  /** CUDA's own name for it, where CUDA had a part in it */
  readonly cudaError?: string;
}

/** `[height, width]` */
export type Pair = readonly [number, number];

/** An activation as the epilogue takes it: a name and up to two parameters (clip: min, max; leakyRelu: slope). */
export interface NativeActivation {
  readonly name: string;
  readonly parameters: readonly number[];
}

/** What an experiment decides in place of sconv; `null` where it decides nothing. */
export interface NativeSconvSwitches {
  readonly schedule: 'inputStationary' | 'weightStationary' | null;
  readonly presentation: 'asTheyLie' | 'packed' | null;
  readonly vectorPacking: boolean;
  readonly packing: 'onDemand' | 'ahead';
}

/** The types of a convolution's tensors. */
export type FloatType = 'float32' | 'float16' | 'bfloat16';

/** The arrays that hold elements of these types, those of 16 bits as their bits. */
export type FloatArray = Float32Array | Uint16Array;

/** How a tensor of four axes lies in memory. */
export interface TensorFormat {
  readonly type: FloatType;
  readonly layout: 'nchw' | 'nhwc';
  /** Elements from one pixel to the next of an NHWC tensor whose pixels are apart, or 0 */
  readonly pitch: number;
}

/** How the tensors of a convolution lie in memory. Filters and biases are float32, K x C / groups x R x S. */
export interface ConvolutionFormat {
  readonly input: TensorFormat;
  readonly residual: TensorFormat;
  readonly output: TensorFormat;
}

/** A convolution, normalised: every default filled in, every shorthand spelt out. */
export interface ConvolutionSpec {
  /** N, C, H, W */
  readonly inputDims: readonly number[];
  /** K, C / groups, R, S */
  readonly weightDims: readonly number[];
  readonly stride: Pair;
  /** `[top, left, bottom, right]`, or a mode that the native side resolves */
  readonly padding: readonly [number, number, number, number] | 'same' | 'valid';
  readonly dilation: Pair;
  readonly groups: number;
  readonly activation: NativeActivation;
  /** The N of `cuda:N`, or -1 for the CPU. The GPU must have been opened. */
  readonly device: number;
  /** `'auto'`, the name of an algorithm, or `'tune'`, for which native code takes the predicted one, like `'auto'` */
  readonly algorithm: string;
  /** A variant of the pinned algorithm, or empty */
  readonly variant: string;
  /** Bytes; `Infinity` when there is no limit */
  readonly workspaceLimit: number;
  readonly sconv: NativeSconvSwitches;
  /** float32 in NCHW unless given */
  readonly format?: ConvolutionFormat;
  /** The least exact products that may be made; `'fp32'` unless given */
  readonly precision?: Precision;
  /** Whether integers that float32 has must come out exactly */
  readonly keepsIntegers?: boolean;
}

/** One of the kernels that an algorithm chose from. */
export interface NativeConsideredKernel {
  /** The variant that asks for it */
  readonly name: string;
  /** Empty where there is no such kernel for the problem */
  readonly tiles: Readonly<Record<string, number>>;
  readonly figures: Readonly<Record<string, number>>;
  /** Absent for the one that was chosen */
  readonly lost?: string;
}

/** One entry of the planner's list for a problem. */
export interface NativeCandidate {
  readonly algorithm: string;
  /** Why it cannot or may not run this problem; absent when it can */
  readonly refusal?: string;
  readonly predictedMilliseconds?: number;
  readonly workspaceBytes?: number;
  /** Tile extents and the like, by name */
  readonly tiles?: Readonly<Record<string, number>>;
  readonly considered?: readonly NativeConsideredKernel[];
}

/** Called once on the JavaScript thread, when an asynchronous call has ended. */
export type Done = (failure?: NativeFailure) => void;

/** Identifies an asynchronous call to `Addon.cancel`. */
export type CallId = number;

/** Elements in a GPU's memory. Native code checks that it was made by it; any other object is refused. */
export interface NativeGpuBuffer {
  /** Fills it from a typed array of the same number of bytes, which is free again when this is done. */
  write(from: ArrayBufferView, done: Done): CallId;
  read(into: ArrayBufferView, done: Done): CallId;
  /** Lets go of the memory; running calls keep it until they end. */
  dispose(): void;
}

/** What the programs of one session share on its device: what was made of weights, and scratch memory. */
export interface NativeStore {
  /** Of the device's memory, held now */
  readonly bytes: number;
  /** Those of them that are scratch memory of runs, idle or not */
  readonly scratchBytes: number;
  /** Gives back the scratch memory that no run uses, and what was made of weights for programs that are gone. */
  trim(): void;
  /** Takes no more programs; those that there are keep what they use. */
  dispose(): void;
}

/** Where a tensor's elements are, as native code takes them. */
export type NativeElements = FloatArray | NativeGpuBuffer;

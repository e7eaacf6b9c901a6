/**
 * The whole surface of the native binary, as TypeScript sees it. `native/binding/` implements it; nothing else
 * in `lib/` reaches native code except through these types.
 *
 * Synchronous functions throw, and asynchronous ones complete with, a {@link NativeFailure}; `lib/errors.ts` turns
 * either into a `WarpconvError`. The native side checks everything that depends on shapes (extents, groups,
 * overflow); the TypeScript side has already checked kinds (numbers, ranks, typed arrays, unknown keys).
 */
import type { Layout, Precision } from './conv2d/names';
import type { NativeProgram, NativeProgramSpec } from './model/steps';
import type {
  NativeFailure,
  ConvolutionSpec,
  NativeCandidate,
  Done,
  CallId,
  NativeGpuBuffer,
  NativeStore,
  NativeElements,
  FloatArray,
} from './native_types';

export type * from './native_types';

/** What a rival's tensors are, and what it multiplies. */
export interface NativeRivalForm {
  readonly layout: Layout;
  readonly arithmetic: Precision;
}

/**
 * One way to compute a problem: an algorithm of ours in the problem's format and precision, cuDNN's best in a form, or a
 * matrix product of cuBLAS, in NCHW and float32 also of im2col.
 */
export type NativeContestEntry =
  | { readonly library: 'warpconv'; readonly algorithm: string; readonly variant: string }
  | ({ readonly library: 'cudnn' } & NativeRivalForm)
  /** float32 in NCHW unless given */
  | ({ readonly library: 'cublas' } & Partial<NativeRivalForm>);

export interface NativeContest {
  readonly entries: readonly NativeContestEntry[];
  /** File names that NVIDIA's libraries may have */
  readonly cudnnLibraries: readonly string[];
  readonly cublasLibraries: readonly string[];
  /** Samples of each, and samples of each with the L2 cache overwritten before every call */
  readonly rounds: number;
  readonly coldRounds: number;
}

/** Of samples, each per call. */
export interface NativeSpread {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
}

export interface NativeJudgement {
  /** Calls back to back, with what they leave in the L2 cache */
  readonly milliseconds: NativeSpread;
  /** Absent where it could not matter, or was not asked for */
  readonly coldMilliseconds?: NativeSpread;
  /** In one sample, and whether they were replayed as a CUDA graph */
  readonly calls: number;
  readonly graph: boolean;
  readonly workspaceBytes: number;
  readonly maxError: number;
  readonly maxRelativeError: number;
  /** How many its entry proposed, of which the fastest few are measured */
  readonly proposed: number;
}

/** What came of an entry, by its index; a rival's may have several. */
export type NativeContestResult = { readonly entry: number; readonly algorithm: string } & (
  { readonly failure: NativeFailure } | ({ readonly failure?: undefined } & NativeJudgement)
);

export interface NativeContestReport {
  readonly results: readonly NativeContestResult[];
  /** Empty where the library was not used */
  readonly cudnnVersion: string;
  readonly cublasVersion: string;
}

/** What a GPU does at best, measured now. */
export interface NativeCeilings {
  /** Of float32 multiply-adds, counted as two operations */
  readonly flopsPerSecond: number;
  /** Of a copy in device memory, read and written bytes together */
  readonly bytesPerSecond: number;
  /** What events and a launch add to a cold sample */
  readonly eventMilliseconds: number;
}

/** An algorithm's time in a measurement. */
export interface NativeMeasurement {
  readonly algorithm: string;
  /** Of the algorithm; empty for its own choice */
  readonly variant: string;
  /** The median of a call */
  readonly milliseconds: number;
}

/** A chosen algorithm for one problem and, once prepared, its packed weights. */
export interface NativePlan {
  readonly outputDims: number[];
  readonly algorithm: string;
  readonly workspaceBytes: number;
  /** For the arithmetic of one run on one thread */
  readonly predictedMilliseconds: number;
  candidates(): NativeCandidate[];

  /**
   * Copies weight and bias into the layout the algorithm wants. Needed once before `run` and `runSync`. Elements of 16
   * bits are of the input's type.
   */
  prepare(weight: FloatArray, bias: FloatArray | null, done: Done): CallId;
  prepareSync(weight: FloatArray, bias: FloatArray | null): void;

  run(input: NativeElements, residual: NativeElements | null, output: NativeElements, done: Done): CallId;
  runSync(input: NativeElements, residual: NativeElements | null, output: NativeElements): void;

  /** Prepare and run in one call, keeping nothing. */
  convolve(...operands: [...operands: ConvolveOperands, done: Done]): CallId;
  convolveSync(...operands: ConvolveOperands): void;

  /** On a GPU: computes the problem in several ways, judges and times them. Null tensors are random ones. */
  holdContest(
    input: FloatArray | null,
    weight: FloatArray | null,
    contest: NativeContest,
    report: Partial<NativeContestReport>,
    done: Done,
  ): CallId;
  /** On a GPU: the names of an algorithm's variants. */
  variants(algorithm: string): string[];

  /**
   * Times the algorithms that take the problem, in their promising variants, on tensors of its own, and fills `report`, the
   * fastest first. Those that are several times slower are left out. Needs no `prepare`.
   */
  measure(report: { measurements?: NativeMeasurement[] }, done: Done): CallId;
  measureSync(): NativeMeasurement[];

  /** Lets go of the packed weights; running calls keep them until they end. */
  dispose(): void;
}

export type ConvolveOperands = [
  weight: FloatArray,
  bias: FloatArray | null,
  input: NativeElements,
  residual: NativeElements | null,
  output: NativeElements,
];

/** Memory that GPUs read in place once it is open, and until it is released or collected. */
export interface NativePin {
  open(done: Done): CallId;
  release(): void;
}

export interface NativeCpu {
  readonly name: string;
  /** The widest instruction set the machine has, for example `avx512`, `avx2`, `sse2`, `neon` */
  readonly isa: string;
  readonly features: string[];
  /** Logical processors this process may run on */
  readonly cores: number;
  /** Bytes; 0 where the machine does not tell */
  readonly caches: { readonly l1d: number; readonly l2: number; readonly l3: number };
}

export interface NativeGpu {
  readonly index: number;
  readonly name: string;
  /** For example `9.0` */
  readonly computeCapability: string;
  readonly memoryBytes: number;
  readonly multiprocessors: number;
}

/** What a look for GPUs found. */
export interface NativeGpuProbe {
  /** What is missing: this binary was built without CUDA, no usable driver, or no device. `null` when GPUs were found. */
  readonly missing: 'build' | 'driver' | 'device' | null;
  /** A sentence on what is missing; empty when GPUs were found. */
  readonly reason: string;
  /** For example `13.0`: the newest CUDA the driver supports; empty without a driver */
  readonly driver: string;
  readonly gpus: NativeGpu[];
}

export interface Addon {
  /** Of the package whose sources it was built from */
  readonly version: string;
  /** Throws where the problem is illegal or the pinned algorithm cannot do it. Chooses; prepares nothing. */
  readonly Plan: new (spec: ConvolutionSpec) => NativePlan;
  /** For the device of that number: the N of `cuda:N`, or -1 for the CPU */
  readonly Store: new (device: number) => NativeStore;
  /** Throws where a step is none. Prepares nothing. */
  readonly Program: new (spec: NativeProgramSpec) => NativeProgram;
  /**
   * The magnitudes of filters. Each array of weights has so many filters, one after the other; its list of ranges gets for
   * each the largest magnitude and the smallest that is not 0 (infinity where all are), both NaN where an element is.
   */
  filterRanges(
    weights: readonly Float32Array[],
    filters: readonly number[],
    ranges: readonly Float32Array[],
    done: Done,
  ): CallId;
  /** Takes a queued call out of its queue, or asks a running one to stop. It then completes with code `ABORTED`. */
  cancel(call: CallId): void;
  /** A call that has nothing to do: it is done when the event loop has turned. */
  nextTurn(done: Done): CallId;
  cpu(): NativeCpu;
  /** The widest instruction set that WARPCONV_ISA lets convolutions use; throws where that is misspelt. */
  usableIsa(): string;
  /** What each algorithm makes of a problem, also where every one refuses it */
  candidates(spec: ConvolutionSpec): NativeCandidate[];
  /** Looks for GPUs, once in a process. */
  gpuProbe(): NativeGpuProbe;
  /** Does that on another thread. */
  probeGpus(done: Done): CallId;
  gpusProbed(): boolean;
  /** Makes a GPU ready for this thread's environment. */
  openGpu(index: number, done: Done): CallId;
  openGpuSync(index: number): void;
  hasGpu(index: number): boolean;
  /** Bytes that this process holds on a GPU */
  gpuMemory(index: number): number;
  /** Measures an opened GPU, which takes a good part of a second. */
  gpuCeilings(index: number, report: Partial<NativeCeilings>, done: Done): CallId;
  /** Uninitialised memory of an opened GPU */
  readonly GpuBuffer: new (index: number, bytes: number) => NativeGpuBuffer;
  /** To pin the memory under an array that stays where it is, for an opened GPU */
  readonly Pin: new (index: number, array: Uint8Array) => NativePin;
  /** Another descriptor for the same file; null where the system has none. */
  duplicateDescriptor(descriptor: number): number | null;
  /** Page-locked memory of an opened GPU's driver, all zeros; `null` where the runtime takes no foreign memory. */
  allocatePinned(index: number, bytes: number): ArrayBuffer | null;
  /** Detaches such a buffer, whose memory goes when the last call that uses it has ended. */
  releasePinned(buffer: ArrayBuffer): void;
  /**
   * An ArrayBuffer of that length, for elements that are all written before anybody sees them: it holds what results before
   * it have left. `null` where the runtime takes no foreign memory, or the system has none.
   */
  allocateOutput(bytes: number): ArrayBuffer | null;
  /** Returns the memory of former outputs to the system. */
  releaseIdleOutputs(): void;
  /**
   * Bytes of native CPU memory, of former outputs that are kept for new ones, and of pinned memory in use, all in this
   * process; and live plans of this thread's environment
   */
  memory(): { cpu: number; idle: number; pinned: number; plans: number };
  /** Asks for huge pages under an array that nothing has been written to yet; without effect where there are none. */
  adviseHugePages(array: Uint8Array): void;
  /** Threads that convolutions run on, in the whole process */
  threads(): number;
  setThreads(count: number): void;
  /** True the first time it is called in this process, false ever after: for warnings that are given once. */
  firstFallback(): boolean;
}

import type { ConvolutionSpec, NativeCpu, NativeGpu, NativePlan } from './addon';
import { checkInteger } from './check';
import { callNative, WarpconvError } from './errors';
import { describeAlgorithms, describeRefusals, type AlgorithmInfo } from './conv2d/explanation';
import { addon } from './load';
import { readProblem, type ConvolutionProblem } from './conv2d/options';
import { checkDeviceOrAuto, indexOf, locate, whyNoGpu, type Device } from './placement';
import { liveTensors } from './tensor/tensor';
import { openPlan, openRemembered } from './conv2d/tuning';

/** The processor: always there, always usable. */
export interface CpuInfo {
  readonly device: 'cpu';
  readonly type: 'cpu';
  readonly available: true;
  readonly name: string;
  /** The widest instruction set in use, for example `avx512`, `avx2`, `sse2` or `neon`. */
  readonly isa: string;
  readonly features: readonly string[];
  /** Logical processors that this process may run on. */
  readonly cores: number;
  /** Bytes; 0 where the machine does not tell. */
  readonly caches: { readonly l1d: number; readonly l2: number; readonly l3: number };
}

/** One GPU; or, as device `'cuda'` with nothing but a reason, the lack of any. */
export interface GpuInfo {
  readonly device: Exclude<Device, 'cpu'>;
  readonly type: 'cuda';
  readonly available: boolean;
  /** Why it is not available. */
  readonly reason?: string;
  readonly name?: string;
  /** For example `9.0`. */
  readonly computeCapability?: string;
  readonly memoryBytes?: number;
  readonly multiprocessors?: number;
  /** The newest CUDA version that the driver supports, for example `13.0`. */
  readonly driver?: string;
}

/** One entry of {@link devices}. */
export type DeviceInfo = CpuInfo | GpuInfo;

/** What the package holds. */
export interface MemoryInfo {
  /** Bytes of native CPU memory in this process: packed weights and workspaces. Tensor data is JavaScript's. */
  readonly cpu: number;
  /**
   * Bytes of CPU memory in this process that former results have left and new ones will take. They are never more than
   * results took lately, and go back to the system when no result has wanted them for 5 to 10 seconds.
   */
  readonly idle: number;
  /** Bytes of the tensors of {@link allocPinned} in this process. */
  readonly pinned: number;
  /** Bytes in use by device, for example `cuda:0`. */
  readonly gpu: Readonly<Record<string, number>>;
  /** Tensors of this thread that are neither disposed nor collected. */
  readonly tensors: number;
  /** {@link Conv2d} plans of this thread that are neither disposed nor collected. */
  readonly plans: number;
}

/** The devices of this machine: the CPU first, then each GPU, or one entry that says why there is none. */
export function devices(): DeviceInfo[] {
  return [cpuInfo(callNative(() => addon().cpu())), ...gpuInfos()];
}

function cpuInfo({ name, isa, features, cores, caches }: NativeCpu): CpuInfo {
  return { device: 'cpu', type: 'cpu', available: true, name, isa, features, cores, caches };
}

function gpuInfos(): GpuInfo[] {
  const { missing, reason, driver, gpus } = callNative(() => addon().gpuProbe());
  if (missing !== null) return [{ device: 'cuda', type: 'cuda', available: false, reason }];
  return gpus.map((gpu) => gpuInfo(gpu, driver));
}

function gpuInfo({ index, ...facts }: NativeGpu, driver: string): GpuInfo {
  const device = `cuda:${index}` as const;
  const reason = whyNoGpu(device);
  const availability = reason === undefined ? { available: true } : { available: false, reason };
  return { device, type: 'cuda', ...availability, ...facts, driver };
}

/**
 * What each algorithm of a device makes of a convolution, without running it. With `algorithm: 'tune'` the choice is that of
 * an earlier measurement, which is shown, or else the predicted one. Where the choice falls on none, each has its `refusal`
 * or was not asked for, and no one is `chosen`.
 *
 * @param problem - the shapes, and the options that say which convolution is meant
 * @param device - defaults to where {@link conv2d} would run
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`; `ERR_WARPCONV_UNSUPPORTED` where the device does not have
 * the algorithm of that name; `ERR_WARPCONV_NO_DEVICE`
 */
export function algorithms(problem: ConvolutionProblem, device: Device | 'auto' = 'auto'): AlgorithmInfo[] {
  const shapes = readProblem(problem);
  const place = locate(checkDeviceOrAuto('device', device));
  const spec = { ...shapes, device: indexOf(place) };
  const native = openUnlessRefused(spec);
  if (native === undefined) return describeRefusals(spec);
  const request = { spec, place, precision: spec.precision, deterministic: false };
  const remembered = spec.algorithm === 'tune' ? openRemembered(request) : undefined;
  return describeAlgorithms(spec, remembered ?? { native });
}

/** The plan of the problem, if the algorithms of the device that may run it do not refuse it. */
function openUnlessRefused(spec: ConvolutionSpec): NativePlan | undefined {
  try {
    return openPlan(spec);
  } catch (error) {
    const isRefused = error instanceof WarpconvError && error.code === 'ERR_WARPCONV_UNSUPPORTED';
    if (isRefused && mayAsk(spec)) return undefined;
    throw error;
  }
}

/** Whether the device has the algorithm that is named, if one is. */
function mayAsk(spec: ConvolutionSpec): boolean {
  const isOpen = spec.algorithm === 'auto' || spec.algorithm === 'tune';
  return isOpen || describeRefusals(spec).some(({ algorithm }) => algorithm === spec.algorithm);
}

/** What the package holds now, for finding leaks. */
export function memory(): MemoryInfo {
  return callNative(() => ({ ...addon().memory(), gpu: gpuMemory(), tensors: liveTensors() }));
}

function gpuMemory(): Record<string, number> {
  // Before anybody has looked for GPUs nothing can be on one.
  const gpus = addon().gpusProbed() ? addon().gpuProbe().gpus : [];
  return Object.fromEntries(gpus.map(({ index }) => [`cuda:${index}`, addon().gpuMemory(index)]));
}

/**
 * How many threads convolutions run on. By default as many as this process has processors; in a container that is allowed
 * less processor time, as many as that is, rounded down.
 */
export function threads(): number {
  return addon().threads();
}

/**
 * Sets how many threads convolutions run on, in the whole process. One call alone uses them all, many calls share them;
 * the results are bitwise the same for any number. Calls in flight are not disturbed.
 *
 * @param count - at least 1, and at most 1024
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
 */
export function setThreads(count: number): void {
  const checked = checkInteger('count', count, { min: 1, max: MOST_THREADS });
  callNative(() => addon().setThreads(checked));
}

/** More than any machine can use; a slip of the pen should not start them. */
const MOST_THREADS = 1024;

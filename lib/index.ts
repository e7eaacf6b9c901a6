/**
 * 2-D convolution for Node.js servers.
 *
 * @packageDocumentation
 */
import { addon } from './load';

export { conv2d, conv2dSync } from './convolution';
export { Conv2d } from './plan';
export { InferenceSession } from './session';
export { SharedSession } from './sharing/shared_session';
export { allocPinned, Tensor } from './tensor';
export { compareWithCudnn } from './compare';
export { tune } from './tune';
export { algorithms, devices, memory, setThreads, threads } from './devices';
export { WarpconvError } from './errors';

export type { CudnnComparison } from './compare';
export type { AlgorithmInfo, ConsideredKernel, PlanExplanation, TuningInfo } from './explanation';
export type { DataType, DataTypeMap, Location } from './tensor';
export type { TensorLike } from './tensor_like';
export type { TypedArray } from './typed_array';
export type { CpuInfo, DeviceInfo, GpuInfo, MemoryInfo } from './devices';
export type {
  Activation,
  AlgorithmName,
  CompareOptions,
  Conv2dCreateOptions,
  Conv2dOptions,
  Conv2dRunOptions,
  ConvolutionOptions,
  ConvolutionProblem,
  Precision,
  SconvSwitches,
  TuneOptions,
  TuneProgress,
} from './options';
export type { Port } from './model/compile';
export type { SessionExplanation, StepExplanation } from './model/explain';
export type { ImageOptions } from './images';
export type { ValueMetadata } from './model/metadata';
export type { RunOptions, SessionOptions } from './session_options';
export type { Device, Place } from './placement';
export type { WarpconvErrorCode } from './errors';

// A binary that does not load is reported by the import, not by whichever call comes first.
addon();

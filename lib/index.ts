/**
 * 2-D convolution for Node.js servers.
 *
 * @packageDocumentation
 */
import { addon } from './load';
import type { InferenceSession } from './session/session';

export { conv2d, conv2dSync } from './conv2d/convolution';
export { Conv2d } from './conv2d/plan';
export { InferenceSession } from './session/session';
export { SharedSession } from './sharing/shared_session';
export { allocPinned, Tensor } from './tensor/tensor';
export { compareWithCudnn } from './conv2d/compare';
export { tune } from './conv2d/tune';
export { algorithms, devices, memory, setThreads, threads } from './devices';
export { env, listSupportedBackends, registerBackend } from './environment';
export { WarpconvError } from './errors';

export type { CudnnComparison } from './conv2d/compare';
export type { AlgorithmInfo, ConsideredKernel, PlanExplanation, TuningInfo } from './conv2d/explanation';
export type { Env, SupportedBackend } from './environment';
export type { DataType, DataTypeMap, ListMap, Location } from './tensor/tensor';
export type {
  FromImageOptions,
  ImageFormat,
  ImageNorm,
  RawImage,
  SharpOutput,
  ToImageDataOptions,
} from './tensor/from_image';
export type { FloatTensorLike, TensorLike } from './tensor/tensor_like';
export type { TypedArray } from './tensor/typed_array';
export type { CpuInfo, DeviceInfo, GpuInfo, MemoryInfo } from './devices';
export type {
  Activation,
  CompareOptions,
  Conv2dCreateOptions,
  Conv2dOptions,
  Conv2dRunOptions,
  ConvolutionOptions,
  ConvolutionProblem,
  SconvSwitches,
  TuneOptions,
  TuneProgress,
} from './conv2d/options';
export type { AlgorithmName, Layout, Precision } from './conv2d/names';
export type { FloatType } from './native_types';
export type { Port } from './model/compile';
export type { SessionExplanation, StepExplanation } from './model/explain';
export type { ImageOptions } from './session/images';
export type { ValueMetadata } from './model/metadata';
export type {
  ExecutionProvider,
  ExternalFile,
  RunOptions,
  SessionOptions,
  WarpconvExecutionProviderOption,
} from './session/session_options';
export type { Device, Place } from './placement';
export type { WarpconvErrorCode } from './errors';
export type {
  ExternalDataFileDescription,
  ExternalDataFileType,
  FileData,
  FileType,
  FileUrlOrPath,
  ImageTensorLayout,
  OnnxModelOptions,
  OnnxValue,
  OnnxValueDataLocation,
  TensorConstructor,
  TensorFactory,
  TensorFromGpuBufferOptions,
  TensorFromImageDataOptions,
  TensorToImageDataOptions,
  TypedTensor,
} from './onnxruntime_names';

/** onnxruntime-common's name of the class as a value. */
export type InferenceSessionFactory = typeof InferenceSession;

// A binary that does not load is reported by the import, not by whichever call comes first.
addon();

import type { NativeComparison } from './addon';
import { callNativeAsync } from './calls';
import { findCudnn } from './cudnn';
import { readCompareOptions, requirePrecision, type AlgorithmName, type CompareOptions } from './options';
import { indexOf, locate, openPlace, probeElsewhere } from './placement';
import { readTensor, stableData, toCpu, type TensorLike } from './tensor_like';
import { openChosen } from './tuning';

/** One convolution by this package and by cuDNN, on the same GPU and tensors. */
export interface CudnnComparison {
  readonly device: string;
  /** What this package used. */
  readonly algorithm: AlgorithmName;
  /** Of one call, without copies: the median of many, in turns with cuDNN's. */
  readonly milliseconds: number;
  readonly workspaceBytes: number;
  /** The largest distance of an output from the sum in double precision. */
  readonly maxError: number;
  /** The same as a share of `|input| * |weight|`, which is what rounding may be measured against. */
  readonly maxRelativeError: number;
  /** Whether `maxRelativeError` is at most 4e-6, as for anything that calls itself float32. */
  readonly withinTolerance: boolean;
  /** The fastest of cuDNN's own search, without TF32. */
  readonly cudnnAlgorithm: string;
  readonly cudnnMilliseconds: number;
  readonly cudnnWorkspaceBytes: number;
  readonly cudnnMaxError: number;
  readonly cudnnMaxRelativeError: number;
  readonly cudnnVersion: string;
  /** cuDNN's time over this package's: above 1 this package is faster. */
  readonly speedup: number;
}

/** Of float32, by the rule that {@link CudnnComparison.withinTolerance} states. */
const TOLERANCE = 4e-6;

/**
 * Convolves with this package and with cuDNN on a GPU, judges both against double precision and times both. cuDNN is
 * found when it is asked for; set `WARPCONV_CUDNN` to its library or folder if it is in an unusual place.
 *
 * @param input - float32, dims `[N, C, H, W]`
 * @param weight - float32, dims `[K, C / groups, R, S]`
 * @throws {@link WarpconvError}, as a rejection: the codes of {@link conv2d}, and `ERR_WARPCONV_CUDNN_NOT_FOUND`
 */
export async function compareWithCudnn(
  input: TensorLike,
  weight: TensorLike,
  options?: CompareOptions,
): Promise<CudnnComparison> {
  const image = readTensor('input', input, 4);
  const filters = readTensor('weight', weight, 4);
  const { method, device, precision } = readCompareOptions(options);
  await probeElsewhere(device);
  const place = locate(device);
  requirePrecision(precision, place);
  await openPlace(place);
  const [inputData, weightData] = [stableData(await toCpu(image)), stableData(await toCpu(filters))];
  const spec = { inputDims: image.dims, weightDims: filters.dims, device: indexOf(place), ...method };
  const { native: plan } = await openChosen({ spec, place, precision, deterministic: false });
  const report: Partial<NativeComparison> = {};
  // The loader finds it by name where the system knows it.
  const libraries = [...findCudnn(), 'libcudnn.so.9', 'libcudnn.so.8'];
  try {
    await callNativeAsync((done) => plan.compareWithCudnn(inputData, weightData, libraries, report, done));
  } finally {
    plan.dispose();
  }
  return toComparison(place, report as NativeComparison);
}

function toComparison(device: string, { ours, cudnn, cudnnVersion }: NativeComparison): CudnnComparison {
  return {
    device,
    algorithm: ours.algorithm as AlgorithmName,
    milliseconds: ours.milliseconds,
    workspaceBytes: ours.workspaceBytes,
    maxError: ours.maxError,
    maxRelativeError: ours.maxRelativeError,
    withinTolerance: ours.maxRelativeError <= TOLERANCE,
    cudnnAlgorithm: cudnn.algorithm,
    cudnnMilliseconds: cudnn.milliseconds,
    cudnnWorkspaceBytes: cudnn.workspaceBytes,
    cudnnMaxError: cudnn.maxError,
    cudnnMaxRelativeError: cudnn.maxRelativeError,
    cudnnVersion,
    speedup: cudnn.milliseconds / ours.milliseconds,
  };
}

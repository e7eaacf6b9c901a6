import type { NativeJudgement } from '../addon';
import { holdContest, TOLERANCE, type ContestReport, type ContestResult } from './contest';
import { invalid, isEmptyBatch } from '../check';
import { fromNative } from '../errors';
import type { AlgorithmName } from './names';
import { readCompareOptions, requirePrecision, type CompareOptions } from './options';
import { indexOf, locate, probeElsewhere } from '../placement';
import { readTensor, stableData, toCpu, type TensorLike } from '../tensor/tensor_like';
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
  /** The fastest in NCHW of cuDNN's own search and of what its heuristics propose, without TF32. */
  readonly cudnnAlgorithm: string;
  readonly cudnnMilliseconds: number;
  readonly cudnnWorkspaceBytes: number;
  readonly cudnnMaxError: number;
  readonly cudnnMaxRelativeError: number;
  readonly cudnnVersion: string;
  /** cuDNN's time over this package's: above 1 this package is faster. */
  readonly speedup: number;
}

/**
 * Convolves with this package and with cuDNN on a GPU, judges both against double precision and times both. cuDNN is
 * found when it is asked for; set `WARPCONV_CUDNN` to its library or folder if it is in an unusual place.
 *
 * @param input - float32, dims `[N, C, H, W]`; at least one image
 * @param weight - float32, dims `[K, C / groups, R, S]`
 * @throws {@link WarpconvError}, as a rejection: the codes of {@link conv2d}, and `ERR_WARPCONV_CUDNN_NOT_FOUND`
 */
export async function compareWithCudnn(
  input: TensorLike,
  weight: TensorLike,
  options?: CompareOptions,
): Promise<CudnnComparison> {
  const image = readTensor('input', input, 4, 0);
  const filters = readTensor('weight', weight, 4);
  const { method, device, precision } = readCompareOptions(options);
  if (isEmptyBatch(image.dims)) throw invalid('input has no images, so that there is nothing to compare');
  await probeElsewhere(device);
  const place = locate(device);
  requirePrecision(precision, place);
  const [inputData, weightData] = [stableData(await toCpu(image)), stableData(await toCpu(filters))];
  const spec = { inputDims: image.dims, weightDims: filters.dims, device: indexOf(place), ...method };
  const { native: plan, tuning } = await openChosen({ spec, place, precision, deterministic: false });
  const { algorithm } = plan;
  const variant = tuning?.measurements[0]!.variant ?? method.variant;
  try {
    const report = await holdContest(plan, {
      entries: [
        { library: 'warpconv', algorithm, variant },
        { library: 'cudnn', layout: 'nchw', arithmetic: 'fp32' },
      ],
      tensors: { input: inputData, weight: weightData },
    });
    return toComparison(place, report);
  } finally {
    plan.dispose();
  }
}

type Measured = { readonly algorithm: string } & NativeJudgement;

/** Of those of an entry that were measured, the one with the lowest median; the failure is thrown where none was. */
function fastest(results: readonly ContestResult[], entry: number): Measured {
  const own = results.filter((result) => result.entry === entry);
  const measured = own.filter((result) => result.failure === undefined);
  if (measured.length === 0) throw fromNative(own[0]?.failure);
  return measured.reduce((best, one) => (one.milliseconds.median < best.milliseconds.median ? one : best));
}

function toComparison(device: string, { results, cudnnVersion }: ContestReport): CudnnComparison {
  const [ours, cudnn] = [fastest(results, 0), fastest(results, 1)];
  return {
    device,
    algorithm: ours.algorithm as AlgorithmName,
    milliseconds: ours.milliseconds.median,
    workspaceBytes: ours.workspaceBytes,
    maxError: ours.maxError,
    maxRelativeError: ours.maxRelativeError,
    withinTolerance: ours.maxRelativeError <= TOLERANCE,
    cudnnAlgorithm: cudnn.algorithm,
    cudnnMilliseconds: cudnn.milliseconds.median,
    cudnnWorkspaceBytes: cudnn.workspaceBytes,
    cudnnMaxError: cudnn.maxError,
    cudnnMaxRelativeError: cudnn.maxRelativeError,
    cudnnVersion,
    speedup: cudnn.milliseconds.median / ours.milliseconds.median,
  };
}

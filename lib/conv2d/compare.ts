import type { NativeJudgement } from '../addon';
import { holdContest, LAYOUTS, TOLERANCES, type ContestReport, type ContestResult } from './contest';
import { planRequestOf, requireTypes } from './convolution';
import { invalid, isEmptyBatch } from '../check';
import { fromNative } from '../errors';
import type { AlgorithmName, Layout, Precision } from './names';
import { readCompareOptions, type CompareOptions } from './options';
import { locate, probeElsewhere } from '../placement';
import { readTensor, stableData, toCpu, type TensorLike } from '../tensor/tensor_like';
import { openChosen } from './tuning';

/** One convolution by this package and by cuDNN, on the same GPU and tensors. */
export interface CudnnComparison {
  readonly device: string;
  /** The least exact products that either may make. */
  readonly precision: Precision;
  /** What this package used. */
  readonly algorithm: AlgorithmName;
  /** Of one call, without copies: the median of many, in turns with cuDNN's. */
  readonly milliseconds: number;
  readonly workspaceBytes: number;
  /** The largest distance of an output from the sum in double precision. */
  readonly maxError: number;
  /** The same as a share of `|input| * |weight|`, which is what rounding may be measured against. */
  readonly maxRelativeError: number;
  /** Whether `maxRelativeError` is at most 4e-6, as for anything that calls itself float32, or what goes with the precision. */
  readonly withinTolerance: boolean;
  /** The fastest in the precision, in either layout, of cuDNN's own search and of what its heuristics propose. */
  readonly cudnnAlgorithm: string;
  /** Of the tensors that cuDNN was given: the layout in which it is faster. */
  readonly cudnnLayout: Layout;
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
 * found when it is asked for; set `WARPCONV_CUDNN` to its library or folder if it is in an unusual place. It gets its tensors
 * in both layouts, converted before anything is timed, and the faster one counts.
 *
 * @param input - float32, float16 or bfloat16, dims `[N, C, H, W]`, or `[N, H, W, C]` with `layout: 'nhwc'`; at least one image.
 * cuDNN gets float32 for `'fp32'` and `'tf32'`, float16 for `'fp16'` and bfloat16 for `'bf16'`
 * @param weight - float32 or of the input's type, dims `[K, C / groups, R, S]`
 * @throws {@link WarpconvError}, as a rejection: the codes of {@link conv2d}, and `ERR_WARPCONV_CUDNN_NOT_FOUND`
 */
export async function compareWithCudnn(
  input: TensorLike,
  weight: TensorLike,
  options?: CompareOptions,
): Promise<CudnnComparison> {
  const image = readTensor('input', input, 4, 0);
  const filters = readTensor('weight', weight, 4);
  const asked = readCompareOptions(options);
  const { method, device } = asked;
  requireTypes(image.type, filters, { bias: null, residual: null });
  if (isEmptyBatch(image.dims)) throw invalid('input has no images, so that there is nothing to compare');
  await probeElsewhere(device);
  const place = locate(device);
  const [inputData, weightData] = [stableData(await toCpu(image)), stableData(await toCpu(filters))];
  const shapes = { type: image.type, inputDims: image.dims, weightDims: filters.dims };
  const request = planRequestOf(asked, shapes, place);
  const { precision } = request;
  const { native: plan, tuning } = await openChosen(request);
  const { algorithm } = plan;
  const variant = tuning?.measurements[0]!.variant ?? method.variant;
  try {
    const report = await holdContest(plan, {
      entries: [
        { library: 'warpconv', algorithm, variant },
        ...LAYOUTS.map((layout) => ({ library: 'cudnn', layout, arithmetic: precision }) as const),
      ],
      tensors: { input: inputData, weight: weightData },
    });
    return toComparison(place, precision, report);
  } finally {
    plan.dispose();
  }
}

type Measured = Pick<ContestResult, 'entry' | 'algorithm'> & NativeJudgement;

/** Of some that were measured, the one with the lowest median; the failure is thrown where none was. */
function fastest(own: readonly ContestResult[]): Measured {
  const measured = own.filter((result) => result.failure === undefined);
  if (measured.length === 0) throw fromNative(own[0]?.failure);
  return measured.reduce((best, one) => (one.milliseconds.median < best.milliseconds.median ? one : best));
}

/** Of the entries. Behind it cuDNN has one for each layout. */
const OURS = 0;

function toComparison(
  device: string,
  precision: Precision,
  { results, cudnnVersion }: ContestReport,
): CudnnComparison {
  const ours = fastest(results.filter(({ entry }) => entry === OURS));
  const cudnn = fastest(results.filter(({ entry }) => entry !== OURS));
  return {
    device,
    precision,
    algorithm: ours.algorithm as AlgorithmName,
    milliseconds: ours.milliseconds.median,
    workspaceBytes: ours.workspaceBytes,
    maxError: ours.maxError,
    maxRelativeError: ours.maxRelativeError,
    withinTolerance: ours.maxRelativeError <= TOLERANCES[precision],
    cudnnAlgorithm: cudnn.algorithm,
    cudnnLayout: LAYOUTS[cudnn.entry - OURS - 1]!,
    cudnnMilliseconds: cudnn.milliseconds.median,
    cudnnWorkspaceBytes: cudnn.workspaceBytes,
    cudnnMaxError: cudnn.maxError,
    cudnnMaxRelativeError: cudnn.maxRelativeError,
    cudnnVersion,
    speedup: cudnn.milliseconds.median / ours.milliseconds.median,
  };
}

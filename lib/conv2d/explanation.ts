/** Why an algorithm was chosen, and why not the others. */
import type { ConvolutionSpec, FloatType, NativeCandidate, NativePlan } from '../addon';
import { callNative } from '../errors';
import { addon } from '../load';
import { formOf, fromNchw, precisionOn } from './formats';
import type { AlgorithmName, Layout, Precision } from './names';
import { asOneImage, openPlan, outputDimsOf, type ChosenPlan, type PlanRequest, type Tuning } from './tuning';

/** One of the kernels that an algorithm chose from. */
export interface ConsideredKernel {
  /** By this name `options.variant` asks for it. */
  readonly name: string;
  /** Tile extents by name; empty where there is no such kernel for the problem. */
  readonly tiles: Readonly<Record<string, number>>;
  /**
   * What decides: `milliseconds`, as predicted, and of `pointwise` also `M_A` (multiply-adds for each element that a
   * thread copies), `M_B` (block tiles of the whole output), `registers` of a thread and `sharedBytes` of a block.
   */
  readonly figures: Readonly<Record<string, number>>;
  /** Why it was not chosen; absent for the one that was. */
  readonly lost?: string;
}

/** What an algorithm offers for one problem. */
export interface AlgorithmInfo {
  readonly algorithm: AlgorithmName;
  /** Whether this is the one that runs. */
  readonly chosen: boolean;
  /** Why it cannot or may not run; absent when it can. */
  readonly refusal?: string;
  readonly predictedMilliseconds?: number;
  /**
   * With `algorithm: 'tune'`: what a call took on all threads, without bias, residual and activation, in the fastest of the
   * algorithm's variants. Absent where it was several times as slow as the fastest, or predicted to be many times, or failed.
   */
  readonly measuredMilliseconds?: number;
  /** The variant that was fastest; absent where that was the algorithm's own choice. */
  readonly measuredVariant?: string;
  readonly workspaceBytes?: number;
  /** Tile extents and the like, by name. */
  readonly tiles?: Readonly<Record<string, number>>;
  /** The kernels that it chose from: of `pointwise`, `im2win`, `halo` and `stem` on a GPU. */
  readonly considered?: readonly ConsideredKernel[];
}

/** What a plan decided, and against what. */
export interface PlanExplanation {
  readonly device: string;
  readonly algorithm: AlgorithmName;
  /** `'caller'` for an algorithm that was named, `'prediction'` for `'auto'`, and `'measurement'` for `'tune'`. */
  readonly chosenBy: 'caller' | 'prediction' | 'measurement';
  /** Of a choice by measurement. */
  readonly tuning?: TuningInfo;
  /** Of input, residual and output. */
  readonly type: FloatType;
  readonly layout: Layout;
  /** The least exact products that may be made; `'fp32'` where the device has no faster ones, whatever was asked for. */
  readonly precision: Precision;
  /** In the layout, as `outputDims`. */
  readonly inputDims: readonly number[];
  readonly weightDims: readonly number[];
  readonly outputDims: readonly number[];
  /**
   * Every algorithm of the device: predicted time, workspace, tiles and the kernels it chose from, or the sentence that
   * refused it.
   */
  readonly candidates: readonly AlgorithmInfo[];
}

/** Where a choice by measurement comes from. */
export interface TuningInfo {
  /** ISO 8601. */
  readonly measuredAt: string;
  /** Whether it was remembered, by this process or in the user's cache directory, and not measured for this plan. */
  readonly fromCache: boolean;
}

/** Explains a plan; one that was tuned is held against what native code says without measurements. */
export function explain({ spec, place, precision }: ExplainedRequest, chosen: ChosenPlan): PlanExplanation {
  const { native, tuning } = chosen;
  const { type, layout } = formOf(spec);
  return {
    device: place,
    algorithm: native.algorithm as AlgorithmName,
    chosenBy: choosers[spec.algorithm] ?? 'caller',
    ...(tuning && { tuning: { measuredAt: tuning.measuredAt, fromCache: tuning.fromCache } }),
    type,
    layout,
    precision: precisionOn(place, precision),
    inputDims: fromNchw(spec.inputDims, layout),
    weightDims: spec.weightDims,
    outputDims: outputDimsOf(native, spec),
    candidates: describeAlgorithms(spec, chosen),
  };
}

type ExplainedRequest = Pick<PlanRequest, 'spec' | 'place' | 'precision'>;

const choosers: Readonly<Record<string, PlanExplanation['chosenBy']>> = {
  auto: 'prediction',
  tune: 'measurement',
};

/** The candidates for a problem, with the chosen one marked. */
export function describeAlgorithms(spec: ConvolutionSpec, { native, tuning }: ChosenPlan): AlgorithmInfo[] {
  const candidates = candidatesOf(native);
  if (tuning === undefined) return candidates.map((candidate) => toInfo(candidate, native));
  const own = new Map(candidates.map((candidate) => [candidate.algorithm, candidate]));
  // The plan pins a variant, which other algorithms know nothing of.
  return candidatesOf(openPlan(spec)).map((open) => {
    const candidate = open.algorithm === native.algorithm ? own.get(open.algorithm)! : open;
    return { ...toInfo(candidate, native), ...measured(open.algorithm, tuning) };
  });
}

/** The candidates for a problem that has no plan. */
export function describeRefusals(spec: ConvolutionSpec): AlgorithmInfo[] {
  const candidates = callNative(() => addon().candidates(asOneImage(spec)));
  return candidates.map(({ algorithm, ...facts }) => ({
    algorithm: algorithm as AlgorithmName,
    chosen: false,
    ...facts,
  }));
}

function candidatesOf(plan: NativePlan): NativeCandidate[] {
  return callNative(() => plan.candidates());
}

function toInfo({ algorithm, ...facts }: NativeCandidate, plan: NativePlan): AlgorithmInfo {
  return { algorithm: algorithm as AlgorithmName, chosen: algorithm === plan.algorithm, ...facts };
}

function measured(
  algorithm: string,
  { measurements }: Tuning,
): Pick<AlgorithmInfo, 'measuredMilliseconds' | 'measuredVariant'> {
  const fastest = measurements.find((one) => one.algorithm === algorithm);
  if (fastest === undefined) return {};
  const { milliseconds, variant } = fastest;
  return { measuredMilliseconds: milliseconds, ...(variant !== '' && { measuredVariant: variant }) };
}

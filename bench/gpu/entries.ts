/** Who takes part in the contest of a layer. */
import type { NativeCandidate, NativePlan } from '../../lib/addon';
import { LAYOUTS, type ContestEntry } from '../../lib/conv2d/contest';
import { formOf, isProduct, type GpuLayer } from './layers';
import type { Contestant } from './result';

/** A layer to measure, with those of ours that have spoiled a process before and are left out. */
export interface Task {
  readonly layer: GpuLayer;
  readonly without: readonly Contestant[];
}

/** What is asked of a plan */
type Planned = Pick<NativePlan, 'candidates' | 'variants'>;

/** The paper's kernels and ablations; the other variants of im2win pin tiles. */
const isAblation = (variant: string) => /^(basic|explicit.*|implicit)$/.test(variant);

/** Variants of families, where a figure of a paper or a planner's quality is made of them. */
function variantsOf({ group, batch }: GpuLayer, plan: Planned): [algorithm: string, variant: string][] {
  const all = (algorithm: string) =>
    plan.variants(algorithm).map((variant): [string, string] => [algorithm, variant]);
  switch (group) {
    case 'pointwise':
      return all('pointwise');
    case 'mec12':
      return batch === 1 ? [] : all('im2win').filter(([, variant]) => isAblation(variant));
    case 'depthwise':
    case 'image':
      return all('shuffle');
    default:
      return [];
  }
}

/** Ours, and those rivals that compute the same; what was left out before stays out. */
export function entriesOf({ layer, without }: Task, plan: Planned, quick: boolean): ContestEntry[] {
  const { precision } = formOf(layer);
  const families = precision === 'fp32' ? takersOf(plan) : promising(takersOf(plan));
  const variants = precision === 'fp32' && !quick ? variantsOf(layer, plan) : [];
  const ours = [...families.map(({ algorithm }) => [algorithm, ''] as const), ...variants].map(
    ([algorithm, variant]) => ({ library: 'warpconv', algorithm, variant }) as const,
  );
  return [...ours, ...cudnnEntries(layer, quick), ...productEntries(layer)].filter(
    (entry) => !without.some((one) => isSame(one, entry)),
  );
}

const takersOf = (plan: Planned) => plan.candidates().filter(({ refusal }) => refusal === undefined);

/** Above this over the least prediction, a family cannot be the fastest: most compute in float32 between conversions. */
const UNPROMISING = 4;

function promising(families: readonly NativeCandidate[]): NativeCandidate[] {
  const least = Math.min(...families.map(({ predictedMilliseconds }) => predictedMilliseconds!));
  return families.filter(({ predictedMilliseconds }) => predictedMilliseconds! <= UNPROMISING * least);
}

/** In both layouts, whatever ours has. Beside float32 those that round more, for information. */
function cudnnEntries(layer: GpuLayer, quick: boolean): ContestEntry[] {
  const { precision } = formOf(layer);
  // Of many layers what is for information alone would take long.
  const isBrief = quick || layer.group === 'networks' || precision !== 'fp32';
  const arithmetics = isBrief ? [precision] : (['fp32', 'tf32', 'fp16'] as const);
  return arithmetics.flatMap((arithmetic) =>
    LAYOUTS.map((layout) => ({ library: 'cudnn', layout, arithmetic }) as const),
  );
}

/** Of what is a matrix product, in both layouts; otherwise of im2col, which takes float32 in NCHW. */
function productEntries(layer: GpuLayer): ContestEntry[] {
  if (layer.form === undefined) return [{ library: 'cublas' }];
  const { precision: arithmetic } = layer.form;
  const isFloat = arithmetic === 'fp32' || arithmetic === 'tf32';
  return LAYOUTS.filter((layout) => isProduct(layer) || (isFloat && layout === 'nchw')).map(
    (layout) => ({ library: 'cublas', layout, arithmetic }) as const,
  );
}

/** A rival that has spoiled a process is left out as a whole, since what it chooses may change. */
function isSame(a: Contestant, b: ContestEntry): boolean {
  if (a.library !== b.library) return false;
  if (b.library === 'warpconv') return a.algorithm === b.algorithm && a.variant === b.variant;
  return a.layout === b.layout && a.arithmetic === b.arithmetic;
}

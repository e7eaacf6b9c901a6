/** Plans, and the choice of their algorithms by measurement. */
import type { ConvolutionSpec, NativeMeasurement, NativePlan } from '../addon';
import { callNativeAsync, unlessAborted } from '../calls';
import { admit } from '../tensor/allocation';
import { elementCount, isEmptyBatch } from '../check';
import { callNative, WarpconvError } from '../errors';
import { addon, packageVersion } from '../load';
import { formOf, fromNchw } from './formats';
import type { Precision } from './names';
import { indexOf, type Place } from '../placement';
import { TuningCache, type TuningKey, type TuningRecord } from './tuning_cache';

/** What a plan is asked for. */
export interface PlanRequest {
  readonly spec: ConvolutionSpec;
  readonly place: Place;
  readonly precision: Precision;
  readonly deterministic: boolean;
}

/** A measurement that decided. */
export interface Tuning extends TuningRecord {
  /** It was remembered, and not made for this plan. */
  readonly fromCache: boolean;
}

export interface ChosenPlan {
  readonly native: NativePlan;
  /** Where a measurement chose */
  readonly tuning?: Tuning;
}

const cache = new TuningCache();

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Lets native code choose an algorithm for the problem, or refuse it. */
export function openPlan(spec: ConvolutionSpec): NativePlan {
  const { Plan } = addon();
  return callNative(() => new Plan(asOneImage(spec)));
}

/** An empty batch as one image, which native code does not run; other problems as they are. */
export function asOneImage(spec: ConvolutionSpec): ConvolutionSpec {
  return isEmptyBatch(spec.inputDims) ? { ...spec, inputDims: [1, ...spec.inputDims.slice(1)] } : spec;
}

/** `[N, K, P, Q]`, or in the layout of the specification */
export function outputDimsOf(
  plan: NativePlan,
  spec: Pick<ConvolutionSpec, 'inputDims' | 'format'>,
): readonly number[] {
  const dims = plan.outputDims;
  return fromNchw(isEmptyBatch(spec.inputDims) ? [0, ...dims.slice(1)] : dims, formOf(spec).layout);
}

/** Whether something has to be measured before there is a plan. Nothing of an empty batch is. */
export function isTuned({ spec }: PlanRequest): boolean {
  return spec.algorithm === 'tune' && !isEmptyBatch(spec.inputDims);
}

/** Opens the plan that is asked for, measuring first where that is `'tune'` and nothing is remembered. */
export async function openChosen(request: PlanRequest, signal?: AbortSignal): Promise<ChosenPlan> {
  if (!isTuned(request)) return { native: openPlan(request.spec) };
  const remembered = openRemembered(request);
  if (remembered !== undefined) return remembered;
  const record = await measureShared(request, signal);
  return openMeasured(request, { ...record, fromCache: false });
}

/** As {@link openChosen}, measuring on the calling thread. */
export function openChosenSync(request: PlanRequest): ChosenPlan {
  if (!isTuned(request)) return { native: openPlan(request.spec) };
  return openRemembered(request) ?? openMeasured(request, { ...measureSync(request), fromCache: false });
}

/**
 * The plan by what is remembered. Nothing where there is none, or where the algorithm that was fastest is no more or refuses:
 * then it has to be measured again.
 */
export function openRemembered(request: PlanRequest): ChosenPlan | undefined {
  const record = cache.recall(keyOf(request));
  if (record === undefined) return undefined;
  try {
    return openMeasured(request, { ...record, fromCache: true });
  } catch (error) {
    if (error instanceof WarpconvError && STALE.has(error.code)) return undefined;
    throw error;
  }
}

const STALE: ReadonlySet<string> = new Set(['ERR_WARPCONV_UNSUPPORTED', 'ERR_WARPCONV_INVALID_ARGUMENT']);

function openMeasured({ spec }: PlanRequest, tuning: Tuning): ChosenPlan {
  const { algorithm, variant } = tuning.measurements[0]!;
  return { native: openPlan({ ...spec, algorithm, variant }), tuning };
}

/**
 * All that decides which algorithm is fastest, and whether it may be asked for. Bias, residual and activation are not in it:
 * they cost every algorithm the same, and are left out of what is measured.
 */
function keyOf({ spec, place, precision, deterministic }: PlanRequest): TuningKey {
  const { inputDims, weightDims, stride, padding, dilation, groups, format, workspaceLimit, sconv } = spec;
  const problem = { inputDims, weightDims, stride, padding, dilation, groups, format };
  const conditions = { precision, deterministic, workspaceLimit, sconv };
  return JSON.stringify({
    version: (version ??= packageVersion()),
    device: identify(place),
    ...problem,
    ...conditions,
  });
}

let version: string | undefined;
let processor: string | undefined;

/** A device as far as speed goes: another of the same kind has the same name. */
function identify(place: Place): string {
  if (place === 'cpu') return callNative(identifyCpu);
  const { driver, gpus } = addon().gpuProbe();
  const { name, computeCapability, multiprocessors } = gpus.find(({ index }) => index === indexOf(place))!;
  return `${name}, compute capability ${computeCapability}, multiprocessors: ${multiprocessors}, driver for CUDA ${driver}`;
}

/** Native code refuses what WARPCONV_ISA may ask for. */
function identifyCpu(): string {
  processor ??= addon().cpu().name;
  return `${processor}, ${addon().usableIsa()}, threads: ${addon().threads()}`;
}

function learn(key: TuningKey, measurements: readonly NativeMeasurement[]): TuningRecord {
  const record = { measuredAt: new Date().toISOString(), measurements };
  cache.remember(key, record);
  return record;
}

/** A plan for measuring, which makes tensors of its own, and has memory for them. */
function openMeasurable({ spec, place }: PlanRequest): NativePlan {
  const plan = openPlan(spec);
  if (place !== 'cpu') return plan;
  const dims = [spec.inputDims, spec.weightDims, plan.outputDims];
  const bytes = dims.reduce((sum, extents) => sum + elementCount(extents) * FLOAT_BYTES, 0);
  admit({ what: 'measuring algorithms', bytes, scratchBytes: plan.workspaceBytes });
  return plan;
}

function measureSync(request: PlanRequest): TuningRecord {
  const plan = openMeasurable(request);
  return learn(
    keyOf(request),
    callNative(() => plan.measureSync()),
  );
}

async function measure(request: PlanRequest, key: TuningKey, signal: AbortSignal): Promise<TuningRecord> {
  const plan = openMeasurable(request);
  const report: { measurements?: NativeMeasurement[] } = {};
  await callNativeAsync((done) => plan.measure(report, done), signal);
  return learn(key, report.measurements!);
}

/** Measurements under way or waiting for their turn. */
const measurements = new Map<TuningKey, Measurement>();
let lastEnded: Promise<unknown> = Promise.resolve();

/** Measures, unless somebody already does: who asks for the same shares what is found. */
function measureShared(request: PlanRequest, signal: AbortSignal | undefined): Promise<TuningRecord> {
  const key = keyOf(request);
  const measurement = measurements.get(key) ?? new Measurement(request, key);
  measurements.set(key, measurement);
  return measurement.join(signal);
}

/** A measurement for everybody who waits for it. It is given up when the last of them has aborted. */
class Measurement {
  readonly #key: TuningKey;
  readonly #giveUp = new AbortController();
  readonly #found: Promise<TuningRecord>;
  #waiting = 0;

  constructor(request: PlanRequest, key: TuningKey) {
    this.#key = key;
    // One after the other: two at once would measure each other.
    this.#found = lastEnded
      .then(() => measure(request, key, this.#giveUp.signal))
      .finally(() => this.#forget());
    lastEnded = this.#found.catch(() => {});
  }

  join(signal: AbortSignal | undefined): Promise<TuningRecord> {
    this.#waiting++;
    return unlessAborted(this.#found, signal, () => this.#leave());
  }

  #leave(): void {
    if (--this.#waiting > 0) return;
    this.#forget();
    this.#giveUp.abort();
  }

  /** Nobody joins from now on. Another may have taken its place. */
  #forget(): void {
    if (measurements.get(this.#key) === this) measurements.delete(this.#key);
  }
}

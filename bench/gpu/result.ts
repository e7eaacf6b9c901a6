/** What the GPU bench stores, and what follows from it. Plain data and arithmetic: nothing here measures. */
import type { GpuInfo } from '../../lib';
import { TOLERANCES } from '../../lib/conv2d/contest';
import type { Layout, Precision } from '../../lib/conv2d/names';
import { formOf, nameOfForm, workOf, type GpuLayer } from './layers';
import type { LoadRequests } from './load_requests';

/** Files of another schema are left alone: neither compared with nor rendered anew. */
export const SCHEMA = 2;

/** Milliseconds of one call: lower quartile, median, upper quartile. */
export type Quartiles = readonly [number, number, number];

/** Who it is. */
export interface Contestant {
  readonly library: 'warpconv' | 'cudnn' | 'cublas';
  /** Of ours the family; of a rival what it chose, empty where it failed before that */
  readonly algorithm: string;
  /** Of ours: the pinned variant, or empty */
  readonly variant?: string;
  /** Of tensors, and what is multiplied: float32 in NCHW where both are absent */
  readonly layout?: Layout;
  readonly arithmetic?: Precision;
}

const arithmeticOf = ({ arithmetic = 'fp32' }: Contestant): Precision => arithmetic;

export interface Measured {
  readonly ms: Quartiles;
  /** With the L2 cache overwritten before every call; absent for calls of more than a millisecond */
  readonly coldMs?: Quartiles;
  /** Of one sample */
  readonly calls: number;
  readonly workspaceBytes: number;
  /** Of a rival: the number of ways that it proposed. This is the fastest of those that are right. */
  readonly proposed?: number;
  /** Null stands for NaN */
  readonly maxError: number | null;
  readonly maxRelativeError: number | null;
}

export type Entry = Contestant &
  ({ readonly failure: string } | ({ readonly failure?: undefined } & Measured));
export type MeasuredEntry = Contestant & Measured;

export interface LayerResult extends GpuLayer {
  /** Index into GpuBenchResult.runs */
  readonly run: number;
  /** The family that `algorithm: 'auto'` takes; empty where the layer failed */
  readonly chosen: string;
  readonly seconds: number;
  readonly entries: readonly Entry[];
  /** Why the layer was not measured at all */
  readonly failure?: string;
  /** What a layer that failed or regressed is still held to the next time */
  readonly heldTo?: Baseline;
}

/** What `auto` took of a layer in a stored file. */
export interface Baseline {
  readonly file: string;
  readonly entry: MeasuredEntry;
}

/** What nvidia-smi says at one moment. */
export interface Clocks {
  readonly when: string;
  readonly facts: Readonly<Record<string, string>>;
}

/** One command's measurements. A day's file may hold several, the later replacing the same layers of the earlier. */
export interface RunInfo {
  readonly started: string;
  readonly arguments: readonly string[];
  readonly quick: boolean;
  readonly node: string;
  /** Of this package, with the commit where it is known */
  readonly version: string;
  readonly cudnn: string;
  readonly cublas: string;
  readonly clocks: readonly Clocks[];
  /** Absent until measured */
  readonly ceilings?: Ceilings;
}

export interface Ceilings {
  readonly flopsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly eventMilliseconds: number;
}

export interface GpuBenchResult {
  readonly schema: typeof SCHEMA;
  readonly date: string;
  readonly gpu: GpuInfo;
  readonly runs: readonly RunInfo[];
  readonly layers: readonly LayerResult[];
  /** What the profiler counted, or the sentence that says why it did not */
  readonly loadRequests?: LoadRequests | string;
}

/** What a layer or a rival cannot beat: a launch in a graph of many, as measured by an empty kernel on an H100. */
const LEAST_MILLISECONDS = 0.0009;

/**
 * Of a rival's error, as a share of |input| * |weight|, what shows that it computed the same thing. FFT and Winograd round
 * more than our rule allows.
 */
const RIVAL_TOLERANCES = { fp32: 1e-4, tf32: 2e-3, fp16: 5e-3, bf16: 4e-2 } as const satisfies Record<
  Precision,
  number
>;

export function isWithinOwnTolerance(entry: MeasuredEntry): boolean {
  return entry.maxRelativeError !== null && entry.maxRelativeError <= TOLERANCES[arithmeticOf(entry)];
}

/** Whether a result counts: it was measured, and it is right. */
export function counts(entry: Entry): entry is MeasuredEntry {
  if (entry.failure !== undefined) return false;
  if (entry.library === 'warpconv') return isWithinOwnTolerance(entry);
  return entry.maxRelativeError !== null && entry.maxRelativeError <= RIVAL_TOLERANCES[arithmeticOf(entry)];
}

export const median = ({ ms }: Measured): number => ms[1];

function fastest(entries: readonly Entry[]): MeasuredEntry | undefined {
  return entries
    .filter(counts)
    .reduce<MeasuredEntry | undefined>(
      (best, one) => (best === undefined || median(one) < median(best) ? one : best),
      undefined,
    );
}

/** Drops the slower ones of a rival, layout and arithmetic. A search proposes dozens. What is wrong or failed stays. */
export function withoutBeaten(entries: readonly Entry[]): Entry[] {
  const kinds = new Map<string, Entry[]>();
  for (const entry of entries) {
    const { library, layout, arithmetic, algorithm, variant } = entry;
    const kind = library === 'warpconv' ? [algorithm, variant] : [layout, arithmetic];
    const key = [library, ...kind].join(' ');
    kinds.set(key, [...(kinds.get(key) ?? []), entry]);
  }
  return [...kinds.values()].flatMap((own) => {
    const best = fastest(own);
    return own.filter((entry) => entry === best || !counts(entry));
  });
}

/** One of ours: a family, or a variant of it. */
export function own(layer: LayerResult, algorithm: string, variant = ''): MeasuredEntry | undefined {
  return layer.entries
    .filter(counts)
    .find((one) => one.library === 'warpconv' && one.algorithm === algorithm && one.variant === variant);
}

/** What `algorithm: 'auto'` takes. */
export function auto(layer: LayerResult): MeasuredEntry | undefined {
  return own(layer, layer.chosen);
}

/** The fastest of the families, each as it chooses itself: what `auto` may choose from. */
export function bestFamily(layer: LayerResult): MeasuredEntry | undefined {
  return fastest(layer.entries.filter(({ library, variant }) => library === 'warpconv' && variant === ''));
}

/** The fastest of a family's own choice and all its variants. */
export function bestVariant(layer: LayerResult, algorithm: string): MeasuredEntry | undefined {
  return fastest(layer.entries.filter((one) => one.library === 'warpconv' && one.algorithm === algorithm));
}

/** The fastest of cuDNN in both layouts and of the products of cuBLAS and cuBLASLt, in the layer's precision. */
export function bestRival(layer: LayerResult): MeasuredEntry | undefined {
  const { precision } = formOf(layer);
  return fastest(
    layer.entries.filter((one) => one.library !== 'warpconv' && arithmeticOf(one) === precision),
  );
}

export function cublas(layer: LayerResult): MeasuredEntry | undefined {
  return fastest(layer.entries.filter(({ library }) => library === 'cublas'));
}

/** The fastest of cuDNN in an arithmetic, in either layout or the one named. */
export function bestCudnn(
  layer: LayerResult,
  arithmetic: Precision,
  layout?: Layout,
): MeasuredEntry | undefined {
  return fastest(
    layer.entries.filter(
      (one) =>
        one.library === 'cudnn' &&
        one.arithmetic === arithmetic &&
        (layout === undefined || one.layout === layout),
    ),
  );
}

/** How many times as fast as the best rival; nothing where one of the two is missing. */
export function speedup(layer: LayerResult): number | undefined {
  const [ours, theirs] = [auto(layer), bestRival(layer)];
  return ours && theirs && median(theirs) / median(ours);
}

/** Likewise with a cold L2 cache; the rival is the one that is fastest with a warm one. */
export function coldSpeedup(layer: LayerResult): number | undefined {
  const [ours, theirs] = [auto(layer)?.coldMs, bestRival(layer)?.coldMs];
  return ours && theirs && theirs[1] / ours[1];
}

export function teraflops(layer: LayerResult, { ms }: Measured): number {
  return workOf(layer).flops / ms[1] / 1e9;
}

export function terabytes(layer: LayerResult, { ms }: Measured): number {
  return workOf(layer).bytes / ms[1] / 1e9;
}

/**
 * What a layer takes by the FMA peak, by the rate of a copy that moves each tensor once, or by a launch, whichever is longest,
 * in milliseconds. Tensor cores take less, and so may what reads more than it writes. The peak is left out of other precisions
 * than float32, whose own is not measured. Nothing where the ceilings were not measured.
 */
export function floorOf(layer: LayerResult, ceilings: Ceilings | undefined): number | undefined {
  if (ceilings === undefined) return undefined;
  const { flops, bytes } = workOf(layer);
  const isFloat = formOf(layer).precision === 'fp32';
  return Math.max(
    isFloat ? (flops / ceilings.flopsPerSecond) * 1e3 : 0,
    (bytes / ceilings.bytesPerSecond) * 1e3,
    LEAST_MILLISECONDS,
  );
}

export interface LayerGroup {
  readonly group: string;
  readonly batch: number;
  readonly layers: readonly LayerResult[];
}

/** By batch and group, in the order of the results. */
export function groupLayers(layers: readonly LayerResult[]): LayerGroup[] {
  const groups = new Map<string, LayerResult[]>();
  for (const layer of layers) {
    const key = `${layer.batch} ${layer.group}`;
    groups.set(key, [...(groups.get(key) ?? []), layer]);
  }
  return [...groups.values()].map((own) => ({ group: own[0]!.group, batch: own[0]!.batch, layers: own }));
}

const identityOf = (layer: GpuLayer) =>
  [layer.batch, layer.group, layer.name, nameOfForm(formOf(layer))].join(' ');

/** With `layer` in the place of an earlier measurement of the same, or at the end. */
export function withLayer(layers: readonly LayerResult[], layer: LayerResult): LayerResult[] {
  const index = layers.findIndex((one) => identityOf(one) === identityOf(layer));
  return index < 0 ? [...layers, layer] : layers.with(index, layer);
}

export interface StoredResult {
  readonly name: string;
  readonly result: GpuBenchResult;
}

/**
 * A layer has regressed when its median is more than this above the stored one and its lower quartile above the stored
 * upper one: drift of the clocks stays below 10 %, and noise overlaps.
 */
export const REGRESSION_THRESHOLD = 1.1;

/**
 * A layer just measured, with what it is held to where it failed or regressed: the newest thorough measurement of it, or
 * what that one was held to, lest a regression that is stored becomes the measure of the next run.
 *
 * @param stored - of the same device, the newest last
 */
export function withBaseline(layer: LayerResult, stored: readonly StoredResult[]): LayerResult {
  const names = stored.map(({ name }) => name);
  const heldTo = stored.flatMap((one) => baselinesIn(one, layer, names)).at(-1);
  return heldTo === undefined || keepsUp(auto(layer), heldTo.entry) ? layer : { ...layer, heldTo };
}

/** Whoever removes a file accepts what has become slower since. */
function baselinesIn(
  { name, result }: StoredResult,
  layer: GpuLayer,
  present: readonly string[],
): Baseline[] {
  return result.layers
    .filter((one) => identityOf(one) === identityOf(layer) && result.runs[one.run]?.quick === false)
    .flatMap((one) => {
      if (one.heldTo !== undefined && present.includes(one.heldTo.file)) return [one.heldTo];
      const entry = auto(one);
      return entry === undefined ? [] : [{ file: name, entry }];
    });
}

function keepsUp(now: MeasuredEntry | undefined, before: MeasuredEntry): boolean {
  if (now === undefined) return false;
  return median(now) <= REGRESSION_THRESHOLD * median(before) || now.ms[0] <= before.ms[2];
}

export interface Regression {
  readonly layer: LayerResult;
  readonly before: Baseline;
  readonly now: MeasuredEntry;
}

export function findRegressions(layers: readonly LayerResult[]): Regression[] {
  return layers.flatMap((layer) => {
    const now = auto(layer);
    return layer.heldTo === undefined || now === undefined ? [] : [{ layer, before: layer.heldTo, now }];
  });
}

/** Layers that were not measured, and what of ours failed or was wrong, a sentence each. */
export function findFailures(layers: readonly LayerResult[]): string[] {
  return layers.flatMap((layer) => {
    const place = `${layer.group} ${layer.name}, batch ${layer.batch}`;
    if (layer.failure !== undefined) return [`${place}: ${layer.failure}`];
    return layer.entries
      .filter((entry) => entry.library === 'warpconv' && !counts(entry))
      .map((entry) => `${place}, ${describeContestant(entry)}: ${troubleOf(entry)}`);
  });
}

/** Why rivals do not count, with how often: most have nothing for some problems. */
export function findRivalTroubles(layers: readonly LayerResult[]): string[] {
  const troubles = new Map<string, number>();
  for (const entry of layers.flatMap(({ entries }) => entries)) {
    if (entry.library === 'warpconv' || counts(entry)) continue;
    const trouble = `${describeContestant(entry)}: ${troubleOf(entry)}`;
    troubles.set(trouble, (troubles.get(trouble) ?? 0) + 1);
  }
  return [...troubles].map(([trouble, times]) => (times === 1 ? trouble : `${trouble} (${times} times)`));
}

function troubleOf(entry: Entry): string {
  if (entry.failure !== undefined) return entry.failure;
  return `off by ${(entry.maxRelativeError ?? NaN).toExponential(0)} of |input| * |weight|`;
}

function describeProduct(algorithm: string): string {
  const product = algorithm.endsWith(', Lt') ? 'cuBLASLt' : 'cuBLAS';
  return algorithm.startsWith('product') ? product : `im2col + ${product}`;
}

export function describeContestant(contestant: Contestant): string {
  const { library, algorithm, variant, layout = '' } = contestant;
  if (library === 'warpconv') return variant ? `${algorithm} ${variant}` : algorithm;
  const arithmetic = arithmeticOf(contestant);
  const kind = [layout, arithmetic === 'fp32' ? '' : arithmetic].map((one) => one.toUpperCase());
  const parts = library === 'cublas' ? [describeProduct(algorithm), ...kind] : ['cuDNN', ...kind, algorithm];
  return parts.filter((part) => part !== '').join(' ');
}

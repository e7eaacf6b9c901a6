/** What the bench of networks on a GPU stores, and what follows from it. Plain data and arithmetic. */
import type { GpuInfo } from '../../lib';
import type { Precision } from '../../lib/conv2d/names';
import type { Clocks, Quartiles } from '../gpu/result';
import { sum } from '../statistics';

/** PyTorch's forms of a network by their names in torch_networks.py */
export type Form = 'NCHW' | 'channels_last' | 'compiled' | Kind | `${Kind} compiled`;
type Kind = 'TF32' | 'FP16' | 'BF16';

/** PyTorch's forms in the same precision. The fastest of them is the rival. */
export const FORMS: Readonly<Record<Precision, readonly Form[]>> = {
  fp32: ['NCHW', 'channels_last', 'compiled'],
  tf32: ['TF32', 'TF32 compiled'],
  fp16: ['FP16', 'FP16 compiled'],
  bf16: ['BF16', 'BF16 compiled'],
};
/** Forms that round more. They are for information. */
export const OTHER_FORMS: Readonly<Record<Precision, readonly Form[]>> = {
  fp32: ['TF32', 'FP16'],
  tf32: ['FP16'],
  fp16: [],
  bf16: ['FP16'],
};
/** Whether PyTorch compiles it, which takes most of a minute */
export const isCompiled = (form: Form): boolean => form.endsWith('compiled');

/** Errors are of the largest output. */
export interface OwnMeasurement {
  readonly error: number;
  /** Milliseconds of a call of run(), inputs on the GPU, until the outputs are in CPU memory */
  readonly toCpu: Quartiles;
  /** The same until the outputs are on the GPU; absent where that was not measured */
  readonly onGpu?: Quartiles;
  /** The same after the L2 cache was overwritten, where that was asked for */
  readonly onGpuCold?: Quartiles;
  /** Milliseconds of the steps on the device by kind and algorithm, launched one by one between events */
  readonly steps: Readonly<Record<string, number>>;
}

export interface RivalMeasurement {
  readonly form: Form;
  readonly error: number;
  /** Milliseconds of a replay of the graph, between events around many */
  readonly replay: Quartiles;
  /** Of single replays after the L2 cache was overwritten, where that was asked for */
  readonly replayCold?: Quartiles;
  /** Milliseconds of a replay until the output is in CPU memory */
  readonly toCpu: Quartiles;
}

export interface NetworkMeasurement {
  readonly network: string;
  readonly batch: number;
  /** Index into GpuNetworksResult.runs */
  readonly run: number;
  readonly ours?: OwnMeasurement;
  readonly rivals: readonly RivalMeasurement[];
  /** Sentences */
  readonly failures: readonly string[];
}

/** What the rival is, and the name that it has for the GPU. */
export interface TorchFacts {
  readonly gpu: string;
  readonly torch: string;
  readonly torchvision: string;
  readonly cudnn: number;
  /** Whether normalisation was folded into convolutions; absent where it was not */
  readonly isFolded?: boolean;
}

/** One command's measurements: a day's file may hold several. */
export interface NetworksRun {
  readonly started: string;
  readonly quick: boolean;
  readonly node: string;
  readonly version: string;
  /** Or the sentence that says why it was not measured */
  readonly torch: TorchFacts | string;
  readonly clocks: readonly Clocks[];
}

export interface GpuNetworksResult {
  readonly date: string;
  readonly gpu: GpuInfo;
  readonly runs: readonly NetworksRun[];
  /** Absent for `'fp32'` */
  readonly precision?: Precision;
  readonly networks: readonly NetworkMeasurement[];
}

/** With `one` in the place of an earlier measurement of the same, or at the end. */
export function withNetwork(
  networks: readonly NetworkMeasurement[],
  one: NetworkMeasurement,
): NetworkMeasurement[] {
  const index = networks.findIndex(({ network, batch }) => network === one.network && batch === one.batch);
  return index < 0 ? [...networks, one] : networks.with(index, one);
}

/** The fastest by a measure of PyTorch's forms in the same precision. */
export function bestRival(
  { rivals }: NetworkMeasurement,
  measure: RivalMeasure,
  precision: Precision,
): RivalMeasurement | undefined {
  const compared = rivals.filter((one) => FORMS[precision].includes(one.form) && one[measure] !== undefined);
  return compared.sort((a, b) => a[measure]![1] - b[measure]![1])[0];
}

export type RivalMeasure = 'replay' | 'replayCold' | 'toCpu';

export function deviceMilliseconds({ steps }: OwnMeasurement): number {
  return sum(Object.values(steps));
}

/** How many times as fast ours is; nothing where one of the two is missing. */
export interface Speedups {
  /** Our call, all of it, over a replay alone */
  readonly strict: number;
  /** The same with our outputs on the GPU, as a replay's are */
  readonly onGpu?: number;
  /** The same with a cold L2 cache */
  readonly onGpuCold?: number;
  /** Both until the outputs are in CPU memory */
  readonly toCpu: number;
  /** Both on the device alone */
  readonly device: number;
}

export function speedupsOf(one: NetworkMeasurement, precision: Precision): Speedups | undefined {
  const [replay, toCpu] = [bestRival(one, 'replay', precision), bestRival(one, 'toCpu', precision)];
  if (one.ours === undefined || replay === undefined || toCpu === undefined) return undefined;
  const { onGpu, onGpuCold } = one.ours;
  const cold = bestRival(one, 'replayCold', precision)?.replayCold;
  return {
    strict: replay.replay[1] / one.ours.toCpu[1],
    ...(onGpu && { onGpu: replay.replay[1] / onGpu[1] }),
    ...(onGpuCold && cold && { onGpuCold: cold[1] / onGpuCold[1] }),
    toCpu: toCpu.toCpu[1] / one.ours.toCpu[1],
    device: replay.replay[1] / deviceMilliseconds(one.ours),
  };
}

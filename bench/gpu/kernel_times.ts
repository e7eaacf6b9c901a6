/**
 * Times every kernel that the planners of GPU families choose from by a model of time, on the named layers, each judged
 * first: what bench/gpu/calibrate.ts fits their constants to. Writes bench/data/<gpu>-<date>-kernels.json.
 *
 *     npx ts-node bench/gpu/kernel_times.ts [--batch 1] [--group pointwise] [--layer conv1] [--family pointwise]
 *         [--device cuda] [--out FOLDER]
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import type { Device, GpuInfo } from 'warpconv';

import type { NativePlan } from '../../lib/addon';
import { holdContest, openContestPlan, TOLERANCES, type ContestResult } from '../../lib/conv2d/contest';
import { problemOf, selectLayers, type GpuExtents, type GpuLayer } from './layers';
import { findGpu } from './machine';
import { formatJson } from '../json';
import { readBatch } from '../options';
import { Progress } from '../progress';
import { DATA, slugOf, writeText } from '../results';
import { significant } from '../statistics';
import { versionNow } from '../version';

type GpuDevice = Exclude<Device, 'cpu'>;

export interface KernelTime {
  readonly algorithm: string;
  readonly variant: string;
  /** What the planner gave it for the layer, by the names of the family; absent where the variant says all of it */
  readonly tiles?: Readonly<Record<string, number>>;
  /** Of one call, the median */
  readonly milliseconds: number;
}

export interface LayerTimes {
  readonly name: string;
  readonly batch: number;
  readonly extents: GpuExtents;
  readonly kernels: readonly KernelTime[];
}

export interface KernelTimes {
  readonly date: string;
  readonly gpu: GpuInfo;
  readonly version: string;
  readonly layers: readonly LayerTimes[];
}

/** Families whose planners choose among variants by a model of time */
const FAMILIES = ['pointwise', 'im2win', 'halo', 'stem'];
/** Whose variants are whole kernels */
const SAID_BY_VARIANT = 'pointwise';
/** A line for each field of a layer */
const DEPTH = 3;

/** What a planner considers. */
export type Kernel = Omit<KernelTime, 'milliseconds'>;

/** What planners consider for a problem. */
function kernelsOf(plan: NativePlan, families: readonly string[]): Kernel[] {
  return plan
    .candidates()
    .filter(({ algorithm }) => families.includes(algorithm))
    .flatMap(({ algorithm, considered = [] }) =>
      considered
        .filter(({ tiles }) => Object.keys(tiles).length > 0)
        .map(({ name, tiles }) => ({
          algorithm,
          variant: name,
          ...(algorithm !== SAID_BY_VARIANT && { tiles }),
        })),
    );
}

type RightResult = Extract<ContestResult, { failure?: undefined }>;

const isRight = (result: ContestResult): result is RightResult =>
  result.failure === undefined && result.maxRelativeError <= TOLERANCES.fp32;

/** Of each kernel whose result is right, and a sentence of each other one. */
export function timesOf(
  kernels: readonly Kernel[],
  results: readonly ContestResult[],
): { readonly times: readonly KernelTime[]; readonly complaints: readonly string[] } {
  const times: KernelTime[] = [];
  const complaints: string[] = [];
  for (const result of results) {
    const kernel = kernels[result.entry]!;
    if (isRight(result)) times.push({ ...kernel, milliseconds: significant(result.milliseconds.median) });
    else complaints.push(`${kernel.algorithm} ${kernel.variant}: ${result.failure?.message ?? 'is wrong'}`);
  }
  return { times, complaints };
}

/** Slower kernels say nothing of a choice, and are most of them. */
export const LONGEST_OF_FASTEST = 2;

/** The kernels of each family whose time is at most LONGEST_OF_FASTEST times that of its fastest. */
export function nearFastest(times: readonly KernelTime[]): KernelTime[] {
  const fastest = new Map<string, number>();
  for (const { algorithm, milliseconds } of times)
    fastest.set(algorithm, Math.min(milliseconds, fastest.get(algorithm) ?? Infinity));
  return times.filter(
    ({ algorithm, milliseconds }) => milliseconds <= LONGEST_OF_FASTEST * fastest.get(algorithm)!,
  );
}

async function timeLayer(
  layer: GpuLayer,
  device: GpuDevice,
  families: readonly string[],
): Promise<LayerTimes> {
  const { name, batch, extents } = layer;
  const plan = await openContestPlan(problemOf(layer), device);
  try {
    const kernels = kernelsOf(plan, families);
    const entries = kernels.map(
      ({ algorithm, variant }) => ({ library: 'warpconv', algorithm, variant }) as const,
    );
    const { results } = await holdContest(plan, { entries, rounds: 7 });
    const { times, complaints } = timesOf(kernels, results);
    for (const complaint of complaints) {
      console.error(`${name}, batch ${batch}, ${complaint}`);
      process.exitCode = 1;
    }
    return { name, batch, extents, kernels: nearFastest(times) };
  } finally {
    plan.dispose();
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      device: { type: 'string', default: 'cuda' },
      batch: { type: 'string', multiple: true, default: ['1'] },
      group: { type: 'string', multiple: true, default: ['mec12', 'resnet', 'pointwise'] },
      layer: { type: 'string', multiple: true, default: [] },
      family: { type: 'string', multiple: true, default: FAMILIES },
      out: { type: 'string', default: DATA },
    },
  });
  const unknown = values.family.find((family) => !FAMILIES.includes(family));
  if (unknown !== undefined) throw new Error(`--family takes ${FAMILIES.join(', ')}, not '${unknown}'`);
  const device = values.device as GpuDevice;
  const gpu = findGpu(device);
  const selected = selectLayers({
    groups: values.group,
    names: values.layer,
    batches: values.batch.map(readBatch),
  });
  const layers: LayerTimes[] = [];
  const progress = new Progress('kernels', selected.length, 'layers');
  for (const layer of selected) {
    progress.show(layers.length);
    layers.push(await timeLayer(layer, device, values.family));
  }
  progress.show(selected.length);
  const date = new Date().toISOString().slice(0, 10);
  const result: KernelTimes = { date, gpu, version: versionNow(), layers };
  writeText(`${slugOf(gpu.name!)}-${date}-kernels.json`, formatJson(result, DEPTH), path.resolve(values.out));
}

if (require.main === module) void main();

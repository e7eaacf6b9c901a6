/**
 * What each family of pointwise kernels is worth: how much longer the planner's choice takes when the family is left out,
 * by stored times of single kernels and by what the planner predicts of them. Takes a few seconds once the native
 * programs are built, and no GPU. Writes bench/results/<gpu>-<date>-kernel-families.json and .md, with the date of the
 * times.
 *
 *     npx ts-node bench/gpu/kernel_families.ts --times bench/data/NAME-kernels.json
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { linesOf, readTimes } from './calibrate';
import { ROOT, run } from '../command';
import { loadGroups } from './layers';
import { NONE } from './report';
import { LONGEST_OF_FASTEST, type LayerTimes } from './kernel_times';
import { buildNativePrograms, CALIBRATE } from '../native_programs';
import { tableOf } from '../tables';
import { gpuFileName, writeJson, writeText } from '../results';
import { geometricMean } from '../statistics';
import { versionNow } from '../version';

const ALGORITHM = 'pointwise';
/** One of the algorithm's models; CALIBRATE predicts all of its kernels by any. */
const KERNELS = 'pointwise-fma';

/** In the order of their rows in the report; familyOf refuses others. */
const FAMILIES = [
  'fma',
  'tensor',
  'stream',
  'stream-tensor',
  'warpgroup',
  'rows',
  'rows-tf32',
  'rows-bf16',
] as const;
type Family = (typeof FAMILIES)[number];

/** A mean over fewer layers says little of a family. */
const LEAST_LAYERS = 10;

interface TimedKernel {
  readonly variant: string;
  readonly milliseconds: number;
}

/** A kernel that was timed, and that the planner has. */
export interface Candidate extends TimedKernel {
  /** Milliseconds */
  readonly predicted: number;
}

interface LayerName {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
}

export interface CandidateLayer extends LayerName {
  readonly kernels: readonly Candidate[];
}

/** What the planner chooses for a layer. */
export interface LayerChoice extends LayerName {
  readonly fastest: TimedKernel;
  readonly chosen: TimedKernel;
  /** The choice without the family of `chosen`; absent where only that family has kernels */
  readonly instead?: TimedKernel;
}

export interface KernelFamiliesResult {
  readonly date: string;
  readonly gpu: string;
  /** Of the predictions, and of the times */
  readonly version: string;
  readonly timesVersion: string;
  /** The file of the times, from the root of the package */
  readonly times: string;
  readonly layers: readonly LayerChoice[];
}

/** @throws Error for a variant of no known family */
export function familyOf(variant: string): Family {
  const name = /^\d/.test(variant) ? 'fma' : variant.replace(/-\d.*/, '');
  const family = FAMILIES.find((one) => one === name);
  if (family === undefined)
    throw new Error(`'${variant}' is of no family in FAMILIES of bench/gpu/kernel_families.ts`);
  return family;
}

/** A kernel of the published scheme (cuda/pointwise/dynamic), which is not in question here. */
const isPublished = (variant: string) => /^L\d/.test(variant);

/** Of every named layer */
function groupsByLayer(): Map<string, string> {
  return new Map([...loadGroups()].flatMap(([group, { rows }]) => rows.map(([name]) => [name, group])));
}

/**
 * `predictions`: milliseconds of each pointwise kernel of the layers, in their order; - where the planner has it no more.
 *
 * @throws Error for a layer of no group
 */
export function candidatesOf(
  layers: readonly LayerTimes[],
  predictions: readonly string[],
): CandidateLayer[] {
  const groups = groupsByLayer();
  const groupOf = (name: string) => {
    const group = groups.get(name);
    if (group === undefined) throw new Error(`no group of bench/layers has a layer '${name}'`);
    return group;
  };
  const remaining = predictions.values();
  return layers
    .map(({ name, batch, kernels }) => ({
      group: groupOf(name),
      name,
      batch,
      kernels: kernels
        .filter(({ algorithm }) => algorithm === ALGORITHM)
        .map(({ variant, milliseconds }) => ({
          variant,
          milliseconds,
          predicted: Number(remaining.next().value),
        }))
        .filter(({ variant, predicted }) => !isPublished(variant) && !Number.isNaN(predicted)),
    }))
    .filter(({ kernels }) => kernels.length > 0);
}

/** The one with the least; the first of equal ones. */
function leastBy<T>(values: readonly T[], measure: (value: T) => number): T | undefined {
  return values.reduce<T | undefined>(
    (least, value) => (least === undefined || measure(value) < measure(least) ? value : least),
    undefined,
  );
}

const withoutPrediction = ({ variant, milliseconds }: Candidate): TimedKernel => ({ variant, milliseconds });

export function choiceOf({ kernels, ...layer }: CandidateLayer): LayerChoice {
  const choose = (some: readonly Candidate[]) => leastBy(some, ({ predicted }) => predicted);
  const fastest = leastBy(kernels, ({ milliseconds }) => milliseconds)!;
  const chosen = choose(kernels)!;
  const family = familyOf(chosen.variant);
  const instead = choose(kernels.filter(({ variant }) => familyOf(variant) !== family));
  return {
    ...layer,
    fastest: withoutPrediction(fastest),
    chosen: withoutPrediction(chosen),
    ...(instead && { instead: withoutPrediction(instead) }),
  };
}

/** Time of the choice without a family over that with all; nothing where no other family has a kernel. */
export function ratioWithout(family: string, { chosen, instead }: LayerChoice): number | undefined {
  if (familyOf(chosen.variant) !== family) return 1;
  return instead && instead.milliseconds / chosen.milliseconds;
}

const ratioToFastest = ({ chosen, fastest }: LayerChoice) => chosen.milliseconds / fastest.milliseconds;

/** How much longer in per cent, on the geometric mean. */
export function meanLonger(ratios: readonly (number | undefined)[]): string {
  const known = ratios.filter((ratio) => ratio !== undefined);
  if (known.length < ratios.length) return NONE;
  const percent = (100 * (geometricMean(known) - 1)).toFixed(1);
  return percent === '-0.0' ? '0.0' : percent.replace('-', '−');
}

type Ratio = (layer: LayerChoice) => number | undefined;

/** With its factor; layers without a ratio are not compared. */
export function worstLayer(layers: readonly LayerChoice[], ratioOf: Ratio): string {
  const worst = leastBy(layers, (layer) => -(ratioOf(layer) ?? 0))!;
  const factor = (ratioOf(worst) ?? 0).toFixed(2);
  return Number(factor) > 1 ? `${worst.name} at ${worst.batch}: ${factor} ×` : 'none';
}

interface Column {
  readonly group: string;
  readonly batch: number;
  readonly layers: readonly LayerChoice[];
}

/** By group and batch, in the order of the layers. */
function columnsOf(layers: readonly LayerChoice[]): Column[] {
  const columns = new Map<string, LayerChoice[]>();
  for (const layer of layers) {
    const key = `${layer.group}, ${layer.batch}`;
    columns.set(key, [...(columns.get(key) ?? []), layer]);
  }
  return [...columns.values()].map((some) => ({
    group: some[0]!.group,
    batch: some[0]!.batch,
    layers: some,
  }));
}

function familyRow(family: Family, columns: readonly Column[]): string[] {
  const ratioOf: Ratio = (layer) => ratioWithout(family, layer);
  const layers = columns.flatMap((column) => column.layers);
  const alone = layers.filter((layer) => ratioOf(layer) === undefined).length;
  const worst = worstLayer(layers, ratioOf);
  return [
    `\`${family}\``,
    ...columns.map((column) => meanLonger(column.layers.map(ratioOf))),
    alone > 0 ? `no other family on ${alone} of ${layers.length}` : worst,
  ];
}

function choiceRow({ group, batch, layers }: Column): string[] {
  const mean = meanLonger(layers.map(ratioToFastest));
  return [group, String(batch), String(layers.length), mean, worstLayer(layers, ratioToFastest)];
}

export function renderKernelFamilies(result: KernelFamiliesResult): string {
  const { date, gpu, version, timesVersion, times, layers } = result;
  const columns = columnsOf(layers);
  const large = columns.filter((column) => column.layers.length >= LEAST_LAYERS);
  const small = new Set(columns.filter((column) => !large.includes(column)).map(({ group }) => group));
  const leftOut =
    small.size === 0
      ? ''
      : ` Groups of fewer than ${LEAST_LAYERS} layers are left out: ${[...small].join(', ')}.`;
  return [
    `# What families of pointwise kernels are worth on ${gpu}, ${date}`,
    '',
    `Predictions of warpconv ${version}, times of ${timesVersion}. By \`npx ts-node bench/gpu/kernel_families.ts --times ${times}\`.`,
    '',
    'The planner chooses the kernel with the least predicted time, here among those that the file of times has: kernels ' +
      `within ${LONGEST_OF_FASTEST} × of a layer's fastest. Kernels of the published scheme ` +
      'do not take part, nor do those that the planner no longer has.',
    '',
    '## Without a family',
    '',
    'How much longer the choice takes without the family than with all, in per cent: geometric means over the layers of ' +
      'a group at a batch. A dash says that no other family has a kernel in the file for some of the layers. The worst ' +
      `layer stands with its factor.${leftOut}`,
    '',
    ...tableOf(
      ['left out', ...large.map(({ group, batch }) => `${group}, ${batch}`), 'worst layer'],
      FAMILIES.map((family) => familyRow(family, large)),
    ),
    '',
    '## Beside the fastest kernel',
    '',
    'How much longer the choice takes than the fastest kernel, in per cent: geometric means.',
    '',
    ...tableOf(['group', 'batch', 'layers', 'longer, %', 'worst layer'], columns.map(choiceRow)),
    '',
  ].join('\n');
}

/** Milliseconds of each line, or -. */
function predict(gpu: string, lines: readonly string[]): string[] {
  if (lines.length === 0) throw new Error('the file has no times of pointwise kernels');
  const input = lines.map((line) => `${line}\n`).join('');
  const predictions = run(CALIBRATE, [gpu, KERNELS, '--predict'], { input }).trim().split('\n');
  if (predictions.every((one) => one === '-'))
    throw new Error('the planner has none of the kernels of the file');
  return predictions;
}

function main(): void {
  const { values } = parseArgs({ options: { times: { type: 'string' } } });
  if (values.times === undefined)
    throw new Error('--times is needed: see the top of bench/gpu/kernel_families.ts');
  const { date, gpu, version, layers } = readTimes(values.times);
  buildNativePrograms();
  const candidates = candidatesOf(layers, predict(gpu.name!, linesOf(layers, ALGORITHM)));
  const result: KernelFamiliesResult = {
    date,
    gpu: gpu.name!,
    version: versionNow(),
    timesVersion: version,
    times: path.relative(ROOT, path.resolve(values.times)),
    layers: candidates.map(choiceOf),
  };
  const name = gpuFileName(gpu.name!, date, false, 'kernel-families');
  writeJson(name, result);
  writeText(`${name}.md`, renderKernelFamilies(result));
}

if (require.main === module) main();

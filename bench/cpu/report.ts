/** From measurements to the Markdown report. */
import { describeLayer, isDepthwise, isPointwise, QUICK_STEP, shapesOf, type Layer } from '../layers';
import type { PackingResult } from './engine_results';
import { percent } from '../tables';
import { packingShare, renderEngine, type EngineResults } from './report_engine';
import { drawnBy, softwareOf, type Circumstances } from '../results';
import { geometricMean, sum } from '../statistics';

export interface LayerResult extends Layer {
  /** Milliseconds by contender */
  readonly ms: Readonly<Record<string, number>>;
}

export interface ThreadsResult {
  readonly threads: number;
  /** Of one core; null where the addon of the rivals, which measures it, is missing */
  readonly fmaPeakGflops: number | null;
  /** Of the rivals, by library; absent in older results */
  readonly versions?: Readonly<Record<string, string>>;
  readonly layers: readonly LayerResult[];
}

export interface BenchResult extends Circumstances {
  readonly runs: readonly ThreadsResult[];
}

/** Whether what a file holds is of the CPU bench, and not of a script beside it or of a GPU. */
export function isCpuResult(stored: object): stored is BenchResult {
  return 'cpu' in stored && 'runs' in stored;
}

/**
 * Each rival, and what of ours it is compared with. onnxruntime-node computes on the JavaScript thread, so the like of its
 * `run()` is our `runSync`; our `run()`, which leaves that thread free, is compared with it too.
 */
export const PAIRS = [
  { title: 'im2col + OpenBLAS', rival: 'im2col+OpenBLAS', ours: 'warpconv' },
  { title: 'oneDNN', rival: 'oneDNN', ours: 'warpconv' },
  { title: 'onnxruntime-node', rival: 'onnxruntime-node, own output', ours: 'warpconv' },
  {
    title: 'onnxruntime-node, by our run()',
    rival: 'onnxruntime-node, own output',
    ours: 'warpconv run(), own output',
  },
  {
    title: 'onnxruntime-node, by our run(), both into new outputs',
    rival: 'onnxruntime-node',
    ours: 'warpconv run()',
  },
] as const;

interface Selection {
  readonly title: string;
  readonly takes: (layer: Layer) => boolean;
}

const SELECTIONS: readonly Selection[] = [
  { title: 'the 393 layers', takes: ({ group }) => group === 'sconv-393' },
  { title: '– pointwise of them', takes: ({ group, row }) => group === 'sconv-393' && isPointwise(row) },
  { title: 'mobile networks', takes: ({ group }) => group === 'mobile' },
  { title: '– depthwise of them', takes: ({ group, row }) => group === 'mobile' && isDepthwise(row) },
];

/** Speed-ups over a rival, one for each time that a model has the layer. */
export function speedups(layers: readonly LayerResult[], rival: string, ours: string): number[] {
  return layers
    .filter(({ ms }) => rival in ms)
    .flatMap(({ ms, count }) => Array<number>(count).fill(ms[rival]! / ms[ours]!));
}

const NONE = '–';

/** How many times as fast ours is on all of them together; nothing where a layer lacks one of the two. */
function ratioOf(layers: readonly LayerResult[], rival: string, ours: string): number | undefined {
  const isWhole = layers.length > 0 && layers.every(({ ms }) => rival in ms && ours in ms);
  return isWhole ? milliseconds(layers, rival) / milliseconds(layers, ours) : undefined;
}

function compare(layers: readonly LayerResult[], rival: string, ours: string): string {
  const all = speedups(layers, rival, ours);
  if (all.length === 0) return NONE;
  const won = all.filter((speedup) => speedup > 1).length / all.length;
  return `${geometricMean(all).toFixed(2)} ×, ${(100 * won).toFixed(0)} % won`;
}

function gflops(layers: readonly LayerResult[], contender: string): number {
  const flop = sum(layers.map(({ row, count }) => 2 * shapesOf(row).multiplyAdds * count));
  return flop / milliseconds(layers, contender) / 1e6;
}

function milliseconds(layers: readonly LayerResult[], contender: string): number {
  return sum(layers.map(({ ms, count }) => ms[contender]! * count));
}

/** What sconv spends on packing, where that was measured. */
function packingCell(selection: Selection, packing: PackingResult | undefined): string {
  const layers = packing?.layers.filter(selection.takes) ?? [];
  return layers.length === 0 ? NONE : percent(packingShare(layers, 'sconv'));
}

function tableRow(selection: Selection, run: ThreadsResult, packing: PackingResult | undefined): string[] {
  const layers = run.layers.filter(selection.takes);
  if (layers.length === 0) return [];
  const rate = gflops(layers, 'warpconv');
  const peak = run.fmaPeakGflops;
  const share = peak === null ? NONE : ((100 * rate) / (peak * run.threads)).toFixed(0);
  const cells = [
    selection.title,
    `${rate.toFixed(0)} GFLOP/s, ${share} % of peak`,
    packingCell(selection, packing),
    ...PAIRS.map(({ rival, ours }) => compare(layers, rival, ours)),
  ];
  return [`| ${cells.join(' | ')} |`];
}

function threadsOf({ threads }: ThreadsResult): string {
  return `${threads} thread${threads === 1 ? '' : 's'}`;
}

/** Some columns, and one for each pair. */
function headOf(first: readonly string[]): string[] {
  const titles = [...first, ...PAIRS.map(({ title }) => `over ${title}`)];
  return [`| ${titles.join(' | ')} |`, `|${titles.map(() => ' --- |').join('')}`];
}

function table(run: ThreadsResult, packing: PackingResult | undefined): string {
  return [
    `### ${threadsOf(run)}`,
    '',
    `FMA peak of one core, in the same run: ${run.fmaPeakGflops?.toFixed(0) ?? NONE} GFLOP/s.`,
    '',
    ...headOf(['layers', 'ours', 'of it packing']),
    ...SELECTIONS.flatMap((selection) => tableRow(selection, run, packing)),
    '',
  ].join('\n');
}

/** All convolutions of a model, in the order of the layers' table. */
function modelsOf({ layers }: ThreadsResult): (readonly [string, readonly LayerResult[]])[] {
  const names = new Set(layers.map(({ model }) => model));
  return [...names].map((name) => [name, layers.filter(({ model }) => model === name)]);
}

/** What a model gains by its convolutions: Table 2 of the SConv paper, where the rest of the model is the same code. */
export function renderModels(run: ThreadsResult): string {
  const rows = modelsOf(run).map(([name, layers]) => {
    const ratios = PAIRS.map(({ rival, ours }) => ratioOf(layers, rival, ours));
    const cells = ratios.map((ratio) => (ratio === undefined ? NONE : `${ratio.toFixed(2)} ×`));
    return `| ${name} | ${milliseconds(layers, 'warpconv').toFixed(1)} | ${cells.join(' | ')} |`;
  });
  return [
    `### All convolutions of a model together, ${threadsOf(run)}`,
    '',
    ...headOf(['model', 'ours, ms']),
    ...rows,
    '',
  ].join('\n');
}

function losses(run: ThreadsResult): string {
  const ratios = (layer: LayerResult) => PAIRS.map(({ rival, ours }) => ratioOf([layer], rival, ours));
  const isLost = (ratio: number | undefined) => ratio !== undefined && ratio < 1;
  const lost = run.layers.filter((layer) => ratios(layer).some(isLost));
  const rows = lost.map((layer) => {
    const cells = ratios(layer).map((ratio) => {
      const text = ratio?.toFixed(2) ?? NONE;
      return isLost(ratio) ? `**${text}**` : text;
    });
    return `| ${describeLayer(layer)} | ${layer.ms.warpconv!.toFixed(3)} | ${cells.join(' | ')} |`;
  });
  return [
    `### Layers lost to a rival with ${threadsOf(run)}`,
    '',
    ...headOf(['layer', 'ours, ms']),
    ...rows,
    '',
  ].join('\n');
}

function scaling(result: BenchResult): string {
  const [one, two] = [1, 2].map((count) => result.runs.find(({ threads }) => threads === count));
  if (one === undefined || two === undefined) return '';
  const layers = (run: ThreadsResult) => run.layers.filter(SELECTIONS[0]!.takes);
  if (layers(one).length === 0) return '';
  const ratio = gflops(layers(two), 'warpconv') / gflops(layers(one), 'warpconv');
  return `Two threads over one, all 393 layers together: ${ratio.toFixed(2)} ×.\n`;
}

function rivalsOf({ runs }: BenchResult): string[] {
  const versions = Object.entries(runs[0]?.versions ?? {}).map(([library, version]) =>
    version.startsWith(library) ? version : `${library} ${version}`,
  );
  return versions.length === 0 ? [] : ['', `Rivals: ${versions.join('; ')}.`];
}

/** What the report begins with: a table for each number of threads. */
export function renderSpeedups(result: BenchResult, packing: PackingResult | undefined): string[] {
  return [...result.runs.map((run) => table(run, run.threads === 1 ? packing : undefined)), scaling(result)];
}

export function renderReport(result: BenchResult, name: string, engine: EngineResults): string {
  const { cpu, processor, date, quick } = result;
  return [
    `# ${cpu.name}${processor ? ` (${processor})` : ''}, ${date}`,
    '',
    `${cpu.isa}, ${cpu.cores} processors; ${softwareOf(result)}; one image per layer${quick ? `; quick run, with one layer in ${QUICK_STEP} of each table's` : ''}. ` +
      'Speed-ups are geometric means over every layer of every model; `runSync`, and `run()` where it says so, into an ' +
      'output that the caller owns unless it says otherwise.',
    ...rivalsOf(result),
    '',
    ...renderSpeedups(result, engine.packing),
    ...result.runs.map(renderModels),
    ...renderEngine(engine),
    ...result.runs.map(losses),
    drawnBy(name),
    '',
  ].join('\n');
}

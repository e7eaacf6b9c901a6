/** From the GPU bench's measurements to the Markdown report: a pure function of what is stored. */
import {
  cpuGoals,
  gpuGoals,
  meanSpeedup,
  autoChoices,
  pointwiseChoices,
  CLOSE,
  type Choice,
  type Goal,
} from './goals';
import type { Precision } from '../../lib/conv2d/names';
import { TOLERANCES } from '../../lib/conv2d/contest';
import { formOf, PLAIN, workOf, type Form } from './layers';
import {
  auto,
  bestCudnn,
  bestFamily,
  bestRival,
  bestVariant,
  coldSpeedup,
  cublas,
  describeContestant,
  findFailures,
  findRivalTroubles,
  floorOf,
  groupLayers,
  isWithinOwnTolerance,
  median,
  own,
  speedup,
  teraflops,
  terabytes,
  REGRESSION_THRESHOLD,
  type GpuBenchResult,
  type LayerGroup,
  type LayerResult,
  type MeasuredEntry,
  type Quartiles,
  type Regression,
  type RunInfo,
} from './result';
import { drawnBy } from '../results';
import { requestsPerOutput, type LoadRequests } from './load_requests';
import { renderSpeedups, type BenchResult } from '../cpu/report';
import { percent, tableOf } from '../tables';
import { geometricMean, median as medianOf } from '../statistics';

/** A result of the CPU bench, for the report to cover it, too. */
export interface CpuPart {
  readonly name: string;
  readonly result: BenchResult;
}

export const NONE = '–';
const microseconds = (milliseconds: number) => {
  const value = milliseconds * 1e3;
  return value.toFixed(value < 100 ? 2 : value < 1000 ? 1 : 0);
};
const times = (ratio: number | undefined) => (ratio === undefined ? NONE : `${ratio.toFixed(2)} ×`);
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(bytes >= 1e7 || bytes === 0 ? 0 : 1);

/** Losses are bold. */
export const versus = (ratio: number | undefined) =>
  ratio === undefined ? NONE : ratio < 1 ? `**${ratio.toFixed(2)}**` : ratio.toFixed(2);

const spread = ([low, middle, high]: Quartiles) =>
  `${microseconds(middle)} (${microseconds(low)} – ${microseconds(high)})`;

export function renderGpuReport(result: GpuBenchResult, name: string, cpu?: CpuPart): string {
  const groups = groupLayers(result.layers);
  const { precision } = formIn(result);
  const rivals = rivalsIn(precision);
  const tables = [
    ...heading(result),
    ...goals('Goals', gpuGoals(result.layers)),
    ...summary(groups, rivals),
    ...groups.flatMap((group) => groupSection(group, result.runs, rivals)),
  ];
  if (precision !== 'fp32') {
    return [...tables, ...errors(groups), ...selection(result.layers), ...failures(result.layers)].join('\n');
  }
  return [
    ...tables,
    ...figure2(result.layers),
    ...memory(result.layers),
    ...ablation(result.layers),
    ...loadRequests(result.loadRequests),
    ...shuffleVariants(groups),
    ...planner(result.layers),
    ...selection(result.layers),
    ...failures(result.layers),
    ...cpuSection(cpu),
    drawnBy(name),
    '',
  ].join('\n');
}

/** Earlier runs had fewer ways of each rival, and did not count them. */
function rivalsOf(layers: readonly LayerResult[]): string {
  const isWide = layers.some(({ entries }) => entries.some((one) => 'proposed' in one));
  const [engines, products] = isWide
    ? ['all engines that its heuristics propose', 'cuBLAS or any that cuBLASLt proposes']
    : ['the first engines of its heuristics', 'cuBLAS'];
  return (
    'of cuDNN without TF32, in NCHW and NHWC (its tensors being in NHWC already), by its own search over all algorithms ' +
    `and by ${engines}, and of im2col with a product by ${products}`
  );
}

/** All layers of a file have one. */
const formIn = ({ layers: [first] }: GpuBenchResult): Form => (first === undefined ? PLAIN : formOf(first));

function heading(result: GpuBenchResult): string[] {
  const { gpu, date, runs, layers } = result;
  const { title, what, rivals, floor } = textsOf(formIn(result), layers);
  return [
    `# ${gpu.name}${title}, ${date}`,
    '',
    `${gpu.multiprocessors} multiprocessors, compute capability ${gpu.computeCapability}, driver for CUDA ${gpu.driver}. ` +
      `${what} of |input| ∗ |weight|, judged by a double-precision oracle before anything is ` +
      'timed. All contestants of a layer share one set of random tensors and take turns in one process.',
    '',
    'A time is the median of up to eleven samples, with quartiles. A sample is a CUDA graph of up to twenty calls, about a ' +
      'millisecond long, on one set of buffers. The same graph runs once before it, untimed, so the L2 cache is warm. ' +
      'The GPU starts a sample once all of it has been launched. Cold times are single calls after the L2 cache was ' +
      'overwritten; they include the overhead of events and of a graph, and calls of more than a millisecond have none. ' +
      `The best rival is the fastest ${rivals} ${floor} Losses are bold; a † marks a rival that rounds more than ours may.`,
    '',
    // Of an earlier run of the day nothing may be left.
    ...runs.flatMap((run, index) =>
      layers.some((layer) => layer.run === index) ? runFacts(run, index) : [],
    ),
    '',
  ];
}

/** What the heading says of a form. */
function textsOf({ precision, layout }: Form, layers: readonly LayerResult[]) {
  if (precision === 'fp32') {
    return {
      title: layout === 'nchw' ? '' : `, float32 in ${layout.toUpperCase()}`,
      what: `float32 in ${layout.toUpperCase()}, accurate to 4·10⁻⁶`,
      rivals: `${rivalsOf(layers)}. TF32 and FP16 are for information.`,
      floor:
        'The floor is the longest of FLOPs / FMA peak, bytes / copy ' +
        'rate (each tensor moved once) and 0.9 µs: that of ordinary multiply-adds. Above 100 % of it a layer gets on tensor ' +
        'cores, or by a few per cent where it reads more than it writes, a copy doing both alike.',
    };
  }
  const name = precision.toUpperCase();
  const tensors = precision === 'tf32' ? 'float32' : precision === 'fp16' ? 'float16' : 'bfloat16';
  const im2col = precision === 'tf32' ? ', and of im2col in NCHW with such a product' : '';
  return {
    title: `, ${name}`,
    what:
      `Products of ${name} and sums of float32, tensors of ${tensors}, ours in ${layout.toUpperCase()}, accurate to ` +
      TOLERANCES[precision].toExponential(1),
    rivals:
      `of cuDNN in ${name} with sums of float32, in NCHW and NHWC, whatever ours has, by its own search over all algorithms ` +
      'and by all engines that its heuristics propose, and of the products that cuBLASLt proposes for 1 × 1 filters, stride ' +
      `1, in both layouts${im2col}. Tensors and filters lie as each wants them before anything is timed.`,
    floor:
      'The floor is the longer of bytes / copy rate (each tensor moved once) and 0.9 µs; a peak of tensor cores is not ' +
      'measured. A layer may pass it by a few per cent where it reads more than it writes, a copy doing both alike.',
  };
}

function runFacts(run: RunInfo, index: number): string[] {
  const { ceilings, started, quick, version, node, cudnn, cublas, clocks } = run;
  const libraries = `cuDNN ${cudnn || 'not found'}, cuBLAS ${cublas || 'not found'}`;
  const peaks =
    ceilings === undefined
      ? 'ceilings not measured'
      : `FMA peak ${(ceilings.flopsPerSecond / 1e12).toFixed(1)} TFLOP/s, copy rate ` +
        `${(ceilings.bytesPerSecond / 1e12).toFixed(2)} TB/s, events and launch ${microseconds(ceilings.eventMilliseconds)} µs`;
  return [
    `- Run ${index + 1}, ${started}${quick ? ', quick' : ''}: ${peaks}; ${libraries}; warpconv ${version}, Node.js ${node}.`,
    ...clocks.map(
      ({ when, facts }) =>
        `  - ${when}: ${Object.entries(facts)
          .map(([fact, value]) => `${fact} ${value}`)
          .join(', ')}`,
    ),
  ];
}

export function goals(title: string, all: readonly Goal[]): string[] {
  const rows = all.map(({ what, goal, measured, met }) => [
    what,
    goal,
    measured || 'not measured',
    met === undefined ? NONE : met ? 'yes' : '**no**',
  ]);
  return [`## ${title}`, '', ...tableOf(['what', 'goal', 'measured', 'met'], rows), ''];
}

const wonOf = (layers: readonly LayerResult[]) => {
  const all = layers.map(speedup).filter((one) => one !== undefined);
  return `${all.filter((one) => one >= 1).length} of ${all.length}`;
};

function meanOf(values: readonly (number | undefined)[]): number | undefined {
  const present = values.filter((one) => one !== undefined);
  return present.length === 0 ? undefined : geometricMean(present);
}

/** Its time over that of `auto`. */
const over = (layer: LayerResult, rival: MeasuredEntry | undefined) => {
  const ours = auto(layer);
  return ours && rival && median(rival) / median(ours);
};

type Pick = (layer: LayerResult) => MeasuredEntry | undefined;

/** Rivals that have columns: in the first table all, in those of layers some. */
interface RivalColumn {
  readonly summary: string;
  readonly layers?: string;
  readonly pick: Pick;
}

function rivalsIn(precision: Precision): RivalColumn[] {
  const nchw: Pick = (layer) => bestCudnn(layer, precision, 'nchw');
  const nhwc: Pick = (layer) => bestCudnn(layer, precision, 'nhwc');
  if (precision === 'fp32') {
    return [
      { summary: 'over cuDNN NCHW', pick: nchw },
      { summary: 'over cuDNN NHWC', pick: nhwc },
      { summary: 'over im2col + cuBLAS', layers: 'im2col + cuBLAS µs', pick: cublas },
      { summary: '(over its TF32)', layers: 'TF32 µs', pick: (layer) => bestCudnn(layer, 'tf32') },
      { summary: '(over its FP16)', layers: 'FP16 µs', pick: (layer) => bestCudnn(layer, 'fp16') },
    ];
  }
  return [
    { summary: 'over cuDNN NCHW', layers: 'cuDNN NCHW µs', pick: nchw },
    { summary: 'over cuDNN NHWC', layers: 'cuDNN NHWC µs', pick: nhwc },
    { summary: 'over cuBLASLt', layers: 'cuBLASLt µs', pick: cublas },
  ];
}

function summary(groups: readonly LayerGroup[], rivals: readonly RivalColumn[]): string[] {
  const rows = groups.map(({ group, batch, layers }) => [
    `${group}, batch ${batch}`,
    times(meanSpeedup(layers)),
    wonOf(layers),
    times(meanOf(layers.map(coldSpeedup))),
    ...rivals.map(({ pick }) => times(meanOf(layers.map((layer) => over(layer, pick(layer)))))),
  ]);
  const head = [
    'layers',
    'over the best rival',
    'won',
    'with a cold L2',
    ...rivals.map((one) => one.summary),
  ];
  return ['## Speed-ups, geometric means', '', ...tableOf(head, rows), ''];
}

/** One line for a terminal. */
export function summariseGroup({ group, batch, layers }: LayerGroup): string {
  const mean = meanSpeedup(layers);
  const seconds = layers.reduce((sum, layer) => sum + layer.seconds, 0);
  const verdict =
    mean === undefined ? 'no rival' : `${mean.toFixed(2)} × over the best rival, ${wonOf(layers)} won`;
  return `${group}, batch ${batch}: ${verdict} (${seconds.toFixed(1)} s)`;
}

function groupSection(
  { group, batch, layers }: LayerGroup,
  runs: readonly RunInfo[],
  rivals: readonly RivalColumn[],
): string[] {
  const columns = rivals.filter((one) => one.layers !== undefined);
  const isFloat = layers.every((layer) => formOf(layer).precision === 'fp32');
  const head = [
    'layer',
    'algorithm',
    'µs (quartiles)',
    'cold µs',
    'TFLOP/s',
    'TB/s',
    isFloat ? 'FMA floor / time' : 'floor / time',
    'workspace, MB',
    'error',
    'best rival',
    'its µs',
    'over it',
    'cold',
    'its workspace, MB',
    ...columns.map((one) => one.layers!),
  ];
  return [
    `## ${group}, batch ${batch}: ${times(meanSpeedup(layers))} over the best rival, ${wonOf(layers)} won`,
    '',
    ...tableOf(
      head,
      layers.map((layer) => layerRow(layer, runs[layer.run], columns)),
    ),
    '',
  ];
}

function layerRow(layer: LayerResult, run: RunInfo | undefined, columns: readonly RivalColumn[]): string[] {
  const ours = auto(layer);
  if (ours === undefined) {
    const rest = Array<string>(12 + columns.length).fill(NONE);
    return [layer.name, `failed: ${layer.failure ?? 'see below'}`, ...rest];
  }
  const rival = bestRival(layer);
  const floor = floorOf(layer, run?.ceilings);
  const time = (entry: MeasuredEntry | undefined) =>
    entry === undefined ? NONE : microseconds(median(entry));
  return [
    layer.name,
    describeContestant(ours),
    spread(ours.ms),
    ours.coldMs === undefined ? NONE : microseconds(ours.coldMs[1]),
    teraflops(layer, ours).toFixed(1),
    terabytes(layer, ours).toFixed(2),
    floor === undefined ? NONE : percent(floor / median(ours)),
    megabytes(ours.workspaceBytes),
    ours.maxRelativeError!.toExponential(1),
    rival === undefined ? NONE : `${describeContestant(rival)}${isWithinOwnTolerance(rival) ? '' : ' †'}`,
    time(rival),
    versus(speedup(layer)),
    versus(coldSpeedup(layer)),
    rival === undefined ? NONE : megabytes(rival.workspaceBytes),
    ...columns.map(({ pick }) => time(pick(layer))),
  ];
}

/** How far both sides are off: that of a group's layers which is off most, and the one in the middle. */
function errors(groups: readonly LayerGroup[]): string[] {
  const cells = (entries: readonly (MeasuredEntry | undefined)[]) => {
    const all = entries.flatMap((entry) => entry?.maxRelativeError ?? []);
    if (all.length === 0) return [NONE, NONE];
    return [Math.max(...all), medianOf(all)].map((value) => value.toExponential(1));
  };
  const head = ['layers', 'ours, most', 'median', 'best rival, most', 'median'];
  const rows = groups.map(({ group, batch, layers }) => [
    `${group}, batch ${batch}`,
    ...cells(layers.map(auto)),
    ...cells(layers.map(bestRival)),
  ]);
  return [
    '## Errors',
    '',
    'The largest |output − exact| / (|input| ∗ |weight|) of a layer, whose exact output is the double-precision sum of float32 ' +
      'products that nobody has rounded.',
    '',
    ...tableOf(head, rows),
    '',
  ];
}

/** The paper's twelve layers at its batch size. */
export function paperLayers(layers: readonly LayerResult[]): LayerResult[] {
  return layers.filter(({ group, batch }) => group === 'mec12' && batch === 128);
}

/** Figure 2 of the im2win paper has these beside each other. */
export const FIGURE_2: readonly { title: string; pick: (layer: LayerResult) => MeasuredEntry | undefined }[] =
  [
    { title: 'im2win', pick: (layer) => own(layer, 'im2win') },
    { title: 'im2win, explicit', pick: (layer) => own(layer, 'im2win', 'explicit') },
    { title: 'halo', pick: (layer) => own(layer, 'halo') },
    { title: 'direct', pick: (layer) => own(layer, 'direct') },
    { title: 'im2col + cuBLAS', pick: cublas },
    { title: 'cuDNN NCHW', pick: (layer) => bestCudnn(layer, 'fp32', 'nchw') },
    { title: 'cuDNN NHWC', pick: (layer) => bestCudnn(layer, 'fp32', 'nhwc') },
  ];

function figure2(all: readonly LayerResult[]): string[] {
  const layers = paperLayers(all);
  if (layers.length === 0) return [];
  const rate = (layer: LayerResult, entry: MeasuredEntry | undefined) =>
    entry === undefined ? NONE : teraflops(layer, entry).toFixed(1);
  return [
    '## TFLOP/s of im2win and its rivals (im2win, Figure 2)',
    '',
    'Effective: FLOPs of the definition over time, so that FFT and Winograd may exceed the peak. `im2win` as it chooses ' +
      'itself, from the input; `explicit` is the paper’s kernel over its tensor.',
    '',
    ...tableOf(
      ['layer', ...FIGURE_2.map(({ title }) => title)],
      layers.map((layer) => [layer.name, ...FIGURE_2.map(({ pick }) => rate(layer, pick(layer)))]),
    ),
    '',
  ];
}

/** Figure 3, with im2col as a whole, which needs its matrix of all images at once. */
export const FIGURE_3: readonly { title: string; pick: (layer: LayerResult) => MeasuredEntry | undefined }[] =
  [
    { title: 'direct', pick: (layer) => own(layer, 'direct') },
    { title: 'im2win', pick: (layer) => own(layer, 'im2win') },
    { title: 'im2win, explicit', pick: (layer) => own(layer, 'im2win', 'explicit') },
    { title: 'im2col', pick: (layer) => own(layer, 'im2col') },
    { title: 'im2col + cuBLAS', pick: cublas },
    { title: 'cuDNN NCHW', pick: (layer) => bestCudnn(layer, 'fp32', 'nchw') },
  ];

function memory(all: readonly LayerResult[]): string[] {
  const layers = paperLayers(all);
  if (layers.length === 0) return [];
  const cell = (entry: MeasuredEntry | undefined) =>
    entry === undefined ? NONE : megabytes(entry.workspaceBytes);
  return [
    '## Memory (im2win, Figure 3)',
    '',
    'MB of scratch memory beside the tensors themselves. `im2col` holds the column matrices of the whole batch, im2col + ' +
      'cuBLAS of as many images at a time as take a gigabyte.',
    '',
    ...tableOf(
      ['layer', 'tensors', ...FIGURE_3.map(({ title }) => title)],
      layers.map((layer) => [
        layer.name,
        megabytes(workOf(layer).bytes),
        ...FIGURE_3.map(({ pick }) => cell(pick(layer))),
      ]),
    ),
    '',
  ];
}

/** Figure 4: the paper's kernel, and what it is without each of its techniques. */
export const FIGURE_4 = [
  'explicit',
  'explicit-no-prefetch',
  'explicit-no-vector',
  'explicit-no-microkernel',
  'basic',
  'implicit',
] as const;

function ablation(all: readonly LayerResult[]): string[] {
  const layers = paperLayers(all).filter((layer) => own(layer, 'im2win', 'explicit') !== undefined);
  if (layers.length === 0) return [];
  const rate = (layer: LayerResult, variant: string) => {
    const entry = own(layer, 'im2win', variant);
    return entry === undefined ? NONE : teraflops(layer, entry).toFixed(1);
  };
  const share = (variant: string) =>
    meanOf(
      layers.map((layer) => {
        const [whole, part] = [own(layer, 'im2win', 'explicit'), own(layer, 'im2win', variant)];
        return whole && part && median(whole) / median(part);
      }),
    );
  return [
    '## What each technique of im2win brings (im2win, Figure 4)',
    '',
    'TFLOP/s of the explicit kernel as it is, without prefetch and double buffering, without 16-byte loads, without the ' +
      'micro-kernel; `basic` has none of them, `implicit` reads the input instead of the tensor. The last row is the ' +
      'geometric mean, of that of the whole.',
    '',
    ...tableOf(
      ['layer', ...FIGURE_4],
      [
        ...layers.map((layer) => [layer.name, ...FIGURE_4.map((variant) => rate(layer, variant))]),
        ['mean', ...FIGURE_4.map((variant) => times(share(variant)))],
      ],
    ),
    '',
  ];
}

function loadRequests(counted: LoadRequests | string | undefined): string[] {
  const title = ['## Load requests of column and row reuse', ''];
  if (counted === undefined) return [];
  if (typeof counted === 'string') return [...title, `${counted}.`, ''];
  const { extent, counts } = counted;
  return [
    ...title,
    `Global loads of \`shuffle\` on an image of ${extent}², stride 1, as Nsight Compute counts them: requests of a warp ` +
      'for each output of its lanes, and sectors of 32 bytes. The paper has 25 for a 5 × 5 window without reuse, and 10 ' +
      'with column reuse.',
    '',
    ...tableOf(
      ['filter', 'reuse', 'requests per output', 'requests', 'sectors'],
      counts.map((count) => [
        `${count.filter} × ${count.filter}`,
        count.variant,
        requestsPerOutput(count, extent).toFixed(2),
        String(count.requests),
        String(count.sectors),
      ]),
    ),
    '',
  ];
}

/** Of an algorithm, in the order of the results. */
function variantsIn(layers: readonly LayerResult[], algorithm: string): string[] {
  const names = layers.flatMap(({ entries }) =>
    entries.filter((one) => one.algorithm === algorithm && one.variant).map((one) => one.variant!),
  );
  return [...new Set(names)];
}

function shuffleVariants(groups: readonly LayerGroup[]): string[] {
  const measured = groups.filter(({ layers }) => variantsIn(layers, 'shuffle').length > 0);
  if (measured.length === 0) return [];
  const variants = variantsIn(
    measured.flatMap(({ layers }) => layers),
    'shuffle',
  );
  const ratio = (layers: readonly LayerResult[], variant: string) =>
    meanOf(
      layers.map((layer) => {
        const [without, withIt] = [own(layer, 'shuffle', 'neither'), own(layer, 'shuffle', variant)];
        return without && withIt && median(without) / median(withIt);
      }),
    );
  return [
    '## What each idea of shuffle brings',
    '',
    'Speed-up over `neither`, geometric means of the layers that a variant takes; the empty one is what `shuffle` chooses.',
    '',
    ...tableOf(
      ['layers', ...variants, '(its choice)'],
      measured.map(({ group, batch, layers }) => [
        `${group}, batch ${batch}`,
        ...[...variants, ''].map((variant) => times(ratio(layers, variant))),
      ]),
    ),
    '',
  ];
}

function shareClose(chosen: readonly Choice[]): string {
  const close = chosen.filter(({ ratio }) => ratio <= CLOSE).length;
  return `${close} of ${chosen.length} within 10 %`;
}

function planner(layers: readonly LayerResult[]): string[] {
  const chosen = pointwiseChoices(layers);
  if (chosen.length === 0) return [];
  const rows = chosen.map(({ layer, ratio }) => {
    const best = bestVariant(layer, 'pointwise')!;
    const paper = own(layer, 'pointwise', 'paper');
    return [
      `${layer.name}, batch ${layer.batch}`,
      microseconds(median(own(layer, 'pointwise')!)),
      `${best.variant || '(the choice)'} ${microseconds(median(best))}`,
      ratio > CLOSE ? `**${ratio.toFixed(2)}**` : ratio.toFixed(2),
      paper === undefined ? NONE : times(median(paper) / median(best)),
      String(layer.entries.filter((one) => one.algorithm === 'pointwise' && one.variant).length),
    ];
  });
  const head = [
    'layer',
    'its choice, µs',
    'best candidate, µs',
    'choice / best',
    'paper’s planner / best',
    'candidates',
  ];
  return [
    `## The planner of pointwise: ${shareClose(chosen)} of its best candidate`,
    '',
    ...tableOf(head, rows),
    '',
  ];
}

function selection(layers: readonly LayerResult[]): string[] {
  const chosen = autoChoices(layers);
  if (chosen.length === 0) return [];
  const missed = chosen.filter(({ ratio }) => ratio > CLOSE);
  const rows = missed.map(({ layer, ratio }) => {
    const [taken, best] = [auto(layer)!, bestFamily(layer)!];
    return [
      `${layer.group} ${layer.name}, batch ${layer.batch}`,
      `${describeContestant(taken)} ${microseconds(median(taken))}`,
      `${describeContestant(best)} ${microseconds(median(best))}`,
      times(ratio),
    ];
  });
  return [
    `## What auto takes: ${shareClose(chosen)} of the best family`,
    '',
    ...(rows.length === 0 ? [] : [...tableOf(['layer', 'taken, µs', 'best, µs', 'taken / best'], rows), '']),
  ];
}

function failures(layers: readonly LayerResult[]): string[] {
  const list = (title: string, all: readonly string[]) =>
    all.length === 0 ? [] : [`## ${title}`, '', ...all.map((one) => `- ${one.replaceAll('\n', ' ')}`), ''];
  return [
    ...list('What failed', findFailures(layers)),
    ...list('Where rivals do not count', findRivalTroubles(layers)),
  ];
}

function cpuSection(cpu: CpuPart | undefined): string[] {
  if (cpu === undefined) return [];
  const { name, result } = cpu;
  return [
    '## The CPU',
    '',
    `${result.cpu.name}, ${result.date}; every layer, and what the engine is made of, in [its own report](${name}.md).`,
    '',
    ...renderSpeedups(result, undefined),
    ...goals('Goals on the CPU', cpuGoals(result)),
  ];
}

/** Empty where nothing has regressed. */
export function renderRegressions(regressions: readonly Regression[]): string {
  if (regressions.length === 0) return '';
  const lines = regressions.map(
    ({ layer, before, now }) =>
      `  ${layer.group} ${layer.name}, batch ${layer.batch}: ${microseconds(median(before.entry))} µs by ` +
      `${describeContestant(before.entry)} in ${before.file}, now ${microseconds(median(now))} µs by ` +
      describeContestant(now),
  );
  const limit = ((REGRESSION_THRESHOLD - 1) * 100).toFixed(0);
  return [`Layers more than ${limit} % slower than they were: ${regressions.length}`, ...lines].join('\n');
}

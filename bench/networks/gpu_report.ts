/** From the measurements of networks on a GPU to the Markdown report: a pure function of what is stored. */
import { reached, type Goal } from '../gpu/goals';
import {
  deviceMilliseconds,
  FORMS,
  OTHER_FORMS,
  speedupsOf,
  type Form,
  type GpuNetworksResult,
  type NetworkMeasurement,
  type NetworksRun,
  type OwnMeasurement,
  type RivalMeasure,
  type RivalMeasurement,
  type Speedups,
} from './gpu_result';
import type { Precision } from '../../lib/conv2d/names';
import { goals, NONE, versus } from '../gpu/report';
import { percent, tableOf } from '../tables';
import { geometricMean } from '../statistics';

/** Times as fast as PyTorch, by batch. */
const GOALS: Readonly<Record<Precision, readonly { batch: number; least: number }[]>> = {
  fp32: [
    { batch: 1, least: 2 },
    { batch: 128, least: 1 },
  ],
  tf32: [
    { batch: 1, least: 2 },
    { batch: 128, least: 1 },
  ],
  fp16: [
    { batch: 1, least: 2 },
    { batch: 8, least: 1.5 },
    { batch: 128, least: 1.2 },
  ],
  bf16: [
    { batch: 1, least: 2 },
    { batch: 8, least: 1.5 },
    { batch: 128, least: 1.2 },
  ],
};

/** Of each network, in other precisions than float32 */
const SLOWEST = 0.95;

const MEASURES: Readonly<Record<keyof Speedups, string>> = {
  strict: 'run() over a replay alone',
  onGpu: 'run() within the GPU over a replay',
  onGpuCold: 'run() within the GPU over a replay, cold',
  toCpu: 'both to the CPU',
  device: 'both on the device',
};

const milliseconds = (value: number) => value.toFixed(value < 10 ? 3 : 1);
const times = (value: number) => `${value.toFixed(2)} ×`;

export function renderGpuNetworks(result: GpuNetworksResult): string {
  const batches = [...new Set(result.networks.map(({ batch }) => batch))];
  const { precision = 'fp32' } = result;
  return [
    ...heading(result, precision),
    ...goals('Goals', networkGoals(result.networks, precision)),
    ...batches.flatMap((batch) => section(batch, ofBatch(result.networks, batch), precision)),
    ...failures(result.networks),
  ].join('\n');
}

const ARITHMETIC: Readonly<Record<Precision, string>> = {
  fp32:
    'float32, against PyTorch without TF32 in NCHW and in channels_last, some compiled by `torch.compile` with frozen ' +
    'weights, too; TF32 and FP16 in channels_last are for information.',
  tf32:
    'float32 with products of TF32, against PyTorch’s TF32 in channels_last, some compiled by `torch.compile` with frozen ' +
    'weights, too; FP16 is for information.',
  fp16: 'FP16, against PyTorch in FP16 and channels_last, some compiled by `torch.compile` with frozen weights, too.',
  bf16:
    'BF16, against PyTorch in BF16 and channels_last, some compiled by `torch.compile` with frozen weights, too; FP16 is for ' +
    'information.',
};

function heading({ gpu, date, runs, networks }: GpuNetworksResult, precision: Precision): string[] {
  return [
    `# Whole networks on ${gpu.name}, ${date}`,
    '',
    `${ARITHMETIC[precision]} Images of 3 × 224 × 224; torchvision’s networks in inference mode, captured in a CUDA graph, ` +
      'with cuDNN’s own search (`cudnn.benchmark`). All are checked ' +
      'against PyTorch in double precision first, and take turns, ours and the rival in a process each. Milliseconds, ' +
      'medians over the turns; above 1 × warpconv is faster, losses are bold. By `npx ts-node bench/networks/main.ts --device cuda`.',
    '',
    '- `run()`: wall-clock time of `session.run()` in Node.js, one call after the other, the input on the GPU: from the call ' +
      'until the output is in CPU memory and the promise is settled. It holds a copy of the input within the GPU, which the ' +
      'rival has not.',
    '- `run()` within the GPU: the same with the output left on the GPU, as a replay leaves it.',
    '- steps: the sum of what `session.profile()` gives for the steps, launched one by one between events; at small batches ' +
      'the gaps between launches are in it, which `run()`, replaying a graph, has not.',
    '- replay: GPU time of one replay of PyTorch’s graph among many back to back, between two events: neither launch nor ' +
      'copies are in it.',
    '- cold: single calls after as much was written as several L2 caches hold, ours by the wall clock, a replay between two ' +
      'events behind that write.',
    '- to the CPU: wall-clock time of a replay and `output.cpu()`, one after the other, in Python.',
    '',
    `“${MEASURES.strict}” puts all of our call against the bare replay, “${MEASURES.toCpu}” what a program waits for, and ` +
      `“${MEASURES.device}” the steps against the replay; each against the fastest form of the same precision.`,
    '',
    // Of an earlier run of the day nothing may be left.
    ...runs.flatMap((run, index) => (networks.some((one) => one.run === index) ? runFacts(run, index) : [])),
    '',
  ];
}

function runFacts({ started, quick, node, version, torch, clocks }: NetworksRun, index: number): string[] {
  const rival =
    typeof torch === 'string'
      ? torch
      : `PyTorch ${torch.torch}, torchvision ${torch.torchvision}, cuDNN ${torch.cudnn}, on ${torch.gpu}, with normalisation ` +
        `${torch.isFolded === true ? 'folded into the convolutions' : 'as layers of its own'}`;
  return [
    `- Run ${index + 1}, ${started}${quick ? ', quick' : ''}: warpconv ${version}, Node.js ${node}; ${rival}.`,
    ...clocks.map(({ when, facts }) => {
      const list = Object.entries(facts).map(([fact, value]) => `${fact} ${value}`);
      return `  - ${when}: ${list.join(', ')}`;
    }),
  ];
}

const ofBatch = (networks: readonly NetworkMeasurement[], batch: number) =>
  networks.filter((one) => one.batch === batch);

function meanOf(
  networks: readonly NetworkMeasurement[],
  measure: keyof Speedups,
  precision: Precision,
): number | undefined {
  const all = networks
    .map((one) => speedupsOf(one, precision)?.[measure])
    .filter((value) => value !== undefined);
  return all.length === 0 ? undefined : geometricMean(all);
}

function networkGoals(networks: readonly NetworkMeasurement[], precision: Precision): Goal[] {
  const measures = precision === 'fp32' ? (['strict', 'toCpu'] as const) : (['onGpu', 'toCpu'] as const);
  const means = GOALS[precision].flatMap(({ batch, least }) =>
    measures.map((measure) =>
      reached(
        `batch ${batch}, geometric mean, ${MEASURES[measure]}`,
        `≥ ${least.toFixed(1)} ×`,
        meanOf(ofBatch(networks, batch), measure, precision),
        (mean) => mean >= least,
        times,
      ),
    ),
  );
  return precision === 'fp32' ? means : [...means, noneSlow(networks, precision)];
}

function noneSlow(networks: readonly NetworkMeasurement[], precision: Precision): Goal {
  const all = networks.flatMap((one) => {
    const ratio = speedupsOf(one, precision)?.onGpu;
    return ratio === undefined ? [] : [{ one, ratio }];
  });
  const slow = all.filter(({ ratio }) => ratio < SLOWEST);
  return reached(
    `networks below ${SLOWEST} ×, ${MEASURES.onGpu}`,
    'none',
    all.length === 0 ? undefined : slow.length,
    (count) => count === 0,
    () => slow.map(({ one, ratio }) => `${describe(one)} (${times(ratio)})`).join(', ') || 'none',
  );
}

function section(batch: number, networks: readonly NetworkMeasurement[], precision: Precision): string[] {
  const compared = FORMS[precision];
  const forms = formsOf(precision);
  return [
    `## Batch ${batch}`,
    '',
    'Outputs on the GPU:',
    '',
    ...speedupTable(networks, precision, ['onGpu', 'device'], {
      head: ['run() within the GPU', 'steps', ...forms.map((form) => `replay, ${form}`)],
      row: ({ ours, rivals }) => [
        ...(ours === undefined
          ? ['failed', NONE]
          : [ours.onGpu ? spread(ours.onGpu) : NONE, milliseconds(deviceMilliseconds(ours))]),
        ...forms.map((form) => timeOf(rivals, form, 'replay')),
      ],
    }),
    '',
    ...coldTable(networks, precision),
    'Outputs in CPU memory:',
    '',
    ...speedupTable(networks, precision, ['toCpu', 'strict'], {
      head: ['run()', ...compared.map((form) => `to the CPU, ${form}`)],
      row: ({ ours, rivals }) => [
        ours === undefined ? 'failed' : spread(ours.toCpu),
        ...compared.map((form) => timeOf(rivals, form, 'toCpu')),
      ],
    }),
    '',
    'Errors, of the largest output, against PyTorch in double precision:',
    '',
    ...tableOf(
      ['network', 'ours', ...forms],
      networks.map(({ network, ours, rivals }) => [
        network,
        errorOf(ours),
        ...forms.map((form) => errorOf(inForm(rivals, form))),
      ]),
    ),
    '',
    'Where our time goes, of the steps:',
    '',
    ...tableOf(
      ['network', 'by kind and algorithm'],
      networks.flatMap(({ network, ours }) => (ours === undefined ? [] : [[network, shares(ours)]])),
    ),
    '',
  ];
}

function coldTable(networks: readonly NetworkMeasurement[], precision: Precision): string[] {
  if (networks.every(({ ours }) => ours?.onGpuCold === undefined)) return [];
  const forms = FORMS[precision];
  return [
    'Outputs on the GPU, each call after the L2 cache was overwritten:',
    '',
    ...speedupTable(networks, precision, ['onGpuCold'], {
      head: ['run() within the GPU', ...forms.map((form) => `replay, ${form}`)],
      row: ({ ours, rivals }) => [
        ours?.onGpuCold ? spread(ours.onGpuCold) : NONE,
        ...forms.map((form) => timeOf(rivals, form, 'replayCold')),
      ],
    }),
    '',
  ];
}

interface Columns {
  readonly head: readonly string[];
  readonly row: (one: NetworkMeasurement) => string[];
}

/** Times, and last how many times as fast ours is by some measures, with the means of all networks. */
function speedupTable(
  networks: readonly NetworkMeasurement[],
  precision: Precision,
  measures: readonly (keyof Speedups)[],
  { head, row }: Columns,
): string[] {
  return tableOf(
    ['network', ...head, ...measures.map((measure) => MEASURES[measure])],
    [
      ...networks.map((one) => [
        ...[one.network, ...row(one)],
        ...measures.map((measure) => versus(speedupsOf(one, precision)?.[measure])),
      ]),
      [
        ...['geometric mean', ...head.map(() => '')],
        ...measures.map((measure) => versus(meanOf(networks, measure, precision))),
      ],
    ],
  );
}

const formsOf = (precision: Precision) => [...FORMS[precision], ...OTHER_FORMS[precision]];

const inForm = (rivals: readonly RivalMeasurement[], wanted: Form) =>
  rivals.find(({ form }) => form === wanted);

function timeOf(rivals: readonly RivalMeasurement[], form: Form, measure: RivalMeasure): string {
  const time = inForm(rivals, form)?.[measure];
  return time === undefined ? NONE : spread(time);
}

const errorOf = (measured: { readonly error: number } | undefined) =>
  measured === undefined ? NONE : measured.error.toExponential(1);

const spread = ([low, middle, high]: readonly [number, number, number]) =>
  `${milliseconds(middle)} (${milliseconds(low)} – ${milliseconds(high)})`;

function shares(ours: OwnMeasurement): string {
  const total = deviceMilliseconds(ours);
  return Object.entries(ours.steps)
    .sort(([, a], [, b]) => b - a)
    .map(([name, taken]) => `${name} ${milliseconds(taken)} (${percent(taken / total)})`)
    .join(', ');
}

function failures(networks: readonly NetworkMeasurement[]): string[] {
  const all = networks.flatMap((one) => one.failures.map((failure) => `- ${describe(one)}: ${failure}`));
  return all.length === 0 ? [] : ['## What failed', '', ...all, ''];
}

/** One line for a terminal. */
export function summariseNetwork(one: NetworkMeasurement, precision: Precision): string {
  const speedups = speedupsOf(one, precision);
  const run = one.ours === undefined ? 'failed' : `run() ${milliseconds(one.ours.toCpu[1])} ms`;
  const verdicts = Object.entries(speedups ?? {}).map(
    ([measure, ratio]) => `${MEASURES[measure as keyof Speedups]} ${times(ratio as number)}`,
  );
  return [`${describe(one)}: ${run}`, ...verdicts, ...one.failures].join('; ');
}

const describe = ({ network, batch }: NetworkMeasurement) => `${network}, batch ${batch}`;

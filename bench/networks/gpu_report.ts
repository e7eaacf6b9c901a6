/** From the measurements of networks on a GPU to the Markdown report: a pure function of what is stored. */
import { reached, type Goal } from '../gpu/goals';
import {
  bestRival,
  deviceMilliseconds,
  FORMS,
  OTHER_FORMS,
  speedupsOf,
  type GpuNetworksResult,
  type NetworkMeasurement,
  type NetworksRun,
  type OwnMeasurement,
  type Speedups,
} from './gpu_result';
import { goals, NONE, versus } from '../gpu/report';
import { percent, tableOf } from '../tables';
import { geometricMean } from '../statistics';

/** Times as fast as PyTorch, by batch. */
const GOALS: readonly { batch: number; least: number }[] = [
  { batch: 1, least: 2 },
  { batch: 128, least: 1 },
];

const MEASURES: Readonly<Record<keyof Speedups, string>> = {
  strict: 'run() over a replay alone',
  toCpu: 'both to the CPU',
  device: 'both on the device',
};

const milliseconds = (value: number) => value.toFixed(value < 10 ? 3 : 1);
const times = (value: number) => `${value.toFixed(2)} ×`;

export function renderGpuNetworks(result: GpuNetworksResult): string {
  const batches = [...new Set(result.networks.map(({ batch }) => batch))];
  return [
    ...heading(result),
    ...goals('Goals', networkGoals(result.networks)),
    ...batches.flatMap((batch) => section(batch, ofBatch(result.networks, batch))),
    ...failures(result.networks),
  ].join('\n');
}

function heading({ gpu, date, runs, networks }: GpuNetworksResult): string[] {
  return [
    `# Whole networks on ${gpu.name}, ${date}`,
    '',
    'float32, images of 3 × 224 × 224, against PyTorch: torchvision’s networks in inference mode, captured in a CUDA graph, ' +
      'with cuDNN’s own search (`cudnn.benchmark`), without TF32 in NCHW and in channels_last, some compiled by ' +
      '`torch.compile` with frozen weights, too. TF32 and FP16 in channels_last are for information. All are checked ' +
      'against PyTorch in double precision first, and take turns, ours and the rival in a process each. Milliseconds, ' +
      'medians over the turns; above 1 × warpconv is faster, losses are bold. By `npx ts-node bench/networks/main.ts --device cuda`.',
    '',
    '- `run()`: wall-clock time of `session.run()` in Node.js, one call after the other, the input on the GPU: from the call ' +
      'until the output is in CPU memory and the promise is settled. It holds a copy of the input within the GPU, which the ' +
      'rival has not.',
    '- steps: the sum of what `session.profile()` gives for the steps, launched one by one between events; at small batches ' +
      'the gaps between launches are in it, which `run()`, replaying a graph, has not.',
    '- replay: GPU time of one replay of PyTorch’s graph among many back to back, between two events: neither launch nor ' +
      'copies are in it.',
    '- to the CPU: wall-clock time of a replay and `output.cpu()`, one after the other, in Python.',
    '',
    `“${MEASURES.strict}” puts all of our call against the bare replay, “${MEASURES.toCpu}” what a program waits for, and ` +
      `“${MEASURES.device}” the steps against the replay; each against the fastest in float32.`,
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

function meanOf(networks: readonly NetworkMeasurement[], measure: keyof Speedups): number | undefined {
  const all = networks.map(speedupsOf).filter((one) => one !== undefined);
  return all.length === 0 ? undefined : geometricMean(all.map((one) => one[measure]));
}

function networkGoals(networks: readonly NetworkMeasurement[]): Goal[] {
  return GOALS.flatMap(({ batch, least }) =>
    (['strict', 'toCpu'] as const).map((measure) =>
      reached(
        `batch ${batch}, geometric mean, ${MEASURES[measure]}`,
        `≥ ${least.toFixed(1)} ×`,
        meanOf(ofBatch(networks, batch), measure),
        (mean) => mean >= least,
        times,
      ),
    ),
  );
}

function section(batch: number, networks: readonly NetworkMeasurement[]): string[] {
  const measures = Object.keys(MEASURES) as (keyof Speedups)[];
  const head = [
    ...['network', 'run()', 'steps', 'error'],
    ...[...FORMS, ...OTHER_FORMS].map((form) => `replay, ${form}`),
    ...['to the CPU', 'error'],
    ...measures.map((measure) => MEASURES[measure]),
  ];
  const means = measures.map((measure) => versus(meanOf(networks, measure)));
  const empty = Array<string>(head.length - measures.length - 1).fill('');
  return [
    `## Batch ${batch}`,
    '',
    ...tableOf(head, [
      ...networks.map((one) => [
        ...timesRow(one),
        ...measures.map((measure) => versus(speedupsOf(one)?.[measure])),
      ]),
      ['geometric mean', ...empty, ...means],
    ]),
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

function timesRow(one: NetworkMeasurement): string[] {
  const { network, ours, rivals } = one;
  const own =
    ours === undefined
      ? ['failed', NONE, NONE]
      : [spread(ours.toCpu), milliseconds(deviceMilliseconds(ours)), ours.error.toExponential(0)];
  const replays = [...FORMS, ...OTHER_FORMS].map((one) => rivals.find(({ form }) => form === one));
  const best = bestRival(one, 'toCpu');
  return [
    ...[network, ...own],
    ...replays.map((rival) => (rival === undefined ? NONE : spread(rival.replay))),
    ...(best === undefined ? [NONE, NONE] : [spread(best.toCpu), best.error.toExponential(0)]),
  ];
}

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
export function summariseNetwork(one: NetworkMeasurement): string {
  const speedups = speedupsOf(one);
  const run = one.ours === undefined ? 'failed' : `run() ${milliseconds(one.ours.toCpu[1])} ms`;
  const verdicts = Object.entries(speedups ?? {}).map(
    ([measure, ratio]) => `${MEASURES[measure as keyof Speedups]} ${times(ratio as number)}`,
  );
  return [`${describe(one)}: ${run}`, ...verdicts, ...one.failures].join('; ');
}

const describe = ({ network, batch }: NetworkMeasurement) => `${network}, batch ${batch}`;

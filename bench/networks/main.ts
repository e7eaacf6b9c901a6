/**
 * Whole networks by InferenceSession. On the CPU at batch 1: ours against onnxruntime-node, whose run() blocks the
 * JavaScript thread as our runSync() does, and against SConv's baseline, which is our program with every convolution by im2col
 * and OpenBLAS (Table 2 of the paper); and our run(), which goes to other threads and back. On a GPU: against PyTorch
 * (bench/networks/gpu_bench.ts). Results are checked against PyTorch's in double precision before they are timed. Writes
 * bench/results/<machine>-<date>-networks.json and .md; of a part of the networks or of the threads, or quickly, the CPU's are
 * printed only, lest they take the place of the whole.
 *
 *     python3 scripts/export_networks.py networks
 *     npx ts-node bench/networks/main.ts [--folder networks] [--network resnet50] [--quick] [--threads 1|default]
 *     npx ts-node bench/networks/main.ts --device cuda [--folder networks] [--network resnet50] [--quick] [--batch 1,128] [--out FOLDER]
 *         [--precision fp32|tf32|fp16|bf16] [--compile resnet50] [--cold]
 *     npx ts-node bench/networks/main.ts --check [--device cpu|cuda] [--folder networks] [--network resnet50] [--batch 1,128]
 *         [--precision fp32|tf32|fp16|bf16]
 *
 * `--compile` adds the compiled form of a network to the rival's, and may be given again. `--cold` also measures calls after the
 * L2 cache was overwritten. `--check` times nothing: it says for each network how far ours is off, and ends with exit code 1
 * where that is too far.
 */
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { devices, type CpuInfo, type Device } from 'warpconv';

import type { Precision } from '../../lib/conv2d/names';
import { playInTurns, type Pace } from '../cpu/contenders';
import {
  ASYNCHRONOUS,
  BASELINE,
  OURS,
  RUNTIME,
  type Threads,
  type Turn,
  type TurnRequest,
} from './cpu_turns';
import { benchGpuNetworks, checkNetworks } from './gpu_bench';
import { LineProcess } from '../line_process';
import { modelOf, networksIn } from './files';
import { readBatch, readOne, readThreads } from '../options';
import { FORMS } from './gpu_result';
import { Progress } from '../progress';
import { BASE, installRivals, rivalEnvironment } from '../rivals';
import {
  circumstances,
  FOLDER,
  nameOf,
  softwareOf,
  writeJson,
  writeText,
  type Circumstances,
} from '../results';
import { geometricMean } from '../statistics';

const COUNTS: readonly Threads[] = ['default', 1, 2];

/** Of the SConv paper's evaluation */
const SCONV_MODELS = 'googlenet inception_v2 resnet18 resnet50 resnet152 squeezenet1_0 vgg16'.split(' ');

interface Request {
  readonly cpu: CpuInfo;
  readonly file: string;
  readonly threads: Threads;
  readonly quick: boolean;
}

type Times = Readonly<Record<string, number>>;

interface NetworkResult {
  readonly network: string;
  readonly threads: Threads;
  /** Milliseconds of one run by contender */
  readonly ms: Times;
}

interface NetworksResult extends Circumstances {
  readonly networks: readonly NetworkResult[];
}

/** The baseline shares work among threads that it is told the number of. */
const contendersOf = (threads: Threads) =>
  threads === 'default' ? [OURS, ASYNCHRONOUS, RUNTIME] : [OURS, ASYNCHRONOUS, RUNTIME, BASELINE];

/** Between turns: threads of a rival look for more work for a while after a call. */
const REST_MILLISECONDS = 20;

/**
 * Many short turns: on a shared machine there are slow seconds, of which a contender's turn, if it were as long, might meet
 * all or none.
 */
const WHOLE: Pace = { rounds: 27, turn: 100 };
const QUICK: Pace = { rounds: 3, turn: 50 };

const TURNS = path.join(__dirname, 'cpu_turns.ts');

/** Each contender in a process of its own, and all of them in turns. */
async function measureAll({ cpu, file, threads, quick }: Request): Promise<Times> {
  const pace = quick ? QUICK : WHOLE;
  const processes = contendersOf(threads).map((name) => ({ name, process: contenderProcess(name, cpu) }));
  try {
    for (const { name, process } of processes)
      await process.ask({ do: 'load', name, file, threads } satisfies TurnRequest);
    const players = processes.map(({ name, process }) => ({
      name,
      turn: async () => {
        await setTimeout(REST_MILLISECONDS);
        return (await process.ask<Turn>({ do: 'turn', milliseconds: pace.turn } satisfies TurnRequest))
          .milliseconds;
      },
    }));
    return await playInTurns(players, pace.rounds);
  } finally {
    for (const { process } of processes) process.close();
  }
}

function contenderProcess(name: string, cpu: CpuInfo): LineProcess {
  const command: [string, ...string[]] = [process.execPath, '-r', 'ts-node/register', TURNS];
  if (name !== BASELINE) return new LineProcess(command);
  // node-gyp-build takes the addon from there. OpenBLAS has one thread because base.cpp shares the work out itself.
  return new LineProcess(command, { ...rivalEnvironment(cpu, 1), WARPCONV_PREBUILD: BASE });
}

/** How many times as fast the second is as the first. */
type Comparison = readonly [title: string, slower: string, faster: string];
const COMPARISONS: readonly Comparison[] = [
  ['over onnxruntime-node', RUNTIME, OURS],
  ['run() over it', RUNTIME, ASYNCHRONOUS],
  ['over im2col + OpenBLAS', BASELINE, OURS],
];

function render(result: NetworksResult): string {
  const lines = [
    `# Whole networks on ${result.cpu.name}, ${result.date}`,
    '',
    `Batch 1, float32, ${result.cpu.isa}, ${softwareOf(result)}: milliseconds of one run, the median of ${(result.quick ? QUICK : WHOLE).rounds} turns. Above 1 ×`,
    "warpconv is faster. `warpconv` is runSync(), which computes on the JavaScript thread, as onnxruntime-node's run() does; our",
    "run() hands the network to another thread and waits for it. `im2col + OpenBLAS` is SConv's baseline (Table 2 of the paper):",
    'runSync() of the same program, in a build of warpconv whose convolutions are im2col and a call of OpenBLAS, with bias,',
    'residual and activation after it. By `npx ts-node bench/networks/main.ts`.',
  ];
  for (const threads of new Set(result.networks.map((row) => row.threads))) {
    const rows = result.networks.filter((row) => row.threads === threads);
    const contenders = contendersOf(threads);
    const comparisons = COMPARISONS.filter(([, slower]) => contenders.includes(slower));
    const titles = [...contenders, ...comparisons.map(([title]) => title)];
    lines.push('', `## ${titleOf(threads)}`, '');
    lines.push(`| network | ${titles.join(' | ')} |`, `| --- |${' --- |'.repeat(titles.length)}`);
    for (const { network, ms } of rows) {
      const times = contenders.map((name) => ms[name]!.toFixed(2));
      lines.push(`| ${network} | ${[...times, ...comparisons.map((one) => ratio(ms, one))].join(' | ')} |`);
    }
    const meansOf = (title: string, networks: readonly NetworkResult[]) =>
      `| ${[title, ...contenders.map(() => ''), ...comparisons.map((one) => mean(networks, one))].join(' | ')} |`;
    lines.push(meansOf('geometric mean', rows));
    const paper = rows.filter(({ network }) => SCONV_MODELS.includes(network));
    if (paper.length === SCONV_MODELS.length) lines.push(meansOf("geometric mean of SConv's seven", paper));
  }
  return `${lines.join('\n')}\n`;
}

function titleOf(threads: Threads): string {
  if (threads === 'default') return 'Default settings';
  return `${threads} thread${threads === 1 ? '' : 's'}`;
}

function mean(networks: readonly NetworkResult[], [, slower, faster]: Comparison): string {
  return geometricMean(networks.map(({ ms }) => ms[slower]! / ms[faster]!)).toFixed(2);
}

function ratio(ms: Times, [, slower, faster]: Comparison): string {
  return (ms[slower]! / ms[faster]!).toFixed(2);
}

async function benchCpuNetworks(
  folder: string,
  names: readonly string[],
  counts: readonly Threads[],
  { quick, store }: { quick: boolean; store: boolean },
): Promise<void> {
  installRivals('all');
  const about = circumstances(quick);
  const networks: NetworkResult[] = [];
  const progress = new Progress('bench', names.length * counts.length, 'networks');
  for (const threads of counts) {
    for (const network of names) {
      const file = modelOf(folder, network);
      networks.push({ network, threads, ms: await measureAll({ cpu: about.cpu, file, threads, quick }) });
      progress.show(networks.length);
    }
  }
  const result: NetworksResult = { ...about, networks };
  console.log(render(result));
  if (!store) return;
  const name = `${nameOf(result)}-networks`;
  writeJson(name, result);
  writeText(`${name}.md`, render(result));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      device: { type: 'string', default: 'cpu' },
      folder: { type: 'string', default: 'networks' },
      network: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      threads: { type: 'string', multiple: true },
      compile: { type: 'string', multiple: true, default: [] },
      cold: { type: 'boolean', default: false },
      batch: { type: 'string', default: '1,128' },
      precision: { type: 'string', default: 'fp32' },
      out: { type: 'string', default: FOLDER },
    },
  });
  const { folder, quick, out } = values;
  const names = networksIn(folder, values.network);
  const subjects = { folder, names, batches: values.batch.split(',').map(readBatch) };
  const precision = readOne('precision', values.precision, Object.keys(FORMS) as Precision[]);
  if (values.check) return checkNetworks(values.device as Device, subjects, precision);
  if (values.device === 'cpu') {
    const store = !quick && values.network === undefined && values.threads === undefined;
    const { cores } = devices()[0] as CpuInfo;
    const counts =
      values.threads?.map((text) => (text === 'default' ? text : readThreads(text, cores))) ?? COUNTS;
    return benchCpuNetworks(folder, names, counts, { quick, store });
  }
  return benchGpuNetworks(values.device as Exclude<Device, 'cpu'>, subjects, {
    quick,
    precision,
    compiled: values.compile,
    cold: values.cold,
    out: path.resolve(out),
  });
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

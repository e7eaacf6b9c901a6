/** `npx warpconv bench`: what a model takes, beside onnxruntime-node where that is installed. */
import path from 'node:path';

import { command } from './command';
import { Contestant } from './contestant';
import type { First, Opened, Output } from './bench_process';
import {
  describeInputs,
  describeMadeUp,
  otherPlans,
  planInputs,
  type InputPlan,
  type Request,
} from './feeds';
import {
  MODEL_OPTIONS,
  MODEL_OPTIONS_HELP,
  readCount,
  readDevice,
  readModelFile,
  readRequest,
} from './model_options';
import { endProgress, showProgress } from './progress';
import { digits, mebibytes, table } from './table';
import type { Device } from '../placement';
import { onnxruntimeNodeFile } from '../session/fallback';

/** What `--json` prints. Times are in milliseconds. */
export interface BenchResult {
  readonly file: string;
  readonly inputs: InputPlan['inputs'];
  readonly madeUp: readonly string[];
  readonly threads: number;
  readonly warpconv: Measured;
  /** Null where it is not installed, or left out */
  readonly onnxruntimeNode: Measured | { readonly problem: string } | null;
  /** Null without onnxruntime-node */
  readonly difference: Difference | null;
}

interface Measured {
  readonly version: string;
  readonly device: string;
  readonly load: number;
  readonly firstRun: number;
  /** The first run of other dims; null where the model takes none */
  readonly newShape: { readonly change: string; readonly milliseconds: number } | null;
  /** How many runs the following are of */
  readonly runs: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly mean: number;
  readonly runsPerSecond: number;
  /** By which its process has grown after the first run, the runtime included */
  readonly residentBytes: number;
}

interface Difference {
  /** The largest one of an output, as a part of its largest element; null where outputs cannot be compared */
  readonly relative: number | null;
  /** The output that it is of */
  readonly output: string;
  readonly complaint?: string;
}

const DEFAULT_SECONDS = 3;
const MOST_SECONDS = 3600;

export const benchCommand = command({
  name: 'bench',
  summary: 'measure what an ONNX file takes, beside onnxruntime-node where that is installed',
  synopsis: 'bench MODEL.onnx [options]',
  help: `
Measure a model: loading, the first run, the first run of another shape, and the latency of further
runs, one at a time. onnxruntime-node is measured beside it where it is found from the working
directory: on the CPU, by as many threads, in a process of its own, in turns of 25 ms. The outputs
of both are compared.

  --seconds N      for how long each is measured; ${DEFAULT_SECONDS} without
  --alone          leave onnxruntime-node out
${MODEL_OPTIONS_HELP.slice(1)}
`,
  options: { ...MODEL_OPTIONS, seconds: { type: 'string' }, alone: { type: 'boolean' } },
  mostArguments: 1,
  async run({ json = false, alone = false, ...args }, files) {
    const request: BenchRequest = {
      file: readModelFile('bench', files),
      request: readRequest(args),
      device: readDevice(args),
      threads: readCount('threads', args.threads, 1024),
      seconds: readCount('seconds', args.seconds, MOST_SECONDS) ?? DEFAULT_SECONDS,
    };
    const hasOther = !alone && onnxruntimeNodeFile() !== undefined;
    const contestants = [
      new Contestant('warpconv'),
      ...(hasOther ? [new Contestant('onnxruntime-node')] : []),
    ];
    try {
      const result = await bench(request, contestants[0]!, contestants[1]);
      endProgress();
      process.stdout.write(json ? `${JSON.stringify(result, null, 2)}\n` : render(result, alone));
      return 0;
    } finally {
      endProgress();
      for (const contestant of contestants) contestant.end();
    }
  },
});

interface BenchRequest {
  readonly file: string;
  readonly request: Request;
  readonly device: Device | 'auto';
  readonly threads: number | undefined;
  readonly seconds: number;
}

/** A contestant after its first run */
interface Started {
  readonly contestant: Contestant;
  readonly opened: Opened;
  readonly first: First;
}

async function bench(
  { file, request, device, threads: wanted, seconds }: BenchRequest,
  own: Contestant,
  other: Contestant | undefined,
): Promise<BenchResult> {
  const open = { call: 'open', file, device } as const;
  showProgress(`warpconv loads ${file}`);
  const opened = await own.open({ ...open, runtime: 'warpconv', threads: wanted });
  const { threads, inputMetadata } = opened;
  const plan = planInputs(inputMetadata, request);
  showProgress('warpconv runs it for the first time');
  const ours: Started = {
    contestant: own,
    opened,
    first: await own.first({ call: 'first', inputs: plan.inputs }),
  };
  let theirs: Started | undefined;
  let problem: string | undefined;
  if (other !== undefined) {
    try {
      showProgress(`onnxruntime-node loads ${file}`);
      const opened = await other.open({ ...open, runtime: 'onnxruntime-node', threads });
      theirs = {
        contestant: other,
        opened,
        first: await other.first({ call: 'first', inputs: plan.inputs }),
      };
    } catch (error) {
      problem = (error as Error).message.split('\n')[0]!;
    }
  }
  const started = theirs === undefined ? [ours] : [ours, theirs];
  const times = await inTurns(started, seconds * 1000);
  const others = otherPlans(inputMetadata, plan);
  const measured: Measured[] = [];
  for (const [i, one] of started.entries()) {
    showProgress(`${one.contestant.runtime} runs another shape`);
    const choices = others.map(({ inputs }) => inputs);
    const found = await one.contestant.newShape({ call: 'newShape', choices });
    const newShape =
      found === null ? null : { change: others[found.choice]!.change, milliseconds: found.milliseconds };
    measured.push(summarise(one, newShape, times[i]!));
  }
  return {
    file: path.basename(file),
    ...plan,
    threads,
    warpconv: measured[0]!,
    onnxruntimeNode: measured[1] ?? (problem === undefined ? null : { problem }),
    difference: theirs === undefined ? null : differenceOf(ours.first.outputs, theirs.first.outputs),
  };
}

/** Milliseconds of a contestant's turn. Were they shorter, each would find the caches as the other leaves them. */
const TURN = 25;
const LEAST_ROUNDS = 3;

/** The times of all runs of each contestant; the one that begins changes from round to round. */
async function inTurns(started: readonly Started[], milliseconds: number): Promise<number[][]> {
  const times = started.map((): number[] => []);
  const begun = performance.now();
  const whole = milliseconds * started.length;
  for (let round = 0; ; round++) {
    const passed = performance.now() - begun;
    if (round >= LEAST_ROUNDS && passed >= whole) return times;
    showProgress(`measuring: ${Math.min(99, Math.floor((100 * passed) / whole))} %`);
    for (let k = 0; k < started.length; k++) {
      const which = (round + k) % started.length;
      const turn = await started[which]!.contestant.turn({ call: 'turn', milliseconds: TURN });
      for (const time of turn) times[which]!.push(time);
    }
  }
}

function summarise(
  { opened, first }: Started,
  newShape: Measured['newShape'],
  times: readonly number[],
): Measured {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (part: number) => sorted[Math.ceil(part * sorted.length) - 1]!;
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  return {
    version: opened.version,
    device: opened.device,
    load: opened.loadMilliseconds,
    firstRun: first.milliseconds,
    newShape,
    runs: times.length,
    ...{ p50: at(0.5), p90: at(0.9), p99: at(0.99), mean },
    runsPerSecond: 1000 / mean,
    residentBytes: first.residentBytes,
  };
}

type Outputs = First['outputs'];

/** The largest difference among the outputs. */
function differenceOf(ours: Outputs, theirs: Outputs): Difference {
  let worst: Difference = { relative: 0, output: Object.keys(theirs)[0] ?? '' };
  for (const [output, expected] of Object.entries(theirs)) {
    const actual = ours[output]!;
    if (actual.type !== expected.type || actual.dims.join() !== expected.dims.join()) {
      const complaint = `${describeOutput(actual)} here, ${describeOutput(expected)} there`;
      return { relative: null, output, complaint };
    }
    const relative = relativeDifference(actual.data, expected.data);
    // Also where it is NaN
    if (!(relative <= worst.relative!)) worst = { relative, output };
  }
  return Number.isFinite(worst.relative)
    ? worst
    : { ...worst, relative: null, complaint: 'NaN or infinity in one alone' };
}

function describeOutput({ type, dims }: Output): string {
  return `${type} ${dims.join('x') || 'scalar'}`;
}

function relativeDifference(actual: Output['data'], expected: Output['data']): number {
  let [most, furthest] = [0, 0];
  for (let i = 0; i < expected.length; i++) {
    const [is, wanted] = [Number(actual[i]), Number(expected[i])];
    if (Object.is(is, wanted)) continue;
    most = Math.max(most, Math.abs(wanted));
    furthest = Math.max(furthest, Math.abs(is - wanted));
  }
  return furthest === 0 ? 0 : furthest / (most || 1);
}

function render(
  { file, threads, warpconv, onnxruntimeNode, difference, ...plan }: BenchResult,
  alone: boolean,
): string {
  const other = onnxruntimeNode !== null && 'p50' in onnxruntimeNode ? onnxruntimeNode : undefined;
  const contestants = other === undefined ? [warpconv] : [warpconv, other];
  const row = (title: string, cell: (of: Measured) => string) => [title, ...contestants.map(cell)];
  const titles = ['', 'warpconv', ...(other === undefined ? [] : ['onnxruntime-node'])];
  const { newShape } = warpconv;
  const rows = [
    titles,
    row('version', ({ version }) => version),
    row('device', ({ device }) => device),
    row('load', ({ load }) => inMilliseconds(load)),
    row('first run', ({ firstRun }) => inMilliseconds(firstRun)),
    ...(newShape === null
      ? []
      : [
          row(`new shape (${newShape.change})`, (one) =>
            one.newShape === null ? '–' : inMilliseconds(one.newShape.milliseconds),
          ),
        ]),
    row('runs measured', ({ runs }) => String(runs)),
    row('p50', ({ p50 }) => inMilliseconds(p50)),
    row('p90', ({ p90 }) => inMilliseconds(p90)),
    row('p99', ({ p99 }) => inMilliseconds(p99)),
    row('mean', ({ mean }) => inMilliseconds(mean)),
    row('runs a second', ({ runsPerSecond }) => digits(runsPerSecond)),
    row('memory', ({ residentBytes }) => mebibytes(residentBytes)),
  ];
  return [
    `${file} with ${describeInputs(plan.inputs)}; CPU threads: ${threads}\n`,
    describeMadeUp(plan),
    '\n',
    table(rows, titles.slice(1)),
    '\n',
    renderOther(onnxruntimeNode, warpconv, alone),
    renderDifference(difference),
  ].join('');
}

function inMilliseconds(milliseconds: number): string {
  return `${digits(milliseconds)} ms`;
}

function renderOther(other: BenchResult['onnxruntimeNode'], own: Measured, alone: boolean): string {
  if (other === null)
    return alone
      ? ''
      : 'onnxruntime-node is not installed here: npm install onnxruntime-node puts it beside\n';
  if ('problem' in other) return `onnxruntime-node cannot run the model: ${other.problem}\n`;
  const ratio = other.p50 / own.p50;
  const devices = own.device === other.device ? '' : `, on ${other.device} instead of ${own.device}`;
  return `By the median, onnxruntime-node takes ${ratio.toFixed(2)} times as long${devices}.\n`;
}

function renderDifference(difference: Difference | null): string {
  if (difference === null) return '';
  const { relative, output, complaint } = difference;
  if (relative === null) return `Output '${output}' differs: ${complaint}.\n`;
  if (relative === 0) return 'The outputs are equal.\n';
  return `Outputs differ by ${relative.toExponential(1)} of the largest element at most, in '${output}'.\n`;
}

/** `npx warpconv bench`: a model's latency, throughput and memory, beside onnxruntime-node where that is installed. */
import path from 'node:path';

import { command } from './command';
import { Contestant } from './contestant';
import type { First, Opened, Output } from './bench_process';
import {
  describeAssumed,
  describeInputs,
  otherPlans,
  planInputs,
  withAssumed,
  type InputPlan,
  type Request,
} from './feeds';
import {
  MODEL_OPTIONS,
  MODEL_OPTIONS_HELP,
  readCount,
  readPlace,
  readModelFile,
  readRequest,
  type Place,
} from './model_options';
import { endProgress, showProgress } from './progress';
import { digits, inBytes, table } from './table';
import { printable } from '../printable';
import { onnxruntimeNodeFile } from '../session/fallback';

/** What `--json` prints. Times are in milliseconds. */
export interface BenchResult {
  readonly file: string;
  readonly inputs: InputPlan['inputs'];
  readonly assumed: readonly string[];
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
  /** What it holds on its GPU after the first run; null on the CPU */
  readonly gpuBytes: number | null;
}

interface Difference {
  /** The largest one of an output, as a part of its largest element; null where outputs cannot be compared */
  readonly relative: number | null;
  /** The largest one of that output by itself */
  readonly absolute: number | null;
  /** The output that it is of */
  readonly output: string;
  readonly complaint?: string;
}

const DEFAULT_SECONDS = 3;
const MOST_SECONDS = 3600;

export const benchCommand = command({
  name: 'bench',
  summary: 'measure latency, throughput and memory of an ONNX model, also of onnxruntime-node',
  synopsis: 'bench MODEL.onnx [options]',
  help: `
Measure a model: loading, the first run, the first run of another shape, and then the latency of
runs one after another, and memory. If onnxruntime-node is installed in the working directory, it is
measured as well: on the CPU, with as many threads, in a process of its own. The two take turns of
25 ms, and their outputs are compared.

  --seconds N      how long to measure each (default ${DEFAULT_SECONDS})
  --alone          measure warpconv only
${MODEL_OPTIONS_HELP.slice(1)}
`,
  options: { ...MODEL_OPTIONS, seconds: { type: 'string' }, alone: { type: 'boolean' } },
  mostArguments: 1,
  async run({ json = false, alone = false, ...args }, files) {
    const request: BenchRequest = {
      file: readModelFile('bench', files),
      request: readRequest(args),
      place: readPlace(args),
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
      process.stdout.write(json ? `${JSON.stringify(result, null, 2)}\n` : printable(render(result, alone)));
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
  readonly place: Place;
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
  { file, request, place, threads: wanted, seconds }: BenchRequest,
  own: Contestant,
  other: Contestant | undefined,
): Promise<BenchResult> {
  const open = { file, place } as const;
  const opened = await load(own, { ...open, threads: wanted });
  const { threads, inputMetadata, unrankedInputs } = opened;
  const plan = planInputs(inputMetadata, request, unrankedInputs);
  const ours = await runFirst(own, opened, plan).catch((error: unknown) => {
    throw withAssumed(error, plan);
  });
  const others = otherPlans(inputMetadata, plan);
  const base = { file: path.basename(file), ...plan, threads };
  let problem: string | undefined;
  if (other !== undefined) {
    try {
      const theirs = await runFirst(other, await load(other, { ...open, threads }), plan);
      const [warpconv, onnxruntimeNode] = await measure([ours, theirs], others, seconds);
      const difference = differenceOf(ours.first.outputs, theirs.first.outputs);
      return { ...base, warpconv: warpconv!, onnxruntimeNode: onnxruntimeNode!, difference };
    } catch (error) {
      problem = (error as Error).message.split('\n')[0]!;
    }
  }
  const [warpconv] = await measure([ours], others, seconds);
  const onnxruntimeNode = problem === undefined ? null : { problem };
  return { ...base, warpconv: warpconv!, onnxruntimeNode, difference: null };
}

function load(
  contestant: Contestant,
  { file, place, threads }: Pick<BenchRequest, 'file' | 'place' | 'threads'>,
): Promise<Opened> {
  const { runtime } = contestant;
  showProgress(`${runtime} loads ${file}`);
  return contestant.open({ call: 'open', runtime, file, place, threads });
}

async function runFirst(contestant: Contestant, opened: Opened, { inputs }: InputPlan): Promise<Started> {
  showProgress(`${contestant.runtime} runs it for the first time`);
  return { contestant, opened, first: await contestant.first({ call: 'first', inputs }) };
}

async function measure(
  started: readonly Started[],
  others: ReturnType<typeof otherPlans>,
  seconds: number,
): Promise<Measured[]> {
  const times = await inTurns(started, seconds * 1000);
  const measured: Measured[] = [];
  for (const [i, one] of started.entries())
    measured.push(summarise(one, await newShapeOf(one.contestant, others), times[i]!));
  return measured;
}

async function newShapeOf(
  contestant: Contestant,
  others: ReturnType<typeof otherPlans>,
): Promise<Measured['newShape']> {
  showProgress(`${contestant.runtime} runs another shape`);
  const found = await contestant.newShape({ call: 'newShape', choices: others.map(({ inputs }) => inputs) });
  if (found === null) return null;
  return { change: others[found.choice]!.change, milliseconds: found.milliseconds };
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
    gpuBytes: first.gpuBytes,
  };
}

type Outputs = First['outputs'];

/** The largest difference among the outputs. */
function differenceOf(ours: Outputs, theirs: Outputs): Difference {
  let worst = { relative: 0, absolute: 0, output: Object.keys(theirs)[0] ?? '' };
  for (const [output, expected] of Object.entries(theirs)) {
    const actual = ours[output]!;
    if (actual.type !== expected.type || actual.dims.join() !== expected.dims.join()) {
      const complaint = `${describeOutput(actual)} here, ${describeOutput(expected)} there`;
      return { relative: null, absolute: null, output, complaint };
    }
    const difference = differenceOfElements(actual.data, expected.data);
    // Also where it is NaN
    if (!(difference.relative <= worst.relative)) worst = { ...difference, output };
  }
  return Number.isFinite(worst.relative)
    ? worst
    : { ...worst, relative: null, absolute: null, complaint: 'NaN or infinity in one alone' };
}

function describeOutput({ type, dims }: Output): string {
  return `${type} ${dims.join('x') || 'scalar'}`;
}

function differenceOfElements(
  actual: Output['data'],
  expected: Output['data'],
): { readonly relative: number; readonly absolute: number } {
  let [most, furthest] = [0, 0];
  for (let i = 0; i < expected.length; i++) {
    const [is, wanted] = [Number(actual[i]), Number(expected[i])];
    if (Number.isFinite(wanted)) most = Math.max(most, Math.abs(wanted));
    if (Object.is(is, wanted)) continue;
    furthest = Math.max(furthest, Math.abs(is - wanted));
  }
  return { relative: furthest === 0 ? 0 : furthest / (most || 1), absolute: furthest };
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
    row('memory', ({ residentBytes }) => inBytes(residentBytes)),
    ...(warpconv.gpuBytes === null
      ? []
      : [row('GPU memory', ({ gpuBytes }) => (gpuBytes === null ? '–' : inBytes(gpuBytes)))]),
  ];
  return [
    `${file} with ${describeInputs(plan.inputs)}; CPU threads: ${threads}\n`,
    describeAssumed(plan),
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
    return alone ? '' : 'onnxruntime-node is not installed here; to compare: npm install onnxruntime-node\n';
  if ('problem' in other) return `onnxruntime-node cannot run the model: ${other.problem}\n`;
  const ratio = other.p50 / own.p50;
  const devices = own.device === other.device ? '' : `, on ${other.device} instead of ${own.device}`;
  return `By p50, onnxruntime-node takes ${ratio.toFixed(2)} times as long${devices}.\n`;
}

function renderDifference(difference: Difference | null): string {
  if (difference === null) return '';
  const { relative, absolute, output, complaint } = difference;
  if (relative === null || absolute === null) return `Output '${output}' differs: ${complaint}.\n`;
  if (relative === 0) return 'The outputs are equal.\n';
  return `Outputs differ by at most ${absolute.toExponential(1)}, in '${output}': ${relative.toExponential(1)} of its largest element.\n`;
}

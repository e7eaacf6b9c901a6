/** `npx warpconv profile`: what each step of a model takes, as a table and as a trace. */
import { randomUUID } from 'node:crypto';
import { access, constants, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { command, Misuse } from './command';
import { describeAssumed, describeInputs, withAssumed, type InputPlan, type Request } from './feeds';
import {
  MODEL_OPTIONS,
  MODEL_OPTIONS_HELP,
  readCount,
  readPlace,
  readModelFile,
  readRequest,
  type Place,
} from './model_options';
import { makeFeeds, openModel } from './opened_model';
import { endProgress, showProgress } from './progress';
import { digits, table } from './table';
import { plural } from '../check';
import type { StepExplanation } from '../model/explain';
import { printable } from '../printable';

/** What `--json` prints. */
export interface ProfileResult {
  readonly file: string;
  readonly device: string;
  readonly inputs: InputPlan['inputs'];
  readonly assumed: readonly string[];
  readonly runs: number;
  /** In their order, each with the median of its times */
  readonly steps: readonly StepExplanation[];
  /** Of the medians */
  readonly milliseconds: number;
  /** The trace's file */
  readonly trace: string;
}

const DEFAULT_RUNS = 10;
const DEFAULT_TOP = 15;

const MICROSECONDS = 1000;

export const profileCommand = command({
  name: 'profile',
  summary: 'measure each step of an ONNX model, and write a trace for Chrome and Perfetto',
  synopsis: 'profile MODEL.onnx [options]',
  help: `
Measure each step of a model, print the slowest, and write a trace of the runs for chrome://tracing
and ui.perfetto.dev. Measuring its steps makes a run slower.

  --output FILE    the trace's file (default: MODEL_profile_DATE.json in the working directory)
  --runs N         runs to measure (default ${DEFAULT_RUNS})
  --top N          steps to print (default ${DEFAULT_TOP})
${MODEL_OPTIONS_HELP.slice(1)}
`,
  options: {
    ...MODEL_OPTIONS,
    ...{ output: { type: 'string' }, runs: { type: 'string' }, top: { type: 'string' } },
  },
  mostArguments: 1,
  async run({ json = false, output, ...args }, files) {
    const top = readCount('top', args.top) ?? DEFAULT_TOP;
    const request: ProfileRequest = {
      file: readModelFile('profile', files),
      request: readRequest(args),
      place: readPlace(args),
      threads: readCount('threads', args.threads, 1024),
      runs: readCount('runs', args.runs) ?? DEFAULT_RUNS,
      output,
    };
    try {
      const result = await profile(request);
      endProgress();
      process.stdout.write(json ? `${JSON.stringify(result, null, 2)}\n` : printable(render(result, top)));
      return 0;
    } finally {
      endProgress();
    }
  },
});

interface ProfileRequest {
  readonly file: string;
  readonly request: Request;
  readonly place: Place;
  readonly threads: number | undefined;
  readonly runs: number;
  readonly output: string | undefined;
}

async function profile(request: ProfileRequest): Promise<ProfileResult> {
  const { file, output } = request;
  const prefix = `${path.parse(file).name}_profile`;
  await requireWritable(output ?? prefix);
  if (output === undefined) return record(request, prefix);
  const result = await record(request, path.join(tmpdir(), randomUUID()));
  try {
    // Written and not moved there: what has the name may be a link, a pipe or a device.
    await writeFile(output, await readFile(result.trace));
    return { ...result, trace: output };
  } finally {
    await rm(result.trace);
  }
}

async function record(
  { file, request, runs, place, threads }: ProfileRequest,
  profileFilePrefix: string,
): Promise<ProfileResult> {
  const { session, plan } = await openModel(file, request, { ...place, threads, profileFilePrefix });
  const feeds = await makeFeeds(plan.inputs);
  showProgress('running it for the first time');
  await session.run(feeds).catch((error: unknown) => {
    throw withAssumed(error, plan);
  });
  session.startProfiling();
  for (let run = 0; run < runs; run++) {
    showProgress(`recording run ${run + 1} of ${runs}`);
    await session.run(feeds);
  }
  const trace = session.endProfiling()!;
  showProgress('measuring steps');
  const { device, steps } = await session.profile(feeds, { runs });
  await session.release();
  const milliseconds = steps.reduce((sum, step) => sum + (step.milliseconds ?? 0), 0);
  return { file: path.basename(file), device, ...plan, runs, steps, milliseconds, trace };
}

/** Before anything is measured. */
async function requireWritable(file: string): Promise<void> {
  if (file === '') throw new Misuse(`--output takes a file, got ''`);
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  if (found?.isDirectory()) throw new Misuse(`--output takes a file, and '${file}' is a folder`);
  await access(found === undefined ? path.dirname(file) : file, constants.W_OK);
}

function render(
  { file, device, runs, steps, milliseconds, trace, ...plan }: ProfileResult,
  top: number,
): string {
  const slowest = [...steps].sort((a, b) => timeOf(b) - timeOf(a)).slice(0, top);
  const rows = slowest.map((step) => [
    digits(MICROSECONDS * timeOf(step)),
    percent(timeOf(step), milliseconds),
    step.kind,
    step.algorithm ?? '',
    step.flops === undefined ? '' : digits(step.flops / timeOf(step) / 1e6),
    step.summary,
    step.nodes.join(' + '),
  ]);
  return [
    `${file} on ${device} with ${describeInputs(plan.inputs)}: ${plural(steps.length, 'step')}, ${digits(milliseconds)} ms; medians of ${plural(runs, 'run')}\n`,
    describeAssumed(plan),
    '\n',
    table(
      [['µs', 'part', 'kind', 'algorithm', 'GFLOP/s', 'what', 'nodes'], ...rows],
      ['µs', 'part', 'GFLOP/s'],
    ),
    `\n${partsOf(steps, milliseconds)}`,
    `The trace is in ${trace}; chrome://tracing and https://ui.perfetto.dev open it.\n`,
  ].join('');
}

function timeOf({ milliseconds = 0 }: StepExplanation): number {
  return milliseconds;
}

function percent(part: number, whole: number): string {
  return `${(whole === 0 ? 0 : (100 * part) / whole).toFixed(1)} %`;
}

/** For example `convolution 80.1 %, elementwise 12.0 %` */
function partsOf(steps: readonly StepExplanation[], milliseconds: number): string {
  const parts = new Map<string, number>();
  for (const step of steps) parts.set(step.kind, (parts.get(step.kind) ?? 0) + timeOf(step));
  const sorted = [...parts].sort(([, a], [, b]) => b - a);
  return `${sorted.map(([kind, time]) => `${kind} ${percent(time, milliseconds)}`).join(', ')}\n`;
}

/**
 * Real models, as npm packages have them, beside onnxruntime-node: whether each loads and agrees, what a run takes on one
 * thread of the CPU, what loading with the first run takes, and the memory that both need.
 *
 *     npm run zoo [-- --model silero] [--quick] [--write]
 *
 * `--write` stores the table of all models in bench/results, and what the tests expect of the small ones in expected_outputs.json.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { devices, InferenceSession, memory, setThreads, Tensor, type CpuInfo } from '../../lib';

import { installPackages } from '../command';
import { Progress } from '../progress';
import {
  circumstances,
  FOLDER as RESULTS,
  nameOf,
  softwareOf,
  writeJson,
  writeText,
  type Circumstances,
} from '../results';
import { geometricMean } from '../statistics';
import { expectationOf, SMALL_PACKAGES, writeExpected, type Expected } from './expected';
import { feedOf, hasOtherDims, zooModels, type Input, type ZooFeed, type ZooModel } from './models';

const FOLDER = __dirname;

interface Output {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint>;
}

type Outputs = Readonly<Record<string, Output>>;

interface Session {
  run(feeds: Record<string, never>): Promise<Outputs>;
  release(): Promise<void>;
}

/** What is used of onnxruntime-node. */
interface Runtime {
  readonly InferenceSession: { create(file: string, options: object): Promise<Session> };
  readonly Tensor: new (type: string, data: ZooFeed['data'], dims: readonly number[]) => object;
}

interface Contestant<S extends Session> {
  readonly open: (file: string) => Promise<S>;
  readonly tensor: (feed: ZooFeed) => object;
}

/** Milliseconds */
interface Times {
  readonly run: number;
  /** Of a session that is made and run once */
  readonly first: number;
  /** Of its first run with other dims, where a model takes them */
  readonly reshaped?: number;
}

interface Row {
  readonly model: string;
  readonly from: string;
  /** The largest difference as a part of the largest element */
  readonly difference?: number;
  /** The same between onnxruntime-node with and without its optimiser, which both round as they may */
  readonly theirOwn?: number;
  readonly ours?: Times;
  readonly theirs?: Times;
  /** Bytes of CPU memory that our session holds after a run */
  readonly bytes?: number;
  /** Of the small models: what onnxruntime-node gives */
  readonly expected?: Expected;
  /** Why there are no times */
  readonly refused?: string;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      model: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
  });
  const packages = install();
  const runtime = createRequire(path.join(FOLDER, 'main.js'))('onnxruntime-node') as Runtime;
  setThreads(1);
  const rows: Row[] = [];
  const models = zooModels(FOLDER, packages).filter(({ name }) => name.includes(values.model));
  const progress = new Progress('zoo', models.length, 'models');
  for (const model of models) {
    const row = await compare(model, runtime, values.quick ? 100 : 1000);
    progress.note(lineOf(row));
    rows.push(row);
    progress.show(rows.length);
  }
  const cpu = devices().find((device): device is CpuInfo => device.type === 'cpu')!;
  const about = circumstances(values.quick);
  const text = render(rows, cpu, about);
  process.stdout.write(text);
  if (!values.write || values.model !== '') {
    return console.error('zoo: not stored; a run with --write and without --model is, in bench/results');
  }
  const name = `${nameOf(about)}-zoo`;
  writeJson(name, { ...about, rows: rows.map(({ expected: _, ...row }) => row) });
  writeText(`${name}.md`, text);
  console.error(`zoo: wrote ${path.join(RESULTS, name)}.json and .md`);
  writeExpected(
    Object.fromEntries(rows.flatMap(({ model, expected }) => (expected ? [[model, expected]] : []))),
  );
}

/** @returns the names of the packages that have models */
function install(): string[] {
  installPackages(FOLDER);
  const { dependencies } = JSON.parse(readFileSync(path.join(FOLDER, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return Object.keys(dependencies).filter((name) => name !== 'onnxruntime-node');
}

const OURS: Contestant<InferenceSession & Session> = {
  open: (file) => InferenceSession.create(file, { device: 'cpu' }) as Promise<InferenceSession & Session>,
  tensor: ({ type, data, dims }) => new Tensor(type, data as never, dims),
};

function theirs(runtime: Runtime, optimised: boolean): Contestant<Session> {
  const options = {
    ...{ intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 },
    graphOptimizationLevel: optimised ? 'all' : 'disabled',
  };
  return {
    open: (file) => runtime.InferenceSession.create(file, options),
    tensor: ({ type, data, dims }) => new runtime.Tensor(type, data, dims),
  };
}

/** A session after its first run. */
class Opened<S extends Session> {
  private constructor(
    private readonly contestant: Contestant<S>,
    private readonly model: string,
    private readonly inputs: readonly Input[],
    readonly session: S,
    private readonly feeds: Record<string, never>,
    readonly outputs: Outputs,
    /** Milliseconds that loading and the run took */
    readonly first: number,
  ) {}

  /** @param inputs - those of the model, where the session itself is not asked */
  static async open<S extends Session>(
    contestant: Contestant<S>,
    { name, file }: ZooModel,
    inputsOf: (session: S) => readonly Input[],
  ): Promise<Opened<S>> {
    const begun = performance.now();
    const session = await contestant.open(file);
    const inputs = inputsOf(session);
    const feeds = feedsOf(contestant, name, inputs);
    const outputs = await session.run(feeds);
    return new Opened(contestant, name, inputs, session, feeds, outputs, performance.now() - begun);
  }

  run(): Promise<Outputs> {
    return this.session.run(this.feeds);
  }

  /** Milliseconds of one run with other dims, the first of those. */
  async reshaped(): Promise<number | undefined> {
    if (!hasOtherDims(this.model)) return undefined;
    const feeds = feedsOf(this.contestant, this.model, this.inputs, true);
    const begun = performance.now();
    await this.session.run(feeds);
    return performance.now() - begun;
  }
}

function feedsOf<S extends Session>(
  { tensor }: Contestant<S>,
  model: string,
  inputs: readonly Input[],
  others = false,
): Record<string, never> {
  const feeds = inputs.map((input) => [input.name, tensor(feedOf(model, input, others))]);
  return Object.fromEntries(feeds) as Record<string, never>;
}

async function compare(model: ZooModel, runtime: Runtime, milliseconds: number): Promise<Row> {
  const about = { model: model.name, from: model.from };
  try {
    const before = memory().cpu;
    const ours = await Opened.open(OURS, model, (session) => session.inputMetadata);
    const bytes = memory().cpu - before;
    const inputs = ours.session.inputMetadata;
    const other = await Opened.open(theirs(runtime, true), model, () => inputs);
    const plain = await Opened.open(theirs(runtime, false), model, () => inputs);
    const [run, theirRun] = (await inTurns([() => ours.run(), () => other.run()], milliseconds)) as [
      number,
      number,
    ];
    const row = {
      ...about,
      difference: differenceOf(ours.outputs, other.outputs),
      theirOwn: differenceOf(plain.outputs, other.outputs),
      bytes,
      expected: SMALL_PACKAGES.includes(model.from) ? expectationOf(other.outputs) : undefined,
      ours: { run, first: ours.first, reshaped: await ours.reshaped() },
      theirs: { run: theirRun, first: other.first, reshaped: await other.reshaped() },
    };
    for (const { session } of [ours, other, plain]) await session.release();
    return row;
  } catch (error) {
    return { ...about, refused: (error as Error).message.replaceAll('\n', ' ') };
  }
}

/** @throws where an output is of another type or of other dims */
function differenceOf(ours: Outputs, theirs: Outputs): number {
  let worst = 0;
  for (const [name, expected] of Object.entries(theirs)) {
    const actual = ours[name]!;
    if (actual.type !== expected.type || actual.dims.join() !== expected.dims.join()) {
      throw new Error(
        `${name} is ${actual.type} [${actual.dims.join(', ')}], and onnxruntime's ${expected.type} [${expected.dims.join(', ')}]`,
      );
    }
    let [most, furthest] = [0, 0];
    for (let i = 0; i < expected.data.length; i++) {
      const wanted = Number(expected.data[i]);
      most = Math.max(most, Math.abs(wanted));
      furthest = Math.max(furthest, Math.abs(Number(actual.data[i]) - wanted));
    }
    worst = Math.max(worst, furthest / (most || 1));
  }
  return worst;
}

/** Milliseconds, of a contestant's turn */
const TURN = 25;

/**
 * The median of each, in turns of several runs: a program has one runtime. Were each run followed by one of the other's,
 * onnxruntime-node's would hold the event loop up, and to ours the next run would look like one of many that wait.
 */
async function inTurns(
  contestants: readonly (() => Promise<unknown>)[],
  milliseconds: number,
): Promise<number[]> {
  const times = contestants.map((): number[] => []);
  const end = performance.now() + milliseconds * contestants.length;
  for (let round = 0; round < 4 || performance.now() < end; round++) {
    for (let k = 0; k < contestants.length; k++) {
      const which = (round + k) % contestants.length;
      times[which]!.push(...(await turnOf(contestants[which]!)));
    }
  }
  return times.map((list) => list.sort((a, b) => a - b)[list.length >> 1]!);
}

/** What each of its runs took, without the first, which finds the other's data in the caches. */
async function turnOf(contestant: () => Promise<unknown>): Promise<number[]> {
  await contestant();
  const times: number[] = [];
  const end = performance.now() + TURN;
  do {
    const begun = performance.now();
    await contestant();
    times.push(performance.now() - begun);
  } while (performance.now() < end);
  return times;
}

function lineOf({ model, ours, theirs, refused }: Row): string {
  if (ours === undefined || theirs === undefined) return `${model}: ${refused}`;
  return `${model}: ${ours.run.toFixed(3)} ms, onnxruntime-node ${theirs.run.toFixed(3)} ms`;
}

const number = (value: number) => (value < 10 ? value.toFixed(3) : value.toFixed(1));

function render(rows: readonly Row[], cpu: CpuInfo, about: Circumstances): string {
  const compared = rows.filter((row) => row.ours !== undefined && row.theirs !== undefined);
  const ratios = compared.map(({ ours, theirs }) => theirs!.run / ours!.run);
  const lines = compared.map(({ model, from, ours, theirs, difference, theirOwn, bytes }, i) => {
    const cells = [
      ...[model, from, number(ours!.run), number(theirs!.run), `${ratios[i]!.toFixed(2)} ×`],
      ...[
        ours!.first.toFixed(0),
        theirs!.first.toFixed(0),
        ours!.reshaped?.toFixed(1) ?? '–',
        theirs!.reshaped?.toFixed(1) ?? '–',
        (bytes! / 2 ** 20).toFixed(1),
        difference!.toExponential(1),
        theirOwn!.toExponential(1),
      ],
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const refused = rows.filter((row) => row.refused !== undefined);
  return `${[
    '# Models of npm packages',
    '',
    `One thread, ${cpu.isa}, ${softwareOf(about)}: milliseconds of one run, the median of turns; above 1 × this package is faster.`,
    'The first run is with loading; new dims: the first run with others. The difference is the largest one, as a part of the largest',
    'element of its output; beside it is that of onnxruntime-node with its optimiser to itself without.',
    '',
    '| model | package | ours | onnxruntime-node | ratio | first | theirs | new dims | theirs | MiB | difference | theirs |',
    '| - | - | -: | -: | -: | -: | -: | -: | -: | -: | -: | -: |',
    ...lines,
    '',
    `Geometric mean: ${compared.length === 0 ? '–' : `${geometricMean(ratios).toFixed(2)} ×`} over ${compared.length} models.`,
    ...refused.map(({ model, from, refused: why }) => `\nNot run: ${model} of ${from}: ${why}`),
    '',
  ].join('\n')}`;
}

void main();

/**
 * Whole networks by InferenceSession. On the CPU at batch 1: ours against onnxruntime-node, whose run() blocks the
 * JavaScript thread as our runSync() does, and against ours with every convolution by im2col; and our run(), which goes
 * to other threads and back. On a GPU: against PyTorch (bench/gpu_networks.ts). Results are checked against PyTorch's in double
 * precision before they are timed. Writes bench/results/<machine>-<date>-networks.json and .md.
 *
 *     python3 scripts/export_networks.py networks
 *     npx ts-node bench/networks.ts [--folder networks] [--network resnet50] [--quick] [--threads 1]
 *     npx ts-node bench/networks.ts --device cuda [--folder networks] [--network resnet50] [--quick] [--batch 1,128] [--out FOLDER]
 *     npx ts-node bench/networks.ts --check [--device cpu|cuda] [--folder networks] [--network resnet50] [--batch 1,128]
 *
 * `--check` times nothing: it says for each network how far ours is off, and ends with exit code 1 where that is too far.
 */
import { fork } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { InferenceSession, setThreads, Tensor, type Device } from 'warpconv';

import { ROOT } from './command';
import { timeInTurns, type Contender } from './contenders';
import { readBatch } from './gpu_machine';
import { benchGpuNetworks, checkNetworks } from './gpu_networks';
import { batchOf, errorOf, IMAGE_DIMS, modelOf, networksIn, TOLERANCE } from './network_files';
import { circumstances, FOLDER, nameOf, writeJson, writeText, type Circumstances } from './results';
import { geometricMean } from './statistics';

interface Request {
  readonly file: string;
  readonly threads: number;
  readonly contenders: readonly string[];
  readonly quick: boolean;
}

type Times = Readonly<Record<string, number>>;

interface NetworkResult {
  readonly network: string;
  readonly threads: number;
  /** Milliseconds of one run by contender */
  readonly ms: Times;
}

interface NetworksResult extends Circumstances {
  readonly networks: readonly NetworkResult[];
}

const DIMS = [1, ...IMAGE_DIMS];
const OURS = 'warpconv';
const ASYNCHRONOUS = 'warpconv, run()';
const IM2COL = 'warpconv, im2col';
const RUNTIME = 'onnxruntime-node';
const CONTENDERS = [OURS, ASYNCHRONOUS, RUNTIME, IM2COL];

interface Runtime {
  readonly Tensor: new (type: string, data: Float32Array, dims: readonly number[]) => object;
  readonly InferenceSession: {
    create(
      file: string,
      options: object,
    ): Promise<{ run(feeds: object): Promise<{ output: { data: unknown } }>; release(): Promise<void> }>;
  };
}

async function contender(name: string, file: string, threads: number): Promise<Contender> {
  const input = batchOf(file, 1);
  let output = new Float32Array();
  const keep = ({ output: result }: { readonly output?: { readonly data: unknown } }) =>
    (output = result!.data as Float32Array<ArrayBuffer>);
  if (name === RUNTIME) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- a package of its own, which users never install
    const runtime = require(path.join(__dirname, 'rivals/node_modules/onnxruntime-node')) as Runtime;
    const options = { intraOpNumThreads: threads, interOpNumThreads: 1 };
    const session = await runtime.InferenceSession.create(file, options);
    const feeds = { input: new runtime.Tensor('float32', input, DIMS) };
    const run = async () => keep(await session.run(feeds));
    return { name, run, output: () => output, release: () => session.release() };
  }
  setThreads(threads);
  const algorithm = name === IM2COL ? 'im2col' : 'auto';
  const session = await InferenceSession.create(file, { device: 'cpu', algorithm });
  const feeds = { input: new Tensor('float32', input, DIMS) };
  // Compiles for one image; runSync() does not.
  await session.run(feeds);
  const runSync = () => keep(session.runSync(feeds));
  const run = async () => keep(await session.run(feeds));
  return {
    name,
    run: name === ASYNCHRONOUS ? run : runSync,
    output: () => output,
    release: () => session.release(),
  };
}

async function verify({ name, run, output }: Contender, file: string): Promise<void> {
  await run();
  const error = errorOf(file, 1, output());
  if (error <= TOLERANCE) return;
  throw new Error(`${name} is off by ${error} of the largest output on ${path.basename(file)}`);
}

/** In a process of its own, whose threads nobody else's disturb. */
async function measureHere({ file, threads, contenders, quick }: Request): Promise<Times> {
  const all = await Promise.all(contenders.map((name) => contender(name, file, threads)));
  for (const one of all) await verify(one, file);
  const times = await timeInTurns(all, quick ? { rounds: 3, turn: 50 } : { rounds: 9, turn: 300 });
  for (const { release } of all) await release();
  return times;
}

function measure(request: Request): Promise<Times> {
  const child = fork(__filename, [], { cwd: ROOT, execArgv: ['-r', 'ts-node/register'] });
  return new Promise((resolve, reject) => {
    child.once('message', (times: Times) => {
      child.disconnect();
      resolve(times);
    });
    child.once('exit', (code) => reject(new Error(`the measuring process ended with ${code}`)));
    child.send(request);
  });
}

/** One thread: interleaved in one process. Several: one after the other, since rivals' threads spin on after a call. */
async function measureAll(request: Omit<Request, 'contenders'>): Promise<Times> {
  const groups = request.threads === 1 ? [CONTENDERS] : CONTENDERS.map((name) => [name]);
  let times: Times = {};
  for (const contenders of groups) times = { ...times, ...(await measure({ ...request, contenders })) };
  return times;
}

/** How many times as fast the second is as the first. */
type Comparison = readonly [title: string, slower: string, faster: string];
const COMPARISONS: readonly Comparison[] = [
  ['over onnxruntime-node', RUNTIME, OURS],
  ['run() over it', RUNTIME, ASYNCHRONOUS],
  ['over im2col', IM2COL, OURS],
];

function render(result: NetworksResult): string {
  const lines = [
    `# Whole networks on ${result.cpu.name}, ${result.date}`,
    '',
    `Batch 1, float32, ${result.cpu.isa}, Node.js ${result.node}: milliseconds of one run, the median of nine turns. Above 1 ×`,
    "warpconv is faster. `warpconv` is runSync(), which computes on the JavaScript thread, as onnxruntime-node's run() does and",
    'so does `im2col`; our run() hands the network to another thread and waits for it. By `npx ts-node bench/networks.ts`.',
  ];
  const titles = [...CONTENDERS, ...COMPARISONS.map(([title]) => title)];
  for (const threads of new Set(result.networks.map((row) => row.threads))) {
    const rows = result.networks.filter((row) => row.threads === threads);
    lines.push('', `## ${threads} thread${threads === 1 ? '' : 's'}`, '');
    lines.push(`| network | ${titles.join(' | ')} |`, `| --- |${' --- |'.repeat(titles.length)}`);
    for (const { network, ms } of rows) {
      const times = CONTENDERS.map((name) => ms[name]!.toFixed(1));
      lines.push(`| ${network} | ${[...times, ...COMPARISONS.map((one) => ratio(ms, one))].join(' | ')} |`);
    }
    const means = COMPARISONS.map(([, slower, faster]) =>
      geometricMean(rows.map(({ ms }) => ms[slower]! / ms[faster]!)).toFixed(2),
    );
    lines.push(`| geometric mean | ${[...CONTENDERS.map(() => ''), ...means].join(' | ')} |`);
  }
  return `${lines.join('\n')}\n`;
}

function ratio(ms: Times, [, slower, faster]: Comparison): string {
  return (ms[slower]! / ms[faster]!).toFixed(2);
}

async function benchCpuNetworks(
  folder: string,
  names: readonly string[],
  counts: readonly number[],
  quick: boolean,
): Promise<void> {
  const about = circumstances(quick);
  const networks: NetworkResult[] = [];
  for (const threads of counts) {
    for (const network of names) {
      const file = modelOf(folder, network);
      networks.push({ network, threads, ms: await measureAll({ file, threads, quick }) });
      process.stderr.write(`\r${networks.length} of ${names.length * counts.length} networks`);
    }
  }
  process.stderr.write('\n');
  const result: NetworksResult = { ...about, networks };
  const name = `${nameOf(result)}-networks`;
  writeJson(name, result);
  writeText(`${name}.md`, render(result));
  console.log(render(result));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      device: { type: 'string', default: 'cpu' },
      folder: { type: 'string', default: 'networks' },
      network: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      threads: { type: 'string', multiple: true, default: ['1', '2'] },
      batch: { type: 'string', default: '1,128' },
      out: { type: 'string', default: FOLDER },
    },
  });
  const { folder, quick, out } = values;
  const names = networksIn(folder, values.network);
  const subjects = { folder, names, batches: values.batch.split(',').map(readBatch) };
  if (values.check) return checkNetworks(values.device as Device, subjects);
  if (values.device === 'cpu') return benchCpuNetworks(folder, names, values.threads.map(Number), quick);
  return benchGpuNetworks(values.device as Exclude<Device, 'cpu'>, subjects, {
    quick,
    out: path.resolve(out),
  });
}

if (process.send === undefined) {
  void main().catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  });
} else {
  process.once('message', (request: Request) => {
    void measureHere(request).then((times) => process.send!(times));
  });
}

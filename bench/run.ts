/**
 * `npm run bench`: ours against im2col + OpenBLAS, oneDNN and onnxruntime-node, interleaved on every layer with one thread
 * and one after the other with several. Results are checked before they are timed. Writes bench/results/<machine>-<date>.json, the
 * report beside it and the plot of all speed-ups.
 *
 *     npm run bench -- [--group sconv-393] [--threads 1] [--quick]
 *     npm run bench -- --report bench/results/NAME.json    writes the report of an earlier run anew
 */
import { spawnSync, fork } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { devices, type CpuInfo } from 'warpconv';

import { GROUPS } from './layers';
import type { MeasureMessage, MeasureRequest } from './measure';
import { plotSpeedups } from './plot';
import { renderReport, type BenchResult, type ThreadsResult } from './report';

const ROOT = path.resolve(__dirname, '..');
const RIVALS = path.join(__dirname, 'rivals');

function run(command: string, ...args: string[]): void {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed\n${stdout}${stderr}`);
}

/** The rivals have a package of their own, so that users of warpconv never install them. */
function installRivals(): void {
  process.stderr.write('bench: rivals …');
  run('npm', '--prefix', RIVALS, 'ci', '--ignore-scripts', '--no-fund', '--no-audit');
  const cmakeJs = path.join(ROOT, 'node_modules/cmake-js/bin/cmake-js');
  run(
    process.execPath,
    cmakeJs,
    'compile',
    '-d',
    RIVALS,
    '-O',
    path.join(RIVALS, 'build'),
    '--config',
    'Release',
  );
  process.stderr.write(' ready\n');
}

/** Numbers of threads reach the rivals through their environment. */
function rivalEnvironment(cpu: CpuInfo, threads: number): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = { ...process.env, OMP_NUM_THREADS: String(threads) };
  // OpenBLAS falls back to its AVX2 kernels on processors newer than itself; these are faster.
  if (cpu.features.includes('avx512f')) environment.OPENBLAS_CORETYPE ??= 'SkylakeX';
  return environment;
}

function showProgress(done: number, total: number, threads: number): void {
  if (!process.stderr.isTTY) return;
  const filled = Math.round((30 * done) / total);
  const bar = '█'.repeat(filled).padEnd(30, '░');
  process.stderr.write(`\r${threads} thread${threads === 1 ? ' ' : 's'} ${bar} ${done}/${total} layers`);
  if (done === total) process.stderr.write('\n');
}

function measure(cpu: CpuInfo, request: MeasureRequest): Promise<ThreadsResult> {
  const child = fork(path.join(__dirname, 'measure.ts'), {
    cwd: ROOT,
    env: rivalEnvironment(cpu, request.threads),
    execArgv: ['-r', 'ts-node/register'],
  });
  return new Promise((resolve, reject) => {
    let [peak, total] = [NaN, 0];
    const layers: ThreadsResult['layers'][number][] = [];
    child.on('message', (message: MeasureMessage) => {
      if (message.kind === 'begin') {
        [peak, total] = [message.peak, message.layers];
        message.missing.forEach((what) => console.error(`bench: without ${what}`));
      } else {
        layers.push({ ...message.layer, ms: message.ms });
        showProgress(layers.length, total, request.threads);
      }
    });
    child.on('exit', (code) => {
      if (code === 0 && layers.length === total)
        resolve({ threads: request.threads, fmaPeakGflops: peak, layers });
      else
        reject(
          new Error(`the measuring process ended with ${code} after ${layers.length} of ${total} layers`),
        );
    });
    child.send(request);
  });
}

const CONTENDERS = ['warpconv', 'im2col+OpenBLAS', 'oneDNN', 'onnxruntime-node'];

/**
 * One thread: all contenders in one process, interleaved. Several: a process for each, because the threads of OpenBLAS,
 * OpenMP and onnxruntime spin for long after a call and would take the processors from whoever is next.
 */
async function measureAll(cpu: CpuInfo, request: Omit<MeasureRequest, 'contenders'>): Promise<ThreadsResult> {
  const processes = request.threads === 1 ? [CONTENDERS] : CONTENDERS.map((contender) => [contender]);
  const results: ThreadsResult[] = [];
  for (const contenders of processes) results.push(await measure(cpu, { ...request, contenders }));
  const layers = results[0]!.layers.map((layer, index) => ({
    ...layer,
    ms: Object.assign({}, ...results.map((result) => result.layers[index]!.ms)) as Record<string, number>,
  }));
  return { ...results[0]!, layers };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      group: { type: 'string', multiple: true, default: [...GROUPS] },
      threads: { type: 'string', multiple: true, default: ['1', '2'] },
      quick: { type: 'boolean', default: false },
      report: { type: 'string' },
    },
  });
  installRivals();
  if (values.report !== undefined) {
    return write(
      path.parse(values.report).name,
      JSON.parse(readFileSync(values.report, 'utf8')) as BenchResult,
    );
  }
  const cpu = devices()[0] as CpuInfo;
  const counts = values.threads.map(Number).filter((threads) => threads <= cpu.cores);
  const runs: ThreadsResult[] = [];
  for (const threads of counts) {
    runs.push(await measureAll(cpu, { groups: values.group, threads, quick: values.quick }));
  }
  const date = new Date().toISOString().slice(0, 10);
  const result: BenchResult = { date, node: process.version, cpu, quick: values.quick, runs };
  await write(`${cpu.name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}-${date}`, result);
}

async function write(name: string, result: BenchResult): Promise<void> {
  const file = path.join(__dirname, 'results', name);
  mkdirSync(path.dirname(file), { recursive: true });
  const report = renderReport(result, path.basename(file));
  writeFileSync(`${file}.json`, `${JSON.stringify(result, null, 1)}\n`);
  writeFileSync(`${file}.md`, report);
  writeFileSync(`${file}.svg`, await plotSpeedups(result));
  console.log(report);
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

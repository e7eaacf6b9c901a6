/**
 * The CPU part of `npm run bench`: ours against im2col + OpenBLAS, oneDNN and onnxruntime-node, interleaved on every layer with one thread
 * and one after the other with several; then what packing takes (bench/cpu/packing.ts) and what each idea brings
 * (bench/cpu/ablation.ts). Results are checked before they are timed. Writes bench/results/<machine>-<date>.json, the report beside
 * it and its pictures; of a part of the groups or of the threads, or quickly, the report is printed only, lest it take the place
 * of the whole.
 *
 *     npm run bench -- --device cpu [--group sconv-393] [--threads 1] [--quick]
 *     npm run bench -- --report bench/results/NAME.json    writes the report of an earlier run anew, with what was measured since
 */
import { fork } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { devices, type CpuInfo } from 'warpconv';

import type { AblationResult, CacheResult, PackingResult } from './engine_results';
import { ROOT, runScript } from '../command';
import { GROUPS } from '../layers';
import type { MeasureBegin, MeasureMessage, MeasureRequest } from './measure';
import { readThreads, requireKnown } from '../options';
import { plotPacking, plotSpeedups } from '../plot';
import { showProgress } from '../progress';
import { isCpuResult, renderReport, type BenchResult, type ThreadsResult } from './report';
import { installPackages, installRivals, rivalEnvironment } from '../rivals';
import { circumstances, FOLDER, nameOf, readJson, writeJson, writePicture, writeText } from '../results';

function measure(cpu: CpuInfo, request: MeasureRequest): Promise<ThreadsResult> {
  const child = fork(path.join(__dirname, 'measure.ts'), {
    cwd: ROOT,
    env: rivalEnvironment(cpu, request.threads),
    execArgv: ['-r', 'ts-node/register'],
  });
  return new Promise((resolve, reject) => {
    let begun: MeasureBegin | undefined;
    const layers: ThreadsResult['layers'][number][] = [];
    child.on('message', (message: MeasureMessage) => {
      if (message.kind === 'begin') {
        begun = message;
        message.missing.forEach((what) => console.error(`bench: without ${what}`));
      } else {
        layers.push({ ...message.layer, ms: message.ms });
        const title = `${request.threads} thread${request.threads === 1 ? ' ' : 's'}`;
        showProgress(title, layers.length, begun!.layers, 'layers');
      }
    });
    child.on('exit', (code) => {
      if (code === 0 && layers.length === begun?.layers) {
        const { peak, versions } = begun;
        resolve({ threads: request.threads, fmaPeakGflops: peak, versions, layers });
      } else {
        const of = begun === undefined ? '' : ` of ${begun.layers}`;
        reject(new Error(`the measuring process ended with ${code} after ${layers.length}${of} layers`));
      }
    });
    child.send(request);
  });
}

/** Of threads, as far as the machine has so many */
const COUNTS = [1, 2];

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

/** What is measured of the engine itself. */
const PARTS = ['cpu/packing.ts', 'cpu/ablation.ts'];

interface CpuRequest {
  readonly groups: readonly string[];
  readonly counts: readonly number[];
  readonly quick: boolean;
  /** Whether it is of all groups and of the usual threads */
  readonly isWhole: boolean;
  /** The files of earlier results, which are rendered or drawn instead of measuring */
  readonly report: string | undefined;
  readonly pictures: string | undefined;
}

/** @param args - of the command line */
export function readCpuRequest(args: readonly string[], cores: number): CpuRequest {
  const { values } = parseArgs({
    args: [...args],
    options: {
      group: { type: 'string', multiple: true },
      threads: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      report: { type: 'string' },
      pictures: { type: 'string' },
    },
  });
  const { group, threads, quick, report, pictures } = values;
  const counts = threads?.map((text) => readThreads(text, cores)) ?? COUNTS.filter((count) => count <= cores);
  requireKnown('group', group ?? [], GROUPS, 'on a GPU the bench has other groups');
  const isWhole = group === undefined && threads === undefined;
  return { groups: group ?? GROUPS, counts, quick, isWhole, report, pictures };
}

/** @param args - of the command line */
export async function benchCpu(args: readonly string[]): Promise<void> {
  const { cores } = devices()[0] as CpuInfo;
  const { groups, counts, quick, isWhole, report, pictures } = readCpuRequest(args, cores);
  if (pictures !== undefined) return drawStored(pictures);
  if (report !== undefined) return renderStored(report);
  installRivals();
  const about = circumstances(quick);
  const runs: ThreadsResult[] = [];
  for (const threads of counts) runs.push(await measureAll(about.cpu, { groups, threads, quick }));
  const result: BenchResult = { ...about, runs };
  return isWhole && !quick ? store(result) : print(result, isWhole);
}

async function store(result: BenchResult): Promise<void> {
  const name = nameOf(result);
  writeJson(name, result);
  for (const script of PARTS) runScript(script, ['--name', name]);
  console.log(writeReport(result, name, FOLDER));
}

function print(result: BenchResult, isWhole: boolean): void {
  console.log(renderReport(result, nameOf(result), {}));
  if (isWhole) for (const script of PARTS) runScript(script, ['--quick']);
  console.error('bench: not stored; a run without --group, --threads and --quick is');
}

export function readCpuResult(file: string): BenchResult {
  const { dir, name } = path.parse(path.resolve(file));
  const result = readJson<object>(name, dir);
  if (result !== undefined && isCpuResult(result)) return result;
  throw new Error(`${file} is not a result of this bench, which is called <machine>-<date>.json`);
}

function renderStored(file: string): void {
  const { dir, name } = path.parse(path.resolve(file));
  console.log(writeReport(readCpuResult(file), name, dir));
}

async function drawStored(file: string): Promise<void> {
  const result = readCpuResult(file);
  installPackages();
  const { dir, name } = path.parse(path.resolve(file));
  writePicture(name, await plotSpeedups(result));
  const packing = readJson<PackingResult>(`${name}-packing`, dir);
  if (packing !== undefined) writePicture(`${name}-packing`, await plotPacking(packing));
}

/** With all that was measured under that name. */
function writeReport(result: BenchResult, name: string, folder: string): string {
  const packing = readJson<PackingResult>(`${name}-packing`, folder);
  const ablation = readJson<AblationResult>(`${name}-ablation`, folder);
  const cache = readJson<CacheResult>(`${name}-cache`, folder);
  const report = renderReport(result, name, { packing, ablation, cache });
  writeText(`${name}.md`, report, folder);
  return report;
}

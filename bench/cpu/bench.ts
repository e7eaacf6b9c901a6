/**
 * The CPU part of `npm run bench`: ours against im2col + OpenBLAS, oneDNN and onnxruntime-node, interleaved on every layer with one thread
 * and one after the other with several; then what packing takes (bench/cpu/packing.ts) and what each idea brings
 * (bench/cpu/ablation.ts). Results are checked before they are timed. Writes bench/results/<machine>-<date>.json and the report
 * beside it, in one step each once all is measured. A quick run is of the speeds alone, on one layer in eight, and writes
 * <machine>-<date>-quick. Of a part of the groups or of the threads the report is printed only, unless --out names a folder,
 * lest it take the place of the whole.
 *
 *     npm run bench -- --device cpu [--group sconv-393] [--threads 1] [--quick] [--out FOLDER]
 *     npm run bench -- --report bench/results/NAME.json    writes the report of an earlier run anew, with what was measured since
 */
import { fork } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { devices, type CpuInfo } from 'warpconv';

import type { AblationResult, CacheResult, PackingResult } from './engine_results';
import { installPackages, ROOT, runScript } from '../command';
import { GROUPS, layersOf, QUICK_STEP, shapesOf, type Layer } from '../layers';
import type { MeasureBegin, MeasureMessage, MeasureRequest } from './measure';
import { readThreads, requireKnown } from '../options';
import { plotPacking, plotSpeedups } from '../plot';
import { Progress } from '../progress';
import { isCpuResult, renderReport, type BenchResult, type LayerResult, type ThreadsResult } from './report';
import { installRivals, RIVALS, rivalEnvironment } from '../rivals';
import { circumstances, FOLDER, nameOf, readJson, writeJson, writePicture, writeText } from '../results';
import { sum } from '../statistics';

/** Of threads, as far as the machine has so many */
const COUNTS = [1, 2];

const CONTENDERS = ['warpconv', 'im2col+OpenBLAS', 'oneDNN', 'onnxruntime-node'];

/** What one process measures: some contenders with a number of threads, on all layers. */
type Pass = Pick<MeasureRequest, 'threads' | 'contenders'>;

/**
 * One thread: all contenders in one process, interleaved. Several: a process for each, because the threads of OpenBLAS,
 * OpenMP and onnxruntime spin for long after a call and would take the processors from whoever is next.
 */
function passesOf(threads: number): Pass[] {
  const processes = threads === 1 ? [CONTENDERS] : CONTENDERS.map((contender) => [contender]);
  return processes.map((contenders) => ({ threads, contenders }));
}

/** What a layer takes besides its multiplication, as multiply-adds: its tensors and plans, and the least that a turn lasts. */
const FIXED_WORK = 2e8;

/** What a process takes to start, the same way. */
const START_WORK = 4e9;

const workOf = ({ row }: Layer) => shapesOf(row).multiplyAdds + FIXED_WORK;

/** All passes over all layers. */
class Measurement {
  readonly #layers: readonly Layer[];
  readonly #progress: Progress;
  readonly #work: number;
  #done = 0;
  #workDone = 0;

  constructor(
    private readonly cpu: CpuInfo,
    private readonly request: Pick<MeasureRequest, 'groups' | 'quick'>,
    private readonly counts: readonly number[],
  ) {
    this.#layers = layersOf(request.groups, request.quick);
    const passes = counts.flatMap(passesOf);
    const layersWork = sum(this.#layers.map(workOf));
    this.#work = sum(passes.map(({ contenders }) => START_WORK + contenders.length * layersWork));
    this.#progress = new Progress('bench', passes.length * this.#layers.length, 'layers');
  }

  async finish(): Promise<ThreadsResult[]> {
    const runs: ThreadsResult[] = [];
    for (const threads of this.counts) runs.push(await this.#measureAll(threads));
    return runs;
  }

  async #measureAll(threads: number): Promise<ThreadsResult> {
    const results: ThreadsResult[] = [];
    for (const pass of passesOf(threads)) results.push(await this.#measure(pass));
    const layers = results[0]!.layers.map((layer, index) => ({
      ...layer,
      ms: Object.assign({}, ...results.map((result) => result.layers[index]!.ms)) as Record<string, number>,
    }));
    return { ...results[0]!, layers };
  }

  #measure(pass: Pass): Promise<ThreadsResult> {
    const { threads, contenders } = pass;
    const child = fork(path.join(__dirname, 'measure.ts'), {
      cwd: ROOT,
      env: rivalEnvironment(this.cpu, threads),
      execArgv: ['-r', 'ts-node/register'],
    });
    return new Promise((resolve, reject) => {
      let begun: MeasureBegin | undefined;
      const layers: LayerResult[] = [];
      child.on('message', (message: MeasureMessage) => {
        if (message.kind === 'begin') {
          begun = message;
          this.#workDone += START_WORK;
          message.missing.forEach((what) => this.#progress.note(`bench: without ${what}`));
        } else {
          layers.push({ ...message.layer, ms: message.ms });
          this.#workDone += contenders.length * workOf(message.layer);
          this.#progress.show(++this.#done, this.#workDone / this.#work);
        }
      });
      child.on('exit', (code) => {
        const total = this.#layers.length;
        if (code === 0 && begun !== undefined && layers.length === total) {
          const { peak, versions } = begun;
          resolve({ threads, fmaPeakGflops: peak, versions, layers });
        } else {
          reject(
            new Error(`the measuring process ended with ${code} after ${layers.length} of ${total} layers`),
          );
        }
      });
      child.send({ ...this.request, ...pass } satisfies MeasureRequest);
    });
  }
}

/** What is measured of the engine itself. */
const PARTS = ['cpu/packing.ts', 'cpu/ablation.ts'];

interface CpuRequest {
  readonly groups: readonly string[];
  readonly counts: readonly number[];
  readonly quick: boolean;
  /** Whether it is of all groups and of the usual threads */
  readonly isWhole: boolean;
  /** Where results go; nothing where they are printed only */
  readonly folder: string | undefined;
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
      out: { type: 'string' },
      report: { type: 'string' },
      pictures: { type: 'string' },
    },
  });
  const { group, threads, quick, out, report, pictures } = values;
  const counts = threads?.map((text) => readThreads(text, cores)) ?? COUNTS.filter((count) => count <= cores);
  requireKnown('group', group ?? [], GROUPS, 'on a GPU the bench has other groups');
  const isWhole = group === undefined && threads === undefined;
  const folder = out === undefined ? (isWhole ? FOLDER : undefined) : path.resolve(out);
  return { groups: group ?? GROUPS, counts, quick, isWhole, folder, report, pictures };
}

/** What a run takes on two cores of a Zen 5: each process to start, and one of CONTENDERS for a layer. */
const START_SECONDS = 4;
const LAYER_SECONDS = 0.15;

function announce({ groups, counts, quick, isWhole }: CpuRequest): string {
  const layers = layersOf(groups, quick).length;
  const passes = counts.flatMap(passesOf);
  const turns = layers * sum(passes.map(({ contenders }) => contenders.length));
  const seconds = passes.length * START_SECONDS + turns * LAYER_SECONDS;
  const which = `${quick ? `one layer in ${QUICK_STEP}, ` : ''}${layers} layers, threads: ${counts.join(' and ')}`;
  const parts = isWhole && !quick ? ', then packing and ablation' : '';
  return `bench: ${which}; about ${Math.ceil(seconds / 60)} min on two cores${parts}`;
}

/** @param args - of the command line */
export async function benchCpu(args: readonly string[]): Promise<void> {
  const { cores } = devices()[0] as CpuInfo;
  const request = readCpuRequest(args, cores);
  const { groups, counts, quick, isWhole, folder, report, pictures } = request;
  if (pictures !== undefined) return drawStored(pictures);
  if (report !== undefined) return renderStored(report);
  console.error(announce(request));
  installRivals('rivals');
  const about = circumstances(quick);
  const runs = await new Measurement(about.cpu, { groups, quick }, counts).finish();
  const result: BenchResult = { ...about, runs };
  const name = `${nameOf(result)}${quick ? '-quick' : ''}`;
  if (folder === undefined) {
    console.log(renderReport(result, name, {}));
    return console.error(
      'bench: not stored, as it is of a part of the layers or threads; --out FOLDER stores it there',
    );
  }
  writeJson(name, result, folder);
  writeReport(result, name, folder);
  if (isWhole && !quick) for (const script of PARTS) runScript(script, ['--name', name, '--out', folder]);
  console.log(writeReport(result, name, folder));
  console.error(`bench: wrote ${path.join(folder, name)}.json and .md`);
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
  installPackages(RIVALS);
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

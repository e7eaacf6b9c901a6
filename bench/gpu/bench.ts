/**
 * The GPU part of `npm run bench`: the layers of bench/gpu/layers.ts, every family that accepts a layer against cuDNN's
 * best and im2col + cuBLAS, judged first and timed in turns. Writes bench/results/<gpu>-<date>.json after every layer, and
 * from it the report; with --precision fp16 <gpu>-<date>-fp16.json, and with --quick <gpu>-<date>-quick.json, lest it take the
 * place of what was measured thoroughly. What was measured on the same day before stays, unless it is measured again.
 *
 *     npm run bench -- [--precision fp16] [--layout nhwc] [--group mec12] [--layer conv1] [--batch 1] [--quick] [--json]
 *         [--out FOLDER] [--device cuda:0]
 *     npm run bench -- --report bench/results/NAME.json    writes the report of an earlier run anew
 *
 * `--json` prints the result instead of the report. Exit code 1: a layer failed, or has regressed from its newest thorough
 * measurement in the stored results of the same device (REGRESSION_THRESHOLD in result.ts).
 */
import { fork } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import type { Device, GpuInfo } from 'warpconv';

import { LAYOUTS } from '../../lib/conv2d/contest';

import { installPackages, ROOT } from '../command';
import { nameOfForm, selectLayers, USUAL_LAYOUT, type Form, type GpuLayer } from './layers';
import { clocksNow, findGpu } from './machine';
import type { Task } from './entries';
import type { GpuMeasureMessage, GpuMeasureRequest } from './measure';
import { gpuPictures } from './plot';
import { renderGpuReport, renderRegressions, summariseGroup, type CpuPart } from './report';
import {
  describeContestant,
  findFailures,
  findRegressions,
  groupLayers,
  SCHEMA,
  withBaseline,
  withLayer,
  type GpuBenchResult,
  type LayerResult,
  type RunInfo,
  type StoredResult,
} from './result';
import { formatJson } from '../json';
import { countLoadRequests } from './load_requests';
import { readBatch, readOne } from '../options';
import { toSvg } from '../plot';
import { Progress } from '../progress';
import { isCpuResult, type BenchResult } from '../cpu/report';
import { RIVALS } from '../rivals';
import { FOLDER, gpuFileName, readJson, slugOf, writePicture, writeText } from '../results';
import { versionNow } from '../version';

/** Of one layer, with the start of a process; nothing that goes well takes a tenth of this. */
const LONGEST_MILLISECONDS = 150_000;
/** Processes that may be lost before the rest is given up. */
const MOST_RESTARTS = 12;

interface Settings {
  readonly device: Exclude<Device, 'cpu'>;
  readonly form: Form;
  readonly folder: string;
  readonly quick: boolean;
  readonly json: boolean;
}

/** The results file of a day while a run adds to it. */
class ResultFile {
  readonly #name: string;
  readonly #run: number;
  #result: GpuBenchResult;

  constructor(
    gpu: GpuInfo,
    private readonly settings: Settings,
    private readonly stored: readonly StoredResult[],
  ) {
    const date = new Date().toISOString().slice(0, 10);
    const empty: GpuBenchResult = { schema: SCHEMA, date, gpu, runs: [], layers: [] };
    const name = gpuFileName(gpu.name!, date, settings.quick, nameOfForm(settings.form));
    // Wherever this is written, it may lie in bench/results one day.
    const isTaken = [FOLDER, settings.folder]
      .map((folder) => readJson<Partial<GpuBenchResult>>(name, folder))
      .some((present) => present !== undefined && present.schema !== SCHEMA);
    this.#name = isTaken ? `${name}-2` : name;
    this.#result = readJson<GpuBenchResult>(this.#name, settings.folder) ?? empty;
    this.#run = this.#result.runs.length;
    const run: RunInfo = {
      started: new Date().toISOString(),
      // Where a result was written to first says nothing to whoever reads it.
      arguments: process.argv.slice(2).map((one) => (path.isAbsolute(one) ? path.basename(one) : one)),
      quick: settings.quick,
      node: process.version,
      version: versionNow(),
      cudnn: '',
      cublas: '',
      clocks: clocksNow('before', settings.device),
    };
    this.#change({ runs: [...this.#result.runs, run] });
  }

  get name(): string {
    return this.#name;
  }
  get result(): GpuBenchResult {
    return this.#result;
  }
  /** Of this run alone. */
  get layers(): LayerResult[] {
    return this.#result.layers.filter(({ run }) => run === this.#run);
  }

  addLayer(layer: Omit<LayerResult, 'run'>): void {
    const judged = withBaseline({ ...layer, run: this.#run }, this.stored);
    this.#change({ layers: withLayer(this.#result.layers, judged) });
  }
  changeRun(change: Partial<RunInfo>): void {
    const run = this.#result.runs[this.#run]!;
    this.#change({ runs: this.#result.runs.with(this.#run, { ...run, ...change }) });
  }
  noteClocks(when: string): void {
    const { clocks } = this.#result.runs[this.#run]!;
    this.changeRun({ clocks: [...clocks, ...clocksNow(when, this.settings.device)] });
  }
  setLoadRequests(loadRequests: GpuBenchResult['loadRequests']): void {
    this.#change({ loadRequests });
  }

  #change(change: Partial<GpuBenchResult>): void {
    this.#result = { ...this.#result, ...change };
    writeText(`${this.#name}.json`, formatJson(this.#result, RESULT_DEPTH), this.settings.folder);
  }
}

const PRECISIONS = ['fp32', 'tf32', 'fp16', 'bf16'] as const;

/** A line for each field of a layer. */
const RESULT_DEPTH = 3;

/** Everything that is to be measured, through as many processes as it takes. */
class Measurement {
  #begun = performance.now();
  #ended = false;
  #restarts = 0;

  constructor(
    private tasks: Task[],
    private readonly settings: Settings,
    private readonly record: ResultFile,
  ) {}

  async finish(): Promise<void> {
    const total = this.tasks.length;
    const progress = new Progress('bench', total, 'layers');
    while (this.tasks.length > 0 && this.#restarts <= MOST_RESTARTS) {
      await this.#runProcess(() => progress.show(total - this.tasks.length));
      if (this.tasks.length > 0) this.#restarts++;
    }
    for (const { layer } of this.tasks)
      this.#fail(layer, 'not measured: too many processes were lost before');
  }

  /** Takes what was done off the list, one way or another at least the first, so that it ends. */
  #runProcess(showProgress: () => void): Promise<void> {
    const { device, quick } = this.settings;
    const asked = [...this.tasks];
    const child = fork(path.join(__dirname, 'measure.ts'), {
      cwd: ROOT,
      execArgv: ['-r', 'ts-node/register'],
    });
    this.#ended = false;
    this.#begun = performance.now();
    let trouble = '';
    const watch = setInterval(() => {
      if (performance.now() - this.#begun < LONGEST_MILLISECONDS) return;
      trouble = `took longer than ${LONGEST_MILLISECONDS / 1000} s`;
      child.kill('SIGKILL');
    }, 1000);
    return new Promise((resolve) => {
      child.on('message', (message: GpuMeasureMessage) => {
        this.#take(message, asked);
        showProgress();
      });
      child.on('error', (error) => (trouble = error.message));
      child.on('exit', (code, signal) => {
        clearInterval(watch);
        const lost = this.tasks[0];
        if (lost !== undefined && !this.#ended) {
          this.tasks = this.tasks.slice(1);
          this.#fail(
            lost.layer,
            `its process ended with ${signal ?? `code ${code}`}${trouble && `: ${trouble}`}`,
          );
        }
        resolve();
      });
      const request: GpuMeasureRequest = { device, tasks: asked, quick };
      child.send(request, () => undefined);
    });
  }

  #take(message: GpuMeasureMessage, asked: readonly Task[]): void {
    switch (message.kind) {
      case 'ceilings':
        return this.record.changeRun({ ceilings: message.ceilings });
      case 'begin':
        this.#begun = performance.now();
        return;
      case 'layer': {
        const { chosen, entries, cudnn, cublas } = message;
        this.record.changeRun({ cudnn, cublas });
        return this.#done(asked[message.task]!.layer, { chosen, entries });
      }
      case 'failure':
        return this.#done(asked[message.task]!.layer, { chosen: '', entries: [], failure: message.message });
      case 'spoiled':
        return this.#spoiled(asked[message.task]!, message);
    }
  }

  /** The layer is tried again without the one that did it, where that is known and was not tried yet. */
  #spoiled({ layer, without }: Task, { by, message }: GpuMeasureMessage & { kind: 'spoiled' }): void {
    if (by === undefined) {
      this.#done(layer, { chosen: '', entries: [], failure: message });
      this.#ended = true;
      return;
    }
    console.error(
      `bench: ${layer.group} ${layer.name}, batch ${layer.batch}: ${describeContestant(by)}: ${message}`,
    );
    this.tasks = [{ layer, without: [...without, by] }, ...this.tasks.slice(1)];
    this.#ended = true;
  }

  #done(layer: GpuLayer, measured: Pick<LayerResult, 'chosen' | 'entries' | 'failure'>): void {
    const { without } = this.tasks[0]!;
    const left = without.map((one) => ({ ...one, failure: 'brought CUDA down in its process' }));
    this.tasks = this.tasks.slice(1);
    this.#ended = this.tasks.length === 0;
    const seconds = (performance.now() - this.#begun) / 1000;
    this.record.addLayer({ ...layer, ...measured, entries: [...measured.entries, ...left], seconds });
    this.#closeGroup(layer);
  }

  #fail(layer: GpuLayer, failure: string): void {
    this.record.addLayer({ ...layer, chosen: '', entries: [], failure, seconds: 0 });
    this.#closeGroup(layer);
  }

  /** Where that was the last of its group: says how it went, and brings the report up to date. */
  #closeGroup({ group, batch }: GpuLayer): void {
    if (this.tasks.some(({ layer }) => layer.group === group && layer.batch === batch)) return;
    this.record.noteClocks(`after ${group}, batch ${batch}`);
    const own = groupLayers(this.record.layers).find((one) => one.group === group && one.batch === batch);
    if (own !== undefined) console.error(summariseGroup(own));
    writeReport(this.record.result, this.record.name, this.settings.folder);
  }
}

/** By file name, the newest last: a date is in it. */
function storedNames(folder: string): string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .map((file) => path.parse(file).name)
    .sort();
}

/** Of this device, to see what has become slower. */
function storedOf(gpu: GpuInfo): StoredResult[] {
  return storedNames(FOLDER)
    .filter((name) => name.startsWith(slugOf(gpu.name!)))
    .map((name) => ({ name, result: readJson<GpuBenchResult>(name)! }))
    .filter(({ result }) => result.schema === SCHEMA && result.gpu.name === gpu.name);
}

/** The newest of the CPU bench on that day, so that the report covers it, and a report that is made anew the same. */
function newestCpu(date: string): CpuPart | undefined {
  return storedNames(FOLDER)
    .map((name) => ({ name, result: readJson<BenchResult>(name)! }))
    .filter(({ result }) => isCpuResult(result) && !result.quick && result.date <= date)
    .sort((a, b) => a.result.date.localeCompare(b.result.date))
    .at(-1);
}

function writeReport(result: GpuBenchResult, name: string, folder: string): string {
  const report = renderGpuReport(result, name, newestCpu(result.date));
  writeText(`${name}.md`, report, folder);
  return report;
}

function readStored(file: string): {
  readonly result: GpuBenchResult;
  readonly name: string;
  readonly dir: string;
} {
  const { dir, name } = path.parse(path.resolve(file));
  const result = readJson<GpuBenchResult>(name, dir);
  if (result?.schema === SCHEMA) return { result, name, dir };
  throw new Error(
    `${file} is not a result of this bench (schema ${SCHEMA}); earlier reports stay as they are`,
  );
}

async function drawStored(file: string): Promise<void> {
  const { result, name } = readStored(file);
  installPackages(RIVALS);
  for (const [suffix, spec] of gpuPictures(result)) writePicture(`${name}-${suffix}`, await toSvg(spec));
}

/** @param args - of the command line */
export async function benchGpu(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      device: { type: 'string', default: 'cuda' },
      precision: { type: 'string', default: 'fp32' },
      layout: { type: 'string' },
      group: { type: 'string', multiple: true, default: [] },
      layer: { type: 'string', multiple: true, default: [] },
      batch: { type: 'string', multiple: true, default: [] },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      out: { type: 'string', default: FOLDER },
      report: { type: 'string' },
      pictures: { type: 'string' },
    },
  });
  if (values.pictures !== undefined) return drawStored(values.pictures);
  if (values.report !== undefined) {
    const { result, name, dir } = readStored(values.report);
    return console.log(writeReport(result, name, dir));
  }
  const { group: groups, layer: names, quick, json } = values;
  const precision = readOne('precision', values.precision, PRECISIONS);
  const layout = readOne('layout', values.layout ?? USUAL_LAYOUT[precision], LAYOUTS);
  const form = { precision, layout };
  const layers = selectLayers({ groups, names, batches: values.batch.map(readBatch), form });
  if (layers.length === 0) throw new Error('no layer is in all of --group, --layer and --batch');
  const device = values.device as Settings['device'];
  const settings = { device, form, folder: path.resolve(values.out), quick, json };
  const gpu = findGpu(device);
  const record = new ResultFile(gpu, settings, storedOf(gpu));
  const tasks = layers.map((layer) => ({ layer, without: [] }));
  await new Measurement(tasks, settings, record).finish();
  const isWhole = groups.length + names.length === 0;
  const isPlain = nameOfForm(form) === '';
  if (isWhole && isPlain && !quick) record.setLoadRequests(await countLoadRequests());
  const report = writeReport(record.result, record.name, settings.folder);
  console.log(json ? JSON.stringify(record.result) : report);
  judge(record.layers);
  console.error(`bench: wrote ${path.join(settings.folder, record.name)}.json and .md`);
  if (isWhole && isPlain) console.error('bench: the CPU is measured by npm run bench -- --device cpu');
}

function judge(layers: readonly LayerResult[]): void {
  const regressions = findRegressions(layers);
  const failures = findFailures(layers);
  if (regressions.length > 0) console.error(renderRegressions(regressions));
  if (failures.length > 0) console.error(['What failed:', ...failures].join('\n  '));
  if (regressions.length + failures.length > 0) process.exitCode = 1;
}

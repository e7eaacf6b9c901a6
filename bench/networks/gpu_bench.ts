/**
 * The GPU part of bench/networks/main.ts: InferenceSession against PyTorch (rivals/torch_networks.py), each in a process of its
 * own, in turns. Without Python, PyTorch, torchvision or NumPy the report goes without the rival, and says why. Writes
 * <gpu>-<date>-networks.json and .md after every network, with --quick <gpu>-<date>-networks-quick.json; what was measured
 * on the same day before stays, unless it is measured again.
 */
import path from 'node:path';

import type { Device, GpuInfo } from 'warpconv';

import { clocksNow, findGpu } from '../gpu/machine';
import { renderGpuNetworks, summariseNetwork } from './gpu_report';
import {
  FORMS,
  isCompiled,
  OTHER_FORMS,
  withNetwork,
  type GpuNetworksResult,
  type Form,
  type NetworkMeasurement,
  type NetworksRun,
  type OwnMeasurement,
  type RivalMeasurement,
  type TorchFacts,
} from './gpu_result';
import type { Precision } from '../../lib/conv2d/names';
import type { Quartiles } from '../gpu/result';
import { formatJson } from '../json';
import { LineProcess } from '../line_process';
import { modelOf } from './files';
import type { Loaded, Profile, Turn, TurnRequest } from './gpu_turns';
import { RIVALS } from '../rivals';
import { gpuFileName, readJson, writeText } from '../results';
import { quantile } from '../statistics';
import { versionNow } from '../version';

/** What is to be measured or checked. */
export interface Subjects {
  readonly folder: string;
  readonly names: readonly string[];
  readonly batches: readonly number[];
}

export interface GpuNetworksSettings {
  readonly quick: boolean;
  readonly precision: Precision;
  /** Networks that the rival compiles, which takes most of a minute each */
  readonly compiled: readonly string[];
  /** Whether calls after the L2 cache was overwritten are measured, too */
  readonly cold: boolean;
  /** The folder that the results go to */
  readonly out: string;
}

/** A turn of PyTorch's is so long for each of its two measures. */
interface Pace {
  readonly rounds: number;
  readonly milliseconds: number;
}

const THOROUGH: Pace = { rounds: 7, milliseconds: 100 };
const QUICK: Pace = { rounds: 3, milliseconds: 50 };

/**
 * Of the rival, of the largest output: what shows that it computed the same. cuDNN's Winograd and FFT round more than ours
 * may, and TF32, FP16 and BF16 much more.
 */
const RIVAL_TOLERANCE = 1e-3;
const OTHER_TOLERANCE = 5e-2;

const isExact = (form: Form) => FORMS.fp32.includes(form);

const ours = () =>
  new LineProcess([process.execPath, '-r', 'ts-node/register', path.join(__dirname, 'gpu_turns.ts')]);
const torch = () => new LineProcess(['python3', path.join(RIVALS, 'torch_networks.py')]);

/** One of those that take turns on a network. */
interface Contestant {
  readonly name: string;
  /** Of what it computes */
  readonly error: number;
  /** Milliseconds by measure */
  readonly turn: (milliseconds: number) => Promise<object>;
  readonly samples: Record<string, number[]>;
}

/** What went wrong with a network, and goes on without. */
class Failures {
  readonly sentences: string[] = [];

  async catch<T>(name: string, task: () => Promise<T>): Promise<T | undefined> {
    try {
      return await task();
    } catch (error) {
      this.sentences.push(`${name}: ${(error as Error).message}`);
      return undefined;
    }
  }
}

const OURS = 'warpconv';

class Contest {
  readonly #ours = ours();
  #torch: LineProcess | undefined = torch();

  constructor(
    private readonly device: GpuInfo['device'],
    private readonly settings: Omit<GpuNetworksSettings, 'out'>,
  ) {}

  /** Who the rival is, or why there is none. */
  async findRival(): Promise<TorchFacts | string> {
    try {
      return await this.#torch!.ask<TorchFacts>({ do: 'about', device: this.device });
    } catch (error) {
      this.#torch?.close();
      this.#torch = undefined;
      return `without PyTorch: ${(error as Error).message}`;
    }
  }

  async measure(folder: string, network: string, batch: number): Promise<Omit<NetworkMeasurement, 'run'>> {
    const failures = new Failures();
    const contestants = await this.#loadAll(folder, network, batch, failures);
    const left = await takeTurns(contestants, this.settings.quick ? QUICK : THOROUGH, failures);
    const ours = left.find(({ name }) => name === OURS);
    const profile = ours && (await failures.catch(OURS, () => this.#profile()));
    const rivals = left.filter((one) => one !== ours);
    return {
      network,
      batch,
      ...(ours && profile && { ours: { ...measurementOf(ours), ...profile } as OwnMeasurement }),
      rivals: rivals.map((one) => ({ form: one.name, ...measurementOf(one) }) as RivalMeasurement),
      failures: failures.sentences,
    };
  }

  close(): void {
    this.#ours.close();
    this.#torch?.close();
  }

  /** Those whose results are right. */
  async #loadAll(folder: string, network: string, batch: number, failures: Failures): Promise<Contestant[]> {
    const ours = await failures.catch(OURS, () => this.#loadOurs(modelOf(folder, network), batch));
    const loaded = [ours];
    for (const form of this.#formsOf(network)) {
      const load = { do: 'load', network, folder: path.resolve(folder), batch, form, device: this.device };
      loaded.push(await failures.catch(form, () => this.#loadTorch(this.#torch!, form, load)));
    }
    return loaded.filter((one) => one !== undefined);
  }

  async #loadOurs(model: string, batch: number): Promise<Contestant> {
    const { device } = this;
    const { precision, cold } = this.settings;
    const { error } = await this.#ours.ask<Loaded>({
      do: 'load',
      model,
      batch,
      device,
      precision,
    } satisfies TurnRequest);
    const turn = (milliseconds: number) =>
      this.#ours.ask<Turn>({ do: 'turn', milliseconds, cold } satisfies TurnRequest);
    return { name: OURS, error, turn, samples: {} };
  }

  #formsOf(network: string): Form[] {
    if (this.#torch === undefined) return [];
    const { precision, compiled } = this.settings;
    const isWanted = compiled.includes(network);
    return [...FORMS[precision], ...OTHER_FORMS[precision]].filter((form) => isWanted || !isCompiled(form));
  }

  async #loadTorch(process: LineProcess, form: Form, load: object): Promise<Contestant> {
    const { error } = await process.ask<{ error: number | null }>(load);
    const tolerance = isExact(form) ? RIVAL_TOLERANCE : OTHER_TOLERANCE;
    if (error === null || error > tolerance) throw new Error(`off by ${error} of the largest output`);
    const { cold } = this.settings;
    const turn = (milliseconds: number) => process.ask<object>({ do: 'turn', form, milliseconds, cold });
    return { name: form, error, turn, samples: {} };
  }

  #profile(): Promise<Profile> {
    return this.#ours.ask<Profile>({ do: 'profile' } satisfies TurnRequest);
  }
}

/** In a rotating order. @returns those that did not fail */
async function takeTurns(
  contestants: readonly Contestant[],
  { rounds, milliseconds }: Pace,
  failures: Failures,
): Promise<Contestant[]> {
  const left = new Set(contestants);
  for (let round = 0; round < rounds; round++) {
    const order = contestants.map((_, i) => contestants[(i + round) % contestants.length]!);
    for (const one of order.filter((contestant) => left.has(contestant))) {
      const sample = await failures.catch(one.name, () => one.turn(milliseconds));
      if (sample === undefined) left.delete(one);
      for (const [measure, value] of Object.entries(sample ?? {})) {
        (one.samples[measure] ??= []).push(value as number);
      }
    }
  }
  return [...left];
}

function measurementOf({ error, samples }: Contestant): object {
  return { error, ...quartilesOf(samples) };
}

function quartilesOf(samples: Readonly<Record<string, readonly number[]>>): Record<string, Quartiles> {
  const entries = Object.entries(samples).map(([measure, values]): [string, Quartiles] => [
    measure,
    [quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)],
  ]);
  return Object.fromEntries(entries);
}

/** A line for each run and network. */
const RESULT_DEPTH = 2;

/** The results file of a day while a run adds to it. */
class NetworksFile {
  readonly #name: string;
  #result: GpuNetworksResult;

  constructor(
    gpu: GpuInfo,
    run: NetworksRun,
    precision: Precision,
    private readonly folder: string,
  ) {
    const date = new Date().toISOString().slice(0, 10);
    const kind = precision === 'fp32' ? 'networks' : `networks-${precision}`;
    this.#name = gpuFileName(gpu.name!, date, run.quick, kind);
    const before = readJson<GpuNetworksResult>(this.#name, folder);
    const runs = [...(before?.runs ?? []), run];
    this.#result = { date, gpu, runs, precision, networks: before?.networks ?? [] };
  }

  add(measured: Omit<NetworkMeasurement, 'run'>): NetworkMeasurement {
    const one = { ...measured, run: this.#result.runs.length - 1 };
    this.#result = { ...this.#result, networks: withNetwork(this.#result.networks, one) };
    this.write();
    return one;
  }

  noteClocks(when: string, device: string): void {
    const run = this.#result.runs.at(-1)!;
    const noted = { ...run, clocks: [...run.clocks, ...clocksNow(when, device)] };
    this.#result = { ...this.#result, runs: this.#result.runs.with(-1, noted) };
    this.write();
  }

  write(): void {
    writeText(`${this.#name}.json`, formatJson(this.#result, RESULT_DEPTH), this.folder);
    writeText(`${this.#name}.md`, this.render(), this.folder);
  }

  render(): string {
    return renderGpuNetworks(this.#result);
  }
}

export async function benchGpuNetworks(
  device: Exclude<Device, 'cpu'>,
  { folder, names, batches }: Subjects,
  { out, ...settings }: GpuNetworksSettings,
): Promise<void> {
  const { quick, precision } = settings;
  const gpu = findGpu(device);
  const contest = new Contest(gpu.device, settings);
  try {
    const facts = await contest.findRival();
    if (typeof facts === 'string') console.error(`bench: ${facts}`);
    const clocks = clocksNow('before', device);
    const started = new Date().toISOString();
    const run = { started, quick, node: process.version, version: versionNow(), torch: facts, clocks };
    const file = new NetworksFile(gpu, run, precision, out);
    for (const batch of batches) {
      for (const network of names) {
        const one = file.add(await contest.measure(folder, network, batch));
        if (one.ours === undefined) process.exitCode = 1;
        console.error(summariseNetwork(one, precision));
      }
      file.noteClocks(`after batch ${batch}`, device);
    }
    console.log(file.render());
  } finally {
    contest.close();
  }
}

/** Says for each network how far ours is off. Exit code 1 where that is too far, or something failed. */
export async function checkNetworks(
  device: Device,
  { folder, names, batches }: Subjects,
  precision: Precision,
): Promise<void> {
  const side = ours();
  for (const batch of batches) {
    for (const network of names) {
      try {
        const load = {
          do: 'load',
          model: modelOf(folder, network),
          batch,
          device,
          precision,
        } satisfies TurnRequest;
        const { error } = await side.ask<Loaded>(load);
        console.log(`${network}, batch ${batch}: off by ${error.toExponential(1)} of the largest output`);
      } catch (error) {
        console.log(`${network}, batch ${batch}: ${(error as Error).message}`);
        process.exitCode = 1;
      }
    }
  }
  side.close();
}

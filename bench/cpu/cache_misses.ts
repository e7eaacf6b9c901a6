/**
 * Instructions and cache misses of sconv and of im2col on one large layer of each model, counted by valgrind's cachegrind:
 * after Figure 11 of the SConv paper. Cachegrind knows no AVX-512, so both run with AVX2; of this machine's caches it
 * simulates a core's L1 and L2. Counted is one run: what a process with it has more than a process without.
 *
 *     npx ts-node bench/cpu/cache_misses.ts
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

import { buildNativePrograms, LAYER_RUNS, lineOf } from '../native_programs';
import { byModel, isPointwise, loadLayers, shapesOf, type Layer } from '../layers';
import { PACKING_ALGORITHMS, type CacheResult, type Counts, type PackingAlgorithm } from './engine_results';
import { renderCacheMisses } from './report_engine';
import { circumstances, nameOf, scriptArguments, writeJson, type Circumstances } from '../results';

/** Cachegrind, which computes each multiply-add in software, takes about a minute for a thousand million. */
const MOST_MULTIPLY_ADDS = 5e8;

const LINE = 64;
const LEAST_WAYS = 8;

/** Of each model, the layer that does most of its multiply-adds and is no matrix product as it stands. */
function largeLayers(): Layer[] {
  const work = ({ row, count }: Layer) => shapesOf(row).multiplyAdds * count;
  const suits = ({ row }: Layer) => !isPointwise(row) && shapesOf(row).multiplyAdds <= MOST_MULTIPLY_ADDS;
  return [...byModel(loadLayers('sconv-393')).values()].map(
    (layers) => layers.filter(suits).sort((a, b) => work(b) - work(a))[0]!,
  );
}

/** Size, ways and line, with a power of two for the number of sets. */
function geometry(size: number): string {
  const sets = 2 ** Math.floor(Math.log2(size / LINE / LEAST_WAYS));
  return [size, size / LINE / sets, LINE].join();
}

type Events = ReadonlyMap<string, number>;

/** The totals by event of one process in cachegrind. */
async function simulate(
  { caches }: Circumstances['cpu'],
  layer: Layer,
  algorithm: PackingAlgorithm,
  runs: number,
): Promise<Events> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'warpconv-cachegrind-'));
  const file = path.join(folder, 'out');
  const options = [
    ...['--tool=cachegrind', '--cache-sim=yes', `--cachegrind-out-file=${file}`],
    ...[`--D1=${geometry(caches.l1d)}`, `--LL=${geometry(caches.l2)}`],
  ];
  try {
    const process = promisify(execFile)(
      'valgrind',
      [...options, LAYER_RUNS, 'repeat', String(runs), algorithm],
      {
        env: { ...globalThis.process.env, WARPCONV_ISA: 'avx2' },
      },
    );
    process.child.stdin!.end(lineOf(layer));
    await process;
    return parse(await readFile(file, 'utf8'));
  } finally {
    await rm(folder, { recursive: true });
  }
}

function parse(output: string): Events {
  const words = (key: string) => output.match(new RegExp(`^${key}: *(.*)$`, 'm'))![1]!.split(' ');
  const totals = words('summary').map(Number);
  return new Map(words('events').map((event, index) => [event, totals[index]!]));
}

async function countRun(
  cpu: Circumstances['cpu'],
  layer: Layer,
  algorithm: PackingAlgorithm,
): Promise<Counts> {
  const [without, withRun] = await Promise.all([0, 1].map((runs) => simulate(cpu, layer, algorithm, runs)));
  const events = (...names: string[]) =>
    names.reduce((sum, name) => sum + withRun!.get(name)! - without!.get(name)!, 0);
  return {
    instructions: events('Ir'),
    accesses: events('Dr', 'Dw'),
    l1Misses: events('D1mr', 'D1mw'),
    l2Misses: events('DLmr', 'DLmw'),
  };
}

async function main(): Promise<void> {
  const { name, quick, out } = scriptArguments();
  const about = circumstances(quick);
  process.stderr.write('cache misses …');
  buildNativePrograms();
  const layers: CacheResult['layers'][number][] = [];
  for (const layer of largeLayers()) {
    const [sconv, im2col] = await Promise.all(
      PACKING_ALGORITHMS.map((algorithm) => countRun(about.cpu, layer, algorithm)),
    );
    layers.push({ ...layer, counts: { sconv: sconv!, im2col: im2col! } });
    process.stderr.write(` ${layer.model}`);
  }
  process.stderr.write('\n');
  const result: CacheResult = { ...about, layers };
  writeJson(`${name ?? nameOf(result)}-cache`, result, out);
  console.log(renderCacheMisses(result));
}

if (require.main === module) void main();

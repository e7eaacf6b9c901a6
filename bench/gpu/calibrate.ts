/**
 * Fits a GPU family's constants to measured times of every other layer. Prints them beside those of now, and how well
 * both predict and choose, on those layers and on the others. No file is changed: copy the constants into the family's
 * model.h, with where the times are from. Takes up to a few minutes, and no GPU. The times are measured on one:
 *
 *     npx ts-node bench/gpu/kernel_times.ts
 *     npx ts-node bench/gpu/calibrate.ts --kernels im2win-warpgroup --times bench/data/NAME-kernels.json [--times …]
 *
 * KERNELS: pointwise-fma, -tensor, -stream, -stream-tensor, -warpgroup, -rows, -rows-tf32 or -rows-bf16; im2win-fma, -tensor or
 * -warpgroup; halo; stem.
 * Constants of other families stand in their plans, with where they are from: shuffle's models choose lengths of runs, which
 * no variant pins, and the rest has one kernel each.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { run } from '../command';
import type { KernelTimes, LayerTimes } from './kernel_times';
import { buildNativePrograms, CALIBRATE } from '../native_programs';
import { readJson } from '../results';

/**
 * Times of a family's kernels as CALIBRATE reads them: N C H W K R S STRIDE PAD GROUPS VARIANT TILES MILLISECONDS, with
 * TILES as in splits=4,blockM=64, or - for none.
 */
export function linesOf(layers: readonly LayerTimes[], family: string): string[] {
  return layers.flatMap(({ batch, extents, kernels }) =>
    kernels
      .filter(({ algorithm }) => algorithm === family)
      .map(({ variant, tiles = {}, milliseconds }) => {
        const text = Object.entries(tiles).map(([name, extent]) => `${name}=${extent}`);
        return [batch, ...extents, variant, text.join(',') || '-', milliseconds].join(' ');
      }),
  );
}

export function readTimes(file: string): KernelTimes {
  const { dir, name } = path.parse(path.resolve(file));
  const times = readJson<Omit<KernelTimes, 'layers'> & { layers: Partial<LayerTimes>[] }>(name, dir);
  if (times === undefined) throw new Error(`there is no ${file}`);
  if (times.layers.some(({ kernels }) => kernels === undefined)) {
    throw new Error(`${file} is no result of bench/gpu/kernel_times.ts; those end with -kernels.json`);
  }
  return times as KernelTimes;
}

function main(): void {
  const { values } = parseArgs({
    options: { kernels: { type: 'string' }, times: { type: 'string', multiple: true, default: [] } },
  });
  if (values.kernels === undefined || values.times.length === 0) {
    throw new Error('--kernels and at least one --times are needed: see the top of bench/gpu/calibrate.ts');
  }
  const all = values.times.map(readTimes);
  const gpus = new Set(all.map(({ gpu }) => gpu.name!));
  if (gpus.size > 1) throw new Error(`all times must be of one GPU, got ${[...gpus].join(' and ')}`);
  const family = values.kernels.split('-')[0]!;
  buildNativePrograms();
  const input = all
    .flatMap(({ layers }) => linesOf(layers, family))
    .map((line) => `${line}\n`)
    .join('');
  process.stdout.write(run(CALIBRATE, [[...gpus][0]!, values.kernels], { input }));
}

if (require.main === module) main();

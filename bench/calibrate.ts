/**
 * Fits the constants that `pointwise` predicts one kind of its kernels by (cuda/pointwise/model.h) to what the bench has
 * measured of them, and prints them beside those of now, with how well either predicts and chooses. What it prints is for
 * that file, with where the times are from: nothing is changed. Needs no GPU.
 *
 *     npx ts-node bench/calibrate.ts --kernels warpgroup --result bench/results/NAME.json [--result …]
 *
 * KERNELS: fma, tensor, stream, streamTensor or warpgroup.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { run } from './command';
import { counts, median, type GpuBenchResult } from './gpu_result';
import { buildNativePrograms, CALIBRATE_POINTWISE } from './native_programs';
import { readJson } from './results';

/** Times of `pointwise`'s variants as CALIBRATE_POINTWISE reads them: N C H W K STRIDE VARIANT MILLISECONDS. */
export function pointwiseTimes({ layers }: Pick<GpuBenchResult, 'layers'>): string[] {
  return layers
    .filter(
      ({ extents: [, , , , r, s, , padding, groups] }) => r === 1 && s === 1 && !padding && groups === 1,
    )
    .flatMap(({ batch, extents: [c, h, w, k, , , stride], entries }) =>
      entries
        .filter(counts)
        .filter(({ algorithm, variant }) => algorithm === 'pointwise' && variant && variant !== 'paper')
        .map((entry) => [batch, c, h, w, k, stride, entry.variant, median(entry)].join(' ')),
    );
}

function main(): void {
  const { values } = parseArgs({
    options: { kernels: { type: 'string' }, result: { type: 'string', multiple: true, default: [] } },
  });
  if (values.kernels === undefined || values.result.length === 0) {
    throw new Error('--kernels and at least one --result are needed: see the top of bench/calibrate.ts');
  }
  const results = values.result.map((file) => {
    const { dir, name } = path.parse(path.resolve(file));
    const result = readJson<GpuBenchResult>(name, dir);
    if (result === undefined) throw new Error(`there is no ${file}`);
    return result;
  });
  const gpus = new Set(results.map(({ gpu }) => gpu.name!));
  if (gpus.size > 1) throw new Error(`all results must be of one GPU, got ${[...gpus].join(' and ')}`);
  buildNativePrograms();
  const input = `${results.flatMap(pointwiseTimes).join('\n')}\n`;
  process.stdout.write(run(CALIBRATE_POINTWISE, [[...gpus][0]!, values.kernels], { input }));
}

if (require.main === module) main();

/**
 * The named layers of bench/layers/gpu-bench.json on the first GPU: the algorithm that warpconv chooses against the fastest
 * of cuDNN's own search, without TF32, in one process and in turns. Writes bench/results/<gpu>-<date>.json and .md.
 *
 *     npx ts-node bench/gpu.ts [--batch 1] [--batch 128]
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { compareWithCudnn, devices, Tensor, type CudnnComparison, type GpuInfo } from 'warpconv';

import { writeJson, writeText } from './results';
import { geometricMean } from './statistics';

type Row = [name: string, ...extents: number[]];

interface Measured extends CudnnComparison {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
  /** 2 * multiply-adds */
  readonly flops: number;
  /** Of input, weight and output, each once */
  readonly bytes: number;
}

const FILE = path.join(__dirname, 'layers/gpu-bench.json');
const {
  about: _about,
  columns: _columns,
  ...groups
} = JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, unknown>;

/** Random numbers that repeat after some thousands: filling gigabytes one by one would take longer than the bench. */
function random(dims: readonly number[]): Tensor<'float32'> {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const data = new Float32Array(size);
  const period = Math.min(size, 65_521);
  for (let i = 0; i < period; i++) data[i] = 2 * Math.random() - 1;
  for (let filled = period; filled < size; filled *= 2)
    data.copyWithin(filled, 0, Math.min(filled, size - filled));
  return new Tensor('float32', data, dims);
}

async function measure(group: string, [name, ...extents]: Row, batch: number): Promise<Measured> {
  const [c, h, w, k, r, s, stride, padding, channelGroups] = extents as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const input = random([batch, c, h, w]);
  const weight = random([k, c / channelGroups, r, s]);
  const comparison = await compareWithCudnn(input, weight, { stride, padding, groups: channelGroups });
  const outputs = batch * k * extentOf(h, r, stride, padding) * extentOf(w, s, stride, padding);
  const flops = (2 * outputs * c * r * s) / channelGroups;
  return { group, name, batch, flops, bytes: 4 * (input.size + weight.size + outputs), ...comparison };
}

function extentOf(input: number, filter: number, stride: number, padding: number): number {
  return Math.floor((input + 2 * padding - filter) / stride) + 1;
}

function render(gpu: GpuInfo, date: string, results: readonly Measured[]): string {
  const lines = [
    `# ${gpu.name}, ${date}`,
    '',
    `Driver for CUDA ${gpu.driver}, cuDNN ${results[0]?.cudnnVersion}, float32 without TF32. Medians of graphs of twenty calls in`,
    'turns, without copies, the tensors of small layers in the L2 cache. Above 1 × warpconv is faster.',
  ];
  const keys = [...new Set(results.map(({ group, batch }) => `${group}, batch ${batch}`))];
  for (const key of keys) {
    const rows = results.filter(({ group, batch }) => `${group}, batch ${batch}` === key);
    const mean = geometricMean(rows.map(({ speedup }) => speedup));
    const won = rows.filter(({ speedup }) => speedup >= 1).length;
    lines.push('', `## ${key}: ${mean.toFixed(2)} × in the geometric mean, ${won} of ${rows.length} won`, '');
    lines.push('| layer | algorithm | µs | TFLOP/s | TB/s | cuDNN | µs | over cuDNN | relative error |');
    lines.push('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
    for (const row of rows) {
      const [us, theirs] = [row.milliseconds * 1e3, row.cudnnMilliseconds * 1e3];
      const speedup = row.speedup >= 1 ? row.speedup.toFixed(2) : `**${row.speedup.toFixed(2)}**`;
      lines.push(
        `| ${row.name} | ${row.algorithm} | ${us.toFixed(1)} | ${(row.flops / us / 1e6).toFixed(1)} | ` +
          `${(row.bytes / us / 1e6).toFixed(2)} | ${row.cudnnAlgorithm} | ${theirs.toFixed(1)} | ${speedup} | ` +
          `${row.maxRelativeError.toExponential(1)} |`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { batch: { type: 'string', multiple: true, default: ['1', '128'] } },
  });
  const gpu = devices().find((device): device is GpuInfo => device.type === 'cuda')!;
  if (!gpu.available) throw new Error(`there is no GPU to measure: ${gpu.reason}`);
  const date = new Date().toISOString().slice(0, 10);
  const name = `${gpu.name!.toLowerCase().replace(/[^a-z0-9]+/g, '-')}-${date}`;
  const results: Measured[] = [];
  for (const batch of values.batch.map(Number)) {
    for (const [group, rows] of Object.entries(groups) as [string, Row[]][]) {
      // Single images are a matter of latency.
      if (group === 'image' && batch > 1) continue;
      for (const row of rows) {
        results.push(await measure(group, row, batch));
        process.stderr.write(`\r${results.length} layers`);
      }
      writeJson(name, { date, node: process.version, gpu, results });
      writeText(`${name}.md`, render(gpu, date, results));
    }
  }
  process.stderr.write(' measured\n');
}

void main();

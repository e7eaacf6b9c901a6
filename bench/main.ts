/**
 * `npm run bench`: measures the GPU where there is one (bench/gpu/bench.ts), and the CPU otherwise (bench/cpu/bench.ts).
 * Its options are in `npm run bench -- --help`.
 */
import { readFileSync } from 'node:fs';

import { devices } from 'warpconv';

import { chooseBench, requireOwnOptions, USAGE } from './choose';
import { benchGpu } from './gpu/bench';
import { benchCpu } from './cpu/bench';

const benches = { gpu: benchGpu, cpu: benchCpu, help: () => console.log(USAGE) };
const hasGpu = () => devices().some(({ type, available }) => type === 'cuda' && available);

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const { bench, args } = chooseBench(given, hasGpu, (file) => readFileSync(file, 'utf8'));
  if (bench !== 'help') requireOwnOptions(bench, given);
  await benches[bench](args);
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

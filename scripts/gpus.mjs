import { spawnSync } from 'node:child_process';

/** The compute capabilities of this machine's GPUs that there are kernels for, as CMake has them: 75 and the like. */
export function localGpus() {
  const query = ['--query-gpu=compute_cap', '--format=csv,noheader'];
  const { status, stdout } = spawnSync('nvidia-smi', query, { encoding: 'utf8' });
  const capabilities = status === 0 ? (stdout.match(/\d+\.\d+/g) ?? []) : [];
  const numbers = capabilities.map((capability) => Number(capability.replace('.', '')));
  return [...new Set(numbers.filter((number) => number >= 75))];
}

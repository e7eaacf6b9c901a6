/** What the benches of GPUs ask of the machine. */
import { execFileSync } from 'node:child_process';

import { devices, type GpuInfo } from 'warpconv';

import type { Clocks } from './result';

/** What nvidia-smi knows of the GPU at this moment; nothing where it is missing. */
export function clocksNow(when: string, device: string): Clocks[] {
  const fields = [
    'driver_version',
    'clocks.sm',
    'clocks.mem',
    'clocks.max.sm',
    'power.draw',
    'temperature.gpu',
  ];
  const index = device.split(':')[1] ?? '0';
  try {
    const options = [`--id=${index}`, `--query-gpu=${fields.join()}`, '--format=csv,noheader'];
    const line = execFileSync('nvidia-smi', options, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10_000,
    });
    const values = line.trim().split(', ');
    return [{ when, facts: Object.fromEntries(fields.map((field, i) => [field, values[i] ?? ''])) }];
  } catch {
    return [];
  }
}

export function findGpu(device: string): GpuInfo {
  const gpus = devices().filter((one): one is GpuInfo => one.type === 'cuda');
  const gpu = gpus.find((one) => device === 'cuda' || one.device === device);
  if (gpu?.available) return gpu;
  throw new Error(`there is no GPU '${device}' to measure: ${gpu?.reason ?? 'see npx warpconv doctor'}`);
}

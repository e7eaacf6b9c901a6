/** Where work runs, and why not elsewhere. */
import type { NativeGpuProbe } from './addon';
import { WarpconvError } from './errors';
import { mismatch } from './check';
import { addon } from './load';

/** A place in the machine: its processor, its default GPU, or one GPU by number. */
export type Device = 'cpu' | 'cuda' | `cuda:${number}`;

export function checkDevice(name: string, value: unknown): Device {
  if (isDevice(value)) return value;
  throw mismatch(name, `'cpu', 'cuda' or 'cuda:N'`, value);
}

/** As {@link checkDevice}, where the choice may be left open. */
export function checkDeviceOrAuto(name: string, value: unknown): Device | 'auto' {
  if (value === 'auto' || isDevice(value)) return value;
  throw mismatch(name, `'auto', 'cpu', 'cuda' or 'cuda:N'`, value);
}

function isDevice(value: unknown): value is Device {
  return typeof value === 'string' && /^(cpu|cuda(:\d+)?)$/.test(value);
}

/** Finds the device that a call asked for. Today that is the CPU, or a refusal that says what is missing. */
export function locate(device: Device | 'auto'): 'cpu' {
  if (device === 'cpu' || device === 'auto') return 'cpu';
  throw new WarpconvError('ERR_WARPCONV_NO_DEVICE', `cannot use device '${device}': ${whyNoGpu(device)}`);
}

/** As {@link locate}, for a call that computes: `'auto'` ending on the CPU is worth one warning per process. */
export function locateForWork(device: Device | 'auto'): 'cpu' {
  if (device === 'auto' && addon().firstFallback()) {
    process.emitWarning(`running on the CPU: ${whyNoGpu('cuda')}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_CPU_FALLBACK',
      detail: `Pass device: 'cpu' to choose the CPU without this warning.`,
    });
  }
  return locate(device);
}

/** Why no convolution runs on the GPU of that name. */
export function whyNoGpu(device: Device): string {
  const probe = addon().gpuProbe();
  if (probe.missing !== null) return probe.reason;
  const index = device === 'cuda' ? 0 : Number(device.slice('cuda:'.length));
  if (!probe.gpus.some((gpu) => gpu.index === index)) return `there is no such GPU; ${presentGpus(probe)}`;
  return 'this version of warpconv runs convolutions on the CPU only';
}

function presentGpus({ gpus }: NativeGpuProbe): string {
  return `this machine has ${gpus.map((gpu) => `cuda:${gpu.index}`).join(', ')}`;
}

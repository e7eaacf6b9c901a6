/** Where work runs, and why not elsewhere. */
import type { NativeGpu, NativeGpuProbe } from './addon';
import { callNativeAsync } from './calls';
import { callNative, WarpconvError } from './errors';
import { mismatch } from './check';
import { addon } from './load';

/** A place in the machine: its processor, its default GPU, or one GPU by number. */
export type Device = 'cpu' | 'cuda' | `cuda:${number}`;

/** A device by its one name. */
export type Place = 'cpu' | `cuda:${number}`;

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

/** The GPU's number in native code, which has -1 for the CPU. */
export function indexOf(place: Device): number {
  if (place === 'cpu') return -1;
  return place === 'cuda' ? 0 : Number(place.slice('cuda:'.length));
}

/**
 * Finds the device that a call asked for. `'auto'` is `near`, where the input lives, if that is a GPU; else the first
 * GPU; else the CPU.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE` with what is missing and what to do
 */
export function locate(device: Device | 'auto', near: Place = 'cpu'): Place {
  if (device === 'cpu') return 'cpu';
  if (device === 'auto') {
    if (near !== 'cpu') return near;
    return whyNoGpu('cuda') === undefined ? 'cuda:0' : 'cpu';
  }
  const reason = whyNoGpu(device);
  if (reason === undefined) return `cuda:${indexOf(device)}`;
  throw new WarpconvError('ERR_WARPCONV_NO_DEVICE', `cannot use device '${device}': ${reason}`);
}

/** As {@link locate}, for a call that computes: `'auto'` ending on the CPU is worth one warning per process. */
export function locateForWork(device: Device | 'auto', near?: Place): Place {
  const place = locate(device, near);
  if (device === 'auto' && place === 'cpu' && addon().firstFallback()) {
    process.emitWarning(`running on the CPU: ${whyNoGpu('cuda')}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_CPU_FALLBACK',
      detail: `Pass device: 'cpu' to choose the CPU without this warning.`,
    });
  }
  return place;
}

/** Whether a device is ready for this thread. */
export function isOpen(place: Place): boolean {
  return place === 'cpu' || addon().hasGpu(indexOf(place));
}

/** Makes a GPU ready for this thread, off the event loop: its first use takes a good part of a second. */
export async function openPlace(place: Place): Promise<void> {
  if (!isOpen(place)) await callNativeAsync((done) => addon().openGpu(indexOf(place), done));
}

/** As {@link openPlace}, on the calling thread. */
export function openPlaceSync(place: Place): void {
  if (!isOpen(place)) callNative(() => addon().openGpuSync(indexOf(place)));
}

/** Why no convolution runs on the GPU of that name; `undefined` where it does. */
export function whyNoGpu(device: Exclude<Device, 'cpu'>): string | undefined {
  // What the probe found is made anew for each call, and this is asked in all of them.
  if (addon().hasGpu(indexOf(device))) return undefined;
  const probe = addon().gpuProbe();
  if (probe.missing !== null) return probe.reason;
  const gpu = probe.gpus.find(({ index }) => index === indexOf(device));
  return gpu === undefined ? `there is no such GPU; ${presentGpus(probe)}` : whyUnsupported(gpu);
}

const LEAST_COMPUTE_CAPABILITY = 7.5;

function whyUnsupported({ name, computeCapability }: NativeGpu): string | undefined {
  if (Number(computeCapability) >= LEAST_COMPUTE_CAPABILITY) return undefined;
  return (
    `the ${name} has compute capability ${computeCapability}, and the kernels are built for ` +
    `${LEAST_COMPUTE_CAPABILITY} (Turing) and later; use a newer GPU or device 'cpu'`
  );
}

/**
 * Looks for GPUs off the event loop, where nobody in this process has yet: starting CUDA takes a tenth of a second and
 * more. GPUs neither come nor go while a process runs, so one look is enough.
 */
export async function probeElsewhere(device: Device | 'auto'): Promise<void> {
  if (!isProbed(device)) await callNativeAsync((done) => addon().probeGpus(done));
}

/** Whether a call for that device can be placed at once. */
export function isProbed(device: Device | 'auto'): boolean {
  return device === 'cpu' || addon().gpusProbed();
}

function presentGpus({ gpus }: NativeGpuProbe): string {
  return `this machine has ${gpus.map((gpu) => `cuda:${gpu.index}`).join(', ')}`;
}

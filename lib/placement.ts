/** Where work runs, and why not elsewhere. */
import type { NativeGpu, NativeGpuProbe } from './addon';
import { callNativeAsync } from './calls';
import { callNative, WarpconvError } from './errors';
import { mismatch } from './check';
import { addon } from './load';

/** A place in the machine: its processor, its default GPU, or one GPU by number. */
export type Device = 'cpu' | 'cuda' | `cuda:${number}`;

/** A device by its one name. */
export type Place = 'cpu' | GpuPlace;

export type GpuPlace = `cuda:${number}`;

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
  return value === 'cpu' || value === 'cuda' || isGpu(value);
}

/** Whether it names one GPU. Native code counts them in 32 bits. */
export function isGpu(value: unknown): value is GpuPlace {
  return typeof value === 'string' && /^cuda:\d{1,9}$/.test(value);
}

/** The GPU's number in native code, which has -1 for the CPU. */
export function indexOf(place: Device): number {
  if (place === 'cpu') return -1;
  return place === 'cuda' ? 0 : Number(place.slice('cuda:'.length));
}

/**
 * Finds the device that a call asked for, and makes it ready for this thread, which takes a good part of a second unless
 * {@link probeElsewhere} has done so. `'auto'` is `near`, where the input lives, if that is a GPU; else the first GPU; else
 * the CPU.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE` with what is missing and what to do
 */
export function locate(device: Device | 'auto', near: Place = 'cpu'): Place {
  if (device === 'cpu') return 'cpu';
  if (device === 'auto') return near === 'cpu' ? locateAny() : opened(near);
  if (!isOpen(device)) openPresent(device);
  return `cuda:${indexOf(device)}`;
}

function opened(place: Place): Place {
  openPlaceSync(place);
  return place;
}

function openPresent(device: Exclude<Device, 'cpu'>): void {
  const reason = whyAbsent(device);
  if (reason !== undefined) throw noDevice(device, reason);
  openPlaceSync(device);
}

function locateAny(): Place {
  if (whyNoGpu('cuda') !== undefined) return 'cpu';
  try {
    openPlaceSync('cuda:0');
    return 'cuda:0';
  } catch {
    return 'cpu';
  }
}

/**
 * As {@link locate}, for a call that computes: `'auto'` ending on the CPU is worth one warning per process, unless
 * `WARPCONV_NO_CPU_WARNING` is 1.
 */
export function locateForWork(device: Device | 'auto', near?: Place): Place {
  const place = locate(device, near);
  if (device === 'auto' && place === 'cpu' && addon().firstFallback()) warnOfCpu();
  return place;
}

function warnOfCpu(): void {
  if (process.env.WARPCONV_NO_CPU_WARNING === '1') return;
  process.emitWarning(`running on the CPU: ${whyNoGpu('cuda')}`, {
    type: 'WarpconvWarning',
    code: 'WARPCONV_CPU_FALLBACK',
    detail:
      "Pass device: 'cpu', or to a session executionProviders: ['cpu'], to choose the CPU without this warning, " +
      'or set WARPCONV_NO_CPU_WARNING=1.',
  });
}

/** Whether a device is ready for this thread. */
export function isOpen(device: Device): boolean {
  return device === 'cpu' || addon().hasGpu(indexOf(device));
}

/**
 * Makes a GPU ready for this thread, off the event loop: its first use takes a good part of a second.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE`, as a rejection, where others leave it no memory, say
 */
export async function openPlace(device: Device): Promise<void> {
  if (isOpen(device)) return;
  try {
    await callNativeAsync((done) => addon().openGpu(indexOf(device), done));
  } catch (cause) {
    throw unopened(device, cause as WarpconvError);
  }
}

/** As {@link openPlace}, on the calling thread. */
export function openPlaceSync(device: Device): void {
  if (isOpen(device)) return;
  try {
    callNative(() => addon().openGpuSync(indexOf(device)));
  } catch (cause) {
    throw unopened(device, cause as WarpconvError);
  }
}

/** Why GPUs that are here could not be opened: `'auto'` does not try again, since each time takes as long as the first. */
const failures = new Map<number, string>();

function unopened(device: Device, cause: WarpconvError): WarpconvError {
  const { message, cudaError } = cause;
  const reason = `the GPU cannot be opened: ${message}; check nvidia-smi for what else uses it, or use device 'cpu'`;
  failures.set(indexOf(device), reason);
  return noDevice(device, reason, cudaError === undefined ? { cause } : { cause, cudaError });
}

function noDevice(
  device: Device,
  reason: string,
  details?: ConstructorParameters<typeof WarpconvError>[2],
): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_NO_DEVICE', `cannot use device '${device}': ${reason}`, details);
}

/** Why no convolution runs on the GPU of that name; `undefined` where it does. */
export function whyNoGpu(device: Exclude<Device, 'cpu'>): string | undefined {
  // What the probe found is made anew for each call, and this is asked in all of them.
  if (isOpen(device)) return undefined;
  return whyAbsent(device) ?? failures.get(indexOf(device));
}

/** The same of a GPU that is not open, apart from failures to open it, which may have passed. */
function whyAbsent(device: Exclude<Device, 'cpu'>): string | undefined {
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
 * Does off the event loop what {@link locate} needs: looks for GPUs, where nobody in this process has yet, which takes a
 * tenth of a second and more, and opens the one that a call may need. GPUs neither come nor go while a process runs, so
 * one look is enough.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_NO_DEVICE`, as a rejection, where the GPU that is asked for cannot be opened
 */
export async function probeElsewhere(device: Device | 'auto'): Promise<void> {
  if (device === 'cpu') return;
  if (!addon().gpusProbed()) await callNativeAsync((done) => addon().probeGpus(done));
  if (!mustOpen(device)) return;
  if (device === 'auto') await openPlace('cuda:0').catch(() => {});
  else await openPlace(device);
}

/** Whether a call for that device can be placed at once. */
export function isProbed(device: Device | 'auto'): boolean {
  return device === 'cpu' || (addon().gpusProbed() && !mustOpen(device));
}

function mustOpen(device: Exclude<Device, 'cpu'> | 'auto'): boolean {
  if (device !== 'auto') return !isOpen(device) && whyAbsent(device) === undefined;
  if (isOpen('cuda:0') || whyNoGpu('cuda') !== undefined) return false;
  const { gpus } = addon().gpuProbe();
  // Where another one is open the input may be there, and the first would be opened for nothing.
  return !gpus.some(({ index }) => isOpen(`cuda:${index}`));
}

function presentGpus({ gpus }: NativeGpuProbe): string {
  return `this machine has ${gpus.map((gpu) => `cuda:${gpu.index}`).join(', ')}`;
}

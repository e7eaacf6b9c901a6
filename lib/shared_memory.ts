/** What threads of one process share beyond JavaScript: memory that GPUs read in place, and files. */
import makeDebug from 'debug';

import { callNativeAsync } from './calls';
import { callNative } from './errors';
import { addon } from './load';
import { indexOf, isOpen, type GpuPlace } from './placement';

const debug = makeDebug('warpconv:serve');

/**
 * Pins memory for the copy engines of all GPUs, which takes a few milliseconds on another thread. Until then, and where it
 * cannot be pinned, copies take a way round.
 *
 * @param gpu - one that is open; nothing is done without
 * @returns what ends it
 */
export function pinMemory(gpu: GpuPlace | undefined, memory: SharedArrayBuffer): () => void {
  if (gpu === undefined) return () => {};
  // Others may run their models there without this package.
  if (!isOpen(gpu)) return () => {};
  const pin = callNative(() => new (addon().Pin)(indexOf(gpu), new Uint8Array(memory)));
  let isReleased = false;
  callNativeAsync((done) => pin.open(done)).then(
    () => isReleased && pin.release(),
    (error: unknown) => debug('memory of requests is not pinned: %o', error),
  );
  return () => {
    isReleased = true;
    pin.release();
  };
}

/** Another descriptor for the same file or connection; null where the system has none to give. */
export function duplicateDescriptor(descriptor: number): number | null {
  return callNative(() => addon().duplicateDescriptor(descriptor));
}

/** Memory that threads share, and that GPUs read in place. */
import makeDebug from 'debug';

import { callNativeAsync } from '../calls';
import { callNative } from '../errors';
import { addon } from '../load';
import { indexOf, isOpen, type GpuPlace } from '../placement';

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

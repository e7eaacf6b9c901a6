import type { CallId, Done, NativeFailure } from './addon';
import { abortedBy, fromNative } from './errors';
import { addon } from './load';

/**
 * Runs an asynchronous native call. An abort of `signal` takes it out of its queue or asks it to stop; it rejects
 * when native code has in fact let go of its buffers, so that they may be used again.
 *
 * @param start - begins the call; what it throws rejects
 */
export async function callNativeAsync(start: (done: Done) => CallId, signal?: AbortSignal): Promise<void> {
  let stopListening = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      const call = start((failure) => {
        if (failure === undefined) resolve();
        else reject(failure);
      });
      if (signal !== undefined) stopListening = onAbort(signal, () => addon().cancel(call));
    });
  } catch (failure) {
    const aborted = (failure as Partial<NativeFailure> | null)?.code === 'ABORTED';
    throw aborted && signal !== undefined ? abortedBy(signal) : fromNative(failure);
  } finally {
    stopListening();
  }
}

function onAbort(signal: AbortSignal, cancel: () => void): () => void {
  signal.addEventListener('abort', cancel, { once: true });
  // The caller's own code may have run, and aborted, since the signal was last looked at.
  if (signal.aborted) cancel();
  return () => signal.removeEventListener('abort', cancel);
}

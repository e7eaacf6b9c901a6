import type { CallId, Done, NativeFailure } from './addon';
import { unreadable } from './check';
import { abortedBy, callNative, fromNative, type WarpconvError } from './errors';
import { addon } from './load';
import { LoopBudget } from './loop_budget';

let inFlight = 0;
const budget = new LoopBudget();

/**
 * Whether a call had better run at once, on the event loop's thread: it is short, nothing came before it that has not
 * ended, and it cannot be aborted.
 *
 * @param milliseconds - what the call is expected to take
 */
export function runsAtOnce(milliseconds: number, signal: AbortSignal | undefined): boolean {
  return inFlight === 0 && signal === undefined && budget.admits(milliseconds);
}

/**
 * Runs an asynchronous native call. An abort of `signal` takes it out of its queue or asks it to stop; it rejects
 * when native code has in fact let go of its buffers, so that they may be used again.
 *
 * @param start - begins the call; what it throws rejects
 */
export function callNativeAsync(start: (done: Done) => CallId, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let stopFollowing = () => {};
    const call = callNative(() =>
      start((failure) => {
        inFlight--;
        stopFollowing();
        if (failure === undefined) resolve();
        else reject(publicError(failure, signal));
      }),
    );
    inFlight++;
    if (signal !== undefined) stopFollowing = follow(signal, () => addon().cancel(call));
  });
}

function publicError(failure: NativeFailure, signal: AbortSignal | undefined): WarpconvError {
  if (failure.code === 'ABORTED' && signal !== undefined) return abortedBy(signal);
  return fromNative(failure) as WarpconvError;
}

interface Followers {
  readonly cancels: Set<() => void>;
  readonly cancelAll: () => void;
}

/** What waits under each signal. One listener serves it all: Node.js takes more than ten for a leak. */
const followersOf = new WeakMap<AbortSignal, Followers>();

/** Calls `cancel` when `signal` aborts, or has, until the function that it returns is called. */
export function follow(signal: AbortSignal, cancel: () => void): () => void {
  const followers = followersOf.get(signal) ?? startFollowing(signal);
  followers.cancels.add(cancel);
  // The caller's own code may have run, and aborted, since the signal was last looked at.
  if (signal.aborted) cancel();
  return () => {
    followers.cancels.delete(cancel);
    if (followers.cancels.size > 0) return;
    signal.removeEventListener('abort', followers.cancelAll);
    followersOf.delete(signal);
  };
}

/**
 * What `promise` gives, or a rejection as soon as `signal` aborts.
 *
 * @param leave - called at an abort that comes before the promise has settled
 */
export function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  leave = () => {},
): Promise<T> {
  if (signal === undefined) return promise;
  let stopFollowing = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stopFollowing = follow(signal, () => {
      leave();
      reject(abortedBy(signal));
    });
  });
  return Promise.race([promise, aborted]).finally(() => stopFollowing());
}

function startFollowing(signal: AbortSignal): Followers {
  const cancels = new Set<() => void>();
  const cancelAll = () => cancels.forEach((cancel) => cancel());
  const followers = { cancels, cancelAll };
  try {
    signal.addEventListener('abort', cancelAll);
  } catch (error) {
    throw unreadable('options.signal', error);
  }
  followersOf.set(signal, followers);
  return followers;
}

import type { CallId, Done, NativeFailure } from './addon';
import { unreadable } from './check';
import { abortedBy, callNative, fromNative, type WarpconvError } from './errors';
import { addon } from './load';
import { Crowd, LONGEST_RUN, LoopBudget } from './loop_budget';
import { nextTurn } from './turn';

let inFlight = 0;
const budget = new LoopBudget();
const crowd = new Crowd();

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
 * Does the work of a run on the event loop's thread and gives how long it took, where that is better than to hand it to
 * others: as {@link runsAtOnce}, and for longer where runs come one by one. Of these each has a turn of the loop to itself,
 * which it waits for. Without a number the work is still to be done.
 *
 * @param milliseconds - what the run lately took
 */
export async function runOnLoop(milliseconds: number, work: () => void): Promise<number | undefined> {
  return (await comesToLoop(milliseconds)) ? runHere(work) : undefined;
}

/**
 * The same for work that waits for a GPU, which the loop can leave to others. Here it saves the way to another thread and
 * back, 40 to 100 µs. So only runs that come one by one are waited for here, short ones too.
 *
 * @param overlaps - whether other runs of the network have begun and not ended
 */
export async function waitOnLoop(
  milliseconds: number,
  overlaps: boolean,
  work: () => void,
): Promise<number | undefined> {
  return (await comesToWait(milliseconds, overlaps)) ? runHere(work) : undefined;
}

/** Called when such work has ended on another thread: a run that follows at once is the next of a chain. */
export function waitedElsewhere(): void {
  budget.admits(0);
}

function runHere(work: () => void): number {
  const begun = performance.now();
  work();
  crowd.ran();
  return performance.now() - begun;
}

async function comesToLoop(milliseconds: number): Promise<boolean> {
  if (inFlight > 0) crowd.note();
  if (runsAtOnce(milliseconds, undefined)) return true;
  if (inFlight > 0 || milliseconds > LONGEST_RUN || crowd.isThere()) return false;
  if (budget.isWhole()) return !crowd.isFound() && budget.admits(milliseconds, LONGEST_RUN);
  return hasTurnOfItsOwn(milliseconds);
}

function comesToWait(milliseconds: number, overlaps: boolean): boolean | Promise<boolean> {
  if (overlaps || inFlight > 0) crowd.note();
  if (milliseconds > LONGEST_RUN || crowd.isThere()) return false;
  if (budget.isWhole() && crowd.isFound()) return false;
  return budget.admits(milliseconds, LONGEST_RUN) || hasTurnOfItsOwn(milliseconds);
}

/** Waits until the loop has turned. Nothing overtakes what waits. */
async function hasTurnOfItsOwn(milliseconds: number): Promise<boolean> {
  inFlight++;
  try {
    await nextTurn();
  } finally {
    inFlight--;
  }
  budget.renew();
  return inFlight === 0 && budget.admits(milliseconds, LONGEST_RUN);
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

import { callNative } from './errors';
import { addon } from './load';

/**
 * Calls `resume` when the event loop has turned. Native code sees to that: test frameworks fake `setImmediate`, and what
 * waits for a faked one waits for ever. Keeps the process until then.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`
 */
export function onNextTurn(resume: () => void): void {
  callNative(() => addon().nextTurn(resume));
}

/** Resolves when the event loop has turned. */
export function nextTurn(): Promise<void> {
  return new Promise(onNextTurn);
}

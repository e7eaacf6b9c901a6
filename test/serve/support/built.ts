/**
 * The built package as Node.js loads it, apart from Jest: what Jest loads can import nothing dynamically, neither sharp nor
 * the sessions of model files.
 */
import type * as Warpconv from '../../../lib';
import type * as Serve from '../../../lib/serve';
import type { RunningServer, ServeOptions } from '../../../lib/serve';
import { load } from './outside';
import { openBy } from './serving';

export const { InferenceSession, memory } = load('../../../dist') as typeof Warpconv;
export const { createHandler, ModelFolder, serve } = load('../../../dist/serve') as typeof Serve;

/** A server of the built package, of which so many threads read the requests. */
export function openBuilt(options: ServeOptions, threads = 1): Promise<RunningServer> {
  return openBy(serve, { threads, ...options });
}

import makeDebug from 'debug';

import { isObject, mismatch } from '../check';

/** Where failures are reported: any logger of pino's shape. */
export interface ServeLogger {
  /**
   * Reports one failure.
   *
   * @param details - `{ err, model }`: what was thrown, and the name of the model
   */
  error(details: object, message: string): void;
  /** The same for what may become one, such as a folder of models that cannot be read now. */
  warn?(details: object, message: string): void;
  /** Tells that a model of a folder begins or ends to be served. */
  info?(details: object, message: string): void;
}

const debug = makeDebug('warpconv:serve');
const log = (details: object, message: string) => debug('%s %o', message, details);
const DEBUG_LOGGER: ServeLogger = { error: log, warn: log, info: log };

export function readLogger(name: string, value: unknown): ServeLogger {
  if (value === undefined) return DEBUG_LOGGER;
  if (isObject(value) && typeof (value as Partial<ServeLogger>).error === 'function')
    return value as ServeLogger;
  throw mismatch(name, 'an object with a method error', value);
}

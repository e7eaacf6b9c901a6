import makeDebug from 'debug';

import { checkInteger, checkName, invalid, isObject, mismatch, readProperties } from '../check';
import { readModel, type Model, type ModelOptions, type ServedSession } from './model';

/** Where failures are reported: any logger of pino's shape. */
export interface ServeLogger {
  /**
   * Reports one failure.
   *
   * @param details - `{ err, model }`: what was thrown, and the name of the model
   */
  error(details: object, message: string): void;
}

/** The options of {@link createHandler}. Any other property is refused; `undefined` means the default. */
export interface HandlerOptions {
  /** What is served under which name. Sessions stay their owner's: nothing here releases them. */
  readonly models: Readonly<Record<string, ServedSession | ModelOptions>>;
  /** Most requests that wait for one model; those beyond are answered by 503. Default 256. */
  readonly maxQueue?: number;
  /** Longest body of a request, in bytes, decoded where it is compressed. Default 32 MiB. */
  readonly maxBodyBytes?: number;
  /**
   * Longest JSON in a request or a response, in bytes. It takes 5 to 15 ms of processor time per MiB, in several turns of
   * the event loop, so large tensors had better come and go as binary data. Default 4 MiB.
   */
  readonly maxJsonBytes?: number;
  /** Most bytes that the requests being read, waiting and running, and answers being sent, may take up. Default 256 MiB. */
  readonly maxHeldBytes?: number;
  /**
   * Milliseconds that a request may take: until its body is there (408 beyond), until the model has answered (504), and
   * once more until the client has read the answer. Default 30,000.
   */
  readonly timeout?: number;
  /** Told of failures that are not the client's. Default: `debug` under the name `warpconv:serve`. */
  readonly logger?: ServeLogger;
}

/** Options, read once and checked. */
export interface HandlerSettings extends Required<Omit<HandlerOptions, 'models'>> {
  readonly models: ReadonlyMap<string, Model>;
}

export const HANDLER_DEFAULTS = {
  models: undefined,
  maxQueue: 256,
  maxBodyBytes: 32 * 2 ** 20,
  maxJsonBytes: 4 * 2 ** 20,
  maxHeldBytes: 256 * 2 ** 20,
  timeout: 30_000,
  logger: undefined,
} as const satisfies Record<keyof HandlerOptions, unknown>;

const LIMIT = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
/** Timers of Node.js count in 31 bits. */
const MILLISECONDS = { min: 1, max: 2 ** 31 - 1 } as const;

export function readHandlerOptions(options: unknown): HandlerSettings {
  return handlerSettings(readProperties('options', options, HANDLER_DEFAULTS));
}

export function handlerSettings(given: Record<keyof HandlerOptions, unknown>): HandlerSettings {
  const settings = {
    models: readModels(given.models),
    maxQueue: checkInteger('options.maxQueue', given.maxQueue, LIMIT),
    maxBodyBytes: checkInteger('options.maxBodyBytes', given.maxBodyBytes, LIMIT),
    maxJsonBytes: checkInteger('options.maxJsonBytes', given.maxJsonBytes, LIMIT),
    maxHeldBytes: checkInteger('options.maxHeldBytes', given.maxHeldBytes, LIMIT),
    timeout: checkInteger('options.timeout', given.timeout, MILLISECONDS),
    logger: readLogger(given.logger),
  };
  if (settings.maxHeldBytes >= settings.maxBodyBytes) return settings;
  throw invalid(
    `options.maxHeldBytes is ${settings.maxHeldBytes}; a body of options.maxBodyBytes, ${settings.maxBodyBytes}, needs to fit`,
  );
}

function readModels(value: unknown): Map<string, Model> {
  if (!isObject(value) || Array.isArray(value) || Object.keys(value).length === 0) {
    throw mismatch('options.models', 'an object of sessions by the names of models', value);
  }
  const entries = Object.entries(value).map(([name, model]) => {
    return [
      name,
      readModel(`options.models.${checkName('the name of a model', name)}`, name, model),
    ] as const;
  });
  return new Map(entries);
}

const debug = makeDebug('warpconv:serve');
const DEBUG_LOGGER: ServeLogger = { error: (details, message) => debug('%s %o', message, details) };

function readLogger(value: unknown): ServeLogger {
  if (value === undefined) return DEBUG_LOGGER;
  if (isObject(value) && typeof (value as Partial<ServeLogger>).error === 'function')
    return value as ServeLogger;
  throw mismatch('options.logger', 'an object with a method error', value);
}

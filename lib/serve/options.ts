import { checkInteger, checkName, invalid, isObject, mismatch, readProperties } from '../check';
import { readAccessLog, type AccessLogOption } from './access_log';
import { readCors, type Cors } from './cors';
import type { Watcher } from './exchange_record';
import { readLogger, type ServeLogger } from './logger';
import { ModelFolder } from './folder/model_folder';
import { readModel, type Model, type ModelOptions, type ServedSession } from './model';
import { Tracing } from './tracing';
import { watcherOf } from './watchers';

export type { ServeLogger } from './logger';

/** The options of {@link createHandler}. Any other property is refused; `undefined` means the default. */
export interface HandlerOptions {
  /**
   * What is served under which name, or a folder of models, which come and go. Sessions and folders stay their owner's:
   * nothing here releases them.
   */
  readonly models: Readonly<Record<string, ServedSession | ModelOptions>> | ModelFolder;
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
  /**
   * Pages of which origins may ask, by CORS: a list such as `['https://example.com']`, or `'*'` for all. Listed origins may
   * send credentials, for a proxy in front. Default none.
   */
  readonly cors?: '*' | readonly string[];
  /**
   * Told of each request, once it has been answered: `true` for a line of JSON on stdout, a function, or a logger of pino's
   * shape. Health checks and requests for metrics are left out where they are answered by 200. Default none.
   */
  readonly accessLog?: AccessLogOption;
}

/** Options, read once and checked. */
export interface HandlerSettings extends Required<Omit<HandlerOptions, 'models' | 'cors' | 'accessLog'>> {
  /** Those that are always there */
  readonly models: ReadonlyMap<string, Model>;
  readonly folder: ModelFolder | undefined;
  readonly cors: Cors | undefined;
  readonly tracing: Tracing | undefined;
  readonly watcher: Watcher | undefined;
}

/** Where models run, as far as that is known. */
export function devicesOf({ models, folder }: HandlerSettings): readonly string[] {
  const replicas = [...models.values()].flatMap((model) => model.replicas);
  return [...replicas.flatMap(({ session }) => session.device ?? []), ...(folder?.devices ?? [])];
}

export const HANDLER_DEFAULTS = {
  models: undefined,
  maxQueue: 256,
  maxBodyBytes: 32 * 2 ** 20,
  maxJsonBytes: 4 * 2 ** 20,
  maxHeldBytes: 256 * 2 ** 20,
  timeout: 30_000,
  logger: undefined,
  cors: undefined,
  accessLog: undefined,
} as const satisfies Record<keyof HandlerOptions, unknown>;

const LIMIT = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
/** Timers of Node.js count in 31 bits. */
const MILLISECONDS = { min: 1, max: 2 ** 31 - 1 } as const;

export function readHandlerOptions(options: unknown): HandlerSettings {
  return handlerSettings(readProperties('options', options, HANDLER_DEFAULTS));
}

export function handlerSettings(given: Record<keyof HandlerOptions, unknown>): HandlerSettings {
  const logger = readLogger('options.logger', given.logger);
  const tracing = Tracing.open();
  const settings = {
    ...readServed(given.models),
    maxQueue: checkInteger('options.maxQueue', given.maxQueue, LIMIT),
    maxBodyBytes: checkInteger('options.maxBodyBytes', given.maxBodyBytes, LIMIT),
    maxJsonBytes: checkInteger('options.maxJsonBytes', given.maxJsonBytes, LIMIT),
    maxHeldBytes: checkInteger('options.maxHeldBytes', given.maxHeldBytes, LIMIT),
    timeout: checkInteger('options.timeout', given.timeout, MILLISECONDS),
    logger,
    cors: readCors(given.cors),
    tracing,
    watcher: watcherOf(readAccessLog(given.accessLog, logger), tracing),
  };
  if (settings.maxHeldBytes >= settings.maxBodyBytes) return settings;
  throw invalid(
    `options.maxHeldBytes is ${settings.maxHeldBytes}; a body of options.maxBodyBytes, ${settings.maxBodyBytes}, needs to fit`,
  );
}

function readServed(value: unknown): Pick<HandlerSettings, 'models' | 'folder'> {
  if (value instanceof ModelFolder) return { models: new Map(), folder: value };
  return { models: readModels(value), folder: undefined };
}

function readModels(value: unknown): Map<string, Model> {
  if (!isObject(value) || Array.isArray(value) || Object.keys(value).length === 0) {
    throw mismatch('options.models', 'an object of sessions by the names of models, or a ModelFolder', value);
  }
  const entries = Object.entries(value).map(([name, model]) => {
    return [
      name,
      readModel(`options.models.${checkName('the name of a model', name)}`, name, model),
    ] as const;
  });
  return new Map(entries);
}

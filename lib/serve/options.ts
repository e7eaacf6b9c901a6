import { checkInteger, checkName, invalid, isObject, mismatch, readProperties } from '../check';
import { readLogger, type ServeLogger } from './logger';
import { ModelFolder } from './folder/model_folder';
import { readModel, type Model, type ModelOptions, type ServedSession } from './model';

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
}

/** Options, read once and checked. */
export interface HandlerSettings extends Required<Omit<HandlerOptions, 'models'>> {
  /** Those that are always there */
  readonly models: ReadonlyMap<string, Model>;
  readonly folder: ModelFolder | undefined;
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
} as const satisfies Record<keyof HandlerOptions, unknown>;

const LIMIT = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
/** Timers of Node.js count in 31 bits. */
const MILLISECONDS = { min: 1, max: 2 ** 31 - 1 } as const;

export function readHandlerOptions(options: unknown): HandlerSettings {
  return handlerSettings(readProperties('options', options, HANDLER_DEFAULTS));
}

export function handlerSettings(given: Record<keyof HandlerOptions, unknown>): HandlerSettings {
  const settings = {
    ...readServed(given.models),
    maxQueue: checkInteger('options.maxQueue', given.maxQueue, LIMIT),
    maxBodyBytes: checkInteger('options.maxBodyBytes', given.maxBodyBytes, LIMIT),
    maxJsonBytes: checkInteger('options.maxJsonBytes', given.maxJsonBytes, LIMIT),
    maxHeldBytes: checkInteger('options.maxHeldBytes', given.maxHeldBytes, LIMIT),
    timeout: checkInteger('options.timeout', given.timeout, MILLISECONDS),
    logger: readLogger('options.logger', given.logger),
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

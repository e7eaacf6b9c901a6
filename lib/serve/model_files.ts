/** Models that a server loads itself: sessions on all GPUs of the machine, or on the CPU. */
import { describe, invalid, isObject, mismatch, readProperties } from '../check';
import { WarpconvError } from '../errors';
import type { SessionOptions } from '../session/session_options';
import { isServed, MODEL_DEFAULTS, type ModelOptions, type ServedSession } from './model';

/** An ONNX file, and what there is to say about serving it. The server makes the sessions, and releases them. */
export interface ModelFile extends Omit<ModelOptions, 'session'> {
  /** Its path */
  readonly file: string;
  /** Of the sessions. Where they name no device, there is a session on each GPU, or one on the CPU if there is none. */
  readonly sessionOptions?: SessionOptions;
}

export type AnyModel = string | ModelFile | ServedSession | ModelOptions;

/** What is ready to be served. */
export interface OpenedModels {
  /** As a handler takes them */
  readonly models: unknown;
  /** Releases the sessions that were made here. */
  readonly release: () => Promise<void>;
}

export interface Releasable extends ServedSession {
  release(): Promise<void>;
}

/** Loads the models that are given by files. What else is wrong with the options the handler finds. */
export async function openModelFiles(models: unknown): Promise<OpenedModels> {
  const opened: Releasable[] = [];
  const release = async () => {
    await Promise.allSettled(opened.map((session) => session.release()));
  };
  if (!isObject(models) || Array.isArray(models)) return { models, release };
  try {
    const entries: [string, unknown][] = [];
    for (const [name, model] of Object.entries(models)) {
      entries.push([name, await openModel(name, model, opened)]);
    }
    return { models: Object.fromEntries(entries), release };
  } catch (error) {
    await release();
    throw error;
  }
}

const FILE_DEFAULTS = {
  file: undefined,
  sessionOptions: undefined,
  ...MODEL_DEFAULTS,
} as const satisfies Record<keyof (ModelFile & ModelOptions), unknown>;

const A_MODEL = "a session, the path of an ONNX file, or an object with a 'session' or a 'file'";

async function openModel(name: string, model: unknown, opened: Releasable[]): Promise<unknown> {
  const called = `options.models.${name}`;
  if (typeof model === 'string') return openNamed(name, model, undefined, opened);
  if (isServed(model)) return model;
  if (!isObject(model)) throw mismatch(called, A_MODEL, model);
  const { file, sessionOptions, ...rest } = readProperties(called, model, FILE_DEFAULTS);
  if (file === undefined) {
    if (rest.session === undefined) throw mismatch(called, A_MODEL, model);
    if (sessionOptions === undefined) return rest;
    throw invalid(`${called}.sessionOptions are for a file; create the session with them, or give its file`);
  }
  if (rest.session !== undefined) throw invalid(`${called} has a session and a file; give one of the two`);
  if (typeof file !== 'string') throw mismatch(`${called}.file`, 'the path of an ONNX file', file);
  return { ...rest, session: await openNamed(name, file, sessionOptions as SessionOptions, opened) };
}

/** Says which of the models it is in whose file or session's options something is wrong. Other errors name the file. */
async function openNamed(name: string, ...rest: Parameters<typeof openSessions>) {
  try {
    return await openSessions(...rest);
  } catch (error) {
    const { code, message } = error as WarpconvError;
    if (code === 'ERR_WARPCONV_INVALID_ARGUMENT' && message.startsWith('options.'))
      throw invalid(message.replace('options.', `options.models.${name}.sessionOptions.`));
    if (code !== 'ERR_WARPCONV_INVALID_MODEL' && code !== 'ERR_WARPCONV_UNSUPPORTED') throw error;
    throw new WarpconvError(code, `model ${describe(name)} cannot be loaded: ${message}`, { cause: error });
  }
}

export async function openSessions(
  file: string,
  options: SessionOptions | undefined,
  opened: Releasable[],
): Promise<readonly Releasable[]> {
  // Servers of other sessions load none of this.
  const { InferenceSession } = await import('../session/session.js');
  const made: Releasable[] = [];
  for (const device of await devicesFor(options)) {
    const session = await InferenceSession.create(file, { ...options, device });
    opened.push(session);
    made.push(session);
  }
  return made;
}

/** Where a model gets a session each; nothing for where the options say otherwise. */
export async function devicesFor(
  options: SessionOptions | undefined,
): Promise<readonly SessionOptions['device'][]> {
  const isChosen = options?.device !== undefined || options?.executionProviders !== undefined;
  return isChosen ? [options.device] : allDevices();
}

async function allDevices(): Promise<readonly NonNullable<SessionOptions['device']>[]> {
  const { devices } = await import('../devices.js');
  const { probeElsewhere } = await import('../placement.js');
  await probeElsewhere('auto');
  const gpus = devices().filter(({ type, available }) => type === 'cuda' && available);
  return gpus.length === 0 ? ['auto'] : gpus.map(({ device }) => device);
}

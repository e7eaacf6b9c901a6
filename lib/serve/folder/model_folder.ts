/** A folder of models: which of them are loaded, and what becomes of them when it changes. */
import {
  checkBoolean,
  checkInteger,
  checkList,
  checkName,
  checkOneOf,
  describe,
  invalid,
  readProperties,
} from '../../check';
import { WarpconvError } from '../../errors';
import { readLogger, type ServeLogger } from '../logger';
import { readModel, type Model } from '../model';
import { devicesFor, openSessions, type Releasable } from '../model_files';
import { clearTimeout, setTimeout, wait } from '../timers';
import { MODEL_DEFAULTS, readConfig, type ModelDefaults } from './config';
import type { ModelFollower } from './follower';
import { findModel, scanFolder, type FoundModel } from './scan';

const CONTROLS = ['none', 'poll', 'explicit'] as const;

/** Who decides which models of a folder are served; see {@link ModelFolderOptions.control}. */
export type ModelControl = (typeof CONTROLS)[number];

/** The options of {@link ModelFolder.open}. Any other property is refused; `undefined` means the default. */
export interface ModelFolderOptions {
  /**
   * As Triton's `--model-control-mode`. `'none'`, the default: all models that are there at the start, and what
   * {@link ModelFolder.reload} finds. `'poll'`: what the folder has is also looked for every `pollInterval`.
   * `'explicit'`: the models of `load` at first, then as {@link ModelFolder.load} and {@link ModelFolder.unload} say, which
   * anybody who reaches the server may call, too.
   */
  readonly control?: ModelControl;
  /** Milliseconds between two looks at the folder. Default 15,000. */
  readonly pollInterval?: number;
  /** Names of models to load at first, where `control` is `'explicit'`. Default none. */
  readonly load?: readonly string[];
  /** Whether the server is not ready while a model is not served that should be. Default true, as Triton's. */
  readonly strictReadiness?: boolean;
  /** What there is to say about serving all models; a model's own `config.json` may say otherwise. */
  readonly defaults?: ModelDefaults;
  /** Told of models that begin or end to be served, and of those that cannot be. Default: `debug`, as the server's. */
  readonly logger?: ServeLogger;
}

/** A model as an index of the folder lists it; as in Triton's model repository extension. */
export interface ModelState {
  readonly name: string;
  readonly version?: string;
  /** Nothing where it was never asked for */
  readonly state?: 'READY' | 'LOADING' | 'UNAVAILABLE';
  readonly reason?: string;
}

const OPTION_DEFAULTS = {
  control: 'none',
  pollInterval: 15_000,
  load: [],
  strictReadiness: true,
  defaults: {},
  logger: undefined,
} as const satisfies Record<keyof ModelFolderOptions, unknown>;

/** Timers of Node.js count in 31 bits. */
const MILLISECONDS = { min: 1, max: 2 ** 31 - 1 } as const;

/** Between two looks at files that may still be written, when somebody asks for them now. */
const SETTLE_MS = 250;
/** After that many looks they are left for another time. */
const MOST_LOOKS = 240;

/** A model that is served. */
interface Loaded {
  readonly model: Model;
  readonly sessions: readonly Releasable[];
  readonly signature: string;
}

/** What is known of a name. */
interface Entry {
  served?: Loaded;
  /** Why the newest version is not served */
  failure?: { readonly version: string | undefined; readonly reason: string; readonly signature: string };
  /** The version that is being loaded */
  loading?: string;
  /** The version that was served last */
  unloaded?: string;
}

type Found = ReadonlyMap<string, FoundModel>;

/** A call that has not begun */
interface Waiting {
  readonly action: 'load' | 'unload' | 'reload';
  readonly result: Promise<void>;
}

/** The models of a folder, for {@link serve}, {@link createHandler} or the plugin of Fastify. */
export class ModelFolder {
  /** Where models run that do not say so themselves. */
  readonly devices: readonly string[];
  readonly control: ModelControl;
  readonly #options: Required<ModelFolderOptions>;
  readonly #entries = new Map<string, Entry>();
  readonly #followers = new Set<ModelFollower>();
  /** What calls have said of single models */
  readonly #asked = new Map<string, boolean>();
  /** Models that end once their requests have */
  readonly #ending = new Set<Promise<void>>();
  /** Changes are made one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  /** The last call of each model that waits for its turn, and, without a name, of the whole folder */
  readonly #waiting = new Map<string | undefined, Waiting>();
  /** Signatures at the last look */
  #looked: ReadonlyMap<string, string> = new Map();
  #complaint: string | undefined;
  #glancing: Promise<Found> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  private constructor(
    readonly folder: string,
    options: Required<ModelFolderOptions>,
    devices: readonly string[],
  ) {
    this.#options = options;
    this.control = options.control;
    this.devices = devices;
    for (const name of options.load) this.#asked.set(name, true);
  }

  /**
   * Opens a folder with models at NAME/VERSION/model.onnx, of which the newest version is served, or NAME.onnx.
   *
   * @returns once the models have been loaded that are to be served; one that cannot be stops no other. Rejects where the
   *   folder cannot be read, or has no model and nobody would notice one
   */
  static async open(folder: string, options: ModelFolderOptions = {}): Promise<ModelFolder> {
    const settings = readOptions(options);
    checkName('folder', folder);
    const devices = (await devicesFor(settings.defaults.sessionOptions)).map((device) => device ?? 'auto');
    const opened = new ModelFolder(folder, settings, devices);
    await opened.#begin();
    return opened;
  }

  /** False while a model is not served that should be, unless `strictReadiness` is false. */
  get isReady(): boolean {
    if (!this.#options.strictReadiness) return true;
    return ![...this.#entries].some(
      ([name, { served, failure }]) => served === undefined && failure !== undefined && this.#isWanted(name),
    );
  }

  /** All models of the folder, and how they are. */
  async index(): Promise<ModelState[]> {
    const found = await this.#glance();
    const names = new Set([...this.#entries.keys(), ...found.keys()]);
    return [...names].sort().flatMap((name) => statesOf(name, this.#entries.get(name) ?? {}));
  }

  /**
   * Loads a model, or its newest version; does nothing where that is served. Rejects where it cannot be loaded; a version
   * that was served before goes on to be.
   */
  load(name: string): Promise<void> {
    return this.#ask('load', name, async () => {
      const { found, isStill } = await this.#settled(() => this.#find(name));
      const model = found.get(name);
      if (model === undefined) throw unknown('load', name);
      if (!isStill(name)) throw loadFailed(name, stillWritten());
      const error = await this.#bring(model, true);
      if (error !== undefined) throw loadFailed(name, error);
      this.#asked.set(name, true);
    });
  }

  /** Serves a model no longer, until it is loaded by its name. Its requests are answered. */
  unload(name: string): Promise<void> {
    return this.#ask('unload', name, async () => {
      if (!this.#entries.has(name) && (await this.#find(name)).size === 0) throw unknown('unload', name);
      this.#asked.set(name, false);
      await this.#drop(name);
    });
  }

  /**
   * Looks at the folder now: loads what is new or has changed, tries again what failed, and drops what is gone. Waits for
   * files that are still being written. Rejects where the folder cannot be read; models that cannot be loaded the log and
   * the index tell of.
   */
  reload(): Promise<void> {
    return this.#ask('reload', undefined, async () => {
      const { found, isStill } = await this.#settled(() => scanFolder(this.folder));
      await this.#bringAll(found, { retry: true, isStill });
      for (const model of found.values())
        if (this.#isWanted(model.name) && !isStill(model.name)) this.#fail(model.name, stillWritten(), model);
    });
  }

  /** Ends all models, once their requests have been answered. Again is harmless. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  /**
   * Tells of models that begin and end to be served, from those that are now.
   *
   * @returns what ends that
   * @internal
   */
  follow(follower: ModelFollower): () => void {
    this.#followers.add(follower);
    for (const { served } of this.#entries.values())
      if (served !== undefined) void follower.serve(served.model);
    return () => void this.#followers.delete(follower);
  }

  async #begin(): Promise<void> {
    const found = await scanFolder(this.folder).catch((error: Error) => {
      throw invalid(`the folder of models cannot be read: ${error.message}`);
    });
    if (found.size === 0 && this.control === 'none') {
      throw invalid(
        `there is no model in ${describe(this.folder)}: put it at NAME/1/model.onnx or NAME.onnx there`,
      );
    }
    await this.#inTurn(() => this.#bringAll(found, { retry: true, isStill: () => true }));
    for (const name of this.#options.load) if (!found.has(name)) this.#fail(name, unknown('load', name));
    this.#looked = signaturesOf(found);
    if (this.control === 'poll') this.#scheduleLook();
  }

  /** Anybody may ask for the index, as often as they like: looks that would overlap are one. */
  #glance(): Promise<Found> {
    this.#glancing ??= scanFolder(this.folder)
      .catch(() => new Map<string, FoundModel>())
      .finally(() => (this.#glancing = undefined));
    return this.#glancing;
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#turn;
    await Promise.all([...this.#entries.keys()].map((name) => this.#drop(name)));
    await Promise.all(this.#ending);
  }

  /**
   * Runs `act` in its turn. A call for the same action and model as one that still waits gets the result of that one:
   * otherwise each of many calls would look at all files again.
   */
  #ask(action: Waiting['action'], name: string | undefined, act: () => Promise<void>): Promise<void> {
    const waiting = this.#waiting.get(name);
    if (waiting?.action === action) return waiting.result;
    const result = this.#inTurn(() => {
      if (this.#waiting.get(name)?.result === result) this.#waiting.delete(name);
      return act();
    });
    this.#waiting.set(name, { action, result });
    return result;
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(() => {
      this.#throwIfClosed();
      return act();
    });
    this.#turn = result.catch(() => {});
    return result;
  }

  #scheduleLook(): void {
    if (this.#closed !== undefined) return;
    this.#timer = setTimeout(() => {
      void this.#inTurn(() => this.#look())
        .catch((error: unknown) => this.#complain(error as Error))
        .finally(() => this.#scheduleLook());
    }, this.#options.pollInterval);
    this.#timer.unref();
  }

  /** Takes what is the same as at the last look: the rest may still be written, or moved. */
  async #look(): Promise<void> {
    const found = await scanFolder(this.folder);
    const before = this.#looked;
    this.#looked = signaturesOf(found);
    const isStill = (name: string) => before.get(name) === this.#looked.get(name);
    await this.#bringAll(found, { retry: false, isStill });
    if (found.size > 0) this.#complaint = undefined;
  }

  async #find(name: string): Promise<Found> {
    const model = await findModel(this.folder, name);
    return new Map(model === undefined ? [] : [[name, model]]);
  }

  /** What `look` finds, once it finds the same twice, and what has been the same for how long one waits. */
  async #settled(look: () => Promise<Found>): Promise<{ found: Found; isStill: (name: string) => boolean }> {
    let [before, found] = [await look(), await this.#lookAgain(look)];
    for (let looks = 2; looks < MOST_LOOKS && !areSame(before, found); looks++)
      [before, found] = [found, await this.#lookAgain(look)];
    return { found, isStill: (name) => before.get(name)?.signature === found.get(name)?.signature };
  }

  async #lookAgain(look: () => Promise<Found>): Promise<Found> {
    await wait(SETTLE_MS);
    this.#throwIfClosed();
    return look();
  }

  #throwIfClosed(): void {
    if (this.#closed !== undefined)
      throw new WarpconvError('ERR_WARPCONV_DISPOSED', 'the folder of models is closed');
  }

  async #bringAll(
    found: Found,
    { retry, isStill }: { readonly retry: boolean; readonly isStill: (name: string) => boolean },
  ): Promise<void> {
    const served = [...this.#entries].filter(([, entry]) => entry.served !== undefined);
    // That is what a volume looks like that is not mounted any more.
    if (found.size === 0 && served.length > 0)
      return this.#complain(new Error(`there is no model left in ${describe(this.folder)}`));
    for (const model of found.values())
      if (this.#isWanted(model.name) && isStill(model.name)) await this.#bring(model, retry);
    for (const name of [...this.#entries.keys()])
      if (!found.has(name) && isStill(name)) await this.#forget(name);
  }

  #isWanted(name: string): boolean {
    return this.#asked.get(name) ?? this.control !== 'explicit';
  }

  /** Serves a model as the folder has it. Resolves with what kept it from being loaded. */
  async #bring(found: FoundModel, retry: boolean): Promise<Error | undefined> {
    const { name, version, signature } = found;
    const entry = this.#entryOf(name);
    if (entry.served?.signature === signature) return void (entry.failure = undefined);
    if (!retry && entry.failure?.signature === signature) return undefined;
    if (version !== undefined) entry.loading = version;
    try {
      await this.#serve(name, entry, await this.#open(found));
      return undefined;
    } catch (error) {
      if (this.#closed === undefined) this.#fail(name, error as Error, found);
      return error as Error;
    } finally {
      entry.loading = undefined;
    }
  }

  async #open(found: FoundModel): Promise<Loaded> {
    const { name, file, problem, signature, hasPbtxt } = found;
    if (problem !== undefined) throw invalid(problem);
    if (hasPbtxt) this.#log('info', { model: name }, 'a config.pbtxt is ignored; use a config.json');
    const { sessionOptions, ...options } = await readConfig(found.config, this.#options.defaults);
    const sessions: Releasable[] = [];
    try {
      this.#throwIfClosed();
      await openSessions(file, sessionOptions, sessions);
      const version = found.version!;
      const model = readModel('the model', name, { ...options, version, session: sessions });
      const now = await findModel(this.folder, name);
      if (now?.signature !== signature) throw invalid('it has changed while it was loaded');
      this.#throwIfClosed();
      return { model, sessions, signature };
    } catch (error) {
      await release(sessions);
      throw error;
    }
  }

  /** The version before ends when its requests have been answered; until then both take memory. */
  async #serve(name: string, entry: Entry, loaded: Loaded): Promise<void> {
    const before = entry.served;
    entry.served = loaded;
    entry.failure = undefined;
    await this.#tellAll((follower) => follower.serve(loaded.model));
    if (before !== undefined) this.#end(before);
    const { version } = loaded.model;
    this.#log(
      'info',
      { model: name, version },
      before === undefined ? 'a model is served' : 'a model was replaced',
    );
  }

  async #drop(name: string): Promise<void> {
    const entry = this.#entryOf(name);
    const { served } = entry;
    entry.failure = undefined;
    if (served === undefined) return;
    entry.served = undefined;
    entry.unloaded = served.model.version;
    await this.#tellAll((follower) => follower.remove(served.model));
    this.#end(served);
    this.#log('info', { model: name, version: entry.unloaded }, 'a model is not served any more');
  }

  /** As {@link #drop}, of one that the folder has no longer. One that was to be loaded at first goes on to be missed. */
  async #forget(name: string): Promise<void> {
    await this.#drop(name);
    if (this.#options.load.includes(name)) this.#fail(name, unknown('load', name));
    else this.#entries.delete(name);
  }

  #end({ model, sessions }: Loaded): void {
    const ended = this.#tellAll((follower) => follower.gone(model)).then(() => release(sessions));
    this.#ending.add(ended);
    void ended.then(() => this.#ending.delete(ended));
  }

  async #tellAll(tell: (follower: ModelFollower) => Promise<void>): Promise<void> {
    await Promise.all([...this.#followers].map(tell));
  }

  #fail(name: string, error: Error, found?: FoundModel): void {
    const { version, signature = '' } = found ?? {};
    this.#entryOf(name).failure = { version, reason: error.message, signature };
    this.#log('error', { err: error, model: name }, 'a model cannot be loaded');
  }

  /** Says so once, and not at every look. */
  #complain(error: Error): void {
    if (this.#complaint === error.message || this.#closed !== undefined) return;
    this.#complaint = error.message;
    this.#log('warn', { err: error }, 'the folder of models cannot be followed; what was loaded is served');
  }

  #log(level: 'error' | 'warn' | 'info', details: object, message: string): void {
    this.#options.logger[level]?.(details, message);
  }

  #entryOf(name: string): Entry {
    let entry = this.#entries.get(name);
    if (entry === undefined) this.#entries.set(name, (entry = {}));
    return entry;
  }
}

function readOptions(options: unknown): Required<ModelFolderOptions> {
  const given = readProperties('options', options, OPTION_DEFAULTS);
  const control = checkOneOf('options.control', given.control, CONTROLS);
  const load = checkList('options.load', given.load, 'a list of names', checkName);
  if (load.length > 0 && control !== 'explicit')
    throw invalid(`options.load needs options.control 'explicit', got '${control}'`);
  const { sessionOptions, ...defaults } = readProperties('options.defaults', given.defaults, MODEL_DEFAULTS);
  return {
    control,
    load,
    pollInterval: checkInteger('options.pollInterval', given.pollInterval, MILLISECONDS),
    strictReadiness: checkBoolean('options.strictReadiness', given.strictReadiness),
    defaults: { ...defaults, sessionOptions } as ModelDefaults,
    logger: readLogger('options.logger', given.logger),
  };
}

/** As an index of Triton's has it: an entry for each version that there is something to say of. */
function statesOf(name: string, { served, failure, loading, unloaded }: Entry): ModelState[] {
  const states: ModelState[] = [];
  const version = served?.model.version;
  const reason = failure?.reason;
  if (version !== undefined) {
    const isOwn = failure !== undefined && failure.version === version;
    states.push({ name, version, state: 'READY', ...(isOwn && { reason }) });
  }
  if (loading !== undefined) {
    if (loading !== version) states.push({ name, version: loading, state: 'LOADING' });
  } else if (failure !== undefined && (version === undefined || failure.version !== version)) {
    states.push({ name, version: failure.version, state: 'UNAVAILABLE', reason });
  }
  if (states.length > 0) return states;
  return [
    unloaded === undefined ? { name } : { name, version: unloaded, state: 'UNAVAILABLE', reason: 'unloaded' },
  ];
}

function signaturesOf(found: Found): Map<string, string> {
  return new Map([...found].map(([name, { signature }]) => [name, signature]));
}

function areSame(one: Found, other: Found): boolean {
  return (
    one.size === other.size &&
    [...one].every(([name, { signature }]) => other.get(name)?.signature === signature)
  );
}

async function release(sessions: readonly Releasable[]): Promise<void> {
  await Promise.allSettled(sessions.map((session) => session.release()));
}

/** As Triton words it. */
function unknown(action: 'load' | 'unload', name: string): WarpconvError {
  return invalid(
    `failed to ${action} ${describe(name)}, failed to poll from model repository: there is no such model`,
  );
}

function loadFailed(name: string, cause: Error): WarpconvError {
  const code = cause instanceof WarpconvError ? cause.code : 'ERR_WARPCONV_INVALID_MODEL';
  return new WarpconvError(code, `failed to load ${describe(name)}: ${cause.message}`, { cause });
}

function stillWritten(): WarpconvError {
  return invalid('its files are still being written; try again when they are there');
}

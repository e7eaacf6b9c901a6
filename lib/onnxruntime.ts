/**
 * Registers this package as a backend of onnxruntime, so that a program which uses onnxruntime-node changes one option:
 *
 *     import 'warpconv/onnxruntime';
 *     const session = await ort.InferenceSession.create('model.onnx', { executionProviders: ['warpconv'] });
 *
 * Options of ours go beside the name: `{ name: 'warpconv', device: 'cpu' }`. With `['warpconv', 'cpu']` a model that this
 * package cannot run is given, whole, to onnxruntime's own provider, with a warning that says why.
 *
 * @packageDocumentation
 */
import { createRequire } from 'node:module';
import path from 'node:path';

import { checkList, isObject, mismatch, propertyOf, unreadable } from './check';
import { WarpconvError } from './errors';
import type { ValueMetadata } from './model/metadata';
import { InferenceSession } from './session/session';
import type { SessionOptions } from './session/session_options';
import type { Tensor } from './tensor/tensor';
import type { TensorLike } from './tensor/tensor_like';

/** What onnxruntime asks of a loaded model. */
export interface SessionHandler {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  /** Ends the session. */
  dispose(): Promise<void>;
  /** Records runs, as {@link InferenceSession.startProfiling}. */
  startProfiling(): void;
  /** Writes what was recorded into the working directory. */
  endProfiling(): void;
  /** Runs the model. */
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: Readonly<Record<string, Tensor | null>>,
  ): Promise<Record<string, Tensor>>;
}

/** onnxruntime's `Backend`. */
export interface Backend {
  /** Nothing is left to be prepared. */
  init(): Promise<void>;
  /** Loads a model from a path or from bytes. */
  createInferenceSessionHandler(model: string | Uint8Array, options?: OrtOptions): Promise<SessionHandler>;
}

/** What is read of onnxruntime's `SessionOptions`. */
export interface OrtOptions {
  readonly executionProviders?: readonly (string | ({ readonly name: string } & SessionOptions))[];
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
}

const NAME = 'warpconv';

/** The backend, for `registerBackend` of a copy of onnxruntime-common that this module does not find by itself. */
export const backend: Backend = {
  init: () => Promise.resolve(),
  async createInferenceSessionHandler(model, options = {}) {
    const others = otherProviders(options);
    // The caller may change bytes once the session is there, and what cannot be run may show in the first run.
    const kept = others.length > 0 && typeof model !== 'string' ? model.slice() : model;
    const fallBack = (error: unknown) => fallBackTo(others, kept, options, error);
    const session: Running = await InferenceSession.create(model, sessionOptions(options)).catch(fallBack);
    return new Handler(session, fallBack);
  },
};

/** A session of ours, or of onnxruntime's own. */
interface Running {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: Readonly<Record<string, Tensor | null>>,
  ): Promise<Record<string, Tensor>>;
  release(): Promise<void>;
}

class Handler implements SessionHandler {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  #session: Running;
  readonly #fallBack: (error: unknown) => Promise<Running>;
  #falling: Promise<Running> | undefined;

  constructor(session: Running, fallBack: (error: unknown) => Promise<Running>) {
    this.inputNames = session.inputNames;
    this.outputNames = session.outputNames;
    this.inputMetadata = session.inputMetadata;
    this.outputMetadata = session.outputMetadata;
    this.#session = session;
    this.#fallBack = fallBack;
  }

  async run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: Readonly<Record<string, Tensor | null>>,
  ): Promise<Record<string, Tensor>> {
    const session = this.#session;
    if (!(session instanceof InferenceSession)) return session.run(feeds, fetches);
    try {
      return await session.run(feeds, fetches);
    } catch (error) {
      this.#falling ??= this.#fallBack(error);
      // What is no reason to fall back is one run's alone.
      const other = await this.#falling.finally(() => (this.#falling = undefined));
      if (this.#session === session) {
        this.#session = other;
        void session.release();
      }
      return this.#session.run(feeds, fetches);
    }
  }

  dispose(): Promise<void> {
    return this.#session.release();
  }

  startProfiling(): void {
    if (this.#session instanceof InferenceSession) this.#session.startProfiling();
  }

  endProfiling(): void {
    if (this.#session instanceof InferenceSession) this.#session.endProfiling();
  }
}

/** The providers that a program names beside ours: onnxruntime gives a backend its own alone where it is asked. */
function otherProviders(options: object): readonly unknown[] {
  const all: unknown = Object.getOwnPropertyDescriptor(options, 'executionProviders')?.value;
  if (!Array.isArray(all)) return [];
  return all.filter((entry) => (isObject(entry) ? propertyOf(entry, 'name') : entry) !== NAME);
}

/** onnxruntime's own session of a model that this package cannot run, where others may. */
async function fallBackTo(
  others: readonly unknown[],
  model: string | Uint8Array,
  options: object,
  error: unknown,
): Promise<Running> {
  const isUnsupported = error instanceof WarpconvError && error.code === 'ERR_WARPCONV_UNSUPPORTED';
  if (!isUnsupported || others.length === 0) throw error;
  const own = { ...options, executionProviders: others };
  for (const { InferenceSession: Other } of found) {
    const session = await Other?.create(model, own).catch(() => undefined);
    if (session === undefined) continue;
    process.emitWarning(`a model is run by onnxruntime's other providers: ${error.message}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_FALLBACK',
    });
    return session;
  }
  throw error;
}

/** Ours from beside our name, and of onnxruntime's own those that mean something here. */
function sessionOptions(options: unknown): SessionOptions {
  try {
    if (!isObject(options)) throw mismatch('options', 'an object', options);
    const providers = propertyOf(options, 'executionProviders') ?? [];
    const what = 'a list of names, and of objects with a name';
    const [own = {}] = checkList('options.executionProviders', providers, what, readProvider).filter(
      isObject,
    );
    const freeDimensionOverrides = propertyOf(
      options,
      'freeDimensionOverrides',
    ) as OrtOptions['freeDimensionOverrides'];
    return { ...(freeDimensionOverrides && { freeDimensionOverrides }), ...own };
  } catch (error) {
    throw unreadable('options', error);
  }
}

/** Our options, where the entry has our name and is more than that. */
function readProvider(_: string, entry: unknown): SessionOptions | undefined {
  if (!isObject(entry) || propertyOf(entry, 'name') !== NAME) return undefined;
  const { name: _name, ...own } = entry as { name?: unknown } & SessionOptions;
  return own;
}

interface Registry {
  readonly InferenceSession?: {
    create(model: string | Uint8Array, options: object): Promise<Running>;
  };
  registerBackend(name: string, backend: Backend, priority: number): void;
}

/** Below zero: only who names it gets it. */
const PRIORITY = -1;

/** onnxruntime-node's own copy of onnxruntime-common, and the one that the program has, which may be another. */
function registries(): Registry[] {
  const found = new Map<string, Registry>();
  for (const from of [path.join(process.cwd(), 'index.js'), __filename]) {
    const require = createRequire(from);
    const runtime = resolve(require, 'onnxruntime-node');
    for (const look of [require, ...(runtime === undefined ? [] : [createRequire(runtime)])]) {
      const file = resolve(look, 'onnxruntime-common');
      if (file !== undefined) found.set(file, look(file) as Registry);
    }
  }
  return [...found.values()];
}

function resolve(require: NodeJS.Require, name: string): string | undefined {
  try {
    return require.resolve(name);
  } catch {
    return undefined;
  }
}

const found = registries();
if (found.length === 0) {
  throw new WarpconvError(
    'ERR_WARPCONV_LOAD_FAILED',
    'warpconv/onnxruntime needs onnxruntime-node (or onnxruntime-common), which is not installed; npm install onnxruntime-node, ' +
      "or use warpconv's own InferenceSession",
  );
}
found.forEach((registry) => registry.registerBackend(NAME, backend, PRIORITY));

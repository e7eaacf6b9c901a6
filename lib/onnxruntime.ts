/**
 * Registers this package as a backend of onnxruntime, so that a program which uses onnxruntime-node changes one option:
 *
 *     import 'warpconv/onnxruntime';
 *     const session = await ort.InferenceSession.create('model.onnx', { executionProviders: ['warpconv'] });
 *
 * Options of ours go beside the name: `{ name: 'warpconv', device: 'cpu' }`; outputs have to stay in CPU memory, from where
 * onnxruntime's tensors take them. With `['warpconv', 'cpu']` a model that this package cannot run is given, whole, to
 * onnxruntime's own provider, with a warning that says why.
 *
 * @packageDocumentation
 */
import { createRequire } from 'node:module';
import path from 'node:path';
import { types } from 'node:util';

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
    const { own, others } = readOptions(options);
    // The caller may change bytes once the session is there, and what cannot be run may show in the first run.
    const isKept = others.length > 0 && types.isUint8Array(model) && model.byteLength > 0;
    const kept = isKept ? Uint8Array.prototype.slice.call(model) : model;
    const fallBack = (error: unknown) => fallBackTo(others, kept, options, error);
    const session: Running = await InferenceSession.create(model, own).catch(fallBack);
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
function readOptions(options: unknown): {
  readonly own: SessionOptions;
  readonly others: readonly unknown[];
} {
  try {
    if (!isObject(options)) throw mismatch('options', 'an object', options);
    const given = propertyOf(options, 'executionProviders') ?? [];
    // onnxruntime gives a backend its own entries alone where it asks, and all by the descriptor.
    const all: unknown = Object.getOwnPropertyDescriptor(options, 'executionProviders')?.value ?? [];
    const [providers, everybody] = [given, all].map((list) =>
      checkList('options.executionProviders', list, PROVIDERS, readProvider),
    ) as [Provider[], Provider[]];
    const freeDimensionOverrides = propertyOf(
      options,
      'freeDimensionOverrides',
    ) as OrtOptions['freeDimensionOverrides'];
    const own = providers.find((provider) => provider.own !== undefined)?.own;
    return {
      own: { ...(freeDimensionOverrides && { freeDimensionOverrides }), ...own },
      others: everybody.flatMap(({ other }) => (other === undefined ? [] : [other])),
    };
  } catch (error) {
    throw unreadable('options', error);
  }
}

const PROVIDERS = 'a list of names, and of objects with a name';

/** Our options, where the entry has our name and is more than that; or another's entry. */
interface Provider {
  readonly own?: SessionOptions;
  readonly other?: unknown;
}

function readProvider(_: string, entry: unknown): Provider {
  const name = isObject(entry) ? propertyOf(entry, 'name') : entry;
  if (name !== NAME) return { other: entry };
  if (!isObject(entry)) return {};
  const { name: _name, ...own } = entry as { name?: unknown } & SessionOptions;
  return { own };
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

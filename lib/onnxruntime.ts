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

import { checkList, isObject, mismatch, propertyOf, unreadable } from './check';
import { WarpconvError } from './errors';
import { keep, type OnnxModelFile } from './session/create_arguments';
import {
  Fallback,
  lookups,
  resolvePackage,
  whyNoOnnxruntime,
  type OtherMetadata,
  type OtherSession,
  type OtherTensor,
  type Runtime,
} from './session/fallback';
import { InferenceSession } from './session/session';
import type { SessionOptions } from './session/session_options';
import type { Tensor } from './tensor/tensor';
import type { TensorLike } from './tensor/tensor_like';

/** What onnxruntime asks of a loaded model. */
export interface SessionHandler {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly OtherMetadata[];
  readonly outputMetadata: readonly OtherMetadata[];
  /** Ends the session. */
  dispose(): Promise<void>;
  /** Records runs, as {@link InferenceSession.startProfiling}. */
  startProfiling(): void;
  /** Writes what was recorded into the working directory. */
  endProfiling(): void;
  /** Runs the model. */
  run(feeds: Feeds, fetches: Fetches): Promise<Record<string, OtherTensor>>;
}

/** The inputs of a run. */
export type Feeds = Readonly<Record<string, TensorLike>>;
/** The outputs that a run is to bring, and where they are to be written. */
export type Fetches = Readonly<Record<string, OtherTensor | null>>;

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

export type { OtherMetadata, OtherTensor } from './session/fallback';

const NAME = 'warpconv';

/** The backend, for `registerBackend` of a copy of onnxruntime-common that this module does not find by itself. */
export const backend: Backend = {
  init: () => Promise.resolve(),
  async createInferenceSessionHandler(model, options = {}) {
    const { own, others } = readOptions(options);
    if (others.length === 0) return new Handler(await InferenceSession.create(model, own), undefined);
    // What cannot be run may show in the first run.
    const kept = keep(model);
    const fallback = new Fallback("onnxruntime's other providers", () =>
      openElsewhere(others, kept, options),
    );
    const session = await InferenceSession.create(model, own).catch((error: unknown) =>
      fallback.takeOver(error),
    );
    return new Handler(session, fallback);
  },
};

class Handler implements SessionHandler {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly OtherMetadata[];
  readonly outputMetadata: readonly OtherMetadata[];
  /** Until the other session takes over */
  #own: InferenceSession | undefined;
  readonly #fallback: Fallback | undefined;

  /** @param session - of ours, or the one that took over already */
  constructor(session: InferenceSession | OtherSession, fallback: Fallback | undefined) {
    this.inputNames = session.inputNames;
    this.outputNames = session.outputNames;
    this.inputMetadata = session.inputMetadata;
    this.outputMetadata = session.outputMetadata;
    this.#own = session instanceof InferenceSession ? session : undefined;
    this.#fallback = fallback;
  }

  run(feeds: Feeds, fetches: Fetches): Promise<Record<string, OtherTensor>> {
    const own = () => this.#own!.run(feeds, fetches as Readonly<Record<string, Tensor | null>>);
    if (this.#fallback === undefined) return own();
    return this.#fallback.run<Record<string, OtherTensor>>(own, (other) => {
      this.#own?.dispose();
      this.#own = undefined;
      return other.run(feeds, fetches);
    });
  }

  async dispose(): Promise<void> {
    await Promise.all([this.#own?.release(), this.#fallback?.release()]);
  }

  startProfiling(): void {
    this.#own?.startProfiling();
  }

  endProfiling(): void {
    this.#own?.endProfiling();
  }
}

/** onnxruntime's own session of a model that this package cannot run, where others may. */
async function openElsewhere(
  others: readonly unknown[],
  model: OnnxModelFile,
  options: object,
): Promise<OtherSession> {
  const own = { ...options, executionProviders: others };
  let reason: unknown;
  for (const { InferenceSession: Other } of found) {
    try {
      if (Other !== undefined) return await Other.create(model, own);
    } catch (error) {
      reason = error;
    }
  }
  throw reason;
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

interface Registry extends Runtime {
  registerBackend(name: string, backend: Backend, priority: number): void;
}

/** Below zero: only who names it gets it. */
const PRIORITY = -1;

/** onnxruntime-node's own copy of onnxruntime-common, and the one that the program has, which may be another. */
function registries(): Registry[] {
  const found = new Map<string, Registry>();
  for (const require of lookups()) {
    const runtime = resolvePackage(require, 'onnxruntime-node');
    for (const look of [require, ...(runtime === undefined ? [] : [createRequire(runtime)])]) {
      const file = resolvePackage(look, 'onnxruntime-common');
      if (file !== undefined) found.set(file, look(file) as Registry);
    }
  }
  return [...found.values()];
}

const found = registries();
if (found.length === 0) {
  throw new WarpconvError(
    'ERR_WARPCONV_LOAD_FAILED',
    `warpconv/onnxruntime needs onnxruntime-node (or onnxruntime-common): ${whyNoOnnxruntime()}, or use warpconv's own InferenceSession`,
  );
}
found.forEach((registry) => registry.registerBackend(NAME, backend, PRIORITY));

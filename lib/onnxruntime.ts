/**
 * Registers this package as a backend of onnxruntime, so that a program which uses onnxruntime-node changes one option:
 *
 *     import 'warpconv/onnxruntime';
 *     const session = await ort.InferenceSession.create('model.onnx', { executionProviders: ['warpconv'] });
 *
 * Sessions and tensors stay onnxruntime's: this module has none. What is imported in the place of onnxruntime-node is the
 * package itself, `warpconv`.
 *
 * Options of ours go beside the name: `{ name: 'warpconv', device: 'cpu' }`; outputs have to stay in CPU memory, from where
 * onnxruntime's tensors take them. With `['warpconv', 'cpu']` a model that this package cannot run is given, whole, to
 * onnxruntime's own provider, with a warning that says why.
 *
 * @packageDocumentation
 */
import { createRequire } from 'node:module';

import type { Backend, InferenceSession as Other, InferenceSessionHandler } from 'onnxruntime-common';

import { checkList, isObject, mismatch, propertyOf, unreadable } from './check';
import { WarpconvError } from './errors';
import { advised } from './model/complaints';
import { keep, type OnnxModelFile } from './session/create_arguments';
import {
  Fallback,
  lookups,
  messageOf,
  resolvePackage,
  whyNoOnnxruntime,
  type OtherSession,
  type Runtime,
} from './session/fallback';
import { InferenceSession } from './session/session';
import type { SessionOptions, WarpconvExecutionProviderOption } from './session/session_options';
import type { Tensor } from './tensor/tensor';

export type { Backend } from 'onnxruntime-common';
export type { WarpconvExecutionProviderOption } from './session/session_options';

declare module 'onnxruntime-common' {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- it is one there
  namespace InferenceSession {
    interface ExecutionProviderOptionMap {
      warpconv: WarpconvExecutionProviderOption;
    }
  }
}

const NAME = 'warpconv';

/** Those of onnxruntime's options of a session and of a run that mean something here. */
const OF_SESSIONS = [
  'externalData',
  'freeDimensionOverrides',
  'enableProfiling',
  'profileFilePrefix',
] as const;
const OF_RUNS = ['signal', 'terminate'] as const;

/** The backend, for `registerBackend` of a copy of onnxruntime-common that this module does not find by itself. */
export const backend: Backend = {
  init: () => Promise.resolve(),
  async createInferenceSessionHandler(model, options = {}) {
    const { own, others } = readOptions(options);
    const create = () => InferenceSession.create(model, own);
    if (others.length === 0) return new Handler(await create().catch(alone), undefined);
    // What cannot be run may show in the first run.
    const kept = keep(model);
    const fallback = new Fallback("onnxruntime's other providers", () =>
      openElsewhere(others, kept, options),
    );
    return new Handler(await create().catch((error: unknown) => fallback.takeOver(error)), fallback);
  },
};

/** The error of a session that no other provider stands behind. */
function alone(error: unknown): never {
  throw advised(
    error,
    "executionProviders ['warpconv', 'cpu'] gives such a model to onnxruntime's own provider",
  );
}

type Feeds = Parameters<InferenceSession['run']>[0];
type Fetches = Readonly<Record<string, Tensor | null>>;
type OtherFeeds = Parameters<OtherSession['run']>[0];
type OtherFetches = Parameters<OtherSession['run']>[1];

class Handler implements InferenceSessionHandler {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly Other.ValueMetadata[];
  readonly outputMetadata: readonly Other.ValueMetadata[];
  /** Until the other session takes over */
  #own: InferenceSession | undefined;
  readonly #fallback: Fallback | undefined;

  /** @param session - of ours, or the one that took over already */
  constructor(session: InferenceSession | OtherSession, fallback: Fallback | undefined) {
    this.inputNames = session.inputNames;
    this.outputNames = session.outputNames;
    this.inputMetadata = session.inputMetadata as readonly Other.ValueMetadata[];
    this.outputMetadata = session.outputMetadata as readonly Other.ValueMetadata[];
    this.#own = session instanceof InferenceSession ? session : undefined;
    this.#fallback = fallback;
  }

  /** onnxruntime-common makes tensors of its own of those that are none. */
  async run(...args: Parameters<InferenceSessionHandler['run']>): Promise<Other.ReturnType> {
    return (await this.#run(...args)) as Other.ReturnType;
  }

  #run(...[feeds, fetches, options]: Parameters<InferenceSessionHandler['run']>): Promise<object> {
    const request = chosen(options, OF_RUNS);
    const own = () => this.#own!.run(feeds as Feeds, fetches as Fetches, request);
    if (this.#fallback === undefined) return own().catch(alone);
    return this.#fallback.run<object>(own, (other) => {
      this.#own?.dispose();
      this.#own = undefined;
      return other.run(feeds as OtherFeeds, fetches as OtherFetches, options);
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
  const reasons: unknown[] = [];
  for (const { InferenceSession: Other } of found) {
    try {
      if (Other !== undefined) return await Other.create(model, own);
    } catch (error) {
      reasons.push(error);
    }
  }
  // Copies of onnxruntime-common that know none of the providers say so, too.
  throw new AggregateError(reasons, [...new Set(reasons.map(messageOf))].join('; '));
}

/** Those options that have these names, each read once. */
function chosen<Key extends string>(options: unknown, names: readonly Key[]): Partial<Record<Key, never>> {
  try {
    if (!isObject(options)) throw mismatch('options', 'an object', options);
    const read = names.map((name) => [name, propertyOf(options, name)] as const);
    return Object.fromEntries(read.filter(([, value]) => value !== undefined)) as Partial<Record<Key, never>>;
  } catch (error) {
    throw unreadable('options', error);
  }
}

/** Options of a session of ours, which has our entries of the list; and the entries of others. */
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
      checkList('options.executionProviders', list, PROVIDERS, (_, entry) => entry),
    ) as [unknown[], unknown[]];
    const executionProviders = providers.filter(isNamedOurs) as WarpconvExecutionProviderOption[];
    const choosesFallback = executionProviders.some(
      (entry) => isObject(entry) && entry.fallback !== undefined,
    );
    return {
      own: {
        ...chosen(options, OF_SESSIONS),
        // Nobody need be told of what onnxruntime's own list does better.
        ...(!choosesFallback && { fallback: 'none' }),
        executionProviders,
      },
      others: everybody.filter((entry) => !isNamedOurs(entry)),
    };
  } catch (error) {
    throw unreadable('options', error);
  }
}

const PROVIDERS = 'a list of names, and of objects with a name';

function isNamedOurs(entry: unknown): boolean {
  return (isObject(entry) ? propertyOf(entry, 'name') : entry) === NAME;
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

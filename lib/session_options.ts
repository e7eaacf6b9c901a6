/** The options of sessions and their runs. */
import {
  checkInteger,
  checkOneOf,
  describe,
  invalid,
  isObject,
  MAX_INT32,
  mismatch,
  readProperties,
} from './check';
import { readAlgorithm, readPrecision, readSignal, type AlgorithmName, type Precision } from './options';
import { checkDeviceOrAuto, type Device } from './placement';
import type { Tensor } from './tensor';

/** The options of {@link InferenceSession.create}. */
export interface SessionOptions {
  /** Where to run; as for {@link conv2d}. */
  readonly device?: 'auto' | Device;
  /** Default `'fp32'`. */
  readonly precision?: Precision;
  /**
   * Of every convolution; default `'auto'`. `'tune'` measures for each of constant weights, where nothing is remembered,
   * before the first run.
   */
  readonly algorithm?: 'auto' | 'tune' | AlgorithmName;
  /** For how many sets of input dims the compiled network is kept. Default 4. */
  readonly cachedShapes?: number;
  /** Extents of named dimensions, so that the network is compiled before the first run. */
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
}

/** onnxruntime's options that choose nothing here: taken, so that code can move over, and without effect. */
const WITHOUT_EFFECT = {
  executionProviders: undefined,
  intraOpNumThreads: undefined,
  interOpNumThreads: undefined,
  graphOptimizationLevel: undefined,
  enableCpuMemArena: undefined,
  enableMemPattern: undefined,
  executionMode: undefined,
  logId: undefined,
  logSeverityLevel: undefined,
  logVerbosityLevel: undefined,
} as const;

const SESSION_DEFAULTS = {
  ...WITHOUT_EFFECT,
  device: 'auto',
  precision: 'fp32',
  algorithm: 'auto',
  cachedShapes: 4,
  freeDimensionOverrides: {},
} as const satisfies Record<keyof SessionOptions | keyof typeof WITHOUT_EFFECT, unknown>;

/** Options of a session, checked. */
export interface SessionRequest {
  readonly device: Device | 'auto';
  readonly precision: Precision;
  readonly algorithm: string;
  readonly cachedShapes: number;
  readonly freeDimensions: Readonly<Record<string, number>>;
}

export function readSessionOptions(options: unknown = {}): SessionRequest {
  const given = readProperties('options', options, SESSION_DEFAULTS);
  return {
    device: checkDeviceOrAuto('options.device', given.device),
    precision: readPrecision(given.precision),
    algorithm: readAlgorithm('options.algorithm', given.algorithm),
    cachedShapes: checkInteger('options.cachedShapes', given.cachedShapes, { min: 1, max: MAX_INT32 }),
    freeDimensions: readFreeDimensions(given.freeDimensionOverrides),
  };
}

function readFreeDimensions(value: unknown): Record<string, number> {
  const name = 'options.freeDimensionOverrides';
  if (!isObject(value)) throw mismatch(name, 'an object of extents by name', value);
  const range = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
  return Object.fromEntries(
    Object.entries(value).map(([key, extent]) => [key, checkInteger(`${name}.${key}`, extent, range)]),
  );
}

/** The options of {@link InferenceSession.run}. */
export interface RunOptions {
  /**
   * Takes a waiting run out of the queue, also while the network is compiled and measured for its dims, and stops a running
   * one between two steps; on a GPU, until its kernels are launched, from where on it runs to its end.
   */
  readonly signal?: AbortSignal;
}

const RUN_DEFAULTS = {
  signal: undefined,
  // onnxruntime's, without effect.
  tag: undefined,
  logSeverityLevel: undefined,
  logVerbosityLevel: undefined,
} as const;

/** What a run is given, apart from the feeds' tensors. */
export interface RunArguments {
  readonly feeds: Readonly<Record<string, unknown>>;
  /** `undefined` for all outputs; the tensor of each to write into, or null for a new one */
  readonly fetches: ReadonlyMap<string, Tensor | null> | undefined;
  readonly signal: AbortSignal | undefined;
}

/** `run(feeds, options?)` or `run(feeds, fetches, options?)`: an object is fetches where it has the name of an output. */
export function readRunArguments(
  [feeds, second, third]: readonly unknown[],
  outputNames: readonly string[],
): RunArguments {
  if (!isObject(feeds) || Array.isArray(feeds))
    throw mismatch('feeds', 'an object of tensors by name', feeds);
  const isFetches =
    Array.isArray(second) ||
    third !== undefined ||
    (isObject(second) && Object.keys(second).some((key) => outputNames.includes(key)));
  const options = isFetches ? third : second;
  return {
    feeds: feeds as Record<string, unknown>,
    fetches: isFetches ? readFetches(second, outputNames) : undefined,
    signal: options === undefined || options === null ? undefined : readRunOptions(options),
  };
}

function readRunOptions(options: unknown): AbortSignal | undefined {
  const { signal } = readProperties('options', options, RUN_DEFAULTS);
  return readSignal('options.signal', signal);
}

function readFetches(value: unknown, outputNames: readonly string[]): Map<string, Tensor | null> {
  if (!isObject(value)) throw mismatch('fetches', 'a list of names or an object of tensors by name', value);
  const entries = Array.isArray(value)
    ? value.map((name: unknown) => [checkOneOf('fetches', name, outputNames), null] as const)
    : Object.entries(value).map(
        ([name, tensor]) => [checkOneOf('fetches', name, outputNames), readFetch(name, tensor)] as const,
      );
  if (entries.length === 0) throw invalid(`fetches ${describe(value)} names no output`);
  return new Map(entries);
}

function readFetch(name: string, value: unknown): Tensor | null {
  if (value === null || value === undefined) return null;
  if (!isObject(value) || !('dims' in value)) throw mismatch(`fetches.${name}`, 'a tensor or null', value);
  return value as Tensor;
}

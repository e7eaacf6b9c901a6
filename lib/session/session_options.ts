/** The options of sessions and their runs. */
import { types } from 'node:util';

import {
  checkBoolean,
  checkInteger,
  checkList,
  checkName,
  checkOneOf,
  describe,
  invalid,
  isList,
  isObject,
  mismatch,
  propertyOf,
  readEntries,
  readProperties,
  shorten,
  unreadable,
} from '../check';
import { WarpconvError } from '../errors';
import { readAlgorithm, readByteLimit, readPrecision, readSignal } from '../conv2d/options';
import type { AlgorithmName, Precision } from '../conv2d/names';
import { checkDeviceOrAuto, type Device } from '../placement';
import { readOutputLocations, type OutputLocations } from './output_locations';
import { chooseDevice, readProviders, type ListedProvider } from './providers';
import type { Tensor } from '../tensor/tensor';
import { kindOf } from '../tensor/typed_array';

/** The options of {@link InferenceSession.create}. */
export interface SessionOptions {
  /**
   * Where to run; as for {@link conv2d}. Default `'auto'`, which is what `executionProviders` say where they are given. A device
   * that they rule out is refused.
   */
  readonly device?: 'auto' | Device;
  /**
   * onnxruntime's: the first of `'cpu'`, `'cuda'` and `'warpconv'` (the GPU that there is, or the CPU) is where to run, for
   * example `['cuda', 'cpu']`, or `[{ name: 'cuda', deviceId: 1 }]`. Its other providers are passed over. The options of a
   * session may stand beside our name, too: `[{ name: 'warpconv', precision: 'fp16' }]`. One that is given twice must be the
   * same in both places.
   */
  readonly executionProviders?: readonly (string | ExecutionProvider | WarpconvExecutionProviderOption)[];
  /**
   * The least exact products that may be made, and with `'fp16'` and `'bf16'` the type of the tensors between layers. Devices that
   * have nothing faster compute in float32; `explain()` says in what. Default `'fp32'`.
   */
  readonly precision?: Precision;
  /**
   * Of every convolution; default `'auto'`. `'tune'` measures for each of constant weights, where nothing is remembered,
   * before the first run.
   */
  readonly algorithm?: 'auto' | 'tune' | AlgorithmName;
  /**
   * For how many sets of input dims the compiled network is kept, without what all of them share: at most 65536. Default
   * 64. Each takes a few hundred kilobytes of a network of a hundred nodes.
   */
  readonly cachedShapes?: number;
  /**
   * Most bytes of the device's memory that the session takes at once. Default `Infinity`. Three things count:
   *
   * - packed weights, which all sets of input dims share, and on a GPU the model's other constants;
   * - the memory for the tensors between the steps of a run, as much as the largest of the dims that are kept needs: on the
   *   CPU for each of the most runs that have been under way at once, until a while passes without one; on a GPU once, and
   *   twice the inputs and outputs of a run;
   * - for each run under way its outputs, whoever allocated them; on a GPU those that `preferredOutputLocation` has there.
   *
   * The model as it was loaded does not count, nor do inputs, nor the workspace of a convolution on the CPU while it runs.
   *
   * Where there would be more, what was compiled for other dims is given up, that which was used longest ago first. A
   * network that needs more for one run is not compiled, and a run that others leave too little is not begun: both reject
   * with `ERR_WARPCONV_OUT_OF_MEMORY`.
   */
  readonly memoryLimit?: number;
  /** Extents of named dimensions, so that the network is compiled before the first run. */
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** Files that the model has data in, where they are not in its folder: their contents, or their paths. */
  readonly externalData?: readonly (ExternalFile | string)[];
  /**
   * Whether runs are recorded from the beginning, until {@link InferenceSession.endProfiling} or the session's end writes the
   * file. Default false.
   */
  readonly enableProfiling?: boolean;
  /** What the name of that file begins with, with its folder. Default `'warpconv_profile'`, in the working directory. */
  readonly profileFilePrefix?: string;
  /**
   * Where new outputs are made: in CPU memory for `'cpu'`, the default, and for `'cpu-pinned'`, or for `'gpu-buffer'` in the
   * memory of the session's GPU, from where they can be fed to the next session. One for all, or by the name of the output;
   * those that are not named are in CPU memory. Tensors that a run brings for outputs are written where they are.
   */
  readonly preferredOutputLocation?: string | Readonly<Record<string, string>>;
  /**
   * Who runs a model that this package cannot run, whole: `'onnxruntime'`, where onnxruntime-node is installed, on the CPU, or
   * `'none'`, so that `create` or `run` rejects. Default `'none'`. A warning `WARPCONV_FALLBACK` names the operators. The bytes
   * of a model are kept for it. Only {@link InferenceSession.run} works then.
   */
  readonly fallback?: 'onnxruntime' | 'none';
  /** onnxruntime's, as those below: taken, and without effect. `setThreads` says how many threads sessions share. */
  readonly intraOpNumThreads?: number;
  readonly interOpNumThreads?: number;
  readonly graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  readonly enableCpuMemArena?: boolean;
  readonly enableMemPattern?: boolean;
  readonly executionMode?: 'sequential' | 'parallel';
  readonly optimizedModelFilePath?: string;
  readonly logId?: string;
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
  readonly logVerbosityLevel?: number;
  readonly enableGraphCapture?: boolean;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** An entry of `executionProviders`, as onnxruntime has it. */
export interface ExecutionProvider {
  readonly name: string;
  /** Of `'cuda'` */
  readonly deviceId?: number;
  /** Of `'cpu'`: taken, and without effect */
  readonly useArena?: boolean;
}

/** An entry of `executionProviders`: options of ours beside our name. */
export type WarpconvExecutionProviderOption = { readonly name: 'warpconv' } & Omit<
  SessionOptions,
  'executionProviders'
>;

/** A file that a model has data in. */
export interface ExternalFile {
  /** As the model calls it, with or without `./` before it */
  readonly path: string;
  /** What it holds, or where it is */
  readonly data: Uint8Array | ArrayBufferLike | string;
}

/** onnxruntime's options that choose nothing here: taken, so that code can move over, and without effect. */
const WITHOUT_EFFECT = {
  intraOpNumThreads: undefined,
  interOpNumThreads: undefined,
  graphOptimizationLevel: undefined,
  enableCpuMemArena: undefined,
  enableMemPattern: undefined,
  executionMode: undefined,
  logId: undefined,
  logSeverityLevel: undefined,
  logVerbosityLevel: undefined,
  enableGraphCapture: undefined,
  optimizedModelFilePath: undefined,
  extra: undefined,
} as const;

const SESSION_DEFAULTS = {
  ...WITHOUT_EFFECT,
  device: 'auto',
  executionProviders: undefined,
  precision: 'fp32',
  algorithm: 'auto',
  cachedShapes: 64,
  memoryLimit: Infinity,
  freeDimensionOverrides: {},
  externalData: [],
  enableProfiling: false,
  profileFilePrefix: 'warpconv_profile',
  preferredOutputLocation: 'cpu',
  fallback: undefined,
} as const satisfies Record<keyof SessionOptions, unknown>;

/** Options of a session, checked. */
export interface SessionRequest {
  readonly device: Device | 'auto';
  readonly precision: Precision;
  readonly algorithm: string;
  readonly cachedShapes: number;
  readonly memoryLimit: number;
  readonly freeDimensions: ReadonlyMap<string, number>;
  readonly externalData: ReadonlyMap<string, Uint8Array | string>;
  readonly enableProfiling: boolean;
  readonly profileFilePrefix: string;
  readonly outputLocations: OutputLocations;
  /** `undefined` where nobody chose: as `'none'`, and errors say what there is to choose */
  readonly fallback: 'onnxruntime' | 'none' | undefined;
}

type SessionOption = keyof SessionOptions;

/** What may stand beside our name in `executionProviders`: all but that list itself. */
const { executionProviders: _, ...BESIDE_NAME } = noneOf(SESSION_DEFAULTS);

function noneOf<D extends object>(defaults: D): Record<keyof D, undefined> {
  return Object.fromEntries(Object.keys(defaults).map((key) => [key, undefined])) as Record<
    keyof D,
    undefined
  >;
}

export function readSessionOptions(options: unknown = {}): SessionRequest {
  const own = readProperties('options', options, noneOf(SESSION_DEFAULTS));
  const providers = readProviders(own.executionProviders, BESIDE_NAME);
  const { given, called } = together(own, providers);
  return {
    device: chooseDevice(
      checkDeviceOrAuto('options.device', own.device ?? SESSION_DEFAULTS.device),
      providers,
    ),
    precision: readPrecision(called('precision'), given.precision),
    algorithm: readAlgorithm(called('algorithm'), given.algorithm),
    cachedShapes: checkInteger(called('cachedShapes'), given.cachedShapes, { min: 1, max: MOST_SHAPES }),
    memoryLimit: readByteLimit(called('memoryLimit'), given.memoryLimit),
    freeDimensions: readFreeDimensions(called('freeDimensionOverrides'), given.freeDimensionOverrides),
    externalData: readExternalFiles(called('externalData'), given.externalData),
    enableProfiling: checkBoolean(called('enableProfiling'), given.enableProfiling),
    profileFilePrefix: checkName(called('profileFilePrefix'), given.profileFilePrefix),
    outputLocations: readOutputLocations(called('preferredOutputLocation'), given.preferredOutputLocation),
    fallback: readFallback(called('fallback'), given.fallback),
  };
}

/** The options and those beside our name, with defaults for the others; `called` says as what the caller gave one. */
function together(own: Readonly<Record<SessionOption, unknown>>, providers: readonly ListedProvider[]) {
  const given: Record<SessionOption, unknown> = { ...SESSION_DEFAULTS };
  const names = new Map<SessionOption, string>();
  const places = [{ called: 'options', options: own }, ...providers];
  for (const key of Object.keys(BESIDE_NAME) as (keyof typeof BESIDE_NAME)[]) {
    for (const { called, options } of places) {
      const [value, name] = [options[key], `${called}.${key}`];
      const earlier = names.get(key);
      if (value === undefined || key === 'device') continue;
      if (earlier !== undefined && !Object.is(value, given[key])) {
        throw invalid(
          `${earlier} is ${describe(given[key])} and ${name} is ${describe(value)}; give one of the two, or both the same`,
        );
      }
      given[key] = value;
      names.set(key, earlier ?? name);
    }
  }
  return { given, called: (key: SessionOption) => names.get(key) ?? `options.${key}` };
}

function readExternalFiles(name: string, value: unknown): Map<string, Uint8Array | string> {
  const what = 'a list of paths, and of objects with a path and data';
  const files = checkList(name, value, what, (called, entry) => {
    // A path alone says both what the model calls it and where it is.
    if (typeof entry === 'string') return [entry, entry] as const;
    if (!isObject(entry)) throw mismatch(called, 'a path, or an object with a path and data', entry);
    const path = checkName(`${called}.path`, propertyOf(entry, 'path'));
    const data = propertyOf(entry, 'data');
    if (types.isAnyArrayBuffer(data)) return [path, new Uint8Array(data)] as const;
    if (typeof data === 'string' || kindOf(data) === 'Uint8Array')
      return [path, data as Uint8Array | string] as const;
    throw mismatch(`${called}.data`, 'a Uint8Array, an ArrayBuffer or a path', data);
  });
  const paths = files.map(([path]) => path);
  const twice = paths.find((path, i) => paths.indexOf(path) < i);
  if (twice !== undefined) throw invalid(`${name} gives '${shorten(twice)}' twice; give it once`);
  return new Map(files);
}

const FALLBACKS = ['onnxruntime', 'none'] as const;

function readFallback(name: string, value: unknown): SessionRequest['fallback'] {
  return value === undefined ? undefined : checkOneOf(name, value, FALLBACKS);
}

/** A cache has room for them all from the start. */
const MOST_SHAPES = 65_536;

function readFreeDimensions(name: string, value: unknown): Map<string, number> {
  const range = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
  const entries = readEntries(name, value, 'an object of extents by name');
  return new Map(
    entries.map(([key, extent]) => [key, checkInteger(`${name}.${shorten(key)}`, extent, range)]),
  );
}

/** The options of {@link InferenceSession.run}. */
export interface RunOptions {
  /**
   * Takes a waiting run out of the queue, also while the network is compiled and measured for its dims, and stops a running
   * one between two steps; on a GPU, until its kernels are launched, from where on it runs to its end.
   */
  readonly signal?: AbortSignal;
  /** Whether the run is to be refused, with `ERR_WARPCONV_ABORTED`. */
  readonly terminate?: boolean;
  /** onnxruntime's, as those below: taken, and without effect. */
  readonly tag?: string;
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
  readonly logVerbosityLevel?: number;
  readonly extra?: Readonly<Record<string, unknown>>;
}

const RUN_DEFAULTS = {
  signal: undefined,
  terminate: undefined,
  extra: undefined,
  // onnxruntime's, without effect.
  tag: undefined,
  logSeverityLevel: undefined,
  logVerbosityLevel: undefined,
} as const;

/** What a run is given, apart from the feeds' tensors. */
export interface RunArguments {
  readonly feeds: object;
  /** `undefined` for all outputs; the tensor of each to write into, or null for a new one */
  readonly fetches: ReadonlyMap<string, Tensor | null> | undefined;
  /** The outputs of which new tensors are made on the session's GPU */
  readonly resident: ReadonlySet<string>;
  readonly signal: AbortSignal | undefined;
}

/** All new outputs in CPU memory. */
export const NONE_RESIDENT: ReadonlySet<string> = new Set();

/** Of a run whose outputs stay within the package: all of them, in CPU memory. */
export const ALL_OUTPUTS: RunArguments = {
  feeds: {},
  fetches: undefined,
  resident: NONE_RESIDENT,
  signal: undefined,
};

/** `run(feeds, options?)` or `run(feeds, fetches, options?)`: an object is fetches where it has the name of an output. */
export function readRunArguments(
  [feeds, second, third]: readonly unknown[],
  outputNames: readonly string[],
  resident = NONE_RESIDENT,
): RunArguments {
  if (!isObject(feeds) || isList('feeds', feeds))
    throw mismatch('feeds', 'an object of tensors by name', feeds);
  const isFetches = third !== undefined || areFetches(second, outputNames);
  const options = isFetches ? third : second;
  return {
    feeds,
    fetches: isFetches ? readFetches(second, outputNames) : undefined,
    resident,
    signal: options === undefined || options === null ? undefined : readRunOptions(options),
  };
}

function areFetches(value: unknown, outputNames: readonly string[]): boolean {
  if (!isObject(value)) return false;
  try {
    return Array.isArray(value) || Object.keys(value).some((key) => outputNames.includes(key));
  } catch (error) {
    throw unreadable('fetches', error);
  }
}

function readRunOptions(options: unknown): AbortSignal | undefined {
  const { signal, terminate } = readProperties('options', options, RUN_DEFAULTS);
  const given = readSignal('options.signal', signal);
  if (terminate !== undefined && checkBoolean('options.terminate', terminate))
    throw new WarpconvError('ERR_WARPCONV_ABORTED', 'options.terminate is true, so the run does not begin');
  return given;
}

function readFetches(value: unknown, outputNames: readonly string[]): Map<string, Tensor | null> {
  const what = 'a list of names or an object of tensors by name';
  const named = (name: unknown) => checkOneOf('fetches', name, outputNames);
  const entries = isList('fetches', value)
    ? checkList('fetches', value, what, (_, name) => [named(name), null] as const)
    : readEntries('fetches', value, what).map(
        ([name, tensor]) => [named(name), readFetch(name, tensor)] as const,
      );
  if (entries.length === 0) throw invalid(`fetches ${describe(value)} names no output`);
  return new Map(entries);
}

function readFetch(name: string, value: unknown): Tensor | null {
  if (value === null || value === undefined) return null;
  try {
    if (!isObject(value) || !('dims' in value)) throw mismatch(`fetches.${name}`, 'a tensor or null', value);
    return value as Tensor;
  } catch (error) {
    throw unreadable(`fetches.${name}`, error);
  }
}

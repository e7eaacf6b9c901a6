/** What a caller may ask for, and its translation into what native code takes. Nothing here needs the binary. */
import type { ConvolutionSpec, FloatType, NativeActivation, NativeSconvSwitches } from '../addon';
import { abortedBy } from '../errors';
import {
  alternatives,
  checkBoolean,
  checkInteger,
  checkIntegers,
  checkList,
  checkNumber,
  checkOneOf,
  checkPair,
  invalid,
  isEmptyBatch,
  isList,
  isObject,
  MAX_INT32,
  mismatch,
  readProperties,
  unreadable,
} from '../check';
import type { PlanExplanation } from './explanation';
import { DEFAULT_PRECISION, formatOf, toNchw } from './formats';
import type { AlgorithmName, Layout, Precision } from './names';
import { checkDevice, checkDeviceOrAuto, type Device } from '../placement';
import type { Tensor } from '../tensor/tensor';
import {
  FLOAT_TYPES,
  readDims,
  readTensor,
  type TensorArgument,
  type TensorLike,
} from '../tensor/tensor_like';

/** Applied to each output, after bias and residual. `leakyRelu` by name alone has slope 0.01. */
export type Activation =
  | 'none'
  | 'relu'
  | 'relu6'
  | 'leakyRelu'
  | 'sigmoid'
  | 'silu'
  | 'hardSwish'
  | { readonly clip: readonly [min: number, max: number] }
  | { readonly leakyRelu: number };

/**
 * For experiments: takes one idea of `sconv` away at a time, to measure what it brings. Results are right in every
 * combination, and hardly ever sooner; `explain()` shows the effect. Needs `algorithm: 'sconv'`.
 *
 * Source: Ferrari et al., "Advancing Direct Convolution using Convolution Slicing Optimization and ISA Extensions".
 */
export interface SconvSwitches {
  /** Which tiles stay in the L1 cache while the others pass by (section 4.1). Default: the cheaper by the cost model. */
  readonly schedule?: 'inputStationary' | 'weightStationary';
  /**
   * How the micro-kernel finds the windows: in the input as they lie (at strides of 1 or 2 along a row), or packed one
   * by one (section 6.1). Default: as they lie where that can be, save where rows are short.
   */
  readonly presentation?: 'asTheyLie' | 'packed';
  /** Pack windows by vector shifts (section 6.2) where the instruction set has them. Default `true`. */
  readonly vectorPacking?: boolean;
  /** Pack right before the multiplication, or a whole channel set first. Default `'onDemand'`. */
  readonly packing?: 'onDemand' | 'ahead';
}

/** The options that say which convolution is meant. Lengths are in elements. */
export interface ConvolutionOptions {
  /** Step between windows: one number for both axes, or `[height, width]`. Default 1. */
  readonly stride?: number | readonly [height: number, width: number];
  /**
   * Zeros around the input: one number for all sides, `[height, width]`, or `[top, left, bottom, right]`.
   * `'same'` gives an output of `ceil(input / stride)`, any odd zero going to the bottom and right; `'valid'` is 0.
   * Default 0.
   */
  readonly padding?:
    | number
    | readonly [height: number, width: number]
    | readonly [top: number, left: number, bottom: number, right: number]
    | 'same'
    | 'valid';
  /** Step between the input elements of one window, 1 being a dense window. Default 1. */
  readonly dilation?: number | readonly [height: number, width: number];
  /** Input and output channels are split into so many independent groups. Default 1. */
  readonly groups?: number;
  /**
   * How input, residual and output lie in memory, and their dims with them: `[N, C, H, W]` or `[N, H, W, C]`. Weights are
   * `[K, C / groups, R, S]` in either. Default `'nchw'`.
   */
  readonly layout?: Layout;
  /** Default `'none'`. */
  readonly activation?: Activation;
  /**
   * `'auto'` (the default) takes the one that is predicted to be fastest; a name insists, and refuses with the reason where
   * it cannot. `'tune'` measures them all when a problem first comes, in up to two seconds, and remembers what was fastest
   * in this process and in the user's cache directory; {@link tune} does so beforehand, for a whole list.
   */
  readonly algorithm?: 'auto' | 'tune' | AlgorithmName;
  /**
   * For experiments: one of the named variants of a pinned GPU algorithm, such as `'implicit'` of `im2win`. Default `''`,
   * the algorithm's own choice.
   */
  readonly variant?: string;
  /** Most bytes of scratch memory a call may take. Default `Infinity`, with which `'tune'` tries up to a gibibyte. */
  readonly workspaceLimit?: number;
  /** Experiments with `sconv`. Default: none. */
  readonly sconv?: SconvSwitches;
}

/** The options of {@link conv2d} and {@link conv2dSync}. Any other property is refused; `undefined` means the default. */
export interface Conv2dOptions extends ConvolutionOptions {
  /** Dims `[K]`, float32 or of the input's type: added to each output channel. */
  readonly bias?: TensorLike | null;
  /** Of the output's dims and type: added before the activation. */
  readonly residual?: TensorLike | null;
  /**
   * Where to run. `'auto'` (the default) takes a GPU where it can use one and otherwise the CPU, with one process
   * warning; `'cuda'` insists.
   */
  readonly device?: 'auto' | Device;
  /**
   * The least exact products that may be made. Default: the input's, which is `'fp32'` of float32, `'fp16'` of float16 and
   * `'bf16'` of bfloat16. A device that has nothing faster computes more exactly: the CPU in float32, whatever is asked for,
   * and rounds once to the output's type.
   */
  readonly precision?: Precision;
  /** Insist on bitwise equal results from run to run. The CPU's always are. */
  readonly deterministic?: boolean;
  /** Takes a waiting call out of the queue, and asks a running one to stop. Synchronous calls only look at it first. */
  readonly signal?: AbortSignal;
}

/** The options of {@link Conv2d.create}. */
export interface Conv2dCreateOptions extends Conv2dOptions {
  /** `[N, C, H, W]` of every input to come, or `[N, H, W, C]` with `layout: 'nhwc'`. */
  readonly inputDims: readonly number[];
  /** The type of every input to come, and of the outputs. Default: the weight's. */
  readonly inputType?: FloatType;
}

/** The options of {@link compareWithCudnn}: the convolution itself, without bias, residual and activation. */
export interface CompareOptions extends Omit<ConvolutionOptions, 'activation'> {
  /** Default `'cuda'`. */
  readonly device?: Exclude<Device, 'cpu'>;
  /** Default: the input's, as for {@link conv2d}. Also of what cuDNN multiplies. */
  readonly precision?: Precision;
}

/** The options of {@link Conv2d.run} and {@link Conv2d.runSync}. */
export interface Conv2dRunOptions {
  /** Written and returned instead of a new tensor: of the inputs' type and the plan's `outputDims`, apart from every input. */
  readonly output?: Tensor;
  /** Instead of the plan's residual for this run; `null` for none. */
  readonly residual?: TensorLike | null;
  readonly signal?: AbortSignal;
}

/** A convolution by its shapes alone, for {@link algorithms} and {@link tune}. */
export interface ConvolutionProblem extends ConvolutionOptions {
  /** `[N, C, H, W]`, or `[N, H, W, C]` with `layout: 'nhwc'` */
  readonly inputDims: readonly number[];
  /** `[K, C / groups, R, S]` */
  readonly weightDims: readonly number[];
  /** Default `'float32'`. */
  readonly inputType?: FloatType;
  /** Default: the input's, as for {@link conv2d}. */
  readonly precision?: Precision;
}

/** What {@link tune} has done so far. */
export interface TuneProgress {
  /** Problems that are done, this one included. */
  readonly done: number;
  readonly total: number;
  /** Of the problem that was just done. */
  readonly explanation: PlanExplanation;
}

/** The options of {@link tune}; each as for {@link conv2d} where that has it. */
export interface TuneOptions {
  /** Default `'auto'`. */
  readonly device?: 'auto' | Device;
  /** Of problems that say none. Default: the input's, as for {@link conv2d}. */
  readonly precision?: Precision;
  /** Default `false`. */
  readonly deterministic?: boolean;
  /** Ends it early. What has been measured by then is remembered. */
  readonly signal?: AbortSignal;
  /** Called after each problem. */
  readonly onProgress?: (progress: TuneProgress) => void;
}

/** Everything of a native specification but the tensors, the device and the precision. */
export type Method = Omit<ConvolutionSpec, 'inputDims' | 'weightDims' | 'device' | 'format' | 'precision'>;

/** What convolution is meant, whatever its tensors. */
export interface MethodRequest {
  readonly method: Method;
  readonly layout: Layout;
  /** `undefined` where the input's type decides */
  readonly precision: Precision | undefined;
  readonly deterministic: boolean;
}

/** Options, read once and checked as far as they can be without the tensors. */
export interface Conv2dRequest extends MethodRequest {
  readonly bias: TensorArgument | null;
  readonly residual: TensorArgument | null;
  readonly device: Device | 'auto';
  readonly signal: AbortSignal | undefined;
}

const METHOD_DEFAULTS = {
  stride: 1,
  padding: 0,
  dilation: 1,
  groups: 1,
  layout: 'nchw',
  activation: 'none',
  algorithm: 'auto',
  variant: '',
  workspaceLimit: Infinity,
  sconv: {},
} as const satisfies Record<keyof ConvolutionOptions, unknown>;

const CONV2D_DEFAULTS = {
  ...METHOD_DEFAULTS,
  bias: null,
  residual: null,
  device: 'auto',
  precision: undefined,
  deterministic: false,
  signal: undefined,
} as const satisfies Record<keyof Conv2dOptions, unknown>;

const CREATE_DEFAULTS = {
  ...CONV2D_DEFAULTS,
  inputDims: undefined,
  inputType: undefined,
} as const satisfies Record<keyof Conv2dCreateOptions, unknown>;

const { activation: _, ...GEOMETRY_DEFAULTS } = METHOD_DEFAULTS;

const COMPARE_DEFAULTS = {
  ...GEOMETRY_DEFAULTS,
  device: 'cuda',
  precision: undefined,
} as const satisfies Record<keyof CompareOptions, unknown>;

const RUN_DEFAULTS = {
  output: undefined,
  residual: undefined,
  signal: undefined,
} as const satisfies Record<keyof Conv2dRunOptions, unknown>;

const PROBLEM_DEFAULTS = {
  ...METHOD_DEFAULTS,
  inputDims: undefined,
  weightDims: undefined,
  inputType: 'float32',
  precision: undefined,
} as const satisfies Record<keyof ConvolutionProblem, unknown>;

const TUNE_DEFAULTS = {
  device: 'auto',
  precision: undefined,
  deterministic: false,
  signal: undefined,
  onProgress: () => {},
} as const satisfies Record<keyof TuneOptions, unknown>;

const SCONV_DEFAULTS = {
  schedule: null,
  presentation: null,
  vectorPacking: true,
  packing: 'onDemand',
} as const satisfies Record<keyof SconvSwitches, unknown>;

const ACTIVATIONS = ['none', 'relu', 'relu6', 'leakyRelu', 'sigmoid', 'silu', 'hardSwish'] as const;
const LEAKY_SLOPE = 0.01;

export function readConv2dOptions(options: unknown = {}): Conv2dRequest {
  return requestOf(readProperties('options', options, CONV2D_DEFAULTS));
}

/** What a plan is created from besides the weights. */
export interface CreateRequest extends Conv2dRequest {
  readonly inputDims: readonly number[];
  /** `undefined` where the weight's type decides */
  readonly inputType: FloatType | undefined;
}

export function readCreateOptions(options: unknown): CreateRequest {
  const given = readProperties('options', options, CREATE_DEFAULTS);
  const layout = readLayout('options', given.layout);
  return {
    inputDims: readInputDims('options', given.inputDims, layout),
    inputType: given.inputType === undefined ? undefined : readInputType('options', given.inputType),
    ...requestOf(given),
  };
}

export interface CompareRequest extends MethodRequest {
  readonly device: Exclude<Device, 'cpu'>;
}

export function readCompareOptions(options: unknown = {}): CompareRequest {
  const given = readProperties('options', options, COMPARE_DEFAULTS);
  const device = checkDevice('options.device', given.device);
  if (device === 'cpu') throw invalid(`options.device must be 'cuda' or 'cuda:N': cuDNN runs on GPUs`);
  return {
    method: methodOf('options', { ...given, activation: 'none' }),
    layout: readLayout('options', given.layout),
    device,
    precision: readOptionalPrecision('options', given.precision),
    deterministic: false,
  };
}

/** The tensors and the signal of one run; `undefined` where the caller left the choice to the plan. */
export interface RunRequest {
  readonly output: { readonly argument: TensorArgument; readonly tensor: Tensor<FloatType> } | undefined;
  readonly residual: TensorArgument | null | undefined;
  readonly signal: AbortSignal | undefined;
}

export function readRunOptions(options: unknown = {}): RunRequest {
  const given = readProperties('options', options, RUN_DEFAULTS);
  return {
    output: readOutput('options.output', given.output),
    residual:
      given.residual === undefined ? undefined : readOptionalTensor('options.residual', given.residual, 4),
    signal: readSignal('options.signal', given.signal),
  };
}

/** A problem as native code takes it, but for the device. */
export type ProblemSpec = Omit<ConvolutionSpec, 'device'> & { readonly precision: Precision };

/**
 * Reads a problem.
 *
 * @param fallback - the precision of one that says none; that of its type by default
 */
export function readProblem(problem: unknown, name = 'problem', fallback?: Precision): ProblemSpec {
  const given = readProperties(name, problem, PROBLEM_DEFAULTS);
  const layout = readLayout(name, given.layout);
  const type = readInputType(name, given.inputType);
  return {
    inputDims: toNchw(readInputDims(name, given.inputDims, layout), layout),
    weightDims: readDims(`${name}.weightDims`, given.weightDims, '[K, C / groups, R, S]', 4, 1),
    ...methodOf(name, given),
    ...formatOf({ type, layout }),
    precision: readOptionalPrecision(name, given.precision) ?? fallback ?? DEFAULT_PRECISION[type],
  };
}

/** What a list of problems is tuned for, and how. */
export interface TuneRequest {
  readonly problems: readonly ProblemSpec[];
  readonly device: Device | 'auto';
  readonly deterministic: boolean;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: Exclude<TuneOptions['onProgress'], undefined>;
}

export function readTuneRequest(problems: unknown, options: unknown = {}): TuneRequest {
  const given = readProperties('options', options, TUNE_DEFAULTS);
  const precision = readOptionalPrecision('options', given.precision);
  const listed = checkList('problems', problems, 'a list of problems', (name, problem) =>
    readTunable(name, problem, precision),
  );
  if (typeof given.onProgress !== 'function')
    throw mismatch('options.onProgress', 'a function', given.onProgress);
  return {
    problems: listed,
    device: checkDeviceOrAuto('options.device', given.device),
    deterministic: checkBoolean('options.deterministic', given.deterministic),
    signal: readSignal('options.signal', given.signal),
    onProgress: given.onProgress as TuneRequest['onProgress'],
  };
}

/** A problem that leaves the algorithm open. */
function readTunable(name: string, problem: unknown, precision: Precision | undefined): ProblemSpec {
  const spec = readProblem(problem, name, precision);
  if (spec.algorithm !== 'auto' && spec.algorithm !== 'tune') {
    throw mismatch(`${name}.algorithm`, `'tune' or left out`, spec.algorithm);
  }
  if (isEmptyBatch(spec.inputDims)) {
    throw invalid(
      `${name}.inputDims has no images, so that there is nothing to measure; give N as it will be`,
    );
  }
  return { ...spec, algorithm: 'tune' };
}

function readInputDims(owner: string, value: unknown, layout: Layout): number[] {
  const shape = layout === 'nchw' ? '[N, C, H, W]' : '[N, H, W, C]';
  return readDims(`${owner}.inputDims`, value, shape, 4, 0);
}

function readInputType(owner: string, value: unknown): FloatType {
  return checkOneOf(`${owner}.inputType`, value, FLOAT_TYPES);
}

function readLayout(owner: string, value: unknown): Layout {
  return checkOneOf(`${owner}.layout`, value, ['nchw', 'nhwc']);
}

function requestOf(given: Record<keyof typeof CONV2D_DEFAULTS, unknown>): Conv2dRequest {
  return {
    method: methodOf('options', given),
    layout: readLayout('options', given.layout),
    bias: readOptionalTensor('options.bias', given.bias, 1),
    residual: readOptionalTensor('options.residual', given.residual, 4),
    device: checkDeviceOrAuto('options.device', given.device),
    precision: readOptionalPrecision('options', given.precision),
    deterministic: checkBoolean('options.deterministic', given.deterministic),
    signal: readSignal('options.signal', given.signal),
  };
}

function methodOf(
  owner: string,
  given: Record<Exclude<keyof typeof METHOD_DEFAULTS, 'layout'>, unknown>,
): Method {
  const positive = { min: 1, max: MAX_INT32 } as const;
  return {
    stride: checkPair(`${owner}.stride`, given.stride, positive),
    padding: readPadding(`${owner}.padding`, given.padding),
    dilation: checkPair(`${owner}.dilation`, given.dilation, positive),
    groups: checkInteger(`${owner}.groups`, given.groups, positive),
    activation: readActivation(`${owner}.activation`, given.activation),
    algorithm: readAlgorithm(`${owner}.algorithm`, given.algorithm),
    variant: readVariant(owner, given.variant, given.algorithm),
    workspaceLimit: readByteLimit(`${owner}.workspaceLimit`, given.workspaceLimit),
    sconv: readSwitches(`${owner}.sconv`, given.sconv),
  };
}

export function readPrecision(name: string, value: unknown): Precision {
  return checkOneOf(name, value, ['fp32', 'tf32', 'fp16', 'bf16']);
}

function readOptionalPrecision(owner: string, value: unknown): Precision | undefined {
  return value === undefined ? undefined : readPrecision(`${owner}.precision`, value);
}

function readOutput(name: string, value: unknown): RunRequest['output'] {
  if (value === undefined) return undefined;
  return { argument: readTensor(name, value, 4, 0), tensor: value as Tensor<FloatType> };
}

function readOptionalTensor(name: string, value: unknown, rank: 1 | 4): TensorArgument | null {
  return value === null ? null : readTensor(name, value, rank, rank === 4 ? 0 : 1);
}

function readPadding(name: string, value: unknown): Method['padding'] {
  if (value === 'same' || value === 'valid') return value;
  const range = { min: 0, max: MAX_INT32 } as const;
  if (typeof value === 'number' && Number.isInteger(value)) {
    const all = checkInteger(name, value, range);
    return [all, all, all, all];
  }
  const shape = `a non-negative integer, [height, width], [top, left, bottom, right], 'same' or 'valid'`;
  const [top, left, bottom = top, right = left] = checkIntegers(name, value, [2, 4], range, shape);
  return [top!, left!, bottom!, right!];
}

function readActivation(name: string, value: unknown): NativeActivation {
  if (typeof value === 'string') return namedActivation(checkOneOf(name, value, ACTIVATIONS));
  const shape = `${alternatives(ACTIVATIONS)}, { clip: [min, max] } or { leakyRelu: slope }`;
  if (!isObject(value) || isList(name, value)) throw mismatch(name, shape, value);
  const given = readProperties(name, value, { clip: undefined, leakyRelu: undefined });
  if ((given.clip === undefined) === (given.leakyRelu === undefined)) throw mismatch(name, shape, value);
  return given.clip === undefined ? leakyRelu(name, given.leakyRelu) : clip(`${name}.clip`, given.clip);
}

function namedActivation(name: (typeof ACTIVATIONS)[number]): NativeActivation {
  return { name, parameters: name === 'leakyRelu' ? [LEAKY_SLOPE] : [] };
}

function leakyRelu(name: string, slope: unknown): NativeActivation {
  if (!Number.isFinite(slope)) throw mismatch(`${name}.leakyRelu`, 'a finite number', slope);
  return { name: 'leakyRelu', parameters: [slope as number] };
}

function clip(name: string, bounds: unknown): NativeActivation {
  const [min, max, ...more] = checkList(name, bounds, '[min, max]', checkNumber);
  if (min === undefined || max === undefined || more.length > 0) throw mismatch(name, '[min, max]', bounds);
  if (min > max) throw mismatch(name, '[min, max] with min not above max', [min, max]);
  return { name: 'clip', parameters: [min, max] };
}

export function readAlgorithm(name: string, value: unknown): string {
  if (isName(value)) return value;
  throw mismatch(name, `'auto', 'tune' or the name of an algorithm`, value);
}

function readVariant(owner: string, variant: unknown, algorithm: unknown): string {
  if (!isName(variant)) throw mismatch(`${owner}.variant`, 'the name of a variant', variant);
  if (variant === '' || (algorithm !== 'auto' && algorithm !== 'tune')) return variant;
  throw invalid(`${owner}.variant '${variant}' needs ${owner}.algorithm to name the algorithm it belongs to`);
}

/** Native code knows the names, and quotes a wrong one. */
function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_NAME;
}

const LONGEST_NAME = 100;

/** Reads the most bytes that something may take. */
export function readByteLimit(name: string, value: unknown): number {
  if (value === Infinity) return Infinity;
  if (Number.isSafeInteger(value) && (value as number) >= 0) return (value as number) + 0;
  throw mismatch(name, 'a non-negative integer number of bytes or Infinity', value);
}

function readSwitches(name: string, value: unknown): NativeSconvSwitches {
  const given = readProperties(name, value, SCONV_DEFAULTS);
  const choice = <T extends string>(key: keyof SconvSwitches, words: readonly T[]) =>
    given[key] === null ? null : checkOneOf(`${name}.${key}`, given[key], words);
  return {
    schedule: choice('schedule', ['inputStationary', 'weightStationary']),
    presentation: choice('presentation', ['asTheyLie', 'packed']),
    vectorPacking: checkBoolean(`${name}.vectorPacking`, given.vectorPacking),
    packing: checkOneOf(`${name}.packing`, given.packing, ['onDemand', 'ahead']),
  };
}

export function readSignal(name: string, value: unknown): AbortSignal | undefined {
  if (value === undefined) return undefined;
  try {
    const signal = value as Partial<AbortSignal> | null;
    const isSignal =
      isObject(signal) &&
      typeof signal.aborted === 'boolean' &&
      typeof signal.addEventListener === 'function' &&
      typeof signal.removeEventListener === 'function';
    if (!isSignal) throw mismatch(name, 'an AbortSignal', value);
    if (signal.aborted) throw abortedBy(signal as AbortSignal);
    return signal as AbortSignal;
  } catch (error) {
    throw unreadable(name, error);
  }
}

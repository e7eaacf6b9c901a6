/**
 * The steps that a compiled network consists of, as native code takes them (native/program/steps.h says what each does),
 * over any form of buffer: the compiler has storages, native code places.
 */
import type {
  CallId,
  ConvolutionSpec,
  Done,
  NativeActivation,
  NativeCandidate,
  NativeGpuBuffer,
  NativeStore,
  TensorFormat,
} from '../native_types';
import type { DataType } from '../tensor/data_types';

export interface ConvolutionStep<B> {
  readonly kind: 'convolution';
  readonly convolution: ConvolutionSpec;
  readonly input: B;
  readonly weight: B;
  /** K factors of the filters, a constant; the weight is a constant then, too */
  readonly scale: B | null;
  readonly bias: B | null;
  readonly residual: B | null;
  readonly output: B;
}

export interface MatmulStep<B> {
  readonly kind: 'matmul';
  readonly batch: readonly number[];
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly leftStrides: readonly number[];
  readonly rightStrides: readonly number[];
  readonly biasStrides: readonly number[];
  readonly alpha: number;
  readonly beta: number;
  readonly activation: NativeActivation;
  readonly left: B;
  readonly right: B;
  readonly bias: B | null;
  readonly output: B;
}

export type BinaryOperation =
  'add' | 'subtract' | 'multiply' | 'divide' | 'minimum' | 'maximum' | 'power' | 'prelu';

export type UnaryOperation =
  | 'constant'
  | 'affine'
  | 'negate'
  | 'absolute'
  | 'relu'
  | 'leakyRelu'
  | 'clip'
  | 'sigmoid'
  | 'hardSigmoid'
  | 'hardSwish'
  | 'silu'
  | 'mish'
  | 'elu'
  | 'selu'
  | 'celu'
  | 'gelu'
  | 'geluTanh'
  | 'tanh'
  | 'softplus'
  | 'softsign'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'reciprocal'
  | 'floor'
  | 'ceil'
  | 'round'
  | 'erf'
  | 'sign'
  | 'sin'
  | 'cos';

/** Operands are values 0, 1, …; each instruction makes the next. */
export interface Instruction {
  readonly operation: BinaryOperation | UnaryOperation;
  readonly a: number;
  readonly b: number;
  readonly p: number;
  readonly q: number;
}

export interface ElementwiseStep<B> {
  readonly kind: 'elementwise';
  readonly extents: readonly number[];
  readonly operands: readonly B[];
  readonly strides: readonly (readonly number[])[];
  readonly code: readonly Instruction[];
  readonly types?: readonly FloatType[];
  readonly outputType?: FloatType;
  readonly outputStrides?: readonly number[];
  readonly output: B;
}

/** What halves and their float32 are called. */
export type FloatType = TensorFormat['type'];

export type HalfType = Exclude<FloatType, 'float32'>;

export const MOST_OPERANDS = 8;
export const MOST_INSTRUCTIONS = 24;

export interface PoolStep<B> {
  readonly kind: 'pool';
  readonly mode: 'maximum' | 'average';
  readonly planes: number;
  readonly h: number;
  readonly w: number;
  readonly p: number;
  readonly q: number;
  readonly r: number;
  readonly s: number;
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly endPadding: readonly [number, number];
  readonly countPadding: boolean;
  readonly channels?: number;
  readonly inputFormat?: TensorFormat;
  readonly outputFormat?: TensorFormat;
  readonly input: B;
  readonly output: B;
}

export interface ReduceStep<B> {
  readonly kind: 'reduce';
  readonly mode:
    'sum' | 'mean' | 'maximum' | 'minimum' | 'product' | 'sumOfSquares' | 'argMaximum' | 'argMinimum';
  readonly outer: number;
  readonly reduced: number;
  readonly inner: number;
  readonly last: boolean;
  readonly type?: FloatType;
  readonly pitch?: number;
  readonly input: B;
  readonly output: B;
}

export interface SoftmaxStep<B> {
  readonly kind: 'softmax';
  readonly outer: number;
  readonly reduced: number;
  readonly inner: number;
  readonly logarithm: boolean;
  readonly input: B;
  readonly output: B;
}

export interface NormalizeStep<B> {
  readonly kind: 'normalize';
  readonly rows: number;
  readonly count: number;
  readonly groups: number;
  readonly channels: number;
  readonly inner: number;
  readonly epsilon: number;
  readonly scale: B | null;
  readonly shift: B | null;
  readonly type?: FloatType;
  readonly input: B;
  readonly output: B;
}

export interface LocalResponseStep<B> {
  readonly kind: 'localResponse';
  readonly n: number;
  readonly channels: number;
  readonly inner: number;
  readonly size: number;
  readonly alpha: number;
  readonly beta: number;
  readonly k: number;
  readonly input: B;
  readonly output: B;
}

export interface SqueezeExciteStep<B> {
  readonly kind: 'squeezeExcite';
  readonly n: number;
  readonly channels: number;
  readonly area: number;
  readonly hidden: number;
  readonly type: HalfType;
  readonly inputPitch: number;
  readonly outputPitch: number;
  readonly hiddenActivation: NativeActivation;
  readonly gateActivation: NativeActivation;
  readonly input: B;
  readonly hiddenWeight: B;
  readonly hiddenBias: B | null;
  readonly gateWeight: B;
  readonly gateBias: B | null;
  readonly output: B;
}

export interface CopyStep<B> {
  readonly kind: 'copy';
  readonly bytes: number;
  readonly extents: readonly number[];
  readonly inputStrides: readonly number[];
  readonly outputStrides: readonly number[];
  readonly input: B;
  readonly output: B;
}

export interface FillStep<B> {
  readonly kind: 'fill';
  readonly count: number;
  readonly value: number;
  readonly output: B;
}

export interface GatherStep<B> {
  readonly kind: 'gather';
  readonly bytes: number;
  readonly outer: number;
  readonly axis: number;
  readonly count: number;
  readonly inner: number;
  readonly indices: B;
  readonly input: B;
  readonly output: B;
}

export interface InterpolateStep<B> {
  readonly kind: 'interpolate';
  readonly outer: number;
  readonly axis: number;
  readonly count: number;
  readonly inner: number;
  readonly taps: number;
  readonly positions: Int32Array;
  readonly weights: Float64Array;
  readonly type?: FloatType;
  readonly input: B;
  readonly output: B;
}

export interface FormatStep<B> {
  readonly kind: 'format';
  readonly n: number;
  readonly channels: number;
  readonly area: number;
  readonly from: TensorFormat;
  readonly to: TensorFormat;
  readonly input: B;
  readonly output: B;
}

export type MapOperation =
  | 'identity'
  | 'add'
  | 'subtract'
  | 'multiply'
  | 'divide'
  | 'modulo'
  | 'remainder'
  | 'minimum'
  | 'maximum'
  | 'power'
  | 'prelu'
  | 'bitAnd'
  | 'bitOr'
  | 'bitXor'
  | 'shiftLeft'
  | 'shiftRight'
  | 'equal'
  | 'less'
  | 'lessOrEqual'
  | 'greater'
  | 'greaterOrEqual'
  | 'logicalAnd'
  | 'logicalOr'
  | 'logicalXor'
  | 'select'
  | 'negate'
  | 'absolute'
  | 'sign'
  | 'bitNot'
  | 'logicalNot'
  | 'isNaN'
  | 'isInfinite'
  | 'constant'
  | 'affine'
  | 'relu'
  | 'leakyRelu'
  | 'thresholdedRelu'
  | 'shrink'
  | 'clip'
  | 'floor'
  | 'ceil'
  | 'round'
  | 'sqrt'
  | 'reciprocal'
  | 'exp'
  | 'log'
  | 'erf'
  | 'sin'
  | 'cos'
  | 'tan'
  | 'asin'
  | 'acos'
  | 'atan'
  | 'sinh'
  | 'cosh'
  | 'tanh'
  | 'scaledTanh'
  | 'asinh'
  | 'acosh'
  | 'atanh'
  | 'sigmoid'
  | 'hardSigmoid'
  | 'hardSwish'
  | 'silu'
  | 'mish'
  | 'elu'
  | 'selu'
  | 'celu'
  | 'gelu'
  | 'geluTanh'
  | 'softplus'
  | 'softsign';

/** What is computed in. */
export type ComputeType = 'float32' | 'float64' | 'int64' | 'uint64';

export interface MapStep<B> {
  readonly kind: 'map';
  readonly operation: MapOperation;
  readonly compute: ComputeType;
  readonly outputType: DataType;
  readonly types: readonly DataType[];
  readonly extents: readonly number[];
  readonly operands: readonly B[];
  readonly strides: readonly (readonly number[])[];
  readonly p: number;
  readonly q: number;
  readonly output: B;
}

export type ScatterMode = 'assign' | 'add' | 'multiply' | 'minimum' | 'maximum';

export interface IndexedStep<B> {
  readonly kind: 'indexed';
  readonly mode: 'gather' | ScatterMode;
  readonly type: DataType;
  readonly extents: readonly number[];
  readonly valueStrides: readonly number[];
  readonly dataStrides: readonly number[];
  readonly indexStrides: readonly number[];
  readonly serialAxes: number;
  readonly axes: readonly number[];
  readonly axisStrides: readonly number[];
  readonly dataCount: number;
  readonly indexCount: number;
  readonly indices: B;
  readonly input: B;
  readonly output: B;
}

export interface SortStep<B> {
  readonly kind: 'sort';
  readonly type: DataType;
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
  readonly count: number;
  readonly greatest: boolean;
  readonly input: B;
  readonly output: B;
}

export interface ScanStep<B> {
  readonly kind: 'scan';
  readonly mode: 'sum' | 'product';
  readonly type: DataType;
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
  readonly exclusive: boolean;
  readonly reversed: boolean;
  readonly input: B;
  readonly output: B;
}

export interface TypedReduceStep<B> {
  readonly kind: 'typedReduce';
  readonly mode: ReduceStep<B>['mode'];
  readonly type: DataType;
  readonly outer: number;
  readonly reduced: number;
  readonly inner: number;
  readonly last: boolean;
  readonly input: B;
  readonly output: B;
}

export interface TypedMatmulStep<B> {
  readonly kind: 'typedMatmul';
  readonly compute: ComputeType;
  readonly leftType: DataType;
  readonly rightType: DataType;
  readonly outputType: DataType;
  readonly batch: readonly number[];
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly leftStrides: readonly number[];
  readonly rightStrides: readonly number[];
  readonly left: B;
  readonly right: B;
  readonly output: B;
}

export interface RecurrentStep<B> {
  readonly kind: 'recurrent';
  readonly cell: 'rnn' | 'gru' | 'lstm';
  readonly steps: number;
  readonly batch: number;
  readonly hidden: number;
  readonly reversed: boolean;
  readonly resetsProduct: boolean;
  readonly isCoupled: boolean;
  readonly clip: number;
  readonly functions: readonly { readonly operation: MapOperation; readonly p: number; readonly q: number }[];
  readonly gates: B;
  readonly recurrent: B;
  readonly productBias: B | null;
  readonly peepholes: B | null;
  readonly initialHidden: B | null;
  readonly initialCell: B | null;
  readonly lengths: B | null;
  readonly output: B;
}

export interface RoiAlignStep<B> {
  readonly kind: 'roiAlign';
  readonly greatest: boolean;
  readonly type: 'float32' | 'float64';
  readonly regions: number;
  readonly n: number;
  readonly channels: number;
  readonly h: number;
  readonly w: number;
  readonly p: number;
  readonly q: number;
  readonly samples: number;
  readonly scale: number;
  readonly halfPixel: boolean;
  readonly images: B;
  readonly boxes: B;
  readonly input: B;
  readonly output: B;
}

export type Step<B> =
  | ConvolutionStep<B>
  | MatmulStep<B>
  | ElementwiseStep<B>
  | PoolStep<B>
  | ReduceStep<B>
  | SoftmaxStep<B>
  | NormalizeStep<B>
  | LocalResponseStep<B>
  | SqueezeExciteStep<B>
  | CopyStep<B>
  | FillStep<B>
  | GatherStep<B>
  | InterpolateStep<B>
  | FormatStep<B>
  | MapStep<B>
  | IndexedStep<B>
  | SortStep<B>
  | ScanStep<B>
  | TypedReduceStep<B>
  | TypedMatmulStep<B>
  | RecurrentStep<B>
  | RoiAlignStep<B>;

/** The fields that hold one buffer each and are read, of every kind of step; `operands` alone holds several. */
const READ_FIELDS: Readonly<Record<Step<unknown>['kind'], readonly string[]>> = {
  convolution: ['input', 'weight', 'scale', 'bias', 'residual'],
  matmul: ['left', 'right', 'bias'],
  elementwise: [],
  pool: ['input'],
  reduce: ['input'],
  softmax: ['input'],
  normalize: ['input', 'scale', 'shift'],
  localResponse: ['input'],
  squeezeExcite: ['input', 'hiddenWeight', 'hiddenBias', 'gateWeight', 'gateBias'],
  copy: ['input'],
  fill: [],
  gather: ['input', 'indices'],
  interpolate: ['input'],
  format: ['input'],
  map: [],
  indexed: ['input', 'indices'],
  sort: ['input'],
  scan: ['input'],
  typedReduce: ['input'],
  typedMatmul: ['left', 'right'],
  recurrent: ['gates', 'recurrent', 'productBias', 'peepholes', 'initialHidden', 'initialCell', 'lengths'],
  roiAlign: ['images', 'boxes', 'input'],
};

/** Whether a step changes elements of its output, which other steps wrote. */
export function isInPlace<B>(step: Step<B>): boolean {
  return step.kind === 'indexed' && step.mode !== 'gather';
}

/** The buffers that a step reads, in no particular order. */
export function buffersRead<B>(step: Step<B>): readonly B[] {
  if (step.kind === 'elementwise' || step.kind === 'map') return step.operands;
  const fields = step as unknown as Readonly<Record<string, B | null>>;
  const buffers: B[] = [];
  for (const field of READ_FIELDS[step.kind]) {
    const buffer = fields[field]!;
    if (buffer !== null) buffers.push(buffer);
  }
  return buffers;
}

/** The step with every buffer replaced. */
export function mapBuffers<A, B>(step: Step<A>, map: (buffer: A) => B): Step<B> {
  const mapped: Record<string, unknown> = { ...step, output: map(step.output) };
  for (const field of READ_FIELDS[step.kind]) {
    const buffer = mapped[field] as A | null;
    if (buffer !== null) mapped[field] = map(buffer);
  }
  if (step.kind === 'elementwise' || step.kind === 'map') mapped.operands = step.operands.map(map);
  return mapped as unknown as Step<B>;
}

/** A place in the memory of a run. The offset is in bytes. */
export interface NativeBuffer {
  readonly space: 'input' | 'output' | 'constant' | 'arena';
  readonly index: number;
  readonly offset: number;
}

/** Some of a program's steps and constants, each in their order. */
export interface NativeProgramPart {
  readonly steps: readonly Step<NativeBuffer>[];
  /** Typed arrays; native code reads them in place as long as the program lives */
  readonly constants: readonly ArrayBufferView[];
  /** Those that live, and stay as they are, as long as the session: programs share what native code makes of them */
  readonly sharedConstants: readonly boolean[];
}

export interface NativeProgramSpec extends NativeProgramPart {
  /** That of its session */
  readonly store: NativeStore;
  readonly arenaBytes: number;
  readonly inputBytes: readonly number[];
  readonly outputBytes: readonly number[];
}

/** What a run brings for an input: an array of all of it, or a list of its pieces, or memory of the program's GPU. */
export type NativeInput = ArrayBufferView | readonly ArrayBufferView[] | NativeGpuBuffer;

/** Where a run writes an output: an array, or memory of the program's GPU; on a GPU null where nobody wants it. */
export type NativeOutput = ArrayBufferView | NativeGpuBuffer | null;

/** A compiled network for inputs of fixed extents. */
export interface NativeProgram {
  /** Brings what follows the steps and constants that it has; before it is prepared. */
  add(part: NativeProgramPart): void;
  /** Checks the steps, chooses algorithms and packs weights; once, before anything else. */
  prepare(done: Done): CallId;
  /** `milliseconds`, unless null, gets one number a step. */
  run(
    inputs: readonly NativeInput[],
    outputs: readonly NativeOutput[],
    milliseconds: number[] | null,
    done: Done,
  ): CallId;
  runSync(inputs: readonly NativeInput[], outputs: readonly NativeOutput[]): void;
  /** Memory that it holds besides its store, once it is prepared */
  readonly bytes: number;
  /** For each step what was chosen for it; null where there is no choice. */
  choices(): (NativeCandidate | null)[];
  /** Lets go of the weights; running calls keep them until they end. */
  dispose(): void;
}

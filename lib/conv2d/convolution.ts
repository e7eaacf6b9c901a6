import { LEAST_CHECKED_BYTES } from '../tensor/allocation';
import type {
  ConvolutionSpec,
  FloatArray,
  FloatType,
  NativeElements,
  NativeGpuBuffer,
  NativePlan,
} from '../addon';
import { callNativeAsync, runsAtOnce } from '../calls';
import { areSameDims, describe, elementCount, invalid, isEmptyBatch } from '../check';
import { callNative } from '../errors';
import { packMilliseconds, runMilliseconds } from '../loop_budget';
import { DEFAULT_PRECISION, formatOf, toNchw, type OutputType } from './formats';
import { readConv2dOptions, type Conv2dOptions, type Conv2dRequest, type MethodRequest } from './options';
import { newOutputArray } from '../tensor/outputs';
import { indexOf, isProbed, locateForWork, probeElsewhere, type Place } from '../placement';
import { emptyOnGpu, tensorOver, type Tensor } from '../tensor/tensor';
import {
  readableElements,
  readTensor,
  requireType,
  stableData,
  toCpu,
  type FloatTensorLike,
  type TensorArgument,
} from '../tensor/tensor_like';
import { bitsOf } from '../tensor/typed_array';
import { isTuned, openChosen, openChosenSync, openPlan, outputDimsOf, type PlanRequest } from './tuning';

/**
 * Convolves `input` with `weight` (cross-correlation, as networks use it) without holding up the event loop: on other
 * threads, or, where that is expected to take a fraction of a millisecond and nothing else is in flight, at once.
 *
 * On a GPU, tensors in CPU memory are copied there and back; the result is where the input is. The tensors are read in
 * place while the call runs: do not write to them or transfer their buffers before it settles. Data over a
 * `SharedArrayBuffer` or a resizable `ArrayBuffer` is copied first.
 *
 * @param input - float32, float16 or bfloat16, dims `[N, C, H, W]`, or `[N, H, W, C]` with `layout: 'nhwc'`; of a batch of
 * none, N = 0, the result is empty, after the same checks
 * @param weight - float32 or of the input's type, dims `[K, C / groups, R, S]` in either layout
 * @returns of the input's type, dims `[N, K, P, Q]`, with `P = floor((H + top + bottom - dilation * (R - 1) - 1) / stride) + 1`,
 * and `Q` likewise, or `[N, P, Q, K]`
 * @throws {@link WarpconvError}, as a rejection: `ERR_WARPCONV_INVALID_ARGUMENT`, `ERR_WARPCONV_UNSUPPORTED`,
 * `ERR_WARPCONV_NO_DEVICE`, `ERR_WARPCONV_OUT_OF_MEMORY`, `ERR_WARPCONV_DISPOSED` or `ERR_WARPCONV_ABORTED`
 */
export async function conv2d<T extends string, W extends string = string>(
  input: FloatTensorLike<T>,
  weight: FloatTensorLike<W>,
  options?: Conv2dOptions,
): Promise<Tensor<OutputType<T>>> {
  const asked = readRequest(input, weight, options);
  const { device, signal } = asked.options;
  if (!isProbed(device)) await probeElsewhere(device);
  const placed = placeRequest(asked);
  const request = isReady(placed) ? placed : await makeReady(placed);
  // Without an await the operands are read, and a short call is done, before this returns.
  const asking = planRequest(request);
  const plan = isTuned(asking) ? (await openChosen(asking, signal)).native : openPlan(asking.spec);
  let output: Tensor<FloatType> | undefined;
  try {
    const outputDims = outputDimsOf(plan, asking.spec);
    const given = givenOperands(request, outputDims);
    output = newOutput(request.input, outputDims, scratchBytes(plan, request, outputDims));
    const operands = [...given, elementsOf(output)] as const;
    if (isEmptyBatch(outputDims)) return output as Tensor<OutputType<T>>;
    if (atOnce(plan, outputDims, request)) callNative(() => plan.convolveSync(...operands));
    else await callNativeAsync((done) => plan.convolve(...operands, done), signal);
    return output as Tensor<OutputType<T>>;
  } catch (error) {
    output?.dispose();
    throw error;
  } finally {
    plan.dispose();
  }
}

/**
 * As {@link conv2d}, on the calling thread: for scripts and workers. A signal that is already aborted throws; later it
 * cannot be noticed. Weight and bias must be in CPU memory. What `algorithm: 'tune'` has to measure, it measures on the
 * calling thread, too; {@link tune} does so beforehand.
 *
 * @throws {@link WarpconvError} with the codes of {@link conv2d}
 */
export function conv2dSync<T extends string, W extends string = string>(
  input: FloatTensorLike<T>,
  weight: FloatTensorLike<W>,
  options?: Conv2dOptions,
): Tensor<OutputType<T>> {
  const request = placeRequest(readRequest(input, weight, options));
  const asking = planRequest(request);
  const plan = openChosenSync(asking).native;
  let output: Tensor<FloatType> | undefined;
  try {
    const outputDims = outputDimsOf(plan, asking.spec);
    const given = givenOperands(request, outputDims);
    output = newOutput(request.input, outputDims, scratchBytes(plan, request, outputDims));
    const operands = [...given, elementsOf(output)] as const;
    if (isEmptyBatch(outputDims)) return output as Tensor<OutputType<T>>;
    callNative(() => plan.convolveSync(...operands));
    return output as Tensor<OutputType<T>>;
  } catch (error) {
    output?.dispose();
    throw error;
  } finally {
    plan.dispose();
  }
}

/** The options stay in their own object: copying them along with the tensors took several microseconds of a call. */
interface Request {
  readonly input: TensorArgument;
  readonly weight: TensorArgument;
  readonly options: Conv2dRequest;
}

/** `weight` and `bias` may be copies that were brought to CPU memory. */
interface PlacedRequest extends Request, Ingredients {
  /** Where it runs */
  readonly place: Place;
}

function readRequest(input: unknown, weight: unknown, options: unknown): Request {
  const request = {
    input: readTensor('input', input, 4, 0),
    weight: readTensor('weight', weight, 4),
    options: readConv2dOptions(options),
  };
  requireTypes(request.input.type, request.weight, request.options);
  return request;
}

/** Checks that the other tensors of a convolution go with an input of that type. */
export function requireTypes(
  type: FloatType,
  weight: TensorArgument,
  { bias, residual }: Pick<Conv2dRequest, 'bias' | 'residual'>,
): void {
  requireType(weight, type, 'float32');
  if (bias !== null) requireType(bias, type, 'float32');
  if (residual !== null) requireType(residual, type);
}

function placeRequest({ input, weight, options }: Request): PlacedRequest {
  const place = locateForWork(options.device, input.place);
  return { input, weight, bias: options.bias, options, place };
}

function planRequest({ input, weight, options, place }: PlacedRequest): PlanRequest {
  return planRequestOf(options, { type: input.type, inputDims: input.dims, weightDims: weight.dims }, place);
}

/** What a convolution is asked of besides its options. The dims of the input are those of its layout. */
export interface Shapes {
  readonly type: FloatType;
  readonly inputDims: readonly number[];
  readonly weightDims: readonly number[];
}

export function planRequestOf(
  { method, layout, precision: asked, deterministic }: MethodRequest,
  { type, inputDims, weightDims }: Shapes,
  place: Place,
): PlanRequest {
  const precision = asked ?? DEFAULT_PRECISION[type];
  const plain = { inputDims: toNchw(inputDims, layout), weightDims, device: indexOf(place), ...method };
  // Native code has the same defaults, and to be told of them takes it a good part of a small call.
  const isPlain = precision === 'fp32' && type === 'float32' && layout === 'nchw';
  const spec: ConvolutionSpec = isPlain ? plain : { ...plain, precision, ...formatOf({ type, layout }) };
  return { spec, place, precision, deterministic };
}

/** Whether the event loop's thread computes it: only ever on the CPU. */
function atOnce(
  plan: NativePlan,
  outputDims: readonly number[],
  { input, weight, options, place }: PlacedRequest,
): boolean {
  if (place !== 'cpu') return false;
  const run = runMilliseconds(plan.predictedMilliseconds, input.dims, weight.dims, outputDims);
  return runsAtOnce(run + packMilliseconds(weight.dims), options.signal);
}

/** What native code allocates in CPU memory for a call: widened and packed weights, and the workspace. */
function scratchBytes(
  plan: NativePlan,
  { input, weight, options, place }: PlacedRequest,
  outputDims: readonly number[],
): number {
  if (place !== 'cpu') return 0;
  const weights = elementCount(weight.dims);
  const isPlain = input.type === 'float32' && options.layout === 'nchw';
  // The largest workspace is im2col's matrix, C / groups * R * S x P * Q. To ask for it costs a quarter of a microsecond.
  const most = weights * elementCount(outputDims) * FLOAT_BYTES;
  if (isPlain && most < LEAST_CHECKED_BYTES) return 0;
  const copies = weight.type === 'float32' ? 1 : 2;
  return copies * weights * FLOAT_BYTES + plan.workspaceBytes;
}

/** What a call reads. Where that cannot be had, nothing is allocated for its output. */
function givenOperands(
  { weight, bias, input, options, place }: PlacedRequest,
  outputDims: readonly number[],
): GivenOperands {
  return [
    stableData(weight),
    biasData(bias, weight.dims),
    readableElements(input, place),
    residualElements(options.residual, outputDims, place),
  ];
}

type GivenOperands = readonly [
  weight: FloatArray,
  bias: FloatArray | null,
  input: NativeElements,
  residual: NativeElements | null,
];

/**
 * A tensor for a result: of the input's type, and where that is. Whatever is read of it before the call has succeeded is noise.
 *
 * @param scratch - bytes of CPU memory that the call takes besides
 */
export function newOutput(
  { type, place }: TensorArgument,
  dims: readonly number[],
  scratch: number,
): Tensor<FloatType> {
  return place === 'cpu'
    ? tensorOver<FloatType>(type, newOutputArray(type, dims, scratch), Object.freeze(dims))
    : emptyOnGpu<FloatType>(place, type, dims);
}

export function elementsOf(tensor: Tensor<FloatType>): NativeElements {
  if (tensor.location === 'gpu-buffer') return tensor.gpuBuffer as NativeGpuBuffer;
  return tensor.type === 'float16' ? (bitsOf(tensor.data) as FloatArray) : tensor.data;
}

/** What packing weights needs before it can begin. */
export interface Ingredients {
  readonly weight: TensorArgument;
  readonly bias: TensorArgument | null;
}

/** Whether they are in CPU memory. */
export function isReady({ weight, bias }: Ingredients): boolean {
  return weight.place === 'cpu' && (bias === null || bias.place === 'cpu');
}

export async function makeReady<T extends Ingredients>(ingredients: T): Promise<T> {
  const { weight, bias } = ingredients;
  return { ...ingredients, weight: await toCpu(weight), bias: bias && (await toCpu(bias)) };
}

export function biasData(bias: TensorArgument | null, weightDims: readonly number[]): FloatArray | null {
  if (bias === null) return null;
  requireDims(bias, [weightDims[0]!], 'one value per output channel');
  return stableData(bias);
}

export function residualElements(
  residual: TensorArgument | null,
  outputDims: readonly number[],
  place: Place,
): NativeElements | null {
  if (residual === null) return null;
  requireDims(residual, outputDims, 'the dims of the output');
  return readableElements(residual, place);
}

export function requireDims(
  { name, dims }: TensorArgument,
  expected: readonly number[],
  meaning: string,
): void {
  if (areSameDims(dims, expected)) return;
  throw invalid(`${name}.dims must be ${describe(expected)} (${meaning}), got ${describe(dims)}`);
}

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

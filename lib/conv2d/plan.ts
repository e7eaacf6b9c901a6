import type { FloatArray, FloatType, NativeElements } from '../addon';
import { callNativeAsync, runsAtOnce } from '../calls';
import { admit } from '../tensor/allocation';
import { elementCount, invalid, isEmptyBatch, isObject } from '../check';
import {
  biasData,
  elementsOf,
  isReady,
  makeReady,
  newOutput,
  planRequestOf,
  requireDims,
  requireTypes,
  residualElements,
} from './convolution';
import { callNative, WarpconvError } from '../errors';
import { explain, type PlanExplanation } from './explanation';
import type { OutputType } from './formats';
import type { AlgorithmName } from './names';
import { runMilliseconds } from '../loop_budget';
import {
  readCreateOptions,
  readRunOptions,
  type Conv2dCreateOptions,
  type Conv2dRunOptions,
} from './options';
import { isProbed, locateForWork, probeElsewhere } from '../placement';
import { copyOf, type Tensor } from '../tensor/tensor';
import {
  readableElements,
  readTensor,
  requireApart,
  requireType,
  stableData,
  toCpu,
  writableElements,
  type FloatTensorLike,
  type TensorArgument,
  type TensorLike,
} from '../tensor/tensor_like';
import { openChosen, outputDimsOf, type ChosenPlan, type PlanRequest } from './tuning';
import { nextTurn } from '../turn';

/** What {@link Conv2d.create} hands to the constructor, and nobody else can make. */
class Prepared {
  readonly #made = true;

  /** Without asking the value, as `instanceof` does. */
  static isOne(value: unknown): value is Prepared {
    return isObject(value) && #made in value;
  }

  constructor(
    readonly request: PlanRequest,
    readonly chosen: ChosenPlan,
    /** What one run may be expected to take. */
    readonly milliseconds: number,
    /** A copy of the plan's own */
    readonly residual: FloatArray | null,
    /** Of inputs, residuals and outputs */
    readonly type: FloatType,
    /** Of the inputs, in their layout */
    readonly inputDims: readonly number[],
  ) {}
}

/**
 * A convolution used again and again: algorithm chosen once, weights packed once. Runs may overlap; each needs its own
 * output.
 *
 * @typeParam T - the type of inputs and outputs
 */
export class Conv2d<T extends FloatType = 'float32'> {
  readonly algorithm: AlgorithmName;
  /** Where it runs, for example `'cpu'`. */
  readonly device: string;
  /** `[N, K, P, Q]`, or `[N, P, Q, K]` with `layout: 'nhwc'`; frozen. */
  readonly outputDims: readonly number[];
  /** Scratch memory that each running call takes. */
  readonly workspaceBytes: number;

  readonly #prepared: Prepared;
  /** Calls on other threads. Of a set of them the tables take V8's short collections up to 0.7 ms. */
  #running = 0;
  /** Wait until none is left. */
  readonly #waiting: (() => void)[] = [];
  #disposed = false;

  /** Use {@link Conv2d.create}. */
  private constructor(prepared: Prepared) {
    if (!Prepared.isOne(prepared)) {
      throw invalid('a Conv2d is made by await Conv2d.create(weight, options)');
    }
    this.#prepared = prepared;
    const { native } = prepared.chosen;
    this.device = prepared.request.place;
    this.algorithm = native.algorithm as AlgorithmName;
    this.outputDims = Object.freeze(outputDimsOf(native, prepared.request.spec));
    this.workspaceBytes = native.workspaceBytes;
  }

  /**
   * Chooses an algorithm, by measuring where that is asked for, and packs the weights for it, without blocking the event
   * loop. Weight, bias and residual are copied: once the promise has resolved, the plan does not depend on them.
   *
   * @param weight - float32 or of the inputs' type, dims `[K, C / groups, R, S]`
   * @param options - as for {@link conv2d}, and dims and type of the inputs to come; of batches of none, N = 0, too
   * @throws {@link WarpconvError}, as a rejection, with the codes of {@link conv2d}
   */
  static create<T extends FloatType, W extends string = string>(
    weight: FloatTensorLike<W>,
    options: Conv2dCreateOptions & { readonly inputType: T },
  ): Promise<Conv2d<T>>;
  static create<T extends string>(
    weight: FloatTensorLike<T>,
    options: Conv2dCreateOptions,
  ): Promise<Conv2d<OutputType<T>>>;
  static async create(weight: TensorLike, options: Conv2dCreateOptions): Promise<Conv2d<FloatType>> {
    const weights = readTensor('weight', weight, 4);
    const given = readCreateOptions(options);
    const { inputDims, bias, residual, device, signal } = given;
    const type = given.inputType ?? weights.type;
    requireTypes(type, weights, given);
    if (!isProbed(device)) await probeElsewhere(device);
    const place = locateForWork(device, weights.place);
    const asked = { weight: weights, bias, residual: residual && (await toCpu(residual)) };
    const ready = isReady(asked) ? asked : await makeReady(asked);
    const request = planRequestOf(given, { type, inputDims, weightDims: weights.dims }, place);
    const { spec } = request;
    const chosen = await openChosen(request, signal);
    const { native } = chosen;
    const outputDims = outputDimsOf(native, spec);
    try {
      const constant = residualElements(ready.residual, outputDims, 'cpu') as FloatArray | null;
      const prepared = new Prepared(
        request,
        chosen,
        runMilliseconds(native.predictedMilliseconds, inputDims, weights.dims, outputDims),
        constant && (copyOf(type, constant, outputDims) as FloatArray),
        type,
        inputDims,
      );
      if (place === 'cpu') {
        const bytes = elementCount(weights.dims) * Float32Array.BYTES_PER_ELEMENT;
        admit({ what: 'packed weights', dims: weights.dims, bytes });
      }
      const packed = [stableData(ready.weight), biasData(ready.bias, weights.dims)] as const;
      await callNativeAsync((done) => native.prepare(...packed, done), signal);
      return new Conv2d(prepared);
    } catch (error) {
      native.dispose();
      throw error;
    }
  }

  /**
   * Convolves one input without holding up the event loop: on other threads, or, where the prediction is a fraction of a
   * millisecond and nothing else is in flight, at once. Input, residual and output are used in place: do not touch them
   * before the promise settles. On a GPU, tensors in CPU memory are copied there and back; with all of them on the
   * GPU, a run copies and allocates nothing.
   *
   * @param input - of the type and the `inputDims` that the plan was created for
   * @returns `options.output` where given, otherwise a new tensor of `outputDims`, where the input is
   * @throws {@link WarpconvError}, as a rejection, with the codes of {@link conv2d}
   */
  async run(input: TensorLike, options?: Conv2dRunOptions): Promise<Tensor<T>> {
    const binding = this.#bind(input, options);
    const { request, milliseconds } = this.#prepared;
    if (isEmptyBatch(this.outputDims)) return binding.tensor as Tensor<T>;
    try {
      if (request.place === 'cpu' && runsAtOnce(milliseconds, binding.signal)) this.#runHere(binding);
      else await this.#runElsewhere(binding);
      return binding.tensor as Tensor<T>;
    } catch (error) {
      discard(binding);
      throw error;
    }
  }

  /** As {@link run}, on the calling thread. */
  runSync(input: TensorLike, options?: Conv2dRunOptions): Tensor<T> {
    const binding = this.#bind(input, options);
    if (isEmptyBatch(this.outputDims)) return binding.tensor as Tensor<T>;
    try {
      this.#runHere(binding);
      return binding.tensor as Tensor<T>;
    } catch (error) {
      discard(binding);
      throw error;
    }
  }

  /** Why this algorithm, and why not the others. */
  explain(): PlanExplanation {
    this.#requireLive();
    return explain(this.#prepared.request, this.#prepared.chosen);
  }

  /**
   * Ends the plan: calls from now on reject with `ERR_WARPCONV_DISPOSED`, running ones finish, and the packed weights
   * are freed when the last has. Again is harmless.
   */
  dispose(): void {
    this.#disposed = true;
    this.#prepared.chosen.native.dispose();
  }

  /** As {@link Conv2d.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Disposes, and resolves when the running calls have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    // Not before the callers' promises have settled, too.
    await nextTurn();
  }

  #runHere({ operands: { input, residual, output } }: Binding): void {
    callNative(() => this.#prepared.chosen.native.runSync(input, residual, output));
  }

  #runElsewhere({ operands: { input, residual, output }, signal }: Binding): Promise<void> {
    const { native } = this.#prepared.chosen;
    return callNativeAsync((done) => {
      const call = native.run(input, residual, output, (failure) => {
        this.#endRun();
        done(failure);
      });
      this.#running++;
      return call;
    }, signal);
  }

  #endRun(): void {
    if (--this.#running > 0) return;
    for (const resume of this.#waiting.splice(0)) resume();
  }

  #bind(input: unknown, options: unknown): Binding {
    const image = readTensor('input', input, 4, 0);
    const request = readRunOptions(options);
    // Only now: reading runs the caller's getters, and one of them may have disposed the plan.
    this.#requireLive();
    const { type, inputDims } = this.#prepared;
    const { place } = this.#prepared.request;
    requireType(image, type, type, 'what the plan was created for');
    requireDims(image, inputDims, 'what the plan was created for');
    if (request.residual) requireType(request.residual, type);
    const { output, signal } = request;
    const elements = readableElements(image, place);
    const residual =
      request.residual === undefined
        ? this.#prepared.residual
        : residualElements(request.residual, this.outputDims, place);
    // A new one is made last, when nothing before the call can fail any more.
    const scratch = place === 'cpu' ? this.workspaceBytes : 0;
    const tensor = output?.tensor ?? newOutput(image, this.outputDims, scratch);
    if (output !== undefined) admit({ what: 'scratch memory', bytes: scratch });
    // Not by spreading an object: some 150 bytes of each run then outlive V8's short collections, of 1 ms, not 0.2.
    const operands: Operands = {
      input: elements,
      residual,
      output: output === undefined ? elementsOf(tensor) : this.#givenOutput(output.argument),
    };
    if (output !== undefined) requireOutputApart(operands);
    return { operands, tensor, isNew: output === undefined, signal };
  }

  #givenOutput(output: TensorArgument): NativeElements {
    requireType(output, this.#prepared.type);
    requireDims(output, this.outputDims, 'the dims of the output');
    return writableElements(output, this.#prepared.request.place);
  }

  #requireLive(): void {
    if (this.#disposed) throw new WarpconvError('ERR_WARPCONV_DISPOSED', 'the plan has been disposed');
  }
}

interface Operands {
  readonly input: NativeElements;
  readonly residual: NativeElements | null;
  readonly output: NativeElements;
}

/** One run, everything it needs read and checked. */
interface Binding {
  readonly operands: Operands;
  /** The output: the caller's own tensor or a new one */
  readonly tensor: Tensor<FloatType>;
  readonly isNew: boolean;
  readonly signal: AbortSignal | undefined;
}

/** After a failure nobody sees an output that was made for the call. */
function discard({ tensor, isNew }: Binding): void {
  if (isNew) tensor.dispose();
}

function requireOutputApart({ input, residual, output }: Operands): void {
  const others = [{ name: 'input', elements: input }];
  if (residual !== null) others.push({ name: 'the residual', elements: residual });
  requireApart({ name: 'options.output', elements: output }, others);
}

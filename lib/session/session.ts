/** Whole networks. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';

import { LRUCache } from 'lru-cache';

import { callNativeAsync, runOnLoop, unlessAborted, waitedElsewhere, waitOnLoop } from '../calls';
import {
  checkInteger,
  checkIntegers,
  invalid,
  isObject,
  MAX_INT32,
  mismatch,
  readProperties,
} from '../check';
import { abortedBy, callNative, WarpconvError } from '../errors';
import {
  describeInputs,
  elementsOf,
  findConflict,
  fitsShape,
  hasSharedDimensions,
  readDims,
  readFeed,
  readJoinedFeed,
  requireConsistent,
  withOpenDims,
  type Feed,
} from './feeds';
import { readCreateArguments, type OnnxModelFile } from './create_arguments';
import { outlineOf, runElsewhere, toOnnxruntime } from './elsewhere';
import type { Fallback, OtherSession } from './fallback';
import { fixedDims, InputBinder, keyOf, undecided } from './bindings';
import { readImageOptions, type ImageOptions } from './images';
import { Chains } from '../model/chains';
import { advised } from '../model/complaints';
import { compile, requireOperators, type Bindings, type Compiled } from '../model/compile';
import { Constants } from '../model/constants';
import type { Graph } from '../model/graph';
import { withImages } from '../model/images';
import { precisionOn } from '../conv2d/formats';
import type { Precision } from '../conv2d/names';
import type * as metadata from '../model/metadata';
import { metadataOf, type ValueMetadata } from '../model/metadata';
import { ValueNeeded } from '../model/lowering';
import { rowFunction } from '../model/rows';
import { loadOnnx } from '../model/onnx/load';
import { withoutSubnormals } from '../model/subnormals';
import { explainProgram, type SessionExplanation } from '../model/explain';
import type { NativeOutput } from '../model/steps';
import {
  ALL_OUTPUTS,
  NONE_RESIDENT,
  readRunArguments,
  readSessionOptions,
  type RunArguments,
  type RunOptions,
  type SessionOptions,
  type SessionRequest,
} from './session_options';
import type * as options from './session_options';
import { noteOwnSession } from './own_sessions';
import { isProbed, locateForWork, openPlace, probeElsewhere, type Place } from '../placement';
import { residentOutputs } from './output_locations';
import { RunOutputs } from './outputs';
import { Profiling, writeOrWarn } from './profiling';
import { warnOfTooLarge } from './precision';
import { Programs } from './programs';
import { SharingOwner, type Shareable } from '../sharing/owner';
import type { Prepared, SharedProgram } from './shared_program';
import type { Tensor } from '../tensor/tensor';
import type { TensorLike } from '../tensor/tensor_like';
import { SplitNetwork, type Part } from './split_network';
import { tuneProgram } from './tuned_program';

/** Most input dims for which a session remembers what their rows compute. */
const MOST_ROW_FUNCTIONS = 256;

/** What {@link InferenceSession.create} hands to the constructor, and nobody else can make. */
class Loaded {
  readonly #made = true;

  /** Without asking the value, as `instanceof` does. */
  static isOne(value: unknown): value is Loaded {
    return isObject(value) && #made in value;
  }

  /** @param form - the name of the graph among those that share programs */
  constructor(
    readonly graph: Graph,
    readonly place: Place,
    readonly options: SessionRequest,
    readonly shared: Shared,
    readonly form = '',
  ) {}
}

/** What sessions share that run one network, and take its inputs in different forms. */
interface Shared {
  /** Of the whole network */
  readonly inputs: Graph['inputs'];
  readonly constants: Constants;
  readonly programs: Programs;
  /** The names of the outputs that are made on the GPU */
  readonly resident: ReadonlySet<string>;
  readonly running: Set<Promise<unknown>>;
  /** By the session that other threads use */
  readonly sharings: Map<SharingOwner, InferenceSession>;
  /** Whether somebody has been told what stays float32 */
  isWarned: boolean;
  /** While runs are recorded */
  profiling: Profiling | undefined;
  /** Who runs the network where this package cannot, if somebody may */
  readonly fallback: Fallback | undefined;
  isReleased: boolean;
}

/**
 * A network that is loaded, compiled and ready to run, in the shape of onnxruntime-common's `InferenceSession`.
 *
 * Runs may overlap. For each new set of input dims the network is compiled once; the programs of the sets used last are
 * kept.
 */
export class InferenceSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  readonly #graph: Graph;
  readonly #constants: Constants;
  /** None where all runs bring inputs of the same dims */
  readonly #chains: Chains | undefined;
  readonly #place: Place;
  readonly #options: SessionRequest;
  /** That the device has */
  readonly #precision: Precision;
  readonly #programs: Programs;
  /** Whether extents have to be compared with each other */
  readonly #sharesDimensions: boolean;
  readonly #shared: Shared;
  readonly #form: string;
  readonly #rowFunctions = new LRUCache<string, { readonly name: string | undefined }>({
    max: MOST_ROW_FUNCTIONS,
  });
  readonly #binder: InputBinder;
  /** Where it runs as several programs */
  #split: SplitNetwork | undefined;
  /** Whether this one was, whose network others may still use */
  #isReleased = false;

  /** Use {@link InferenceSession.create}. */
  private constructor(loaded: Loaded) {
    if (!Loaded.isOne(loaded)) {
      throw invalid('a session is made by await InferenceSession.create(model)');
    }
    noteOwnSession(this);
    const { graph, place, options, shared, form } = loaded;
    this.#graph = graph;
    this.#binder = new InputBinder(graph);
    this.#shared = shared;
    this.#form = form;
    this.#constants = shared.constants;
    this.#programs = shared.programs;
    this.#place = place;
    this.#options = options;
    this.#precision = precisionOn(place, options.precision);
    this.#chains =
      fixedDims(this.#graph, this.#options.freeDimensions) === undefined
        ? new Chains(this.#constants)
        : undefined;
    this.inputNames = Object.freeze(graph.inputs.map(({ name }) => name));
    this.outputNames = Object.freeze(graph.outputs.map(({ name }) => name));
    this.inputMetadata = Object.freeze(graph.inputs.map(metadataOf));
    this.outputMetadata = Object.freeze(graph.outputs.map(metadataOf));
    this.#sharesDimensions = hasSharedDimensions(graph.inputs);
  }

  /** Where it runs, for example `'cuda:0'`. */
  get device(): string {
    return this.#fallback?.taken === undefined ? this.#place : 'cpu';
  }

  /**
   * Inputs of which the model does not even say the rank: their `shape` is empty, as onnxruntime has it.
   *
   * @internal
   */
  get unrankedInputs(): readonly string[] {
    return this.#graph.inputs.flatMap(({ name, shape }) => (shape === undefined ? [name] : []));
  }

  /** As below, of the bytes of a buffer from `byteOffset` on, `byteLength` of them. */
  static create(
    model: ArrayBufferLike,
    byteOffset: number,
    byteLength?: number,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  /**
   * Loads and checks a model. Where all its input dims are fixed, it is compiled too; otherwise the first run of each
   * set of dims does that.
   *
   * @param model - an ONNX file by its path, or its bytes, which are read until the promise has settled
   * @throws {@link WarpconvError}, as a rejection: `ERR_WARPCONV_INVALID_MODEL`, `ERR_WARPCONV_UNSUPPORTED` with every
   * operator that cannot be run, `ERR_WARPCONV_INVALID_ARGUMENT`, `ERR_WARPCONV_NO_DEVICE`,
   * `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  static create(
    model: string | Uint8Array | ArrayBufferLike,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  static async create(...args: [model: unknown, ...rest: unknown[]]): Promise<InferenceSession> {
    const { model, options } = readCreateArguments(args[0], args.slice(1));
    const request = readSessionOptions(options);
    if (request.fallback !== 'onnxruntime') {
      return InferenceSession.#load(model, request, undefined).catch((error: unknown) => {
        throw withChoice(error, request);
      });
    }
    // What cannot be run may show in the first run.
    const fallback = toOnnxruntime(model, request);
    return InferenceSession.#load(model, request, fallback).catch(async (error: unknown) => {
      const outline = outlineOf(await fallback.takeOver(error));
      return new InferenceSession(
        new Loaded(
          outline,
          'cpu',
          request,
          makeShared(outline, 'cpu', request, { resident: new Set(), fallback }),
        ),
      );
    });
  }

  static async #load(
    model: OnnxModelFile,
    request: SessionRequest,
    fallback: Fallback | undefined,
  ): Promise<InferenceSession> {
    if (!isProbed(request.device)) await probeElsewhere(request.device);
    const place = locateForWork(request.device);
    await openPlace(place);
    const graph = await withoutSubnormals(await loadOnnx(model, request.externalData));
    const outputNames = graph.outputs.map(({ name }) => name);
    const resident = residentOutputs(request.outputLocations, outputNames, place);
    await requireOperators(graph);
    const shared = makeShared(graph, place, request, { resident, fallback });
    const session = new InferenceSession(new Loaded(graph, place, request, shared));
    const dims = fixedDims(session.#graph, session.#options.freeDimensions);
    if (dims !== undefined) await session.#prepareAhead(dims);
    return session;
  }

  /**
   * Runs the network without holding up the event loop, and returns all outputs: on other threads, or, where its last run
   * for these dims took no more than three milliseconds and runs come one by one, on this one. Feeds are read in place:
   * neither write to them nor dispose them before the promise settles. On a GPU, those in CPU memory are copied there;
   * tensors on that GPU are not brought to CPU memory on the way.
   *
   * Outputs are new tensors in CPU memory or, where `preferredOutputLocation` says `'gpu-buffer'`, on the session's GPU. When
   * the promise resolves they are complete, for every session. They have memory of their own, which outlives the session: it
   * is freed by `dispose()` or, later, by the collector. So sessions follow each other on a GPU:
   *
   *     const options = { device: 'cuda', preferredOutputLocation: 'gpu-buffer' };
   *     const encoder = await InferenceSession.create('encoder.onnx', options);
   *     const decoder = await InferenceSession.create('decoder.onnx', { device: 'cuda' });
   *     const { features } = await encoder.run({ image });
   *     const { scores } = await decoder.run({ features });
   *     features.dispose();
   *
   * @param feeds - a tensor for each input, by name
   * @throws {@link WarpconvError}, as a rejection: `ERR_WARPCONV_INVALID_ARGUMENT` naming the feed,
   * `ERR_WARPCONV_INVALID_MODEL` or `ERR_WARPCONV_UNSUPPORTED` where the network cannot take these dims,
   * `ERR_WARPCONV_ABORTED`, `ERR_WARPCONV_DISPOSED`, `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  run(feeds: Readonly<Record<string, TensorLike>>, options?: RunOptions): Promise<Record<string, Tensor>>;
  /**
   * As above, for some of the outputs. What is returned has the very tensors that were brought for them. After a run that
   * fails they may hold anything.
   *
   * @param fetches - the names of the outputs that are wanted, or for each a tensor to write it into, or null for a new
   * one. Such a tensor is in CPU memory, over an ordinary `ArrayBuffer`, or on the session's GPU, and shares no memory with
   * feeds, with other outputs, or with what another run uses that has not ended: each such run is refused
   */
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: readonly string[] | Readonly<Record<string, Tensor | null>>,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(...args: [feeds: unknown, ...rest: unknown[]]): Promise<Record<string, Tensor>> {
    const request = readRunArguments(args, this.outputNames, this.#shared.resident);
    const inputs = this.#readFeeds(request);
    this.#requireLive();
    const own = () => this.#runWith(inputs, request);
    if (this.#fallback === undefined) return this.#track(own());
    return this.#track(this.#fallback.run(own, (other) => this.#runElsewhere(other, inputs, request)));
  }

  /**
   * As {@link InferenceSession.run}, for inputs that come in parts: each feed is a list of tensors in CPU memory, which are
   * taken as one under the other along dimension 0. They are put together off the event loop; on a GPU, by the copies that
   * bring them there.
   *
   * @param feeds - for each input, by name, tensors whose dims differ in dimension 0 alone
   * @throws {@link WarpconvError}, as a rejection, with the codes of {@link InferenceSession.run}
   */
  async runJoined(
    feeds: Readonly<Record<string, readonly TensorLike[]>>,
    ...rest:
      | [options?: RunOptions]
      | [fetches: readonly string[] | Readonly<Record<string, Tensor | null>>, options?: RunOptions]
  ): Promise<Record<string, Tensor>> {
    const request = readRunArguments([feeds, ...rest], this.outputNames, this.#shared.resident);
    const inputs = this.#graph.inputs.map((info) => readJoinedFeed(info, request.feeds, this.#place));
    this.#requireOwn('runJoined()');
    return this.#track(this.#runWith(inputs, request));
  }

  /**
   * As {@link InferenceSession.run}, on the calling thread: for scripts and workers. It compiles nothing: the network must
   * have been compiled for these dims, by `create` where the model fixes them all, or by an earlier `run`. A signal that
   * is already aborted throws; later it cannot be noticed.
   *
   * @throws {@link WarpconvError} with the codes of {@link InferenceSession.run}; `ERR_WARPCONV_UNSUPPORTED` for dims that
   * the network was not compiled for
   */
  runSync(feeds: Readonly<Record<string, TensorLike>>, options?: RunOptions): Record<string, Tensor>;
  /** As above, for some of the outputs; see {@link InferenceSession.run}. */
  runSync(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: readonly string[] | Readonly<Record<string, Tensor | null>>,
    options?: RunOptions,
  ): Record<string, Tensor>;
  runSync(...args: [feeds: unknown, ...rest: unknown[]]): Record<string, Tensor> {
    const request = readRunArguments(args, this.outputNames, this.#shared.resident);
    const inputs = this.#readFeeds(request);
    this.#requireOwn('runSync()');
    return this.#runSyncWith(inputs, request);
  }

  #runSyncWith(inputs: readonly Feed[], request: RunArguments): Record<string, Tensor> {
    if (request.signal?.aborted) throw abortedBy(request.signal);
    if (this.#split !== undefined) return this.#split.runSync(inputs, request);
    this.#requireConsistent(inputs);
    const prepared = this.#programs.get(this.#form + this.#binder.keyOf(inputs));
    if (prepared === undefined) throw notCompiled(inputs);
    this.#programs.begin(prepared);
    try {
      const outputs = new RunOutputs(prepared.compiled, inputs, request, this.#place);
      try {
        callNative(() => prepared.native.runSync(elementsOf(inputs), outputs.elements));
        return outputs.finish();
      } catch (error) {
        outputs.abandon();
        throw error;
      }
    } finally {
      this.#programs.end(prepared);
    }
  }

  /**
   * What is compiled for inputs of these dims: each step, what it computes, how and where. Of a network that runs in parts
   * these are the steps of the first part, followed by the nodes that only a run can compile, in their order.
   * {@link profile} takes elements and shows the steps of those nodes, too. Where the elements of a small input decide
   * shapes, explain() refuses, and profile() is needed.
   */
  async explain(inputDims?: Readonly<Record<string, readonly number[]>>): Promise<SessionExplanation> {
    this.#requireOwn('explain()');
    const dims =
      inputDims === undefined
        ? fixedDims(this.#graph, this.#options.freeDimensions)
        : this.#readInputDims(inputDims);
    const missing = this.inputNames.filter((name) => !dims?.has(name));
    if (dims === undefined || missing.length > 0) {
      throw invalid(`explain() needs the dims of ${missing.map((name) => `'${name}'`).join(', ')}`);
    }
    return this.#track(this.#explain(dims)).catch((error: unknown) => {
      throw error instanceof ValueNeeded
        ? undecided(error, '; profile(feeds) explains it, for such feeds')
        : error;
    });
  }

  /**
   * As {@link explain}, for these feeds, and with what each step took: the median of a few runs. A network that runs in
   * parts has the steps of one part after those of another; the body of a loop is measured in its first round.
   *
   * @param options - `runs`: how many; default 10
   */
  async profile(
    feeds: Readonly<Record<string, TensorLike>>,
    options: { readonly runs?: number } = {},
  ): Promise<SessionExplanation> {
    const request = readRunArguments([feeds], this.outputNames);
    const inputs = this.#readFeeds(request);
    const { runs } = readProperties('options', options, { runs: 10 });
    const count = checkInteger('options.runs', runs, { min: 1, max: MAX_INT32 });
    this.#requireOwn('profile()');
    return this.#track(this.#profile(inputs, count));
  }

  /** Records what each step of the runs takes from now on, which makes them slower. Again is harmless. */
  startProfiling(): void {
    this.#requireLive();
    this.#shared.profiling ??= new Profiling(this.#options.profileFilePrefix);
  }

  /**
   * Writes what was recorded since {@link startProfiling}, in the trace format of Chrome, into the working directory or
   * where `profileFilePrefix` says. What is still recorded when the session is released is written then.
   *
   * @returns the path of the file; `undefined` where nothing was recorded
   */
  endProfiling(): string | undefined {
    const { profiling } = this.#shared;
    this.#shared.profiling = undefined;
    return profiling?.write();
  }

  /**
   * Whether runs can be joined: whether one run, whose inputs are those of several along dimension 0, gives each of them
   * the rows of the outputs that it would get by itself, up to rounding. True only where each step of the network is
   * proved to keep rows apart, and to compute the same of a row in the joined run as alone. The proof runs on the calling
   * thread, once for each new number of rows: it takes a small part of the time that compiling the network takes.
   *
   * @param inputDims - the dims of every input, by name, of any of the runs
   * @param rows - dimension 0 of all inputs in each of the runs
   */
  canJoin(inputDims: Readonly<Record<string, readonly number[]>>, rows: readonly number[]): boolean {
    this.#requireLive();
    if (!isObject(inputDims)) throw mismatch('inputDims', 'an object of dims by input', inputDims);
    const range = { min: 1, max: MAX_INT32 } as const;
    const counts = checkIntegers('rows', rows, 'any', range, 'a list of numbers of rows');
    const dims = this.#graph.inputs.map(({ name, shape }) => {
      const given = Object.hasOwn(inputDims, name) ? inputDims[name] : undefined;
      return readDims(`inputDims.${name}`, given, shape);
    });
    if (counts.length < 2) return true;
    if (this.#fallback?.taken !== undefined) return false;
    const total = counts.reduce((sum, count) => sum + count, 0);
    const joined = this.#rowFunction(dims, total);
    return joined !== undefined && counts.every((count) => this.#rowFunction(dims, count) === joined);
  }

  /**
   * The same network, which takes one of its inputs as images of 8 bits: feeds of that name are then `uint8` tensors in the
   * layout of the options, and their elements become numbers where the network runs. The session that is returned shares
   * weights, memory and the cache of shapes with this one, and ends with it.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT`
   */
  forImages(options: ImageOptions = {}): InferenceSession {
    this.#requireOwn('forImages()');
    if (this.#form !== '') throw invalid('this session takes images already; call the one it was made from');
    const form = readImageOptions('options', options, this.#graph);
    const graph = withImages(this.#graph, form);
    const name = `image ${JSON.stringify([form.input, form.layout, form.factors.join(), form.summands.join()])};`;
    return new InferenceSession(new Loaded(graph, this.#place, this.#options, this.#shared, name));
  }

  /**
   * Lets another thread of this process use the session, by `SharedSession.open(port)` there: weights and programs stay
   * here, once, and runs are done here.
   *
   * @returns a port for one thread, to be transferred to it; one that is not has to be closed
   */
  share(): MessagePort {
    this.#requireOwn('share()');
    const { port1, port2 } = new MessageChannel();
    const { inputs, outputs } = this.#graph;
    const run: Shareable['run'] = async (feeds, fetches, signal) => {
      this.#requireLive();
      const names = fetches && new Map(fetches.map((name) => [name, null]));
      return this.#track(
        this.#runWith(feeds, { feeds: {}, fetches: names, resident: NONE_RESIDENT, signal }),
      );
    };
    const sharing = new SharingOwner(port1, { inputs, outputs, device: this.device, run }, () =>
      this.#shared.sharings.delete(sharing),
    );
    this.#shared.sharings.set(sharing, this);
    return port2;
  }

  /**
   * Ends the session: later runs reject with `ERR_WARPCONV_DISPOSED`. Resolves when the running ones have ended. A profile
   * that cannot be written then is a warning, `WARPCONV_PROFILE_LOST`.
   */
  async release(): Promise<void> {
    this.#isReleased = true;
    const isWhole = this.#form === '';
    if (isWhole) this.#shared.isReleased = true;
    await Promise.allSettled(this.#shared.running);
    const sharings = [...this.#shared.sharings].filter(([, session]) => isWhole || session === this);
    await Promise.all(sharings.map(([sharing]) => sharing.close()));
    if (!isWhole) return;
    this.#programs.clear();
    writeOrWarn(() => this.endProfiling());
    await this.#fallback?.release();
  }

  /** As {@link InferenceSession.release}, without waiting. */
  dispose(): void {
    void this.release();
  }

  /** As {@link InferenceSession.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** As {@link InferenceSession.release}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Of the whole network: its other forms are run here or not at all. */
  get #fallback(): Fallback | undefined {
    return this.#form === '' ? this.#shared.fallback : undefined;
  }

  async #runElsewhere(
    other: OtherSession,
    inputs: readonly Feed[],
    request: RunArguments,
  ): Promise<Record<string, Tensor>> {
    if (request.signal?.aborted) throw abortedBy(request.signal);
    return runElsewhere(other, inputs, request);
  }

  #readFeeds({ feeds }: RunArguments): Feed[] {
    return this.#graph.inputs.map((info) => readFeed(info, feeds, this.#place));
  }

  #readInputDims(inputDims: unknown): Map<string, readonly number[]> {
    const none = Object.fromEntries(this.inputNames.map((name) => [name, undefined]));
    const given = readProperties('inputDims', inputDims, none);
    const dims = this.#graph.inputs
      .filter(({ name }) => given[name] !== undefined)
      .map(({ name, shape }) => [name, readDims(`inputDims.${name}`, given[name], shape)] as const);
    return new Map(dims);
  }

  async #track<T>(call: Promise<T>): Promise<T> {
    this.#shared.running.add(call);
    try {
      return await call;
    } finally {
      this.#shared.running.delete(call);
    }
  }

  async #runWith(inputs: readonly Feed[], request: RunArguments): Promise<Record<string, Tensor>> {
    try {
      return await (this.#split?.run(inputs, request) ?? this.#runWhole(inputs, request));
    } catch (error) {
      if (!(error instanceof ValueNeeded)) throw withChoice(error, this.#options);
      return await this.#splitAt(error).run(inputs, request);
    }
  }

  /** In parts from now on. */
  #splitAt(error: ValueNeeded): SplitNetwork {
    this.#split ??= SplitNetwork.at(this.#graph, error, (graph, name) => this.#partOf(graph, name));
    if (this.#split === undefined) throw undecided(error);
    return this.#split;
  }

  #partOf(graph: Graph, name: string): Part {
    const form = `${this.#form}${name};`;
    const part = new InferenceSession(new Loaded(graph, this.#place, this.#options, this.#shared, form));
    return {
      run: (inputs, request) => part.#runWith(inputs, request),
      runSync: (inputs, request) => part.#runSyncWith(inputs, request),
      explain: (dims) => part.#explain(new Map(graph.inputs.map(({ name }) => [name, dims.get(name)!]))),
      profile: (inputs, runs) => part.#profile(inputs, runs),
    };
  }

  async #explain(dims: Bindings['dims']): Promise<SessionExplanation> {
    const whole = () => this.#use(this.#holdForDims(dims), (prepared) => this.#explainProgram(prepared));
    try {
      return await (this.#split?.explain(this.device, this.#precision, dims) ?? whole());
    } catch (error) {
      // Elements that a run brings would be compiled in.
      if (!(error instanceof ValueNeeded) || this.#binder.canDecide(error, dims)) throw error;
      return await this.#splitAt(error).explain(this.device, this.#precision, dims);
    }
  }

  #explainProgram({ compiled, native }: Prepared): SessionExplanation {
    return explainProgram(
      this.device,
      compiled,
      callNative(() => native.choices()),
    );
  }

  async #profile(inputs: readonly Feed[], runs: number): Promise<SessionExplanation> {
    const whole = () => this.#useFor(inputs, (prepared) => this.#profileWith(prepared, inputs, runs));
    try {
      return await (this.#split?.profile(inputs, runs) ?? whole());
    } catch (error) {
      if (!(error instanceof ValueNeeded)) throw error;
      return await this.#splitAt(error).profile(inputs, runs);
    }
  }

  #runWhole(inputs: readonly Feed[], request: RunArguments): Promise<Record<string, Tensor>> {
    const { signal } = request;
    const work = async (prepared: Prepared) => {
      // It may have been there already, and on a GPU what is launched is not stopped.
      if (signal?.aborted) throw abortedBy(signal);
      return this.#runInto(prepared, inputs, request, (outputs) =>
        this.#execute(prepared, inputs, outputs, signal),
      );
    };
    return this.#useFor(inputs, work, signal);
  }

  /** What `execute` has written, which gets the memory of a run. */
  async #runInto(
    prepared: Prepared,
    inputs: readonly Feed[],
    request: RunArguments,
    execute: (outputs: readonly NativeOutput[]) => Promise<void>,
  ): Promise<Record<string, Tensor>> {
    this.#programs.begin(prepared);
    try {
      const outputs = new RunOutputs(prepared.compiled, inputs, request, this.#place);
      try {
        await execute(outputs.elements);
        return outputs.finish();
      } catch (error) {
        outputs.abandon();
        throw error;
      }
    } finally {
      this.#programs.end(prepared);
    }
  }

  async #profileWith(prepared: Prepared, inputs: readonly Feed[], runs: number): Promise<SessionExplanation> {
    const times: number[][] = prepared.compiled.steps.map(() => []);
    for (let run = 0; run < runs; run++) {
      const taken: number[] = [];
      await this.#runInto(prepared, inputs, ALL_OUTPUTS, (outputs) =>
        this.#start(prepared, inputs, outputs, taken),
      );
      taken.forEach((milliseconds, step) => times[step]!.push(milliseconds));
    }
    const explanation = this.#explainProgram(prepared);
    const steps = explanation.steps.map((step, i) => ({ ...step, milliseconds: medianOf(times[i]!) }));
    return { ...explanation, steps };
  }

  async #execute(
    prepared: Prepared,
    inputs: readonly Feed[],
    outputs: readonly NativeOutput[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { profiling } = this.#shared;
    if (profiling !== undefined) {
      const taken: number[] = [];
      await this.#start(prepared, inputs, outputs, taken, signal);
      profiling.add(prepared.compiled.steps, taken);
      return;
    }
    const here = await this.#onLoop(prepared.lastRun, () => {
      if (signal?.aborted) throw abortedBy(signal);
      callNative(() => prepared.native.runSync(elementsOf(inputs), outputs));
    });
    prepared.lastRun = here ?? (await this.#startTimed(prepared, inputs, outputs, signal));
  }

  #onLoop(milliseconds: number, work: () => void): Promise<number | undefined> {
    if (this.#place === 'cpu') return runOnLoop(milliseconds, work);
    return waitOnLoop(milliseconds, this.#shared.running.size > 1, work);
  }

  /** Gives the milliseconds that it took. */
  async #startTimed(
    prepared: Prepared,
    inputs: readonly Feed[],
    outputs: readonly NativeOutput[],
    signal: AbortSignal | undefined,
  ): Promise<number> {
    if (this.#place === 'cpu') {
      const steps: number[] = [];
      await this.#start(prepared, inputs, outputs, steps, signal);
      return steps.reduce((sum, milliseconds) => sum + milliseconds, 0);
    }
    // On a GPU, steps that are timed wait for each other.
    const begun = performance.now();
    await this.#start(prepared, inputs, outputs, null, signal);
    waitedElsewhere();
    return performance.now() - begun;
  }

  #start(
    { native }: Prepared,
    inputs: readonly Feed[],
    outputs: readonly NativeOutput[],
    milliseconds: number[] | null,
    signal?: AbortSignal,
  ): Promise<void> {
    return callNativeAsync((done) => native.run(elementsOf(inputs), outputs, milliseconds, done), signal);
  }

  /** With the elements of those inputs compiled in that turn out to decide shapes. */
  async #useFor<T>(
    inputs: readonly Feed[],
    work: (prepared: Prepared) => T | Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    this.#requireConsistent(inputs);
    for (;;) {
      const known = this.#binder.decidingCount;
      try {
        const program = this.#hold(this.#binder.keyOf(inputs), () => this.#binder.bind(inputs));
        return await this.#use(program, work, signal);
      } catch (error) {
        if (!(error instanceof ValueNeeded)) throw error;
        this.#binder.decide(error, inputs);
        // Another run may have found it while this one waited.
        if (this.#binder.decidingCount === known) throw error;
      }
    }
  }

  /** Works with a program that is held, and lets go of it. Who aborts while it is prepared leaves that to others. */
  async #use<T>(
    program: SharedProgram,
    work: (prepared: Prepared) => T | Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    try {
      return await work(await (program.now ?? unlessAborted(program.prepared, signal)));
    } finally {
      program.letGo();
    }
  }

  #requireConsistent(inputs: readonly Feed[]): void {
    if (this.#sharesDimensions) requireConsistent(this.#graph.inputs, inputs);
  }

  #holdForDims(dims: Bindings['dims']): SharedProgram {
    const bindings = { dims, constants: new Map() };
    return this.#hold(keyOf(bindings), () => bindings);
  }

  #hold(key: string, bind: () => Bindings): SharedProgram {
    return this.#programs.hold(this.#form + key, () => this.#compile(bind()));
  }

  async #compile(bindings: Bindings): Promise<Compiled> {
    const { algorithm } = this.#options;
    const compiled = await compile(
      this.#graph,
      bindings,
      algorithm,
      this.#constants,
      this.#chains,
      this.#precision,
    ).catch((error: unknown) => {
      throw withOpenDims(error, this.#shared.inputs, bindings.dims);
    });
    this.#warnOf(compiled);
    // While native code prepares what was compiled.
    void this.#chains?.learn();
    return { ...compiled, program: await this.#withAlgorithms(compiled.program) };
  }

  /** Once a session. */
  #warnOf({ tooLarge }: Compiled): void {
    if (tooLarge.length === 0 || this.#shared.isWarned) return;
    this.#shared.isWarned = true;
    warnOfTooLarge(tooLarge);
  }

  async #withAlgorithms(program: Compiled['program']): Promise<Compiled['program']> {
    const { algorithm, precision } = this.#options;
    if (algorithm !== 'tune') return program;
    return tuneProgram(program, { place: this.#place, precision, deterministic: false });
  }

  async #prepareAhead(dims: ReadonlyMap<string, readonly number[]>): Promise<void> {
    try {
      await this.#use(this.#holdForDims(dims), () => {});
    } catch (error) {
      // The first run brings what is missing.
      if (!(error instanceof ValueNeeded)) throw error;
    }
  }

  #rowFunction(dims: readonly (readonly number[])[], rows: number): string | undefined {
    const key = `${rows};${dims.map((extents) => extents.slice(1).join('x')).join(';')}`;
    const known = this.#rowFunctions.get(key) ?? { name: this.#findRowFunction(dims, rows) };
    this.#rowFunctions.set(key, known);
    return known.name;
  }

  #findRowFunction(dims: readonly (readonly number[])[], rows: number): string | undefined {
    const { inputs } = this.#graph;
    const inRows = dims.map((extents) => (extents.length === 0 ? [] : extents.with(0, rows)));
    const fits = inputs.every(({ shape }, i) => shape === undefined || fitsShape(inRows[i]!, shape));
    if (!fits || findConflict(inputs, inRows) !== undefined) return undefined;
    return rowFunction(
      this.#graph,
      new Map(inputs.map(({ name }, i) => [name, inRows[i]!])),
      this.#constants,
    );
  }

  #requireLive(): void {
    if (this.#isReleased || this.#shared.isReleased)
      throw new WarpconvError('ERR_WARPCONV_DISPOSED', 'the session has been released');
  }

  #requireOwn(call: string): void {
    this.#requireLive();
    if (this.#shared.fallback?.taken === undefined) return;
    const message = `${call} needs a model that this package runs, and this one is run by onnxruntime-node; use run()`;
    throw new WarpconvError('ERR_WARPCONV_UNSUPPORTED', message);
  }
}

/** onnxruntime-common's names of types. */
// eslint-disable-next-line @typescript-eslint/no-namespace -- they are in a namespace there
export declare namespace InferenceSession {
  /** Of {@link InferenceSession.create}. */
  export type SessionOptions = options.SessionOptions;
  /** Of {@link InferenceSession.run}. */
  export type RunOptions = options.RunOptions;
  /** What a model says of an input or output. */
  export type ValueMetadata = metadata.ValueMetadata;
  /** The same: every value is a tensor. */
  export type TensorValueMetadata = metadata.ValueMetadata;
  /** The inputs of a run. */
  export type FeedsType = Readonly<Record<string, TensorLike>>;
  /** The outputs that a run is to bring: their names, or where each is to be written. */
  export type FetchesType = readonly string[] | NullableOnnxValueMapType;
  /** Tensors by name. */
  export type OnnxValueMapType = Readonly<Record<string, Tensor>>;
  /** Tensors by name, or null for new ones. */
  export type NullableOnnxValueMapType = Readonly<Record<string, Tensor | null>>;
  /** The outputs of a run. */
  export type ReturnType = Record<string, Tensor>;
  /** A provider by its name. */
  export interface ExecutionProviderOption {
    readonly name: string;
  }
  /** The CPU. */
  export interface CpuExecutionProviderOption extends ExecutionProviderOption {
    readonly name: 'cpu';
    /** Taken, without effect */
    readonly useArena?: boolean;
  }
  /** A GPU. */
  export interface CudaExecutionProviderOption extends ExecutionProviderOption {
    readonly name: 'cuda';
    readonly deviceId?: number;
  }
  /** The options of the providers that there are here. */
  export interface ExecutionProviderOptionMap {
    readonly cpu: CpuExecutionProviderOption;
    readonly cuda: CudaExecutionProviderOption;
  }
  /** The providers that there are here. */
  export type ExecutionProviderName = keyof ExecutionProviderOptionMap;
  /** An element of `executionProviders`. */
  export type ExecutionProviderConfig =
    ExecutionProviderOptionMap[ExecutionProviderName] | ExecutionProviderOption | string;
}

function makeShared(
  graph: Graph,
  place: Place,
  request: SessionRequest,
  { resident, fallback }: Pick<Shared, 'resident' | 'fallback'>,
): Shared {
  return {
    inputs: graph.inputs,
    constants: new Constants(graph.constants.values()),
    programs: new Programs(place, request, resident),
    resident,
    running: new Set(),
    sharings: new Map(),
    isWarned: false,
    profiling: request.enableProfiling ? new Profiling(request.profileFilePrefix) : undefined,
    fallback,
    isReleased: false,
  };
}

/** The error; with who else may run a model that is not supported, where nobody chose. */
function withChoice(error: unknown, { fallback }: SessionRequest): unknown {
  if (fallback !== undefined) return error;
  return advised(error, "options.fallback 'onnxruntime' gives such a model to onnxruntime-node");
}

function notCompiled(inputs: readonly Feed[]): WarpconvError {
  return new WarpconvError(
    'ERR_WARPCONV_UNSUPPORTED',
    `runSync() compiles nothing, and the network has not been compiled for ${describeInputs(inputs)}; ` +
      'await run() with such inputs once',
  );
}

function medianOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

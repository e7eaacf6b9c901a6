/** Runs a model on what requests bring: one run at a time, joining what waits while the device is busy, where that pays. */
import { types } from 'node:util';

import { describe, elementCount, isObject } from '../check';
import { kindOf, type TypedArray } from '../typed_array';
import { BatchSizes, type KindSizes } from './batch_sizes';
import type { Cancellation } from './cancellation';
import { HEAP, type Held } from './memory';
import type { Model, ServedSession, ServedTensor, ValueSpec } from './model';
import type { Queue, RunResult } from './queue';
import { brokenSession, unavailable } from './refusal';
import type { InputTensor } from './request';
import type { OutputTensor } from './response';
import { nextTurn } from './timers';

/** How much is copied into a batch in one turn of the event loop: 0.6 ms into fresh memory, page faults included (Zen 4). */
const COPY_BYTES = 2 ** 20;

/**
 * How many answers are written in one turn of the event loop, of a batch of more. With 128 clients on the processors that
 * the server has, too, and 32 requests a batch, its 99th percentile was 7 to 10 ms with no limit, 5.2 with 16, 4.6 to 5.2
 * with 8, at as many answers a second; with 4 there were a third fewer (2 cores of Zen 4).
 */
const ANSWERS = 8;

interface Job {
  readonly inputs: ReadonlyMap<string, InputTensor>;
  readonly outputs: readonly ValueSpec[];
  readonly cancellation: Cancellation;
  readonly session: ServedSession;
  /** Extent of dimension 0; `Infinity` where the inputs have none in common. */
  readonly rows: number;
  /** All extents. Jobs of one kind can be joined: they take the same time, and their batches have few shapes. */
  readonly kind: string;
  /** When it was queued, by `performance.now()`. */
  readonly queued: number;
  /** Of the inputs; held until no run reads them. */
  readonly memory: Held;
  readonly resolve: (result: RunResult) => void;
  readonly reject: (error: Error) => void;
}

/** What the next run serves. */
interface Batch {
  readonly jobs: readonly Job[];
  /** Of jobs of which a run may join several. */
  readonly sizes: KindSizes | undefined;
}

export class Batcher implements Queue {
  #waiting: Job[] = [];
  #busy = false;
  readonly #sizes = new BatchSizes();

  /**
   * @param onRun - told after each run how many requests it served, and in how many milliseconds
   * @param onWaiting - told how many requests wait, whenever that changes
   */
  constructor(
    readonly model: Model,
    readonly maxQueue: number,
    readonly onRun: (requests: number, milliseconds: number) => void,
    readonly onWaiting: (requests: number) => void = () => {},
  ) {}

  get waiting(): number {
    return this.#waiting.length;
  }

  refuseIfFull(): void {
    refuseIfFull(this.model.name, this.waiting, this.maxQueue);
  }

  run(
    inputs: ReadonlyMap<string, InputTensor>,
    outputs: readonly ValueSpec[],
    cancellation: Cancellation,
    memory: Held = HEAP,
  ): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      cancellation.throwIfRequested();
      this.refuseIfFull();
      const queued = performance.now();
      // The spread comes last: V8 adds what follows one by one, which takes a microsecond each (Node.js 20).
      const kind = kindOfJob(this.model, inputs);
      const job = { inputs, outputs, cancellation, queued, memory, resolve, reject, ...kind };
      const leave = () => {
        const left = this.#waiting.filter((other) => other !== job);
        if (left.length < this.#waiting.length) memory.letGo();
        this.#setWaiting(left);
        reject(cancellation.reason);
      };
      cancellation.follow(leave);
      memory.hold();
      this.#waiting.push(job);
      this.onWaiting(this.waiting);
      if (!this.#busy) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      const started = performance.now();
      const turn = nextTurn();
      const { jobs, sizes } = this.#takeBatch();
      const isServed = await this.#serve(jobs);
      // A short run may be over before the event loop turns: what that still brings belongs to the next batch.
      await turn;
      if (isServed) sizes?.ran(jobs.length, performance.now() - started);
      else if (jobs.length > 1 && (await this.#serveEach(jobs))) sizes?.refused(jobs.length);
      jobs.forEach(({ memory }) => memory.letGo());
    }
    this.#busy = false;
  }

  /**
   * The job that has waited longest, with as many of its kind as it pays to join. A job may leave before an older one of
   * another kind, but no job waits for more runs than there are jobs before it.
   */
  #takeBatch(): Batch {
    const [first] = this.#waiting as [Job];
    const { kind, rows } = first;
    // A request of no rows counts as one of a row.
    const most = Math.floor(this.model.maxBatch / Math.max(rows, 1));
    if (most < 2) return { jobs: this.#take([first]), sizes: undefined };
    const sizes = this.#sizes.of(kind, most);
    const alike = this.#waiting.filter((job) => job.kind === kind);
    const size = sizes.choose(alike.length);
    const jobs = alike.slice(0, size);
    if (canJoin(this.model, jobs)) return { jobs: this.#take(jobs), sizes };
    sizes.refused(size);
    return { jobs: this.#take([first]), sizes };
  }

  #take(jobs: readonly Job[]): readonly Job[] {
    const taken = new Set(jobs);
    this.#setWaiting(this.#waiting.filter((job) => !taken.has(job)));
    return jobs;
  }

  #setWaiting(jobs: Job[]): void {
    this.#waiting = jobs;
    this.onWaiting(jobs.length);
  }

  /** @returns whether the run went well; where one of several jobs does not, they are still to be answered */
  async #serve(jobs: readonly Job[]): Promise<boolean> {
    const started = performance.now();
    try {
      const results = await this.#runTogether(jobs);
      const computed = performance.now() - started;
      for (const [index, { queued, resolve }] of jobs.entries()) {
        resolve({ tensors: results[index]!, waited: started - queued, computed });
        if (index % ANSWERS === ANSWERS - 1) await nextTurn();
      }
      return true;
    } catch (error) {
      if (jobs.length === 1) jobs[0]!.reject(error as Error);
      return false;
    }
  }

  /**
   * Runs each of the jobs of a failed run by itself, so that none fails for its neighbours' sake.
   *
   * @returns whether these runs went well: the fault was in joining them then
   */
  async #serveEach(jobs: readonly Job[]): Promise<boolean> {
    let [ran, failed] = [0, 0];
    for (const job of jobs) {
      if (job.cancellation.isRequested) continue;
      ran++;
      if (!(await this.#serve([job]))) failed++;
    }
    return ran > 0 && failed === 0;
  }

  async #runTogether(jobs: readonly Job[]): Promise<OutputTensor[][]> {
    const { outputs } = this.model;
    const wanted = outputs.filter((spec) => jobs.some((job) => job.outputs.includes(spec)));
    const names = wanted.map(({ name }) => name);
    const start = await this.#readyToRun(jobs, names);
    const results = await untilNobodyWaits(jobs, async (signal) => {
      const started = performance.now();
      try {
        return await start(signal);
      } finally {
        this.onRun(jobs.length, performance.now() - started);
      }
    });
    const tensors = new Map<ValueSpec, OutputTensor>();
    for (const spec of wanted) tensors.set(spec, await readOutput(spec, results));
    return split(jobs, tensors);
  }

  /** What starts a run of some jobs, their inputs gathered. */
  async #readyToRun(
    jobs: readonly Job[],
    names: readonly string[],
  ): Promise<(signal: AbortSignal) => ReturnType<ServedSession['run']>> {
    const { session } = jobs[0]!;
    if (session.runJoined !== undefined) {
      const feeds = await gather(this.model, jobs, (parts) => parts);
      return (signal) => session.runJoined!(feeds, names, { signal });
    }
    const feeds = await gather(this.model, jobs, join);
    return (signal) => session.run(feeds, names, { signal });
  }
}

/** @throws Refusal 503 where so many requests wait as may */
export function refuseIfFull(model: string, waiting: number, maxQueue: number): void {
  if (waiting < maxQueue) return;
  throw unavailable(`${maxQueue} requests are waiting for model '${model}'; try again later`);
}

/** The inputs of several jobs by their names. An input may have any name, so there is no prototype. */
async function gather<T>(
  { inputs }: Model,
  jobs: readonly Job[],
  take: (parts: readonly ServedTensor[]) => T | Promise<T>,
): Promise<Record<string, T>> {
  const feeds = Object.create(null) as Record<string, T>;
  for (const { name } of inputs)
    feeds[name] = await take(jobs.map((job) => ({ ...job.inputs.get(name)!, location: 'cpu' })));
  return feeds;
}

function canJoin({ inputs, needsProof }: Model, jobs: readonly Job[]): boolean {
  if (jobs.length === 1 || !needsProof) return true;
  // An input may have any name, `__proto__` too.
  const dims = Object.fromEntries(inputs.map(({ name }) => [name, jobs[0]!.inputs.get(name)!.dims]));
  try {
    const rows = jobs.map((job) => job.rows);
    const { session } = jobs[0]!;
    return session.canJoin!(dims, rows) === true;
  } catch {
    // What is wrong with the session its run will say.
    return false;
  }
}

function kindOfJob(
  model: Model,
  inputs: ReadonlyMap<string, InputTensor>,
): Pick<Job, 'session' | 'rows' | 'kind'> {
  const shapes = model.inputs.map(({ name }) => inputs.get(name)!.dims);
  const [rows = Infinity] = shapes[0] ?? [];
  const { image, imageSession, session } = model;
  const isImage = image !== undefined && inputs.get(image.spec.name)!.type === image.spec.datatype.type;
  return {
    session: isImage ? imageSession! : session,
    rows: shapes.every(([extent]) => extent === rows) ? rows : Infinity,
    kind: `${isImage ? 'image;' : ''}${shapes.map((dims) => dims.join()).join(';')}`,
  };
}

/** Puts tensors one under the other, along dimension 0. */
async function join(parts: readonly ServedTensor[]): Promise<ServedTensor> {
  const tensors = parts as readonly (ServedTensor & InputTensor)[];
  const [first] = tensors;
  const { type, dims, data } = first!;
  // Sessions of other packages need not take shared memory.
  if (tensors.length === 1)
    return types.isSharedArrayBuffer(data.buffer) ? { ...first!, data: data.slice() } : first!;
  const length = tensors.reduce((sum, tensor) => sum + tensor.data.length, 0);
  const joined = new (data.constructor as new (length: number) => Uint8Array)(length);
  let [offset, copied] = [0, 0];
  for (const tensor of tensors) {
    joined.set(tensor.data as Uint8Array, offset);
    offset += tensor.data.length;
    copied += tensor.data.byteLength;
    if (copied < COPY_BYTES) continue;
    await nextTurn();
    copied = 0;
  }
  const rows = tensors.reduce((sum, tensor) => sum + tensor.dims[0]!, 0);
  return { type, dims: [rows, ...dims.slice(1)], data: joined, location: 'cpu' };
}

/** Gives each job its rows, as views. */
function split(jobs: readonly Job[], tensors: ReadonlyMap<ValueSpec, OutputTensor>): OutputTensor[][] {
  if (jobs.length === 1) return [jobs[0]!.outputs.map((spec) => tensors.get(spec)!)];
  const rows = jobs.reduce((sum, job) => sum + job.rows, 0);
  for (const [{ name }, { dims }] of tensors) {
    if (dims[0] === rows) continue;
    throw brokenSession(`output '${name}' of ${rows} joined rows has dims ${describe(dims)}`);
  }
  let start = 0;
  return jobs.map((job) => {
    const begin = start;
    start += job.rows;
    return job.outputs.map((spec) => {
      const { dims, elements } = tensors.get(spec)!;
      const rest = dims.slice(1);
      const size = elementCount(rest);
      return { dims: [job.rows, ...rest], elements: elements.subarray(begin * size, start * size) };
    });
  });
}

/** Runs under a signal that aborts once all the jobs are cancelled. */
async function untilNobodyWaits<T>(
  jobs: readonly Job[],
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const onCancel = () => {
    if (jobs.every(({ cancellation }) => cancellation.isRequested))
      controller.abort(jobs[0]!.cancellation.reason);
  };
  // Some may have gone while their inputs were joined.
  onCancel();
  controller.signal.throwIfAborted();
  jobs.forEach(({ cancellation }) => cancellation.follow(onCancel));
  try {
    return await run(controller.signal);
  } finally {
    jobs.forEach(({ cancellation }) => cancellation.unfollow(onCancel));
  }
}

/** A list with holes passes `every`, but not by its elements one by one. */
function areDims(value: unknown): value is number[] {
  return (
    Array.isArray(value) && Array.from(value).every((extent) => Number.isSafeInteger(extent) && extent >= 0)
  );
}

async function readOutput(
  { name, datatype }: ValueSpec,
  results: Readonly<Record<string, unknown>>,
): Promise<OutputTensor> {
  const tensor = isObject(results) && Object.hasOwn(results, name) ? results[name] : undefined;
  if (!isObject(tensor)) throw brokenSession(`the session gave no output '${name}'`);
  const { type, dims, location = 'cpu' } = tensor as ServedTensor;
  const isHere = location === 'cpu' || location === 'cpu-pinned';
  const data = isHere ? (tensor as ServedTensor).data : await (tensor as ServedTensor).getData?.(true);
  (tensor as ServedTensor).dispose?.();
  if (type === datatype.type && areDims(dims) && kindOf(data) !== undefined) {
    const { buffer, byteOffset, byteLength } = data as TypedArray;
    const count = elementCount(dims);
    // A view of the kind that the rest takes: where there is a Float16Array, float16 may come as one.
    if (byteLength === count * datatype.bytes) {
      return { dims, elements: new datatype.Elements(buffer, byteOffset, count) };
    }
  }
  const got = `type ${describe(type)}, dims ${describe(dims)} and data ${describe(data)}`;
  throw brokenSession(`output '${name}' must be a tensor of type '${datatype.type}', got ${got}`);
}

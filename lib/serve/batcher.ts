/** Runs a model on what requests bring: one run at a time, joining what waits while the device is busy. */
import { describe, elementCount, isObject } from '../check';
import { kindOf, type TypedArray } from '../typed_array';
import type { Cancellation } from './cancellation';
import type { Model, ServedTensor, ValueSpec } from './model';
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
  /** Extent of dimension 0; `Infinity` where the inputs have none in common. */
  readonly rows: number;
  /** The other extents; jobs that agree in them can be joined. */
  readonly shape: string;
  /** When it was queued, by `performance.now()`. */
  readonly queued: number;
  readonly resolve: (result: RunResult) => void;
  readonly reject: (error: Error) => void;
}

/** What a run gave to one of its jobs. */
export interface RunResult {
  /** For each output that the job asked for. */
  readonly tensors: readonly OutputTensor[];
  /** Milliseconds in the queue. */
  readonly waited: number;
  /** Milliseconds of the run, of joining its inputs and of splitting its outputs. */
  readonly computed: number;
}

export class Batcher {
  #waiting: Job[] = [];
  #busy = false;

  /** @param onRun - told before each run how many requests it serves */
  constructor(
    readonly model: Model,
    readonly maxQueue: number,
    readonly onRun: (requests: number) => void,
  ) {}

  /** Requests that wait, those in the current run not counted. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** @throws Refusal 503 */
  refuseIfFull(): void {
    if (this.#waiting.length < this.maxQueue) return;
    throw unavailable(
      `${this.maxQueue} requests are waiting for model '${this.model.name}'; try again later`,
    );
  }

  /**
   * Queues a request.
   *
   * @param cancellation - takes the request out of the queue or, where it is running, leaves its result unused; either
   *   way the promise rejects at once with its reason
   * @returns with a tensor for each of `outputs`
   */
  run(
    inputs: ReadonlyMap<string, InputTensor>,
    outputs: readonly ValueSpec[],
    cancellation: Cancellation,
  ): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      cancellation.throwIfRequested();
      this.refuseIfFull();
      const queued = performance.now();
      // The spread comes last: V8 adds what follows one by one, which takes a microsecond each (Node.js 20).
      const extents = extentsOf(this.model, inputs);
      const job = { inputs, outputs, cancellation, queued, resolve, reject, ...extents };
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== job);
        reject(cancellation.reason);
      };
      cancellation.follow(leave);
      this.#waiting.push(job);
      if (!this.#busy) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      const turn = nextTurn();
      await this.#serve(this.#takeBatch());
      // A short run may be over before the event loop turns: what that still brings belongs to the next batch.
      await turn;
    }
    this.#busy = false;
  }

  /**
   * The job that has waited longest, with those that can be joined to it: with all of its shape that there is room for, or
   * with none. A job may leave before an older one of another shape, but no job waits for more runs than there are jobs
   * before it.
   */
  #takeBatch(): Job[] {
    const [first, ...others] = this.#waiting as [Job, ...Job[]];
    const batch = [first];
    let { rows } = first;
    for (const job of others) {
      if (job.shape !== first.shape || rows + job.rows > this.model.maxBatch) continue;
      batch.push(job);
      rows += job.rows;
    }
    const taken = new Set(canJoin(this.model, batch) ? batch : [first]);
    this.#waiting = this.#waiting.filter((job) => !taken.has(job));
    return [...taken];
  }

  /** Where a run of several fails each is run once by itself, so that none fails for its neighbours' sake. */
  async #serve(jobs: readonly Job[]): Promise<void> {
    const started = performance.now();
    try {
      const results = await this.#runTogether(jobs);
      const computed = performance.now() - started;
      for (const [index, { queued, resolve }] of jobs.entries()) {
        resolve({ tensors: results[index]!, waited: started - queued, computed });
        if (index % ANSWERS === ANSWERS - 1) await nextTurn();
      }
    } catch (error) {
      if (jobs.length === 1) return jobs[0]!.reject(error as Error);
      for (const job of jobs) if (!job.cancellation.isRequested) await this.#serve([job]);
    }
  }

  async #runTogether(jobs: readonly Job[]): Promise<OutputTensor[][]> {
    const { session, inputs, outputs } = this.model;
    // A null prototype, because an input may have any name.
    const feeds = Object.create(null) as Record<string, ServedTensor>;
    for (const { name } of inputs) feeds[name] = await join(jobs.map((job) => job.inputs.get(name)!));
    const wanted = outputs.filter((spec) => jobs.some((job) => job.outputs.includes(spec)));
    const results = await untilNobodyWaits(jobs, (signal) => {
      this.onRun(jobs.length);
      return session.run(
        feeds,
        wanted.map(({ name }) => name),
        { signal },
      );
    });
    const tensors = new Map<ValueSpec, OutputTensor>();
    for (const spec of wanted) tensors.set(spec, await readOutput(spec, results));
    return split(jobs, tensors);
  }
}

function canJoin({ session, inputs, needsProof }: Model, jobs: readonly Job[]): boolean {
  if (jobs.length === 1 || !needsProof) return true;
  // An input may have any name, `__proto__` too.
  const dims = Object.fromEntries(inputs.map(({ name }) => [name, jobs[0]!.inputs.get(name)!.dims]));
  try {
    const rows = jobs.map((job) => job.rows);
    return session.canJoin!(dims, rows) === true;
  } catch {
    // What is wrong with the session its run will say.
    return false;
  }
}

function extentsOf(model: Model, inputs: ReadonlyMap<string, InputTensor>): Pick<Job, 'rows' | 'shape'> {
  const shapes = model.inputs.map(({ name }) => inputs.get(name)!.dims);
  const [rows = Infinity] = shapes[0] ?? [];
  return {
    rows: shapes.every(([extent]) => extent === rows) ? rows : Infinity,
    shape: shapes.map((dims) => dims.slice(1).join()).join(';'),
  };
}

/** Puts tensors one under the other, along dimension 0. */
async function join(tensors: readonly InputTensor[]): Promise<ServedTensor> {
  const [first] = tensors;
  const { type, dims, data } = first!;
  if (tensors.length === 1) return { type, dims, data, location: 'cpu' };
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

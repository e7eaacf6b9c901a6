/**
 * Runs a model on what requests bring, joining what waits while devices are busy, where that pays. Each copy of the model
 * has one run at a time, or on a GPU a second one behind it, so that the GPU goes on while the answers of the first leave.
 */
import { runTogether } from './batch_run';
import { BatchSizes, type KindSizes } from './batch_sizes';
import type { Cancellation } from './cancellation';
import { unwatched, type Exchange } from './exchange';
import type { TraceContext } from './exchange_record';
import { GpuShares, type GpuShare } from './gpu_shares';
import { HEAP, type Held } from './memory';
import { bringsImage, type Model, type Replica, type ValueSpec } from './model';
import { USUAL_URGENCY, type Queue, type RunResult } from './queue';
import { unavailable } from './refusal';
import { ModelStatistics, type RunTimes } from './statistics';
import { nextTurn } from './timers';
import type { InputTensor } from './tensors';
import type { Tracing } from './tracing';

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
  /** Whether it brings an image in place of what the model takes itself. */
  readonly isImage: boolean;
  /** Extent of dimension 0; `Infinity` where the inputs have none in common. */
  readonly rows: number;
  /** All extents. Jobs of one kind can be joined: they take the same time, and their batches have few shapes. */
  readonly kind: string;
  /** From 0, which goes first, to 7 */
  readonly urgency: number;
  /** When it was queued, by `performance.now()`. */
  readonly queued: number;
  /** Of the inputs; held until no run reads them. */
  readonly memory: Held;
  readonly exchange: Exchange;
  /** Gives it up, once its cancellation is requested. */
  readonly leave: () => void;
  readonly resolve: (result: RunResult) => void;
  readonly reject: (error: Error) => void;
}

/** A copy of the model with its runs under way. */
interface Lane {
  readonly replica: Replica;
  /** Its own: another has compiled other shapes by now, and may be another GPU. */
  readonly sizes: BatchSizes;
  /** Of a GPU that other models use, too */
  readonly share: GpuShare | undefined;
  running: number;
  /** When the latest of its runs that have ended did, by `performance.now()` */
  ended: number;
}

/** What the next run serves. */
interface Batch {
  readonly jobs: readonly Job[];
  /** Of jobs of which a run may join several. */
  readonly sizes: KindSizes | undefined;
}

export class Batcher implements Queue {
  readonly statistics = new ModelStatistics();
  #waiting: Job[] = [];
  readonly #lanes: readonly Lane[];
  readonly #shares: readonly GpuShare[];

  /**
   * @param onRun - told after each run how many requests it served, and in how many milliseconds
   * @param onWaiting - told how many requests wait, whenever that changes
   */
  constructor(
    readonly model: Model,
    readonly maxQueue: number,
    readonly onRun: (requests: number, milliseconds: number) => void,
    readonly onWaiting: (requests: number) => void = () => {},
    gpus = new GpuShares(),
    readonly tracing?: Tracing,
  ) {
    const devices = new Set(gpusOf(model));
    const shares = new Map(
      [...devices].map((gpu) => [gpu, gpus.of(gpu, model.gpuShare, () => this.#startRuns())]),
    );
    this.#lanes = model.replicas.map((replica) => {
      const share = shares.get(replica.gpu ?? '');
      return {
        replica,
        share,
        sizes: new BatchSizes(replica.gpu === undefined ? 'cpu' : 'gpu'),
        running: 0,
        ended: -Infinity,
      };
    });
    this.#shares = [...shares.values()];
  }

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
    urgency = USUAL_URGENCY,
    exchange = unwatched(),
  ): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      cancellation.throwIfRequested();
      this.refuseIfFull();
      const queued = performance.now();
      // The spread comes last: V8 adds what follows one by one, which takes a microsecond each (Node.js 20).
      const kind = kindOfJob(this.model, inputs);
      const leave = () => {
        const left = this.#waiting.filter((other) => other !== job);
        if (left.length < this.#waiting.length) memory.letGo();
        this.#setWaiting(left);
        this.statistics.failed(performance.now() - queued);
        reject(cancellation.reason);
      };
      const rest = { urgency, queued, memory, exchange, leave, resolve, reject };
      const job = { inputs, outputs, cancellation, ...rest, ...kind };
      cancellation.follow(leave);
      memory.hold();
      const behind = this.#waiting.findIndex((other) => other.urgency > urgency);
      this.#waiting.splice(behind < 0 ? this.#waiting.length : behind, 0, job);
      this.onWaiting(this.waiting);
      this.#startRuns();
    });
  }

  /** Leaves the GPUs to other models: nothing is queued any more. */
  close(): void {
    for (const share of this.#shares) share.leave();
  }

  /** Begins what runs can begin now. */
  #startRuns(): void {
    while (this.#waiting.length > 0) {
      const lane = this.#freeLane();
      const batch = lane && this.#takeBatch(lane, lane.running > 0);
      if (batch === undefined) break;
      void this.#run(lane!, batch);
    }
    for (const share of this.#shares) share.isWaiting = this.#waiting.length > 0;
  }

  #freeLane(): Lane | undefined {
    const lanes =
      this.#shares.length === 0 ? this.#lanes : this.#lanes.filter(({ share }) => share?.mayBegin() ?? true);
    return (
      lanes.find(({ running }) => running === 0) ??
      lanes.find(({ replica, running }) => replica.gpu !== undefined && running === 1)
    );
  }

  async #run(lane: Lane, { jobs, sizes }: Batch): Promise<void> {
    lane.running++;
    lane.share?.begin();
    const begun = performance.now();
    const turn = nextTurn();
    const outcome = await this.#compute(lane.replica, jobs);
    const failedTogether = !outcome.isDone && jobs.length > 1;
    if (failedTogether && (await this.#runEach(lane.replica, jobs))) sizes?.refused(jobs.length);
    jobs.forEach(({ memory }) => memory.letGo());
    const answers = async () => failedTogether || (await this.#answer(jobs, outcome));
    // Elsewhere runs need the processors that write answers.
    const isOnGpu = lane.replica.gpu !== undefined;
    if (!isOnGpu) await answers();
    // A short run may be over before the event loop turns: what that still brings belongs to the next batch.
    await turn;
    const ended = performance.now();
    if (outcome.isDone) sizes?.ran(jobs.length, ended - Math.max(begun, lane.ended));
    lane.ended = ended;
    lane.running--;
    lane.share?.end();
    this.#startRuns();
    lane.share?.yield();
    if (isOnGpu) await answers();
  }

  /**
   * The most urgent job, the oldest of several, with as many of its kind as it pays to join. A job may leave before an
   * older one of another kind. No job waits for more runs than there are jobs before it.
   *
   * @param isSecond - whether there is a run before it on the same device: then only as many as need not wait for more
   */
  #takeBatch(lane: Lane, isSecond: boolean): Batch | undefined {
    const [first] = this.#waiting as [Job];
    const { kind, rows } = first;
    // A request of no rows counts as one of a row.
    const most = Math.floor(this.model.maxBatch / Math.max(rows, 1));
    if (most < 2) return { jobs: this.#take([first]), sizes: undefined };
    const sizes = lane.sizes.of(kind, most);
    const alike = this.#waiting.filter((job) => job.kind === kind);
    const size = sizes.choose(alike.length);
    if (isSecond && 2 * size > alike.length && 2 * size <= most) return undefined;
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

  async #compute(replica: Replica, jobs: readonly Job[]): Promise<Outcome> {
    const begun = performance.now();
    const [first] = jobs;
    const session = first!.isImage ? replica.imageSession! : replica.session;
    let [started, ended] = [begun, begun];
    const onRun = (...run: [number, number]) => {
      [started, ended] = run;
      this.onRun(jobs.length, ended - started);
    };
    const run = () => runTogether(this.model, session, jobs, onRun);
    try {
      const { result: results, trace } = await this.#traced(jobs, run);
      return { isDone: true, results, times: { begun, started, ended, done: performance.now() }, trace };
    } catch (error) {
      return { isDone: false, error: error as Error };
    }
  }

  async #traced<T>(
    jobs: readonly Job[],
    run: () => Promise<T>,
  ): Promise<{ readonly result: T; readonly trace: TraceContext | undefined }> {
    if (this.tracing === undefined) return { result: await run(), trace: undefined };
    const requests = jobs.map(({ exchange }) => exchange.context);
    return this.tracing.run(this.model.name, requests, run);
  }

  /**
   * Runs each of the jobs of a failed run by itself, so that none fails for its neighbours' sake.
   *
   * @returns whether these runs went well: the fault was in joining them then
   */
  async #runEach(replica: Replica, jobs: readonly Job[]): Promise<boolean> {
    let [ran, failed] = [0, 0];
    for (const job of jobs) {
      if (job.cancellation.isRequested) continue;
      ran++;
      const outcome = await this.#compute(replica, [job]);
      if (!outcome.isDone) failed++;
      await this.#answer([job], outcome);
    }
    return ran > 0 && failed === 0;
  }

  async #answer(jobs: readonly Job[], outcome: Outcome): Promise<void> {
    const left = jobs.filter(({ cancellation }) => !cancellation.isRequested);
    // A client that goes away from here on has got its answer.
    for (const { cancellation, leave } of left) cancellation.unfollow(leave);
    if (outcome.isDone) {
      this.statistics.ran(left, this.#inferencesOf(left), outcome.times);
      return answer(jobs, outcome);
    }
    for (const { queued } of left) this.statistics.failed(performance.now() - queued);
    for (const { reject } of jobs) reject(outcome.error);
  }

  /** Rows, where requests can be joined by them. */
  #inferencesOf(jobs: readonly Job[]): number {
    if (this.model.maxBatch === 1) return jobs.length;
    return jobs.reduce((sum, { rows }) => sum + (Number.isFinite(rows) ? rows : 1), 0);
  }
}

/** What a run gave, or why it did not. */
type Outcome =
  | {
      readonly isDone: true;
      /** For each job */
      readonly results: readonly RunResult['tensors'][];
      readonly times: RunTimes;
      /** As in {@link RunResult} */
      readonly trace: TraceContext | undefined;
    }
  | { readonly isDone: false; readonly error: Error };

async function answer(
  jobs: readonly Job[],
  { results, times: { begun, done }, trace }: Extract<Outcome, { readonly isDone: true }>,
): Promise<void> {
  const computed = done - begun;
  const requests = jobs.length;
  for (const [index, { queued, resolve }] of jobs.entries()) {
    resolve({ tensors: results[index]!, waited: begun - queued, computed, requests, trace });
    if (index % ANSWERS === ANSWERS - 1) await nextTurn();
  }
}

/** The GPUs that run the model. */
export function gpusOf({ replicas }: Model): readonly string[] {
  return replicas.map(({ gpu }) => gpu).filter((gpu) => gpu !== undefined);
}

/** @throws Refusal 503 if the queue is full */
export function refuseIfFull(model: string, waiting: number, maxQueue: number): void {
  if (waiting < maxQueue) return;
  throw unavailable(`${maxQueue} requests are waiting for model '${model}'; try again later`);
}

function canJoin({ inputs, replicas, needsProof }: Model, jobs: readonly Job[]): boolean {
  if (jobs.length === 1 || !needsProof) return true;
  // An input may have any name, `__proto__` too.
  const dims = Object.fromEntries(inputs.map(({ name }) => [name, jobs[0]!.inputs.get(name)!.dims]));
  try {
    const rows = jobs.map((job) => job.rows);
    const { session, imageSession } = replicas[0]!;
    return (jobs[0]!.isImage ? imageSession! : session).canJoin!(dims, rows) === true;
  } catch {
    // What is wrong with the session its run will say.
    return false;
  }
}

function kindOfJob(
  model: Model,
  inputs: ReadonlyMap<string, InputTensor>,
): Pick<Job, 'isImage' | 'rows' | 'kind'> {
  const shapes = model.inputs.map(({ name }) => inputs.get(name)!.dims);
  const [rows = Infinity] = shapes[0] ?? [];
  const isImage = model.inputs.some(({ name }) => bringsImage(model.image, name, inputs.get(name)!.type));
  return {
    isImage,
    rows: shapes.every(([extent]) => extent === rows) ? rows : Infinity,
    kind: `${isImage ? 'image;' : ''}${shapes.map((dims) => dims.join()).join(';')}`,
  };
}

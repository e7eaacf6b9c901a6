/** A contestant of `npx warpconv bench`, in a process of its own: its memory and its threads are then its own, too. */
import { elementsOf, type PlannedInput } from './feeds';
import type { InferenceSession } from '../session/session';
import { decoded } from '../tensor/small_floats';
import type { DataType } from '../tensor/data_types';
import type { Place } from './model_options';

export interface OpenRequest {
  readonly call: 'open';
  readonly runtime: 'warpconv' | 'onnxruntime-node';
  readonly file: string;
  /** The other runtime computes in float32 on the CPU. */
  readonly place: Place;
  /** As many as the package takes by itself where undefined */
  readonly threads: number | undefined;
}

export interface FirstRequest {
  readonly call: 'first';
  readonly inputs: readonly PlannedInput[];
}

/** Runs for a while; the first of them is not among the times, since it finds the other's data in the caches. */
export interface TurnRequest {
  readonly call: 'turn';
  readonly milliseconds: number;
}

/** The first run of other dims, of the first inputs that the model takes. */
export interface NewShapeRequest {
  readonly call: 'newShape';
  readonly choices: readonly (readonly PlannedInput[])[];
}

export type BenchRequest = OpenRequest | FirstRequest | TurnRequest | NewShapeRequest;

export interface Opened {
  readonly version: string;
  readonly device: string;
  readonly threads: number;
  readonly loadMilliseconds: number;
  /** Of warpconv alone, which says what its inputs are */
  readonly inputMetadata: InferenceSession['inputMetadata'];
  readonly unrankedInputs: readonly string[];
}

export interface Output {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint>;
}

export interface First {
  readonly milliseconds: number;
  readonly outputs: Readonly<Record<string, Output>>;
  /** By which the process has grown since before it had the runtime */
  readonly residentBytes: number;
  readonly gpuBytes: number | null;
}

export interface NewShape {
  readonly choice: number;
  readonly milliseconds: number;
}

export type BenchAnswer =
  | { readonly result: Opened | First | readonly number[] | NewShape | null }
  | { readonly failure: { readonly code: string | undefined; readonly message: string } };

type Feeds = Readonly<Record<string, never>>;

/** What is used of both runtimes. */
interface Session {
  run(feeds: Feeds): Promise<Readonly<Record<string, Output>>>;
}

interface Runtime {
  readonly session: Session;
  readonly tensor: (input: PlannedInput) => object;
  readonly gpuBytes: () => number | null;
}

const before = process.memoryUsage.rss();
let runtime: Runtime;
let feeds: Feeds;

process.on('message', (request: BenchRequest) => {
  void answer(request).then((message) => {
    if (process.connected) process.send!(message, exitIf);
  });
});
// The command has ended, by Ctrl+C for example.
process.on('disconnect', () => process.exit());

/** The command may end between two lines of this. */
function exitIf(error: Error | null): void {
  if (error !== null) process.exit();
}

async function answer(request: BenchRequest): Promise<BenchAnswer> {
  try {
    return { result: await work(request) };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { failure: { code, message } };
  }
}

function work(request: BenchRequest): Promise<Opened | First | number[] | NewShape | null> {
  switch (request.call) {
    case 'open':
      return request.runtime === 'warpconv' ? openOwn(request) : openOther(request);
    case 'first':
      return runFirst(request);
    case 'turn':
      return runTurn(request);
    case 'newShape':
      return runNewShape(request);
  }
}

async function openOwn({ file, place, threads }: OpenRequest): Promise<Opened> {
  const [{ InferenceSession }, { memory, setThreads, threads: ownThreads }, { Tensor }, { packageVersion }] =
    await Promise.all([
      import('../session/session.js'),
      import('../devices.js'),
      import('../tensor/tensor.js'),
      import('../load.js'),
    ]);
  if (threads !== undefined) setThreads(threads);
  const begun = performance.now();
  const session = await InferenceSession.create(file, place);
  const loadMilliseconds = performance.now() - begun;
  runtime = {
    session: session as unknown as Session,
    tensor: (input) => new Tensor(input.type, elementsOf(input) as never, input.dims),
    gpuBytes: () => memory().gpu[session.device] ?? null,
  };
  const { inputMetadata, unrankedInputs } = session;
  return {
    version: packageVersion(),
    device: session.device,
    threads: ownThreads(),
    loadMilliseconds,
    inputMetadata,
    unrankedInputs,
  };
}

/** What is used of onnxruntime-node. */
interface OnnxruntimeNode {
  readonly InferenceSession: { create(file: string, options: object): Promise<Session> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => object;
  readonly env: { readonly versions: { readonly node?: string; readonly common?: string } };
}

async function openOther({ file, threads }: OpenRequest): Promise<Opened> {
  const { onnxruntimeNode } = await import('../session/fallback.js');
  const other = onnxruntimeNode() as unknown as OnnxruntimeNode;
  const begun = performance.now();
  const session = await other.InferenceSession.create(file, {
    executionProviders: ['cpu'],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  const loadMilliseconds = performance.now() - begun;
  runtime = {
    session,
    tensor: (input) => new other.Tensor(input.type, elementsOf(input), input.dims),
    gpuBytes: () => null,
  };
  const { node, common } = other.env.versions;
  return {
    version: node ?? common ?? '',
    device: 'cpu',
    threads: threads ?? 0,
    loadMilliseconds,
    inputMetadata: [],
    unrankedInputs: [],
  };
}

function feedsOf(inputs: readonly PlannedInput[]): Feeds {
  return Object.fromEntries(inputs.map((input) => [input.name, runtime.tensor(input)])) as Feeds;
}

async function runFirst({ inputs }: FirstRequest): Promise<First> {
  feeds = feedsOf(inputs);
  const [milliseconds, made] = await timed(feeds);
  const residentBytes = process.memoryUsage.rss() - before;
  const outputs = Object.entries(made).map(([name, { type, dims, data }]) => [
    name,
    { type, dims, data: decoded(type as DataType, data) },
  ]);
  return {
    milliseconds,
    outputs: Object.fromEntries(outputs) as First['outputs'],
    residentBytes,
    gpuBytes: runtime.gpuBytes(),
  };
}

async function timed(
  given: Feeds,
): Promise<[milliseconds: number, outputs: Readonly<Record<string, Output>>]> {
  const begun = performance.now();
  const outputs = await runtime.session.run(given);
  return [performance.now() - begun, outputs];
}

async function runTurn({ milliseconds }: TurnRequest): Promise<number[]> {
  await runtime.session.run(feeds);
  const times: number[] = [];
  const end = performance.now() + milliseconds;
  do times.push((await timed(feeds))[0]);
  while (performance.now() < end);
  return times;
}

async function runNewShape({ choices }: NewShapeRequest): Promise<NewShape | null> {
  for (const [choice, inputs] of choices.entries()) {
    try {
      return { choice, milliseconds: (await timed(feedsOf(inputs)))[0] };
    } catch {
      // The model fixes by its nodes what its inputs leave open.
    }
  }
  return null;
}

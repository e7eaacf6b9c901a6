/**
 * One contender of bench/networks/main.ts on the CPU, in a process of its own, whose threads nobody else's disturb. Answers on
 * stdout what it is asked on stdin (LineProcess).
 */
import path from 'node:path';

import { InferenceSession, setThreads, Tensor } from 'warpconv';

import { takeTurn } from '../cpu/contenders';
import { answerLines } from '../line_process';
import { RIVALS } from '../rivals';
import { batchOf, errorOf, IMAGE_DIMS, TOLERANCE } from './files';

export const OURS = 'warpconv';
export const ASYNCHRONOUS = 'warpconv, run()';
/** SConv's baseline: the same program, its convolutions by im2col and OpenBLAS. Needs the addon of {@link BASE}. */
export const BASELINE = 'im2col + OpenBLAS';
export const RUNTIME = 'onnxruntime-node';

/** How many threads a contender has. By 'default' it is not told and chooses for itself. */
export type Threads = number | 'default';

export type TurnRequest =
  | { readonly do: 'load'; readonly name: string; readonly file: string; readonly threads: Threads }
  | { readonly do: 'turn'; readonly milliseconds: number };

/** `turn`: of one run */
export interface Turn {
  readonly milliseconds: number;
}

interface Output {
  readonly output?: { readonly data: unknown };
}

type Run = () => Output | Promise<Output>;

interface Runtime {
  readonly Tensor: new (type: string, data: Float32Array, dims: readonly number[]) => object;
  readonly InferenceSession: {
    create(file: string, options: object): Promise<{ run(feeds: object): Promise<Output> }>;
  };
}

const DIMS = [1, ...IMAGE_DIMS];

async function load({ name, file, threads }: TurnRequest & { do: 'load' }): Promise<Run> {
  const input = batchOf(file, 1);
  if (name === RUNTIME) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- a package of its own, which users never install
    const runtime = require(path.join(RIVALS, 'node_modules/onnxruntime-node')) as Runtime;
    const options = threads === 'default' ? {} : { intraOpNumThreads: threads, interOpNumThreads: 1 };
    const session = await runtime.InferenceSession.create(file, options);
    const feeds = { input: new runtime.Tensor('float32', input, DIMS) };
    return () => session.run(feeds);
  }
  if (threads !== 'default') setThreads(threads);
  const algorithm = name === BASELINE ? 'im2col' : 'auto';
  const session = await InferenceSession.create(file, { device: 'cpu', algorithm });
  const feeds = { input: new Tensor('float32', input, DIMS) };
  // Compiles for one image; runSync() does not.
  await session.run(feeds);
  return name === ASYNCHRONOUS ? () => session.run(feeds) : () => session.runSync(feeds);
}

let run: Run | undefined;

async function answer(request: TurnRequest): Promise<object> {
  if (request.do === 'load') {
    run = await load(request);
    const { output } = await run();
    const error = errorOf(request.file, 1, output!.data as Float32Array<ArrayBuffer>);
    if (error <= TOLERANCE.fp32) return { error };
    throw new Error(`${request.name} is off by ${error} of the largest output`);
  }
  if (run === undefined) throw new Error('no network is loaded');
  return { milliseconds: await takeTurn(run, request.milliseconds) } satisfies Turn;
}

if (require.main === module) void answerLines(answer, () => true);

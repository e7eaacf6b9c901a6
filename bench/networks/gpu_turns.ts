/**
 * Our side of bench/networks/main.ts on a GPU: InferenceSession on one network at a time. Answers on stdout what it is asked on
 * stdin (LineProcess), in a process of its own, which a kernel that goes astray takes with it.
 */
import { Conv2d, InferenceSession, Tensor, type Device } from 'warpconv';

import type { Precision } from '../../lib/conv2d/names';
import { answerLines } from '../line_process';
import { batchOf, errorOf, IMAGE_DIMS, TOLERANCE } from './files';
import { median } from '../statistics';

export type TurnRequest =
  | {
      readonly do: 'load';
      readonly model: string;
      readonly batch: number;
      readonly device: Device;
      readonly precision: Precision;
    }
  | { readonly do: 'turn'; readonly milliseconds: number; readonly cold: boolean }
  | { readonly do: 'profile' };

/** `load`: the network is on the device, and what it computes is right. */
export interface Loaded {
  /** Of the largest output */
  readonly error: number;
}

/**
 * `turn`: milliseconds of one call of run() after the other, until the outputs are in CPU memory, or on the GPU; and of calls
 * after the L2 cache was overwritten, the median of them.
 */
export interface Turn {
  readonly toCpu: number;
  readonly onGpu?: number;
  readonly onGpuCold?: number;
}

/** `profile`: milliseconds of the steps on the device, by kind and algorithm, each the median of ten runs. */
export interface Profile {
  readonly steps: Readonly<Record<string, number>>;
}

/** What the first run loads, the second captures. */
const WARM_UPS = 3;

class Subject {
  private constructor(
    private readonly session: InferenceSession,
    /** Leaves its outputs on the GPU; absent where there is none */
    private readonly resident: InferenceSession | undefined,
    private readonly input: Tensor,
  ) {}

  static async load(request: TurnRequest & { do: 'load' }): Promise<[Subject, Loaded]> {
    const { model, batch, device, precision } = request;
    const session = await InferenceSession.create(model, { device, precision });
    const resident =
      device === 'cpu'
        ? undefined
        : await InferenceSession.create(model, { device, precision, preferredOutputLocation: 'gpu-buffer' });
    const input = new Tensor(batchOf(model, batch), [batch, ...IMAGE_DIMS]);
    const subject = new Subject(session, resident, await input.to(device));
    for (let i = 1; i < WARM_UPS; i++) await subject.#run();
    const error = errorOf(model, batch, await subject.#run());
    if (error <= TOLERANCE[precision]) return [subject, { error }];
    throw new Error(`off by ${error} of the largest output`);
  }

  async turn(milliseconds: number, cold: boolean): Promise<Turn> {
    const toCpu = await oneByOne(() => this.#run(), milliseconds);
    const { resident } = this;
    if (resident === undefined) return { toCpu };
    const call = () => this.#runWithin(resident);
    const onGpu = await oneByOne(call, milliseconds);
    if (!cold) return { toCpu, onGpu };
    flush ??= await Flush.create(resident.device);
    return { toCpu, onGpu, onGpuCold: await afterFlushes(flush, call, milliseconds) };
  }

  async profile(): Promise<Profile> {
    const { steps } = await this.session.profile({ input: this.input });
    const sums: Record<string, number> = {};
    for (const { kind, algorithm, milliseconds } of steps) {
      const name = [kind, algorithm].join(' ').trim();
      sums[name] = (sums[name] ?? 0) + milliseconds!;
    }
    return { steps: sums };
  }

  async release(): Promise<void> {
    await this.session.release();
    await this.resident?.release();
    this.input.dispose();
  }

  async #run(): Promise<Float32Array> {
    const { output } = await this.session.run({ input: this.input });
    return output!.data as Float32Array;
  }

  async #runWithin(resident: InferenceSession): Promise<void> {
    const { output } = await resident.run({ input: this.input });
    output!.dispose();
  }
}

/** The mean time of a call in milliseconds. Calls follow each other; the first few are not counted. */
async function oneByOne(call: () => Promise<unknown>, milliseconds: number): Promise<number> {
  for (let i = 0; i < WARM_UPS; i++) await call();
  const begin = performance.now();
  for (let calls = 1; ; calls++) {
    await call();
    const taken = performance.now() - begin;
    if (taken >= milliseconds) return taken / calls;
  }
}

/** The median time of calls after the cache was overwritten. */
async function afterFlushes(
  flush: Flush,
  call: () => Promise<unknown>,
  milliseconds: number,
): Promise<number> {
  const samples: number[] = [];
  const end = performance.now() + milliseconds;
  while (samples.length === 0 || performance.now() < end) {
    await flush.run();
    const begin = performance.now();
    await call();
    samples.push(performance.now() - begin);
  }
  return median(samples);
}

/** Overwrites the L2 cache: a copy of several times as much, by a filter of one element. */
class Flush {
  static readonly #DIMS = [1, 1, 8192, 8192];

  private constructor(
    private readonly plan: Conv2d,
    private readonly input: Tensor,
    private readonly output: Tensor,
  ) {}

  static async create(device: string): Promise<Flush> {
    const elements = new Float32Array(Flush.#DIMS.reduce((product, extent) => product * extent, 1));
    const input = await new Tensor(elements, Flush.#DIMS).to(device as Device);
    const one = new Tensor(new Float32Array([1]), [1, 1, 1, 1]);
    const plan = await Conv2d.create(one, { inputDims: Flush.#DIMS, device: device as Device });
    return new Flush(plan, input, await plan.run(input));
  }

  async run(): Promise<void> {
    await this.plan.run(this.input, { output: this.output });
  }
}

let flush: Flush | undefined;
let subject: Subject | undefined;

async function answer(request: TurnRequest): Promise<Loaded | Turn | Profile> {
  if (request.do === 'load') {
    await subject?.release();
    subject = undefined;
    const [loaded, facts] = await Subject.load(request);
    subject = loaded;
    return facts;
  }
  if (subject === undefined) throw new Error('no network is loaded');
  return request.do === 'turn' ? subject.turn(request.milliseconds, request.cold) : subject.profile();
}

void answerLines(answer, (error) => error.message.includes('CUDA cannot be used in this process any more'));

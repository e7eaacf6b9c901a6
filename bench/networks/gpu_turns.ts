/**
 * Our side of bench/networks/main.ts on a GPU: InferenceSession on one network at a time. Answers on stdout what it is asked on
 * stdin (LineProcess), in a process of its own, which a kernel that goes astray takes with it.
 */
import { InferenceSession, Tensor, type Device } from 'warpconv';

import { answerLines } from '../line_process';
import { batchOf, errorOf, IMAGE_DIMS, TOLERANCE } from './files';

export type TurnRequest =
  | { readonly do: 'load'; readonly model: string; readonly batch: number; readonly device: Device }
  | { readonly do: 'turn'; readonly milliseconds: number }
  | { readonly do: 'profile' };

/** `load`: the network is on the device, and what it computes is right. */
export interface Loaded {
  /** Of the largest output */
  readonly error: number;
}

/** `turn`: milliseconds of one call of run() after the other, from the call until the outputs are in CPU memory. */
export interface Turn {
  readonly toCpu: number;
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
    private readonly input: Tensor,
  ) {}

  static async load({ model, batch, device }: TurnRequest & { do: 'load' }): Promise<[Subject, Loaded]> {
    const session = await InferenceSession.create(model, { device });
    const input = new Tensor(batchOf(model, batch), [batch, ...IMAGE_DIMS]);
    const subject = new Subject(session, await input.to(device));
    for (let i = 1; i < WARM_UPS; i++) await subject.#run();
    const error = errorOf(model, batch, await subject.#run());
    if (error <= TOLERANCE) return [subject, { error }];
    throw new Error(`off by ${error} of the largest output`);
  }

  async turn(milliseconds: number): Promise<Turn> {
    await this.#run();
    const begin = performance.now();
    for (let runs = 1; ; runs++) {
      await this.#run();
      const taken = performance.now() - begin;
      if (taken >= milliseconds) return { toCpu: taken / runs };
    }
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
    this.input.dispose();
  }

  async #run(): Promise<Float32Array> {
    const { output } = await this.session.run({ input: this.input });
    return output!.data as Float32Array;
  }
}

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
  return request.do === 'turn' ? subject.turn(request.milliseconds) : subject.profile();
}

void answerLines(answer, (error) => error.message.includes('CUDA cannot be used in this process any more'));

/**
 * Processes that decode images. In one process sharp's threads wait for each other: processes of their own gave three times
 * the answers (docs/experiments.md). An image that ends its decoder does not end the server.
 */
import { fork, type ChildProcess } from 'node:child_process';
import path from 'node:path';

import { LINGER_MS } from '../body';
import type { Cancellation } from '../cancellation';
import { Refusal } from '../refusal';
import { setTimeout } from '../timers';
import type { ImageDecoder, ImagePlan, Pixels } from './decoder';
import { loadSharp } from './sharp';

export interface Question {
  readonly id: number;
  readonly body: Buffer;
  readonly plan: ImagePlan;
}

export type Answer =
  | { readonly id: number; readonly pixels: Pixels }
  | {
      readonly id: number;
      readonly failure: string;
      /** Of the answer to the client, where it is not the image's fault */
      readonly status: number | undefined;
    };

/** One is decoded, and the next one is there when that is done. */
const IMAGES_AT_ONCE = 2;

/** A process that has not answered so long after nobody waited any more is stuck. */
const STUCK_MS = 5000;

interface Job {
  readonly body: Buffer;
  readonly plan: ImagePlan;
  readonly cancellation: Cancellation;
  readonly resolve: (pixels: Pixels) => void;
  readonly reject: (error: Error) => void;
}

class DecoderProcess {
  readonly #child: ChildProcess;
  readonly #jobs = new Map<number, Job>();
  #asked = 0;

  /**
   * @param onIdle - called when it can take another
   * @param onEnd - called when the process has ended
   */
  constructor(
    readonly onIdle: () => void,
    readonly onEnd: () => void,
  ) {
    this.#child = fork(path.join(__dirname, 'decoder_process.js'), {
      serialization: 'advanced',
      execArgv: [],
      // It does one thing at a time.
      env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child.on('message', (answer: Answer) => this.#settle(answer));
    this.#child.once('error', (error) => this.#end(error.message));
    this.#child.once('exit', (code, signal) => this.#end(signal ?? `exit code ${code}`));
    // A server that has closed does not wait for it.
    this.#child.unref();
    // It has none where it could not be started.
    this.#child.channel?.unref();
  }

  get jobs(): number {
    return this.#jobs.size;
  }

  take(job: Job): void {
    const id = this.#asked++;
    this.#jobs.set(id, job);
    const { body, plan, cancellation } = job;
    cancellation.follow(() => this.#killLater(STUCK_MS, () => this.#jobs.has(id)));
    // One that could not be started, or is about to end, says so soon.
    if (!this.#child.connected) return;
    this.#child.send({ id, body, plan } satisfies Question, (error) => {
      if (error !== null) this.#child.kill('SIGKILL');
    });
  }

  close(): void {
    if (this.#child.connected) this.#child.disconnect();
    // Only a thread that is still there takes note of its end.
    this.#child.ref();
    this.#killLater(LINGER_MS, () => true);
  }

  #killLater(milliseconds: number, isDue: () => boolean): void {
    setTimeout(() => isDue() && this.#child.kill('SIGKILL'), milliseconds).unref();
  }

  #settle(answer: Answer): void {
    const job = this.#jobs.get(answer.id)!;
    this.#jobs.delete(answer.id);
    if ('pixels' in answer) job.resolve(answer.pixels);
    else if (answer.status !== undefined) job.reject(new Refusal(answer.status, answer.failure));
    else job.reject(new Error(answer.failure));
    this.onIdle();
  }

  #end(how: string): void {
    for (const { reject } of this.#jobs.values())
      reject(new Refusal(500, `the process that decoded the image ended: ${how}`));
    this.#jobs.clear();
    this.onEnd();
  }
}

export class DecoderProcesses implements ImageDecoder {
  readonly #processes = new Set<DecoderProcess>();
  readonly #waiting = new Set<Job>();
  #isClosed = false;

  /** @param most - how many there may be; each is started when an image finds the others busy */
  constructor(readonly most: number) {}

  async decode(body: Buffer, plan: ImagePlan, cancellation: Cancellation): Promise<Pixels> {
    // Where it is missing, no process has it either.
    await loadSharp();
    cancellation.throwIfRequested();
    return new Promise((resolve, reject) => {
      const job = { body, plan, cancellation, resolve, reject };
      this.#waiting.add(job);
      // What is being decoded is decoded from a copy, for nobody.
      cancellation.follow(() => {
        this.#waiting.delete(job);
        reject(cancellation.reason);
      });
      this.#start();
    });
  }

  /** Ends the processes. What is under way is refused. */
  close(): void {
    this.#isClosed = true;
    for (const one of this.#processes) one.close();
  }

  #start(): void {
    for (const job of this.#waiting) {
      try {
        const free = this.#free();
        if (free === undefined) return;
        this.#waiting.delete(job);
        free.take(job);
      } catch (error) {
        this.#waiting.delete(job);
        job.reject(
          new Refusal(500, `no process to decode the image could be started: ${(error as Error).message}`),
        );
      }
    }
  }

  #free(): DecoderProcess | undefined {
    let least: DecoderProcess | undefined;
    for (const one of this.#processes) if (least === undefined || one.jobs < least.jobs) least = one;
    if ((least === undefined || least.jobs > 0) && this.#processes.size < this.most) {
      try {
        return this.#add();
      } catch (error) {
        if (least === undefined) throw error;
      }
    }
    return least!.jobs < IMAGES_AT_ONCE ? least : undefined;
  }

  #add(): DecoderProcess {
    const added: DecoderProcess = new DecoderProcess(
      () => this.#start(),
      () => {
        this.#processes.delete(added);
        if (!this.#isClosed) this.#start();
      },
    );
    this.#processes.add(added);
    return added;
  }
}

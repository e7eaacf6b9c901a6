/** The near end of a process that measures: bench_process.ts. */
import { fork, type ChildProcess } from 'node:child_process';
import path from 'node:path';

import type {
  BenchAnswer,
  BenchRequest,
  First,
  FirstRequest,
  NewShape,
  NewShapeRequest,
  Opened,
  OpenRequest,
  TurnRequest,
} from './bench_process';
import { WarpconvError, type WarpconvErrorCode } from '../errors';

export class Contestant {
  readonly #child: ChildProcess;
  #settle: ((answer: BenchAnswer) => void) | undefined;
  #end: BenchAnswer | undefined;

  constructor(readonly runtime: OpenRequest['runtime']) {
    this.#child = fork(path.join(__dirname, 'bench_process.js'), {
      serialization: 'advanced',
      // Nothing but the result goes to stdout.
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      // The device is told with every result.
      env: { ...process.env, WARPCONV_NO_CPU_WARNING: '1' },
    });
    this.#child.on('message', (answer: BenchAnswer) => this.#settle?.(answer));
    const fail = (how: string) => {
      this.#end = { failure: { code: undefined, message: `the process of ${runtime} ${how}` } };
      this.#settle?.(this.#end);
    };
    this.#child.on('exit', (code, signal) => fail(`ended with ${signal ?? code}`));
    this.#child.on('error', ({ message }) => fail(`failed: ${message}`));
  }

  open(request: OpenRequest): Promise<Opened> {
    return this.#ask(request);
  }

  first(request: FirstRequest): Promise<First> {
    return this.#ask(request);
  }

  turn(request: TurnRequest): Promise<readonly number[]> {
    return this.#ask(request);
  }

  newShape(request: NewShapeRequest): Promise<NewShape | null> {
    return this.#ask(request);
  }

  end(): void {
    this.#settle = undefined;
    this.#child.kill('SIGKILL');
  }

  async #ask<T>(request: BenchRequest): Promise<T> {
    const answer = await new Promise<BenchAnswer>((resolve) => {
      this.#settle = resolve;
      if (this.#end === undefined) this.#child.send(request);
      else resolve(this.#end);
    });
    if ('result' in answer) return answer.result as T;
    const { code = 'ERR_WARPCONV_INTERNAL', message } = answer.failure;
    throw new WarpconvError(code as WarpconvErrorCode, message);
  }
}

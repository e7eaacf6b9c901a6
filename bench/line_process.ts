import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

import { ROOT } from './command';

/** Nothing that goes well takes a tenth of this. */
const LONGEST_MILLISECONDS = 150_000;

/** What is answered instead where something failed. */
export interface Failure {
  readonly failure: string;
  /** Whether the process is of no use any more */
  readonly isLast?: boolean;
}

/** A program that reads a request a line from its stdin and answers each by a line on its stdout, both JSON. */
export class LineProcess {
  #running: Running | undefined;

  constructor(
    private readonly command: readonly [program: string, ...args: string[]],
    private readonly environment: NodeJS.ProcessEnv = process.env,
  ) {}

  /**
   * Starts the program where it does not run, or was lost. One request at a time.
   *
   * @throws Error with the failure that was answered, or with how the process ended instead
   */
  async ask<Answer>(request: object): Promise<Answer> {
    this.#running ??= new Running(this.command, this.environment);
    const answer = await this.#running.ask<Answer>(request);
    const { failure, isLast } = answer as Partial<Failure>;
    if (isLast) this.close();
    if (failure !== undefined) throw new Error(failure);
    return answer as Answer;
  }

  close(): void {
    this.#running?.kill();
    this.#running = undefined;
  }
}

class Running {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #ending: Promise<string>;

  constructor([program, ...args]: readonly [program: string, ...args: string[]], env: NodeJS.ProcessEnv) {
    this.#child = spawn(program, args, { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'], env });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#ending = endingOf(this.#child);
    // A request to a process that has ended: its answer says so.
    this.#child.stdin.on('error', () => undefined);
  }

  async ask<Answer>(request: object): Promise<Answer | Failure> {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    const timer = setTimeout(() => this.kill(), LONGEST_MILLISECONDS);
    try {
      const line = await this.#lines.next();
      return line.done ? { failure: await this.#ending, isLast: true } : (JSON.parse(line.value) as Answer);
    } finally {
      clearTimeout(timer);
    }
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

async function endingOf(child: ChildProcessByStdio<Writable, Readable, null>): Promise<string> {
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return `its process ended with ${signal ?? `code ${code}`}`;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The other side: answers what its parent asks, until that ends. */
export async function answerLines(
  answer: (request: never) => Promise<object>,
  isLast: (error: Error) => boolean,
): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const given = await answer(JSON.parse(line) as never).catch((error: Error): Failure => ({
      failure: error.message,
      isLast: isLast(error),
    }));
    process.stdout.write(`${JSON.stringify(given)}\n`);
  }
}

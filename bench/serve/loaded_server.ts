/** The servers that main.ts loads, each in a process of its own (server.mjs). */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

import { ROOT } from '../command';

export const OURS = 'warpconv/serve';
export const ONE_BY_ONE = 'warpconv/serve, maxBatch: 1';
export const RIVAL = 'Fastify + onnxruntime-node';

/** What server.mjs is told to be. */
export const ROLES: Readonly<Record<string, string>> = {
  [OURS]: 'ours',
  [ONE_BY_ONE]: 'one-by-one',
  [RIVAL]: 'rival',
};

export interface Served {
  readonly model: string;
  readonly device: string;
  /** Of ours; by default as many as it takes by itself */
  readonly threads?: number | undefined;
  /** How ours takes images, where it gets some */
  readonly image?: object | undefined;
}

export interface Figures {
  /** Milliseconds, since these were last asked for */
  readonly delayP99: number;
  /** Processor time in milliseconds, since these were last asked for, with that of processes it has started */
  readonly cpu: number;
  readonly rss: number;
}

export class LoadedServer {
  /** Empty until it listens */
  url = '';
  readonly #ended: Promise<never>;

  private constructor(
    readonly who: string,
    readonly process: ChildProcess,
  ) {
    this.#ended = once(process, 'exit').then(([code, signal]) => {
      throw new Error(`the server of ${who} ended with ${signal ?? `code ${code}`} before it answered`);
    });
    this.#ended.catch(() => {});
  }

  /** Starts a server for a task, at whose end, a good one or not, it is killed where it still runs. */
  static async use<T>(
    who: string,
    { model, device, ...options }: Served,
    task: (server: LoadedServer) => Promise<T>,
  ): Promise<T> {
    const { threads, image } = options;
    const args = [ROLES[who]!, model, device, JSON.stringify({ threads, image })];
    const child = fork(path.join(__dirname, 'server.mjs'), args, { cwd: ROOT, execArgv: [] });
    const server = new LoadedServer(who, child);
    try {
      server.url = (await server.message<{ url: string }>()).url;
      return await task(server);
    } finally {
      await server.#kill();
    }
  }

  /** Starts one server after the other, and ends all of them at the end of a task. */
  static async useAll<T>(
    [who, ...others]: readonly string[],
    served: Served,
    task: (servers: readonly LoadedServer[]) => Promise<T>,
  ): Promise<T> {
    if (who === undefined) return task([]);
    return LoadedServer.use(who, served, (server) =>
      LoadedServer.useAll(others, served, (rest) => task([server, ...rest])),
    );
  }

  /** The next one. @throws Error where the server ends instead */
  async message<T>(): Promise<T> {
    const [message] = (await Promise.race([once(this.process, 'message'), this.#ended])) as [T];
    return message;
  }

  figures(): Promise<Figures> {
    this.process.send('figures');
    return this.message<Figures>();
  }

  async #kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.#ended.catch(() => {});
  }
}

/** Clients in processes of their own (client_run.mjs), which load a server and check its answers. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import path from 'node:path';

import { sum } from '../../statistics';
import { addCounts, quantileOf, SCALE } from './latencies';

/** A request by POST, and the answer to it. */
export interface LoadRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly expected: Float32Array;
  /** Relative to the largest magnitude that is expected */
  readonly tolerance: number;
}

export interface Measured {
  /** Answers of status 200 */
  readonly perSecond: number;
  /** Milliseconds, of answers of status 200 */
  readonly p50: number;
  readonly p99: number;
  /** How many answers of each status */
  readonly statuses: Readonly<Record<string, number>>;
  readonly connectionErrors: number;
  /** Answers of status 200 beyond the tolerance */
  readonly wrong: number;
  /** The worst difference in the first of them, relative to the largest magnitude that is expected */
  readonly worst?: number | undefined;
  /** Processor time of the client processes by time and process: near 1 they are the limit, not the server */
  readonly clientsCpu: number;
}

export interface ClientsOptions {
  readonly connections: number;
  /** By default a process for every fourth processor, and at most four */
  readonly processes?: number | undefined;
}

/** What a process counted so far. */
interface Counted extends Pick<Measured, 'statuses' | 'connectionErrors' | 'wrong' | 'worst'> {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly counts: Float64Array;
}

/** Connections that each send a request as soon as the one before is answered, until they are stopped. */
export class Clients {
  private constructor(private readonly processes: readonly ClientProcess[]) {}

  /** Starts the processes, which wait for `begin`. Connections take turns with the requests, each from another one on. */
  static async start(
    url: string,
    requests: readonly LoadRequest[],
    { connections, processes = defaultProcesses() }: ClientsOptions,
  ): Promise<Clients> {
    const count = Math.min(processes, connections);
    const clients = new Clients(Array.from({ length: count }, () => new ClientProcess()));
    const { hostname, port, host } = new URL(url);
    const shared = {
      scale: SCALE,
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port),
      requests: requests.map((request) => toBeSent(request, host)),
    };
    const firsts = Array.from({ length: connections }, (_, connection) => connection % requests.length);
    try {
      await clients.#all((one, index) =>
        one.ask('prepare', { ...shared, firsts: firsts.filter((_, at) => at % count === index) }),
      );
    } catch (error) {
      await clients.stop();
      throw error;
    }
    return clients;
  }

  async begin(): Promise<void> {
    await this.#all((one) => one.ask('begin'));
  }

  /** So far. @throws Error where a process does not understand the server's answers, or ended */
  async measured(): Promise<Measured> {
    return summary(await this.#all((one) => one.ask<Counted>('measured')));
  }

  /** Leaves the server without waiting for its answers. */
  async stop(): Promise<void> {
    await this.#all((one) => one.kill());
  }

  #all<T>(task: (one: ClientProcess, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(this.processes.map(task));
  }
}

function defaultProcesses(): number {
  return Math.max(1, Math.min(4, Math.floor(os.availableParallelism() / 4)));
}

function toBeSent({ path: target, headers, body, expected, tolerance }: LoadRequest, host: string) {
  const fields = { Host: host, ...headers, 'Content-Length': body.length };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`POST ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1');
  return { bytes: Buffer.concat([head, body]), expected, tolerance };
}

function summary(all: readonly Counted[]): Measured {
  const counts = addCounts(all.map((one) => one.counts));
  return {
    perSecond: sum(all.map((one) => sum([...one.counts]) / one.seconds)),
    p50: quantileOf(counts, 0.5),
    p99: quantileOf(counts, 0.99),
    statuses: addStatuses(all.map(({ statuses }) => statuses)),
    connectionErrors: sum(all.map(({ connectionErrors }) => connectionErrors)),
    wrong: sum(all.map(({ wrong }) => wrong)),
    worst: all.find(({ wrong }) => wrong > 0)?.worst,
    clientsCpu: sum(all.map(({ cpuSeconds, seconds }) => cpuSeconds / seconds)) / all.length,
  };
}

function addStatuses(all: readonly Measured['statuses'][]): Measured['statuses'] {
  const total: Record<string, number> = {};
  for (const [status, count] of all.flatMap(Object.entries<number>)) {
    total[status] = (total[status] ?? 0) + count;
  }
  return total;
}

class ClientProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;
  #failure: string | undefined;

  constructor() {
    const file = path.join(__dirname, 'client_run.mjs');
    this.#child = fork(file, { execArgv: [], serialization: 'advanced' });
    this.#child.on('message', ({ failure }: { failure?: string }) => (this.#failure ??= failure));
    this.#ended = once(this.#child, 'exit').then(([code, signal]) => {
      throw new Error(this.#failure ?? `a client process ended with ${signal ?? `code ${code}`}`);
    });
    this.#ended.catch(() => {});
  }

  async ask<T>(task: string, details: object = {}): Promise<T> {
    // One that has ended is noticed below.
    this.#child.send({ task, ...details }, () => {});
    const [answer] = (await Promise.race([once(this.#child, 'message'), this.#ended])) as [T];
    if (this.#failure !== undefined) throw new Error(this.#failure);
    return answer;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended.catch(() => {});
  }
}

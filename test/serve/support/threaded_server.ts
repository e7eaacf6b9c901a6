/** The server of children/threaded_server.cjs, and clients that keep their connections to it. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import path from 'node:path';

import { binaryRequest } from './client';

export class ThreadedServer {
  url = '';
  /** The code and signal with which the process ended */
  readonly ended: Promise<unknown[]>;
  readonly #child;
  readonly #answers = new Map<number, (result: unknown) => void>();
  #asked = 0;

  private constructor() {
    const script = path.join(__dirname, '../children/threaded_server.cjs');
    this.#child = fork(script, { execArgv: [] });
    this.ended = once(this.#child, 'exit');
  }

  static async start(): Promise<ThreadedServer> {
    const server = new ThreadedServer();
    await once(server.#child, 'message');
    server.#child.on('message', ({ id, result }: { id: number; result: unknown }) => {
      server.#answers.get(id)!(result);
      server.#answers.delete(id);
    });
    server.url = await server.ask('url');
    return server;
  }

  ask<T>(command: string, ...args: unknown[]): Promise<T> {
    const id = this.#asked++;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve as (result: unknown) => void);
      // What is asked of a process that has ended is never answered.
      this.#child.send({ id, command, args }, () => {});
    });
  }

  /** Ends the process; the answer to that may get lost. */
  async close(): Promise<void> {
    void this.ask('close');
    expect(await this.ended).toEqual([0, null]);
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

/** A client with one connection, that it keeps. */
export class KeptClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  /** @param base - the address of a server whose model `echo` gives back bytes */
  constructor(readonly base: string) {}

  /** What the server gives back; rejects with the error of the connection. */
  async echo(bytes: Uint8Array): Promise<{ status: number; data: Buffer }> {
    const inputs = [
      {
        ...{ name: 'x', datatype: 'UINT8', shape: [bytes.length] },
        parameters: { binary_data_size: bytes.length },
      },
    ];
    const sent = binaryRequest({ inputs, parameters: { binary_data_output: true } }, bytes);
    const { status, headers, body } = await this.#post(sent.headers, sent.body);
    const length = Number(headers['inference-header-content-length'] ?? body.length);
    return { status, data: body.subarray(length) };
  }

  close(): void {
    this.#agent.destroy();
  }

  #post(
    headers: Readonly<Record<string, string | number>>,
    body: Buffer,
  ): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }> {
    const { hostname, port } = new URL(this.base);
    const to = { hostname, port, agent: this.#agent, method: 'POST', path: '/v2/models/echo/infer' };
    return new Promise((resolve, reject) => {
      const call = httpRequest(
        { ...to, headers: { ...headers, 'Content-Length': body.length } },
        (response) => {
          const parts: Buffer[] = [];
          response.on('data', (part: Buffer) => parts.push(part)).on('error', reject);
          response.on('end', () =>
            resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts) }),
          );
        },
      );
      call.on('error', reject).end(body);
    });
  }
}

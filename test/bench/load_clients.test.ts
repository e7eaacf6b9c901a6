/** Clients that load a server of node:http. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';

import { Clients, type LoadRequest, type Measured } from '../../bench/serve/load/clients';

const REQUESTS: readonly LoadRequest[] = [0, 1, 2].map((number) => ({
  path: `/${number}`,
  headers: { 'Content-Type': 'application/octet-stream' },
  body: Buffer.alloc(100_000, number),
  expected: Float32Array.of(number, 10),
  tolerance: 1e-4,
}));

interface Options {
  readonly connections?: number;
  readonly processes?: number;
  /** When they have seen enough */
  readonly until?: (measured: Measured) => boolean;
}

const answered = ({ statuses }: Measured) => Object.values(statuses).reduce((sum, count) => sum + count, 0);

/** What clients measure of a server by the time they have seen enough. */
async function load(
  handler: RequestListener,
  { connections = 4, processes, until = (measured) => answered(measured) >= 100 }: Options = {},
): Promise<Measured> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clients = await Clients.start(url, REQUESTS, { connections, processes });
  try {
    await clients.begin();
    for (let waited = 0; waited < 10_000; waited += 20) {
      await setTimeout(20);
      const measured = await clients.measured();
      if (until(measured)) return measured;
    }
    throw new Error('the clients did not see enough');
  } finally {
    await clients.stop();
    server.close();
  }
}

/** The right answer, once the whole request is there. */
async function right(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const number = Number(request.url!.slice(1));
  const isWhole = Buffer.concat(chunks).equals(REQUESTS[number]!.body);
  const elements = Float32Array.of(isWhole ? number : NaN, 10);
  response.setHeader('Inference-Header-Content-Length', 3);
  response.setHeader('Content-Length', 11);
  response.write('{ }');
  response.end(new Uint8Array(elements.buffer));
}

const empty = (status: number, headers: Record<string, string> = {}): RequestListener => {
  return (request, response) => {
    request.resume();
    request.on('end', () => response.writeHead(status, { 'Content-Length': 0, ...headers }).end());
  };
};

describe('clients', () => {
  it('find right answers right, on connections of several processes', async () => {
    const peers = new Set<number>();
    const listener: RequestListener = (request, response) => {
      peers.add(request.socket.remotePort!);
      void right(request, response);
    };
    const measured = await load(listener, { connections: 5, processes: 2 });
    expect(measured).toMatchObject({ connectionErrors: 0, wrong: 0, worst: undefined });
    expect(Object.keys(measured.statuses)).toEqual(['200']);
    expect(peers.size).toBe(5);
    expect(measured.perSecond).toBeGreaterThan(0);
    expect(measured.p50).toBeGreaterThan(0);
    expect(measured.p99).toBeGreaterThanOrEqual(measured.p50);
    expect(measured.clientsCpu).toBeGreaterThan(0);
    expect(measured.clientsCpu).toBeLessThan(1.5);
  });

  it('count wrong answers', async () => {
    const listener: RequestListener = (request, response) => {
      request.resume();
      const elements = Float32Array.of(0, 10);
      response.setHeader('Content-Length', 8);
      request.on('end', () => response.end(new Uint8Array(elements.buffer)));
    };
    const { wrong, worst, statuses } = await load(listener, { connections: 1 });
    const taken = statuses[200]!;
    expect(wrong).toBe(Math.floor(taken / 3) + Math.floor((taken + 1) / 3));
    expect(worst).toBeCloseTo(0.1);
  });

  it('count answers by status, and take the time of those of 200 only', async () => {
    const measured = await load(empty(503, { 'Retry-After': '1' }));
    expect(Object.keys(measured.statuses)).toEqual(['503']);
    expect(measured).toMatchObject({ perSecond: 0, p50: NaN, connectionErrors: 0, wrong: 0 });
  });

  it('open a connection again whose end was announced', async () => {
    const peers = new Set<number>();
    const listener: RequestListener = (request, response) => {
      peers.add(request.socket.remotePort!);
      empty(503, { Connection: 'close' })(request, response);
    };
    const measured = await load(listener);
    expect(measured.connectionErrors).toBe(0);
    expect(peers.size).toBeGreaterThan(50);
  });

  it('count connections that end with a request on the way, and open them again', async () => {
    let requests = 0;
    const listener: RequestListener = (request, response) => {
      if (++requests % 2 === 0) request.socket.destroy();
      else void right(request, response);
    };
    const until = ({ connectionErrors }: Measured) => connectionErrors >= 20;
    const measured = await load(listener, { until });
    expect(Object.keys(measured.statuses)).toEqual(['200']);
    expect(measured.wrong).toBe(0);
  });

  it('refuse chunked answers', async () => {
    const listener: RequestListener = (request, response) => {
      request.resume();
      response.write('x');
      response.end();
    };
    await expect(load(listener)).rejects.toThrow('a chunked answer; only a Content-Length is read');
  });

  it('try a server again that does not listen', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    const clients = await Clients.start(`http://127.0.0.1:${port}`, REQUESTS, { connections: 1 });
    try {
      await clients.begin();
      await setTimeout(350);
      const { connectionErrors, statuses } = await clients.measured();
      expect(statuses).toEqual({});
      expect(connectionErrors).toBeGreaterThanOrEqual(1);
      expect(connectionErrors).toBeLessThanOrEqual(5);
    } finally {
      await clients.stop();
    }
  });
});

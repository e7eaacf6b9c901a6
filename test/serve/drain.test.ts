/** The end of a server: what was accepted is answered, what comes later is refused. */
import { spawn } from 'node:child_process';
import { Agent, request as httpRequest } from 'node:http';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { json, postJson, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { closeAll, open, THREADS, until } from './support/serving';

afterEach(closeAll);

const INFER = '/v2/models/double/infer';
const GOOD = doublingRequest([[1, 2]]);

test('draining answers what was accepted, refuses the rest, and turns readiness', async () => {
  const session = doublingSession();
  const { url, handler } = await open({ models: { double: session } });
  session.hold();
  const accepted = [1, 2, 3].map(() => postJson(url, INFER, GOOD));
  await until(() => handler.metrics().includes('warpconv_requests_in_flight 3\n'));
  let isDrained = false;
  const drained = handler.drain().then(() => (isDrained = true));

  const late = await postJson(url, INFER, GOOD);
  expect([late.status, late.headers['retry-after']]).toEqual([503, '1']);
  expect(json(late)).toEqual({ error: expect.stringContaining('shutting down') });
  const kept = await RawConnection.open(url);
  kept.write('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
  await kept.closed;
  expect(kept.received).toMatch(/^HTTP\/1\.1 200 .*\r\nConnection: close\r\n/s);
  for (const path of ['/v2/health/ready', '/v2/models/double/ready']) {
    const ready = await request(url, { path });
    expect([ready.status, json(ready).ready]).toEqual([503, false]);
  }
  expect((await request(url, { path: '/v2/health/live' })).status).toBe(200);
  expect(isDrained).toBe(false);

  session.open();
  expect((await Promise.all(accepted)).map(({ status }) => status)).toEqual([200, 200, 200]);
  await drained;
});

test('draining with nothing to wait for is done at once', async () => {
  const { url, handler } = await open({ models: { double: doublingSession() } });
  await handler.drain();
  expect((await request(url, { path: '/v2/health/ready' })).status).toBe(503);
});

test('close() waits for what was accepted, and ends idle connections', async () => {
  const session = doublingSession();
  const { url, close } = await open({ models: { double: session } });
  const idle = await RawConnection.open(url);
  idle.write('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => idle.received.includes('{"live":true}'));
  session.hold();
  const accepted = postJson(url, INFER, GOOD);
  await until(() => session.runs.length === 1);
  const closed = close();
  expect((await postJson(url, INFER, GOOD)).status).toBe(503);
  session.open();
  expect((await accepted).status).toBe(200);
  await Promise.all([closed, close(), idle.closed]);
  await expect(request(url, { path: '/v2' })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

test('close() after the server was closed by its owner', async () => {
  const { server, close } = await open({ models: { double: doublingSession() } });
  await new Promise((resolve) => server.close(resolve));
  await close();
});

test('a refusal reaches a client that is still sending', async () => {
  const session = doublingSession();
  const { url, handler } = await open({ models: { double: session } });
  session.hold();
  const accepted = postJson(url, INFER, GOOD);
  await until(() => session.runs.length === 1);
  const drained = handler.drain();
  const late = await RawConnection.open(url);
  const length = 2 ** 20;
  late.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`);
  await until(() => late.received.endsWith('}'));
  expect(late.received).toMatch(/^HTTP\/1\.1 503 .*\r\nConnection: close\r\n/s);
  // It is not cut off: all that it goes on to send is read.
  let isCut = false;
  late.socket.on('error', () => (isCut = true));
  late.write('x'.repeat(length));
  await late.closed;
  expect([isCut, late.socket.bytesWritten > length]).toEqual([false, true]);
  session.open();
  expect((await accepted).status).toBe(200);
  await drained;
});

test('clients that ask on and on, and are refused, do not keep the server from closing', async () => {
  const session = doublingSession();
  const { url, handler, close } = await open({ models: { double: session }, timeout: 600_000 });
  session.hold();
  const accepted = postJson(url, INFER, GOOD);
  await until(() => session.runs.length === 1);
  const closed = close();
  const length = 2 ** 20;
  const asking = `POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(length)}`;
  /** Refused while its body is on the way, each client asks at once again on the same connection. */
  const askOnAndOn = async () => {
    for (;;) {
      const client = await RawConnection.open(url).catch(() => undefined);
      if (client === undefined) return;
      client.socket.on('data', () => client.write(asking));
      client.write(asking);
      await client.closed;
    }
  };
  const clients = Promise.all(Array.from({ length: 16 }, askOnAndOn));
  await until(() => Number(/status="503"} (\d+)/.exec(handler.metrics())?.[1]) > 100);
  session.open();
  expect((await accepted).status).toBe(200);
  await Promise.all([closed, clients]);
});

test('an idle connection is left a moment, and a request on it is answered', async () => {
  const { url, close } = await open({ models: { double: doublingSession() } });
  const ask = 'GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n';
  const idle = await RawConnection.open(url);
  idle.write(ask);
  await until(() => idle.received.includes('{"ready":true}'));
  const closed = close();
  await setTimeout(50);
  idle.write(ask);
  await idle.closed;
  expect(idle.received).toMatch(/HTTP\/1\.1 503 .*\r\nConnection: close\r\n.*\{"ready":false\}$/s);
  await closed;
});

test('a port that is taken is the system’s error', async () => {
  const { url } = await open({ models: { double: doublingSession() } });
  const port = Number(new URL(url).port);
  await expect(open({ models: { double: doublingSession() }, port })).rejects.toMatchObject({
    code: 'EADDRINUSE',
  });
});

test('faked timers hold up nothing', async () => {
  const script = path.join(__dirname, 'children/faked_timers.cjs');
  const child = spawn(process.execPath, [script, String(THREADS)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const ending = await new Promise((resolve) => child.on('close', (...status) => resolve(status)));
  expect([ending, printed]).toEqual([[0, null], 'closed']);
});

describe('SIGTERM', () => {
  /** A server in a process of its own. */
  async function start(): Promise<{
    url: string;
    terminate: () => Promise<void>;
    kill: (signal: NodeJS.Signals) => void;
    ended: Promise<unknown[]>;
    printed: () => string;
  }> {
    const script = path.join(__dirname, 'children/server.cjs');
    const child = spawn(process.execPath, [script, String(THREADS)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
    const ended = new Promise<unknown[]>((resolve) => child.on('close', (...ending) => resolve(ending)));
    await until(() => printed.includes('\n'));
    const terminate = async () => {
      child.kill('SIGTERM');
      await until(() => printed.includes('terminating'));
    };
    const kill = (signal: NodeJS.Signals) => void child.kill(signal);
    return { url: printed.trim(), terminate, kill, ended, printed: () => printed };
  }

  const slow = (index: number) => ({
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1], data: [index] }],
  });
  const infer = (url: string, index: number) => postJson(url, '/v2/models/slow/infer', slow(index));
  /** The status, or the code of the error that took its place. */
  const outcome = (answer: Promise<Received>): Promise<number | string> =>
    answer.then(
      ({ status }) => status,
      (error: NodeJS.ErrnoException) => error.code!,
    );

  test('loses no request that was accepted, and the process ends by itself', async () => {
    const { url, terminate, ended } = await start();
    const accepted = Array.from({ length: 12 }, (_, index) => infer(url, index));
    let metrics = '';
    while (!metrics.includes('warpconv_requests_in_flight 12\n')) {
      metrics = (await request(url, { path: '/metrics' })).body.toString();
    }
    await terminate();
    const late = await Promise.all([1, 2, 3].map((index) => outcome(infer(url, index))));
    expect(late).toEqual([503, 503, 503]);
    for (const [index, answer] of accepted.entries()) {
      const received = await answer;
      expect(received.status).toBe(200);
      expect(json(received).outputs).toEqual([{ name: 'y', datatype: 'FP32', shape: [1], data: [index] }]);
    }
    expect(await ended).toEqual([0, null]);
    expect(await outcome(infer(url, 0))).toBe('ECONNREFUSED');
  });

  test('under load answers every request or refuses it', async () => {
    const { url, terminate, ended, printed } = await start();
    const outcomes: (number | string)[] = [];
    let isOver = false;
    const client = async () => {
      for (let index = 0; !isOver; index++) outcomes.push(await outcome(infer(url, index)));
    };
    const clients = Array.from({ length: 8 }, client);
    await until(() => outcomes.length >= 16);
    const answered = outcomes.length;
    await terminate();
    expect(await ended).toEqual([0, null]);
    isOver = true;
    await Promise.all(clients);
    expect(outcomes.slice(0, answered)).toEqual(new Array(answered).fill(200));
    // The eight that were on their way when the signal came, and then none.
    const later = outcomes.slice(answered).filter((one) => one === 200).length;
    expect(later).toBeGreaterThan(0);
    const others = outcomes.filter((one) => one !== 200);
    expect(others.filter((one) => one !== 503 && one !== 'ECONNREFUSED')).toEqual([]);
    // Every answer that the server gave has arrived.
    expect(printed()).toContain(
      `requests_total{model="slow",status="200"} ${outcomes.length - others.length}\n`,
    );
  });

  // The system goes on making connections for it, which it has not seen when it goes on itself.
  test('resets no connection where the process is held up', async () => {
    const drainOnce = async () => {
      const { url, terminate, kill, ended } = await start();
      let isOver = false;
      const client = async () => {
        const outcomes: (number | string)[] = [];
        while (!isOver && outcomes.at(-1) !== 'ECONNREFUSED') outcomes.push(await outcome(infer(url, 1)));
        return outcomes;
      };
      const clients = Promise.all(Array.from({ length: 8 }, client));
      await setTimeout(300);
      await terminate();
      for (let pause = 0; pause < 6; pause++) {
        await setTimeout(50 * pause);
        kill('SIGSTOP');
        await setTimeout(150);
        kill('SIGCONT');
      }
      expect(await ended).toEqual([0, null]);
      isOver = true;
      return (await clients).flat();
    };
    const outcomes = new Set((await Promise.all([1, 2, 3, 4].map(drainOnce))).flat());
    expect([...outcomes].filter((one) => typeof one === 'string' && one !== 'ECONNREFUSED')).toEqual([]);
  });

  test('a second one ends the process at once', async () => {
    const { url, terminate, ended } = await start();
    const answer = outcome(infer(url, 0));
    let metrics = '';
    while (!metrics.includes('warpconv_requests_in_flight 1\n')) {
      metrics = (await request(url, { path: '/metrics' })).body.toString();
    }
    await terminate();
    await terminate();
    expect(await ended).toEqual([null, 'SIGTERM']);
    expect(await answer).toBe('ECONNRESET');
  });
});

describe('64 clients that keep their connections see no reset when', () => {
  const CLIENTS = 64;

  /** The status of an answer, or where an error came from and its code. */
  function ask(url: string, agent: Agent, size: number): Promise<string> {
    const { hostname, port } = new URL(url);
    const input = { name: 'x', datatype: 'UINT8', shape: [size], parameters: { binary_data_size: size } };
    const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
    const headers = {
      'Content-Length': head.length + size,
      'Inference-Header-Content-Length': head.length,
    };
    return new Promise((resolve) => {
      const failed = (error: NodeJS.ErrnoException) => resolve(`${error.syscall ?? 'call'} ${error.code}`);
      const call = httpRequest(
        { hostname, port, agent, headers, method: 'POST', path: '/v2/models/echo/infer' },
        (response) => {
          response.on('error', failed).on('end', () => resolve(String(response.statusCode)));
          response.resume();
        },
      );
      call.on('error', failed).end(Buffer.concat([head, Buffer.alloc(size)]));
    });
  }

  async function terminateUnderLoad(kind: string, largest: number): Promise<Map<string, number>> {
    const script = path.join(__dirname, 'children/echo_server.cjs');
    const child = spawn(process.execPath, [script, kind, String(THREADS)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let url = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (url += text));
    const ended = new Promise<unknown[]>((resolve) => child.on('close', (...ending) => resolve(ending)));
    await until(() => url.includes('\n'));
    const agent = new Agent({ keepAlive: true });
    const outcomes = new Map<string, number>();
    const client = async (index: number) => {
      for (let outcome = ''; !outcome.includes(' ');) {
        outcome = await ask(url.trim(), agent, index % 4 === 0 ? largest : 100);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    };
    const clients = Array.from({ length: CLIENTS }, (_, index) => client(index));
    await until(() => (outcomes.get('200') ?? 0) > 2 * CLIENTS);
    child.kill('SIGTERM');
    await Promise.all(clients);
    agent.destroy();
    expect(await ended).toEqual([0, null]);
    return outcomes;
  }

  test.each([
    // Fastify refuses by itself what comes while it closes, and does not read long bodies.
    ['the server', 'alone', 300_000],
    ['the server', 'alone', 100],
    ['Fastify', 'fastify', 100],
  ])(
    '%s is terminated (%s, up to %i bytes)',
    async (_, kind, largest) => {
      for (let round = 0; round < 2; round++) {
        const outcomes = await terminateUnderLoad(kind, largest);
        const refused = outcomes.get('connect ECONNREFUSED');
        expect([[...outcomes.keys()].sort(), refused]).toEqual([
          ['200', '503', 'connect ECONNREFUSED'],
          CLIENTS,
        ]);
      }
    },
    60_000,
  );
});

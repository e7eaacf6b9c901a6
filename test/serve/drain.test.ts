/** The end of a server: what was accepted is answered, what comes later is refused. */
import { spawn } from 'node:child_process';
import path from 'node:path';

import { json, postJson, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { closeAll, open, until } from './support/serving';

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

test('a port that is taken is the system’s error', async () => {
  const { url } = await open({ models: { double: doublingSession() } });
  const port = Number(new URL(url).port);
  await expect(open({ models: { double: doublingSession() }, port })).rejects.toMatchObject({
    code: 'EADDRINUSE',
  });
});

describe('SIGTERM', () => {
  /** A server in a process of its own. */
  async function start(): Promise<{
    url: string;
    terminate: () => Promise<void>;
    ended: Promise<unknown[]>;
    printed: () => string;
  }> {
    const script = path.join(__dirname, 'children/server.cjs');
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
    const ended = new Promise<unknown[]>((resolve) => child.on('close', (...ending) => resolve(ending)));
    await until(() => printed.includes('\n'));
    const terminate = async () => {
      child.kill('SIGTERM');
      await until(() => printed.includes('terminating'));
    };
    return { url: printed.trim(), terminate, ended, printed: () => printed };
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
    expect(others.filter((one) => one !== 503 && one !== 'ECONNREFUSED' && one !== 'ECONNRESET')).toEqual([]);
    // Every answer that the server gave has arrived.
    expect(printed()).toContain(
      `requests_total{model="slow",status="200"} ${outcomes.length - others.length}\n`,
    );
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

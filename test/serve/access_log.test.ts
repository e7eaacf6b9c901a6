/** A line for each request. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, Writable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';

import { createHandler, type AccessLogEntry, type HandlerOptions } from '../../lib/serve';
import { lineOf, LineWriter } from '../../lib/serve/access_log';
import { binaryRequest, postJson, RawConnection, request } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, openThreaded, until } from './support/serving';

// Runs are joined by the built package, where several threads read.
jest.mock('../../lib/serve/batch_sizes', () => jest.requireActual<object>('../../dist/serve/batch_sizes'));

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

const INFER = '/v2/models/double/infer';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

describe.each([
  ['one thread', open],
  ['threads', openThreaded],
])('%s', (_, start) => {
  async function logged(options: Partial<HandlerOptions> = {}) {
    const session = doublingSession();
    const entries: AccessLogEntry[] = [];
    const accessLog = (entry: AccessLogEntry) => void entries.push(entry);
    const server = await start({ models: { double: session }, accessLog, ...options });
    /** The next entries. */
    const next = async (count = 1) => {
      await until(() => entries.length >= count);
      return entries.splice(0, count);
    };
    return { ...server, session, entries, next };
  }

  test('an inference', async () => {
    const { url, next } = await logged();
    const before = Date.now();
    const body = JSON.stringify(doublingRequest([[1, 2]]));
    const received = await request(url, { path: `${INFER}?secret=1`, body });
    const [entry] = await next();
    expect(entry).toEqual({
      time: expect.any(String),
      ...{ method: 'POST', path: INFER, model: 'double', version: '1', status: 200 },
      ...{ bytesIn: body.length, bytesOut: received.body.length },
      ...{ durationMs: expect.any(Number), queueMs: expect.any(Number), computeMs: expect.any(Number) },
      ...{ batchSize: 1, requestId: expect.stringMatching(UUID), remoteAddress: '127.0.0.1' },
    });
    expect(received.headers['x-request-id']).toBe(entry!.requestId);
    expect(Date.parse(entry!.time)).toBeGreaterThanOrEqual(before);
    expect(entry!.time).toMatch(/Z$/);
    expect(entry!.durationMs).toBeGreaterThanOrEqual(entry!.queueMs! + entry!.computeMs!);
  });

  test('the size of a batch, and a body in chunks', async () => {
    joinAll();
    const { url, session, next } = await logged();
    session.hold();
    const first = postJson(url, INFER, doublingRequest([[0, 0]]));
    await until(() => session.runs.length === 1);
    const text = JSON.stringify(doublingRequest([[1, 2]]));
    const others = [1, 2].map(() => request(url, { path: INFER, body: [text.slice(0, 9), text.slice(9)] }));
    while (
      !/queue_length\{model="double"\} 2/.test((await request(url, { path: '/metrics' })).body.toString())
    );
    session.open();
    await Promise.all([first, ...others]);
    const entries = await next(3);
    // As above, in any order.
    const [single, ...joined] = entries.sort((one, other) => one.batchSize! - other.batchSize!);
    expect([single!.batchSize, ...joined.map(({ batchSize }) => batchSize)]).toEqual([1, 2, 2]);
    for (const { bytesIn } of joined) expect(bytesIn).toBe(text.length);
    for (const { queueMs } of joined) expect(queueMs).toBeGreaterThan(0);
  });

  test('refusals say why', async () => {
    const { url, next } = await logged({ maxBodyBytes: 64 });
    const { headers } = binaryRequest({});
    const entries: AccessLogEntry[] = [];
    for (const sent of [
      { path: '/nothing?x' },
      { path: '/v2/models/none' },
      { path: INFER, method: 'DELETE' },
      { path: INFER, body: '{' },
      { path: INFER, headers, body: Buffer.alloc(65) },
    ]) {
      await request(url, sent);
      // Threads tell of theirs in any order.
      entries.push(...(await next()));
    }
    expect(entries.map(({ status, reason, path }) => [status, path, reason])).toEqual([
      [404, '/nothing', `there is nothing at '/nothing'`],
      [404, '/v2/models/none', `model 'none' is not served; there is 'double'`],
      [405, INFER, 'the methods here are POST, OPTIONS'],
      [400, INFER, expect.stringContaining('JSON')],
      [413, INFER, expect.stringContaining('longer than 64 bytes')],
    ]);
    // Only models that are served have a name here.
    expect(entries.map(({ model }) => model)).toEqual([undefined, undefined, 'double', 'double', 'double']);
  });

  test('a client that leaves', async () => {
    const { url, session, next } = await logged();
    session.hold();
    const connection = await RawConnection.open(url);
    const body = JSON.stringify(doublingRequest([[1, 2]]));
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await until(() => session.runs.length === 1);
    connection.socket.destroy();
    const [entry] = await next();
    expect(entry).toMatchObject({ status: 499, model: 'double', reason: 'the client closed the connection' });
    expect(entry).not.toHaveProperty('bytesOut');
    session.open();
  });

  test('health checks and metrics are left out while all is well', async () => {
    const { url, handler, next } = await logged();
    const probes = ['/v2/health/live', '/v2/health/ready', '/v2/models/double/ready', '/metrics'];
    for (const path of probes) expect((await request(url, { path })).status).toBe(200);
    await request(url, { path: '/v2' });
    expect((await next()).map(({ path }) => path)).toEqual(['/v2']);
    void handler.drain();
    await until(() => true);
    expect((await request(url, { path: '/v2/health/ready' })).status).toBe(503);
    expect(await next()).toMatchObject([{ path: '/v2/health/ready', status: 503 }]);
  });

  test.each([
    ['abc-DEF_1.2:3/4+5=@', true],
    ['x'.repeat(128), true],
    ['x'.repeat(129), false],
    ['two words', false],
    ['a,b', false],
    ['{"a":1}', false],
    ['ü', false],
  ])('X-Request-Id: %s', async (id, isTaken) => {
    const { url, next } = await logged();
    const headers = { 'X-Request-Id': Buffer.from(id).toString('latin1') };
    const received = await request(url, { path: '/nothing', headers });
    const [entry] = await next();
    expect(received.headers['x-request-id']).toBe(entry!.requestId);
    if (isTaken) expect(entry!.requestId).toBe(id);
    else expect(entry!.requestId).toMatch(UUID);
  });

  test.each([
    [`00-${TRACE}-00f067aa0ba902b7-01`, TRACE],
    [`42-${TRACE}-00f067aa0ba902b7-01-more`, TRACE],
    [`00-${TRACE}-00f067aa0ba902b7-01-more`, undefined],
    [`ff-${TRACE}-00f067aa0ba902b7-01`, undefined],
    [`00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, undefined],
    [`00-${TRACE.toUpperCase()}-00f067aa0ba902b7-01`, undefined],
    ['nonsense', undefined],
  ])('traceparent: %s', async (traceparent, traceId) => {
    const { url, next } = await logged();
    await request(url, { path: '/v2', headers: { traceparent } });
    expect((await next())[0]!.traceId).toBe(traceId);
  });

  test('HEAD has no bytes', async () => {
    const { url, next } = await logged();
    await request(url, { path: '/v2', method: 'HEAD' });
    expect(await next()).toMatchObject([{ method: 'HEAD', status: 200, bytesOut: 0 }]);
  });

  test('a logger of the shape of pino, and long paths', async () => {
    const info = jest.fn();
    const { url } = await logged({ accessLog: { info } });
    await request(url, { path: `/${'x'.repeat(5000)}` });
    await until(() => info.mock.calls.length === 1);
    const [entry, message] = info.mock.calls[0] as [AccessLogEntry, string];
    expect(message).toBe('request');
    expect(entry.path).toBe(`/${'x'.repeat(1023)}`);
    expect(entry.reason!.length).toBeLessThan(100);
  });

  test.each([
    ['fails later', (): unknown => Promise.reject(new Error('no disk'))],
    [
      'throws at once',
      () => {
        throw new Error('no disk');
      },
    ],
  ])('a log that %s: clients see nothing of it, the logger gets the first', async (__, fail) => {
    const error = jest.fn();
    const { url } = await logged({ accessLog: fail as () => void, logger: { error } });
    for (let round = 0; round < 3; round++) expect((await request(url, { path: '/v2' })).status).toBe(200);
    await until(() => error.mock.calls.length >= 1);
    await setTimeout(20);
    expect(error.mock.calls).toHaveLength(1);
    expect(error).toHaveBeenCalledWith({ err: expect.any(Error) }, 'the access log failed');
  });
});

test('an application that answers itself, when it is tired of waiting', async () => {
  const session = doublingSession();
  session.hold();
  const entries: AccessLogEntry[] = [];
  const handler = createHandler({
    models: { double: session },
    accessLog: (entry) => void entries.push(entry),
  });
  const server = createServer((call, response) => {
    handler(call, response);
    void until(() => session.runs.length > 0).then(() => response.writeHead(503).end('late'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const received = await postJson(url, INFER, doublingRequest([[1, 2]]));
  expect([received.status, received.body.toString()]).toEqual([503, 'late']);
  await until(() => entries.length > 0);
  expect(entries).toMatchObject([{ status: 503, path: INFER, model: 'double' }]);
  session.open();
  await handler.drain();
  server.close();
});

test('without a log, answers have no request id', async () => {
  const { url } = await open({ models: { double: doublingSession() }, accessLog: false });
  const received = await request(url, { path: '/v2', headers: { 'X-Request-Id': 'abc' } });
  expect(received.headers).not.toHaveProperty('x-request-id');
});

test.each([{}, 'stdout', 1, null, { info: true }])('accessLog: %j is refused', (accessLog) => {
  const models = { double: doublingSession() };
  expect(() => createHandler({ models, accessLog } as never)).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining(
        'options.accessLog must be true, a function or an object with a method info',
      ),
    }),
  );
});

describe('on stdout', () => {
  const entry = { path: '/a\n\r\u0085\u2028\u2029\u001b[31m"' } as AccessLogEntry;

  test('an entry is one line of plain characters, and the same when parsed', () => {
    const line = lineOf(entry);
    expect(line).toMatch(/^[ -~]+\n$/);
    expect(JSON.parse(line)).toEqual(entry);
  });

  test('lines of one turn are written together', async () => {
    const chunks: string[] = [];
    const stream = new PassThrough();
    stream.on('data', (chunk) => chunks.push(String(chunk)));
    const writer = new LineWriter(stream);
    for (const line of ['1\n', '2\n', '3\n']) writer.write(line);
    await until(() => chunks.length > 0);
    expect(chunks).toEqual(['1\n2\n3\n']);
  });

  test('where nobody reads, lines are dropped and counted, and memory is bounded', async () => {
    const written: string[] = [];
    let proceed = () => {};
    const stream = new Writable({
      write(chunk, _, done) {
        written.push(String(chunk));
        proceed = done;
      },
    });
    const writer = new LineWriter(stream);
    const line = `${'x'.repeat(2 ** 16 - 1)}\n`;
    for (let count = 0; count < 100; count++) {
      writer.write(line);
      await setTimeout();
    }
    expect(stream.writableLength).toBeLessThanOrEqual(2 ** 20 + 2 ** 16);
    const kept = stream.writableLength / 2 ** 16;
    while (stream.writableLength > 0) {
      proceed();
      await setTimeout();
    }
    writer.write('last\n');
    await until(() => written.length > kept);
    expect(written.slice(kept)).toEqual([`{"dropped":${100 - kept}}\nlast\n`]);
  });

  test('a pipe that is closed throws nothing', async () => {
    const stream = new Writable({ write: (_, __, done) => done(new Error('EPIPE')), autoDestroy: false });
    const writer = new LineWriter(stream);
    for (let count = 0; count < 3; count++) {
      writer.write('line\n');
      await setTimeout();
    }
  });
});

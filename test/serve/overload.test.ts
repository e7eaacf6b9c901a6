/** More than the server can do, and clients that do not do their part. */
import { once } from 'node:events';
import { createServer } from 'node:http';

import { createHandler } from '../../lib/serve';
import { json, postJson, RawConnection, request } from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, THREADS, until } from './support/serving';

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

const INFER = '/v2/models/double/infer';
const GOOD = doublingRequest([[1, 2]]);
const TEXT = JSON.stringify(GOOD);

async function metric(url: string, name: string): Promise<number> {
  const { body } = await request(url, { path: '/metrics' });
  const lines = body.toString().split('\n');
  const line = lines.find(
    (one) => one.startsWith(`warpconv_${name}`) && /[ {]/.test(one.charAt(9 + name.length)),
  );
  return Number(line?.split(' ')[1]);
}

async function untilMetric(url: string, name: string, expected: number): Promise<void> {
  while ((await metric(url, name)) !== expected);
}

/** The head of a request whose body is to be written by hand. */
const head = (length: number) => `POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`;

test('a full queue is answered by 503 and Retry-After, and recovers', async () => {
  const session = doublingSession();
  const { url } = await open({ models: { double: { session, maxBatch: 1 } }, maxQueue: 3 });
  session.hold();
  const answers = Array.from({ length: 20 }, () => postJson(url, INFER, GOOD));
  await untilMetric(url, 'requests_in_flight', 4);
  // All the others are refused before the queue has room again.
  await untilMetric(url, 'requests_total{model="double",status="503"}', 16);
  session.open();
  const received = await Promise.all(answers);
  const statuses = received.map(({ status }) => status).sort();
  expect(statuses).toEqual([...new Array<number>(4).fill(200), ...new Array<number>(16).fill(503)]);
  const refused = received.find(({ status }) => status === 503)!;
  expect(refused.headers['retry-after']).toBe('1');
  expect(json(refused)).toEqual({
    error: expect.stringMatching(/^3 requests are waiting for model 'double'/),
  });
  expect((await postJson(url, INFER, GOOD)).status).toBe(200);
  expect(await metric(url, 'held_bytes')).toBe(0);
});

test('a full queue is noticed before the body is sent', async () => {
  const session = doublingSession();
  const { url } = await open({ models: { double: session }, maxQueue: 1 });
  session.hold();
  const held = [postJson(url, INFER, GOOD)];
  await until(() => session.runs.length === 1);
  held.push(postJson(url, INFER, GOOD));
  await untilMetric(url, 'queue_length', 1);
  const connection = await RawConnection.open(url);
  connection.write(head(1000));
  await until(() => connection.received.includes('HTTP/1.1 503 '));
  connection.socket.destroy();
  session.open();
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
});

describe('a budget of bytes', () => {
  test('refuses what does not fit beside what is held, and recovers', async () => {
    const session = doublingSession();
    const limits = { maxBodyBytes: 1000, maxHeldBytes: 1000 };
    const { url } = await open({ models: { double: session }, ...limits });
    session.hold();
    const padded = JSON.stringify({ ...GOOD, id: 'x'.repeat(600) });
    const held = request(url, { path: INFER, body: padded });
    await until(() => session.runs.length === 1);
    expect(await metric(url, 'held_bytes')).toBe(padded.length);
    for (const body of [padded, [padded]]) {
      const refused = await request(url, { path: INFER, body });
      expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
      expect(json(refused)).toEqual({ error: expect.stringContaining('as many bytes') });
    }
    session.open();
    expect((await held).status).toBe(200);
    // Other threads may hear after the client that an answer has been sent.
    if (THREADS > 1) await untilMetric(url, 'held_bytes', 0);
    expect((await request(url, { path: INFER, body: padded })).status).toBe(200);
    if (THREADS === 1) expect(await metric(url, 'held_bytes')).toBe(0);
    else await untilMetric(url, 'held_bytes', 0);
  });

  test('counts what is announced, not only what has come', async () => {
    const limits = { maxBodyBytes: 1000, maxHeldBytes: 1000 };
    const { url } = await open({ models: { double: doublingSession() }, ...limits });
    const connection = await RawConnection.open(url);
    connection.write(`${head(900)}{`);
    await untilMetric(url, 'held_bytes', 900);
    expect((await postJson(url, INFER, { ...GOOD, id: 'x'.repeat(100) })).status).toBe(503);
    connection.socket.destroy();
    await untilMetric(url, 'held_bytes', 0);
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
  });
});

describe('timeouts', () => {
  test('a model that does not answer is answered for by 504, and the run is told to stop', async () => {
    const session = doublingSession();
    const { url } = await open({ models: { double: session }, timeout: 400 });
    session.hold();
    const received = await postJson(url, INFER, GOOD);
    expect([received.status, json(received)]).toEqual([
      504,
      { error: `model 'double' had not answered after 400 ms` },
    ]);
    await until(() => session.runs[0]!.signal.aborted);
    session.open();
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
  });

  test('a request that waits for too long is never run', async () => {
    const session = doublingSession();
    const { url } = await open({ models: { double: session }, timeout: 400 });
    session.hold();
    const answers = await Promise.all([1, 2, 3].map(() => postJson(url, INFER, GOOD)));
    expect(answers.map(({ status }) => status)).toEqual([504, 504, 504]);
    session.open();
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    expect(session.runs.length).toBe(2);
  });

  test('a body that comes drop by drop is answered by 408, and holds nobody up', async () => {
    const { url } = await open({ models: { double: doublingSession() }, timeout: 500 });
    const connections = await Promise.all(Array.from({ length: 20 }, () => RawConnection.open(url)));
    for (const connection of connections) connection.write(head(1e6));
    const dripping = setInterval(() => connections.forEach((connection) => connection.write('{')), 10);
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    await until(() => connections.every(({ received }) => received.includes('HTTP/1.1 408 ')));
    clearInterval(dripping);
    connections.forEach(({ socket }) => socket.destroy());
    expect(await metric(url, 'held_bytes')).toBe(0);
    expect(await metric(url, 'requests_in_flight')).toBe(0);
  });

  test('a client that does not stop sending after a refusal is cut off', async () => {
    const { url } = await open({ models: { double: doublingSession() }, maxBodyBytes: 10 });
    const connection = await RawConnection.open(url);
    connection.write(head(1e9));
    const sending = setInterval(() => connection.write('x'.repeat(100)), 50);
    await connection.closed;
    clearInterval(sending);
    expect(connection.received).toMatch(/^HTTP\/1\.1 413 /);
  });

  test('a client that does not read its answer is cut off', async () => {
    const long = new Uint8Array(30 * 2 ** 20);
    const session = new FakeSession([value('in', 'bool', [1])], [value('out', 'uint8', ['n'])], () => ({
      out: { type: 'uint8', dims: [long.length], data: long },
    }));
    const { url } = await open({ models: { double: session }, timeout: 1500 });
    const connection = await RawConnection.open(url);
    connection.socket.pause();
    const inputs = [{ name: 'in', datatype: 'BOOL', shape: [1], data: [true] }];
    const text = JSON.stringify({ inputs, parameters: { binary_data_output: true } });
    connection.write(head(text.length) + text);
    await until(() => session.runs.length === 1);
    // What is sent counts as held until it is.
    expect(await metric(url, 'held_bytes')).toBeGreaterThan(long.length);
    await untilMetric(url, 'requests_in_flight', 0);
    expect(await metric(url, 'held_bytes')).toBe(0);
    connection.socket.destroy();
  });
});

describe('clients that go away', () => {
  test('while they wait leave the queue', async () => {
    const session = doublingSession();
    const { url } = await open({ models: { double: session } });
    session.hold();
    const held = postJson(url, INFER, GOOD);
    await until(() => session.runs.length === 1);
    const connection = await RawConnection.open(url);
    connection.write(head(TEXT.length) + TEXT);
    await untilMetric(url, 'queue_length', 1);
    connection.socket.destroy();
    await untilMetric(url, 'queue_length', 0);
    session.open();
    expect((await held).status).toBe(200);
    expect(session.runs.length).toBe(1);
    await untilMetric(url, 'requests_total{model="double",status="499"}', 1);
  });

  test('while they are run abort the run', async () => {
    const session = doublingSession();
    const { url } = await open({ models: { double: session } });
    session.hold();
    const connection = await RawConnection.open(url);
    connection.write(head(TEXT.length) + TEXT);
    await until(() => session.runs.length === 1);
    expect(session.runs[0]!.signal.aborted).toBe(false);
    connection.socket.destroy();
    await until(() => session.runs[0]!.signal.aborted);
    session.open();
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
  });

  test('do not abort the run of those who stay', async () => {
    joinAll();
    const session = doublingSession();
    const { url } = await open({ models: { double: session } });
    session.hold();
    const first = postJson(url, INFER, GOOD);
    await until(() => session.runs.length === 1);
    const connection = await RawConnection.open(url);
    connection.write(head(TEXT.length) + TEXT);
    await untilMetric(url, 'queue_length', 1);
    const stays = postJson(url, INFER, GOOD);
    await untilMetric(url, 'queue_length', 2);
    session.open();
    session.hold();
    await until(() => session.runs.length === 2);
    connection.socket.destroy();
    await untilMetric(url, 'requests_in_flight', 1);
    expect(session.runs[1]!.signal.aborted).toBe(false);
    session.open();
    expect([(await first).status, (await stays).status]).toEqual([200, 200]);
  });

  test('in the middle of their bodies are forgotten', async () => {
    const error = jest.fn();
    const { url } = await open({ models: { double: doublingSession() }, logger: { error } });
    const connection = await RawConnection.open(url);
    connection.write(head(TEXT.length) + TEXT.slice(0, 10));
    await untilMetric(url, 'requests_in_flight', 1);
    connection.socket.destroy();
    await untilMetric(url, 'requests_in_flight', 0);
    expect(await metric(url, 'held_bytes')).toBe(0);
    await untilMetric(url, 'requests_total{model="double",status="499"}', 1);
    expect(error).not.toHaveBeenCalled();
  });

  test('before the handler is called hold no place', async () => {
    const handler = createHandler({ models: { double: doublingSession() } });
    const server = createServer((req, res) => res.once('close', () => setImmediate(handler, req, res)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const arrived = once(server, 'request');
    const connection = await RawConnection.open(`http://127.0.0.1:${port}`);
    connection.write(head(TEXT.length) + TEXT.slice(0, 10));
    await arrived;
    connection.socket.destroy();
    await until(() => handler.metrics().includes('requests_total{model="double",status="499"} 1\n'));
    await handler.drain();
    handler.close();
    server.close();
  });
});

test('close() answers what waits and what runs by 503', async () => {
  const session = doublingSession();
  const { url, handler } = await open({ models: { double: session } });
  session.hold();
  const answers = [1, 2, 3].map(() => postJson(url, INFER, GOOD));
  await untilMetric(url, 'requests_in_flight', 3);
  handler.close();
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([503, 503, 503]);
  session.open();
});

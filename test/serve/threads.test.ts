/** Servers whose requests several threads read: what is shared between these threads, and what they owe each other. */
import { Agent, request as httpRequest } from 'node:http';
import { createServer } from 'node:net';
import { readdirSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

import { Random } from '../support/random';
import {
  binaryRequest,
  binaryResponse,
  json,
  postJson,
  RawConnection,
  request,
  type Received,
} from './support/client';
import { doublingRequest, doublingSession, echoSession, FakeSession } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, openThreaded as openWithThreads, until } from './support/serving';
import { KeptClient, ThreadedServer } from './support/threaded_server';

// Runs are joined by the built package.
jest.mock('../../lib/serve/batch_sizes', () => jest.requireActual<object>('../../dist/serve/batch_sizes'));

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

/** A server of which three threads read the requests. */
const openThreaded: typeof openWithThreads = (options) => openWithThreads({ threads: 3, ...options });

const INFER = '/v2/models/double/infer';
const ECHO = '/v2/models/echo/infer';
const GOOD = doublingRequest([[1, 2]]);

/** The threads of this process, as the system counts them. */
const threadsOfProcess = () => readdirSync('/proc/self/task').length;

/** The value of a metric on a page; 0 where nothing was counted. */
function read(page: string, name: string): number {
  const line = page.split('\n').find((one) => one.startsWith(`warpconv_${name} `));
  return Number(line?.slice(`warpconv_${name} `.length) ?? 0);
}

async function metric(url: string, name: string): Promise<number> {
  return read((await request(url, { path: '/metrics' })).body.toString(), name);
}

async function untilMetric(url: string, name: string, expected: number): Promise<void> {
  while ((await metric(url, name)) !== expected);
}

const answered = (model: string, status: number) => `requests_total{model="${model}",status="${status}"}`;

function seeded(): Random {
  const seed = Math.floor(Math.random() * 2 ** 32);
  process.stdout.write(`seed ${seed}\n`);
  return new Random(seed);
}

describe('64 clients at once are answered each by its own values', () => {
  const CLIENTS = 64;

  /** Sends and checks requests for a third of a second; each client keeps its connection. */
  async function load(ask: (agent: Agent, client: number, round: number) => Promise<void>): Promise<number> {
    let asked = 0;
    const end = Date.now() + 300;
    const client = async (index: number) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let round = 0; Date.now() < end; round++, asked++) await ask(agent, index, round);
      agent.destroy();
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
    return asked;
  }

  /** As {@link request}, over the agent's connection. */
  function send(
    base: string,
    agent: Agent,
    path: string,
    headers: Readonly<Record<string, string | number>>,
    body: Buffer | readonly Buffer[],
  ): Promise<Received> {
    const { hostname, port } = new URL(base);
    return new Promise((resolve, reject) => {
      const call = httpRequest({ hostname, port, agent, path, method: 'POST', headers }, (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part)).on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts) }),
        );
      });
      call.on('error', reject);
      for (const part of [body].flat()) call.write(part);
      call.end();
    });
  }

  test('in JSON, and runs serve requests of several threads', async () => {
    const session = doublingSession();
    const { url } = await openThreaded({ models: { double: session } });
    const asked = await load(async (agent, client, round) => {
      const [a, b] = [1000 * client + round, -1 - client];
      const body = Buffer.from(JSON.stringify({ id: `${client}`, ...doublingRequest([[a, b]]) }));
      const received = await send(url, agent, INFER, { 'Content-Length': body.length }, body);
      expect([received.status, json(received)]).toMatchObject([
        200,
        { id: `${client}`, outputs: [{ data: [2 * a, 2 * b] }, { data: [a + b] }] },
      ]);
    });
    expect(await metric(url, answered('double', 200))).toBe(asked);
    expect(await metric(url, 'held_bytes')).toBe(0);
    // A thread has 21 or 22 of the connections.
    expect(session.runs.length).toBeLessThan(asked);
  });

  test.each([
    ['of known length', false],
    ['in chunks', true],
  ])('as binary data %s', async (_, isChunked) => {
    const random = seeded();
    const { url } = await openThreaded({
      models: { echo: { session: echoSession('uint8'), maxBatch: 2 ** 20 } },
    });
    const asked = await load(async (agent, client, round) => {
      const size = random.chance(0.1) ? random.integer(1, 300_000) : random.integer(1, 2000);
      const data = Buffer.alloc(size, 64 * round + client);
      const given = { name: 'in', datatype: 'UINT8', shape: [size] };
      const inputs = [{ ...given, parameters: { binary_data_size: size } }];
      const head = { id: 'x'.repeat(random.integer(0, 8)), inputs, parameters: { binary_data_output: true } };
      const sent = binaryRequest(head, data);
      const cut = random.integer(0, sent.body.length);
      const received = await (isChunked
        ? send(url, agent, ECHO, sent.headers, [sent.body.subarray(0, cut), sent.body.subarray(cut)])
        : send(url, agent, ECHO, { ...sent.headers, 'Content-Length': sent.body.length }, sent.body));
      expect(received.status).toBe(200);
      expect(Buffer.compare(binaryResponse(received).data, data)).toBe(0);
    });
    expect(await metric(url, answered('echo', 200))).toBe(asked);
    await untilMetric(url, 'held_bytes', 0);
  });

  test('whatever the type of the elements', async () => {
    const types = ['float32', 'float64', 'int64', 'uint16', 'float16'] as const;
    const sizes = { float32: 4, float64: 8, int64: 8, uint16: 2, float16: 2 };
    const names = { float32: 'FP32', float64: 'FP64', int64: 'INT64', uint16: 'UINT16', float16: 'FP16' };
    const models = Object.fromEntries(
      types.map((type) => [type, { session: echoSession(type), maxBatch: 4096 }]),
    );
    const { url } = await openThreaded({ models });
    await load(async (agent, client, round) => {
      const type = types[(client + round) % types.length]!;
      const length = 1 + ((7 * client + round) % 50);
      const data = Buffer.alloc(length * sizes[type], client);
      const inputs = [
        {
          ...{ name: 'in', datatype: names[type], shape: [length] },
          parameters: { binary_data_size: data.length },
        },
      ];
      const head = { id: 'x'.repeat(round % 9), inputs, parameters: { binary_data_output: true } };
      const { headers, body } = binaryRequest(head, data);
      const all = { ...headers, 'Content-Length': body.length };
      const received = await send(url, agent, `/v2/models/${type}/infer`, all, body);
      expect(received.status).toBe(200);
      expect(binaryResponse(received).data.equals(data)).toBe(true);
    });
  });
});

/** Requests one after the other, each on a connection of its own, until so many are in the server. */
async function sendAll(url: string, bodies: readonly object[]): Promise<Promise<Received>[]> {
  const answers: Promise<Received>[] = [];
  for (const body of bodies) {
    answers.push(postJson(url, INFER, body));
    await untilMetric(url, 'requests_in_flight', answers.length);
  }
  return answers;
}

test('bodies that are longer than a slab, side by side', async () => {
  const { url } = await openThreaded({ models: { echo: echoSession('uint8') } });
  const sizes = [20 * 2 ** 20, 8 * 2 ** 20, 9 * 2 ** 20, 1];
  const answers = sizes.map((size, index) => {
    const given = { name: 'in', datatype: 'UINT8', shape: [size] };
    const inputs = [{ ...given, parameters: { binary_data_size: size } }];
    const head = { inputs, parameters: { binary_data_output: true } };
    return request(url, { path: ECHO, ...binaryRequest(head, Buffer.alloc(size, index + 1)) });
  });
  for (const [index, answer] of answers.entries()) {
    const { data } = binaryResponse(await answer);
    expect(data.equals(Buffer.alloc(sizes[index]!, index + 1))).toBe(true);
  }
  await untilMetric(url, 'held_bytes', 0);
});

test('what is read by several threads is joined in one run', async () => {
  joinAll();
  const session = doublingSession();
  const { url } = await openThreaded({ models: { double: session } });
  session.hold();
  const answers = Array.from({ length: 9 }, (_, index) =>
    postJson(url, INFER, doublingRequest([[index, 1]])),
  );
  // No thread has more than three of the nine connections.
  await untilMetric(url, 'queue_length{model="double"}', 8);
  session.open();
  (await Promise.all(answers)).forEach((one, index) =>
    expect(json(one).outputs).toMatchObject([
      { shape: [1, 2], data: [2 * index, 2] },
      { shape: [1], data: [index + 1] },
    ]),
  );
  expect(session.runs.map(({ feeds }) => feeds.x!.dims[0])).toEqual([1, 8]);
});

test('a session that takes parts gets them as the threads have read them', async () => {
  const given: { dims: readonly number[]; isShared: boolean; data: number[] }[][] = [];
  const { inputMetadata, outputMetadata, inputNames, outputNames } = doublingSession();
  const session = {
    ...{ inputMetadata, outputMetadata, inputNames, outputNames },
    run: () => Promise.reject(new Error('never called')),
    runJoined: async ({ x }: Record<string, readonly { dims: readonly number[]; data: Float32Array }[]>) => {
      const parts = x!.map(({ dims, data }) => ({
        dims,
        isShared: Object.prototype.toString.call(data.buffer) === '[object SharedArrayBuffer]',
        data: [...data],
      }));
      given.push(parts);
      const rows = parts.reduce((sum, { dims }) => sum + dims[0]!, 0);
      const all = Float32Array.from(parts.flatMap(({ data }) => data));
      return {
        y: { type: 'float32', dims: [rows, 2], data: all.map((one) => 2 * one) },
        sum: { type: 'float32', dims: [rows], data: new Float32Array(rows) },
      };
    },
  };
  const { url } = await openThreaded({ models: { double: session as never } });
  const received = await postJson(url, INFER, doublingRequest([[1, 2]]));
  expect(json(received).outputs).toMatchObject([{ data: [2, 4] }, { data: [0] }]);
  const size = 8;
  const x = { name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: size } };
  const sent = binaryRequest({ inputs: [x] }, Buffer.from(Float32Array.of(3, 4).buffer));
  await request(url, { path: INFER, ...sent });
  expect(given).toEqual([
    [{ dims: [1, 2], isShared: true, data: [1, 2] }],
    [{ dims: [1, 2], isShared: true, data: [3, 4] }],
  ]);
});

test('a run that nobody waits for keeps its inputs, whatever comes after it', async () => {
  const session = doublingSession();
  const seen: number[][] = [];
  const runJoined = async (
    { x }: Record<string, readonly { data: Float32Array }[]>,
    fetches: readonly string[],
    { signal }: { signal: AbortSignal },
  ) => {
    // Sessions of other packages may want more of it than those of this one.
    expect(signal).toBeInstanceOf(AbortSignal);
    const { data } = x![0]!;
    const feed = { type: 'float32', dims: [data.length / 2, 2], data };
    const results = await session.run({ x: feed }, fetches, { signal });
    seen.push([data[0]!, data.at(-1)!, new Set(data).size]);
    return results;
  };
  const { inputMetadata, outputMetadata, inputNames, outputNames } = session;
  const model = {
    inputMetadata,
    outputMetadata,
    inputNames,
    outputNames,
    run: () => Promise.reject(new Error('never called')),
    runJoined,
  };
  const { url } = await openThreaded({ models: { double: model as never } });
  session.hold();
  const rows = 50_000;
  const sent = (element: number) => {
    const parameters = { binary_data_size: 8 * rows };
    const inputs = [{ name: 'x', datatype: 'FP32', shape: [rows, 2], parameters }];
    const data = Buffer.from(new Float32Array(2 * rows).fill(element).buffer);
    return binaryRequest({ inputs, parameters: { binary_data_output: true } }, data);
  };
  const { headers, body } = sent(-1);
  const gone = await RawConnection.open(url);
  const head = Object.entries({ ...headers, 'Content-Length': body.length }).map((entry) => entry.join(': '));
  gone.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\n${head.join('\r\n')}\r\n\r\n`);
  gone.socket.write(body);
  await until(() => session.runs.length === 1);
  gone.socket.destroy();
  await until(() => session.runs[0]!.signal.aborted);
  // They are read beside the first one's body, not over it.
  const answers = Array.from({ length: 9 }, (_, index) => request(url, { path: INFER, ...sent(index) }));
  await untilMetric(url, 'queue_length{model="double"}', 9);
  session.open();
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(new Array(9).fill(200));
  expect(seen[0]).toEqual([-1, -1, 1]);
  expect(seen.slice(1).sort(([a], [b]) => a! - b!)).toEqual(
    Array.from({ length: 9 }, (_, index) => [index, index, 1]),
  );
});

describe('limits hold for all threads together:', () => {
  test('maxQueue', async () => {
    const session = doublingSession();
    const { url } = await openThreaded({ models: { double: { session, maxBatch: 1 } }, maxQueue: 5 });
    session.hold();
    const held = await sendAll(url, new Array<object>(6).fill(GOOD));
    expect(await metric(url, 'queue_length{model="double"}')).toBe(5);
    const refused = await Promise.all([1, 2, 3, 4, 5, 6].map(() => postJson(url, INFER, GOOD)));
    for (const one of refused) {
      expect([one.status, one.headers['retry-after']]).toEqual([503, '1']);
      expect(json(one)).toEqual({ error: expect.stringMatching(/^5 requests are waiting for/) });
    }
    session.open();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(new Array(6).fill(200));
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    expect(await metric(url, 'queue_length{model="double"}')).toBe(0);
  });

  test('maxQueue, where all come at once', async () => {
    const session = doublingSession();
    const { url } = await openThreaded({ models: { double: { session, maxBatch: 1 } }, maxQueue: 5 });
    session.hold();
    const answers = Array.from({ length: 40 }, () => postJson(url, INFER, GOOD));
    await untilMetric(url, answered('double', 503), 34);
    expect(await metric(url, 'queue_length{model="double"}')).toBe(5);
    session.open();
    const statuses = (await Promise.all(answers)).map(({ status }) => status).sort();
    expect(statuses).toEqual([...new Array<number>(6).fill(200), ...new Array<number>(34).fill(503)]);
  });

  test('maxHeldBytes', async () => {
    const session = doublingSession();
    const limits = { maxBodyBytes: 1000, maxHeldBytes: 2500 };
    const { url } = await openThreaded({ models: { double: session }, ...limits });
    session.hold();
    const padded = { ...GOOD, id: 'x'.repeat(600) };
    const { length } = JSON.stringify(padded);
    const held = await sendAll(url, [padded, padded, padded]);
    expect(await metric(url, 'held_bytes')).toBe(3 * length);
    for (let reader = 0; reader < 3; reader++) {
      for (const body of [JSON.stringify(padded), [JSON.stringify(padded)]]) {
        const refused = await request(url, { path: INFER, body });
        expect([refused.status, json(refused)]).toEqual([
          503,
          { error: expect.stringContaining('as many bytes') },
        ]);
      }
    }
    session.open();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200, 200]);
    await untilMetric(url, 'held_bytes', 0);
    expect((await postJson(url, INFER, padded)).status).toBe(200);
  });
});

describe('time that is up, and clients that go', () => {
  test('a model that does not answer is answered for by 504, and its run is told to stop', async () => {
    const session = doublingSession();
    const { url } = await openThreaded({ models: { double: session }, timeout: 400 });
    session.hold();
    const answers = await Promise.all([1, 2, 3, 4].map(() => postJson(url, INFER, GOOD)));
    expect(answers.map((one) => [one.status, json(one)])).toEqual(
      new Array(4).fill([504, { error: `model 'double' had not answered after 400 ms` }]),
    );
    await until(() => session.runs[0]!.signal.aborted);
    session.open();
    await untilMetric(url, 'queue_length{model="double"}', 0);
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    await untilMetric(url, 'held_bytes', 0);
  });

  test('a body that does not come is answered by 408', async () => {
    const { url } = await openThreaded({ models: { double: doublingSession() }, timeout: 400 });
    const connections = await Promise.all(Array.from({ length: 6 }, () => RawConnection.open(url)));
    for (const connection of connections)
      connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{`);
    await until(() => connections.every(({ received }) => received.includes('HTTP/1.1 408 ')));
    connections.forEach(({ socket }) => socket.destroy());
    await untilMetric(url, 'held_bytes', 0);
    await untilMetric(url, 'requests_in_flight', 0);
  });

  test('clients that go leave the queue, and the run of the last one is told to stop', async () => {
    const session = doublingSession();
    const { url } = await openThreaded({ models: { double: session } });
    session.hold();
    const text = JSON.stringify(GOOD);
    const connections: RawConnection[] = [];
    for (let count = 1; count <= 6; count++) {
      const connection = await RawConnection.open(url);
      connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
      await untilMetric(url, 'requests_in_flight', count);
      connections.push(connection);
    }
    await untilMetric(url, 'queue_length{model="double"}', 5);
    expect(session.runs[0]!.signal.aborted).toBe(false);
    connections.forEach(({ socket }) => socket.destroy());
    await until(() => session.runs[0]!.signal.aborted);
    await untilMetric(url, 'queue_length{model="double"}', 0);
    session.open();
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    expect(session.runs.length).toBe(2);
    await untilMetric(url, answered('double', 499), 6);
    await untilMetric(url, 'held_bytes', 0);
  });
});

/** Does something once for each of the three threads: the next connection is that thread's. */
async function forEachThread(url: string, ask: () => Promise<void>): Promise<void> {
  const connections: RawConnection[] = [];
  for (let thread = 0; thread < 3; thread++) {
    await ask();
    // That thread has one more than the next.
    connections.push(await RawConnection.open(url));
  }
  connections.forEach(({ socket }) => socket.destroy());
}

test('each thread refuses what is wrong, and answers HEAD and OPTIONS', async () => {
  const { url } = await openThreaded({ models: { double: doublingSession() } });
  await forEachThread(url, async () => {
    const statusOf = async (sent: Parameters<typeof request>[1]) => (await request(url, sent)).status;
    expect(await statusOf({ path: '/v2/models/treble' })).toBe(404);
    expect(await statusOf({ path: INFER })).toBe(405);
    expect(await statusOf({ path: '/v2', body: '{}' })).toBe(405);
    expect(await statusOf({ path: INFER, headers: { 'Content-Type': 'text/html' }, body: '{}' })).toBe(415);
    expect(await statusOf({ path: INFER, headers: { 'Content-Encoding': 'zstd' }, body: '{}' })).toBe(415);
    expect(await statusOf({ path: INFER, body: '{}' })).toBe(400);
    const get = await request(url, { path: '/v2/models/double' });
    const head = await request(url, { path: '/v2/models/double', method: 'HEAD' });
    expect([head.status, head.headers['content-length'], head.body.length]).toEqual([
      200,
      String(get.body.length),
      0,
    ]);
    const options = await request(url, { path: INFER, method: 'OPTIONS' });
    expect([options.status, options.headers.allow]).toEqual([200, 'POST, OPTIONS']);
    expect(json(get)).toMatchObject({ inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }] });
    expect(json(await request(url, { path: '/v2/health/ready' }))).toEqual({ ready: true });
  });
});

describe('failures', () => {
  test('of the session reach the logger once each, as they were thrown', async () => {
    const error = jest.fn();
    const thrown: Error[] = [];
    const { inputMetadata, outputMetadata } = doublingSession();
    const session = new FakeSession(inputMetadata, outputMetadata, () => {
      const failure = Object.assign(new Error('said why'), { code: 'EACCES', more: { deep: true } });
      thrown.push(failure);
      throw failure;
    });
    const { url } = await openThreaded({ models: { double: session }, logger: { error } });
    for (let count = 1; count <= 6; count++) {
      const received = await postJson(url, INFER, GOOD);
      expect([received.status, json(received)]).toEqual([
        500,
        { error: 'the model failed; the log of the server says why' },
      ]);
      expect(error).toHaveBeenCalledTimes(count);
      expect(error.mock.lastCall).toEqual([{ err: expect.anything(), model: 'double' }, 'a request failed']);
      expect((error.mock.lastCall as [{ err: unknown }])[0].err).toBe(thrown.at(-1));
    }
    await setTimeout(50);
    expect(error).toHaveBeenCalledTimes(6);
  });

  test.each([
    ['ERR_WARPCONV_INVALID_ARGUMENT', 400, 0],
    ['ERR_WARPCONV_OUT_OF_MEMORY', 503, 0],
    ['ERR_WARPCONV_CUDA', 500, 1],
  ])('with %s are answered by %i', async (code, status, reports) => {
    const error = jest.fn();
    const { inputMetadata, outputMetadata } = doublingSession();
    const session = new FakeSession(inputMetadata, outputMetadata, () => {
      throw Object.assign(new Error('said why'), { code });
    });
    const { url } = await openThreaded({ models: { double: session }, logger: { error } });
    const received = await postJson(url, INFER, GOOD);
    expect([received.status, json(received)]).toEqual([status, { error: 'said why' }]);
    expect(received.headers['retry-after']).toBe(status === 503 ? '1' : undefined);
    expect(error).toHaveBeenCalledTimes(reports);
  });

  test('of outputs that are too long for JSON are no failures', async () => {
    const error = jest.fn();
    const models = { echo: echoSession('uint8') };
    const { url } = await openThreaded({ models, maxJsonBytes: 1000, logger: { error } });
    const bytes = Buffer.alloc(600, 1);
    const inputs = [{ name: 'in', datatype: 'UINT8', shape: [600], parameters: { binary_data_size: 600 } }];
    expect((await request(url, { path: ECHO, ...binaryRequest({ inputs }, bytes) })).status).toBe(406);
    expect(error).not.toHaveBeenCalled();
  });
});

describe('metrics', () => {
  test('add up what all threads have counted, on each of them and by the handler', async () => {
    const models = { double: doublingSession(), other: doublingSession() };
    const { url, handler } = await openThreaded({ models });
    await Promise.all(Array.from({ length: 20 }, () => postJson(url, INFER, GOOD)));
    await Promise.all(Array.from({ length: 7 }, () => postJson(url, INFER, {})));
    await Promise.all(
      Array.from({ length: 5 }, () => postJson(url, '/v2/models/other/infer', doublingRequest([[1, 2]]))),
    );
    const expected = [20, 7, 5, 27, 0];
    const counted = (page: string) =>
      [
        answered('double', 200),
        answered('double', 400),
        answered('other', 200),
        'request_duration_seconds_count{model="double"}',
        'requests_in_flight',
      ].map((name) => read(page, name));
    await forEachThread(url, async () => {
      const { status, body } = await request(url, { path: '/metrics' });
      expect([status, counted(body.toString())]).toEqual([200, expected]);
    });
    expect(counted(handler.metrics())).toEqual(expected);
    expect(handler.metrics().match(/^warpconv_requests_in_flight /gm)).toHaveLength(1);
  });

  test('by the handler are no older than about a second', async () => {
    const session = doublingSession();
    const { url, handler } = await openThreaded({ models: { double: session } });
    await Promise.all([1, 2, 3, 4].map(() => postJson(url, INFER, GOOD)));
    const started = performance.now();
    await until(() => read(handler.metrics(), answered('double', 200)) === 4);
    session.hold();
    const held = [1, 2, 3, 4].map(() => postJson(url, INFER, GOOD));
    await until(() => read(handler.metrics(), 'requests_in_flight') === 4);
    // The queue and the memory are as they are now.
    expect(read(handler.metrics(), 'queue_length{model="double"}')).toBe(3);
    expect(read(handler.metrics(), 'held_bytes')).toBe(4 * JSON.stringify(GOOD).length);
    session.open();
    await Promise.all(held);
    await until(() => read(handler.metrics(), answered('double', 200)) === 8);
    expect(performance.now() - started).toBeLessThan(8000);
  });

  test('asked for by many at once', async () => {
    const { url } = await openThreaded({ models: { double: doublingSession() } });
    await postJson(url, INFER, GOOD);
    const pages = await Promise.all(Array.from({ length: 50 }, () => request(url, { path: '/metrics' })));
    for (const { body } of pages) expect(read(body.toString(), answered('double', 200))).toBe(1);
  });
});

describe('the option threads', () => {
  test.each([0, -1, 1.5, 257, 'x', '3', null, NaN, 2n, {}])('%p is refused', async (threads) => {
    const before = threadsOfProcess();
    await expect(
      openThreaded({ models: { double: doublingSession() }, threads: threads as number }),
    ).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/^options\.threads must be a positive integer( of at most 256)?, got /),
    });
    expect(threadsOfProcess()).toBe(before);
  });

  test.each([1, 2, 7, undefined])('%p is taken', async (threads) => {
    const { url } = await openThreaded({ models: { double: doublingSession() }, threads });
    const answers = await Promise.all(Array.from({ length: 16 }, () => postJson(url, INFER, GOOD)));
    expect(answers.map(({ status }) => status)).toEqual(new Array(16).fill(200));
  });
});

/** Until the process has as many threads as before. */
async function untilThreads(count: number): Promise<void> {
  await until(() => threadsOfProcess() <= count);
}

describe('the end', () => {
  test('a port that is taken is the system’s error, and no thread is left', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    const before = threadsOfProcess();
    for (let round = 0; round < 2; round++) {
      await expect(openThreaded({ models: { double: doublingSession() }, port })).rejects.toMatchObject({
        code: 'EADDRINUSE',
      });
    }
    await untilThreads(before);
    await new Promise((resolve) => other.close(resolve));
  });

  test('close() ends the threads, and once more does nothing', async () => {
    const before = threadsOfProcess();
    const { url, close } = await openThreaded({ models: { double: doublingSession() } });
    expect(threadsOfProcess()).toBeGreaterThan(before);
    expect((await postJson(url, INFER, GOOD)).status).toBe(200);
    await Promise.all([close(), close()]);
    await close();
    await untilThreads(before);
    await expect(request(url, { path: '/v2' })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('close() ends connections that are idle, after a moment', async () => {
    const { url, close } = await openThreaded({ models: { double: doublingSession() } });
    const connections = await Promise.all(Array.from({ length: 9 }, () => RawConnection.open(url)));
    for (const connection of connections) {
      connection.write('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
      await until(() => connection.received.includes('{"live":true}'));
    }
    const started = performance.now();
    await close();
    await Promise.all(connections.map(({ closed }) => closed));
    expect(performance.now() - started).toBeLessThan(4000);
  });

  test('close() ends connections on which nothing was ever sent', async () => {
    const { url, close } = await openThreaded({ models: { double: doublingSession() } });
    const connections = await Promise.all(Array.from({ length: 6 }, () => RawConnection.open(url)));
    expect(await metric(url, 'requests_in_flight')).toBe(0);
    await close();
    await Promise.all(connections.map(({ closed }) => closed));
  });

  test('close() waits for what was accepted by any thread', async () => {
    const session = doublingSession();
    const { url, close } = await openThreaded({ models: { double: session } });
    session.hold();
    const answers = await sendAll(url, new Array<object>(6).fill(GOOD));
    let isClosed = false;
    const closed = close().then(() => (isClosed = true));
    await until(() => session.runs.length === 1);
    let late = 200;
    while (late !== 503) ({ status: late } = await request(url, { path: '/v2/health/ready' }));
    for (let thread = 0; thread < 3; thread++) expect((await postJson(url, INFER, GOOD)).status).toBe(503);
    expect(isClosed).toBe(false);
    session.open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(new Array(6).fill(200));
    await closed;
  });

  test('handler.close() answers by 503 what waits on any thread', async () => {
    const session = doublingSession();
    const { url, handler } = await openThreaded({ models: { double: session } });
    session.hold();
    const answers = await sendAll(url, new Array<object>(6).fill(GOOD));
    handler.close();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(new Array(6).fill(503));
    expect(session.runs[0]!.signal.aborted).toBe(true);
    session.open();
    // It goes on answering, by 503, whoever connects while the threads end.
    for (let round = 0; round < 50; round++)
      expect((await request(url, { path: '/v2/health/ready' })).status).toBe(503);
  });

  test('two servers of one process have threads and limits of their own', async () => {
    const sessions = [doublingSession(), doublingSession()];
    const servers = await Promise.all(
      sessions.map((session) =>
        openThreaded({ models: { double: { session, maxBatch: 1 } }, maxQueue: 1, threads: 2 }),
      ),
    );
    sessions[0]!.hold();
    const held = await sendAll(servers[0]!.url, [GOOD, GOOD]);
    expect((await postJson(servers[0]!.url, INFER, GOOD)).status).toBe(503);
    expect((await postJson(servers[1]!.url, INFER, GOOD)).status).toBe(200);
    await servers[1]!.close();
    sessions[0]!.open();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
  });
});

test('500 connections that came and went leave no file open', async () => {
  const server = await ThreadedServer.start();
  const files = () => server.ask<number>('files');
  const visit = async (count: number) => {
    const clients = Array.from({ length: count }, () => new KeptClient(server.url));
    for (const { status, data } of await Promise.all(clients.map((one) => one.echo(Buffer.of(5))))) {
      expect([status, data]).toEqual([200, Buffer.of(5)]);
    }
    clients.forEach((client) => client.close());
  };
  await visit(50);
  await setTimeout(100);
  const before = await files();
  for (let round = 0; round < 10; round++) await visit(50);
  // Some go before their answers come, or without a word.
  const connections = await Promise.all(Array.from({ length: 30 }, () => RawConnection.open(server.url)));
  connections.forEach((connection, index) => {
    if (index % 2 === 0) connection.write('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    if (index % 3 === 0) connection.socket.resetAndDestroy();
    else connection.socket.destroy();
  });
  while ((await files()) > before) await setTimeout(20);
  expect(await server.ask('failures')).toEqual([]);
  await server.close();
});

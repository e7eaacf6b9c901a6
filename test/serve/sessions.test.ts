/** Several sessions of one model, and what a session on a GPU has at once. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

import { createHandler, type ServedSession, type ServeOptions } from '../../lib/serve';
import { BatchSizes } from '../../lib/serve/batch_sizes';
import { Batcher } from '../../lib/serve/batcher';
import { Cancellation } from '../../lib/serve/cancellation';
import { readModel } from '../../lib/serve/model';
import { InferenceSession } from '../../lib/session/session';
import { node, onnxModel, value as onnxValue } from '../support/onnx_builder';
import { json, postJson, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, openThreaded, until } from './support/serving';

// Runs are joined by the built package where several threads read.
jest.mock('../../lib/serve/batch_sizes', () => jest.requireActual<object>('../../dist/serve/batch_sizes'));

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

const INFER = '/v2/models/double/infer';
const one = (x: number): object => doublingRequest([[x, -x]]);

type Placed = FakeSession & { device?: string };

/** A doubling session that says where it runs; nowhere without a device. */
function on(device?: string): Placed {
  return Object.assign(doublingSession(), device !== undefined && { device });
}

const rowsOf = ({ runs }: FakeSession) => runs.map(({ feeds }) => feeds.x!.dims[0]!);
const firstsOf = ({ runs }: FakeSession) =>
  runs.map(({ feeds }) => Array.from(feeds.x!.data as Float32Array).filter((_, index) => index % 2 === 0));

function expectDoubled(received: Received, x: number): void {
  expect([received.status, json(received).outputs]).toMatchObject([
    200,
    [{ data: [2 * x, 0 - 2 * x] }, { data: [0] }],
  ]);
}

async function metric(url: string, name: string): Promise<number> {
  const page = (await request(url, { path: '/metrics' })).body.toString();
  const line = page.split('\n').find((text) => text.startsWith(`warpconv_${name} `));
  return Number(line?.split(' ').at(-1) ?? 0);
}

async function untilWaiting(url: string, count: number): Promise<void> {
  while ((await metric(url, 'queue_length{model="double"}')) !== count);
}

describe.each([
  ['one thread', open],
  ['two threads', openThreaded],
])('%s: several sessions', (_, start) => {
  const serveAll = async (
    session: readonly ServedSession[],
    options: Omit<ServeOptions, 'models'> = {},
    maxBatch = 1,
  ) => (await start({ models: { double: { session, maxBatch } }, ...options })).url;

  test('run at once, and requests beyond wait for the first that is idle', async () => {
    const sessions = [on(), on('cpu'), on()];
    const url = await serveAll(sessions);
    sessions.forEach((session) => session.hold());
    const answers = [1, 2, 3].map((x) => postJson(url, INFER, one(x)));
    await until(() => sessions.every(({ runs }) => runs.length === 1));
    answers.push(postJson(url, INFER, one(4)));
    await untilWaiting(url, 1);
    sessions[1]!.open();
    await until(() => sessions[1]!.runs.length === 2);
    expect(sessions.map(rowsOf)).toEqual([[1], [1, 1], [1]]);
    sessions.forEach((session) => session.open());
    (await Promise.all(answers)).forEach((answer, index) => expectDoubled(answer, index + 1));
  });

  test('are used as they are idle', async () => {
    const [busy, idle] = [on(), on()];
    const url = await serveAll([busy, idle]);
    busy.hold();
    const held = postJson(url, INFER, one(0));
    await until(() => busy.runs.length === 1);
    for (const x of [1, 2, 3, 4, 5]) expectDoubled(await postJson(url, INFER, one(x)), x);
    expect([busy.runs.length, idle.runs.length]).toEqual([1, 5]);
    busy.open();
    expectDoubled(await held, 0);
  });

  test('one that fails does not fail the others’ requests', async () => {
    const { inputMetadata, outputMetadata } = doublingSession();
    const failing = new FakeSession(inputMetadata, outputMetadata, () => {
      throw new Error('no');
    });
    const working = on();
    const error = jest.fn();
    const url = await serveAll([failing, working], { logger: { error } });
    [failing, working].forEach((session) => session.hold());
    const answers = [postJson(url, INFER, one(1))];
    await until(() => failing.runs.length === 1);
    answers.push(postJson(url, INFER, one(2)));
    await until(() => working.runs.length === 1);
    [failing, working].forEach((session) => session.open());
    const [bad, good] = await Promise.all(answers);
    expect(bad!.status).toBe(500);
    expectDoubled(good!, 2);
    expect(error).toHaveBeenCalledTimes(1);
  });

  test('answer 64 clients at once, each by its own values', async () => {
    const delayed = (milliseconds: number) => {
      const { inputMetadata, outputMetadata, compute } = doublingSession();
      const session = new FakeSession(inputMetadata, outputMetadata, compute);
      const run = session.run.bind(session);
      session.run = async (...args) => {
        await setTimeout(milliseconds * Math.random());
        return run(...args);
      };
      return session;
    };
    const sessions = [delayed(1), delayed(4), Object.assign(delayed(2), { device: 'cpu' })];
    const url = await serveAll(sessions, {}, 32);
    const ROUNDS = 8;
    const client = async (index: number) => {
      for (let round = 0; round < ROUNDS; round++) {
        const x = 1000 * index + round;
        expectDoubled(await postJson(url, INFER, one(x)), x);
      }
    };
    await Promise.all(Array.from({ length: 64 }, (_, index) => client(index)));
    // Into how many runs they are joined depends on what else the machine does.
    const rowsOf = ({ runs }: FakeSession) => runs.reduce((sum, { feeds }) => sum + feeds['x']!.dims[0]!, 0);
    const rows = sessions.map(rowsOf);
    expect(rows.reduce((sum, count) => sum + count)).toBe(64 * ROUNDS);
    expect(Math.min(...rows)).toBeGreaterThan(0);
    while ((await metric(url, 'held_bytes')) > 0);
  });

  test('are drained', async () => {
    const sessions = [on(), on()];
    const server = await start({ models: { double: { session: sessions, maxBatch: 1 } } });
    sessions.forEach((session) => session.hold());
    const answers = [1, 2, 3, 4].map((x) => postJson(server.url, INFER, one(x)));
    while ((await metric(server.url, 'requests_in_flight')) < 4);
    const closed = server.close();
    sessions.forEach((session) => session.open());
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await closed;
  });
});

test('real sessions on several threads take images, too', async () => {
  const model = onnxModel({
    inputs: [onnxValue('x', ['N', 1, 1, 2])],
    nodes: [node('Identity', ['x'], ['y'])],
    outputs: [onnxValue('y', ['N', 1, 1, 2])],
  });
  const sessions = await Promise.all([1, 2].map(() => InferenceSession.create(model, { device: 'cpu' })));
  const { url, close } = await openThreaded({
    models: { double: { session: sessions, image: { scale: 1 } } },
  });
  const ask = async (x: number) => {
    const isImage = x % 2 === 0;
    const given = {
      name: 'x',
      datatype: isImage ? 'UINT8' : 'FP32',
      shape: isImage ? [1, 1, 2, 1] : [1, 1, 1, 2],
    };
    const received = await postJson(url, INFER, { inputs: [{ ...given, data: [x, x + 1] }] });
    expect(json(received).outputs).toMatchObject([{ shape: [1, 1, 1, 2], data: [x, x + 1] }]);
  };
  await Promise.all(Array.from({ length: 64 }, (_, x) => ask(x)));
  await close();
  await Promise.all(sessions.map((session) => session.release()));
});

describe('refused is', () => {
  const other = new FakeSession(
    [value('x', 'float32', ['N', 3])],
    doublingSession().outputMetadata,
    () => ({}),
  );
  test.each<[string, unknown, string]>([
    ['an empty list', [], 'options.models.a.session must be an InferenceSession, or several, got []'],
    [
      'a list of what is none',
      [on(), {}],
      'options.models.a.session[1] must be an InferenceSession, got an object',
    ],
    [
      'a list with a hole',
      [on(), , on()],
      'options.models.a.session[1] must be an InferenceSession, got undefined',
    ],
    ['a list of lists', [[on()]], 'options.models.a.session[0] must be an InferenceSession, got'],
    ['another model', [on(), on(), other], 'options.models.a.session[2] has other inputs or outputs than'],
  ])('%s', (_, session, message) => {
    expect(() => createHandler({ models: { a: { session: session as ServedSession[] } } })).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining(message),
      }),
    );
  });

  test('no list of one, or of sessions that say the same', () => {
    createHandler({
      models: { a: { session: [on()] }, b: { session: [on('cuda:0'), on('cuda:1')] } },
    }).close();
  });
});

/** A queue without a server. */
function queueOf(
  session: readonly ServedSession[],
  maxBatch: number,
): { ask: (x: number) => Promise<number>; batcher: Batcher } {
  const model = readModel('options.models.double', 'double', { session, maxBatch });
  const batcher = new Batcher(model, 1000, () => {});
  const ask = async (x: number, cancellation = new Cancellation()) => {
    const tensor = { type: 'float32', dims: [1, 2], data: Float32Array.of(x, 0), location: 'cpu' } as const;
    const { tensors } = await batcher.run(new Map([['x', tensor]]), model.outputs, cancellation);
    return Number(tensors[0]!.elements[0]);
  };
  return { ask, batcher };
}

const turns = () => setTimeout(5);

describe('a session on a GPU', () => {
  test('has a second run behind the first, where as many wait as a run joins, and never a third', async () => {
    joinAll();
    const session = on('cuda:0');
    const { ask, batcher } = queueOf([session], 4);
    session.hold();
    const answers = [ask(0)];
    await turns();
    for (const [x, rows] of [
      [1, [1]],
      [2, [1]],
      [3, [1]],
      // Four are as many as a run takes.
      [4, [1, 4]],
      [5, [1, 4]],
      [6, [1, 4]],
      [7, [1, 4]],
      [8, [1, 4]],
    ] as const) {
      answers.push(ask(x));
      await turns();
      expect(rowsOf(session)).toEqual(rows);
    }
    expect(batcher.waiting).toBe(4);
    session.open();
    expect(await Promise.all(answers)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8].map((x) => 2 * x));
    expect(firstsOf(session)).toEqual([[0], [1, 2, 3, 4], [5, 6, 7, 8]]);
  });

  test('has a second run of one request, where none are joined', async () => {
    const session = on('cuda:0');
    const { ask } = queueOf([session], 1);
    session.hold();
    const answers = [1, 2, 3, 4].map((x) => ask(x));
    await turns();
    expect(firstsOf(session)).toEqual([[1], [2]]);
    session.open();
    expect(await Promise.all(answers)).toEqual([2, 4, 6, 8]);
    expect(firstsOf(session)).toEqual([[1], [2], [3], [4]]);
  });

  test.each(['cpu', undefined])('unlike one on %s', async (device) => {
    const session = on(device);
    const { ask } = queueOf([session], 1);
    session.hold();
    const answers = [1, 2, 3].map((x) => ask(x));
    await turns();
    expect(session.runs.length).toBe(1);
    session.open();
    expect(await Promise.all(answers)).toEqual([2, 4, 6]);
  });

  test('has its second run after the others have their first', async () => {
    const sessions = [on('cuda:0'), on('cuda:1')];
    const { ask } = queueOf(sessions, 1);
    sessions.forEach((session) => session.hold());
    const answers: Promise<number>[] = [];
    for (const counts of [
      [1, 0],
      [1, 1],
      [2, 1],
      [2, 2],
      [2, 2],
    ]) {
      answers.push(ask(answers.length));
      await turns();
      expect(sessions.map(({ runs }) => runs.length)).toEqual(counts);
    }
    sessions[1]!.open();
    await until(() => sessions[1]!.runs.length === 3);
    sessions[0]!.open();
    expect(await Promise.all(answers)).toEqual([0, 2, 4, 6, 8]);
  });

  test('has its second run beside a busy one on the CPU', async () => {
    const sessions = [on('cuda:0'), on('cpu')];
    const { ask } = queueOf(sessions, 1);
    sessions.forEach((session) => session.hold());
    const answers = [1, 2, 3].map((x) => ask(x));
    await turns();
    expect(sessions.map(({ runs }) => runs.length)).toEqual([2, 1]);
    sessions.forEach((session) => session.open());
    await Promise.all(answers);
  });

  // The least busy session is looked for first, and of equals the first is taken, whatever it may have at once.
  test('has its second run beside a busy one on the CPU that comes first in the list', async () => {
    const sessions = [on('cpu'), on('cuda:0')];
    const { ask } = queueOf(sessions, 1);
    sessions.forEach((session) => session.hold());
    const answers = [1, 2, 3].map((x) => ask(x));
    await turns();
    const counts = sessions.map(({ runs }) => runs.length);
    sessions.forEach((session) => session.open());
    await Promise.all(answers);
    expect(counts).toEqual([1, 2]);
  });

  test('answers what failed together one by one, also behind another run', async () => {
    joinAll();
    const { inputMetadata, outputMetadata, compute } = doublingSession();
    const session = Object.assign(
      new FakeSession(inputMetadata, outputMetadata, (feeds) => {
        if ((feeds.x!.data as Float32Array).includes(13)) throw new Error('13');
        return compute(feeds);
      }),
      { device: 'cuda:0' },
    );
    const { ask } = queueOf([session], 4);
    session.hold();
    const answers = [ask(0)];
    await turns();
    for (const x of [1, 13, 3, 4, 5, 6, 7, 8]) answers.push(ask(x));
    await turns();
    session.open();
    const settled = await Promise.allSettled(answers);
    expect(
      settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message)),
    ).toEqual([...[0, 2, '13', 6, 8, 10, 12, 14, 16]]);
    expect(
      firstsOf(session)
        .filter((xs) => xs.length === 1)
        .flat()
        .sort((a, b) => a - b),
    ).toEqual([0, 1, 3, 4, 13]);
  });

  test('is free for others while a client that left is still in a run', async () => {
    const session = on('cuda:0');
    const { ask, batcher } = queueOf([session], 1);
    session.hold();
    const cancellation = new Cancellation();
    const tensor = { type: 'float32', dims: [1, 2], data: Float32Array.of(9, 0), location: 'cpu' } as const;
    const left = batcher.run(new Map([['x', tensor]]), batcher.model.outputs, cancellation);
    const second = ask(1);
    const third = ask(2);
    await turns();
    cancellation.request(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect(session.runs.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    session.open();
    expect(await Promise.all([second, third])).toEqual([2, 4]);
  });

  // Memory for bodies is pinned for a GPU that the package has not opened, and the process ends with that error.
  test('of another package is served, read by two threads', async () => {
    const script = path.join(__dirname, 'children/foreign_gpu.cjs');
    const { stdout } = await promisify(execFile)(process.execPath, [script]);
    expect(stdout).toBe('200 7\n');
  });

  test('a client that leaves takes its waiting request along', async () => {
    const session = on('cuda:0');
    const { url } = await open({ models: { double: { session, maxBatch: 1 } } });
    session.hold();
    const answers = [1, 2].map((x) => postJson(url, INFER, one(x)));
    await until(() => session.runs.length === 2);
    const text = JSON.stringify(one(3));
    const connection = await RawConnection.open(url);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    await untilWaiting(url, 1);
    connection.socket.destroy();
    await untilWaiting(url, 0);
    session.open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
    expect(session.runs.length).toBe(2);
  });
});

describe('sizes of batches', () => {
  test('are measured for each session by itself', async () => {
    const of = jest.spyOn(BatchSizes.prototype, 'of');
    const sessions = [on(), on()];
    const { ask } = queueOf(sessions, 4);
    sessions.forEach((session) => session.hold());
    const answers = [1, 2, 3].map((x) => ask(x));
    await turns();
    sessions.forEach((session) => session.open());
    await Promise.all(answers);
    expect(new Set(of.mock.contexts).size).toBe(2);
  });

  test('grow on the session where they pay, and not on the other', async () => {
    // By a simulated clock: a processor that others use, too, makes runs of 4 ms look slow.
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
    try {
      const taking = (milliseconds: (rows: number) => number) => {
        const { inputMetadata, outputMetadata, compute } = doublingSession();
        const session = new FakeSession(inputMetadata, outputMetadata, compute);
        const run = session.run.bind(session);
        session.run = async (feeds, fetches, options) => {
          const rows = feeds.x!.dims[0]!;
          await new Promise((resolve) => globalThis.setTimeout(resolve, milliseconds(rows)));
          return run(feeds, fetches, options);
        };
        return session;
      };
      const [paying, other] = [taking(() => 4), taking((rows) => 4 * rows)];
      const { ask } = queueOf([paying, other], 16);
      const end = Date.now() + 2000;
      const client = async (index: number) => {
        while (Date.now() < end) expect(await ask(index)).toBe(2 * index);
      };
      let isOver = false;
      const clients = Promise.all(Array.from({ length: 40 }, (_, index) => client(index)));
      void clients.finally(() => (isOver = true)).catch(() => {});
      while (!isOver) {
        // What a run's end brings is done before the clock goes on.
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
        jest.advanceTimersByTime(1);
      }
      await clients;
      const late = (session: FakeSession) => rowsOf(session).slice(session.runs.length >> 1);
      const mean = (rows: readonly number[]) => rows.reduce((sum, count) => sum + count, 0) / rows.length;
      process.stdout.write(`${mean(late(paying))} and ${mean(late(other))} requests in a run\n`);
      expect(mean(late(paying))).toBeGreaterThan(6);
      expect(mean(late(other))).toBeLessThan(2);
    } finally {
      jest.useRealTimers();
    }
  });
});

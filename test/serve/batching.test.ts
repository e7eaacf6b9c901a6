/** What waits while the device is busy is run together where that pays, and nobody can tell from the answers. */
import { setTimeout } from 'node:timers/promises';

import type { ServedSession } from '../../lib/serve';
import { Batcher } from '../../lib/serve/batcher';
import { Cancellation } from '../../lib/serve/cancellation';
import { readModel } from '../../lib/serve/model';
import { Random } from '../support/random';
import { json, postJson, request, type Received } from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, until } from './support/serving';

// What pays is the matter of batch_sizes.test.ts, and of the last tests here.
beforeEach(joinAll);
afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

const INFER = '/v2/models/double/infer';

type Row = readonly [number, number];

/** The rows of `x` in each run. */
const rowsOfRuns = ({ runs }: FakeSession) => runs.map(({ feeds }) => (feeds.x ?? feeds.a)!.dims[0]);

function outputOf(received: Received, name: string): { shape: number[]; data: number[] } {
  const outputs = json(received).outputs as { name: string; shape: number[]; data: number[] }[];
  return outputs.find((output) => output.name === name)!;
}

/** Sends a request and waits until the server has it; what comes back is a promise in a list, so as not to wait for it. */
async function queue(url: string, body: object, queued: () => boolean): Promise<[Promise<Received>]> {
  const answer = postJson(url, INFER, body);
  await until(queued);
  return [answer];
}

/** A server whose session is busy with a first request, and which the others are sent to one after the other. */
async function queueBehind(
  model: ServedSession | { session: ServedSession; maxBatch: number },
  session: FakeSession,
  bodies: readonly object[],
): Promise<{ url: string; first: Promise<Received>; others: Promise<Received>[] }> {
  const { url } = await open({ models: { double: model } });
  session.hold();
  const [first] = await queue(url, bodies[0]!, () => session.runs.length === 1);
  const others: Promise<Received>[] = [];
  for (const [index, body] of bodies.slice(1).entries()) {
    const length = `warpconv_queue_length{model="double"} ${index + 1}\n`;
    let metrics = '';
    const answer = postJson(url, INFER, body);
    while (!metrics.includes(length)) metrics = (await request(url, { path: '/metrics' })).body.toString();
    others.push(answer);
  }
  return { url, first, others };
}

const one = (x: number): object => doublingRequest([[x, -x]]);

test('requests that wait are run together, and each gets its own rows', async () => {
  const session = doublingSession();
  const seed = Math.floor(Math.random() * 2 ** 32);
  process.stdout.write(`seed ${seed}\n`);
  const random = new Random(seed);
  const groups = Array.from({ length: 17 }, () =>
    Array.from({ length: random.integer(1, 3) }, (): Row => [
      random.integer(-99, 99),
      random.integer(-99, 99),
    ]),
  );
  const { first, others } = await queueBehind(session, session, groups.map(doublingRequest));
  session.open();
  const answers = await Promise.all([first, ...others]);
  // Some of the 16 have as many rows as others.
  expect(session.runs.length).toBeLessThan(groups.length);
  for (const [index, rows] of groups.entries()) {
    const [y, sum] = ['y', 'sum'].map((name) => outputOf(answers[index]!, name));
    expect(y).toMatchObject({ shape: [rows.length, 2], data: rows.flat().map((element) => 2 * element) });
    expect(sum).toMatchObject({ shape: [rows.length], data: rows.map(([a, b]) => a + b) });
  }
});

/** The first elements of the rows of `x` in each run. */
const firstsOfRuns = ({ runs }: FakeSession) =>
  runs.map(({ feeds }) => Array.from(feeds.x!.data as Float32Array).filter((_, index) => index % 2 === 0));

test('a batch has 1, 2, 4 … requests, and those that wait longest come first', async () => {
  const session = doublingSession();
  const { first, others } = await queueBehind(session, session, [1, 2, 3, 4, 5, 6, 7, 8].map(one));
  session.open();
  await Promise.all([first, ...others]);
  expect(firstsOfRuns(session)).toEqual([[1], [2, 3, 4, 5], [6, 7], [8]]);
});

test('a batch has at most maxBatch rows', async () => {
  const session = doublingSession();
  const two = (x: number) =>
    doublingRequest([
      [x, -x],
      [x, -x],
    ]);
  const { first, others } = await queueBehind({ session, maxBatch: 7 }, session, [1, 2, 3, 4, 5].map(two));
  session.open();
  await Promise.all([first, ...others]);
  expect(firstsOfRuns(session)).toEqual([
    [1, 1],
    [2, 2, 3, 3],
    [4, 4, 5, 5],
  ]);
});

test('requests of different rows are not joined', async () => {
  const session = doublingSession();
  const ofRows = (rows: number) => doublingRequest(Array.from({ length: rows }, (): Row => [rows, rows]));
  const { first, others } = await queueBehind(session, session, [1, 2, 3, 2, 1, 3].map(ofRows));
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(rowsOfRuns(session)).toEqual([1, 4, 6, 1]);
  expect(answers.map((answer) => outputOf(answer, 'sum').data)).toEqual(
    [1, 2, 3, 2, 1, 3].map((rows) => Array.from({ length: rows }, () => 2 * rows)),
  );
});

test('a request of more rows than maxBatch is run by itself', async () => {
  const session = doublingSession();
  const big = doublingRequest(Array.from({ length: 5 }, (_, row): Row => [row, row]));
  const { first, others } = await queueBehind({ session, maxBatch: 3 }, session, [
    one(1),
    one(2),
    big,
    big,
    one(3),
  ]);
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(rowsOfRuns(session)).toEqual([1, 2, 5, 5]);
  expect(outputOf(answers[2]!, 'sum').data).toEqual([0, 2, 4, 6, 8]);
});

test('a batch computes what any of its requests asks for, and each gets only its own', async () => {
  const session = doublingSession();
  const asking = (x: number, ...names: string[]) => ({ ...one(x), outputs: names.map((name) => ({ name })) });
  const bodies = [one(1), asking(2, 'sum'), asking(3, 'sum')];
  const { first, others } = await queueBehind(session, session, bodies);
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(session.runs.map(({ fetches }) => fetches)).toEqual([['y', 'sum'], ['sum']]);
  expect(answers.map((answer) => (json(answer).outputs as object[]).length)).toEqual([2, 1, 1]);
});

test('requests of different shapes are not joined, and the oldest is always in the next run', async () => {
  const session = new FakeSession(
    [value('x', 'float32', ['N', 'width'])],
    [value('y', 'float32', ['N', 'width'])],
    ({ x }) => ({ y: x }),
  );
  const ofWidth = (width: number) => ({
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1, width], data: new Array(width).fill(width) }],
  });
  const { first, others } = await queueBehind(session, session, [1, 2, 3, 2, 4, 3].map(ofWidth));
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(session.runs.map(({ feeds }) => feeds.x!.dims)).toEqual([
    [1, 1],
    [2, 2],
    [2, 3],
    [1, 4],
  ]);
  expect(outputOf(answers[5]!, 'y')).toMatchObject({ shape: [1, 3], data: [3, 3, 3] });
});

test('batches of several inputs', async () => {
  const session = new FakeSession(
    [value('a', 'int64', ['N']), value('b', 'bool', ['N', 2])],
    [value('c', 'int64', ['N']), value('d', 'bool', ['N', 2])],
    ({ a, b }) => ({ c: a, d: b }),
  );
  const body = (k: number) => ({
    inputs: [
      { name: 'b', datatype: 'BOOL', shape: [1, 2], data: [k % 2 === 0, true] },
      { name: 'a', datatype: 'INT64', shape: [1], data: [k] },
    ],
  });
  const { first, others } = await queueBehind(session, session, [1, 2, 3].map(body));
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(rowsOfRuns(session)).toEqual([1, 2]);
  expect(answers.map((answer) => outputOf(answer, 'c').data)).toEqual([[1], [2], [3]]);
  expect(answers.map((answer) => outputOf(answer, 'd').data)).toEqual([
    [false, true],
    [true, true],
    [false, true],
  ]);
});

describe('models are run one request at a time', () => {
  const compute: FakeSession['compute'] = ({ x }) => ({ y: x });
  test.each([
    ['whose rows are fixed', [1, 2], [1, 2]],
    ['whose outputs have other rows', ['N', 2], ['detections', 2]],
    ['whose rows have no name', ['', 2], ['', 2]],
    ['whose rows are given as -1', [-1, 2], [-1, 2]],
  ])('%s', async (_, inputShape, outputShape) => {
    const [inputs, outputs] = [[value('x', 'float32', inputShape)], [value('y', 'float32', outputShape)]];
    const session = new FakeSession(inputs, outputs, compute);
    const { first, others } = await queueBehind(session, session, [1, 2, 3].map(one));
    session.open();
    await Promise.all([first, ...others]);
    expect(rowsOfRuns(session)).toEqual([1, 1, 1]);
  });

  test('whose outputs have the rows at another dimension, too', async () => {
    const session = new FakeSession(
      [value('x', 'float32', ['N', 2])],
      [value('y', 'float32', ['N', 'N'])],
      ({ x }) => {
        const data = x!.data as Float32Array;
        const rows = Array.from({ length: x!.dims[0]! }, (_, row) => data.subarray(2 * row, 2 * row + 2));
        const products = rows.flatMap((a) => rows.map((b) => a[0]! * b[0]! + a[1]! * b[1]!));
        return {
          y: { type: 'float32', dims: [rows.length, rows.length], data: Float32Array.from(products) },
        };
      },
    );
    const { first, others } = await queueBehind(session, session, [1, 2, 3].map(one));
    session.open();
    const answers = await Promise.all([first, ...others]);
    expect(answers.map((answer) => outputOf(answer, 'y'))).toMatchObject([
      { shape: [1, 1], data: [2] },
      { shape: [1, 1], data: [8] },
      { shape: [1, 1], data: [18] },
    ]);
  });

  test('whose session cannot prove that rows are independent', async () => {
    const session = doublingSession();
    session.canJoin = undefined;
    const { first, others } = await queueBehind(session, session, [1, 2, 3].map(one));
    session.open();
    await Promise.all([first, ...others]);
    expect(rowsOfRuns(session)).toEqual([1, 1, 1]);
  });

  test.each([
    ['says that these rows are not', () => false],
    ['fails to say', () => Promise.reject(new Error('what?')).catch(() => true)],
    [
      'throws',
      () => {
        throw new Error('what?');
      },
    ],
  ])('whose session %s', async (_, canJoin) => {
    const session = doublingSession();
    session.canJoin = canJoin as () => boolean;
    const { first, others } = await queueBehind(session, session, [1, 2, 3].map(one));
    session.open();
    await Promise.all([first, ...others]);
    expect(rowsOfRuns(session)).toEqual([1, 1, 1]);
  });

  test('that are told to by maxBatch', async () => {
    const session = doublingSession();
    const { first, others } = await queueBehind({ session, maxBatch: 1 }, session, [1, 2, 3].map(one));
    session.open();
    await Promise.all([first, ...others]);
    expect(rowsOfRuns(session)).toEqual([1, 1, 1]);
  });
});

test('maxBatch joins what varies without a common name, unless inputs differ in rows', async () => {
  const session = new FakeSession(
    [value('a', 'uint8', ['']), value('b', 'uint8', [''])],
    [value('c', 'uint8', [''])],
    ({ a }) => ({ c: a }),
  );
  const body = (a: number[], b: number[]) => ({
    inputs: [
      { name: 'a', datatype: 'UINT8', shape: [a.length], data: a },
      { name: 'b', datatype: 'UINT8', shape: [b.length], data: b },
    ],
  });
  const bodies = [[0], [1], [2], [2], [5]].map((a, index) =>
    body(a, index === 2 || index === 3 ? [2, 2] : a),
  );
  const { first, others } = await queueBehind({ session, maxBatch: 8 }, session, bodies);
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(rowsOfRuns(session)).toEqual([1, 2, 1, 1]);
  expect(answers.map((answer) => outputOf(answer, 'c').data)).toEqual([[0], [1], [2], [2], [5]]);
});

test('a session is asked about the very rows that are to be joined', async () => {
  const session = doublingSession();
  const asked: unknown[] = [];
  session.canJoin = (...question) => asked.push(question) > 1;
  const ofRows = (rows: number) => doublingRequest(Array.from({ length: rows }, (): Row => [rows, rows]));
  const { first, others } = await queueBehind(session, session, [1, 3, 3, 2, 2, 3].map(ofRows));
  session.open();
  const answers = await Promise.all([first, ...others]);
  expect(asked).toEqual([
    [{ x: [3, 2] }, [3, 3]],
    [{ x: [3, 2] }, [3, 3]],
    [{ x: [2, 2] }, [2, 2]],
  ]);
  expect(rowsOfRuns(session)).toEqual([1, 3, 6, 4]);
  expect(answers.map((answer) => outputOf(answer, 'sum').data)).toEqual([
    [2],
    [6, 6, 6],
    [6, 6, 6],
    [4, 4],
    [4, 4],
    [6, 6, 6],
  ]);
});

test('maxBatch says that rows are independent, and the session is not asked', async () => {
  const session = doublingSession();
  session.canJoin = () => false;
  const { first, others } = await queueBehind({ session, maxBatch: 3 }, session, [1, 2, 3].map(one));
  session.open();
  await Promise.all([first, ...others]);
  expect(rowsOfRuns(session)).toEqual([1, 2]);
});

describe('a batch that fails', () => {
  /** Fails whenever a 13 is among the elements. */
  function superstitiousSession(): FakeSession {
    const { inputMetadata, outputMetadata, compute } = doublingSession();
    return new FakeSession(inputMetadata, outputMetadata, (feeds) => {
      if ((feeds.x!.data as Float32Array).includes(13)) throw new Error('13');
      return compute(feeds);
    });
  }

  test('is run again one by one, so that only the bad request fails', async () => {
    const session = superstitiousSession();
    const { first, others } = await queueBehind(session, session, [1, 2, 13, 4, 5].map(one));
    session.open();
    const answers = await Promise.all([first, ...others]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 500, 200, 200]);
    expect(rowsOfRuns(session)).toEqual([1, 4, 1, 1, 1, 1]);
    expect(outputOf(answers[3]!, 'y').data).toEqual([8, -8]);
  });

  test('because outputs have other rows than inputs is run again one by one', async () => {
    const session = new FakeSession(
      [value('x', 'float32', ['N', 2])],
      [value('y', 'float32', ['N'])],
      () => ({ y: { type: 'float32', dims: [1], data: Float32Array.of(7) } }),
    );
    const { first, others } = await queueBehind(session, session, [1, 2, 3].map(one));
    session.open();
    const answers = await Promise.all([first, ...others]);
    expect(answers.map((answer) => outputOf(answer, 'y').data)).toEqual([[7], [7], [7]]);
    expect(rowsOfRuns(session)).toEqual([1, 2, 1, 1]);
  });
});

test('models do not wait for each other', async () => {
  const [busy, free] = [doublingSession(), doublingSession()];
  const { url } = await open({ models: { double: busy, other: free } });
  busy.hold();
  const [held] = await queue(url, one(1), () => busy.runs.length === 1);
  expect((await postJson(url, '/v2/models/other/infer', one(2))).status).toBe(200);
  busy.open();
  expect((await held).status).toBe(200);
});

test('an answer tells how long its request waited and was computed', async () => {
  const session = doublingSession();
  const sent = performance.now();
  const { first, others } = await queueBehind(session, session, [one(1), one(2)]);
  const queued = performance.now();
  await setTimeout(20);
  const held = performance.now() - queued;
  session.open();
  const answers = await Promise.all([first, ...others]);
  const total = performance.now() - sent;
  const [running, waiting] = answers.map(({ headers }) => {
    const [, queue, compute] = /^queue;dur=([\d.]+), compute;dur=([\d.]+)$/.exec(
      `${headers['server-timing']}`,
    )!;
    return { queue: Number(queue), compute: Number(compute) };
  });
  // The server's clock is that of this process.
  expect(running!.compute).toBeGreaterThan(held);
  expect(waiting!.queue).toBeGreaterThan(held);
  for (const { queue, compute } of [running!, waiting!]) expect(queue + compute).toBeLessThan(total);
});

test('what comes in the turn of the event loop in which a short run ended is run together', async () => {
  const session = doublingSession();
  const model = readModel('options.models.double', 'double', session);
  const batcher = new Batcher(model, 8, () => {});
  const run = () => {
    const x = { type: 'float32', dims: [1, 2], data: new Float32Array([1, 2]), location: 'cpu' } as const;
    return batcher.run(new Map([['x', x]]), model.outputs, new Cancellation());
  };
  await run();
  // Each comes after microtasks enough for another run to have begun and ended.
  const others = [];
  for (let request = 0; request < 4; request++) {
    others.push(run());
    for (let microtask = 0; microtask < 100; microtask++) await Promise.resolve();
  }
  await Promise.all(others);
  expect(rowsOfRuns(session)).toEqual([1, 4]);
});

describe('by default', () => {
  /** The rows of each run with 32 clients, on a session whose runs take so many milliseconds of a clock of its own. */
  async function rowsUnderLoad(milliseconds: (rows: number) => number): Promise<number[]> {
    jest.restoreAllMocks();
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const { inputMetadata, outputMetadata, compute } = doublingSession();
    const session = new FakeSession(inputMetadata, outputMetadata, (feeds) => {
      now += milliseconds(feeds.x!.dims[0]!);
      return compute(feeds);
    });
    const model = readModel('options.models.double', 'double', session);
    const batcher = new Batcher(model, 64, () => {});
    const ask = async (client: number) => {
      for (let request = 0; request < 100; request++) {
        const x = {
          type: 'float32',
          dims: [1, 2],
          data: new Float32Array([client, request]),
          location: 'cpu',
        } as const;
        const { tensors } = await batcher.run(new Map([['x', x]]), model.outputs, new Cancellation());
        expect([...tensors[0]!.elements]).toEqual([2 * client, 2 * request]);
      }
    };
    await Promise.all(Array.from({ length: 32 }, (_, client) => ask(client)));
    return rowsOfRuns(session) as number[];
  }

  test('requests are run one by one if a batch takes as long for each', async () => {
    const rows = await rowsUnderLoad((count) => 10 * count);
    expect(rows.filter((count) => count > 1)).toEqual([2, 2, 2, 2]);
  });

  test('requests are joined if a batch takes less', async () => {
    const rows = await rowsUnderLoad((count) => 10 + count);
    expect([...new Set(rows)].sort((a, b) => a - b)).toEqual([1, 2, 4, 8, 16, 32]);
    expect(rows.slice(-20).filter((count) => count === 32).length).toBeGreaterThan(10);
  });

  test('batches that the session cannot run are given up, and their requests are answered', async () => {
    const rows = await rowsUnderLoad((count) => {
      if (count > 4) throw new Error('out of memory');
      return 10;
    });
    expect(rows.filter((count) => count > 4).length).toBeLessThan(4);
    expect(rows.slice(-20)).toContain(4);
  });
});

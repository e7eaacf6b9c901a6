/** A thread that reads requests ends of itself: its clients connect again, and nobody else notices. */
import { setTimeout } from 'node:timers/promises';

import { RawConnection, request } from './support/client';
import { until } from './support/serving';
import { KeptClient, ThreadedServer } from './support/threaded_server';

let server: ThreadedServer;
const clients: KeptClient[] = [];
const connections: RawConnection[] = [];

beforeEach(async () => {
  server = await ThreadedServer.start();
});

afterEach(() => {
  clients.splice(0).forEach((client) => client.close());
  connections.splice(0).forEach(({ socket }) => socket.destroy());
  server.kill();
});

/** Clients that have their connections. */
async function connect(count: number): Promise<KeptClient[]> {
  const made = Array.from({ length: count }, () => new KeptClient(server.url));
  clients.push(...made);
  for (const client of made) expect((await client.echo(Buffer.of(1))).status).toBe(200);
  return made;
}

async function metric(name: string): Promise<number> {
  const { body } = await request(server.url, { path: '/metrics' });
  const line = body
    .toString()
    .split('\n')
    .find((one) => one.startsWith(`warpconv_${name} `));
  return Number(line?.slice(name.length + 10));
}

/** Expects a metric to come to that in the end: threads hear late that an answer has been sent, and later on a busy machine. */
async function expectMetric(name: string, expected: number): Promise<void> {
  const end = Date.now() + 20_000;
  while ((await metric(name)) !== expected && Date.now() < end) await setTimeout(20);
  expect(await metric(name)).toBe(expected);
}

/** Until there are so many threads that read. */
async function untilReaders(count: number): Promise<void> {
  while ((await server.ask<number>('readers')) !== count) await setTimeout(10);
}

/** The error's code, or the status of the answer. */
const outcome = (answer: Promise<{ status: number }>): Promise<string | number> =>
  answer.then(
    ({ status }) => status,
    ({ code }: NodeJS.ErrnoException) => code!,
  );

const LOST = ['ECONNRESET', 'EPIPE'];

/** Connections on which a request was answered. */
async function connectRaw(count: number): Promise<RawConnection[]> {
  const made: RawConnection[] = [];
  for (let index = 0; index < count; index++) {
    made.push(await RawConnection.open(server.url));
    await live(made[index]!);
  }
  connections.push(...made);
  return made;
}

/** Asks whether the server lives, over a connection that is open. */
async function live(connection: RawConnection): Promise<void> {
  connection.received = '';
  connection.write('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => connection.received.endsWith('{"live":true}'));
}

const isOpen = ({ socket }: RawConnection) => !socket.destroyed && !socket.readableEnded;

test('connections are spread evenly, so that a third of them go with their thread', async () => {
  const made = await connectRaw(30);
  await server.ask('terminate', 1);
  await until(() => made.filter(isOpen).length === 20);
  // The others are as they were.
  for (const connection of made.filter(isOpen)) await live(connection);
  expect(made.filter(isOpen)).toHaveLength(20);
});

test('under load only the clients of that thread see an error, and succeed when they ask again', async () => {
  const made = await connect(30);
  const errors = new Map<KeptClient, string[]>(made.map((client) => [client, []]));
  const wrong: number[] = [];
  let [answers, isOver] = [0, false];
  const ask = async (client: KeptClient, index: number) => {
    for (let round = 0; !isOver; round++) {
      const bytes = Buffer.alloc(index % 3 === 0 ? 100_000 : 50, 30 * round + index);
      try {
        const { status, data } = await client.echo(bytes);
        if (status !== 200 || !data.equals(bytes)) wrong.push(status);
        answers++;
      } catch (error) {
        errors.get(client)!.push((error as NodeJS.ErrnoException).code!);
      }
    }
  };
  const asking = Promise.all(made.map(ask));
  const answered = async (more: number) => {
    for (const before = answers; answers < before + more;) await setTimeout(5);
  };
  await answered(300);
  await server.ask('terminate', 0);
  await answered(300);
  await untilReaders(3);
  await answered(300);
  isOver = true;
  await asking;
  expect(wrong).toEqual([]);
  const seen = [...errors.values()].filter((list) => list.length > 0);
  expect(seen.flat().filter((code) => !LOST.includes(code))).toEqual([]);
  expect(seen).toHaveLength(10);
  // Who is very quick may be handed to the thread once more before the server hears of its end.
  expect(Math.max(...seen.map((list) => list.length))).toBeLessThanOrEqual(2);
});

test('another thread takes its place, and the next connections, until it has as many as others', async () => {
  const old = await connectRaw(9);
  await server.ask('terminate', 2);
  expect(await server.ask('readers')).toBe(2);
  await until(() => old.filter(isOpen).length === 6);
  await untilReaders(3);
  const made = await connectRaw(6);
  // The new one comes last.
  await server.ask('terminate', 2);
  await until(() => made.filter(isOpen).length === 2);
  for (const connection of [...old, ...made].filter(isOpen)) await live(connection);
  expect([old, made].map((some) => some.filter(isOpen).length)).toEqual([6, 2]);
  [...old, ...made].forEach(({ socket }) => socket.destroy());
  await server.close();
});

test('what ended it is logged', async () => {
  const made = await connectRaw(3);
  await server.ask('crash', 1);
  await until(() => made.filter(isOpen).length === 2);
  await untilReaders(3);
  expect(await server.ask('failures')).toEqual([expect.stringMatching(/^a reader thread failed: /)]);
  for (const connection of made.filter(isOpen)) await live(connection);
});

test.each([
  ['all threads', [0, 1, 2]],
  ['one thread', [1]],
])('the server closes, though %s end while it does', async (_, indices) => {
  await server.ask('hold');
  const made = Array.from({ length: 6 }, () => new KeptClient(server.url));
  clients.push(...made);
  const answers = made.map((client) => outcome(client.echo(Buffer.of(1))));
  while ((await metric('requests_in_flight')) < 6) await setTimeout(10);
  const closed = server.close();
  await setTimeout(50);
  await server.ask('terminate', ...indices);
  // It may have closed by then.
  void server.ask('open');
  const outcomes = await Promise.all(answers);
  expect(outcomes.filter((one) => one !== 200 && !LOST.includes(String(one)))).toEqual([]);
  expect(outcomes.filter((one) => one === 200)).toHaveLength(6 - 2 * indices.length);
  await closed;
});

test('what it had counted is not lost', async () => {
  await connect(9);
  const total = () => metric('requests_total{model="echo",status="200"}');
  expect(await total()).toBe(9);
  for (let round = 0; round < 3; round++) {
    await server.ask('terminate', 0);
    expect(await total()).toBe(9);
    await untilReaders(3);
    expect(await total()).toBe(9);
  }
});

test('its requests are in flight no more', async () => {
  const made = await connect(6);
  await server.ask('hold');
  const answers = made.map((client) => outcome(client.echo(Buffer.of(1))));
  while ((await metric('requests_in_flight')) < 6) await setTimeout(10);
  await server.ask('terminate', 0);
  await server.ask('open');
  expect((await Promise.all(answers)).filter((one) => one === 200)).toHaveLength(4);
  await untilReaders(3);
  await expectMetric('requests_in_flight', 0);
});

describe('bytes that it held are free again, which it held for', () => {
  const bytes = Buffer.alloc(1_000_000);

  /** Ends all threads while they hold 6 MB, and expects that nothing is held in the end. */
  async function expectFreed(answers: readonly Promise<string | number>[]): Promise<void> {
    while ((await metric('held_bytes')) < 6 * bytes.length) await setTimeout(10);
    for (let reader = 0; reader < 3; reader++) {
      // The new one comes last.
      await server.ask('terminate', 0);
      await untilReaders(3);
    }
    await server.ask('open');
    expect((await Promise.all(answers)).filter((one) => !LOST.includes(String(one)))).toEqual([]);
    await expectMetric('held_bytes', 0);
    await expectMetric('queue_length{model="echo"}', 0);
    const [client] = await connect(1);
    expect((await client!.echo(bytes)).data.equals(bytes)).toBe(true);
  }

  test('requests that were run', async () => {
    const made = await connect(6);
    await server.ask('hold');
    await expectFreed(made.map((client) => outcome(client.echo(bytes))));
  });

  test('bodies that were on their way', async () => {
    for (const connection of await connectRaw(6)) {
      connection.write(
        `POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes.length}\r\n\r\n{`,
      );
    }
    await expectFreed([]);
  });
});

test('all threads at once, and again as soon as they are back, and the server closes in the end', async () => {
  const made = await connect(12);
  let isOver = false;
  const outcomes = new Set<string | number>();
  const asking = Promise.all(
    made.map(async (client) => {
      while (!isOver) outcomes.add(await outcome(client.echo(Buffer.of(3))));
    }),
  );
  for (let round = 0; round < 5; round++) {
    await server.ask('terminate', 0, 1, 2);
    await untilReaders(3);
    await setTimeout(100);
  }
  isOver = true;
  await asking;
  for (const one of LOST) outcomes.delete(one);
  expect([...outcomes]).toEqual([200]);
  for (const client of made) expect((await client.echo(Buffer.of(4))).status).toBe(200);
  expect(await server.ask('failures')).toEqual([]);
  const files = await server.ask<number>('files');
  clients.splice(0).forEach((client) => client.close());
  const rest = async () => files - (await server.ask<number>('files'));
  while ((await rest()) < 12) await setTimeout(10);
  await server.close();
});

/** When a request is answered, as its headers ask: the urgent ones first, and none later than its client waits. */
import type { ServeOptions } from '../../lib/serve';
import { readTiming } from '../../lib/serve/request';
import { binaryRequest, json, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession, type FakeSession } from './support/fake_session';
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

const post = (url: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  request(url, {
    ...{ path: INFER, headers: { 'Content-Type': 'application/json', ...headers } },
    body: JSON.stringify(body),
  });

async function metric(url: string, name: string): Promise<number> {
  const page = (await request(url, { path: '/metrics' })).body.toString();
  const line = page.split('\n').find((text) => text.startsWith(`warpconv_${name} `));
  return Number(line?.split(' ').at(-1) ?? 0);
}

async function untilMetric(url: string, name: string, expected: number): Promise<void> {
  while ((await metric(url, name)) !== expected);
}

const queueLength = 'queue_length{model="double"}';

describe('a priority', () => {
  const urgencyOf = (priority?: string) => readTiming(priority === undefined ? {} : { priority }).urgency;

  test.each([
    ...Array.from({ length: 8 }, (_, urgency): [string, number] => [`u=${urgency}`, urgency]),
    ['u=1, i', 1],
    ['i, u=1', 1],
    ['u=1,i', 1],
    ['i,u=1', 1],
    ['u=1;x', 1],
    ['u=1;x=2;y="u=5", i=?0', 1],
    ['i=?1, u=6', 6],
    ['i;u=9, u=2', 2],
    ['a=(1 2), u=2', 2],
  ])('%s is %i', (priority, urgency) => {
    expect(urgencyOf(priority)).toBe(urgency);
  });

  test.each([
    ['that is not there', undefined],
    ['that is empty', ''],
    ['of other members', 'i'],
    ['of a parameter', 'i;u=1'],
    ['of a parameter out of range', 'i;u=9'],
    ['beyond the range', 'u=8'],
    ['below it', 'u=-1'],
    ['of two digits', 'u=10'],
    ['of a fraction', 'u=1.0'],
    ['of a string', 'u="1"'],
    ['of a token', 'u=a'],
    ['of a boolean', 'u=?1'],
    ['without a value', 'u'],
    ['of a list', 'u=(1)'],
    ['of another letter', 'U=1'],
    ['of a longer name', 'xu=1'],
    ['with a space before it', 'u= 1'],
    ['with a space in it', 'u =1'],
    ['between other characters', 'u=1 i'],
    ['between semicolons', 'x;u=1;y'],
    ['of nonsense', '\u00ff\u0001,,;;=='],
  ])('%s is as good as none', (_, priority) => {
    expect(urgencyOf(priority)).toBe(3);
  });

  // RFC 9218 has it parsed as a dictionary of RFC 8941.
  test.each<[string, string, number]>([
    ['the last of several members counts', 'u=1, u=5', 5],
    ['what a string contains is no member', 'i;x=", u=0, "', 3],
    ['a field that is no dictionary is ignored: a stray character', 'u=1, =', 3],
    ['a field that is no dictionary is ignored: a comma at the end', 'u=1,', 3],
    ['integers may have zeros in front', 'u=01', 1],
  ])('%s: %s', (_, priority, urgency) => {
    expect(urgencyOf(priority)).toBe(urgency);
  });

  test('takes no longer to read for being long', () => {
    // Of the processor, since others may hold up the machine.
    const begun = process.cpuUsage();
    for (const priority of [
      ' '.repeat(16_000),
      ','.repeat(16_000),
      `u=1${' '.repeat(16_000)}x`,
      ', u=1 '.repeat(3000),
    ])
      urgencyOf(priority);
    expect(process.cpuUsage(begun).user).toBeLessThan(500_000);
  });
});

describe('a timeout in a header', () => {
  const timeoutOf = (value: string) => readTiming({ 'request-timeout-ms': value }).timeout;

  test('is of milliseconds', () => {
    expect(readTiming({}).timeout).toBeUndefined();
    expect(timeoutOf('1')).toBe(1);
    expect(timeoutOf('30000')).toBe(30_000);
    expect(timeoutOf('999999999')).toBe(999_999_999);
  });

  test.each([
    '',
    '0',
    '-1',
    '+1',
    '1.5',
    '1e3',
    '0x10',
    '010',
    'soon',
    '1 2',
    '1, 2',
    '1000000000',
    '9'.repeat(400),
  ])('is refused: %j', (value) => {
    expect(() => timeoutOf(value)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringMatching(
          /^Request-Timeout-Ms must be a positive number of milliseconds, got '/,
        ),
      }),
    );
  });
});

describe.each([
  ['one thread', open],
  ['two threads', openThreaded],
])('%s', (_, start) => {
  /** A server that is busy with a first request, and the others in its queue, in this order. */
  async function queueBehind(
    session: FakeSession,
    bodies: readonly (readonly [body: object, headers?: Readonly<Record<string, string>>])[],
    options: Omit<ServeOptions, 'models'> & { maxBatch?: number } = {},
  ): Promise<{ url: string; first: [Promise<Received>]; others: Promise<Received>[] }> {
    const { maxBatch = 1, ...rest } = options;
    const { url } = await start({ models: { double: { session, maxBatch } }, ...rest });
    session.hold();
    const first = post(url, one(0));
    await until(() => session.runs.length === 1);
    const others: Promise<Received>[] = [];
    for (const [body, headers] of bodies) {
      others.push(post(url, body, headers));
      await untilMetric(url, queueLength, others.length);
    }
    return { url, first: [first], others };
  }

  /** The first element of each row of each run. */
  const firstsOf = ({ runs }: FakeSession) =>
    runs.map(({ feeds }) => Array.from(feeds.x!.data as Float32Array).filter((_, index) => index % 2 === 0));

  describe('urgent requests', () => {
    test('go first, and equal ones in the order in which they came', async () => {
      const session = doublingSession();
      const priorities = [
        'u=5',
        undefined,
        'u=7',
        'u=0',
        'nonsense',
        'u=3',
        'u=0, i',
        'u=1;x',
        'i;u=9',
        'u=7',
      ];
      const bodies = priorities.map((priority, index): [object, Record<string, string>] => [
        one(index + 1),
        priority === undefined ? {} : { Priority: priority },
      ]);
      const { first, others } = await queueBehind(session, bodies);
      session.open();
      const answers = await Promise.all([...first, ...others]);
      answers.forEach((answer, index) =>
        expect(json(answer).outputs).toMatchObject([{ data: [2 * index, 0 - 2 * index] }, {}]),
      );
      expect(firstsOf(session).flat()).toEqual([0, 4, 7, 8, 2, 5, 6, 9, 1, 3, 10]);
    });

    test('do not wait for more of their kind, and take along what is not urgent', async () => {
      joinAll();
      const session = doublingSession();
      const bodies = ['u=7', 'u=7', 'u=3', 'u=0'].map((Priority, index): [object, Record<string, string>] => [
        one(index + 1),
        { Priority },
      ]);
      const { first, others } = await queueBehind(session, bodies, { maxBatch: 2 });
      session.open();
      await Promise.all([...first, ...others]);
      expect(firstsOf(session)).toEqual([[0], [4, 3], [1, 2]]);
    });

    test('of another shape go before many that could be joined', async () => {
      joinAll();
      const session = doublingSession();
      const rows = (x: number, Priority: string): [object, Record<string, string>] => [
        doublingRequest([
          [x, x],
          [x, x],
        ]),
        { Priority },
      ];
      const bodies: [object, Record<string, string>][] = [
        [one(1), { Priority: 'u=4' }],
        [one(2), { Priority: 'u=4' }],
        rows(3, 'u=2'),
        [one(4), { Priority: 'u=4' }],
      ];
      const { first, others } = await queueBehind(session, bodies, { maxBatch: 8 });
      session.open();
      await Promise.all([...first, ...others]);
      expect(firstsOf(session)).toEqual([[0], [3, 3], [1, 2], [4]]);
    });

    test('get no place in a full queue', async () => {
      const session = doublingSession();
      const { url, first, others } = await queueBehind(session, [[one(1)], [one(2)]], { maxQueue: 2 });
      expect((await post(url, one(3), { Priority: 'u=0' })).status).toBe(503);
      session.open();
      expect((await Promise.all([...first, ...others])).map(({ status }) => status)).toEqual([200, 200, 200]);
    });
  });

  describe.each<
    [string, (milliseconds: number) => { headers?: Record<string, string>; parameters?: object }]
  >([
    ['Request-Timeout-Ms', (milliseconds) => ({ headers: { 'Request-Timeout-Ms': `${milliseconds}` } })],
    ['parameters.timeout', (milliseconds) => ({ parameters: { timeout: 1000 * milliseconds } })],
  ])('by %s', (_, asking) => {
    const ask = (url: string, milliseconds: number, x = 1) => {
      const { headers, parameters } = asking(milliseconds);
      return post(url, { ...one(x), parameters }, headers);
    };
    const late = (milliseconds: number) => [
      504,
      { error: `model 'double' had not answered after ${milliseconds} ms` },
    ];

    test('a run that takes longer is aborted', async () => {
      const session = doublingSession();
      const { url } = await start({ models: { double: session } });
      session.hold();
      const begun = performance.now();
      const received = await ask(url, 400);
      expect([received.status, json(received)]).toEqual(late(400));
      expect(performance.now() - begun).toBeGreaterThan(395);
      expect(performance.now() - begun).toBeLessThan(5000);
      await until(() => session.runs[0]!.signal.aborted);
      session.open();
      expect((await ask(url, 10_000)).status).toBe(200);
      await untilMetric(url, 'requests_total{model="double",status="504"}', 1);
      await untilMetric(url, 'held_bytes', 0);
    });

    test('a request that waits longer is never run, and leaves the queue', async () => {
      const session = doublingSession();
      const { url, first } = await queueBehind(session, []);
      const answers = await Promise.all([ask(url, 50, 7), ask(url, 60, 8)]);
      expect(answers.map((one) => [one.status, json(one)])).toEqual([late(50), late(60)]);
      await untilMetric(url, queueLength, 0);
      session.open();
      expect((await first[0]).status).toBe(200);
      expect((await post(url, one(9))).status).toBe(200);
      expect(firstsOf(session).flat()).toEqual([0, 9]);
    });

    test('it is each request’s own: others of the run are answered', async () => {
      joinAll();
      const session = doublingSession();
      const { url, first, others } = await queueBehind(session, [[one(1)]], { maxBatch: 2 });
      const short = ask(url, 1500, 2);
      await untilMetric(url, queueLength, 2);
      session.open();
      session.hold();
      await until(() => session.runs.length === 2);
      expect((await first[0]).status).toBe(200);
      expect((await short).status).toBe(504);
      expect(session.runs[1]!.signal.aborted).toBe(false);
      session.open();
      expect((await others[0]!).status).toBe(200);
    });

    test('longer than the server’s it has no effect', async () => {
      const session = doublingSession();
      const { url } = await start({ models: { double: session }, timeout: 60 });
      session.hold();
      for (const milliseconds of [61, 60_000, 900_000_000]) {
        const received = await ask(url, milliseconds);
        expect([received.status, json(received)]).toEqual(late(60));
      }
      session.open();
    });

    test('it does not end an answer that was in time', async () => {
      const session = doublingSession();
      const { url } = await start({ models: { double: session } });
      const answers = await Promise.all([1, 2, 3, 4].map((x) => ask(url, 20_000, x)));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      await untilMetric(url, 'held_bytes', 0);
    });
  });

  test('the shorter of two timeouts counts', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    for (const [header, parameter] of [
      [50, 30_000_000],
      [30_000, 50_000],
    ] as const) {
      const body = { ...one(1), parameters: { timeout: parameter } };
      const received = await post(url, body, { 'Request-Timeout-Ms': `${header}` });
      expect([received.status, json(received)]).toMatchObject([
        504,
        { error: expect.stringContaining('after 50 ms') },
      ]);
    }
    session.open();
  });

  test('parameters.timeout is read in front of binary data, too', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } }];
    const sent = binaryRequest({ inputs, parameters: { timeout: 50_000 } }, new Uint8Array(8));
    expect((await request(url, { path: INFER, ...sent })).status).toBe(504);
    session.open();
  });

  test('a body that comes later than the header says is answered by 408', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    const connection = await RawConnection.open(url);
    connection.write(
      `POST ${INFER} HTTP/1.1\r\nHost: x\r\nRequest-Timeout-Ms: 60\r\nContent-Length: 100\r\n\r\n{`,
    );
    await until(() => connection.received.includes('\r\n\r\n'));
    expect(connection.received).toMatch(/^HTTP\/1\.1 408 /);
    expect(connection.received).toContain('the body of the request was not there after 60 ms');
    connection.socket.destroy();
    await untilMetric(url, 'held_bytes', 0);
    expect(session.runs).toEqual([]);
  });

  /** Sends a request whose body takes 150 ms, and says that its answer is of use for less. */
  async function sendSlowly(url: string): Promise<string> {
    const body = JSON.stringify({ ...one(1), parameters: { timeout: 20_000 } });
    const connection = await RawConnection.open(url);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 150));
    connection.write(body);
    await until(() => connection.received.includes('\r\n\r\n'));
    connection.socket.destroy();
    return connection.received;
  }

  test('a body that comes later than it says itself is answered by 504', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    expect(await sendSlowly(url)).toMatch(/^HTTP\/1\.1 504 /);
    session.open();
  });

  // Its time is up when it is decoded, and it is run all the same, where the session is idle.
  test('such a request is never run', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    await sendSlowly(url);
    session.open();
    expect(session.runs.length).toBe(0);
  });

  test.each<[string, unknown, number]>([
    ['0, which is none', 0, 200],
    ['null, which is none', null, 200],
    ['a fraction', 0.5, 400],
    ['less than nothing', -1, 400],
    ['words', '1000', 400],
    ['true', true, 400],
    ['a list', [1000], 400],
    ['more than numbers can tell', 1e300, 400],
  ])('parameters.timeout: %s', async (_, timeout, status) => {
    const { url } = await start({ models: { double: doublingSession() } });
    const received = await post(url, { ...one(1), parameters: { timeout } });
    expect(received.status).toBe(status);
    if (status === 400) expect(json(received).error).toMatch(/^parameters\.timeout must be /);
  });

  test('a timeout that is none is refused before the body is sent', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    const connection = await RawConnection.open(url);
    connection.write(
      `POST ${INFER} HTTP/1.1\r\nHost: x\r\nRequest-Timeout-Ms: soon\r\nContent-Length: 100\r\n\r\n`,
    );
    await until(() => connection.received.includes('}'));
    expect(connection.received).toMatch(/^HTTP\/1\.1 400 .*Request-Timeout-Ms must be a positive number/s);
    connection.socket.destroy();
    await untilMetric(url, 'held_bytes', 0);
  });

  test('the headers mean nothing elsewhere', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    const headers = { 'Request-Timeout-Ms': 'soon', Priority: 'u=x' };
    for (const path of ['/v2', '/v2/models/double', '/metrics'])
      expect((await request(url, { path, headers })).status).toBe(200);
  });

  test('Triton’s priority is ignored', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    expect((await post(url, { ...one(1), parameters: { priority: 'high' } })).status).toBe(200);
  });
});

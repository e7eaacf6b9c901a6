/** Compressed bodies: what they decode to is answered as if it had been sent as it is, under the same limits. */
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';

import { binaryRequest, binaryResponse, json, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession, echoSession } from './support/fake_session';
import { closeAll, open, openOnce, THREADS, until } from './support/serving';

afterEach(closeAll);

const INFER = '/v2/models/double/infer';
const ECHO = '/v2/models/echo/infer';
const TEXT = JSON.stringify(doublingRequest([[1, 2]]));

const ENCODERS: Readonly<Record<string, (bytes: string | Buffer) => Buffer>> = {
  gzip: gzipSync,
  deflate: deflateSync,
  // By default it takes seconds for a few megabytes.
  br: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
};
const NAMES = Object.keys(ENCODERS);

function post(
  url: string,
  encoding: string,
  body: Buffer | readonly Buffer[],
  headers: Readonly<Record<string, string | number>> = {},
  path = INFER,
): Promise<Received> {
  return request(url, { path, headers: { ...headers, 'Content-Encoding': encoding }, body });
}

function expectDoubled(received: Received): void {
  expect([received.status, json(received).outputs]).toEqual([
    200,
    [
      { name: 'y', datatype: 'FP32', shape: [1, 2], data: [2, 4] },
      { name: 'sum', datatype: 'FP32', shape: [1], data: [3] },
    ],
  ]);
}

async function heldBytes(url: string): Promise<number> {
  const { body } = await request(url, { path: '/metrics' });
  return Number(/^warpconv_held_bytes (\d+)$/m.exec(body.toString())![1]);
}

async function untilNothingIsHeld(url: string): Promise<void> {
  while ((await heldBytes(url)) !== 0);
}

const error = jest.fn();
beforeEach(() => error.mockClear());
const server = openOnce(open, { models: { double: doublingSession() }, logger: { error } });
const limited = openOnce(open, { models: { double: doublingSession() }, maxJsonBytes: 1000 });

/** The pieces of a body, each of one byte. */
const bytesOf = (body: Buffer) => Array.from(body, (_, index) => body.subarray(index, index + 1));

describe.each(NAMES)('%s', (encoding) => {
  const encode = ENCODERS[encoding]!;

  test('JSON, with a length and in chunks', async () => {
    const { url } = server;
    const body = encode(TEXT);
    for (const sent of [body, [body], bytesOf(body)]) expectDoubled(await post(url, encoding, sent));
    await untilNothingIsHeld(url);
  });

  test.each([0, 1, 2, 3])('a binary tensor %i bytes off its alignment', async (shift) => {
    const { url } = server;
    const x = { name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } };
    const data = Buffer.from(Float32Array.of(1, 2).buffer);
    const { headers, body } = binaryRequest({ id: 'x'.repeat(shift), inputs: [x] }, data);
    expectDoubled(await post(url, encoding, encode(body), headers));
  });

  test('a body of many pieces, as long as it may be and one byte longer', async () => {
    const size = 3_000_000;
    const given = { name: 'in', datatype: 'UINT8', shape: [size] };
    const inputs = [{ ...given, parameters: { binary_data_size: size } }];
    const data = Buffer.alloc(size);
    for (let at = 0; at < size; at++) data[at] = (at * at) >> 7;
    const { headers, body } = binaryRequest({ inputs, parameters: { binary_data_output: true } }, data);
    const models = { echo: echoSession('uint8') };
    const { url } = await open({ models, maxBodyBytes: body.length });
    const received = await post(url, encoding, encode(body), headers, ECHO);
    expect(received.status).toBe(200);
    expect(binaryResponse(received).data.equals(data)).toBe(true);
    const longer = await post(url, encoding, encode(Buffer.concat([body, Buffer.alloc(1)])), headers, ECHO);
    expect([longer.status, json(longer)]).toEqual([
      413,
      { error: `the decoded body is longer than ${body.length} bytes, the most that a request may have` },
    ]);
    await untilNothingIsHeld(url);
  });

  test('a short body that decodes to a long one', async () => {
    const { url } = limited;
    const body = encode(TEXT.padEnd(1001));
    expect(body.length).toBeLessThan(500);
    const received = await post(url, encoding, body);
    expect([received.status, json(received)]).toEqual([
      413,
      { error: expect.stringMatching(/^the decoded body is longer than 1000 bytes, the most that JSON may/) },
    ]);
    expectDoubled(await post(url, encoding, encode(TEXT.padEnd(1000))));
    await untilNothingIsHeld(url);
  });

  test('what is longer as it is sent than it may be is refused before it comes', async () => {
    const { url } = limited;
    const connection = await RawConnection.open(url);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${encoding}\r\n`);
    connection.write('Content-Length: 1001\r\n\r\n');
    await until(() => connection.received.includes('HTTP/1.1 413 '));
    connection.socket.destroy();
  });

  test.each<[string, (whole: Buffer) => Buffer]>([
    ['empty', () => Buffer.alloc(0)],
    ['cut at its end', (whole) => whole.subarray(0, -1)],
    ['cut at its beginning', (whole) => whole.subarray(1)],
    ['with bytes behind it', (whole) => Buffer.concat([whole, Buffer.from('xyz')])],
    ['with zeros behind it', (whole) => Buffer.concat([whole, Buffer.alloc(3)])],
    ['not compressed at all', () => Buffer.from(TEXT)],
  ])('a body that is %s', async (_, damage) => {
    const { url } = server;
    const body = damage(encode(TEXT));
    for (const sent of [body, [body], bytesOf(body)]) {
      const received = await post(url, encoding, sent);
      const reason = expect.stringMatching(
        `^the body (is no whole|goes on behind the end of its) ${encoding} `,
      );
      expect([received.status, json(received)]).toEqual([400, { error: reason }]);
    }
    expectDoubled(await post(url, encoding, encode(TEXT)));
    await untilNothingIsHeld(url);
    expect(error).not.toHaveBeenCalled();
  });

  test('what it decodes to counts as held', async () => {
    const session = doublingSession();
    const limits = { maxBodyBytes: 250_000, maxHeldBytes: 700_000 };
    const { url } = await open({ models: { double: session }, ...limits });
    session.hold();
    const body = encode(TEXT.padEnd(250_000));
    const held = [post(url, encoding, body)];
    await until(() => session.runs.length === 1);
    expect(await heldBytes(url)).toBe(250_000);
    held.push(post(url, encoding, body));
    while ((await heldBytes(url)) !== 500_000);
    const refused = await post(url, encoding, body);
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
    session.open();
    for (const one of held) expectDoubled(await one);
    await untilNothingIsHeld(url);
  });

  test('a client that goes in the middle of its body is forgotten', async () => {
    const { url } = server;
    const body = encode(TEXT);
    const connection = await RawConnection.open(url);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${encoding}\r\n`);
    connection.write(`Content-Length: ${body.length}\r\n\r\n`);
    connection.socket.write(body.subarray(0, -1));
    while ((await heldBytes(url)) === 0);
    connection.socket.destroy();
    await untilNothingIsHeld(url);
    expectDoubled(await post(url, encoding, body));
    expect(error).not.toHaveBeenCalled();
  });

  test('a body that does not come is answered by 408', async () => {
    const { url } = await open({ models: { double: doublingSession() }, timeout: 300 });
    const body = encode(TEXT);
    const connection = await RawConnection.open(url);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${encoding}\r\n`);
    connection.write(`Content-Length: ${body.length}\r\n\r\n`);
    connection.socket.write(body.subarray(0, -1));
    await until(() => connection.received.includes('HTTP/1.1 408 '));
    connection.socket.destroy();
    await untilNothingIsHeld(url);
  });

  // What other threads do shows in no turns of this one.
  (THREADS === 1 ? test : test.skip)('the event loop turns while a body is decoded', async () => {
    const size = 30 * 2 ** 20;
    const given = { name: 'in', datatype: 'UINT8', shape: [size] };
    const inputs = [{ ...given, parameters: { binary_data_size: size } }];
    const { headers, body } = binaryRequest({ inputs, outputs: [] }, Buffer.alloc(size));
    const { url } = await open({ models: { echo: echoSession('uint8') } });
    const encoded = encode(body);
    let turns = 0;
    let isAnswered = false;
    const count = () => {
      turns++;
      if (!isAnswered) setImmediate(count);
    };
    const answer = post(url, encoding, encoded, headers, ECHO).finally(() => (isAnswered = true));
    count();
    // Refused when it has been decoded.
    expect((await answer).status).toBe(400);
    expect(turns).toBeGreaterThan(size / 2 ** 20);
  });
});

test('a bomb is refused before it is decoded whole', async () => {
  const { url } = server;
  // 64 MiB for each 64 KiB, of which no client sends the last ones.
  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '));
  const connection = await RawConnection.open(url);
  connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n`);
  connection.write(`Content-Length: ${bomb.length}\r\n\r\n`);
  connection.socket.write(bomb.subarray(0, bomb.length / 2));
  await until(() => connection.received.includes('HTTP/1.1 413 '));
  connection.socket.destroy();
  await untilNothingIsHeld(url);
});

test('empty blocks without end are refused by the length of what is sent', async () => {
  const { url } = limited;
  // A header, and stored blocks of no bytes, none of which is the last.
  const header = gzipSync('').subarray(0, 10);
  const blocks = Buffer.from('000000ffff'.repeat(200), 'hex');
  const received = await post(url, 'gzip', [header, blocks]);
  expect(received.status).toBe(413);
});

test('names in capitals, the old name of gzip, several members, and identity', async () => {
  const { url } = server;
  const [start, end] = [TEXT.slice(0, 20), TEXT.slice(20)];
  const members = Buffer.concat([gzipSync(start), gzipSync(end)]);
  expectDoubled(await post(url, 'GZip', gzipSync(TEXT)));
  expectDoubled(await post(url, 'x-gzip', gzipSync(TEXT)));
  expectDoubled(await post(url, 'gzip', members));
  expectDoubled(await post(url, 'identity', Buffer.from(TEXT)));
  // RFC 9110 means zlib's format by it.
  expect((await post(url, 'deflate', deflateRawSync(TEXT))).status).toBe(400);
});

test.each(['zstd', 'compress', 'gzip, br', 'constructor', 'x'])('%s is not there', async (encoding) => {
  const { url } = server;
  const received = await post(url, encoding, gzipSync(TEXT));
  expect([received.status, json(received), received.headers['accept-encoding']]).toEqual([
    415,
    { error: `Content-Encoding must be 'gzip', 'deflate' or 'br', or left out, got '${encoding}'` },
    'gzip, deflate, br',
  ]);
});

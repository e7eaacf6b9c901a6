/** Requests that are wrong in one way each: what they are answered, and that the next one is answered as ever. */
import type { RunningServer } from '../../lib/serve';
import { Random } from '../support/random';
import { binaryRequest, json, postJson, RawConnection, request, type Sent } from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { closeAll, open, until } from './support/serving';

const INFER = '/v2/models/double/infer';
const PAIR = '/v2/models/pair/infer';
const LIMIT = 4096;

let server: RunningServer;
const error = jest.fn();

/** Two inputs that share the extent N; the second is of booleans. */
function pairSession(): FakeSession {
  const inputs = [value('a', 'uint8', ['N', 2]), value('b', 'bool', ['N'])];
  return new FakeSession(inputs, [value('c', 'uint8', ['N', 2])], ({ a }) => ({ c: a }));
}

beforeAll(async () => {
  const models = { double: doublingSession(), pair: pairSession() };
  server = await open({ models, maxJsonBytes: LIMIT, maxBodyBytes: 2 * LIMIT, logger: { error } });
});

afterAll(closeAll);

/** The good input with some of its properties replaced. */
const input = (change: object) => ({ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2], ...change });
const body = (change: object) => JSON.stringify({ inputs: [input(change)] });
const withOutputs = (outputs: unknown) => JSON.stringify({ inputs: [input({})], outputs });
const a = { name: 'a', datatype: 'UINT8', shape: [1, 2], data: [1, 2] };
const b = { name: 'b', datatype: 'BOOL', shape: [1], data: [true] };
const pair = (inputs: unknown) => ({ path: PAIR, body: JSON.stringify({ inputs }) });
/** A request with `x` as binary data. */
const binary = (size: unknown, data: Uint8Array, change: object = {}) =>
  binaryRequest(
    { inputs: [input({ data: undefined, parameters: { binary_data_size: size }, ...change })] },
    data,
  );

type Case = readonly [
  what: string,
  sent: Omit<Sent, 'path'> & { path?: string },
  status: number,
  reason: RegExp,
];

const CASES: readonly Case[] = [
  // The body as a whole.
  ['no body', { body: '' }, 400, /the body is empty/],
  ['no JSON', { body: 'hello' }, 400, /not JSON: Unexpected token/],
  ['JSON that breaks off', { body: '{"inputs":[' }, 400, /not JSON: Unexpected end/],
  ['JSON with more behind it', { body: `${body({})}x` }, 400, /not JSON/],
  ['NaN in JSON', { body: '{"inputs":[{"data":[NaN]}]}' }, 400, /not JSON/],
  ['no UTF-8', { body: Buffer.from([0x22, 0xff, 0xfe, 0x22]) }, 400, /not UTF-8/],
  ['null', { body: 'null' }, 400, /the request must be an object, got null/],
  ['a number', { body: '17' }, 400, /the request must be an object, got 17/],
  ['a list', { body: '[]' }, 400, /the request must be an object, got \[\]/],
  ['lists in lists in lists …', { body: '['.repeat(1000) }, 400, /not JSON/],
  ['lists in lists in lists without end', { body: '['.repeat(LIMIT) }, 413, /too much beside the data/],
  [
    'inputs behind __proto__',
    { body: `{"__proto__":${body({})}}` },
    400,
    /inputs must be a list, got undefined/,
  ],

  // Inputs.
  ['no inputs', { body: '{}' }, 400, /inputs must be a list, got undefined/],
  ['inputs that are no list', { body: '{"inputs":{}}' }, 400, /inputs must be a list, got an object/],
  ['an empty list of inputs', { body: '{"inputs":[]}' }, 400, /inputs lacks 'x'/],
  ['an input that is null', { body: '{"inputs":[null]}' }, 400, /inputs\[0\] must be an object, got null/],
  ['an input without a name', { body: body({ name: undefined }) }, 400, /inputs\[0\]\.name .* got undefined/],
  ['an unknown input', { body: body({ name: 'z' }) }, 400, /an input of the model: 'x', got 'z'/],
  ['an input __proto__', { body: body({ name: '__proto__' }) }, 400, /'x', got '__proto__'/],
  ['an input constructor', { body: body({ name: 'constructor' }) }, 400, /'x', got 'constructor'/],
  ['an input twice', pair([a, a]), 400, /inputs\[1\]\.name is 'a', which an input before it has too/],
  ['a missing input', pair([a]), 400, /inputs lacks 'b'/],
  ['no datatype', { body: body({ datatype: undefined }) }, 400, /datatype must be 'FP32' for 'x', got undef/],
  ['another datatype', { body: body({ datatype: 'FP64' }) }, 400, /must be 'FP32' for 'x', got 'FP64'/],
  ['strings', { body: body({ datatype: 'BYTES', data: ['a', 'b'] }) }, 400, /must be 'FP32' .* got 'BYTES'/],
  ['a lower-case datatype', { body: body({ datatype: 'fp32' }) }, 400, /must be 'FP32' for 'x', got 'fp32'/],

  // Shapes.
  [
    'no shape',
    { body: body({ shape: undefined }) },
    400,
    /shape must be a list of positive integers, got un/,
  ],
  [
    'a shape that is a number',
    { body: body({ shape: 2 }) },
    400,
    /shape must be a list of positive integers/,
  ],
  [
    'a negative extent',
    { body: body({ shape: [-1, 2] }) },
    400,
    /shape\[0\] must be a positive integer, got -1/,
  ],
  [
    'no rows',
    { body: body({ shape: [0, 2], data: [] }) },
    400,
    /shape\[0\] must be a positive integer, got 0/,
  ],
  ['half a row', { body: body({ shape: [0.5, 2] }) }, 400, /shape\[0\] must be a positive integer, got 0\.5/],
  ['an extent in quotes', { body: body({ shape: ['1', 2] }) }, 400, /must be a positive integer, got '1'/],
  [
    'an enormous extent',
    { body: body({ shape: [1e300, 2] }) },
    400,
    /positive integer of at most 9007199254740991/,
  ],
  [
    'another rank',
    { body: body({ shape: [1, 1, 2] }) },
    400,
    /shape must be \[N, 2\] for 'x', got \[1, 1, 2\]/,
  ],
  [
    'another extent',
    { body: body({ shape: [1, 3], data: [1, 2, 3] }) },
    400,
    /must be \[N, 2\] .* got \[1, 3\]/,
  ],
  ['extents that disagree', pair([a, { ...b, shape: [2] }]), 400, /must be \[N = 1\] for 'b', got \[2\]/],
  [
    'more than there is',
    { body: body({ shape: [2 ** 52, 2] }) },
    400,
    /data has 2 elements; .* needs 9007199254740992/,
  ],

  // Elements in JSON.
  [
    'no data',
    { body: body({ data: undefined }) },
    400,
    /data or parameters\.binary_data_size, and has neither/,
  ],
  [
    'data that is null',
    { body: body({ data: null }) },
    400,
    /data or parameters\.binary_data_size, and has nei/,
  ],
  [
    'data that is a string',
    { body: body({ data: 'AAAA' }) },
    400,
    /inputs\[0\]\.data must be a list, got 'AAAA'/,
  ],
  ['an element too few', { body: body({ data: [1] }) }, 400, /data has 1 element; shape \[1, 2\] needs 2/],
  [
    'an element too many',
    { body: body({ data: [1, 2, 3] }) },
    400,
    /data has 3 elements; shape \[1, 2\] needs 2/,
  ],
  ['an element in quotes', { body: body({ data: [1, '2'] }) }, 400, /element 1 must be a number .* got '2'/],
  [
    'an element that is null',
    { body: body({ data: [null, 2] }) },
    400,
    /element 0 must be a number .* got null/,
  ],
  ['an element out of range', { body: body({ data: [1, 1e39] }) }, 400, /range of float32, got 1e\+39/],
  [
    'nested otherwise',
    { body: body({ data: [[1], [2]] }) },
    400,
    /nested as shape \[1, 2\] is, with a list of 1/,
  ],
  [
    'nested unevenly',
    { body: body({ shape: [2, 2], data: [[1, 2], [3]] }) },
    400,
    /with a list of 2 here, got \[3\]/,
  ],
  ['nested too deep', { body: body({ data: [[[1], 2]] }) }, 400, /element 0 must be a number/],
  [
    'nested in part',
    { body: body({ shape: [2, 2], data: [[1, 2], 3] }) },
    400,
    /with a list of 2 here, got 3/,
  ],
  ['256 for a byte', pair([{ ...a, data: [1, 256] }, b]), 400, /an integer from 0 to 255, got 256/],
  ['a fraction for a byte', pair([{ ...a, data: [1, 0.5] }, b]), 400, /an integer from 0 to 255, got 0\.5/],
  ['1 for true', pair([a, { ...b, data: [1] }]), 400, /must be true or false, got 1/],

  // Binary data.
  ['data twice', binary(8, Buffer.alloc(8), { data: [1, 2] }), 400, /binary_data_size, and has both/],
  [
    'a size that is no number',
    binary('8', Buffer.alloc(8)),
    400,
    /binary_data_size must be a .* integer, got '8'/,
  ],
  ['a negative size', binary(-8, Buffer.alloc(8)), 400, /must be a non-negative integer, got -8/],
  ['another size', binary(12, Buffer.alloc(12)), 400, /is 12; shape \[1, 2\] of FP32 needs 8/],
  ['fewer bytes', binary(8, Buffer.alloc(7)), 400, /is 8, and the body has 7 bytes of data left/],
  ['more bytes', binary(8, Buffer.alloc(9)), 400, /1 byte of data that no input's binary_data_size asks for/],
  [
    'a boolean that is 2',
    {
      path: PAIR,
      ...binaryRequest(
        { inputs: [a, { ...b, data: undefined, parameters: { binary_data_size: 1 } }] },
        Buffer.from([2]),
      ),
    },
    400,
    /bytes of a BOOL tensor must be 0 or 1/,
  ],
  [
    'JSON longer than the body',
    { headers: { 'Inference-Header-Content-Length': 99 }, body: '{}' },
    400,
    /is 99, and the body has 2 bytes/,
  ],
  [
    'JSON of no length',
    { headers: { 'Inference-Header-Content-Length': 0 }, body: 'xx' },
    400,
    /the body is empty/,
  ],
  [
    'JSON of no sensible length',
    { headers: { 'Inference-Header-Content-Length': '-1' }, body: 'xx' },
    400,
    /must be a number of bytes, got '-1'/,
  ],
  [
    'JSON of a hexadecimal length',
    { headers: { 'Inference-Header-Content-Length': '0x2' }, body: '{}' },
    400,
    /got '0x2'/,
  ],
  ['JSON cut in two', { headers: { 'Inference-Header-Content-Length': 5 }, body: body({}) }, 400, /not JSON/],

  // Parameters and outputs.
  [
    'an id that is a number',
    { body: JSON.stringify({ id: 4, inputs: [input({})] }) },
    400,
    /id must be a string, got 4/,
  ],
  [
    'parameters in a list',
    { body: JSON.stringify({ parameters: [], inputs: [input({})] }) },
    400,
    /parameters must be an object/,
  ],
  [
    'binary_data_output: 1',
    { body: JSON.stringify({ parameters: { binary_data_output: 1 }, inputs: [input({})] }) },
    400,
    /binary_data_output must be true or false, got 1/,
  ],
  [
    'shared memory',
    { body: body({ parameters: { shared_memory_region: 'r' } }) },
    400,
    /shared_memory_region is not supported/,
  ],
  ['outputs that are no list', { body: withOutputs('y') }, 400, /outputs must be a list, got 'y'/],
  ['no outputs', { body: withOutputs([]) }, 400, /outputs is empty/],
  [
    'an unknown output',
    { body: withOutputs([{ name: 'x' }]) },
    400,
    /an output of the model: 'y' or 'sum', got 'x'/,
  ],
  [
    'an output twice',
    { body: withOutputs([{ name: 'y' }, { name: 'y' }]) },
    400,
    /outputs\[1\]\.name is 'y', which/,
  ],
  [
    'an output that is a string',
    { body: withOutputs(['y']) },
    400,
    /outputs\[0\] must be an object, got 'y'/,
  ],
  [
    'binary_data: "yes"',
    { body: withOutputs([{ name: 'y', parameters: { binary_data: 'yes' } }]) },
    400,
    /binary_data must be true or false/,
  ],
  [
    'classes',
    { body: withOutputs([{ name: 'y', parameters: { classification: 3 } }]) },
    400,
    /classification is not supported/,
  ],

  // What HTTP can say.
  [
    'another content type',
    { headers: { 'Content-Type': 'text/html' }, body: body({}) },
    415,
    /'application\/json' or 'application\/octet-stream', got 'text\/html'/,
  ],
  [
    'a body compressed in an unknown way',
    { headers: { 'Content-Encoding': 'zstd' }, body: body({}) },
    415,
    /Content-Encoding must be 'gzip', 'deflate' or 'br', or left out, got 'zstd'/,
  ],
  [
    'a compressed body that is none',
    { headers: { 'Content-Encoding': 'gzip' }, body: body({}) },
    400,
    /the body is no whole gzip data: incorrect header check/,
  ],
  [
    'long JSON',
    { body: body({ id: 'x'.repeat(LIMIT) }) },
    413,
    /longer than 4096 bytes, the most that JSON may have/,
  ],
  [
    'long JSON in chunks',
    { body: [body({}), ' '.repeat(LIMIT)] },
    413,
    /longer than 4096 bytes, the most that JSON/,
  ],
  [
    'a long body',
    binary(8, Buffer.alloc(3 * LIMIT)),
    413,
    /longer than 8192 bytes, the most that a request may have/,
  ],
  [
    'long JSON before tensors',
    binary(8, Buffer.alloc(8), { id: 'x'.repeat(LIMIT) }),
    413,
    /JSON may have 4096 bytes/,
  ],
  ['GET', { method: 'GET' }, 405, /the methods here are POST, OPTIONS/],
  ['DELETE', { method: 'DELETE' }, 405, /the methods here are POST, OPTIONS/],
  ['POST to metadata', { path: '/v2', body: '{}' }, 405, /the methods here are GET, HEAD, OPTIONS/],

  // Paths.
  [
    'an unknown model',
    { path: '/v2/models/treble/infer', body: body({}) },
    404,
    /'treble' is not served; there is 'double' or 'pair'/,
  ],
  [
    'a model __proto__',
    { path: '/v2/models/__proto__/infer', body: body({}) },
    404,
    /'__proto__' is not served/,
  ],
  [
    'a model constructor',
    { path: '/v2/models/constructor', method: 'GET' },
    404,
    /'constructor' is not served/,
  ],
  [
    'an unknown version',
    { path: '/v2/models/double/versions/2/infer', body: body({}) },
    404,
    /no version '2'; there is '1'/,
  ],
  [
    'an unknown action',
    { path: '/v2/models/double/train', body: body({}) },
    404,
    /nothing at '\/v2\/models\/double\/train'/,
  ],
  ['another path', { path: '/', method: 'GET' }, 404, /there is nothing at '\/'/],
  ['dots', { path: '/v2/models/../../../etc/passwd', method: 'GET' }, 404, /there is nothing at/],
  [
    'encoded dots',
    { path: '/v2/models/..%2f..%2fetc%2fpasswd', method: 'GET' },
    404,
    /'\.\.\/\.\.\/etc\/passwd' is not served/,
  ],
  [
    'a broken encoding',
    { path: '/v2/models/%E0%A4%A/infer', body: body({}) },
    400,
    /not a valid percent-encoding/,
  ],
  ['a name of zero bytes', { path: '/v2/models//infer', body: body({}) }, 404, /there is nothing at/],
];

describe.each(CASES)('%s', (_, sent, status, reason) => {
  test(`is answered by ${status} and a reason`, async () => {
    const headers = { 'Content-Type': 'application/json' };
    const received = await request(server.url, {
      path: INFER,
      ...sent,
      headers: { ...headers, ...sent.headers },
    });
    expect([received.status, json(received)]).toEqual([status, { error: expect.stringMatching(reason) }]);
    expect(received.headers['content-type']).toBe('application/json');

    const good = await postJson(server.url, INFER, doublingRequest([[1, 2]]));
    expect([good.status, json(good).outputs]).toEqual([200, expect.any(Array)]);
    // None of it is the server's fault.
    expect(error).not.toHaveBeenCalled();
  });
});

test.each([
  ['405', { method: 'PUT', body: '{}' }, 'allow', 'POST, OPTIONS'],
  ['415', { headers: { 'Content-Encoding': 'zstd' }, body: '{}' }, 'accept-encoding', 'gzip, deflate, br'],
])('a %s names what would do', async (_, sent: Omit<Sent, 'path'>, header, expected) => {
  const received = await request(server.url, { path: INFER, ...sent });
  expect(received.headers[header]).toBe(expected);
});

test.each([
  ['no HTTP at all', 'hello\r\n\r\n'],
  ['two lengths', `POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx`],
  ['a negative length', `POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n`],
  ['a broken chunk', `POST ${INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`],
])('%s is answered by 400, if by node:http', async (_, text) => {
  const connection = await RawConnection.open(server.url);
  connection.write(text);
  await connection.closed;
  expect(connection.received).toMatch(/^HTTP\/1\.1 400 /);
  const good = await postJson(server.url, INFER, doublingRequest([[1, 2]]));
  expect(good.status).toBe(200);
});

test('a request that is refused leaves its connection usable', async () => {
  const connection = await RawConnection.open(server.url);
  const post = (text: string) =>
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  post('x'.repeat(2 * LIMIT));
  await until(() => connection.received.includes('HTTP/1.1 413 '));
  post(JSON.stringify(doublingRequest([[1, 2]])));
  await until(() => connection.received.includes('HTTP/1.1 200 '));
  connection.socket.destroy();
});

test('a good request of which some bytes are changed is answered, or refused for a reason', async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  process.stdout.write(`seed ${seed}\n`);
  const random = new Random(seed);
  const good = binary(8, Buffer.alloc(8));
  const head = Number(good.headers['Inference-Header-Content-Length']);
  const counts = { 200: 0, 400: 0 };
  for (let round = 0; round < 400; round++) {
    const changed = Buffer.from(good.body);
    for (let change = random.integer(1, 3); change > 0; change--) {
      changed[random.integer(0, head - 1)] = random.pick([0, 0x22, 0x2c, 0x30, 0x39, 0x5b, 0x5d, 0x7d, 0xff]);
    }
    const received = await request(server.url, { path: INFER, headers: good.headers, body: changed });
    if (received.status !== 200) expect(json(received)).toEqual({ error: expect.any(String) });
    expect(counts).toHaveProperty(String(received.status));
    counts[received.status as 200 | 400]++;
  }
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(counts[400]).toBeGreaterThan(0);
  expect(error).not.toHaveBeenCalled();
});

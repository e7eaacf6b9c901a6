/** The Open Inference Protocol with the binary tensor extension, spoken over a socket. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';

import { createHandler } from '../../lib/serve';
import { binaryRequest, binaryResponse, json, postJson, request } from './support/client';
import { doublingRequest, doublingSession, echoSession, FakeSession, value } from './support/fake_session';
import { closeAll, open, openOnce, THREADS } from './support/serving';

afterEach(closeAll);

const INFER = '/v2/models/double/infer';
const ECHO = '/v2/models/echo/infer';

describe('what there is to look up', () => {
  const models = { double: doublingSession(), 'with/slash': { session: doublingSession(), version: '7' } };
  const server = openOnce(open, { models });

  test.each([
    ['/v2/health/live', { live: true }],
    ['/v2/health/ready', { ready: true }],
    ['/v2/models/double/ready', { name: 'double', ready: true }],
    ['/v2/models/double/versions/1/ready', { name: 'double', ready: true }],
    ['/v2/health/live?verbose=1', { live: true }],
  ])('%s', async (path, expected) => {
    const { url } = server;
    const received = await request(url, { path });
    expect(received.status).toBe(200);
    expect(received.headers['content-type']).toBe('application/json');
    expect(json(received)).toEqual(expected);
  });

  test('/v2 names the package and its version', async () => {
    const { url } = server;
    const manifest = readFileSync(path.join(__dirname, '../../package.json'), 'utf8');
    const { version } = JSON.parse(manifest) as { version: string };
    expect(json(await request(url, { path: '/v2' }))).toEqual({
      ...{ name: 'warpconv', version, extensions: ['binary_tensor_data', 'statistics'] },
    });
  });

  test.each(['/v2/models/with%2Fslash', '/v2/models/with%2Fslash/versions/7'])('%s', async (path) => {
    const { url } = server;
    expect(json(await request(url, { path }))).toEqual({
      name: 'with/slash',
      versions: ['7'],
      platform: 'warpconv_onnx',
      inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }],
      outputs: [
        { name: 'y', datatype: 'FP32', shape: [-1, 2] },
        { name: 'sum', datatype: 'FP32', shape: [-1] },
      ],
    });
  });

  test('HEAD gives the headers of GET, and no body', async () => {
    const { url } = server;
    const get = await request(url, { path: '/v2' });
    const head = await request(url, { path: '/v2', method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.headers['content-length']).toBe(String(get.body.length));
    expect(head.body.length).toBe(0);
  });

  test.each([
    ['/v2', 'GET, HEAD, OPTIONS'],
    [INFER, 'POST, OPTIONS'],
  ])('OPTIONS of %s', async (path, methods) => {
    const { url } = server;
    const received = await request(url, { path, method: 'OPTIONS' });
    expect([received.status, received.headers.allow]).toEqual([200, methods]);
  });
});

describe('inference', () => {
  const server = openOnce(open, { models: { double: doublingSession() } });

  test('in JSON, with the id', async () => {
    const { url } = server;
    const received = await postJson(url, INFER, {
      id: 'a "b" \u2028',
      ...doublingRequest([
        [1, -2.5],
        [0.1, 1e-45],
      ]),
    });
    expect(received.status).toBe(200);
    expect(received.headers['content-type']).toBe('application/json');
    expect(json(received)).toEqual({
      model_name: 'double',
      model_version: '1',
      id: 'a "b" \u2028',
      outputs: [
        { name: 'y', datatype: 'FP32', shape: [2, 2], data: [2, -5, 2 * Math.fround(0.1), 2 ** -148] },
        { name: 'sum', datatype: 'FP32', shape: [2], data: [-1.5, Math.fround(0.1)] },
      ],
    });
  });

  test('the outputs that are asked for, in that order, and only those are computed', async () => {
    const session = doublingSession();
    const { url } = await open({ models: { double: session } });
    const outputs = [{ name: 'sum' }];
    const received = await postJson(url, INFER, { ...doublingRequest([[3, 4]]), outputs });
    expect(json(received).outputs).toEqual([{ name: 'sum', datatype: 'FP32', shape: [1], data: [7] }]);
    const both = await postJson(url, INFER, {
      ...doublingRequest([[3, 4]]),
      outputs: [{ name: 'sum' }, { name: 'y' }],
    });
    expect((json(both).outputs as { name: string }[]).map(({ name }) => name)).toEqual(['sum', 'y']);
    expect(session.runs.map(({ fetches }) => fetches)).toEqual([['sum'], ['y', 'sum']]);
  });

  /** Some clients write whatever they have nothing for: KServe's SDK the id, generated ones every member. */
  describe('members that are null are as good as left out', () => {
    const x = { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
    const parametersOf = (...names: string[]) => Object.fromEntries(names.map((name) => [name, null]));
    const ofInput = parametersOf('binary_data_size', 'shared_memory_region', 'shared_memory_offset');
    const ofOutput = parametersOf('binary_data', 'classification', 'shared_memory_region', 'other');

    test.each<[string, object]>([
      ['the id', { id: null, inputs: [x] }],
      ['parameters', { parameters: null, inputs: [x] }],
      ['binary_data_output', { parameters: { binary_data_output: null }, inputs: [x] }],
      ['outputs', { outputs: null, inputs: [x] }],
      ['parameters of an input', { inputs: [{ ...x, parameters: null }] }],
      ['each parameter of an input', { inputs: [{ ...x, parameters: ofInput }] }],
      [
        'parameters of an output',
        { inputs: [x], outputs: [{ name: 'y', parameters: null }, { name: 'sum' }] },
      ],
      [
        'each parameter of an output',
        {
          inputs: [x],
          outputs: [
            { name: 'y', parameters: ofOutput },
            { name: 'sum', data: null },
          ],
        },
      ],
    ])('%s', async (_, body) => {
      const { url } = server;
      const received = await postJson(url, INFER, body);
      expect(json(received)).toEqual({
        ...{ model_name: 'double', model_version: '1' },
        outputs: [
          { name: 'y', datatype: 'FP32', shape: [1, 2], data: [2, 4] },
          { name: 'sum', datatype: 'FP32', shape: [1], data: [3] },
        ],
      });
    });

    test('the data of an input that comes as binary data', async () => {
      const { url } = server;
      const input = { ...x, data: null, parameters: { binary_data_size: 8 } };
      const bytes = Buffer.from(Float32Array.of(1, 2).buffer);
      const received = await request(url, { path: INFER, ...binaryRequest({ inputs: [input] }, bytes) });
      expect(json(received).outputs).toHaveLength(2);
    });

    test('but not what a request needs', async () => {
      const { url } = server;
      for (const member of ['name', 'datatype', 'shape', 'data']) {
        const received = await postJson(url, INFER, { inputs: [{ ...x, [member]: null }] });
        expect([received.status, json(received)]).toEqual([
          400,
          { error: expect.stringMatching(`inputs\\[0\\].*${member}`) },
        ]);
      }
      expect((await postJson(url, INFER, { inputs: null })).status).toBe(400);
    });
  });

  test('elements nested as the shape is', async () => {
    const session = new FakeSession(
      [value('x', 'int32', [2, 1, 3])],
      [value('y', 'int32', [6])],
      ({ x }) => ({ y: { type: 'int32', dims: [6], data: x!.data } }),
    );
    const { url } = await open({ models: { double: session } });
    const nested = { name: 'x', datatype: 'INT32', shape: [2, 1, 3], data: [[[1, 2, 3]], [[4, 5, 6]]] };
    const received = await postJson(url, INFER, { inputs: [nested] });
    expect(json(received).outputs).toEqual([
      { name: 'y', datatype: 'INT32', shape: [6], data: [1, 2, 3, 4, 5, 6] },
    ]);
  });

  test('of no dimensions', async () => {
    const session = new FakeSession([value('x', 'float64', [])], [value('y', 'float64', [])], ({ x }) => ({
      y: x,
    }));
    const { url } = await open({ models: { double: session } });
    const inputs = [{ name: 'x', datatype: 'FP64', shape: [], data: [0.1] }];
    expect(json(await postJson(url, INFER, { inputs })).outputs).toEqual([
      { name: 'y', datatype: 'FP64', shape: [], data: [0.1] },
    ]);
  });

  test('with a chunked body', async () => {
    const { url } = server;
    const text = JSON.stringify(doublingRequest([[1, 2]]));
    const body = [text.slice(0, 7), text.slice(7, 9), text.slice(9)];
    const received = await request(url, { path: INFER, body });
    expect([received.status, json(received).outputs]).toEqual([200, expect.any(Array)]);
  });

  test('binary input and output beside JSON ones', async () => {
    const { url } = server;
    const x = { name: 'x', datatype: 'FP32', shape: [2, 2], parameters: { binary_data_size: 16 } };
    const elements = Float32Array.of(1, 2, NaN, -Infinity);
    const head = { inputs: [x], outputs: [{ name: 'y', parameters: { binary_data: true } }] };
    const received = await request(url, {
      path: INFER,
      ...binaryRequest(head, Buffer.from(elements.buffer)),
    });
    expect(received.headers['content-type']).toBe('application/octet-stream');
    expect(received.headers['content-length']).toBe(String(received.body.length));
    const { head: answer, data } = binaryResponse(received);
    expect(answer.outputs).toEqual([
      { name: 'y', datatype: 'FP32', shape: [2, 2], parameters: { binary_data_size: 16 } },
    ]);
    const doubled = Float32Array.of(2, 4, NaN, -Infinity);
    expect(data.equals(Buffer.from(doubled.buffer))).toBe(true);
  });

  test('binary outputs by default, save one', async () => {
    const { url } = server;
    const received = await postJson(url, INFER, {
      ...doublingRequest([[1, 2]]),
      parameters: { binary_data_output: true },
      outputs: [{ name: 'y' }, { name: 'sum', parameters: { binary_data: false } }],
    });
    const { head, data } = binaryResponse(received);
    expect(head.outputs).toEqual([
      { name: 'y', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } },
      { name: 'sum', datatype: 'FP32', shape: [1], data: [3] },
    ]);
    expect([data.readFloatLE(0), data.readFloatLE(4), data.length]).toEqual([2, 4, 8]);
  });

  test.each([0, 1, 2, 3])('a binary tensor %i bytes off its alignment', async (shift) => {
    const { url } = server;
    const x = { name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } };
    const outputs = [{ name: 'sum' }];
    const data = Buffer.from(Float32Array.of(1.5, 2.5).buffer);
    const { headers, body } = binaryRequest({ id: 'x'.repeat(shift), inputs: [x], outputs }, data);
    // Both ways in which bodies are collected: with a length, and in chunks.
    for (const sent of [body, [body]]) {
      const received = await request(url, { path: INFER, headers, body: sent });
      expect(json(received).outputs).toEqual([{ name: 'sum', datatype: 'FP32', shape: [1], data: [4] }]);
    }
  });

  // What other threads have read is copied for sessions that take no parts.
  (THREADS === 1 ? test : test.skip).each([0, 1, 2, 3, 4, 5, 6, 7])(
    'a binary tensor %i bytes off its alignment in a body with Content-Length is not copied',
    async (shift) => {
      const session = doublingSession();
      const { url } = await open({ models: { double: session } });
      const size = 8000;
      const x = { name: 'x', datatype: 'FP32', shape: [1000, 2], parameters: { binary_data_size: size } };
      const { headers, body } = binaryRequest({ id: 'x'.repeat(shift), inputs: [x] }, Buffer.alloc(size));
      await request(url, { path: INFER, headers: { ...headers, 'Content-Length': body.length }, body });
      const data = session.runs[0]!.feeds.x!.data as Float32Array;
      expect(data.buffer.byteLength).toBeGreaterThanOrEqual(body.length);
    },
  );
});

/** Elements that are typical, and those at the ends of each type's range, in JSON and little-endian bytes. */
const ELEMENTS: readonly [name: string, type: string, json: unknown[], bytes: Buffer][] = [
  ['BOOL', 'bool', [true, false, true], Buffer.from([1, 0, 1])],
  ['UINT8', 'uint8', [0, 255], Buffer.from([0, 255])],
  ['INT8', 'int8', [-128, 127, -1], Buffer.from([0x80, 0x7f, 0xff])],
  ['UINT16', 'uint16', [0, 65535, 258], Buffer.from('0000ffff0201', 'hex')],
  ['INT16', 'int16', [-32768, 32767], Buffer.from('0080ff7f', 'hex')],
  ['UINT32', 'uint32', [4294967295, 1], Buffer.from('ffffffff01000000', 'hex')],
  ['INT32', 'int32', [-2147483648, 2147483647], Buffer.from('00000080ffffff7f', 'hex')],
  ['UINT64', 'uint64', [9007199254740991, 0], Buffer.from('ffffffffffff1f000000000000000000', 'hex')],
  ['INT64', 'int64', [-9007199254740991, -1], Buffer.from('010000000000e0ffffffffffffffffff', 'hex')],
  ['FP16', 'float16', [1, -2, 65504, 2 ** -24], Buffer.from('003c00c0ff7b0100', 'hex')],
  ['BF16', 'bfloat16', [1, -2, 2 ** -133], Buffer.from('803f00c00100', 'hex')],
  ['FP32', 'float32', [1, -0.5, 3.4028234663852886e38], Buffer.from('0000803f000000bfffff7f7f', 'hex')],
  ['FP64', 'float64', [0.1, -1.7976931348623157e308], Buffer.from('9a9999999999b93fffffffffffffefff', 'hex')],
];

/** Of a model for each type, by its name */
const echoing = openOnce(open, {
  models: Object.fromEntries(ELEMENTS.map(([, type]) => [type, echoSession(type)])),
});

describe.each(ELEMENTS)('%s', (datatype, type, elements, bytes) => {
  const model = `/v2/models/${type}`;
  const outputs = { json: [{ name: 'out' }], binary: [{ name: 'out', parameters: { binary_data: true } }] };
  const shape = [elements.length];
  const given = { name: 'in', datatype, shape };

  test('from JSON to both', async () => {
    const { url } = echoing;
    const inputs = [{ ...given, data: elements }];
    const text = await postJson(url, `${model}/infer`, { inputs, outputs: outputs.json });
    expect(json(text).outputs).toEqual([{ name: 'out', datatype, shape, data: elements }]);
    const binary = binaryResponse(await postJson(url, `${model}/infer`, { inputs, outputs: outputs.binary }));
    expect(binary.data.toString('hex')).toBe(bytes.toString('hex'));
  });

  test('from binary to both', async () => {
    const { url } = echoing;
    const inputs = [{ ...given, parameters: { binary_data_size: bytes.length } }];
    const text = await request(url, {
      path: `${model}/infer`,
      ...binaryRequest({ inputs, outputs: outputs.json }, bytes),
    });
    expect(json(text).outputs).toEqual([{ name: 'out', datatype, shape, data: elements }]);
    const binary = await request(url, {
      path: `${model}/infer`,
      ...binaryRequest({ inputs, outputs: outputs.binary }, bytes),
    });
    expect(binaryResponse(binary).data.toString('hex')).toBe(bytes.toString('hex'));
  });

  test('is named in the metadata', async () => {
    const { url } = echoing;
    expect(json(await request(url, { path: model })).inputs).toEqual([{ name: 'in', datatype, shape: [-1] }]);
  });
});

describe('what JSON cannot say', () => {
  test('64-bit integers beyond 2 ** 53 come out in full', async () => {
    const { url } = echoing;
    const bytes = Buffer.from(BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n)).buffer);
    const inputs = [{ name: 'in', datatype: 'INT64', shape: [2], parameters: { binary_data_size: 16 } }];
    const received = await request(url, {
      path: '/v2/models/int64/infer',
      ...binaryRequest({ inputs }, bytes),
    });
    expect(received.body.toString()).toContain('[9223372036854775807,-9223372036854775808]');
  });

  test.each([
    ['float32', 'FP32', Buffer.from(Float32Array.of(1, NaN).buffer)],
    ['float64', 'FP64', Buffer.from(Float64Array.of(1, -Infinity).buffer)],
    ['float16', 'FP16', Buffer.from('003c007c', 'hex')],
    ['bfloat16', 'BF16', Buffer.from('803fc17f', 'hex')],
  ])('an infinite or NaN %s is refused, and goes as binary data', async (type, datatype, bytes) => {
    const { url } = echoing;
    const path = `/v2/models/${type}/infer`;
    const size = { binary_data_size: bytes.length };
    const inputs = [{ name: 'in', datatype, shape: [2], parameters: size }];
    const refused = await request(url, { path, ...binaryRequest({ inputs }, bytes) });
    expect([refused.status, json(refused)]).toEqual([
      406,
      { error: expect.stringMatching(/output 'out' .*binary_data_output/) },
    ]);
    const parameters = { binary_data_output: true };
    const received = await request(url, { path, ...binaryRequest({ inputs, parameters }, bytes) });
    expect(binaryResponse(received).data.equals(bytes)).toBe(true);
  });

  test('more text than maxJsonBytes is refused', async () => {
    const { url } = await open({ models: { echo: echoSession('uint8') }, maxJsonBytes: 1000 });
    const bytes = Buffer.alloc(600, 1);
    const inputs = [{ name: 'in', datatype: 'UINT8', shape: [600], parameters: { binary_data_size: 600 } }];
    const refused = await request(url, { path: ECHO, ...binaryRequest({ inputs }, bytes) });
    expect([refused.status, json(refused)]).toEqual([406, { error: expect.stringContaining(`'out'`) }]);
  });
});

describe('sessions', () => {
  test('see tensors in CPU memory, under any name, and may answer from elsewhere', async () => {
    const disposed: string[] = [];
    const session = new FakeSession(
      [value('__proto__', 'float32', [2])],
      [value('y', 'float32', [2])],
      (feeds) => {
        const { type, dims, data, location } = Object.getOwnPropertyDescriptor(feeds, '__proto__')!.value as {
          type: string;
          dims: number[];
          data: Float32Array;
          location: string;
        };
        expect([type, dims, location]).toEqual(['float32', [2], 'cpu']);
        return {
          y: {
            ...{ type, dims, location: 'gpu-buffer' },
            get data() {
              throw new Error('the data is on a GPU');
            },
            getData: async () => data,
            dispose: () => disposed.push('y'),
          },
        };
      },
    );
    const { url } = await open({ models: { double: session } });
    const inputs = [{ name: '__proto__', datatype: 'FP32', shape: [2], data: [1, 2] }];
    const received = await postJson(url, INFER, { inputs });
    expect(json(received).outputs).toEqual([{ name: 'y', datatype: 'FP32', shape: [2], data: [1, 2] }]);
    expect(disposed).toEqual(['y']);
  });

  const { inputMetadata, outputMetadata } = echoSession('float32');
  const inputs = [{ name: 'in', datatype: 'FP32', shape: [1], data: [1] }];
  const error = jest.fn();
  beforeEach(() => error.mockClear());

  const x = { type: 'float32', dims: [1], data: Float32Array.of(1) };
  const WRONG: readonly (readonly [string, unknown])[] = [
    ['no outputs', {}],
    ['nothing', undefined],
    ['another type', { out: { ...x, type: 'float64' } }],
    ['too few elements', { out: { ...x, dims: [2] } }],
    ['no array', { out: { ...x, data: [1] } }],
    ['extents below zero', { out: { ...x, dims: [-1, -1] } }],
    ['extents that are texts', { out: { ...x, dims: ['1'] } }],

    ['a hole in the dims', { out: { ...x, dims: [, 1] } }],
    ['what every object has', Object.create({ out: x })],
  ];
  const wrong = openOnce(open, {
    models: Object.fromEntries(
      WRONG.map(([what, outputs]) => [
        what,
        new FakeSession(inputMetadata, outputMetadata, () => outputs as never),
      ]),
    ),
    logger: { error },
  });

  test.each(WRONG)('that give %s are answered for by 500, and logged', async (what) => {
    const received = await postJson(wrong.url, `/v2/models/${encodeURIComponent(what)}/infer`, { inputs });
    expect([received.status, json(received)]).toEqual([500, { error: expect.stringContaining(`'out'`) }]);
    expect(error).toHaveBeenCalledTimes(1);
  });

  const FAILURES = [
    ['ERR_WARPCONV_INVALID_ARGUMENT', 400, 'said why'],
    ['ERR_WARPCONV_INVALID_MODEL', 400, 'said why'],
    ['ERR_WARPCONV_UNSUPPORTED', 400, 'said why'],
    ['ERR_WARPCONV_OUT_OF_MEMORY', 503, 'said why'],
    ['ERR_WARPCONV_CUDA', 500, 'said why'],
    ['EACCES', 500, 'the model failed; the log of the server says why'],
  ] as const;
  const failing = openOnce(open, {
    models: Object.fromEntries(
      FAILURES.map(([code]) => [
        code,
        new FakeSession(inputMetadata, outputMetadata, () => {
          throw Object.assign(new Error('said why'), { code });
        }),
      ]),
    ),
    logger: { error },
  });

  test.each(FAILURES)('that fail with %s', async (code, status, message) => {
    const received = await postJson(failing.url, `/v2/models/${code}/infer`, { inputs });
    expect([received.status, json(received)]).toEqual([status, { error: message }]);
    expect(error).toHaveBeenCalledTimes(status === 500 ? 1 : 0);
  });

  test('that cannot compile the only shape that they take fail by no fault of the client', async () => {
    const session = new FakeSession([value('in', 'float32', [1])], [value('out', 'float32', ['n'])], () => {
      throw Object.assign(new Error('said why'), { code: 'ERR_WARPCONV_UNSUPPORTED' });
    });
    const { url } = await open({ models: { echo: session }, logger: { error } });
    expect((await postJson(url, ECHO, { inputs })).status).toBe(500);
    expect(error).toHaveBeenCalledTimes(1);
  });
});

test('a handler that gets a body that was read already says so', async () => {
  const error = jest.fn();
  const handler = createHandler({ models: { echo: echoSession('float32') }, logger: { error } });
  const server = createServer((req, res) => req.resume().on('end', () => handler(req, res)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const received = await postJson(`http://127.0.0.1:${port}`, ECHO, {});
  expect(received.status).toBe(500);
  expect(error).toHaveBeenCalledWith(
    { err: expect.objectContaining({ message: expect.stringContaining('body parsers') }), model: 'echo' },
    expect.any(String),
  );
  handler.close();
  server.close();
});

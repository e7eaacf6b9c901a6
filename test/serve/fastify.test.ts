/** The same, as a plugin of Fastify. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';

import Fastify, { type FastifyInstance } from 'fastify';

import { servePlugin } from '../../lib/serve/fastify';
import { binaryRequest, json, postJson, request } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { until } from './support/serving';

let app: FastifyInstance;

beforeEach(() => {
  app = Fastify();
});

afterEach(() => app.close());

const INFER = '/ml/v2/models/double/infer';
const GOOD = doublingRequest([[1, 2]]);

async function listen(): Promise<string> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as { port: number };
  return `http://127.0.0.1:${port}`;
}

test.each([
  ['GET', '/ml/v2', 200, /"name":"warpconv"/],
  ['GET', '/ml/v2/health/ready', 200, /^{"ready":true}$/],
  ['GET', '/ml/v2/models/double?x=1', 200, /"shape":\[-1,2\]/],
  ['GET', '/ml/metrics', 200, /^# HELP warpconv_/],
  ['HEAD', '/ml/v2', 200, /^$/],
  ['OPTIONS', '/ml/v2', 200, /^$/],
  ['DELETE', '/ml/v2', 405, /^{"error":"the methods here are GET, HEAD, OPTIONS"}$/],
  ['POST', INFER, 400, /^{"error":"the body is empty/],
  ['GET', '/ml/v2/models/treble', 404, /^{"error":"model 'treble' is not served/],
  ['GET', '/v2', 404, /Route GET:\/v2 not found/],
] as const)('%s %s', async (method, path, status, body) => {
  await app.register(servePlugin, { prefix: '/ml', models: { double: doublingSession() } });
  const received = await request(await listen(), { method, path });
  expect([received.status, received.body.toString()]).toEqual([status, expect.stringMatching(body)]);
});

test('without a prefix', async () => {
  await app.register(servePlugin, { models: { double: doublingSession() } });
  const received = await postJson(await listen(), '/v2/models/double/infer', GOOD);
  expect([received.status, json(received).outputs]).toEqual([200, expect.any(Array)]);
});

test.each([
  ['/', ''],
  ['/ml/', '/ml'],
  ['/:tenant/ml', '/acme/ml'],
  ['/:tenant/ml', '/a%2Fb/ml'],
])('below the prefix %s at %s', async (prefix, base) => {
  await app.register(servePlugin, { prefix, models: { double: doublingSession() } });
  const url = await listen();
  for (const target of ['/v2?a=/b', '/v2/models/double', '/metrics']) {
    expect((await request(url, { path: base + target })).status).toBe(200);
  }
  expect((await postJson(url, `${base}/v2/models/double/infer`, GOOD)).status).toBe(200);
});

test('binary tensors in and out over a socket, beyond the limit of Fastify itself', async () => {
  await app.register(servePlugin, { prefix: '/ml', models: { double: doublingSession() } });
  const url = await listen();
  const rows = 200_000;
  const elements = Float32Array.from({ length: 2 * rows }, (_, index) => index);
  const size = elements.byteLength;
  const x = { name: 'x', datatype: 'FP32', shape: [rows, 2], parameters: { binary_data_size: size } };
  const head = { inputs: [x], outputs: [{ name: 'y' }], parameters: { binary_data_output: true } };
  const received = await request(url, { path: INFER, ...binaryRequest(head, Buffer.from(elements.buffer)) });
  expect([received.status, received.headers['content-type']]).toEqual([200, 'application/octet-stream']);
  const length = Number(received.headers['inference-header-content-length']);
  const doubled = Float32Array.from(elements, (element) => 2 * element);
  expect(received.body.subarray(length).equals(Buffer.from(doubled.buffer))).toBe(true);
  expect(received.headers['content-length']).toBe(String(length + size));
});

test('hooks of the application see the answers, and its own routes keep their parsers', async () => {
  app.addHook('onSend', async (_request, reply) => void reply.header('x-seen', 'yes'));
  app.post('/echo', async (incoming) => incoming.body);
  await app.register(servePlugin, { prefix: '/ml', models: { double: doublingSession() } });
  const url = await listen();
  const received = await postJson(url, INFER, GOOD);
  expect([received.status, received.headers['x-seen']]).toEqual([200, 'yes']);
  expect(json(await postJson(url, '/echo', { a: 1 }))).toEqual({ a: 1 });
});

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
])('bodies in %s, in front of hooks that do not know of it', async (encoding, encode) => {
  await app.register(servePlugin, {
    prefix: '/ml',
    models: { double: doublingSession() },
    maxJsonBytes: 200,
  });
  const headers = { 'Content-Type': 'application/json', 'Content-Encoding': encoding };
  const send = (text: string) => request(url, { path: INFER, headers, body: encode(text) });
  const url = await listen();
  const received = await send(JSON.stringify(GOOD));
  expect([received.status, json(received).outputs]).toEqual([200, expect.any(Array)]);
  expect((await send(JSON.stringify(GOOD).padEnd(201))).status).toBe(413);
});

test('limits are those of the plugin', async () => {
  await app.register(servePlugin, { prefix: '/ml', models: { double: doublingSession() }, maxBodyBytes: 10 });
  const received = await postJson(await listen(), INFER, GOOD);
  expect([received.status, json(received)]).toEqual([413, { error: expect.stringContaining('10 bytes') }]);
});

test('failures go to the log of the application', async () => {
  const lines: string[] = [];
  app = Fastify({ logger: { level: 'error', stream: { write: (line: string) => void lines.push(line) } } });
  const { inputMetadata, outputMetadata, inputNames, outputNames } = doublingSession();
  const session = {
    ...{ inputMetadata, outputMetadata, inputNames, outputNames },
    run: () => Promise.reject(new Error('out of luck')),
  };
  await app.register(servePlugin, { prefix: '/ml', models: { double: session } });
  expect((await postJson(await listen(), INFER, GOOD)).status).toBe(500);
  expect(lines.join()).toContain('out of luck');
});

test('closing the application answers what was accepted first', async () => {
  const session = doublingSession();
  await app.register(servePlugin, { prefix: '/ml', models: { double: session } });
  const url = await listen();
  session.hold();
  const accepted = postJson(url, INFER, GOOD);
  await until(() => session.runs.length === 1);
  const closed = app.close();
  session.open();
  expect((await accepted).status).toBe(200);
  await closed;
  await expect(request(url, { path: '/ml/v2' })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

test('wrong options are refused when the application starts', async () => {
  const options = { models: { double: doublingSession() }, maxQeue: 3 };
  await expect(app.register(servePlugin, options).ready()).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining(`did you mean 'maxQueue'?`),
  });
});

// In a process of its own, because a part of inject() is an ES module, which Jest does not load.
test('inject() without a socket', () => {
  const script = path.join(__dirname, 'children/inject.cjs');
  const { stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['200 {"in":[1,2],"out":[1,2]}\n400\n200 {"ready":true}\n', '']);
});

/** The document that describes the routes: whether it is valid, complete, and true of the answers. */
import Ajv2020 from 'ajv/dist/2020';
import type { ValidateFunction } from 'ajv';
import Fastify from 'fastify';
import { rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

import { servePlugin } from '../../lib/serve/fastify';
import { pathsOf, ROUTES, type Action } from '../../lib/serve/routes';
import { ModelFolder, openBuilt } from './support/built';
import {
  binaryRequest,
  binaryResponse,
  json,
  postJson,
  request,
  type Received,
  type Sent,
} from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { newFolder, put, scaling } from './support/models';
import { load } from './support/outside';
import { closeAll, open, until } from './support/serving';

afterEach(closeAll);

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { name: string; in: string; schema: { enum?: unknown[] } }[];
  readonly requestBody?: { content: Record<string, { schema: object }> };
  readonly responses: Record<string, { content: Record<string, { schema: object }>; headers?: object }>;
}

interface Document {
  readonly openapi: string;
  readonly servers?: readonly { url: string }[];
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, object> };
}

const DOCUMENT = '/v2/openapi.json';
const INFER = '/v2/models/double/infer';
const models = () => ({ double: doublingSession(), other: { session: doublingSession(), version: '7' } });

async function documentAt(url: string, path = DOCUMENT): Promise<Document> {
  const received = await request(url, { path });
  expect([received.status, received.headers['content-type']]).toEqual([200, 'application/json']);
  return json(received) as unknown as Document;
}

test('it is valid', async () => {
  const { url } = await open({ models: models() });
  const document = await documentAt(url);
  expect(document.openapi).toMatch(/^3\.1\.\d+$/);
  const { Validator } = load('@seriousme/openapi-schema-validator') as {
    Validator: new () => { validate(document: object): Promise<{ valid: boolean; errors?: unknown }> };
  };
  const validator = new Validator();
  expect(await validator.validate(structuredClone(document))).toEqual({ valid: true });
  // What a validator accepts that accepts all says nothing.
  const broken = { ...document, paths: { '/v2': { get: { responses: 7 } } } };
  expect(await validator.validate(broken)).toMatchObject({ valid: false });
  const ids = Object.values(document.paths).flatMap((item) =>
    Object.values(item).map((one) => one.operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});

test('it describes every route, and no other', async () => {
  const { url } = await open({ models: models() });
  const { paths } = await documentAt(url);
  const described = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const routes = (Object.keys(ROUTES) as Action[]).flatMap((action) =>
    pathsOf(action).map((path) => `${ROUTES[action].method} ${path}`),
  );
  expect(described.sort()).toEqual(routes.sort());
  // Each is there: what is not found, or takes other methods, would say so.
  for (const route of routes) {
    const [method, template] = route.split(' ') as [string, string];
    const path = template.replace('{model}', 'double').replace('{version}', '1');
    const { status, headers } = await request(url, { path, method: 'OPTIONS' });
    expect([route, status, headers.allow!.split(', ')[0]]).toEqual([route, 200, method]);
  }
});

test('it knows the models, and whether one takes images', async () => {
  const { url } = await open({ models: models() });
  const { paths } = await documentAt(url);
  const infer = paths['/v2/models/{model}/versions/{version}/infer']!.post!;
  const named = (name: string) => infer.parameters!.find((one) => one.name === name)!.schema.enum;
  expect([named('model'), named('version')]).toEqual([
    ['double', 'other'],
    ['1', '7'],
  ]);
  expect(Object.keys(infer.requestBody!.content)).toEqual(['application/json', 'application/octet-stream']);
});

test('below a prefix, it says where the server is', async () => {
  const { url } = await open({ models: models() });
  expect(await documentAt(url)).not.toHaveProperty('servers');
  const app = Fastify();
  await app.register(servePlugin, { prefix: '/of/:tenant', models: models() });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const base = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  expect((await documentAt(base, `/of/a${DOCUMENT}?x=1`)).servers).toEqual([{ url: '/of/a' }]);
  await app.close();
});

/** Closes the schemas of answers, so that no member goes undescribed. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, inner]) => [key, closed(inner)] as const);
  const copy = Object.fromEntries(entries);
  return 'properties' in schema && 'required' in schema ? { ...copy, additionalProperties: false } : copy;
}

/** Finds the template of a path. One without variables goes before others. */
function templateOf({ paths }: Document, path: string): string {
  if (Object.hasOwn(paths, path)) return path;
  const matches = (template: string) =>
    new RegExp(`^${template.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
  return Object.keys(paths).find(matches)!;
}

class Judge {
  readonly seen = new Set<string>();
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true });

  constructor(readonly document: Document) {
    this.#ajv.addSchema(closed(document) as object, 'doc');
  }

  /** Holds an answer against what the document says of its route. */
  judge({ method = 'GET', path }: Sent, received: Received): void {
    const template = templateOf(this.document, path);
    const route = [template, method.toLowerCase()] as const;
    const { responses } = this.document.paths[route[0]]![route[1]]!;
    const status = String(received.status);
    expect(Object.keys(responses)).toContain(status);
    const type = received.headers['content-type']!.split(';')[0]!;
    expect(Object.keys(responses[status]!.content)).toContain(type);
    this.seen.add(`${method} ${template} ${status}`);
    if (type === 'text/plain') return;
    const isBinary = type === 'application/octet-stream';
    if (isBinary) expect(responses[status]!.headers).toHaveProperty('Inference-Header-Content-Length');
    const content = isBinary ? 'application/json' : type;
    const pointer = ['paths', ...route, 'responses', status, 'content', content, 'schema'];
    this.check(pointer, isBinary ? binaryResponse(received).head : json(received));
  }

  check(pointer: readonly string[], data: unknown): void {
    const escaped = pointer.map((one) => encodeURIComponent(one.replace(/~/g, '~0').replace(/\//g, '~1')));
    const validate = this.#ajv.getSchema(`doc#/${escaped.join('/')}`) as ValidateFunction;
    validate(data);
    expect(validate.errors).toBeNull();
  }

  refuses(pointer: readonly string[], data: unknown): void {
    expect(() => this.check(pointer, data)).toThrow();
  }
}

test('answers of every route are as it says, errors too', async () => {
  const nothing = new FakeSession([value('x', 'float32', [1])], [value('y', 'float32', [1])], () => ({
    y: { type: 'float32', dims: [1], data: Float32Array.of(NaN) },
  }));
  const session = doublingSession();
  const logger = { error: () => {} };
  const limits = { maxBodyBytes: 1000, maxQueue: 1, timeout: 400, logger };
  const server = await open({ models: { double: session, nothing }, ...limits });
  const judge = new Judge(await documentAt(server.url));
  const ask = async (sent: Sent, url = server.url) => {
    const received = await request(url, sent);
    judge.judge(sent, received);
    return received.status;
  };
  const infer = (body: Sent['body'], headers: Sent['headers'] = {}, model = 'double') =>
    ask({ method: 'POST', path: `/v2/models/${model}/infer`, headers, body });
  const good = JSON.stringify({ id: 'a', ...doublingRequest([[1, 2]]) });

  for (const path of ['/v2', '/v2/health/live', '/v2/health/ready', '/v2/models/stats', '/metrics', DOCUMENT])
    expect(await ask({ path })).toBe(200);
  for (const version of ['', '/versions/1']) {
    for (const [path, method] of [
      ['', 'GET'],
      ['/ready', 'GET'],
      ['/stats', 'GET'],
      ['/infer', 'POST'],
    ] as const) {
      const at = (model: string) => ({
        method,
        path: `/v2/models/${model}${version}${path}`,
        ...(method === 'POST' && { body: good }),
      });
      expect(await ask(at('double'))).toBe(200);
      expect(await ask(at('none'))).toBe(404);
      expect(await ask(at('%ff'))).toBe(400);
    }
  }
  const binary = binaryRequest(
    {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } }],
      parameters: { binary_data_output: true },
    },
    new Uint8Array(8),
  );
  expect(await infer(binary.body, binary.headers)).toBe(200);
  expect(await infer(gzipSync(good), { 'Content-Encoding': 'gzip' })).toBe(200);
  expect(await infer('{')).toBe(400);
  const one = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1], data: [1] }] });
  expect(await infer(one, {}, 'nothing')).toBe(406);
  expect(await infer(['{', ' '.repeat(2000)])).toBe(413);
  expect(await infer(good, { 'Content-Type': 'text/csv' })).toBe(415);
  expect(await infer(good, { 'Content-Encoding': 'zstd' })).toBe(415);
  session.run = () => Promise.reject(new Error('broken'));
  expect(await infer(good)).toBe(500);
  session.run = () => new Promise(() => {});
  const tooLate = [infer(good), infer(good)];
  await until(() => server.handler.metrics().includes('queue_length{model="double"} 1'));
  expect(await infer(good)).toBe(503);
  expect(await Promise.all(tooLate)).toEqual([504, 504]);
  expect(await infer(good, { 'Content-Length': good.length + 1 }).catch(() => 0)).toBe(408);
  const controls = ['index', 'models/m/load', 'models/m/unload'].map((path) => `/v2/repository/${path}`);
  const control = (body: Sent['body'], headers: Sent['headers'] = {}) =>
    Promise.all(controls.map((path) => ask({ method: 'POST', path, headers, body })));
  expect(await control('')).toEqual([200, 403, 403]);
  expect(await control('{')).toEqual([400, 400, 400]);
  expect(await control(' '.repeat(2000))).toEqual([413, 413, 413]);
  expect(await control('{}', { 'Content-Encoding': 'zstd' })).toEqual([415, 415, 415]);
  expect(await control('{}', { 'Content-Length': 3 })).toEqual([408, 408, 408]);
  const folder = await newFolder();
  await put(folder, 'm', '1', scaling(2));
  const models = await ModelFolder.open(folder, { control: 'explicit' });
  const explicit = await openBuilt({ models });
  for (const path of [...controls, controls[0]!])
    expect(await ask({ method: 'POST', path }, explicit.url)).toBe(200);
  await explicit.close();
  await models.close();
  await rm(folder, { recursive: true });
  const draining = server.handler.drain();
  expect(await control('{}')).toEqual([503, 503, 503]);
  expect(await ask({ path: '/v2/health/ready' })).toBe(503);
  expect(await ask({ path: '/v2/models/double/ready' })).toBe(503);
  expect(await infer(good)).toBe(503);
  await draining;

  // Every answer that the document promises has been seen, of models without a version.
  const promised = Object.entries(judge.document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { responses }]) =>
      Object.keys(responses).map((status) => `${method.toUpperCase()} ${path} ${status}`),
    ),
  );
  const unseen = promised.filter((one) => !judge.seen.has(one) && !/\{version\}|default$/.test(one));
  expect(unseen).toEqual([]);
});

test('schemas of requests take what the server takes, and refuse what it refuses', async () => {
  const { url } = await open({ models: { double: doublingSession() } });
  const judge = new Judge(await documentAt(url));
  const pointer = ['components', 'schemas', 'InferRequest'];
  const input = { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
  const cases: [object, boolean][] = [
    [{ inputs: [input] }, true],
    [{ inputs: [{ ...input, data: [[1, 2]] }], id: 'a', parameters: { timeout: 1e6, priority: 3 } }, true],
    [{ inputs: [input], id: null, parameters: null, outputs: [{ name: 'y', parameters: null }] }, true],
    [{ inputs: [input], outputs: [{ name: 'y', parameters: { binary_data: true } }] }, true],
    [{}, false],
    [{ inputs: input }, false],
    [{ inputs: [{ ...input, datatype: 'FLOAT' }] }, false],
    [{ inputs: [{ ...input, shape: ['1', 2] }] }, false],
    [{ inputs: [{ ...input, data: 'AAAA' }] }, false],
    [{ inputs: [input], id: 7 }, false],
    [{ inputs: [input], parameters: { binary_data_output: 1 } }, false],
    [{ inputs: [input], outputs: ['y'] }, false],
  ];
  for (const [body, isGood] of cases) {
    const { status } = await postJson(url, INFER, body);
    expect([body, status]).toEqual([body, isGood ? 200 : 400]);
    if (isGood) judge.check(pointer, body);
    else judge.refuses(pointer, body);
  }
});

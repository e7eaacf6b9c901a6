/** Spans, by OpenTelemetry's own SDK. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';

import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  SimpleSpanProcessor,
  TraceIdRatioBasedSampler,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import Fastify from 'fastify';

import { createHandler, type AccessLogEntry, type Handler } from '../../lib/serve';
import { servePlugin } from '../../lib/serve/fastify';
import type * as TracingModule from '../../lib/serve/tracing';
import { postJson, RawConnection, request, type Received } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, openThreaded, until } from './support/serving';

// Runs are joined by the built package, where several threads read.
jest.mock('../../lib/serve/batch_sizes', () => jest.requireActual<object>('../../dist/serve/batch_sizes'));

const INFER = '/v2/models/double/infer';
const GOOD = doublingRequest([[1, 2]]);
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;

const exporter = new InMemorySpanExporter();

function register(sampled = 1): void {
  const provider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampled) }),
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
}

beforeEach(() => register());

afterEach(async () => {
  jest.restoreAllMocks();
  await closeAll();
  trace.disable();
  context.disable();
  propagation.disable();
  exporter.reset();
});

/** Spans that have ended, once there are so many. */
async function spans(count: number): Promise<ReadableSpan[]> {
  await until(() => exporter.getFinishedSpans().length >= count);
  return exporter.getFinishedSpans();
}

const named = (all: readonly ReadableSpan[], name: string) => all.filter((span) => span.name === name);
const idOf = (span: ReadableSpan) => span.spanContext().spanId;
const milliseconds = ([seconds, nanoseconds]: readonly [number, number]) => 1e3 * seconds + nanoseconds / 1e6;

function post(url: string, headers: Record<string, string> = {}): Promise<Received> {
  const body = JSON.stringify(GOOD);
  return request(url, { path: INFER, headers: { 'User-Agent': 'test', ...headers }, body });
}

describe.each([
  ['one thread', open],
  ['threads', openThreaded],
])('%s', (_, start) => {
  test('an inference: the span of the server, its time in the queue and of the run', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    const before = Date.now();
    const received = await post(`${url}`, { traceparent: TRACEPARENT, tracestate: 'a=b' });
    expect(received.status).toBe(200);
    const all = await spans(4);
    expect(all.map(({ name }) => name).sort()).toEqual([
      'POST /v2/models/{model}/infer',
      'compute',
      'queue',
      'run double',
    ]);
    const [server] = named(all, 'POST /v2/models/{model}/infer');
    const { port, hostname } = new URL(url);
    expect(server).toMatchObject({
      kind: SpanKind.SERVER,
      parentSpanContext: { traceId: TRACE, spanId: PARENT, isRemote: true },
      status: { code: SpanStatusCode.UNSET },
      instrumentationScope: { name: 'warpconv' },
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v2/models/{model}/infer',
        'http.response.status_code': 200,
        'http.request.body.size': JSON.stringify(GOOD).length,
        'http.response.body.size': received.body.length,
        'url.path': INFER,
        'url.scheme': 'http',
        'server.address': hostname,
        'server.port': Number(port),
        'network.protocol.version': '1.1',
        'network.peer.address': '127.0.0.1',
        'network.peer.port': expect.any(Number),
        'client.address': '127.0.0.1',
        'user_agent.original': 'test',
        'warpconv.model.name': 'double',
        'warpconv.model.version': '1',
        'warpconv.batch.size': 1,
      },
    });
    const begun = milliseconds(server!.startTime);
    const ended = milliseconds(server!.endTime);
    expect(begun).toBeGreaterThanOrEqual(before);
    const [queue, compute, run] = ['queue', 'compute', 'run double'].map((name) => named(all, name)[0]!);
    for (const child of [queue!, compute!, run!]) {
      expect(child.spanContext().traceId).toBe(TRACE);
      expect(child.parentSpanContext?.spanId).toBe(idOf(server!));
    }
    expect(server!.spanContext().traceState?.serialize()).toBe('a=b');
    expect(run!.spanContext().traceState?.serialize()).toBe('a=b');
    expect(run!.attributes).toEqual({ 'warpconv.model.name': 'double', 'warpconv.batch.size': 1 });
    expect(compute!.links.map((link) => link.context.spanId)).toEqual([idOf(run!)]);
    expect(milliseconds(queue!.endTime)).toBeCloseTo(milliseconds(compute!.startTime), 3);
    expect(milliseconds(queue!.startTime)).toBeGreaterThanOrEqual(begun - 1);
    expect(milliseconds(compute!.endTime)).toBeLessThanOrEqual(ended);
  });

  test('a batch has one span, linked to all of its requests', async () => {
    joinAll();
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    const first = postJson(url, INFER, GOOD);
    await until(() => session.runs.length === 1);
    const others = [post(url, { traceparent: TRACEPARENT }), post(url)];
    while (
      !/queue_length\{model="double"\} 2/.test((await request(url, { path: '/metrics' })).body.toString())
    );
    session.open();
    await Promise.all([first, ...others]);
    const all = await spans(11);
    const run = named(all, 'run double').find(({ attributes }) => attributes['warpconv.batch.size'] === 2)!;
    const servers = named(all, 'POST /v2/models/{model}/infer').filter(
      ({ attributes }) => attributes['warpconv.batch.size'] === 2,
    );
    expect(servers).toHaveLength(2);
    const linked = run.links.map((link) => link.context.spanId);
    expect(linked.sort()).toEqual(servers.map(idOf).sort());
    expect(servers.map(idOf)).toContain(run.parentSpanContext!.spanId);
    for (const server of servers) {
      const compute = named(all, 'compute').find((span) => span.parentSpanContext!.spanId === idOf(server));
      expect(compute!.links.map((link) => link.context.spanId)).toEqual([idOf(run)]);
    }
  });

  test('refusals and failures', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session }, logger: { error: () => {} } });
    session.run = () => Promise.reject(new Error('broken'));
    await request(url, { path: '/nothing/4711' });
    await request(url, { path: INFER, body: '{' });
    await post(url);
    const all = await spans(4);
    expect(all.map(({ name }) => name).sort()).toEqual([
      'GET',
      'POST /v2/models/{model}/infer',
      'POST /v2/models/{model}/infer',
      'run double',
    ]);
    const [missing] = named(all, 'GET');
    expect(missing!.attributes['http.response.status_code']).toBe(404);
    expect(missing!.attributes).not.toHaveProperty('http.route');
    expect(missing!.status.code).toBe(SpanStatusCode.UNSET);
    const byStatus = (status: number) =>
      all.find(({ attributes }) => attributes['http.response.status_code'] === status)!;
    expect(byStatus(400).status.code).toBe(SpanStatusCode.UNSET);
    expect(byStatus(500)).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { 'error.type': '500' },
    });
    const [run] = named(all, 'run double');
    expect(run).toMatchObject({ status: { code: SpanStatusCode.ERROR, message: 'broken' } });
    expect(run!.events.map(({ name }) => name)).toEqual(['exception']);
  });

  test('a client that leaves', async () => {
    const session = doublingSession();
    const { url } = await start({ models: { double: session } });
    session.hold();
    const connection = await RawConnection.open(url);
    const body = JSON.stringify(GOOD);
    connection.write(`POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await until(() => session.runs.length === 1);
    connection.socket.destroy();
    const [span] = await spans(1);
    expect(span!.attributes).toMatchObject({ 'error.type': 'client_disconnected', 'server.address': 'x' });
    expect(span!.attributes).not.toHaveProperty('http.response.status_code');
    session.open();
  });

  test('health checks and metrics make none, other requests do', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    for (const path of ['/v2/health/live', '/v2/health/ready', '/v2/models/double/ready', '/metrics'])
      await request(url, { path });
    await request(url, { path: '/v2/models/double' });
    expect((await spans(1)).map(({ name }) => name)).toEqual(['GET /v2/models/{model}']);
  });

  test('what is not sampled is not recorded, its run neither', async () => {
    trace.disable();
    register(0);
    const { url } = await start({ models: { double: doublingSession() } });
    await post(url);
    await post(url, { traceparent: `00-${TRACE}-${PARENT}-00` });
    await post(url, { traceparent: TRACEPARENT });
    const all = await spans(4);
    expect(all).toHaveLength(4);
    expect(new Set(all.map((span) => span.spanContext().traceId))).toEqual(new Set([TRACE]));
  });

  test('the access log has the trace', async () => {
    const entries: AccessLogEntry[] = [];
    const accessLog = (entry: AccessLogEntry) => void entries.push(entry);
    const { url } = await start({ models: { double: doublingSession() }, accessLog });
    await post(url, { traceparent: TRACEPARENT });
    await post(url);
    await until(() => entries.length === 2);
    const servers = named(await spans(8), 'POST /v2/models/{model}/infer');
    expect(entries.map(({ traceId }) => traceId)).toEqual(servers.map((span) => span.spanContext().traceId));
    expect(entries[0]!.traceId).toBe(TRACE);
  });
});

test('a run is in the context of its span, whatever began it', async () => {
  const session = doublingSession();
  const seen: (string | undefined)[] = [];
  const run = session.run.bind(session);
  session.run = (...args) => {
    seen.push(trace.getActiveSpan()?.spanContext().spanId);
    return run(...args);
  };
  const { url } = await open({ models: { double: session } });
  await post(url);
  const all = await spans(4);
  expect(seen).toEqual([idOf(named(all, 'run double')[0]!)]);
});

describe('where the application has a span of the request already', () => {
  /** As instrumentations of node:http do it: the span is active while the listeners of the server run. */
  async function instrumented(handler: Handler): Promise<{ server: Server; url: string }> {
    const tracer = trace.getTracer('http');
    const server = createServer((incoming, response) => {
      const from = propagation.extract(ROOT_CONTEXT, incoming.headers);
      const span = tracer.startSpan('POST', { kind: SpanKind.SERVER }, from);
      response.once('close', () => span.end());
      context.with(trace.setSpan(from, span), () => handler(incoming, response));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  test('ours is below it, and no second one of a server', async () => {
    const { server, url } = await instrumented(createHandler({ models: { double: doublingSession() } }));
    await post(url, { traceparent: TRACEPARENT });
    const all = await spans(5);
    expect(all.filter(({ kind }) => kind === SpanKind.SERVER).map(({ name }) => name)).toEqual(['POST']);
    const [theirs] = named(all, 'POST');
    const [ours] = named(all, 'POST /v2/models/{model}/infer');
    expect(ours).toMatchObject({
      kind: SpanKind.INTERNAL,
      parentSpanContext: { traceId: TRACE, spanId: idOf(theirs!) },
    });
    server.close();
  });

  test('in Fastify', async () => {
    const app = Fastify();
    app.addHook('onRequest', (_request, reply, done) => {
      const span = trace.getTracer('fastify').startSpan('theirs', { kind: SpanKind.SERVER });
      reply.raw.once('close', () => span.end());
      context.with(trace.setSpan(context.active(), span), done);
    });
    await app.register(servePlugin, { prefix: '/ml', models: { double: doublingSession() } });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    const body = JSON.stringify(GOOD);
    expect((await request(url, { path: `/ml${INFER}`, body })).status).toBe(200);
    const all = await spans(5);
    const [ours] = named(all, 'POST /ml/v2/models/{model}/infer');
    expect(ours).toMatchObject({ kind: SpanKind.INTERNAL, attributes: { 'url.path': `/ml${INFER}` } });
    expect(ours!.parentSpanContext!.spanId).toBe(idOf(named(all, 'theirs')[0]!));
    await app.close();
  });
});

describe('without it', () => {
  test('nobody registered: nothing is watched', async () => {
    trace.disable();
    const { Tracing } = jest.requireActual<typeof TracingModule>('../../lib/serve/tracing');
    expect(Tracing.open()).toBeUndefined();
    const { url } = await open({ models: { double: doublingSession() } });
    expect((await post(url, { traceparent: TRACEPARENT })).status).toBe(200);
    expect(exporter.getFinishedSpans()).toEqual([]);
  });

  test('not installed: the same', () => {
    jest.isolateModules(() => {
      jest.doMock('@opentelemetry/api', () => {
        throw Object.assign(new Error(`Cannot find module '@opentelemetry/api'`), {
          code: 'MODULE_NOT_FOUND',
        });
      });
      const { Tracing } = jest.requireActual<typeof TracingModule>('../../lib/serve/tracing');
      expect(Tracing.open()).toBeUndefined();
    });
    jest.dontMock('@opentelemetry/api');
  });
});

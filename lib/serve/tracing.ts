/**
 * Spans by OpenTelemetry's API, where the application has it and has registered an SDK before the server is made. They
 * follow the semantic conventions for HTTP servers.
 */
import type * as Api from '@opentelemetry/api';

import { packageVersion } from '../load';
import type { ExchangeEnd, ExchangeStart, TraceContext, Watch } from './exchange_record';

/** `TraceFlags.SAMPLED` */
const SAMPLED = 1;

/** Methods by their names in the conventions. Others are one, so that spans have few names. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'];

function loadApi(): typeof Api | undefined {
  try {
    // Written so that bundlers see it.
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    return require('@opentelemetry/api') as typeof Api;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

export class Tracing {
  readonly #api: typeof Api;
  readonly #tracer: Api.Tracer;

  /** The types of its API are not for declarations: who has not installed it could not read them. */
  private constructor(api: typeof Api, tracer: Api.Tracer) {
    this.#api = api;
    this.#tracer = tracer;
  }

  /** @returns nothing where the API is not installed, or nobody listens */
  static open(): Tracing | undefined {
    const api = loadApi();
    if (api === undefined) return undefined;
    const provider = api.trace.getTracerProvider() as Partial<Api.ProxyTracerProvider>;
    const tracer = provider.getDelegateTracer?.('warpconv', packageVersion());
    return tracer && new Tracing(api, tracer);
  }

  /** Headers that say which trace a request belongs to. */
  get headers(): readonly string[] {
    return this.#api.propagation.fields().map((name) => name.toLowerCase());
  }

  /** The span that the application's own instrumentation of HTTP has made for the request that is handled now. */
  activeSpan(): TraceContext | undefined {
    const context = this.#api.trace.getActiveSpan()?.spanContext();
    return context && this.#api.isSpanContextValid(context) ? plain(context) : undefined;
  }

  /** The server's span of a request, or one below that of the application. */
  begin(start: ExchangeStart): Watch {
    const { parent, time } = start;
    const { ROOT_CONTEXT, SpanKind, propagation } = this.#api;
    const context =
      parent === undefined ? propagation.extract(ROOT_CONTEXT, start.headers) : this.#contextOf(parent);
    const kind = parent === undefined ? SpanKind.SERVER : SpanKind.INTERNAL;
    const attributes = attributesOf(start);
    const options = { kind, startTime: time, attributes };
    const span = this.#tracer.startSpan(nameOf(start), options, context);
    return { context: plain(span.spanContext()), end: (end) => this.#end(span, start, end) };
  }

  /**
   * A span of a run, linked to those of all requests that it serves. It is below the first of these that is sampled, so
   * that it is sampled with them; a run of none has no span.
   *
   * @returns with where the span is
   */
  async run<T>(
    model: string,
    requests: readonly (TraceContext | undefined)[],
    run: () => Promise<T>,
  ): Promise<{ readonly result: T; readonly trace: TraceContext | undefined }> {
    const { ROOT_CONTEXT, SpanStatusCode, context, trace } = this.#api;
    const sampled = requests.filter((one) => one !== undefined && (one.traceFlags & SAMPLED) !== 0);
    // The active context is that of the request, or of the run before, that had this one begin.
    if (sampled.length === 0) return { result: await context.with(ROOT_CONTEXT, run), trace: undefined };
    const parent = this.#contextOf(sampled[0]!);
    const attributes = { 'warpconv.model.name': model, 'warpconv.batch.size': requests.length };
    const links = sampled.map((one) => ({ context: this.#spanContextOf(one!) }));
    const span = this.#tracer.startSpan(`run ${model}`, { attributes, links }, parent);
    try {
      const result = await context.with(trace.setSpan(parent, span), run);
      return { result, trace: plain(span.spanContext()) };
    } catch (error) {
      span.recordException(error as Error);
      span.setStatus({ code: SpanStatusCode.ERROR, message: (error as Error).message });
      throw error;
    } finally {
      span.end();
    }
  }

  #end(span: Api.Span, start: ExchangeStart, end: ExchangeEnd): void {
    if (span.isRecording()) {
      const { status, route, reason } = end;
      if (route !== undefined) span.updateName(`${nameOf(start)} ${route}`);
      span.setAttributes(endAttributesOf(end));
      if (status >= 500) span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: reason });
      this.#addRun(span, start.time, end);
    }
    span.end(start.time + end.duration);
  }

  /** How long a request waited in the queue, and how long its run took. */
  #addRun(span: Api.Span, time: number, { run }: ExchangeEnd): void {
    if (run === undefined) return;
    const context = this.#api.trace.setSpan(this.#api.ROOT_CONTEXT, span);
    const ended = time + run.ended;
    const begun = ended - run.computed;
    const links = run.trace && [{ context: this.#spanContextOf(run.trace) }];
    this.#tracer.startSpan('queue', { startTime: begun - run.waited }, context).end(begun);
    this.#tracer.startSpan('compute', { startTime: begun, links }, context).end(ended);
  }

  #contextOf(trace: TraceContext): Api.Context {
    return this.#api.trace.setSpanContext(this.#api.ROOT_CONTEXT, this.#spanContextOf(trace));
  }

  #spanContextOf({ traceState, ...context }: TraceContext): Api.SpanContext {
    return traceState === undefined
      ? context
      : { ...context, traceState: this.#api.createTraceState(traceState) };
  }
}

function plain({ traceId, spanId, traceFlags, traceState }: Api.SpanContext): TraceContext {
  return { traceId, spanId, traceFlags, traceState: traceState?.serialize() };
}

function nameOf({ method }: ExchangeStart): string {
  return METHODS.includes(method) ? method : 'HTTP';
}

function attributesOf(start: ExchangeStart): Api.Attributes {
  const { method, path, scheme, httpVersion, userAgent, remoteAddress, remotePort } = start;
  const isKnown = METHODS.includes(method);
  const [, name, port] = /^(.*?)(?::(\d+))?$/s.exec(start.host ?? '')!;
  return {
    'http.request.method': isKnown ? method : '_OTHER',
    ...(!isKnown && { 'http.request.method_original': method }),
    'url.path': path,
    'url.scheme': scheme,
    ...(name !== '' && { 'server.address': name }),
    ...(port !== undefined && { 'server.port': Number(port) }),
    'network.protocol.version': httpVersion,
    ...(remoteAddress !== undefined && {
      'client.address': remoteAddress,
      'network.peer.address': remoteAddress,
      'network.peer.port': remotePort,
    }),
    ...(userAgent !== undefined && { 'user_agent.original': userAgent }),
  };
}

/** A client that has left got no status. */
function endAttributesOf({
  status,
  route,
  model,
  version,
  bytesIn,
  bytesOut,
  run,
}: ExchangeEnd): Api.Attributes {
  const error = status === 499 ? 'client_disconnected' : status >= 500 ? String(status) : undefined;
  return {
    ...(status !== 499 && { 'http.response.status_code': status }),
    ...(error !== undefined && { 'error.type': error }),
    ...(route !== undefined && { 'http.route': route }),
    ...(bytesIn !== undefined && { 'http.request.body.size': bytesIn }),
    ...(bytesOut !== undefined && { 'http.response.body.size': bytesOut }),
    ...(model !== undefined && { 'warpconv.model.name': model, 'warpconv.model.version': version }),
    ...(run !== undefined && { 'warpconv.batch.size': run.requests }),
  };
}

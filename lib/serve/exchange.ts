/** What becomes known of a request and its answer, for those who are told of both: the access log and tracing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';

import { requestIdOf } from './access_log';
import type { Answer } from './answer';
import type { RunResult } from './queue';
import { clientGone, type Refusal } from './refusal';
import { isProbe, pathOf, ROUTES, urlOf, type Route } from './routes';
import type { Service } from './service';

/** Where a span is, as plain data. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState: string | undefined;
}

/** A request, as it is known when it comes. All of this is plain data, which goes to other threads. */
export interface ExchangeStart {
  /** One of its own among those that a thread reads */
  readonly key: number;
  /** Milliseconds since 1970 */
  readonly time: number;
  readonly method: string;
  readonly path: string;
  readonly isProbe: boolean;
  readonly scheme: 'http' | 'https';
  readonly host: string | undefined;
  readonly httpVersion: string;
  readonly userAgent: string | undefined;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  /** `undefined` where nobody logs it */
  readonly requestId: string | undefined;
  /** Headers that say which trace it belongs to */
  readonly headers: Readonly<Record<string, string>>;
  /** The span that the application has made for the request itself */
  readonly parent: TraceContext | undefined;
}

/** The rest, as it is known when the client has the answer, or has left. */
export interface ExchangeEnd {
  /** 499 where the client left before it had all of the answer */
  readonly status: number;
  /** As OpenAPI writes it; `undefined` for a path that is nobody's */
  readonly route: string | undefined;
  readonly model: string | undefined;
  readonly version: string | undefined;
  readonly bytesIn: number | undefined;
  readonly bytesOut: number | undefined;
  readonly duration: number;
  readonly run: Run | undefined;
  /** What is wrong, where the answer is an error */
  readonly reason: string | undefined;
}

/** A run, as one of its requests sees it. Times are in milliseconds. */
interface Run extends Pick<RunResult, 'waited' | 'computed' | 'requests' | 'trace'> {
  /** From the beginning of the request */
  readonly ended: number;
}

/** What is told of one request. */
export interface Watch {
  /** The span of the request, where it has one in this thread */
  readonly context: TraceContext | undefined;
  end(end: ExchangeEnd): void;
}

/** Somebody who is told of all requests. */
export interface Watcher {
  /** Lower-case names of the headers that say which trace a request belongs to */
  readonly traceHeaders: readonly string[];
  /** Whether requests need an id, for the log. */
  readonly isLogged: boolean;
  /** As {@link ExchangeStart.parent} */
  activeSpan(): TraceContext | undefined;
  begin(start: ExchangeStart): Watch;
}

/** Takes notes of one request while it is answered. */
export class Exchange {
  route: Route | undefined;
  answer: Answer | undefined;
  refusal: Refusal | undefined;
  bytesIn: number | undefined;
  run: Run | undefined;
  readonly #began = performance.now();

  /**
   * @param start - where somebody is told of it
   * @param context - as {@link Watch.context}
   */
  constructor(
    readonly start: ExchangeStart | undefined,
    readonly context: TraceContext | undefined,
  ) {}

  get duration(): number {
    return performance.now() - this.#began;
  }

  ran({ waited, computed, requests, trace }: RunResult): void {
    this.run = { waited, computed, requests, trace, ended: this.duration };
  }
}

/** Of a request that nobody is told of. */
export const unwatched = () => new Exchange(undefined, undefined);

/** Tells of requests to one service. */
export class Reporter {
  readonly #service: Service;
  readonly #watcher: Watcher;
  readonly #prefix: string;
  #begun = 0;

  /** @param prefix - of all routes, as the application has it */
  constructor(service: Service, watcher: Watcher, prefix = '') {
    this.#service = service;
    this.#watcher = watcher;
    this.#prefix = prefix;
  }

  /**
   * Tells of a request.
   *
   * @param handle - what answers it, given notes to fill in
   * @returns once that has been done
   */
  report(
    request: IncomingMessage,
    response: ServerResponse,
    target: string,
    handle: (exchange: Exchange) => Promise<void>,
  ): Promise<void> {
    const start = this.#startOf(request, target);
    const watch = this.#watcher.begin(start);
    const exchange = new Exchange(start, watch.context);
    const end = () => {
      const { route } = exchange;
      const path = route && this.#prefix + ROUTES[route.action].path;
      watch.end(endOf(exchange, path, request, response));
    };
    const handled = handle(exchange);
    void handled.then(() => this.#service.whenSent(request, response, end));
    return handled;
  }

  #startOf(request: IncomingMessage, target: string): ExchangeStart {
    const { method, headers, socket, httpVersion } = request;
    const trace = Object.create(null) as Record<string, string>;
    for (const name of this.#watcher.traceHeaders) {
      const value = headers[name];
      if (value !== undefined) trace[name] = String(value);
    }
    return {
      key: this.#begun++,
      time: Date.now(),
      method: method!,
      path: pathOf(urlOf(request)),
      isProbe: isProbe(target),
      scheme: (socket as Partial<TLSSocket>).encrypted ? 'https' : 'http',
      host: headers.host,
      httpVersion,
      userAgent: headers['user-agent'],
      remoteAddress: socket.remoteAddress,
      remotePort: socket.remotePort,
      requestId: this.#watcher.isLogged ? requestIdOf(request) : undefined,
      headers: trace,
      parent: this.#watcher.activeSpan(),
    };
  }
}

function endOf(
  exchange: Exchange,
  path: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): ExchangeEnd {
  const { route, refusal, run, duration } = exchange;
  const { name, version } = (route !== undefined && 'model' in route ? route.model : undefined) ?? {};
  const announced = request.headers['content-length'];
  const known = {
    route: path,
    ...{ model: name, version, duration, run },
    bytesIn: announced === undefined ? exchange.bytesIn : Number(announced),
  };
  if (!response.writableFinished)
    return { ...known, status: 499, bytesOut: undefined, reason: clientGone().message };
  // The application may have sent an answer of its own, when it was tired of waiting.
  const { statusCode: status } = response;
  if (exchange.answer?.status !== status) return { ...known, status, bytesOut: undefined, reason: undefined };
  const bytesOut = request.method === 'HEAD' ? 0 : Number(exchange.answer.headers['Content-Length'] ?? 0);
  return { ...known, status, bytesOut, reason: refusal?.message };
}

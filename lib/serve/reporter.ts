/** Tells the access log and tracing of requests and their answers. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';

import { Exchange } from './exchange';
import type { ExchangeEnd, ExchangeStart, Watcher } from './exchange_record';
import { clientGone } from './refusal';
import { isProbe, pathOf, ROUTES, urlOf } from './routes';
import type { Service } from './service';

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

/** Of nothing that would end a line or a header. */
const SANE_ID = /^[\w.:+/=@-]{1,128}$/;

function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && SANE_ID.test(given) ? given : randomUUID();
}

import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Answer } from './answer';
import { discardRest } from './body';
import { corsHeaders, isPreflight, preflightAnswer, type Cors } from './cors';
import { unwatched, type Exchange } from './exchange';
import type { Watcher } from './exchange_record';
import { Reporter } from './reporter';
import { LocalService } from './local_service';
import { readHandlerOptions, type HandlerOptions, type HandlerSettings } from './options';
import { Queues } from './queues';
import type { Service } from './service';

/** A request listener for `node:http`, and for what takes such listeners: Express, Connect. */
export interface Handler {
  (request: IncomingMessage, response: ServerResponse): void;
  /**
   * Answers inferences by 503 from now on, and readiness too, each with `Connection: close`. Resolves once every request
   * that was accepted before has been answered, its answer sent, and the clients that keep a connection have had a second
   * to be told. A server is closed after that.
   */
  readonly drain: () => Promise<void>;
  /** Answers what is waiting or running by 503 at once. The handler goes on answering, by 503. */
  readonly close: () => void;
  /** The metrics as `/metrics` shows them, for servers that have a registry of their own. */
  readonly metrics: () => string;
}

/**
 * Makes a handler that serves models by the Open Inference Protocol (KServe's second) with binary tensors, and metrics at
 * `/metrics`. A path that is none of these is answered by 404.
 *
 * @throws `WarpconvError` `ERR_WARPCONV_INVALID_ARGUMENT`; `ERR_WARPCONV_UNSUPPORTED` for a model whose inputs or
 *   outputs are not all tensors of numbers or booleans
 */
export function createHandler(options: HandlerOptions): Handler {
  return handlerOf(readHandlerOptions(options));
}

export function handlerOf(settings: HandlerSettings): Handler {
  const service = new LocalService(new Queues(settings));
  return Object.assign(listenerOf(service, settings), {
    drain: () => service.drain(),
    close: () => service.close(),
    metrics: () => service.metrics(),
  });
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** What answers have besides what they say, and who is told of them. */
export interface Surroundings {
  readonly cors: Cors | undefined;
  readonly watcher: Watcher | undefined;
}

/** What answers the requests of a server of node:http. */
export function listenerOf(service: Service, { cors, watcher }: Surroundings): Listener {
  const handle = (request: IncomingMessage, response: ServerResponse, exchange: Exchange) => {
    const send = (answer: Answer) => {
      exchange.answer = answer;
      const requestId = exchange.start?.requestId;
      const headers = {
        ...answer.headers,
        ...(cors !== undefined && corsHeaders(cors, request)),
        ...(requestId !== undefined && { 'X-Request-Id': requestId }),
      };
      write(request, response, { ...answer, headers }, service.isDraining);
    };
    if (cors !== undefined && isPreflight(request))
      return service.greet(request, preflightAnswer(cors, request), send);
    return service.handle(request, request.url ?? '', response, send, exchange);
  };
  if (watcher === undefined) return (request, response) => void handle(request, response, unwatched());
  const reporter = new Reporter(service, watcher);
  return (request, response) => {
    const answer = (exchange: Exchange) => handle(request, response, exchange);
    void reporter.report(request, response, request.url ?? '', answer);
  };
}

function write(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Answer,
  isLast: boolean,
): void {
  // A connection that is kept would keep the server from closing.
  response.writeHead(status, isLast ? { ...headers, Connection: 'close' } : headers);
  response.cork();
  for (const part of body) response.write(part);
  // Node.js closes a connection at the end of its last answer. Data that nobody has read would make that a reset, which
  // can take the answer with it (RFC 9112, 9.6).
  if (!isLast || request.complete) response.end();
  else endAfter(request, response);
  response.uncork();
}

function endAfter(request: IncomingMessage, response: ServerResponse): void {
  request.once('close', () => response.end());
  discardRest(request);
}

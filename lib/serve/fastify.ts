/**
 * Models over HTTP as a Fastify plugin: the Open Inference Protocol below a prefix of your choice.
 *
 * @packageDocumentation
 */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';

import { invalid } from '../check';
import type { Answer } from './answer';
import { discardRest } from './body';
import { unwatched, type Exchange } from './exchange';
import { Reporter } from './reporter';
import { LocalService } from './local_service';
import { openModels, type GivenModels } from './open_models';
import { readHandlerOptions, type HandlerOptions } from './options';
import { Queues } from './queues';
import { Clients, stopListening } from './stop_listening';

/**
 * The options of {@link servePlugin}: those of `createHandler`, and what to open as by `serve`. What is missing Fastify has
 * plugins and a logger of its own for, which see all of its requests.
 */
export interface ServePluginOptions extends Omit<HandlerOptions, 'models' | 'cors' | 'accessLog'> {
  readonly models: GivenModels;
}

/**
 * Serves models below the prefix that it is registered with: `app.register(servePlugin, { prefix: '/ml', models })`.
 * Requests pass through the hooks of the application, and answers too. Closing the application answers all requests that
 * were accepted first. Failures go to the application's logger unless there is one in the options.
 */
export const servePlugin: FastifyPluginAsync<ServePluginOptions> = async (app, options) => {
  // Fastify hands on what it was registered with, its own options included.
  const { prefix: _, logLevel: __, logSerializers: ___, ...own } = options as ServePluginOptions & FastifyOwn;
  refuseFastifysOwn(own);
  const given = { logger: app.log, ...own };
  const { models, release } = await openModels(given.models, given.logger);
  const { service, watcher } = await makeService({ ...given, models }).catch(async (error: unknown) => {
    await release();
    throw error;
  });
  app.addHook('preClose', async () => {
    const clients = new Clients(app.server);
    await service.drain();
    if (app.server.listening) await stopListening(app.server, clients);
  });
  app.addHook('onClose', async () => {
    service.close();
    await release();
  });
  const reporter = watcher && new Reporter(service, watcher, app.prefix);
  // Bodies are read under the limits of the handler, and not parsed. This reaches no further than the plugin.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  const prefix = prefixPattern(app.prefix);
  const answer = async (request: FastifyRequest, reply: FastifyReply) => {
    const target = request.raw.url!.replace(prefix, '');
    // A connection that is closed with data in it that nobody has read is reset, answer and all.
    if (service.isDraining) await readWhole(request.raw);
    const handle = (exchange: Exchange) => {
      const onAnswer = (result: Answer) => {
        exchange.answer = result;
        send(reply, result, service.isDraining);
      };
      return service.handle(request.raw, target, reply.raw, onAnswer, exchange);
    };
    await (reporter === undefined
      ? handle(unwatched())
      : reporter.report(request.raw, reply.raw, target, handle));
    return reply;
  };
  for (const path of ['/v2', '/v2/*', '/metrics']) app.all(path, answer);
};

async function makeService(options: object) {
  const settings = readHandlerOptions(options);
  return { service: new LocalService(new Queues(settings)), watcher: settings.watcher };
}

interface FastifyOwn {
  readonly prefix?: unknown;
  readonly logLevel?: unknown;
  readonly logSerializers?: unknown;
}

function refuseFastifysOwn(own: object): void {
  const { cors, accessLog } = own as Partial<HandlerOptions>;
  if (cors !== undefined)
    throw invalid(
      'options.cors is not taken by the plugin; register @fastify/cors, which answers for all routes',
    );
  if (accessLog !== undefined)
    throw invalid("options.accessLog is not taken by the plugin; Fastify's logger tells of all requests");
}

/** Matches as many segments as the prefix has: one that is a parameter is of any length. */
function prefixPattern(prefix: string): RegExp {
  const segments = prefix.replace(/\/$/, '').split('/').length - 1;
  return new RegExp(`^(?:/[^/]*){${segments}}`);
}

function send(reply: FastifyReply, { status, headers, body }: Answer, isLast: boolean): void {
  const payload = body.length === 1 ? body[0] : Readable.from(body, { objectMode: false });
  if (isLast) void reply.header('Connection', 'close');
  void reply.code(status).headers(headers).send(payload);
}

/** Until a request has been received, or its client had its time. */
async function readWhole(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return;
  await new Promise<void>((resolve) => {
    request.once('close', resolve);
    discardRest(request);
  });
}

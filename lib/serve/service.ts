/** The server itself, apart from who calls it: node:http or Fastify. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import { packageVersion } from '../load';
import { readQuestion, toAnswer, type Ask } from './administration';
import { answer, jsonAnswer, refuse, type Answer } from './answer';
import { discardRest, readBody } from './body';
import { Cancellation } from './cancellation';
import { Connections } from './connections';
import { Deadline } from './deadline';
import type { ImageDecoder } from './decoders/decoder';
import { decodeImage } from './encoded_images';
import type { Exchange } from './exchange';
import { Holding, type MemoryBudget, type RequestMemory } from './memory';
import type { RequestMetrics } from './metrics';
import type { ModelDescription, ValueSpec } from './model';
import { baseOf, openApiDocument } from './openapi';
import type { ServeLogger } from './options';
import type { Queue, QueuedModel } from './queue';
import { clientGone, Refusal, refusalFor, reportIfOurs, unavailable } from './refusal';
import { decodeRequest, readHeaders, readTiming, type BodyLimits } from './request';
import { encodeResponse } from './response';
import { allowedMethods, findRoute, type Route } from './routes';
import { clearTimeout, nextTurn, setTimeout } from './timers';

/**
 * How long clients may leave a connection idle while the server drains. One that is closed just as its client uses it
 * again is a reset; whoever uses it before is answered, and told to close it.
 */
const GRACE_MS = 1000;

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
const SHUTTING_DOWN = 'the server is shutting down; try again elsewhere';

/** Begins to send an answer. */
export type Send = (answer: Answer) => void;

/** An inference request on its way. */
interface Inference {
  readonly model: QueuedModel;
  readonly request: IncomingMessage;
  readonly exchange: Exchange;
  readonly cancellation: Cancellation;
  readonly holding: Holding;
  readonly memory: RequestMemory;
  readonly deadline: Deadline;
  isReading: boolean;
}

/** What a service works with. */
export interface ServiceParts extends BodyLimits {
  /** May change */
  readonly models: ReadonlyMap<string, QueuedModel>;
  /** Of the protocol, besides those that every server has */
  readonly extensions: readonly string[];
  /** Asks the thread of the models. */
  readonly ask: Ask;
  /** Milliseconds, as in the options of a handler */
  readonly timeout: number;
  readonly budget: MemoryBudget;
  /** For the body and the inputs of one request */
  readonly newMemory: () => RequestMemory;
  readonly decoder: ImageDecoder;
  readonly metrics: RequestMetrics;
  /** Of all threads that serve */
  readonly metricsPage: () => string | Promise<string>;
  readonly logger: ServeLogger;
}

export class Service {
  readonly #parts: ServiceParts;
  readonly #inferences = new Set<Inference>();
  readonly #connections = new Connections();
  #isDraining = false;
  #onIdle: (() => void)[] = [];

  constructor(parts: ServiceParts) {
    this.#parts = parts;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /**
   * Refuses inferences from now on. Resolves once all that were accepted have been answered, and clients that keep a
   * connection have been told, or have had the time to ask.
   */
  async drain(): Promise<void> {
    this.#isDraining = true;
    const told = this.#connections.gone(GRACE_MS);
    if (this.#inferences.size > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
    await told;
  }

  /** Answers what is still there by 503, and stops measuring. */
  close(): void {
    this.#isDraining = true;
    for (const { cancellation } of this.#inferences) cancellation.request(unavailable(SHUTTING_DOWN));
  }

  /**
   * Answers a request, and resolves when an inference's answer has been sent. Never rejects.
   *
   * @param target - path of the request, starting with `/v2` or `/metrics`
   * @param exchange - for notes of what becomes known of the request
   */
  async handle(
    request: IncomingMessage,
    target: string,
    response: ServerResponse,
    send: Send,
    exchange: Exchange,
  ): Promise<void> {
    this.#connections.add(request.socket);
    try {
      const route = findRoute(target, this.#parts.models);
      exchange.route = route;
      const methods = allowedMethods(route);
      const Allow = methods.join(', ');
      if (request.method === 'OPTIONS') return send(answer(200, [], { Allow }));
      if (!methods.includes(request.method!))
        throw new Refusal(405, `the methods here are ${Allow}`, { Allow });
      if (route.action === 'infer')
        return await this.#serveInference(
          this.#parts.models.get(route.model.name)!,
          request,
          response,
          send,
          exchange,
        );
      send(await this.#lookUp(route, request, target));
    } catch (error) {
      if (response.headersSent) response.destroy();
      else send(this.#refuse(error, exchange));
    } finally {
      discardRest(request);
    }
  }

  /** Gives an answer that does not depend on what is served. */
  async greet(request: IncomingMessage, answer: Answer, send: Send): Promise<void> {
    this.#connections.add(request.socket);
    send(answer);
    discardRest(request);
  }

  /** Calls back when the system has all of a response, or the client has gone. */
  whenSent({ socket }: IncomingMessage, response: ServerResponse, done: () => void): void {
    if (response.writableFinished || response.destroyed) return done();
    let isDone = false;
    let unfollow = () => {};
    const once = () => {
      unfollow();
      if (!isDone) done();
      isDone = true;
    };
    response.once('finish', once).once('close', once);
    unfollow = this.#connections.follow(socket, once);
  }

  async #lookUp(
    route: Exclude<Route, { action: 'infer' }>,
    request: IncomingMessage,
    target: string,
  ): Promise<Answer> {
    const ready = !this.#isDraining;
    switch (route.action) {
      case 'server':
        return jsonAnswer(200, {
          name: 'warpconv',
          version: packageVersion(),
          extensions: ['binary_tensor_data', 'statistics', ...this.#parts.extensions],
        });
      case 'live':
        return jsonAnswer(200, { live: true });
      case 'ready':
        return ready ? toAnswer(await this.#parts.ask({ about: 'ready' })) : jsonAnswer(503, { ready });
      case 'openApi':
        return jsonAnswer(200, openApiDocument(this.#parts.models, baseOf(request, target)));
      case 'metrics':
        return answer(200, [Buffer.from(await this.#parts.metricsPage())], { 'Content-Type': METRICS_TYPE });
      case 'modelReady':
        return jsonAnswer(ready ? 200 : 503, { name: route.model.name, ready });
      case 'model':
        return jsonAnswer(200, describeModel(route.model));
      case 'stats':
        return toAnswer(await this.#parts.ask({ about: 'statistics', name: route.model.name }));
      case 'allStats':
        return toAnswer(await this.#parts.ask({ about: 'statistics', name: undefined }));
      case 'index':
      case 'load':
      case 'unload': {
        if (!ready) throw unavailable(SHUTTING_DOWN);
        const name = 'name' in route ? route.name : '';
        const question = await readQuestion(route.action, name, request, this.#parts);
        return toAnswer(await this.#parts.ask(question));
      }
    }
  }

  async #serveInference(
    model: QueuedModel,
    request: IncomingMessage,
    response: ServerResponse,
    send: Send,
    exchange: Exchange,
  ): Promise<void> {
    if (this.#isDraining) return this.#refuseInference(model, send, exchange);
    const started = performance.now();
    const { timeout, budget, metrics } = this.#parts;
    const cancellation = new Cancellation();
    const inference = {
      model,
      request,
      exchange,
      cancellation,
      isReading: true,
      holding: new Holding(budget),
      memory: this.#parts.newMemory(),
      deadline: new Deadline(timeout, (milliseconds) =>
        cancellation.request(tooSlow(inference, milliseconds)),
      ),
    };
    const onClose = () => cancellation.request(clientGone());
    const unfollow = this.#connections.follow(request.socket, onClose);
    // A response may be ended without its connection, where the server is another's.
    response.once('close', onClose);
    if (response.destroyed) onClose();
    this.#inferences.add(inference);
    model.users.enter();
    metrics.inFlight = this.#inferences.size;
    try {
      const result = await this.#infer(inference, model.queue).catch((error: unknown) =>
        this.#refuse(error, exchange, model),
      );
      inference.deadline.clear();
      response.off('close', onClose);
      unfollow();
      if (!response.destroyed && !request.socket.destroyed) send(result);
      metrics.answered(model.name, result.status, performance.now() - started);
      await this.#sent(request, response);
    } finally {
      this.#end(inference);
    }
  }

  /** Draining waits for no request that came too late: a client may send them without end. */
  #refuseInference(model: ModelDescription, send: Send, exchange: Exchange): void {
    const refusal = this.#refuse(unavailable(SHUTTING_DOWN), exchange, model);
    send(refusal);
    this.#parts.metrics.answered(model.name, refusal.status, 0);
  }

  async #infer(inference: Inference, queue: Queue): Promise<Answer> {
    const { model, request, exchange, cancellation, holding, memory, deadline } = inference;
    const { urgency, timeout } = readTiming(request.headers);
    deadline.shorten(timeout);
    queue.refuseIfFull();
    const framing = readHeaders(request.headers, this.#parts, model);
    const body = await readBody(request, framing, holding, memory, cancellation);
    inference.isReading = false;
    if (framing.encoding === undefined) exchange.bytesIn = body.length;
    const turn = async () => {
      await nextTurn();
      cancellation.throwIfRequested();
    };
    const decoded = framing.isImage
      ? await decodeImage(model, body, request.headers, holding, memory, this.#parts.decoder, cancellation)
      : await decodeRequest(model, body, framing.headerLength, turn);
    deadline.shorten(decoded.timeout);
    cancellation.throwIfRequested();
    const outputs = decoded.outputs.map(({ spec }) => spec);
    const run = await queue.run(decoded.inputs, outputs, cancellation, memory, urgency, exchange);
    exchange.ran(run);
    const result = await encodeResponse(model, decoded, run, this.#parts.maxJsonBytes);
    holding.keep(Number(result.headers['Content-Length']));
    return result;
  }

  /** Waits until the system has all of a response, or the client has gone: after the timeout, it is made to. */
  #sent(request: IncomingMessage, response: ServerResponse): Promise<void> {
    return new Promise((resolve) => {
      if (response.writableFinished || response.destroyed) return resolve();
      const timer = setTimeout(() => request.socket.destroy(), this.#parts.timeout);
      this.whenSent(request, response, () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** A run that nobody waits for any longer may keep its inputs until it stops: one batch for each model. */
  #end(inference: Inference): void {
    inference.holding.release();
    inference.memory.letGo();
    this.#inferences.delete(inference);
    inference.model.users.leave();
    this.#parts.metrics.inFlight = this.#inferences.size;
    if (this.#inferences.size > 0) return;
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }

  #refuse(error: unknown, exchange: Exchange, model?: ModelDescription): Answer {
    const refusal = refusalFor(error, model);
    exchange.refusal = refusal;
    reportIfOurs(this.#parts.logger, refusal, error, model);
    return refuse(refusal);
  }
}

function describeModel({ name, version, inputs, outputs }: ModelDescription): object {
  const describeValue = ({ name, datatype, dims }: ValueSpec) => ({
    name,
    datatype: datatype.name,
    shape: dims.map((extent) => (typeof extent === 'number' ? extent : -1)),
  });
  return {
    ...{ name, versions: [version], platform: 'warpconv_onnx' },
    ...{ inputs: inputs.map(describeValue), outputs: outputs.map(describeValue) },
  };
}

function tooSlow({ isReading, model }: Inference, timeout: number): Refusal {
  return isReading
    ? new Refusal(408, `the body of the request was not there after ${timeout} ms`)
    : new Refusal(504, `model '${model.name}' had not answered after ${timeout} ms`);
}

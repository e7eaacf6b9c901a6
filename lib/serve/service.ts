/** The server itself, apart from who calls it: node:http or Fastify. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import makeDebug from 'debug';

import { packageVersion } from '../load';
import { answer, jsonAnswer, refuse, type Answer } from './answer';
import { Batcher } from './batcher';
import { discardRest, readBody } from './body';
import { Cancellation } from './cancellation';
import { Connections } from './connections';
import { Holding, MemoryBudget } from './memory';
import { Metrics } from './metrics';
import type { Model, ValueSpec } from './model';
import type { HandlerSettings, ServeLogger } from './options';
import { clientGone, Refusal, refusalFor, unavailable } from './refusal';
import { decodeRequest, readHeaders } from './request';
import { encodeResponse } from './response';
import { allowedMethods, findRoute, type Route } from './routes';
import { clearTimeout, nextTurn, setTimeout } from './timers';

const debug = makeDebug('warpconv:serve');
const DEBUG_LOGGER: ServeLogger = { error: (details, message) => debug('%s %o', message, details) };

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
  readonly model: Model;
  readonly request: IncomingMessage;
  readonly cancellation: Cancellation;
  readonly holding: Holding;
  isReading: boolean;
}

export class Service {
  readonly #settings: HandlerSettings;
  readonly #batchers: ReadonlyMap<string, Batcher>;
  readonly #memory: MemoryBudget;
  readonly #metrics: Metrics;
  readonly #logger: ServeLogger;
  readonly #inferences = new Set<Inference>();
  readonly #connections = new Connections();
  #isDraining = false;
  #onIdle: (() => void)[] = [];

  constructor(settings: HandlerSettings) {
    this.#settings = settings;
    this.#memory = new MemoryBudget(settings.maxHeldBytes);
    this.#logger = settings.logger ?? DEBUG_LOGGER;
    const batchers = Array.from(settings.models, ([name, model]) => {
      const onRun = (...run: [requests: number, milliseconds: number]) => this.#metrics.ran(name, ...run);
      return [name, new Batcher(model, settings.maxQueue, onRun)] as const;
    });
    this.#batchers = new Map(batchers);
    this.#metrics = new Metrics({
      queueLengths: () => batchers.map(([name, batcher]) => [name, batcher.waiting] as const),
      inFlight: () => this.#inferences.size,
      heldBytes: () => this.#memory.held,
    });
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
    this.#metrics.close();
  }

  metrics(): string {
    return this.#metrics.text();
  }

  /**
   * Answers a request, and resolves when an inference's answer has been sent. Never rejects.
   *
   * @param target - path of the request, starting with `/v2` or `/metrics`
   */
  async handle(
    request: IncomingMessage,
    target: string,
    response: ServerResponse,
    send: Send,
  ): Promise<void> {
    this.#connections.add(request.socket);
    try {
      const route = findRoute(target, this.#settings.models);
      const methods = allowedMethods(route);
      const Allow = methods.join(', ');
      if (request.method === 'OPTIONS') return send(answer(200, [], { Allow }));
      if (!methods.includes(request.method!))
        throw new Refusal(405, `the methods here are ${Allow}`, { Allow });
      if (route.action === 'infer') return await this.#serveInference(route.model, request, response, send);
      send(this.#lookUp(route));
    } catch (error) {
      if (response.headersSent) response.destroy();
      else send(this.#refuse(error));
    } finally {
      discardRest(request);
    }
  }

  #lookUp(route: Exclude<Route, { action: 'infer' }>): Answer {
    const ready = !this.#isDraining;
    switch (route.action) {
      case 'server':
        return jsonAnswer(200, {
          name: 'warpconv',
          version: packageVersion(),
          extensions: ['binary_tensor_data'],
        });
      case 'live':
        return jsonAnswer(200, { live: true });
      case 'ready':
        return jsonAnswer(ready ? 200 : 503, { ready });
      case 'metrics':
        return answer(200, [Buffer.from(this.metrics())], { 'Content-Type': METRICS_TYPE });
      case 'modelReady':
        return jsonAnswer(ready ? 200 : 503, { name: route.model.name, ready });
      case 'model':
        return jsonAnswer(200, describeModel(route.model));
    }
  }

  async #serveInference(
    model: Model,
    request: IncomingMessage,
    response: ServerResponse,
    send: Send,
  ): Promise<void> {
    if (this.#isDraining) return this.#refuseInference(model, send);
    const started = performance.now();
    const { timeout } = this.#settings;
    const cancellation = new Cancellation();
    const inference = { model, request, cancellation, holding: new Holding(this.#memory), isReading: true };
    const timer = setTimeout(() => cancellation.request(tooSlow(inference, timeout)), timeout);
    const onClose = () => cancellation.request(clientGone());
    response.once('close', onClose);
    // What came before the handler was called is not told again.
    if (response.destroyed) onClose();
    this.#inferences.add(inference);
    try {
      const result = await this.#infer(inference).catch((error: unknown) => this.#refuse(error, model));
      clearTimeout(timer);
      response.off('close', onClose);
      if (!response.destroyed) send(result);
      this.#metrics.answered(model.name, result.status, performance.now() - started);
      await sent(response, timeout);
    } finally {
      this.#end(inference);
    }
  }

  /** Draining waits for no request that came too late: a client may send them without end. */
  #refuseInference(model: Model, send: Send): void {
    const refusal = this.#refuse(unavailable(SHUTTING_DOWN), model);
    send(refusal);
    this.#metrics.answered(model.name, refusal.status, 0);
  }

  async #infer(inference: Inference): Promise<Answer> {
    const { model, request, cancellation, holding } = inference;
    const batcher = this.#batchers.get(model.name)!;
    batcher.refuseIfFull();
    const framing = readHeaders(request.headers, this.#settings);
    const body = await readBody(request, framing, holding, cancellation);
    inference.isReading = false;
    const turn = async () => {
      await nextTurn();
      cancellation.throwIfRequested();
    };
    const decoded = await decodeRequest(model, body, framing.headerLength, turn);
    const outputs = decoded.outputs.map(({ spec }) => spec);
    const run = await batcher.run(decoded.inputs, outputs, cancellation);
    const result = await encodeResponse(model, decoded, run, this.#settings.maxJsonBytes);
    holding.keep(Number(result.headers['Content-Length']));
    return result;
  }

  /** A run that nobody waits for any longer may keep its inputs until it stops: one batch for each model. */
  #end(inference: Inference): void {
    inference.holding.release();
    this.#inferences.delete(inference);
    if (this.#inferences.size > 0) return;
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }

  #refuse(error: unknown, model?: Model): Answer {
    const refusal = refusalFor(error, model);
    if (refusal.status === 500) this.#logger.error({ err: error, model: model?.name }, 'a request failed');
    return refuse(refusal);
  }
}

function describeModel({ name, version, inputs, outputs }: Model): object {
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

/** Waits until the system has all of a response, or the client has gone: after `timeout`, it is made to. */
function sent(response: ServerResponse, timeout: number): Promise<void> {
  return new Promise((resolve) => {
    if (response.writableFinished || response.destroyed) return resolve();
    const timer = setTimeout(() => response.destroy(), timeout);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    response.once('finish', done).once('close', done);
  });
}

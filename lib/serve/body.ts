/** Bodies of requests: how long they may be, and where their bytes go. */
import type { IncomingMessage } from 'node:http';

import { invalid } from '../check';
import type { Cancellation } from './cancellation';
import type { Holding, RequestMemory } from './memory';
import { clientGone, Refusal } from './refusal';
import type { Framing } from './request';
import { clearTimeout, setTimeout } from './timers';

/** How long a client that was refused may go on sending before its connection is cut, so that it can read why. */
export const LINGER_MS = 5000;

interface Sink {
  add(chunk: Buffer): void;
  end(): Buffer;
}

/** For a body of known length: each chunk is copied as it comes, so that no turn of the event loop copies all of it. */
class FixedSink implements Sink {
  readonly #body: Buffer;
  #length = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  add(chunk: Buffer): void {
    if (this.#length + chunk.length > this.#body.length)
      throw invalid('the body is longer than Content-Length');
    chunk.copy(this.#body, this.#length);
    this.#length += chunk.length;
  }

  end(): Buffer {
    if (this.#length < this.#body.length) throw invalid('the body is shorter than Content-Length');
    return this.#body;
  }
}

/** For a body of unknown length, which is chunked. */
class GrowingSink implements Sink {
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(
    readonly framing: Framing,
    readonly holding: Holding,
  ) {}

  add(chunk: Buffer): void {
    this.#length += chunk.length;
    checkLength(this.#length, this.framing);
    this.holding.take(chunk.length);
    this.#chunks.push(chunk);
  }

  end(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

function checkLength(length: number, { maxBytes, headerLength, isImage }: Framing): void {
  if (length <= maxBytes) return;
  const isJson = headerLength === undefined && !isImage;
  const what = isJson ? 'JSON may have; send tensors as binary data' : 'a request may have';
  throw new Refusal(413, `the body is longer than ${maxBytes} bytes, the most that ${what}`);
}

/**
 * Reads the body of a request. What it takes up is added to `holding`, all of it before the first byte is read where
 * the request says its length.
 *
 * @param memory - where the body is to lie, if its length is known
 * @param cancellation - a request of it rejects with its reason
 */
export async function readBody(
  request: IncomingMessage,
  framing: Framing,
  holding: Holding,
  memory: RequestMemory,
  cancellation: Cancellation,
): Promise<Buffer> {
  if (request.readableEnded) {
    throw new Error('the body of the request was read before: mount the handler in front of body parsers');
  }
  const sink = openSink(request, framing, holding, memory);
  await pour(request, sink, cancellation);
  return sink.end();
}

function openSink(request: IncomingMessage, framing: Framing, holding: Holding, memory: RequestMemory): Sink {
  const announced = request.headers['content-length'];
  if (announced === undefined) return new GrowingSink(framing, holding);
  const length = Number(announced);
  checkLength(length, framing);
  holding.take(length);
  return new FixedSink(memory.allocate(length, framing.headerLength ?? 0));
}

function pour(request: IncomingMessage, sink: Sink, cancellation: Cancellation): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (failure?: unknown) => {
      request.off('data', onData).off('end', onEnd).off('error', onError);
      cancellation.unfollow(onCancel);
      if (failure === undefined) resolve();
      else reject(failure as Error);
    };
    const onCancel = () => settle(cancellation.reason);
    const onEnd = () => settle();
    const onError = () => settle(clientGone());
    const onData = (chunk: Buffer) => {
      try {
        sink.add(chunk);
      } catch (error) {
        settle(error);
      }
    };
    if (cancellation.isRequested) return onCancel();
    cancellation.follow(onCancel);
    request.on('data', onData).on('end', onEnd).on('error', onError);
  });
}

/** Lets a client finish sending what nobody will read, for a while: it may not look for an answer before. */
export function discardRest(request: IncomingMessage): void {
  if (request.readableEnded || request.destroyed) return;
  const timer = setTimeout(() => request.destroy(), LINGER_MS).unref();
  request.once('close', () => clearTimeout(timer));
  request.resume();
}

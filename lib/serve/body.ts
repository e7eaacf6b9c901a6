/** Bodies of requests: how long they may be, and where their bytes go. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';

import { invalid } from '../check';
import type { Cancellation } from './cancellation';
import { DECODER_BYTES, decoderOf, type Encoding } from './encodings';
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

/** For a body of unknown length, which is chunked or compressed. */
class GrowingSink implements Sink {
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(
    readonly framing: Framing,
    readonly holding: Holding,
    readonly memory: RequestMemory,
  ) {}

  add(chunk: Buffer): void {
    this.#length += chunk.length;
    checkLength(this.#length, this.framing);
    this.holding.take(chunk.length);
    this.#chunks.push(chunk);
  }

  end(): Buffer {
    const body = this.memory.allocate(this.#length, this.framing.headerLength ?? 0);
    let offset = 0;
    for (const chunk of this.#chunks) offset += chunk.copy(body, offset);
    return body;
  }
}

/** Of a compressed body, the length as it was sent and the length that it decodes to are checked, both. */
function checkLength(length: number, { maxBytes, encoding, headerLength, isImage }: Framing): void {
  if (length <= maxBytes) return;
  const isJson = headerLength === undefined && !isImage;
  const what = isJson ? 'JSON may have; send tensors as binary data' : 'a request may have';
  const body = encoding === undefined ? 'body' : 'decoded body';
  throw new Refusal(413, `the ${body} is longer than ${maxBytes} bytes, the most that ${what}`);
}

/**
 * Reads the body of a request, decoded. What it takes up is added to `holding`, all of it before the first byte is read
 * where the request says its length.
 *
 * @param memory - where the body is to lie
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
  const { encoding } = framing;
  if (encoding === undefined) await pour(request, clientGone, sink, cancellation);
  else await pourDecoded(request, encoding, framing, sink, holding, cancellation);
  return sink.end();
}

function openSink(request: IncomingMessage, framing: Framing, holding: Holding, memory: RequestMemory): Sink {
  const announced = request.headers['content-length'];
  if (announced !== undefined) checkLength(Number(announced), framing);
  if (announced === undefined || framing.encoding !== undefined)
    return new GrowingSink(framing, holding, memory);
  const length = Number(announced);
  holding.take(length);
  return new FixedSink(memory.allocate(length, framing.headerLength ?? 0));
}

/**
 * Through a decoder, which waits while the event loop takes its pieces in: what is too long when decoded is noticed after
 * one piece too many.
 */
async function pourDecoded(
  request: IncomingMessage,
  encoding: Encoding,
  framing: Framing,
  sink: Sink,
  holding: Holding,
  cancellation: Cancellation,
): Promise<void> {
  holding.take(DECODER_BYTES);
  const decoder = decoderOf(encoding);
  let received = 0;
  let failure: Error | undefined;
  const fail = (error: unknown) => decoder.destroy((failure = error as Error));
  const onError = () => fail(clientGone());
  const onData = (chunk: Buffer) => {
    received += chunk.length;
    try {
      checkLength(received, framing);
    } catch (error) {
      fail(error);
    }
  };
  request.on('data', onData).on('error', onError).pipe(decoder);
  try {
    const failureOf = ({ message }: Error) =>
      failure ?? invalid(`the body is no whole ${encoding} data: ${message}`);
    await pour(decoder, failureOf, sink, cancellation);
    // A decoder ends where its data ends, whatever comes behind it.
    if (decoder.bytesWritten < received)
      throw invalid(`the body goes on behind the end of its ${encoding} data`);
  } finally {
    request.off('data', onData).off('error', onError).unpipe(decoder);
    decoder.destroy();
    holding.release(DECODER_BYTES);
  }
}

/** @param failureOf - what an error of the source is answered by */
function pour(
  source: Readable,
  failureOf: (error: Error) => Error,
  sink: Sink,
  cancellation: Cancellation,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (failure?: unknown) => {
      source.off('data', onData).off('end', onEnd).off('error', onError);
      cancellation.unfollow(onCancel);
      if (failure === undefined) resolve();
      else reject(failure as Error);
    };
    const onCancel = () => settle(cancellation.reason);
    const onEnd = () => settle();
    const onError = (error: Error) => settle(failureOf(error));
    const onData = (chunk: Buffer) => {
      try {
        sink.add(chunk);
      } catch (error) {
        settle(error);
      }
    };
    if (cancellation.isRequested) return onCancel();
    cancellation.follow(onCancel);
    source.on('data', onData).on('end', onEnd).on('error', onError);
  });
}

/** Lets a client finish sending what nobody will read, for a while: it may not look for an answer before. */
export function discardRest(request: IncomingMessage): void {
  if (request.readableEnded || request.destroyed) return;
  const timer = setTimeout(() => request.destroy(), LINGER_MS).unref();
  request.once('close', () => clearTimeout(timer));
  request.resume();
}

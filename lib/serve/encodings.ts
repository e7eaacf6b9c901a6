/** Compressed bodies, by the names that Content-Encoding has for them (RFC 9110, 8.4.1). */
import type { IncomingHttpHeaders } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, type Zlib } from 'node:zlib';

import { alternatives, describe } from '../check';
import { Refusal } from './refusal';

/** Of a decoded piece. With zlib's usual 16 KiB a body takes four times the turns of the event loop. */
const PIECE_BYTES = 64 * 2 ** 10;

/**
 * What a decoder takes up beside what it has decoded: a piece, and the window and the tables of inflate, which are less
 * than another. The window of Brotli may be of 16 MiB, but fills only with what is decoded.
 */
export const DECODER_BYTES = 2 * PIECE_BYTES;

const OPTIONS = { chunkSize: PIECE_BYTES };

/** Each works on libuv's threads. `bytesWritten` is how much of its input it has used. */
export type Decoder = Transform & Zlib;

const DECODERS = {
  gzip: () => createGunzip(OPTIONS),
  deflate: () => createInflate(OPTIONS),
  br: () => createBrotliDecompress(OPTIONS),
} as const satisfies Record<string, () => Decoder>;

export type Encoding = keyof typeof DECODERS;

export const ENCODINGS = Object.keys(DECODERS) as Encoding[];

/**
 * The encoding of a body; `undefined` for one that is sent as it is.
 *
 * @throws Refusal 415 for an unknown one, and for several, one on top of the other
 */
export function readEncoding(headers: IncomingHttpHeaders): Encoding | undefined {
  const given = headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (given === 'identity') return undefined;
  const name = given === 'x-gzip' ? 'gzip' : given;
  const encoding = ENCODINGS.find((one) => one === name);
  if (encoding !== undefined) return encoding;
  const message = `Content-Encoding must be ${alternatives(ENCODINGS)}, or left out, got ${describe(given)}`;
  throw new Refusal(415, message, { 'Accept-Encoding': ENCODINGS.join(', ') });
}

export function decoderOf(encoding: Encoding): Decoder {
  // One that is given up may still fail, when nobody listens.
  return DECODERS[encoding]().on('error', () => {});
}

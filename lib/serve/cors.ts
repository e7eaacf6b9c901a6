/** Which pages of other origins may ask, by the CORS protocol of the Fetch standard. */
import type { IncomingMessage } from 'node:http';

import { checkList, mismatch } from '../check';
import type { Answer } from './answer';

/** Plain data, for other threads too. */
export type Cors = '*' | readonly string[];

type Headers = Readonly<Record<string, string>>;

/** Browsers ask again after so long. Chromium takes no more. */
const MAX_AGE_SECONDS = 7200;

const METHODS = 'GET, HEAD, POST';

/** What a page may send. Browsers let it send `Accept` in any case. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Encoding',
  'Content-Type',
  'Inference-Header-Content-Length',
  'Priority',
  'Request-Timeout-Ms',
  'X-Request-Id',
  'baggage',
  'traceparent',
  'tracestate',
].join(', ');

/** What a page may read. */
const RESPONSE_HEADERS = [
  'Accept-Encoding',
  'Allow',
  'Inference-Header-Content-Length',
  'Retry-After',
  'Server-Timing',
  'X-Request-Id',
].join(', ');

export function readCors(value: unknown): Cors | undefined {
  if (value === undefined || value === '*') return value;
  return checkList('options.cors', value, "'*' or a list of origins", readOrigin);
}

/** In the form in which browsers send origins, since they are compared as texts. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::\d+)?$/;

function readOrigin(name: string, value: unknown): string {
  if (typeof value === 'string' && ORIGIN.test(value) && !hasUsualPort(value)) return value;
  const remedy = value === '*' ? "; options.cors: '*' lets all in" : '';
  throw mismatch(name, "an origin as browsers send it, such as 'https://example.com'", value, remedy);
}

/** Browsers leave it out. */
function hasUsualPort(origin: string): boolean {
  return /^http:.*:80$|^https:.*:443$/.test(origin);
}

/** The headers that an answer to the request has, be it an error. */
export function corsHeaders(cors: Cors, { headers: { origin } }: IncomingMessage): Headers {
  const exposed = { 'Access-Control-Expose-Headers': RESPONSE_HEADERS };
  if (cors === '*') return { 'Access-Control-Allow-Origin': '*', ...exposed };
  // Caches must not give one origin the answer to another.
  if (origin === undefined || !cors.includes(origin)) return { Vary: 'Origin' };
  return {
    'Access-Control-Allow-Origin': origin,
    // Of a proxy in front: nothing here reads any.
    'Access-Control-Allow-Credentials': 'true',
    ...exposed,
    Vary: 'Origin',
  };
}

/** Whether a browser asks what a page may send. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  );
}

/** Of any path: the request that follows is told what is wrong with it. An origin that is not allowed is told nothing. */
export function preflightAnswer(cors: Cors, { headers: { origin } }: IncomingMessage): Answer {
  const headers = {
    'Access-Control-Allow-Methods': METHODS,
    'Access-Control-Allow-Headers': REQUEST_HEADERS,
    'Access-Control-Max-Age': String(MAX_AGE_SECONDS),
  };
  return { status: 204, headers: cors === '*' || cors.includes(origin!) ? headers : {}, body: [] };
}

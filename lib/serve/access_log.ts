/** A line for each request, for those who look for what happened to one. */
import type { Writable } from 'node:stream';

import { isObject, mismatch } from '../check';
import type { ExchangeEnd, ExchangeStart } from './exchange_record';
import type { ServeLogger } from './logger';
import { printable } from '../printable';
import { nextTurn } from './timers';

/** What the access log has of one request. Members that do not apply, or are not known, are not there. */
export interface AccessLogEntry {
  /** When it came, by ISO 8601 */
  readonly time: string;
  readonly method: string;
  /** Without the query; at most 1,024 characters */
  readonly path: string;
  /** Of a model that is served */
  readonly model?: string;
  readonly version?: string;
  /** 499 for a client that left before it had the whole answer */
  readonly status: number;
  /** Of the body, as its client announced it, or as it was received where it came in chunks */
  readonly bytesIn?: number;
  readonly bytesOut?: number;
  /** From the headers until the system had the whole answer */
  readonly durationMs: number;
  readonly queueMs?: number;
  readonly computeMs?: number;
  /** Requests that the same run served */
  readonly batchSize?: number;
  /** The request's `X-Request-Id`, if it is of 1 to 128 letters, digits and `-._:+/=@`; else a new one. Answers have it. */
  readonly requestId: string;
  readonly traceId?: string;
  readonly remoteAddress?: string;
  /** Why it was refused */
  readonly reason?: string;
}

/** A logger of pino's shape. */
export interface AccessLogger {
  info(details: AccessLogEntry, message: string): void;
}

/** Where the access log goes: `true` is one line of JSON for each request, on stdout. */
export type AccessLogOption = boolean | ((entry: AccessLogEntry) => void) | AccessLogger;

/** Takes entries. Never throws. */
export type AccessLog = (entry: AccessLogEntry) => void;

/** @param logger - told when what the application gave fails, the first time */
export function readAccessLog(value: unknown, logger: ServeLogger): AccessLog | undefined {
  if (value === undefined || value === false) return undefined;
  if (value === true) return toStdout;
  if (typeof value === 'function') return guarded(value as (entry: AccessLogEntry) => void, logger);
  if (isObject(value) && typeof (value as Partial<AccessLogger>).info === 'function') {
    const given = value as AccessLogger;
    return guarded((entry) => given.info(entry, 'request'), logger);
  }
  throw mismatch('options.accessLog', 'true, a function or an object with a method info', value);
}

function guarded(log: (entry: AccessLogEntry) => unknown, logger: ServeLogger): AccessLog {
  let hasFailed = false;
  const fail = (err: unknown) => {
    if (!hasFailed) logger.error({ err }, 'the access log failed');
    hasFailed = true;
  };
  return (entry) => {
    try {
      const result = log(entry);
      // An async function fails later, and would end the process.
      if (result instanceof Promise) result.catch(fail);
    } catch (error) {
      fail(error);
    }
  };
}

const LONGEST_PATH = 1024;

export function entryOf(start: ExchangeStart, end: ExchangeEnd, traceId?: string): AccessLogEntry {
  const { status, model, version, bytesIn, bytesOut, duration, run, reason } = end;
  return withoutUndefined({
    time: new Date(start.time).toISOString(),
    method: start.method,
    path: start.path.slice(0, LONGEST_PATH),
    ...{ model, version, status, bytesIn, bytesOut },
    durationMs: rounded(duration),
    queueMs: run && rounded(run.waited),
    computeMs: run && rounded(run.computed),
    batchSize: run?.requests,
    requestId: start.requestId!,
    traceId: traceId ?? traceIdOf(start.headers.traceparent),
    remoteAddress: start.remoteAddress,
    reason,
  });
}

function withoutUndefined<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1e3) / 1e3;
}

/** W3C's Trace Context: version, trace, span, flags; versions after the first, 00, may say more. */
const TRACEPARENT =
  /^(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1];
}

/** Bytes that may wait for whoever reads stdout: lines beyond are dropped, and counted. */
const MOST_WAITING = 2 ** 20;

/** Writes the lines of one turn of the event loop together. */
export class LineWriter {
  readonly #stream: Writable;
  #lines: string[] = [];
  #dropped = 0;

  constructor(stream: Writable) {
    this.#stream = stream;
    // Without a listener, a pipe that its reader has closed ends the process.
    stream.on('error', () => {});
  }

  write(line: string): void {
    if (this.#lines.length === 0) void nextTurn().then(() => this.#flush());
    this.#lines.push(line);
  }

  #flush(): void {
    const lines = this.#lines;
    this.#lines = [];
    if (this.#stream.writableLength > MOST_WAITING) {
      this.#dropped += lines.length;
      return;
    }
    if (this.#dropped > 0) lines.unshift(`{"dropped":${this.#dropped}}\n`);
    this.#dropped = 0;
    this.#stream.write(lines.join(''));
  }
}

export function lineOf(entry: AccessLogEntry): string {
  return `${printable(JSON.stringify(entry))}\n`;
}

let stdout: LineWriter | undefined;

const toStdout: AccessLog = (entry) => {
  stdout ??= new LineWriter(process.stdout);
  stdout.write(lineOf(entry));
};

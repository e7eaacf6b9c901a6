/** What becomes known of a request and its answer, for those who are told of both: the access log and tracing. */

/** Where a span is, as plain data. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState: string | undefined;
}

/** A request, as it is known when it comes. All of this is plain data, which goes to other threads. */
export interface ExchangeStart {
  /** One of its own among those that a thread reads */
  readonly key: number;
  /** Milliseconds since 1970 */
  readonly time: number;
  readonly method: string;
  readonly path: string;
  readonly isProbe: boolean;
  readonly scheme: 'http' | 'https';
  readonly host: string | undefined;
  readonly httpVersion: string;
  readonly userAgent: string | undefined;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  /** `undefined` where nobody logs it */
  readonly requestId: string | undefined;
  /** Headers that say which trace it belongs to */
  readonly headers: Readonly<Record<string, string>>;
  /** The span that the application has made for the request itself */
  readonly parent: TraceContext | undefined;
}

/** The rest, as it is known when the client has the answer, or has left. */
export interface ExchangeEnd {
  /** 499 where the client left before it had all of the answer */
  readonly status: number;
  /** As OpenAPI writes it; `undefined` for a path that is nobody's */
  readonly route: string | undefined;
  readonly model: string | undefined;
  readonly version: string | undefined;
  readonly bytesIn: number | undefined;
  readonly bytesOut: number | undefined;
  readonly duration: number;
  readonly run: Run | undefined;
  /** What is wrong, where the answer is an error */
  readonly reason: string | undefined;
}

/** What a run took, as one of its requests sees it. Times are in milliseconds. */
export interface RunTimes {
  /** In the queue */
  readonly waited: number;
  /** In the run, in joining its inputs and in splitting its outputs */
  readonly computed: number;
  /** Requests that the run served */
  readonly requests: number;
  /** The span of the run, where it has one */
  readonly trace: TraceContext | undefined;
}

export interface Run extends RunTimes {
  /** From the beginning of the request */
  readonly ended: number;
}

/** What is told of one request. */
export interface Watch {
  /** The span of the request, where it has one in this thread */
  readonly context: TraceContext | undefined;
  end(end: ExchangeEnd): void;
}

/** Somebody who is told of all requests. */
export interface Watcher {
  /** Lower-case names of the headers that say which trace a request belongs to */
  readonly traceHeaders: readonly string[];
  /** Whether requests need an id, for the log. */
  readonly isLogged: boolean;
  /** As {@link ExchangeStart.parent} */
  activeSpan(): TraceContext | undefined;
  begin(start: ExchangeStart): Watch;
}

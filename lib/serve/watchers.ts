/** Who is told of the requests of a server. */
import { entryOf, type AccessLog } from './access_log';
import type { Watcher } from './exchange_record';
import type { Tracing } from './tracing';

const TRACEPARENT = 'traceparent';

/** The access log and tracing; `undefined` where there is neither. */
export function watcherOf(
  accessLog: AccessLog | undefined,
  tracing: Tracing | undefined,
): Watcher | undefined {
  if (accessLog === undefined && tracing === undefined) return undefined;
  return {
    traceHeaders: [...new Set([TRACEPARENT, ...(tracing?.headers ?? [])])],
    isLogged: accessLog !== undefined,
    activeSpan: () => tracing?.activeSpan(),
    // Requests that ask how the server is make no spans, and are logged where the answer is bad.
    begin: (start) => {
      const span = start.isProbe ? undefined : tracing?.begin(start);
      return {
        context: span?.context,
        end: (end) => {
          span?.end(end);
          if (!start.isProbe || end.status >= 400) accessLog?.(entryOf(start, end, span?.context?.traceId));
        },
      };
    },
  };
}

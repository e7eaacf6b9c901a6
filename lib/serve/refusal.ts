import { WarpconvError } from '../errors';
import type { ModelDescription } from './model';
import type { ServeLogger } from './logger';

/** A request that is answered by an error: its HTTP status, and a sentence that tells the client what to do. */
export class Refusal extends Error {
  /** Whether the logger knows of it. */
  isReported = false;

  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** For what the same request may get later, or from another server. HTTP counts in whole seconds; a queue takes less. */
export function unavailable(message: string): Refusal {
  return new Refusal(503, message, { 'Retry-After': '1' });
}

/** Nobody receives it, but the metrics count it, by nginx's status for it. */
export function clientGone(): Refusal {
  return new Refusal(499, 'the client closed the connection');
}

/**
 * The refusal for whatever was thrown while a request was answered. What a client sent wrong, be it found here or by
 * the session, is `ERR_WARPCONV_INVALID_ARGUMENT`. A session that compiles its network for the extents it is given says
 * by other codes that there is none for them. Only the package's own messages are worded for strangers.
 */
export function refusalFor(thrown: unknown, model?: ModelDescription): Refusal {
  if (thrown instanceof Refusal) return thrown;
  const { code, message } = (thrown ?? {}) as Partial<Record<'code' | 'message', unknown>>;
  if (typeof code !== 'string' || !code.startsWith('ERR_WARPCONV_')) {
    return new Refusal(500, 'the model failed; the log of the server says why');
  }
  if (code === 'ERR_WARPCONV_INVALID_ARGUMENT') return new Refusal(400, String(message));
  if (SHAPE_CODES.has(code) && model !== undefined && variesInShape(model))
    return new Refusal(400, String(message));
  if (code === 'ERR_WARPCONV_OUT_OF_MEMORY') return unavailable(String(message));
  return new Refusal(500, String(message));
}

/** Tells the logger of a failure that is not the client's, once. */
export function reportIfOurs(
  logger: ServeLogger,
  refusal: Refusal,
  error: unknown,
  model?: ModelDescription,
): void {
  if (refusal.status !== 500 || refusal.isReported) return;
  refusal.isReported = true;
  logger.error({ err: error, model: model?.name }, 'a request failed');
}

const SHAPE_CODES: ReadonlySet<string> = new Set(['ERR_WARPCONV_INVALID_MODEL', 'ERR_WARPCONV_UNSUPPORTED']);

function variesInShape({ inputs }: ModelDescription): boolean {
  return inputs.some(({ dims }) => dims.some((extent) => typeof extent === 'string'));
}

/** The error for a session that does not keep to its own metadata. */
export function brokenSession(message: string): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_INTERNAL', message);
}

import type { NativeFailure } from './addon';

/** Every code a {@link WarpconvError} can carry. */
export type WarpconvErrorCode =
  | 'ERR_WARPCONV_INVALID_ARGUMENT'
  | 'ERR_WARPCONV_UNSUPPORTED'
  | 'ERR_WARPCONV_NO_DEVICE'
  | 'ERR_WARPCONV_OUT_OF_MEMORY'
  | 'ERR_WARPCONV_DISPOSED'
  | 'ERR_WARPCONV_ABORTED'
  | 'ERR_WARPCONV_CUDA'
  | 'ERR_WARPCONV_INVALID_MODEL'
  | 'ERR_WARPCONV_CUDNN_NOT_FOUND'
  | 'ERR_WARPCONV_LOAD_FAILED'
  | 'ERR_WARPCONV_INTERNAL';

/**
 * The one error class of the package. Promises reject with it; synchronous calls and constructors throw it.
 * Tell errors apart by `code`, which is stable; `message` is for people and may change.
 */
export class WarpconvError extends Error {
  static {
    // On the prototype, so that the stack, which V8 writes inside the Error constructor, already carries the name.
    Object.defineProperty(this.prototype, 'name', {
      value: 'WarpconvError',
      configurable: true,
      writable: true,
    });
  }

  readonly code: WarpconvErrorCode;
  /** The CUDA runtime's name for what failed, where it was CUDA that failed. */
  declare readonly cudaError?: string;

  constructor(
    code: WarpconvErrorCode,
    message: string,
    details: { readonly cause?: unknown; readonly cudaError?: string } = {},
  ) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    if (details.cudaError !== undefined) this.cudaError = details.cudaError;
  }
}

/** The error for a call that `signal` ended. */
export function abortedBy(signal: AbortSignal): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_ABORTED', 'the call was aborted by options.signal', {
    cause: signal.reason,
  });
}

/** The public error for what native code reported; anything else that was thrown is returned as it is. */
export function fromNative(thrown: unknown): unknown {
  if (!isNativeFailure(thrown)) return thrown;
  const { code, message, cudaError } = thrown;
  return new WarpconvError(
    `ERR_WARPCONV_${code}` as WarpconvErrorCode,
    message,
    cudaError === undefined ? {} : { cudaError },
  );
}

/** Runs a synchronous native call, throwing its failures as {@link WarpconvError}. */
export function callNative<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw fromNative(thrown);
  }
}

function isNativeFailure(thrown: unknown): thrown is NativeFailure {
  if (typeof thrown !== 'object' || thrown === null) return false;
  const { code, message } = thrown as Partial<NativeFailure>;
  return typeof message === 'string' && typeof code === 'string' && !code.startsWith('ERR_');
}

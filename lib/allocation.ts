import { describe } from './check';
import { WarpconvError } from './errors';

/** What memory is asked for. */
export interface Purpose {
  readonly what: string;
  readonly dims: readonly number[];
  readonly bytes: number;
}

/**
 * What `make` makes, which does nothing but ask for memory.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`, where JavaScript has a `RangeError`
 */
export function allocate<T>({ what, dims, bytes }: Purpose, make: () => T): T {
  try {
    return make();
  } catch (cause) {
    throw new WarpconvError(
      'ERR_WARPCONV_OUT_OF_MEMORY',
      `cannot allocate ${bytes} bytes for ${what} of dims ${describe(dims)}; work on fewer images at a time`,
      { cause },
    );
  }
}

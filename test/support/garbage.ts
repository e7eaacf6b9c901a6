/** The garbage collector at a moment of the test's choice. */
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Resolves when native code has let go of what nothing refers to any more. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  // Native code hears of it in a turn of its own.
  await setImmediate();
  await setImmediate();
}

/**
 * What `count` tells when the garbage is gone. Earlier tests leave some, and a test that counts memory before and after
 * must not see it end in between.
 */
export async function withoutGarbage<T>(count: () => T): Promise<T> {
  await collectGarbage();
  return count();
}

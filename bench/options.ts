/** What the benches' command lines may say. */

export function readBatch(text: string): number {
  const batch = Number(text);
  if (Number.isInteger(batch) && batch > 0) return batch;
  throw new Error(`--batch takes a number of images, not '${text}'`);
}

export function readThreads(text: string, cores: number): number {
  const threads = Number(text);
  if (Number.isInteger(threads) && threads >= 1 && threads <= cores) return threads;
  throw new Error(`--threads takes an integer from 1 to ${cores}, this machine's processors, not '${text}'`);
}

export function readPositive(option: string, text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`--${option} takes a number above 0, not '${text}'`);
}

/** One of a few words. */
export function readOne<T extends string>(option: string, text: string, known: readonly T[]): T {
  const found = known.find((one) => one === text);
  if (found !== undefined) return found;
  throw new Error(`--${option} takes ${known.join(', ')}, not '${text}'`);
}

export function requireKnown(
  option: string,
  given: readonly string[],
  known: readonly string[],
  hint: string,
): void {
  for (const one of given) {
    if (known.includes(one)) continue;
    throw new Error(`--${option} ${one} is none of those that there are: ${known.join(', ')}; ${hint}`);
  }
}

/** Integers above 0 between commas. */
export function readIntegers(option: string, text: string, most = Infinity): number[] {
  const values = text.split(',').map(Number);
  const isRight = values.length <= most && values.every((value) => Number.isInteger(value) && value > 0);
  if (isRight) return values;
  const what = most === 1 ? 'an integer above 0' : 'integers above 0 with commas between them';
  throw new Error(`--${option} takes ${what}, not '${text}'`);
}

import { printable } from '../printable';

/** One line that is written over and over, where somebody watches: stdout is for results alone. */
const ERASE = '\r\u001b[K';

export function showProgress(text: string): void {
  const { isTTY, columns } = process.stderr;
  // Some terminals do not know how wide they are.
  if (isTTY)
    process.stderr.write(`${ERASE}${printable(text.replaceAll('\n', ' ')).slice(0, (columns || 80) - 1)}`);
}

export function endProgress(): void {
  if (process.stderr.isTTY) process.stderr.write(ERASE);
}

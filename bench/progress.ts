/** One line that is written over and over; nothing where nobody watches. */
export function showProgress(title: string, done: number, total: number, unit: string): void {
  if (!process.stderr.isTTY) return;
  const filled = Math.round((30 * done) / total);
  const bar = '█'.repeat(filled).padEnd(30, '░');
  process.stderr.write(`\r${title} ${bar} ${done}/${total} ${unit}`);
  if (done === total) process.stderr.write('\n');
}

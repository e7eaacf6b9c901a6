/** Runs a program to its end. */
import { spawn } from 'node:child_process';

/**
 * @param {object} [options] - those of `spawn`, and `onStart(pid)`, `onText(text)`, `echo: true` to show the output as it comes
 * @returns {Promise<{ok: boolean, output: string}>} what it wrote on either stream; never rejects
 */
export function run(command, args, { onStart, onText, echo = false, ...options } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        output += text;
        onText?.(text);
        if (echo) process.stdout.write(text);
      });
    }
    child.on('error', (error) => resolve({ ok: false, output: `${error.message}\n` }));
    child.on('close', (code, signal) => {
      if (signal) output += `\nended by ${signal}\n`;
      resolve({ ok: code === 0, output });
    });
    if (child.pid !== undefined) onStart?.(child.pid);
  });
}

/**
 * Writes one line over and over, from what Ninja says, `[7/198]`, or make, `[ 4%]`.
 *
 * @returns {(text: string) => void} what is told the output, as `onText` of {@link run} is
 */
export function progressOf(title, start) {
  return (text) => {
    const [, done, total = '100'] = [...text.matchAll(/^\[ *(\d+)(?:\/(\d+)|%)\]/gm)].at(-1) ?? [];
    if (done === undefined || Number(done) === 0) return;
    const part = Number(done) / Number(total);
    const secondsLeft = Math.round(((performance.now() - start) / 1000) * (1 / part - 1));
    const state = total === '100' ? `${done} %` : `${done} of ${total} files`;
    process.stderr.write(`\r\x1b[K${title} … ${state}, about ${secondsLeft} s left`);
  };
}

/** The start and the end of an output: some programs begin with the reason for a failure, others end with it. */
export function excerpt(output) {
  const lines = output.trimEnd().split('\n');
  return (lines.length <= 60 ? lines : [...lines.slice(0, 15), '…', ...lines.slice(-40)]).join('\n');
}

import { spawn } from 'node:child_process';
import path from 'node:path';

/** How a process ended: a crash has a signal instead of a code. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const CHILDREN = path.join(__dirname, '..', 'addon', 'children');

/**
 * Runs a script of `test/addon/children` in a process of its own, on the built package.
 *
 * @param script - a file name, followed by the script's arguments
 */
export function runChild(
  script: readonly [file: string, ...args: string[]],
  { nodeOptions = [], env = {} }: { nodeOptions?: readonly string[]; env?: NodeJS.ProcessEnv } = {},
): Promise<Ending> {
  const [file, ...args] = script;
  const child = spawn(process.execPath, [...nodeOptions, path.join(CHILDREN, file), ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

/** The ending of a script that printed `stdout`, complained of nothing and crashed in no way. */
export function cleanEnding(stdout = ''): Ending {
  return { code: 0, signal: null, stdout, stderr: '' };
}

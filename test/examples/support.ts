import { spawn } from 'node:child_process';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');

export interface RunningExample {
  /** The first that it printed */
  readonly url: string;
  /** Ends it by SIGTERM, and resolves with its exit code and signal. */
  readonly stop: () => Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/**
 * Starts one of the examples that serve, in a process of its own.
 *
 * @param args - of Node.js
 * @param port - 0 for any that is free
 */
export async function startExample(args: readonly string[], port: number | string): Promise<RunningExample> {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<Awaited<ReturnType<RunningExample['stop']>>>((resolve) =>
    child.on('close', (code, signal) => resolve([code, signal])),
  );
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  let printed = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      const found = /http:\/\/[\d.]+:\d+/.exec(printed)?.[0];
      if (found !== undefined) resolve(found);
    });
    void ended.then((ending) =>
      reject(new Error(`${args.join(' ')} ended with ${ending.join()}: ${printed}`)),
    );
  });
  return { url, stop };
}

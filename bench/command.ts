import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';

export const ROOT = path.resolve(__dirname, '..');

/** Runs a program in the root of the package to success, and returns what it printed. */
export function run(
  command: string,
  args: readonly string[],
  options: { readonly input?: string; readonly env?: NodeJS.ProcessEnv } = {},
): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    ...options,
  });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')} failed: ${error?.message ?? ''}\n${stdout}${stderr}`);
}

/** Installs what the lock file of a folder asks for, unless npm has: hundreds of megabytes would come anew. */
export function installPackages(folder: string): void {
  const installed = path.join(folder, 'node_modules/.package-lock.json');
  const lock = path.join(folder, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  run('npm', ['--prefix', folder, 'ci', '--ignore-scripts', '--no-fund', '--no-audit']);
}

/** Runs one of the bench's scripts, which shows its own progress and output. */
export function runScript(file: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): void {
  const command = ['-r', 'ts-node/register', path.join(__dirname, file), ...args];
  const { status } = spawnSync(process.execPath, command, { cwd: ROOT, stdio: 'inherit', env });
  if (status !== 0) throw new Error(`bench/${file} failed`);
}

/** Folders in which tiny programs are installed, built and run. */
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

const HERE = import.meta.dirname;
const LIMIT_MS = 600_000;

/** What the programs print */
export const RESULT = '4,6,4,6,9,6,4,6,4,12';

/** A file of a tool that package.json names. */
export const tool = (file) => path.join(HERE, 'node_modules', file);

export const versionOf = (name) => JSON.parse(readFileSync(tool(`${name}/package.json`), 'utf8')).version;

/** The folder of everything, which goes with the process. */
export const SCRATCH = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'warpconv-bundlers-')));
process.once('exit', () => rmSync(SCRATCH, { recursive: true, force: true }));

const environment = {
  ...process.env,
  WARPCONV_NO_CPU_WARNING: '1',
  HOME: SCRATCH,
  npm_config_cache: path.join(SCRATCH, 'npm-cache'),
  npm_config_update_notifier: 'false',
  NEXT_TELEMETRY_DISABLED: '1',
  DENO_NO_UPDATE_CHECK: '1',
};
// What npm says of the command that started this is not for the others.
for (const name of Object.keys(environment))
  if (/^npm_(?!config_(cache|update))/.test(name) || name === 'NODE_OPTIONS') delete environment[name];

let registry;
/** From now on packages come from there. */
export function useRegistry(url) {
  registry = url;
  environment.npm_config_registry = `${url}/`;
}
export const registryUrl = () => registry;

/** Runs a program to its end. @returns {Promise<{ status: number | null, output: string, errors: string }>} */
export function start(cwd, [command, ...args], env = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...environment, ...env }, timeout: LIMIT_MS });
    const texts = { output: '', errors: '' };
    child.stdout.on('data', (data) => (texts.output += data));
    child.stderr.on('data', (data) => (texts.errors += data));
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, ...texts }));
  });
}

/** A port of this machine on which nothing listens. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a server, which listens at env.PORT some time later. */
export function begin(cwd, [command, ...args], env) {
  const child = spawn(command, args, { cwd, env: { ...environment, ...env } });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (text += data));
  const ended = once(child, 'close');
  const ask = async (page) => {
    for (let tries = 0; tries < 300 && child.exitCode === null; tries++) {
      const answer = await fetch(`http://127.0.0.1:${env.PORT}${page}`).catch(() => undefined);
      if (answer !== undefined) return answer.text();
      await setTimeout(200);
    }
    throw new Error(`${command} ${args.join(' ')} does not answer\n${text}`);
  };
  return { ask, said: () => text, end: async () => (child.kill(), ended) };
}

/** Runs a program to success. @returns {Promise<string>} what it printed */
export async function run(cwd, command, env) {
  const { status, output, errors } = await start(cwd, command, env);
  if (status === 0) return output;
  throw new Error(`${command.join(' ')} ended with ${status}\n${output}${errors}`);
}

/** Runs a program that has to print the right numbers. */
export async function check(cwd, command, env) {
  const printed = (await run(cwd, command, env)).trim();
  if (printed !== RESULT) throw new Error(`${command.join(' ')} printed ${printed}`);
}

/** Runs a program that has to fail, and say all of that. */
export async function checkFailure(cwd, command, expected, env) {
  const { status, output, errors } = await start(cwd, command, env);
  if (status === 0) throw new Error(`${command.join(' ')} did not fail; it printed ${output}`);
  const missing = expected.filter((text) => !errors.includes(text));
  if (missing.length > 0)
    throw new Error(`the error does not say ${missing.join(' and ')}:\n${errors.slice(-3000)}`);
}

let made = 0;
/** A new folder with the programs' sources. */
export function makeApp(manifest = {}) {
  const folder = path.join(SCRATCH, `app${++made}`);
  cpSync(path.join(HERE, 'apps'), folder, { recursive: true });
  writeFileSync(
    path.join(folder, 'package.json'),
    JSON.stringify({ name: 'app', private: true, ...manifest }),
  );
  return folder;
}

/** A new, empty folder. */
export function emptyFolder() {
  const folder = path.join(SCRATCH, `away${++made}`);
  mkdirSync(folder);
  return folder;
}

/** A copy of what a tool has built, in a folder from which nothing else resolves. */
export function copyAway(output) {
  const folder = emptyFolder();
  cpSync(output, folder, { recursive: true, verbatimSymlinks: true });
  return folder;
}

/** Installs packages by npm. */
export function install(folder, packages, ...options) {
  return run(folder, ['npm', 'install', '--no-audit', '--no-fund', ...options, ...packages]);
}

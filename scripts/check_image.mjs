#!/usr/bin/env node
/**
 * Runs an image of deploy/Dockerfile as docs/deploy.md does: asks it, looks at how it is confined, stops it, and tells its size.
 *
 *     node scripts/check_image.mjs IMAGE [-- OPTION ...]
 *
 * ENGINE is the command that runs containers, `docker` by default; OPTIONs are of its `run`, such as `--gpus all`.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { ROOT } from './root.mjs';

const [image, separator, ...options] = process.argv.slice(2);
if (image === undefined || (separator !== undefined && separator !== '--')) {
  console.error('usage: node scripts/check_image.mjs IMAGE [-- OPTION ...]');
  process.exit(2);
}
const [program, ...global] = (process.env.ENGINE ?? 'docker').split(' ');
const engine = (...args) => execFileSync(program, [...global, ...args], { encoding: 'utf8' }).trim();
const inspect = (id, field) => engine('inspect', '--format', `{{${field}}}`, id);

const STARTUP_SECONDS = 120;
const CONFINED = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];

function check(holds, complaint) {
  if (!holds) throw new Error(complaint);
}

/** A folder of models that any user may read. */
function makeModels() {
  const models = mkdtempSync(path.join(os.tmpdir(), 'warpconv-models-'));
  chmodSync(models, 0o755);
  mkdirSync(path.join(models, 'digits/1'), { recursive: true });
  copyFileSync(path.join(ROOT, 'examples/digits/digits.onnx'), path.join(models, 'digits/1/model.onnx'));
  return models;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function waitUntilReady(url) {
  const end = performance.now() + 1e3 * STARTUP_SECONDS;
  while (performance.now() < end) {
    const { ok } = await fetch(`${url}/v2/health/ready`).catch(() => ({ ok: false }));
    if (ok) return;
    await setTimeout(100);
  }
  throw new Error(`it is not ready after ${STARTUP_SECONDS} s`);
}

async function ask(url) {
  const inputs = [{ name: 'image', datatype: 'FP32', shape: [1, 1, 8, 8], data: new Array(64).fill(0.5) }];
  const response = await fetch(`${url}/v2/models/digits/infer`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ inputs }),
  });
  check(response.ok, `an inference is answered by ${response.status}`);
  const { outputs } = await response.json();
  const { data } = outputs.find(({ name }) => name === 'probabilities');
  const sum = data.reduce((total, one) => total + one, 0);
  check(Math.abs(sum - 1) < 1e-3, `probabilities sum up to ${sum}`);
}

/** Runs in the container. */
const LOOK_AROUND = `
  require('sharp');
  const { accessSync, constants, readFileSync } = require('node:fs');
  const isWritable = (place) => {
    try {
      accessSync(place, constants.W_OK);
      return true;
    } catch {
      return false;
    }
  };
  const writable = ['/', '/app', '/models'].filter(isWritable);
  const init = readFileSync('/proc/1/comm', 'utf8').trim();
  console.log(JSON.stringify({ user: process.getuid(), writable, init }));
`;

function lookAround(id) {
  const seen = JSON.parse(engine('exec', '--workdir', '/app', id, 'node', '-e', LOOK_AROUND));
  check(seen.user !== 0, 'it runs as root');
  check(seen.writable.length === 0, `it may write to ${seen.writable.join(', ')}`);
  check(seen.init === 'tini', `process 1 is ${seen.init}`);
}

async function tryImage(id, port) {
  const url = `http://127.0.0.1:${port}`;
  await waitUntilReady(url);
  await ask(url);
  lookAround(id);
  engine('stop', '--time', '45', id);
  const status = inspect(id, '.State.ExitCode');
  check(status === '0', `after SIGTERM it ends with ${status}`);
}

const models = makeModels();
const port = await freePort();
let id;
try {
  id = engine(
    ...['run', '--detach', ...CONFINED, ...options],
    ...[
      '--env',
      `PORT=${port}`,
      '--publish',
      `127.0.0.1:${port}:${port}`,
      '--volume',
      `${models}:/models:ro`,
    ],
    image,
  );
  await tryImage(id, port);
  const megabytes = Number(inspect(image, '.Size')) / 1e6;
  console.log(`${image} of ${megabytes.toFixed(0)} MB is ready, answers, is confined and ends on SIGTERM`);
} catch (error) {
  console.error(`${image}: ${error.message}`);
  if (id !== undefined) console.error(engine('logs', id));
  process.exitCode = 1;
} finally {
  if (id !== undefined) engine('rm', '--force', id);
  rmSync(models, { recursive: true });
}

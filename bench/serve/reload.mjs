/**
 * Loads a server that has a folder of three models, and replaces one model in the middle: by SIGHUP, then by polling.
 * Prints how many answers came from each version, how many requests failed, and how long answers took.
 *
 *   node bench/serve/reload.mjs [SECONDS] [CONNECTIONS]
 */
import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const MODEL = path.join(ROOT, 'examples/digits/digits.onnx');
const NAMES = ['one', 'two', 'three'];
const REPLACED = 'two';
/** Before this, models compile their shapes, and batches are tried. */
const WARM_UP_MS = 3000;

const [seconds = 30, connections = 12] = process.argv.slice(2).map(Number);
const BODY = JSON.stringify({
  inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 1, 8, 8], data: new Array(64).fill(0.5) }],
});

/** Has a version appear at once, as a deployment should. */
function put(folder, name, version) {
  const [made, place] = [path.join(folder, '.new'), path.join(folder, name, version)];
  mkdirSync(made);
  copyFileSync(MODEL, path.join(made, 'model.onnx'));
  mkdirSync(path.dirname(place), { recursive: true });
  renameSync(made, place);
}

async function startServer(folder, options) {
  const args = ['serve', folder, '--port', '0', '--device', 'cpu', ...options];
  const child = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), ...args]);
  let stdout = '';
  child.stdout.on('data', (text) => (stdout += text));
  child.stderr.pipe(process.stderr);
  while (!stdout.includes('Ctrl+C')) await setTimeout(20);
  return { child, url: new URL(stdout.split('\n')[0]).origin };
}

function infer(url, agent, name) {
  const { hostname, port } = new URL(url);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': BODY.length };
  const to = { hostname, port, agent, headers, method: 'POST', path: `/v2/models/${name}/infer` };
  return new Promise((resolve, reject) => {
    const call = request(to, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    call.on('error', reject).end(BODY);
  });
}

/** Counts by model and version or failure, and milliseconds. */
async function client(url, counts, times, isOver) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let turn = 0; !isOver(); turn++) {
    const name = NAMES[turn % NAMES.length];
    const begun = performance.now();
    const { status, text } = await infer(url, agent, name).catch(({ message }) => ({ status: message }));
    times.push(performance.now() - begun);
    const outcome = status === 200 ? `version ${JSON.parse(text).model_version}` : `failed: ${status}`;
    const key = `${name}, ${outcome}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  agent.destroy();
}

async function measure(how, options, replace) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-reload-'));
  for (const name of NAMES) put(folder, name, '1');
  const { child, url } = await startServer(folder, options);
  const [counts, times] = [new Map(), []];
  let isOver = false;
  const load = () =>
    Promise.all(Array.from({ length: connections }, () => client(url, counts, times, () => isOver)));
  const running = load();
  await setTimeout(WARM_UP_MS);
  counts.clear();
  times.length = 0;
  await setTimeout((1000 * seconds) / 2);
  put(folder, REPLACED, '2');
  replace(child);
  await setTimeout((1000 * seconds) / 2);
  isOver = true;
  await running;
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
  rmSync(folder, { recursive: true });
  report(how, counts, times);
}

function report(how, counts, times) {
  times.sort((one, other) => one - other);
  const at = (part) => times[Math.floor(part * times.length)].toFixed(2);
  const all = [...counts].sort();
  const failures = all.filter(([key]) => key.includes('failed')).reduce((sum, [, count]) => sum + count, 0);
  console.log(
    `${how}: ${times.length} answers in ${seconds} s, ${connections} connections, ${failures} failures`,
  );
  console.log(`  p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${times.at(-1).toFixed(2)} ms`);
  for (const [key, count] of all) console.log(`  ${key}: ${count}`);
  if (failures > 0) process.exitCode = 1;
}

await measure('SIGHUP', [], (child) => child.kill('SIGHUP'));
await measure('polling', ['--model-control', 'poll', '--poll-seconds', '1'], () => {});

/**
 * `warpconv/serve` under load, as it is by default and at `maxBatch: 1`, beside Fastify with onnxruntime-node on the same
 * model. Each is in a process of its own, and they take turns at each number of clients. Then ours alone: more clients than
 * its queue takes, and SIGTERM in the middle of a load. Ends with exit code 1 where an accepted request was lost, an answer
 * was none of 200, 503 and 504, or the server did not recover. Writes bench/results/<machine>-<date>-serve.json and .md where all
 * went well; the figures of another model, on another device or for another time are printed only.
 *
 *     npm --prefix bench/rivals ci
 *     npx ts-node bench/serve_load.ts [--model FILE.onnx] [--device cpu] [--seconds 10]
 *     npx ts-node bench/serve_load.ts --network resnet50 [--device cpu] [--seconds 30]
 *     npx ts-node bench/serve_load.ts [--model FILE.onnx] [--device cpu] --minutes 30
 *
 * `--network resnet50` serves a ResNet-50 with random weights and a free batch: <machine>-<date>-serve-resnet50.json and .md.
 * With `--minutes` there is one load of so long instead, with the memory on the way: <machine>-<date>-serve-long.json and .md.
 */
import { once, type EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { InferenceSession } from 'warpconv';

import { LoadedServer, ONE_BY_ONE, OURS, RIVAL, type Figures, type Served } from './loaded_server';
import { resNet50 } from './resnet50';
import { circumstances, nameOf, writeJson, writeText } from './results';
import {
  renderLongServeReport,
  renderServeReport,
  type Load,
  type LongServeResult,
  type ServeResult,
} from './serve_report';
import { readServeSettings, type ServeSettings } from './serve_settings';
import { quantile } from './statistics';

const CONNECTIONS = [1, 8, 32, 128];
/** The queue takes 256 and a run 32. */
const OVERLOAD = 512;
const LONG = 32;
const SAMPLES = 20;
const RIVALS = path.join(__dirname, 'rivals/node_modules');

interface Request {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The part of autocannon that is used here. */
type Autocannon = (
  options: Readonly<Record<string, unknown>>,
) => EventEmitter & PromiseLike<unknown> & { stop(): void };

/** Clients that each send a request as soon as the one before is answered, until they are stopped. */
class Clients {
  /** Milliseconds of each answer of status 200 */
  readonly latencies: number[] = [];
  readonly statuses: Record<string, number> = {};
  connectionErrors = 0;
  readonly #run: ReturnType<Autocannon>;
  readonly #started = performance.now();

  constructor({ url }: LoadedServer, request: Request, connections: number) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- a package of its own, which users never install
    const autocannon = require(path.join(RIVALS, 'autocannon')) as Autocannon;
    const { path: target, headers, body } = request;
    // Days, which end before a timer of Node.js overflows: the clients are stopped.
    const endless = { duration: 20 * 24 * 3600, timeout: 60 };
    this.#run = autocannon({ url: url + target, method: 'POST', headers, body, connections, ...endless });
    this.#run.on('response', (_client: unknown, status: number, _bytes: number, milliseconds: number) => {
      this.statuses[status] = (this.statuses[status] ?? 0) + 1;
      if (status === 200) this.latencies.push(milliseconds);
    });
    this.#run.on('reqError', () => this.connectionErrors++);
  }

  /** So far. */
  measured(): Omit<Load, keyof Figures | 'rssBefore'> {
    const seconds = (performance.now() - this.#started) / 1000;
    const { latencies, statuses, connectionErrors } = this;
    return {
      perSecond: latencies.length / seconds,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      statuses: { ...statuses },
      connectionErrors,
    };
  }

  async stop(): Promise<void> {
    this.#run.stop();
    await this.#run;
  }
}

const CLOSING_MS = 100;

/** Waits behind whatever earlier clients left to do, of any server, once they have been seen to go. */
async function untilIdle(servers: readonly LoadedServer[], requests: Requests): Promise<void> {
  await setTimeout(CLOSING_MS);
  for (const server of servers) await answerOf(server, requests[server.who]!);
}

async function loadFor(
  server: LoadedServer,
  request: Request,
  connections: number,
  seconds: number,
): Promise<Load> {
  const { rss: rssBefore } = await server.figures();
  const clients = new Clients(server, request, connections);
  try {
    await setTimeout(1000 * seconds);
    const figures = await server.figures();
    return { ...clients.measured(), ...figures, rssBefore };
  } finally {
    await clients.stop();
  }
}

/** By the server that takes it */
type Requests = Readonly<Record<string, Request>>;

/** What the servers take for the same image of random elements. */
async function requestsFor({ model, device }: Served): Promise<Requests> {
  const session = await InferenceSession.create(model, { device: device as 'cpu' });
  const [input, another] = session.inputMetadata;
  const [output] = session.outputNames;
  await session.release();
  if (another !== undefined || input!.type !== 'float32') {
    throw new Error(`${model} has other inputs than one of float32`);
  }
  const shape = input!.shape.map((extent) => (typeof extent === 'number' ? extent : 1));
  const size = shape.reduce((product, extent) => product * extent, 1);
  const elements = Buffer.from(Float32Array.from({ length: size }, () => Math.random()).buffer);
  const head = Buffer.from(
    JSON.stringify({
      inputs: [
        { name: input!.name, datatype: 'FP32', shape, parameters: { binary_data_size: elements.length } },
      ],
      outputs: [{ name: output, parameters: { binary_data: true } }],
    }),
  );
  const headers = { 'Content-Type': 'application/octet-stream' };
  const ours = {
    path: '/v2/models/model/infer',
    headers: { ...headers, 'Inference-Header-Content-Length': String(head.length) },
    body: Buffer.concat([head, elements]),
  };
  return { [OURS]: ours, [ONE_BY_ONE]: ours, [RIVAL]: { path: '/infer', headers, body: elements } };
}

async function answerOf(
  { url }: LoadedServer,
  { path: target, headers, body }: Request,
): Promise<Float32Array> {
  const response = await fetch(url + target, { method: 'POST', headers, body: new Uint8Array(body) });
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  const skipped = Number(response.headers.get('Inference-Header-Content-Length') ?? 0);
  return new Float32Array((await response.arrayBuffer()).slice(skipped));
}

/** What rounding may do over a hundred layers, of the largest output. */
const TOLERANCE = 1e-4;

function requireEqual(ours: Float32Array, theirs: Float32Array): void {
  const largest = theirs.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const worst = theirs.reduce((most, value, index) => Math.max(most, Math.abs(value - ours[index]!)), 0);
  if (worst <= TOLERANCE * largest) return;
  throw new Error(`the servers' answers differ by ${worst}, where the largest element is ${largest}`);
}

/**
 * Every number of connections is there once before any is measured, so that batches of most sizes are compiled. The servers
 * take turns, because a machine that others use is not the same for long.
 */
async function measureLoads(
  servers: readonly LoadedServer[],
  requests: Requests,
  seconds: number,
): Promise<ServeResult['servers']> {
  const load = async (server: LoadedServer, connections: number, time: number) => {
    await untilIdle(servers, requests);
    return loadFor(server, requests[server.who]!, connections, time);
  };
  for (const connections of CONNECTIONS) {
    for (const server of servers) await load(server, connections, seconds / 4);
  }
  const measured = servers.map((server) => ({ server, loads: [] as (Load & { connections: number })[] }));
  for (const connections of CONNECTIONS) {
    progress(`${connections} connections`);
    for (const { server, loads } of measured) {
      loads.push({ connections, ...(await load(server, connections, seconds)) });
    }
  }
  return measured.map(({ server: { who }, loads }) => ({ who, loads }));
}

function progress(text: string): void {
  process.stderr.write(`serve: ${text}\n`);
}

async function measureLong(
  server: LoadedServer,
  request: Request,
  minutes: number,
): Promise<Pick<LongServeResult, 'connections' | 'samples' | 'load'>> {
  const clients = new Clients(server, request, LONG);
  try {
    const samples = [];
    for (let sample = 1; sample <= SAMPLES; sample++) {
      await setTimeout((60_000 * minutes) / SAMPLES);
      samples.push({ minutes: (minutes * sample) / SAMPLES, ...(await server.figures()) });
    }
    return { connections: LONG, samples, load: clients.measured() };
  } finally {
    await clients.stop();
  }
}

/** Full, and then as if nothing had been. */
async function measureOverload(
  server: LoadedServer,
  request: Request,
  seconds: number,
): Promise<ServeResult['overload']> {
  const before = await loadFor(server, request, 1, seconds / 4);
  const full = await loadFor(server, request, OVERLOAD, seconds);
  await untilIdle([server], { [server.who]: request });
  const after = await loadFor(server, request, 1, seconds / 4);
  return { connections: OVERLOAD, before, full, after };
}

/** The server's count of answers against the clients'. */
async function measureTermination(
  server: LoadedServer,
  request: Request,
  seconds: number,
): Promise<ServeResult['termination']> {
  const clients = new Clients(server, request, LONG);
  try {
    await setTimeout(250 * seconds);
    const ended = once(server.process, 'exit');
    const started = performance.now();
    server.process.kill('SIGTERM');
    const { answered } = await server.message<{ answered: number }>();
    const [exitCode] = (await ended) as [number];
    const milliseconds = performance.now() - started;
    // What was sent last may still be on its way through this process.
    await setTimeout(CLOSING_MS);
    const { statuses } = clients.measured();
    return { connections: LONG, milliseconds, exitCode, answered, received: statuses[200] ?? 0, statuses };
  } finally {
    await clients.stop();
  }
}

function failures({ servers, overload, termination }: ServeResult): string[] {
  const loads = servers.filter(({ who }) => who !== RIVAL).flatMap((server) => server.loads);
  const ours = [...loads, overload.before, overload.after];
  const others = (statuses: Load['statuses'], allowed: readonly string[]) =>
    Object.keys(statuses).filter((status) => !allowed.includes(status));
  const checks: [boolean, string][] = [
    [
      ours.some(({ statuses, connectionErrors }) => connectionErrors + others(statuses, ['200']).length > 0),
      'not every request was answered by 200, with room in the queue',
    ],
    [
      // Of a large model, more may wait than are answered in time.
      others(overload.full.statuses, ['200', '503', '504']).length > 0,
      'an overloaded server answered by none of 200, 503 and 504',
    ],
    [overload.full.statuses[503] === undefined, 'the queue was never full'],
    [termination.answered !== termination.received, 'accepted requests were lost at SIGTERM'],
    [termination.exitCode !== 0, `SIGTERM ended the server with exit code ${termination.exitCode}`],
  ];
  return checks.filter(([failed]) => failed).map(([, what]) => what);
}

function longFailures({ load: { statuses, connectionErrors } }: LongServeResult): string[] {
  if (connectionErrors === 0 && Object.keys(statuses).join() === '200') return [];
  return ['not every request was answered by 200, with room in the queue'];
}

/** A page of what was measured, which is stored where nothing failed and it is what the name stands for. */
function finish(
  result: ServeResult | LongServeResult,
  page: string,
  failed: readonly string[],
  { suffix }: ServeSettings,
): void {
  console.log(page);
  for (const failure of failed) console.error(`FAILED: ${failure}`);
  if (failed.length > 0) process.exitCode = 1;
  else if (suffix === undefined)
    progress('not stored; the usual model or network on the CPU for the usual time is');
  else {
    const name = `${nameOf(result)}-${suffix}`;
    writeJson(name, result);
    writeText(`${name}.md`, page);
  }
}

async function mainForMinutes(settings: ServeSettings, minutes: number): Promise<void> {
  const { model, device, quick } = settings;
  const about = circumstances(quick);
  const request = (await requestsFor(settings))[OURS]!;
  const measured = await LoadedServer.use(OURS, settings, (server) => measureLong(server, request, minutes));
  const result: LongServeResult = { ...about, model: path.basename(model), device, ...measured };
  finish(result, renderLongServeReport(result), longFailures(result), settings);
}

async function main(settings: ServeSettings): Promise<void> {
  const { model, network, device, seconds, quick } = settings;
  const about = circumstances(quick);
  const requests = await requestsFor(settings);
  const ours = requests[OURS]!;
  const { servers, overload } = await LoadedServer.useAll(
    [OURS, ONE_BY_ONE, RIVAL],
    settings,
    async (loaded) => {
      const answers = [];
      for (const server of loaded) answers.push(await answerOf(server, requests[server.who]!));
      for (const answer of answers) requireEqual(answer, answers.at(-1)!);
      const measured = await measureLoads(loaded, requests, seconds);
      progress('overload');
      await untilIdle(loaded, requests);
      return { servers: measured, overload: await measureOverload(loaded[0]!, ours, seconds) };
    },
  );
  progress('SIGTERM');
  const termination = await LoadedServer.use(OURS, settings, (server) =>
    measureTermination(server, ours, seconds),
  );
  const what = { model: path.basename(model), network, device, seconds };
  const result: ServeResult = { ...about, ...what, servers, overload, termination };
  finish(result, renderServeReport(result), failures(result), settings);
}

/** With the network that was asked for in a file, where one was. */
async function withModel(settings: ServeSettings, task: typeof main): Promise<void> {
  if (settings.network === undefined) return task(settings);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-serve-'));
  const model = path.join(folder, `${settings.network}.onnx`);
  try {
    writeFileSync(model, resNet50());
    await task({ ...settings, model });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function run(): Promise<void> {
  const settings = readServeSettings(process.argv.slice(2));
  if (!existsSync(RIVALS)) {
    throw new Error('the rivals are missing; install them by npm --prefix bench/rivals ci');
  }
  const { minutes } = settings;
  await withModel(settings, (served) =>
    minutes === undefined ? main(served) : mainForMinutes(served, minutes),
  );
}

void run().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

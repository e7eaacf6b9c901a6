/**
 * `warpconv/serve` under load, as it is by default and at `maxBatch: 1`, beside Fastify with onnxruntime-node on the same
 * model. Each is in a process of its own, and they take turns at each number of clients. Then ours alone: more clients than
 * its queue takes, and SIGTERM in the middle of a load. Ends with exit code 1 where an accepted request was lost, an answer
 * was wrong or none of 200, 503 and 504, or the server did not recover. Writes bench/results/<machine>-<date>-serve.json and
 * .md where all went well; the figures of another model, for another time or by other options are printed only. On GPUs (`--device
 * cuda:0`, or `cuda` for all) ours is loaded alone, with a network; there is a file for each kind of requests.
 *
 *     npm --prefix bench/rivals ci
 *     npx ts-node bench/serve/main.ts [--model FILE.onnx] [--device cpu] [--seconds 10]
 *     npx ts-node bench/serve/main.ts --network resnet50 [--device cpu] [--seconds 30]
 *     npx ts-node bench/serve/main.ts [--model FILE.onnx] [--device cpu] --minutes 30
 *
 * `--network resnet50` serves a ResNet-50 with random weights and a free batch: <machine>-<date>-serve-resnet50.json and .md.
 * With `--minutes` there is one load of so long instead, with the memory on the way: <machine>-<date>-serve-long.json and .md.
 *
 *     --connections 1,8,32,128          of each load; 32 with --minutes
 *     --servers ours,one-by-one,rival   those to load; ours with --minutes. Only the rival needs bench/rivals
 *     --requests float32                or uint8 or jpeg: the kind of the requests, of those in load/request_kinds.ts
 *     --threads N                       of our servers; the rival is as it is by default
 *     --clients K                       processes of clients; by default a quarter of the processors, and at most 4
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { devices } from 'warpconv';

import { GpuBusy } from './load/gpu_busy';
import { LoadedServer, OURS, RIVAL } from './loaded_server';
import { resNet50 } from '../networks/resnet50';
import { circumstances, gpuFileName, nameOf, writeJson, writeText } from '../results';
import { RIVALS } from '../rivals';
import { failures, longFailures } from './failures';
import {
  measureLoads,
  measureLong,
  measureOverload,
  measureTermination,
  progress,
  untilIdle,
  type Tools,
} from './measure';
import { renderLongServeReport, renderServeReport, type LongServeResult, type ServeResult } from './report';
import { requestsFor, requireRight, type Requests } from './requests';
import { readServeSettings, type ServeSettings } from './settings';

const RUNTIME = path.join(RIVALS, 'node_modules/onnxruntime-node');

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
  else if (suffix === undefined) progress('not stored; the usual model or network by the usual options is');
  else {
    const { gpus = [], date } = result;
    const machine = gpus[0] === undefined ? nameOf(result) : gpuFileName(gpus[0], date, false);
    const name = `${machine}-${suffix}`;
    writeJson(name, result);
    writeText(`${name}.md`, page);
  }
}

function loadingOf({ model, network, device, requests, quick }: ServeSettings) {
  const command = ['npx ts-node bench/serve/main.ts', ...process.argv.slice(2)].join(' ');
  const gpus = gpusOf(device);
  return { ...circumstances(quick), model: path.basename(model), network, device, gpus, requests, command };
}

/** Those that a server on the device uses: without a number, all. */
function gpusOf(device: string): string[] {
  const gpus = devices().filter(({ type, available }) => type === 'cuda' && available);
  return gpus
    .filter((gpu) => device === 'cuda' || device === gpu.device)
    .map(({ name }) => name ?? 'unknown GPU');
}

async function mainForMinutes(settings: ServeSettings, minutes: number, tools: Tools): Promise<void> {
  const loading = loadingOf(settings);
  const [who, connections] = [settings.servers[0]!, settings.connections[0]!];
  const requests = (await requestsFor(settings, settings.requests))[who]!;
  const measured = await LoadedServer.use(who, settings, async (server) => {
    await requireRight(server, requests);
    return measureLong(server, requests, { connections, minutes }, tools);
  });
  const result: LongServeResult = { ...loading, who, ...measured };
  finish(result, renderLongServeReport(result), longFailures(result), settings);
}

/** The loads of all servers, and more of ours than its queue takes. */
async function measureServers(
  settings: ServeSettings,
  requests: Requests,
  tools: Tools,
): Promise<Pick<ServeResult, 'servers' | 'overload'>> {
  return LoadedServer.useAll(settings.servers, settings, async (loaded) => {
    for (const server of loaded) await requireRight(server, requests[server.who]!);
    const servers = await measureLoads(loaded, requests, settings, tools);
    const ours = loaded.find(({ who }) => who === OURS);
    if (ours === undefined) return { servers };
    progress('overload');
    await untilIdle(loaded, requests);
    return { servers, overload: await measureOverload(ours, requests[OURS]!, settings.seconds, tools) };
  });
}

async function main(settings: ServeSettings, tools: Tools): Promise<void> {
  const { seconds, servers } = settings;
  const loading = loadingOf(settings);
  const requests = await requestsFor(settings, settings.requests);
  let result: ServeResult = { ...loading, seconds, ...(await measureServers(settings, requests, tools)) };
  if (servers.includes(OURS)) {
    progress('SIGTERM');
    const termination = await LoadedServer.use(OURS, settings, (server) =>
      measureTermination(server, requests[OURS]!, seconds, tools),
    );
    result = { ...result, termination };
  }
  finish(result, renderServeReport(result), failures(result), settings);
}

/** With the network that was asked for in a file, where one was. */
async function withModel(
  settings: ServeSettings,
  task: (settings: ServeSettings) => Promise<void>,
): Promise<void> {
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
  const { minutes, device, clients } = settings;
  if (settings.servers.includes(RIVAL) && !existsSync(RUNTIME)) {
    throw new Error('the rivals are missing; install them by npm --prefix bench/rivals ci');
  }
  const gpu = device === 'cpu' ? undefined : new GpuBusy();
  try {
    await withModel(settings, (served) =>
      minutes === undefined
        ? main(served, { clients, gpu })
        : mainForMinutes(served, minutes, { clients, gpu }),
    );
  } finally {
    gpu?.stop();
  }
}

void run().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

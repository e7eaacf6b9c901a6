/** The loads of main.ts. */
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';

import { Clients, type LoadRequest, type Measured } from './load/clients';
import type { GpuBusy } from './load/gpu_busy';
import type { LoadedServer } from './loaded_server';
import type { Load, LongServeResult, Overload, ServeResult, Termination } from './report';
import { requireRight, type Requests } from './requests';
import { sum } from '../statistics';

/** The queue takes 256 and a run 32. */
const OVERLOAD = 512;
/** At SIGTERM */
const TERMINATED = 32;
const SAMPLES = 20;
const CLOSING_MS = 100;

/** What all loads of a run have in common. */
export interface Tools {
  /** Processes of clients */
  readonly clients: number | undefined;
  /** Where there is a GPU */
  readonly gpu: GpuBusy | undefined;
}

export function progress(text: string): void {
  process.stderr.write(`serve: ${text}\n`);
}

/** Clients that are ready, for a task at whose end they are stopped. */
async function withClients<T>(
  { url }: LoadedServer,
  requests: readonly LoadRequest[],
  connections: number,
  { clients: processes }: Tools,
  task: (clients: Clients) => Promise<T>,
): Promise<T> {
  const clients = await Clients.start(url, requests, { connections, processes });
  try {
    return await task(clients);
  } finally {
    await clients.stop();
  }
}

/** Waits behind whatever earlier clients left to do, of any server, once they have been seen to go. */
export async function untilIdle(servers: readonly LoadedServer[], requests: Requests): Promise<void> {
  await setTimeout(CLOSING_MS);
  for (const server of servers) await requireRight(server, requests[server.who]!.slice(0, 1));
}

function cpuPerAnswer(milliseconds: number, { statuses }: Measured): number {
  return milliseconds / sum(Object.values(statuses));
}

function loadFor(
  server: LoadedServer,
  requests: readonly LoadRequest[],
  connections: number,
  seconds: number,
  tools: Tools,
): Promise<Load> {
  return withClients(server, requests, connections, tools, async (clients) => {
    const { rss: rssBefore } = await server.figures();
    tools.gpu?.mean();
    await clients.begin();
    await setTimeout(1000 * seconds);
    const [{ delayP99, rss, cpu }, measured] = await Promise.all([server.figures(), clients.measured()]);
    const gpuBusy = tools.gpu?.mean();
    return { ...measured, cpuPerAnswer: cpuPerAnswer(cpu, measured), gpuBusy, delayP99, rssBefore, rss };
  });
}

/**
 * Every number of connections is there once before any is measured, so that batches of most sizes are compiled. The servers
 * take turns, because a machine that others use is not the same for long.
 */
export async function measureLoads(
  servers: readonly LoadedServer[],
  requests: Requests,
  { connections: numbers, seconds }: { readonly connections: readonly number[]; readonly seconds: number },
  tools: Tools,
): Promise<ServeResult['servers']> {
  const load = async (server: LoadedServer, connections: number, time: number) => {
    await untilIdle(servers, requests);
    return loadFor(server, requests[server.who]!, connections, time, tools);
  };
  for (const connections of numbers) {
    for (const server of servers) await load(server, connections, seconds / 4);
  }
  const measured = servers.map((server) => ({ server, loads: [] as (Load & { connections: number })[] }));
  for (const connections of numbers) {
    progress(`${connections} connections`);
    for (const { server, loads } of measured) {
      loads.push({ connections, ...(await load(server, connections, seconds)) });
    }
  }
  return measured.map(({ server: { who }, loads }) => ({ who, loads }));
}

export async function measureLong(
  server: LoadedServer,
  requests: readonly LoadRequest[],
  { connections, minutes }: { readonly connections: number; readonly minutes: number },
  tools: Tools,
): Promise<Pick<LongServeResult, 'connections' | 'samples' | 'load'>> {
  return withClients(server, requests, connections, tools, async (clients) => {
    await server.figures();
    tools.gpu?.mean();
    await clients.begin();
    const samples = [];
    let cpu = 0;
    for (let sample = 1; sample <= SAMPLES; sample++) {
      await setTimeout((60_000 * minutes) / SAMPLES);
      const { delayP99, rss, ...used } = await server.figures();
      samples.push({ minutes: (minutes * sample) / SAMPLES, delayP99, rss });
      cpu += used.cpu;
    }
    const measured = await clients.measured();
    const gpuBusy = tools.gpu?.mean();
    return {
      connections,
      samples,
      load: { ...measured, cpuPerAnswer: cpuPerAnswer(cpu, measured), gpuBusy },
    };
  });
}

/** Full, and then as if nothing had been. */
export async function measureOverload(
  server: LoadedServer,
  requests: readonly LoadRequest[],
  seconds: number,
  tools: Tools,
): Promise<Overload> {
  const before = await loadFor(server, requests, 1, seconds / 4, tools);
  const full = await loadFor(server, requests, OVERLOAD, seconds, tools);
  await untilIdle([server], { [server.who]: requests });
  const after = await loadFor(server, requests, 1, seconds / 4, tools);
  return { connections: OVERLOAD, before, full, after };
}

/** The server's count of answers against the clients'. */
export function measureTermination(
  server: LoadedServer,
  requests: readonly LoadRequest[],
  seconds: number,
  tools: Tools,
): Promise<Termination> {
  return withClients(server, requests, TERMINATED, tools, async (clients) => {
    await clients.begin();
    await setTimeout(250 * seconds);
    const ended = once(server.process, 'exit');
    const started = performance.now();
    server.process.kill('SIGTERM');
    const { answered } = await server.message<{ answered: number }>();
    const [exitCode] = (await ended) as [number];
    const milliseconds = performance.now() - started;
    // What was sent last may still be on its way to the clients.
    await setTimeout(CLOSING_MS);
    const { statuses } = await clients.measured();
    const received = statuses[200] ?? 0;
    return { connections: TERMINATED, milliseconds, exitCode, answered, received, statuses };
  });
}

/**
 * A server that main.ts loads: ours, as it is by default or joining nothing, or the least that Fastify and
 * onnxruntime-node need for the same. Its arguments are which of them, the model, the device and options of ours. It
 * tells its parent the address, and figures of itself when asked; ours ends at SIGTERM, and says how many requests it
 * answered by then. Plain JavaScript, because the TypeScript compiler's heap would count as the server's, and hold up its
 * event loop.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { monitorEventLoopDelay } from 'node:perf_hooks';

import Fastify from 'fastify';
import { InferenceSession } from 'warpconv';
import { serve } from 'warpconv/serve';

const [who, file, device, ours] = process.argv.slice(2);

async function serveOurs(options) {
  const { threads, image } = JSON.parse(ours);
  // Without a number, on all GPUs.
  const served = device === 'cuda' ? { file } : { session: await InferenceSession.create(file, { device }) };
  const models = { model: { ...served, image, ...options } };
  const { url, server, handler } = await serve({ models, port: 0, closeOn: ['SIGTERM'], threads });
  server.once('close', () => {
    const answered = Number(
      /requests_total\{model="model",status="200"\} (\d+)/.exec(handler.metrics())?.[1],
    );
    process.send({ answered }, () => process.disconnect());
  });
  return url;
}

/** The body of a request is the elements of the one input, that of an answer those of the first output. */
async function serveRival() {
  const runtime = createRequire(import.meta.url)('../rivals/node_modules/onnxruntime-node');
  const session = await runtime.InferenceSession.create(file, { executionProviders: [device] });
  const [{ name, shape }] = session.inputMetadata;
  const dims = shape.map((extent) => (typeof extent === 'number' ? extent : 1));
  const [output] = session.outputNames;
  const app = Fastify({ bodyLimit: 2 ** 25 });
  const parser = (_request, body, done) => done(null, body);
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, parser);
  app.post('/infer', async ({ body }, reply) => {
    const elements = new Float32Array(body.buffer.slice(body.byteOffset, body.byteOffset + body.length));
    const results = await session.run({ [name]: new runtime.Tensor('float32', elements, dims) }, [output]);
    const { buffer, byteOffset, byteLength } = results[output].data;
    return reply.type('application/octet-stream').send(Buffer.from(buffer, byteOffset, byteLength));
  });
  return app.listen({ port: 0 });
}

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
let cpuBefore = cpuNow();
process.on('message', async () => {
  const cpu = cpuNow() - cpuBefore;
  const rss = process.memoryUsage.rss() + sum(children().map((child) => child.rss));
  const delayP99 = Math.max(delay.percentile(99) / 1e6, await latestDelay());
  process.send({ delayP99, cpu, rss });
  delay.reset();
  cpuBefore = cpuNow();
});

/** Processor time in milliseconds, with that of the processes that it has started. */
function cpuNow() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000 + sum(children().map((child) => child.cpu));
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

/** The processes that decode images, by proc(5): processor time in milliseconds, and memory in bytes. Other systems tell of none. */
function children() {
  const [tick, page] = [10, 4096];
  return pids().flatMap((pid) => {
    const stat = statOf(pid);
    // What is behind the name, which may be anything in brackets: 3 fields less than the manual counts.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (Number(fields[1]) !== process.pid) return [];
    return [{ cpu: tick * (Number(fields[11]) + Number(fields[12])), rss: page * Number(fields[21]) }];
  });
}

function pids() {
  return existsSync('/proc') ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : [];
}

function statOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    // It has ended.
    return '';
  }
}

/** Of the event loops of all our threads, in milliseconds. */
async function latestDelay() {
  if (who === 'rival') return 0;
  const page = await (await fetch(`${url}/metrics`)).text();
  return 1000 * Number(/^warpconv_event_loop_delay_p99_seconds (\S+)/m.exec(page)?.[1]);
}

const roles = {
  ours: () => serveOurs({}),
  'one-by-one': () => serveOurs({ maxBatch: 1 }),
  rival: serveRival,
};
const url = await roles[who]();
process.send({ url });

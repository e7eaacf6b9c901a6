/**
 * A server that serve_load.ts loads: ours, as it is by default or joining nothing, or the least that Fastify and
 * onnxruntime-node need for the same. Its arguments are which of them, the model, the device and options of ours. It
 * tells its parent the address, and figures of itself when asked; ours ends at SIGTERM, and says how many requests it
 * answered by then. Plain JavaScript, because the TypeScript compiler's heap would count as the server's, and hold up its
 * event loop.
 */
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
  const runtime = createRequire(import.meta.url)('./rivals/node_modules/onnxruntime-node');
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
let cpuBefore = process.cpuUsage();
process.on('message', async () => {
  const { user, system } = process.cpuUsage(cpuBefore);
  const rss = process.memoryUsage.rss();
  const delayP99 = Math.max(delay.percentile(99) / 1e6, await latestDelay());
  process.send({ delayP99, cpu: (user + system) / 1000, rss });
  delay.reset();
  cpuBefore = process.cpuUsage();
});

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

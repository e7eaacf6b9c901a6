/**
 * A server that serve_load.ts loads: ours, as it is by default or joining nothing, or the least that Fastify and
 * onnxruntime-node need for the same. Its arguments are which of them, the model, the device and, of ours, the threads. It
 * tells its parent the address, and figures of itself when asked; ours ends at SIGTERM, and says how many requests it
 * answered by then. Plain JavaScript, because the TypeScript compiler's heap would count as the server's, and hold up its
 * event loop.
 */
import { createRequire } from 'node:module';
import { monitorEventLoopDelay } from 'node:perf_hooks';

import Fastify from 'fastify';
import { InferenceSession } from 'warpconv';
import { serve } from 'warpconv/serve';

const [who, file, device, threads] = process.argv.slice(2);

async function serveOurs(options) {
  const session = await InferenceSession.create(file, { device });
  const models = { model: { session, ...options } };
  const given = threads === undefined ? {} : { threads: Number(threads) };
  const { url, server, handler } = await serve({ models, port: 0, closeOn: ['SIGTERM'], ...given });
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
process.on('message', () => {
  const { user, system } = process.cpuUsage(cpuBefore);
  const rss = process.memoryUsage.rss();
  process.send({ delayP99: delay.percentile(99) / 1e6, cpu: (user + system) / 1000, rss });
  delay.reset();
  cpuBefore = process.cpuUsage();
});
const roles = {
  ours: () => serveOurs({}),
  'one-by-one': () => serveOurs({ maxBatch: 1 }),
  rival: serveRival,
};
process.send({ url: await roles[who]() });

// Serves an ONNX file from several processes by node:cluster, until SIGTERM; docs/serving.md has the protocol.
//
//     node examples/cluster.mjs model.onnx
//
// PORT (8080), HOST (127.0.0.1) and WORKERS (2). One process is enough for the event loop, since runs are off it; several
// survive a crash, and a worker that gets SIGTERM is replaced without a request that fails. Each has weights of its own.
import cluster from 'node:cluster';
import { access } from 'node:fs/promises';
import { createServer } from 'node:http';
import { availableParallelism } from 'node:os';
import path from 'node:path';

import { InferenceSession, setThreads } from 'warpconv';
import { createHandler } from 'warpconv/serve';

import { stop } from './shared/service.mjs';

/** From SIGTERM until nobody can connect: balancers look elsewhere, and clients hear that connections close. */
const LINGER_MS = 1000;

const { PORT = '8080', HOST = '127.0.0.1', WORKERS = '2' } = process.env;

async function lead(file) {
  if (file === undefined) throw new Error('name an ONNX file: node examples/cluster.mjs model.onnx');
  await access(file);
  const ready = new Set();
  let isEnding = false;
  const end = () => {
    isEnding = true;
    for (const worker of Object.values(cluster.workers)) worker.kill('SIGTERM');
  };
  cluster.on('listening', ({ id, process: { pid } }, { address, port }) => {
    ready.add(id);
    console.log(`worker ${pid} serves http://${address}:${port}/v2/models/${path.parse(file).name}`);
  });
  cluster.on('exit', ({ id, process: { pid } }, code, signal) => {
    if (isEnding) return;
    // One that has never served would not the next time: a model that is missing, a port that is taken.
    if (!ready.has(id)) {
      process.exitCode = 1;
      return end();
    }
    console.log(`worker ${pid} ended by ${signal ?? code}; another begins`);
    cluster.fork();
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, end);
  for (let worker = 0; worker < Number(WORKERS); worker++) cluster.fork();
}

async function work(file) {
  // The workers share the processors.
  setThreads(Math.max(1, Math.floor(availableParallelism() / Number(WORKERS))));
  const session = await InferenceSession.create(file);
  const handler = createHandler({ models: { [path.parse(file).name]: session } });
  let isDraining = false;
  const running = new Set();
  const closeAfter = (response) => response.headersSent || response.setHeader('Connection', 'close');
  const server = createServer((request, response) => {
    running.add(response);
    response.once('close', () => running.delete(response));
    if (isDraining) closeAfter(response);
    if (isDraining && request.url.endsWith('/ready')) return response.writeHead(503).end();
    handler(request, response);
  });
  server.listen(Number(PORT), HOST).once('error', stop);

  // Also sent to all processes of a group at once, and then again by the one that leads.
  process.on('SIGTERM', () => {
    if (isDraining) return;
    isDraining = true;
    running.forEach(closeAfter);
    setTimeout(() => server.close(close), LINGER_MS);
  });
  process.on('SIGINT', () => {});
  // Every request that was accepted has been answered.
  async function close() {
    handler.close();
    await session.release();
    process.disconnect();
  }
}

await (cluster.isPrimary ? lead : work)(process.argv[2]).catch(stop);

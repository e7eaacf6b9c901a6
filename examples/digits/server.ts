/**
 * Reads digits that are drawn in a browser: the page, and behind it the network by the Open Inference Protocol.
 *
 *     npm start
 *
 * Listens at PORT (default 8080), or at the next port that is free, and at HOST (default 127.0.0.1; 0.0.0.0 lets other
 * machines in, a phone for example). SIGINT and SIGTERM end it, once every request that was accepted has been answered.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';

import type { Tensor } from 'warpconv';
import { createHandler } from 'warpconv/serve';

import { describeDevice, loadDigits, loadNetwork, someImages } from './network';

/** How many ports are tried. */
const PORTS = 20;
/** What is still connected after the last answer gets so long to hang up. */
const LINGER_MS = 500;

interface Resource {
  readonly type: string;
  readonly body: string;
}

const json = (value: object): Resource => ({ type: 'application/json', body: JSON.stringify(value) });

/** The body of a request that classifies an image. */
function requestFor(image: Tensor<'float32'>): object {
  return { inputs: [{ name: 'image', datatype: 'FP32', shape: image.dims, data: [...image.data] }] };
}

function send(response: ServerResponse, { type, body }: Resource): void {
  response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(body);
}

/** At the first free port from `port` on. */
async function listen(server: Server, port: number, host: string): Promise<string> {
  for (let tried = port; ; tried++) {
    try {
      await once(server.listen(tried, host), 'listening');
      const { address, family, port: found } = server.address() as AddressInfo;
      return `http://${family === 'IPv6' ? `[${address}]` : address}:${found}`;
    } catch (error) {
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isTaken || tried + 1 === port + PORTS) throw error;
    }
  }
}

async function main(): Promise<void> {
  const { PORT = '8080', HOST = '127.0.0.1' } = process.env;
  const network = await loadNetwork();
  const image = someImages(loadDigits(), 0, 1);
  // The first run compiles: nobody waits for that.
  await network.run({ image });
  const handler = createHandler({ models: { digits: network } });
  const device = describeDevice(network);
  const resources = new Map<string | undefined, Resource>([
    [
      '/',
      { type: 'text/html; charset=utf-8', body: readFileSync(path.join(__dirname, 'page.html'), 'utf8') },
    ],
    ['/device', json({ device })],
    ['/example', json(requestFor(image))],
  ]);
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const resource = request.method === 'GET' ? resources.get(request.url) : undefined;
    if (resource === undefined) handler(request, response);
    else send(response, resource);
  });
  const url = await listen(server, Number(PORT), HOST);

  const close = async () => {
    await handler.drain();
    server.close();
    setTimeout(() => server.closeAllConnections(), LINGER_MS).unref();
    handler.close();
    await network.release();
  };
  // Once: a second signal ends the process at once.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void close());

  console.log(`Draw digits at ${url}, computed on ${device}; Ctrl+C ends it. By curl:`);
  console.log(
    `curl -s ${url}/example | curl -s ${url}/v2/models/digits/infer -H 'Content-Type: application/json' -d @-`,
  );
}

void main();

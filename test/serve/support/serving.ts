import { setTimeout } from 'node:timers/promises';

import type * as Serve from '../../../lib/serve';
import { serve, type RunningServer, type ServeOptions } from '../../../lib/serve';

const running: RunningServer[] = [];

/** How many threads read the requests of servers that {@link open} starts; see threaded.test.ts. */
export const THREADS: number = 1;

/** A server at a free port, closed by {@link closeAll}. */
export function open(options: ServeOptions): Promise<RunningServer> {
  return openBy(serve, options);
}

/**
 * A server of which several threads read the requests: two, unless the options say another number, since each takes a fifth of
 * a second of a processor to start. They run the built package: Node.js loads no TypeScript for them.
 */
export function openThreaded(options: ServeOptions): Promise<RunningServer> {
  const built = jest.requireActual<typeof Serve>('../../../dist/serve');
  return openBy(built.serve, { threads: 2, ...options });
}

/**
 * A server for all tests of a file or of a describe block, whose sessions keep nothing of what they are asked.
 *
 * @param start - {@link open}, as the test imports it
 */
export function openOnce(start: typeof open, options: ServeOptions): { readonly url: string } {
  let server: RunningServer;
  beforeAll(async () => {
    server = await start(options);
    running.splice(running.indexOf(server), 1);
  });
  afterAll(() => end(server));
  return {
    get url() {
      return server.url;
    },
  };
}

/** A server that is started in another way, closed by {@link closeAll}. */
export async function openBy(start: typeof serve, options: ServeOptions): Promise<RunningServer> {
  const server = await start({ port: 0, ...options });
  running.push(server);
  return server;
}

export async function closeAll(): Promise<void> {
  for (const one of running.splice(0)) await end(one);
}

async function end({ server, close }: RunningServer): Promise<void> {
  const closed = close();
  server.closeAllConnections();
  await closed;
}

/** Waits for what must happen in the end; the test's own time limit ends it where it does not. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await setTimeout(2);
}

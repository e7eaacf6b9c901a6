import { setTimeout } from 'node:timers/promises';

import { serve, type RunningServer, type ServeOptions } from '../../../lib/serve';

const running: RunningServer[] = [];

/** A server at a free port, closed by {@link closeAll}. */
export async function open(options: ServeOptions): Promise<RunningServer> {
  const server = await serve({ port: 0, ...options });
  running.push(server);
  return server;
}

export async function closeAll(): Promise<void> {
  for (const { server, close } of running.splice(0)) {
    const closed = close();
    server.closeAllConnections();
    await closed;
  }
}

/** Waits for what must happen in the end; the test's own time limit ends it where it does not. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await setTimeout(2);
}

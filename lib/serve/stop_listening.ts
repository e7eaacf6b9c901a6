import { Server } from 'node:net';
import { promisify } from 'node:util';

import { nextTurn, wait } from './timers';

/** No connection came for so long: nobody is about to make one. */
const QUIET_MS = 100;
/** After which nobody waits for that any longer. */
const MOST_ROUNDS = 10;

/** A server's connections, wherever they are served. */
export interface Connected {
  count(): number | Promise<number>;
  /** Keeps requests from those who answer them, until the function that it returns is called. */
  hold(): Promise<() => void>;
}

/** Those who are connected to a server, from the moment when it begins to drain. */
export class Clients {
  readonly #server: Server;
  readonly #connected: Connected;
  readonly #before: number | Promise<number>;
  #came = false;

  constructor(server: Server, connected: Connected = connectedTo(server)) {
    this.#server = server;
    this.#connected = connected;
    this.#before = connected.count();
    server.on('connection', this.#onConnection);
  }

  /** Whether there was one, who may be about to connect again. */
  async wereThere(): Promise<boolean> {
    // Connections that the system has made count when the event loop has turned, which may have been held up.
    await nextTurn();
    await nextTurn();
    this.#server.off('connection', this.#onConnection);
    return this.#came || (await this.#before) > 0;
  }

  /** As {@link Connected.hold}. */
  hold(): Promise<() => void> {
    return this.#connected.hold();
  }

  readonly #onConnection = () => void (this.#came = true);
}

/**
 * Stops a server of node:http from listening once it has drained, such that clients see no reset: the system resets
 * connections that it has made but not handed over yet. Clients that connect again as soon as they are answered are kept
 * waiting for their answers until all of them do, and none connects. Connections stay open, unlike by the server's own
 * `close`, which is to follow.
 */
export async function stopListening(server: Server, clients: Clients): Promise<void> {
  if (!(await clients.wereThere())) return;
  const release = await clients.hold();
  await quiet(server);
  Server.prototype.close.call(server);
  release();
}

function connectedTo(server: Server): Connected {
  return {
    count: promisify(server.getConnections.bind(server)),
    hold: async () => holdRequests(server),
  };
}

/** Keeps requests from those who listen for them, until the function that it returns is called. */
export function holdRequests(server: Server): () => void {
  const listeners = server.rawListeners('request') as (() => void)[];
  const held: unknown[][] = [];
  const hold = (...request: unknown[]) => void held.push(request);
  server.removeAllListeners('request').on('request', hold);
  return () => {
    server.off('request', hold);
    for (const listener of listeners) server.on('request', listener);
    for (const request of held) server.emit('request', ...request);
  };
}

async function quiet(server: Server): Promise<void> {
  let isQuiet = false;
  const onConnection = () => (isQuiet = false);
  server.on('connection', onConnection);
  for (let round = 0; round < MOST_ROUNDS && !isQuiet; round++) {
    isQuiet = true;
    await wait(QUIET_MS);
    // Where the process was held up, timers come before connections that are there already.
    await nextTurn();
  }
  server.off('connection', onConnection);
}

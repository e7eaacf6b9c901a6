import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { availableParallelism } from 'node:os';

import { checkInteger, checkName, checkOneOf, mismatch, readProperties } from '../check';
import { WarpconvError } from '../errors';
import { isBundled } from '../here';
import { LINGER_MS } from './body';
import { handlerOf, type Handler } from './handler';
import {
  devicesOf,
  HANDLER_DEFAULTS,
  handlerSettings,
  type HandlerOptions,
  type HandlerSettings,
} from './options';
import { openModels, type GivenModels } from './open_models';
import { Clients, stopListening, type Connected } from './stop_listening';
import { startReaders } from './threads/start';
import { clearTimeout, setTimeout } from './timers';

/** The options of {@link serve}. */
export interface ServeOptions extends Omit<HandlerOptions, 'models'> {
  /**
   * What is served under which name: sessions, or ONNX files, of which the server makes a session on each GPU, or on the CPU
   * where there is none. Or a folder of such files, by its path, or opened by {@link ModelFolder.open}. Sessions and folders
   * that are given stay their owner's; what the server opens ends with it.
   */
  readonly models: GivenModels;
  /** Default 8080; 0 for any that is free. */
  readonly port?: number;
  /** Address to listen at. Default `'127.0.0.1'`, which other machines do not reach; `'0.0.0.0'` or `'::'` for all. */
  readonly host?: string;
  /**
   * Threads that read requests and write their answers, beside the one that calls this and runs the models; 1 is that
   * thread alone. Default: 1 where all models run on the CPU, whose processors they need, and on Windows; else as many as
   * half the processors, and at most 8.
   */
  readonly threads?: number;
  /** Signals on which the server closes, such as `['SIGTERM', 'SIGINT']`. Default none. */
  readonly closeOn?: readonly ('SIGTERM' | 'SIGINT' | 'SIGHUP')[];
}

/** A server that is listening. */
export interface RunningServer {
  readonly server: Server;
  readonly handler: Handler;
  /** For example `'http://127.0.0.1:8080'`. */
  readonly url: string;
  /**
   * Answers all requests that were accepted, refusing later ones, then closes. Sessions are not released. Again is
   * harmless.
   */
  readonly close: () => Promise<void>;
}

const SERVE_DEFAULTS = {
  ...HANDLER_DEFAULTS,
  port: 8080,
  host: '127.0.0.1',
  threads: undefined,
  closeOn: [],
} as const satisfies Record<keyof ServeOptions, unknown>;

const PORT = { min: 0, max: 65_535 } as const;
const THREADS = { min: 1, max: 256 } as const;
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Serves models over HTTP, as {@link createHandler} describes.
 *
 * @returns once the server is listening; rejects where it cannot, with the system's error
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const given = readProperties('options', options, SERVE_DEFAULTS);
  const port = checkInteger('options.port', given.port, PORT);
  const host = checkName('options.host', given.host);
  const closeOn = readSignals(given.closeOn);
  const threads =
    given.threads === undefined ? undefined : checkInteger('options.threads', given.threads, THREADS);
  const { models, release } = await openModels(given.models, given.logger);
  const { handler, server, connected, end } = await make({ ...given, models }, threads).catch(
    async (error: unknown) => {
      await release();
      throw error;
    },
  );
  const endAll = async () => {
    await end();
    await release();
  };
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    handler.close();
    await endAll();
    throw error;
  }
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= shutDown(server, handler, connected).then(endAll).finally(unsubscribe));
  const onSignal = () => {
    // A second signal ends the process, as it would without this.
    unsubscribe();
    void close();
  };
  const unsubscribe = () => closeOn.forEach((signal) => process.off(signal, onSignal));
  closeOn.forEach((signal) => process.on(signal, onSignal));
  return { server, handler, url: urlOf(server), close };
}

/** A server that does not listen yet. */
interface Made {
  readonly handler: Handler;
  readonly server: Server;
  /** Where connections are, if not with the server */
  readonly connected?: Connected;
  /** Lets go of what answered, once the server has closed. */
  readonly end: () => Promise<void>;
}

async function make(
  given: Record<keyof HandlerOptions, unknown>,
  threads: number | undefined,
): Promise<Made> {
  const settings = handlerSettings(given);
  const count = threads ?? usualThreads(settings);
  return count === 1 ? onThisThread(settings) : onThreads(settings, count);
}

const WITHOUT_FILES =
  'threads run files of warpconv, which was bundled without them; leave the option out, or leave warpconv out of the bundle';

const MOST_USUAL_THREADS = 8;

function usualThreads(settings: HandlerSettings): number {
  const hasGpu = devicesOf(settings).some((device) => device !== 'cpu' && device !== 'auto');
  // There connections are not handed on: see Readers.take.
  if (!hasGpu || process.platform === 'win32' || isBundled()) return 1;
  return Math.min(Math.max(1, availableParallelism() >> 1), MOST_USUAL_THREADS);
}

async function onThisThread(settings: HandlerSettings): Promise<Made> {
  const handler = handlerOf(settings);
  return { handler, server: createServer(handler), end: async () => {} };
}

async function onThreads(settings: HandlerSettings, threads: number): Promise<Made> {
  if (isBundled())
    throw new WarpconvError('ERR_WARPCONV_LOAD_FAILED', `options.threads ${threads}: ${WITHOUT_FILES}`);
  const { handler, readers } = await startReaders(settings, threads);
  const server = createServer(handler);
  const [serveHere] = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    if (!readers.take(socket)) serveHere!.call(server, socket);
  });
  const connected = { count: () => readers.connections, hold: () => readers.hold() };
  return { handler, server, connected, end: () => readers.close() };
}

/** Until all are answered the server goes on listening, so that late requests get a 503 that says so, and no reset. */
async function shutDown(server: Server, handler: Handler, connected: Connected | undefined): Promise<void> {
  const clients = new Clients(server, connected);
  await handler.drain();
  if (server.listening) {
    const closed = once(server, 'close');
    await stopListening(server, clients);
    server.close();
    // What is not idle by now sends requests that are refused, or none that is complete.
    const timer = setTimeout(() => server.closeAllConnections(), LINGER_MS);
    await closed;
    clearTimeout(timer);
  }
  handler.close();
}

function readSignals(value: unknown): readonly (typeof SIGNALS)[number][] {
  if (!Array.isArray(value)) throw mismatch('options.closeOn', 'a list of signals', value);
  // Array.from also finds what is missing in between.
  return Array.from(value, (signal, index) => checkOneOf(`options.closeOn[${index}]`, signal, SIGNALS));
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

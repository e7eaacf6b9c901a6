/** What the command line of main.ts says. */
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { ROOT } from '../command';
import { IMAGE, REQUEST_KINDS } from './load/request_kinds';
import { ROLES, type Served } from './loaded_server';
import { readIntegers, readPositive, readThreads, requireKnown } from '../options';

export interface ServeSettings extends Served {
  /** Of each load */
  readonly seconds: number;
  /** Of one long load, which is there instead */
  readonly minutes: number | undefined;
  /** Whether it is shorter than what is stored */
  readonly quick: boolean;
  /** The network that the bench makes and serves instead of `model` */
  readonly network: string | undefined;
  /** Of each load, one after the other; a long load has one */
  readonly connections: readonly number[];
  /** One of REQUEST_KINDS */
  readonly requests: string;
  /** By their names in results; a long load has one */
  readonly servers: readonly string[];
  /** Processes of clients; where it is undefined, the load tool decides */
  readonly clients: number | undefined;
  /** What the names of the results' files end in; there is none where they are not stored */
  readonly suffix: string | undefined;
}

const MODEL = path.join(ROOT, 'examples/digits/digits.onnx');
const DEVICE = 'cpu';
const SECONDS = 10;
const MINUTES = 30;
/** Loads one after the other, and a long one */
const EACH = { connections: '1,8,32,128', servers: 'ours,one-by-one,rival' };
/** On GPUs, which no rival is set up for */
const ON_GPU = { connections: '1,8,32,128,512', servers: 'ours', seconds: 3 };
const LONG = { connections: '32', servers: 'ours' };
const REQUESTS = 'float32';
/** What the bench can make, and seconds of each load: it takes a hundred answers for a 99th percentile. */
const NETWORKS: Readonly<Record<string, number>> = { resnet50: 30 };

function parse(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      model: { type: 'string', default: MODEL },
      network: { type: 'string' },
      device: { type: 'string', default: DEVICE },
      seconds: { type: 'string' },
      minutes: { type: 'string' },
      connections: { type: 'string' },
      requests: { type: 'string', default: REQUESTS },
      servers: { type: 'string' },
      threads: { type: 'string' },
      clients: { type: 'string' },
    },
  });
  return values;
}

const optional = <T>(text: string | undefined, read: (text: string) => T) =>
  text === undefined ? undefined : read(text);

export function readServeSettings(args: readonly string[]): ServeSettings {
  const values = parse(args);
  const { device, network, requests } = values;
  if (network !== undefined)
    requireKnown('network', [network], Object.keys(NETWORKS), 'any other is a --model');
  requireKnown('requests', [requests], Object.keys(REQUEST_KINDS), 'one kind at a time');
  const model = path.resolve(values.model);
  const isOnGpu = device.startsWith('cuda');
  const usualSeconds = isOnGpu ? ON_GPU.seconds : network === undefined ? SECONDS : NETWORKS[network]!;
  const seconds = optional(values.seconds, (text) => readPositive('seconds', text)) ?? usualSeconds;
  const minutes = optional(values.minutes, (text) => readPositive('minutes', text));
  const share = minutes === undefined ? seconds / usualSeconds : minutes / MINUTES;
  const usual = minutes !== undefined ? LONG : isOnGpu ? ON_GPU : EACH;
  const { connections = usual.connections, servers = usual.servers, threads } = values;
  const isUsual =
    (network !== undefined || model === MODEL) &&
    connections === usual.connections &&
    servers === usual.servers &&
    (isOnGpu ? network !== undefined : [device, requests].join() === [DEVICE, REQUESTS].join()) &&
    [threads, share].join() === [undefined, 1].join();
  const kind = isOnGpu ? requests : undefined;
  const where = device === 'cuda' ? 'all-gpus' : undefined;
  const parts = ['serve', network, kind, where, minutes && 'long'];
  const suffix = parts.filter((part) => part !== undefined).join('-');
  return {
    ...{ model, network, device, seconds, minutes, requests },
    image: requests === REQUESTS ? undefined : IMAGE,
    threads: optional(threads, (text) => readThreads(text, os.availableParallelism())),
    clients: optional(values.clients, (text) => readIntegers('clients', text, 1)[0]),
    connections: readIntegers('connections', connections, minutes && 1),
    servers: readServers(servers, minutes && 1),
    quick: share < 1,
    suffix: isUsual ? suffix : undefined,
  };
}

/** Of roles between commas, in that order. */
function readServers(text: string, most = Infinity): string[] {
  const roles = text.split(',');
  const names = new Map(Object.entries(ROLES).map(([who, role]) => [role, who]));
  requireKnown('servers', roles, [...names.keys()], 'several have commas between them');
  if (roles.length > most) throw new Error(`--servers takes one with --minutes, not '${text}'`);
  return roles.map((role) => names.get(role)!);
}

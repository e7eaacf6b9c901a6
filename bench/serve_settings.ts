/** What the command line of serve_load.ts says. */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { ROOT } from './command';
import type { Served } from './loaded_server';
import { readPositive, requireKnown } from './options';

export interface ServeSettings extends Served {
  /** Of each load */
  readonly seconds: number;
  /** Of one long load, which is there instead */
  readonly minutes: number | undefined;
  /** Whether it is shorter than what is stored */
  readonly quick: boolean;
  /** The network that the bench makes and serves instead of `model` */
  readonly network: string | undefined;
  /** What the names of the results' files end in; there is none where they are not stored */
  readonly suffix: string | undefined;
}

const MODEL = path.join(ROOT, 'examples/digits/digits.onnx');
const DEVICE = 'cpu';
const SECONDS = 10;
const MINUTES = 30;
/** What the bench can make, and seconds of each load: it takes a hundred answers for a 99th percentile. */
const NETWORKS: Readonly<Record<string, number>> = { resnet50: 30 };

export function readServeSettings(args: readonly string[]): ServeSettings {
  const { values } = parseArgs({
    args: [...args],
    options: {
      model: { type: 'string', default: MODEL },
      network: { type: 'string' },
      device: { type: 'string', default: DEVICE },
      seconds: { type: 'string' },
      minutes: { type: 'string' },
    },
  });
  const { device, network } = values;
  if (network !== undefined)
    requireKnown('network', [network], Object.keys(NETWORKS), 'any other is a --model');
  const model = path.resolve(values.model);
  const usualSeconds = network === undefined ? SECONDS : NETWORKS[network]!;
  const seconds = values.seconds === undefined ? usualSeconds : readPositive('seconds', values.seconds);
  const minutes = values.minutes === undefined ? undefined : readPositive('minutes', values.minutes);
  const share = minutes === undefined ? seconds / usualSeconds : minutes / MINUTES;
  const isUsual = (network !== undefined || model === MODEL) && device === DEVICE && share === 1;
  const suffix = ['serve', network, minutes && 'long'].filter((part) => part !== undefined).join('-');
  return { model, network, device, seconds, minutes, quick: share < 1, suffix: isUsual ? suffix : undefined };
}

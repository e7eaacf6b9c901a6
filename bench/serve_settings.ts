/** What the command line of serve_load.ts says. */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { ROOT } from './command';
import type { Served } from './loaded_server';
import { readPositive } from './options';

export interface ServeSettings extends Served {
  /** Of each load */
  readonly seconds: number;
  /** Of one long load, which is there instead */
  readonly minutes: number | undefined;
  /** Whether it is shorter than what is stored */
  readonly quick: boolean;
  /** Whether it is what the names of the files stand for: the usual model and device, for the usual time */
  readonly isUsual: boolean;
}

const MODEL = path.join(ROOT, 'examples/digits/digits.onnx');
const DEVICE = 'cpu';
const SECONDS = 10;
const MINUTES = 30;

export function readServeSettings(args: readonly string[]): ServeSettings {
  const { values } = parseArgs({
    args: [...args],
    options: {
      model: { type: 'string', default: MODEL },
      device: { type: 'string', default: DEVICE },
      seconds: { type: 'string', default: String(SECONDS) },
      minutes: { type: 'string' },
    },
  });
  const { device } = values;
  const model = path.resolve(values.model);
  const seconds = readPositive('seconds', values.seconds);
  const minutes = values.minutes === undefined ? undefined : readPositive('minutes', values.minutes);
  const share = minutes === undefined ? seconds / SECONDS : minutes / MINUTES;
  const isUsual = model === MODEL && device === DEVICE && share === 1;
  return { model, device, seconds, minutes, quick: share < 1, isUsual };
}

/** The native programs of bench/native: layers away from Node.js, and what fits models to measured times. */
import { availableParallelism } from 'node:os';
import path from 'node:path';

import { ROOT, run } from './command';
import type { Layer } from './layers';

const SOURCE = path.join(__dirname, 'native');
const BUILD = path.join(ROOT, 'build-bench');

export const LAYER_RUNS = path.join(BUILD, 'layer_runs');
export const CALIBRATE = path.join(BUILD, 'calibrate');

export function buildNativePrograms(): void {
  run('cmake', ['-S', SOURCE, '-B', BUILD]);
  // Without a number, as many at once as there are files.
  run('cmake', ['--build', BUILD, '--parallel', String(availableParallelism())]);
}

/** A layer as LAYER_RUNS reads it. */
export function lineOf({ row }: Layer): string {
  return `${row.join(' ')}\n`;
}

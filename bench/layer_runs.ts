/** The native program of bench/native, which runs layers away from Node.js. */
import path from 'node:path';

import { ROOT, run } from './command';
import type { Layer } from './layers';

const SOURCE = path.join(__dirname, 'native');
const BUILD = path.join(ROOT, 'build-bench');

export const LAYER_RUNS = path.join(BUILD, 'layer_runs');

export function buildLayerRuns(): void {
  run('cmake', ['-S', SOURCE, '-B', BUILD]);
  run('cmake', ['--build', BUILD, '--parallel']);
}

/** A layer as the program reads it. */
export function lineOf({ row }: Layer): string {
  return `${row.join(' ')}\n`;
}

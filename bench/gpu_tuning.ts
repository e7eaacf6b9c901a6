/**
 * What choosing an algorithm on a GPU costs, and how good `tune` is, on the named layers: the time in which `auto` makes a
 * plan; that in which `tune` measures; and how long what a second such measurement found fastest took in the first one,
 * over the fastest there. Writes bench/results/<gpu>-<date>-tuning.json and .md.
 *
 *     npx ts-node bench/gpu_tuning.ts [--device cuda] [--batch 1] [--out FOLDER]
 */
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import type { Device } from 'warpconv';

import type { NativeMeasurement } from '../lib/addon';
import { openContestPlan } from '../lib/contest';
import { readProblem } from '../lib/options';
import { indexOf, locate, type Place } from '../lib/placement';
import { openPlan } from '../lib/tuning';
import { BATCHES, problemOf, selectLayers, type GpuLayer } from './gpu_layers';
import { findGpu } from './gpu_machine';
import { readBatch } from './options';
import { showProgress } from './progress';
import { tableOf } from './report_engine';
import { FOLDER, slugOf, writeText } from './results';
import { median, quantile } from './statistics';
import { versionNow } from './version';

type GpuDevice = Exclude<Device, 'cpu'>;

interface LayerTuning {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
  /** Microseconds, the median of PLANS */
  readonly autoMicroseconds: number;
  /** Milliseconds, of the first measurement and the second */
  readonly tuneMilliseconds: readonly [number, number];
  readonly chosen: string;
  /** Of the second measurement's choice, by the first one's times; infinite where that had left it out */
  readonly overFastest: number;
}

const PLANS = 101;
/** What `tune` is held to: of the fastest, and milliseconds a layer; and `auto`, microseconds a plan. */
const NEAR = 1.03;
const LONGEST_TUNE = 2_000;
const LONGEST_AUTO = 50;

function timed<T>(work: () => T): [result: T, milliseconds: number] {
  const start = performance.now();
  return [work(), performance.now() - start];
}

const isSame = (a: NativeMeasurement) => (b: NativeMeasurement) =>
  a.algorithm === b.algorithm && a.variant === b.variant;

function tuneLayer(layer: GpuLayer, place: Place): LayerTuning {
  const spec = { ...readProblem(problemOf(layer)), device: indexOf(place) };
  const open = () => openPlan(spec);
  const plans = Array.from({ length: PLANS }, () => timed(open)[1] * 1000);
  const [first, firstTime] = timed(() => open().measureSync());
  const [second, secondTime] = timed(() => open().measureSync());
  const again = first.find(isSame(second[0]!));
  return {
    group: layer.group,
    name: layer.name,
    batch: layer.batch,
    autoMicroseconds: median(plans),
    tuneMilliseconds: [firstTime, secondTime],
    chosen: `${second[0]!.algorithm} ${second[0]!.variant}`.trim(),
    overFastest: (again?.milliseconds ?? Infinity) / first[0]!.milliseconds,
  };
}

function render(gpu: string, date: string, layers: readonly LayerTuning[]): string {
  const ratios = layers.map(({ overFastest }) => overFastest);
  const tunes = layers.flatMap(({ tuneMilliseconds }) => tuneMilliseconds);
  const autos = layers.map(({ autoMicroseconds }) => autoMicroseconds);
  const near = ratios.filter((ratio) => ratio <= NEAR).length;
  const quick = tunes.filter((milliseconds) => milliseconds <= LONGEST_TUNE).length;
  const cheap = autos.filter((microseconds) => microseconds <= LONGEST_AUTO).length;
  return [
    `# Choosing an algorithm on ${gpu}, ${date}`,
    '',
    `warpconv ${versionNow()}, Node.js ${process.version}. By \`npx ts-node bench/gpu_tuning.ts\`.`,
    '',
    `- \`auto\`: ${median(autos).toFixed(0)} µs a plan at the median, ${Math.max(...autos).toFixed(0)} at most; ${cheap} of ${autos.length} layers within ${LONGEST_AUTO} µs.`,
    `- \`tune\`: ${median(tunes).toFixed(0)} ms a layer at the median, ${Math.max(...tunes).toFixed(0)} at most; ${quick} of ${tunes.length} measurements within ${LONGEST_TUNE / 1000} s.`,
    `- What one measurement found fastest took ${((median(ratios) - 1) * 100).toFixed(1)} % longer than the fastest in another one at the median, ${((quantile(ratios, 0.95) - 1) * 100).toFixed(1)} % at the 95th percentile, ${((Math.max(...ratios) - 1) * 100).toFixed(1)} % at most; within 3 % on ${near} of ${ratios.length} layers.`,
    '',
    ...tableOf(
      [
        'group',
        'layer',
        'batch',
        '`auto`, µs',
        '`tune`, ms',
        'found fastest',
        'over the fastest of another measurement',
      ],
      layers.map((one) => [
        one.group,
        one.name,
        String(one.batch),
        one.autoMicroseconds.toFixed(0),
        one.tuneMilliseconds.map((milliseconds) => milliseconds.toFixed(0)).join(', '),
        one.chosen,
        one.overFastest.toFixed(3),
      ]),
    ),
    '',
  ].join('\n');
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      device: { type: 'string', default: 'cuda' },
      batch: { type: 'string', multiple: true },
      out: { type: 'string' },
    },
  });
  const device = values.device as GpuDevice;
  const gpu = findGpu(device);
  const batches = values.batch?.map(readBatch) ?? [...BATCHES];
  const selected = selectLayers({ groups: [], names: [], batches });
  // Makes the GPU ready.
  (await openContestPlan(problemOf(selected[0]!), device)).dispose();
  const place = locate(device);
  const layers: LayerTuning[] = [];
  for (const layer of selected) {
    showProgress('tuning', layers.length, selected.length, 'layers');
    // What plans before have left is finalised here, and used again: new memory took longer than all else of a plan.
    await setImmediate();
    layers.push(tuneLayer(layer, place));
  }
  showProgress('tuning', selected.length, selected.length, 'layers');
  const date = new Date().toISOString().slice(0, 10);
  const folder = values.out === undefined ? FOLDER : path.resolve(values.out);
  const name = `${slugOf(gpu.name!)}-${date}-tuning`;
  writeText(
    `${name}.json`,
    `${JSON.stringify({ date, gpu: gpu.name, version: versionNow(), layers }, null, 1)}\n`,
    folder,
  );
  writeText(`${name}.md`, render(gpu.name!, date, layers), folder);
}

void main();

/**
 * What choosing an algorithm on a GPU costs, and how good `tune` is, on the named layers: the time in which `auto` makes a
 * plan; that in which `tune` measures; and how long what a second such measurement found fastest took in the first one,
 * over the fastest there. Writes bench/results/<gpu>-<date>-tuning.json and .md.
 *
 *     npx ts-node bench/gpu/tuning.ts [--device cuda] [--batch 1] [--out FOLDER]
 */
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import type { Device } from 'warpconv';

import type { NativeMeasurement } from '../../lib/addon';
import { openContestPlan } from '../../lib/conv2d/contest';
import { readProblem } from '../../lib/conv2d/options';
import { indexOf, locate, type Place } from '../../lib/placement';
import { openPlan } from '../../lib/conv2d/tuning';
import { problemOf, selectLayers, TUNED_BATCHES, tunedGroups, type GpuLayer } from './layers';
import { findGpu } from './machine';
import { readBatch } from '../options';
import { Progress } from '../progress';
import { tableOf } from '../tables';
import { FOLDER, slugOf, writeText } from '../results';
import { median, quantile } from '../statistics';
import { versionNow } from '../version';

type GpuDevice = Exclude<Device, 'cpu'>;

interface LayerTuning {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
  /** Microseconds, the median of all plans */
  readonly autoMicroseconds: number;
  /** Milliseconds, of the first measurement and the second */
  readonly tuneMilliseconds: readonly [number, number];
  readonly chosen: string;
  /** Of the second measurement's choice, by the first one's times; infinite where that had left it out */
  readonly overFastest: number;
}

/** Times through all layers that plans are made, and how many of a layer each time; odd, for the median to be one. */
const PASSES = 5;
const PLANS_PER_PASS = 21;
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

const opener = (layer: GpuLayer, place: Place) => {
  const spec = { ...readProblem(problemOf(layer)), device: indexOf(place) };
  return () => openPlan(spec);
};

/**
 * Microseconds in which `auto` makes a plan of each layer. Pass by pass through all of them: other work on the machine
 * comes and goes, and does not meet all plans of a layer then.
 */
async function timePlans(layers: readonly GpuLayer[], place: Place): Promise<number[]> {
  const times = layers.map((): number[] => []);
  for (let pass = 0; pass < PASSES; pass++) {
    for (const [index, layer] of layers.entries()) {
      // What plans before have left is finalised here, and used again: new memory took longer than all else of a plan.
      await setImmediate();
      const open = opener(layer, place);
      for (let plan = 0; plan < PLANS_PER_PASS; plan++) times[index]!.push(timed(open)[1] * 1000);
    }
  }
  return times.map(median);
}

function tuneLayer(layer: GpuLayer, place: Place, autoMicroseconds: number): LayerTuning {
  const open = opener(layer, place);
  const [first, firstTime] = timed(() => open().measureSync());
  const [second, secondTime] = timed(() => open().measureSync());
  const again = first.find(isSame(second[0]!));
  return {
    group: layer.group,
    name: layer.name,
    batch: layer.batch,
    autoMicroseconds,
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
    `warpconv ${versionNow()}, Node.js ${process.version}. By \`npx ts-node bench/gpu/tuning.ts\`.`,
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
  const batches = values.batch?.map(readBatch) ?? [...TUNED_BATCHES];
  const selected = selectLayers({ groups: tunedGroups(), names: [], batches });
  // Makes the GPU ready.
  (await openContestPlan(problemOf(selected[0]!), device)).dispose();
  const place = locate(device);
  const autos = await timePlans(selected, place);
  const layers: LayerTuning[] = [];
  const progress = new Progress('tuning', selected.length, 'layers');
  for (const [index, layer] of selected.entries()) {
    progress.show(index);
    // For memory that measuring has left to be used again
    await setImmediate();
    layers.push(tuneLayer(layer, place, autos[index]!));
  }
  progress.show(selected.length);
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

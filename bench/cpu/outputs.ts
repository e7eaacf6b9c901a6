/**
 * What new outputs cost on the CPU. First time: each layer into new outputs over the same into one of the caller's, in
 * turns on one thread, as geometric means by group and by size of the output. Then memory: what is resident, and what of
 * it is idle, over many runs with results of uneven sizes, and over runs with results of one size.
 *
 *     npx ts-node bench/cpu/outputs.ts [--group sconv-393] [--rounds 15] [--runs 20000]
 */
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Conv2d, conv2d, memory, setThreads, type Tensor } from '../../lib';
import { playInTurns, takeTurn } from './contenders';
import { GROUPS, loadLayers, planOptions, shapesOf, type Layer } from '../layers';
import { describeMachine, randomTensor } from '../machine';
import { geometricMean } from '../statistics';

const TURN_MS = 5;

async function ratioOf({ row }: Layer, rounds: number): Promise<number> {
  const { inputDims, weightDims } = shapesOf(row);
  const plan = await Conv2d.create(randomTensor(weightDims), { ...planOptions(row), device: 'cpu' });
  const input = randomTensor(inputDims);
  const output = plan.runSync(input);
  const ways = { new: () => plan.run(input), own: () => plan.run(input, { output }) };
  const players = Object.entries(ways).map(([name, run]) => ({
    name,
    turn: async () => {
      // As in a server, where the loop turns: tensors that nobody disposed are counted out then.
      await setImmediate();
      return takeTurn(run, TURN_MS);
    },
  }));
  const times = await playInTurns(players, rounds);
  plan.dispose();
  return times.new! / times.own!;
}

function kilobytesOf({ row }: Layer): number {
  const { outputDims } = shapesOf(row);
  return outputDims.reduce((product, extent) => product * extent, Float32Array.BYTES_PER_ELEMENT) / 1024;
}

async function timeLayers(group: string, rounds: number): Promise<void> {
  const ratios: number[] = [];
  const bySize = new Map<number, number[]>();
  for (const layer of loadLayers(group)) {
    const ratio = await ratioOf(layer, rounds);
    const size = 4 ** Math.floor(Math.log(kilobytesOf(layer)) / Math.log(4));
    ratios.push(ratio);
    bySize.set(size, [...(bySize.get(size) ?? []), ratio]);
  }
  const mean = (values: readonly number[]) => geometricMean(values).toFixed(3);
  console.log(`${group}: into new outputs ${mean(ratios)} x of the time into the caller's`);
  for (const [size, values] of [...bySize].sort(([a], [b]) => a - b)) {
    console.log(`  outputs of ${size} to ${4 * size} KB: ${mean(values)} x, ${values.length} layers`);
  }
}

const MEGABYTE = 2 ** 20;

/** Runs, and prints the most that was resident and idle in each tenth of them. */
async function watchMemory(title: string, runs: number, run: (index: number) => Promise<Tensor>) {
  const readings: string[] = [];
  let [resident, idle] = [0, 0];
  for (let index = 1; index <= runs; index++) {
    await run(index);
    if (index % 10 === 0) await setImmediate();
    resident = Math.max(resident, process.memoryUsage.rss());
    idle = Math.max(idle, memory().idle);
    if (index % (runs / 10) !== 0) continue;
    readings.push(`${(resident / MEGABYTE).toFixed(0)} (${(idle / MEGABYTE).toFixed(0)})`);
    [resident, idle] = [0, 0];
  }
  console.log(`${title}: most MB resident (idle) by tenths of ${runs} runs\n  ${readings.join(', ')}`);
}

async function watchUneven(runs: number): Promise<void> {
  const weight = randomTensor([16, 3, 1, 1]);
  // From 32 KB to 8 MB, each size as likely as its double
  const sides = Array.from({ length: runs }, () => Math.round(23 * 16 ** Math.random()));
  const inputs = new Map(sides.map((side) => [side, randomTensor([1, 3, side, side])]));
  const run = (index: number) => conv2d(inputs.get(sides[index - 1]!)!, weight, { device: 'cpu' });
  await watchMemory('results of 32 KB to 8 MB', runs, run);
}

async function watchEven(megabytes: number, runs: number): Promise<void> {
  const side = 128;
  const filters = (megabytes * MEGABYTE) / Float32Array.BYTES_PER_ELEMENT / side ** 2;
  const input = randomTensor([1, 1, side, side]);
  const weight = randomTensor([filters, 1, 1, 1]);
  const plan = await Conv2d.create(weight, { inputDims: input.dims, device: 'cpu' });
  await watchMemory(`results of ${megabytes} MB`, runs, () => plan.run(input));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      group: { type: 'string', multiple: true, default: [...GROUPS] },
      rounds: { type: 'string', default: '15' },
      runs: { type: 'string', default: '20000' },
    },
  });
  console.log(describeMachine());
  setThreads(1);
  for (const group of values.group) await timeLayers(group, Number(values.rounds));
  const runs = Number(values.runs);
  await watchUneven(runs);
  for (const megabytes of [1, 8, 64]) await watchEven(megabytes, Math.ceil(runs / megabytes / 10) * 10);
}

void main();

/**
 * Creates, runs and disposes ten thousand plans and prints the resident memory on the way, garbage collected.
 * Exit code 1 when it grows by more than 10 MB after the first thousand, or when a plan or its memory is left.
 *
 *     npx ts-node bench/cpu/plan_memory.ts
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { Conv2d, memory, type TensorLike } from '../../lib';
import { describeMachine, randomTensor } from '../machine';

const PLANS = 10_000;
const STEP = 1_000;
const MOST_GROWTH_MB = 10;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function residentMegabytes(): number {
  collectGarbage();
  return process.memoryUsage.rss() / 2 ** 20;
}

async function usePlan(input: TensorLike, weight: TensorLike): Promise<void> {
  const plan = await Conv2d.create(weight, { inputDims: input.dims, padding: 1, device: 'cpu' });
  await plan.run(input);
  plan.dispose();
}

async function main(): Promise<void> {
  console.log(describeMachine());
  const input = randomTensor([1, 64, 8, 8]);
  const weight = randomTensor([64, 64, 3, 3]);
  const readings: number[] = [];
  for (let plans = 1; plans <= PLANS; plans++) {
    await usePlan(input, weight);
    if (plans % STEP !== 0) continue;
    readings.push(residentMegabytes());
    console.log(`${String(plans).padStart(6)} plans: ${readings.at(-1)!.toFixed(1)} MB resident`);
  }
  const growth = Math.max(...readings) - readings[0]!;
  const { plans, cpu } = memory();
  console.log(`growth ${growth.toFixed(1)} MB; ${plans} plans and ${cpu} bytes of native memory left`);
  if (growth <= MOST_GROWTH_MB && plans === 0 && cpu === 0) return;
  console.error(`FAILED: growth may be ${MOST_GROWTH_MB} MB, and nothing may be left`);
  process.exitCode = 1;
}

void main();

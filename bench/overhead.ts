/**
 * What a call costs besides its arithmetic: microseconds per call on the smallest of convolutions, one element by
 * one weight. Prints the median of several rounds for every way to call.
 *
 *     npx ts-node bench/overhead.ts [--device cuda]
 *
 * On a GPU, where input and output lie there and weights do not, a call includes its kernel, which takes about 2 µs, and the way to the device and
 * back.
 */
import { parseArgs } from 'node:util';

import { Conv2d, conv2d, conv2dSync, type Device } from '../lib';
import { describeMachine, randomTensor } from './machine';

const ROUNDS = 11;
const CALLS_PER_ROUND = 2_000;

async function microsecondsPerCall(call: () => unknown): Promise<number> {
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    for (let index = 0; index < CALLS_PER_ROUND; index++) await call();
    rounds.push((1000 * (performance.now() - start)) / CALLS_PER_ROUND);
  }
  return rounds.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)]!;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { device: { type: 'string', default: 'cpu' } } });
  const device = values.device as Device;
  console.log(`${describeMachine()}, ${device}`);
  const weight = randomTensor([1, 1, 1, 1]);
  const input = await randomTensor([1, 1, 1, 1]).to(device);
  const plan = await Conv2d.create(weight, { inputDims: input.dims, device });
  const output = await plan.run(input);
  const ways = {
    conv2dSync: () => conv2dSync(input, weight, { device }),
    conv2d: () => conv2d(input, weight, { device }),
    'plan.runSync': () => plan.runSync(input),
    'plan.runSync into an output': () => plan.runSync(input, { output }),
    'plan.run': () => plan.run(input),
    'plan.run into an output': () => plan.run(input, { output }),
  };
  for (const [name, call] of Object.entries(ways)) {
    console.log(`${name.padEnd(28)} ${(await microsecondsPerCall(call)).toFixed(1)} µs`);
  }
  plan.dispose();
}

void main();

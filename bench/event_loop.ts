/**
 * How long a convolution of a second or more keeps the event loop waiting: the longest gap of a 1 ms timer from
 * before the call until after its promise has resolved, and the time until the call returns its promise.
 * Exit code 1 when either is over 5 ms.
 *
 *     npx ts-node bench/event_loop.ts
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { Conv2d, conv2d, type TensorLike } from '../lib';
import { describeMachine, randomTensor } from './machine';

const LONGEST_GAP_MS = 5;
const SHORTEST_CONVOLUTION_MS = 1000;
const [C, H, W] = [128, 56, 56];
const weight = randomTensor([128, C, 11, 11]);
const options = { padding: 5, device: 'cpu' } as const;

interface Measurement {
  readonly what: string;
  /** Milliseconds, all of them */
  readonly duration: number;
  readonly call: number;
  readonly gap: number;
}

async function measure(what: string, start: () => Promise<unknown>): Promise<Measurement> {
  let [gap, last] = [0, performance.now()];
  const tick = () => {
    const now = performance.now();
    [gap, last] = [Math.max(gap, now - last), now];
  };
  const timer = setInterval(tick, 1);
  const begin = performance.now();
  const promise = start();
  const call = performance.now() - begin;
  await promise;
  const duration = performance.now() - begin;
  tick();
  clearInterval(timer);
  return { what, duration, call, gap };
}

/** A batch that this machine needs more than a second for. */
async function chooseBatch(): Promise<number> {
  const input = randomTensor([1, C, H, W]);
  await conv2d(input, weight, options);
  const { duration } = await measure('one image', () => conv2d(input, weight, options));
  return Math.ceil((1.5 * SHORTEST_CONVOLUTION_MS) / duration);
}

async function measureRun(input: TensorLike): Promise<Measurement> {
  const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
  const measurement = await measure('plan.run', () => plan.run(input));
  plan.dispose();
  return measurement;
}

async function main(): Promise<void> {
  console.log(describeMachine());
  const batch = await chooseBatch();
  const input = randomTensor([batch, C, H, W]);
  console.log(`input ${input.dims.join('x')}, weight ${weight.dims.join('x')}`);
  const idle = await measure('nothing (idle)', () => sleep(SHORTEST_CONVOLUTION_MS));
  print(idle);
  demand(
    idle.gap <= LONGEST_GAP_MS,
    `this machine is too busy to tell: it is over ${LONGEST_GAP_MS} ms late when idle`,
  );
  for (const measurement of [
    await measure('conv2d', () => conv2d(input, weight, options)),
    await measureRun(input),
  ]) {
    print(measurement);
    demand(measurement.duration >= SHORTEST_CONVOLUTION_MS, `${measurement.what} took less than a second`);
    const longest = Math.max(measurement.gap, measurement.call);
    demand(
      longest <= LONGEST_GAP_MS,
      `${measurement.what} kept the event loop waiting over ${LONGEST_GAP_MS} ms`,
    );
  }
}

function print({ what, duration, call, gap }: Measurement): void {
  const columns = [
    `took ${duration.toFixed(0)} ms`,
    `longest gap ${gap.toFixed(2)} ms`,
    `call ${call.toFixed(2)} ms`,
  ];
  console.log(`${what.padEnd(15)} ${columns.join(', ')}`);
}

function demand(condition: boolean, complaint: string): void {
  if (condition) return;
  console.error(`FAILED: ${complaint}`);
  process.exitCode = 1;
}

void main();

/**
 * What a call costs besides its arithmetic: microseconds per call on the smallest of convolutions, one element by
 * one weight. Prints the median of several rounds for every way to call and, of calls that return when they are done, how
 * much of it is spent in native code and how much before and after: reading arguments, allocating the output.
 *
 *     npx ts-node bench/overhead.ts [--device cuda]
 *
 * On a GPU, where input and output lie there and weights do not, a call includes its kernel, which takes about 2 µs, and the way to the device and
 * back.
 */
import { parseArgs } from 'node:util';

import { Conv2d, conv2d, conv2dSync, type Device } from '../lib';
import { addon } from '../lib/load';
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

type Method = (...args: unknown[]) => unknown;
type Class = new (...args: unknown[]) => object;

/** Adds up the time that JavaScript spends in native code, in plans made from now on and for memory on a GPU. */
class NativeClock {
  milliseconds = 0;

  constructor() {
    const binary = addon() as unknown as Record<'Plan' | 'GpuBuffer', Class>;
    const { Plan, GpuBuffer } = binary;
    // The methods of native classes cannot be replaced, but what stands before their objects can.
    const get = (plan: object, key: string) => {
      const value: unknown = Reflect.get(plan, key, plan);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => this.#time(() => (value as Method).apply(plan, args));
    };
    const construct = (target: Class, args: unknown[]) => this.#time(() => new target(...args));
    binary.Plan = new Proxy(Plan, {
      construct: (target, args: unknown[]) => new Proxy(construct(target, args), { get }),
    });
    binary.GpuBuffer = new Proxy(GpuBuffer, { construct });
  }

  #time<T>(call: () => T): T {
    const start = performance.now();
    try {
      return call();
    } finally {
      this.milliseconds += performance.now() - start;
    }
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { device: { type: 'string', default: 'cpu' } } });
  const device = values.device as Device;
  console.log(`${describeMachine()}, ${device}`);
  const clock = new NativeClock();
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
    const before = clock.milliseconds;
    const whole = await microsecondsPerCall(call);
    const native = (1000 * (clock.milliseconds - before)) / (ROUNDS * CALLS_PER_ROUND);
    const outside = `, ${(whole - native).toFixed(1)} outside of native code`;
    console.log(`${name.padEnd(28)} ${whole.toFixed(1)} µs${name.includes('Sync') ? outside : ''}`);
  }
  plan.dispose();
}

void main();

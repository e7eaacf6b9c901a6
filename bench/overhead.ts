/**
 * What a call costs besides its arithmetic: microseconds per call on the smallest of convolutions, one element by
 * one weight. Prints the median of several rounds for every way to call and, of calls that return when they are done, how
 * much of the same round is spent before and after native code: reading arguments, allocating the output.
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

interface Round {
  whole: number;
  /** Of that, before and after native code */
  outside: number;
}

/** Of the rounds, by what a call takes as a whole: the middle one. */
async function middleRound(call: () => unknown, clock: NativeClock): Promise<Round> {
  const perCall = (milliseconds: number) => (1000 * milliseconds) / CALLS_PER_ROUND;
  const rounds: Round[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = clock.milliseconds;
    const start = performance.now();
    for (let index = 0; index < CALLS_PER_ROUND; index++) await call();
    const whole = performance.now() - start;
    rounds.push({ whole: perCall(whole), outside: perCall(whole - (clock.milliseconds - before)) });
  }
  return rounds.sort((a, b) => a.whole - b.whole)[Math.floor(ROUNDS / 2)]!;
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
    const { whole, outside } = await middleRound(call, clock);
    const ofThat = `, ${outside.toFixed(1)} outside of native code`;
    console.log(`${name.padEnd(28)} ${whole.toFixed(1)} µs${name.includes('Sync') ? ofThat : ''}`);
  }
  plan.dispose();
}

void main();

/**
 * What a call costs besides its arithmetic: microseconds per call on the smallest of convolutions, one element by
 * one weight, and of a network of nothing else. Prints the median of several rounds for every way to call and, of calls that return when they are done, how
 * much of that is spent outside of native code: the time of the same native calls, made directly and in turns with the
 * others, taken from it. Of calls that settle later, by how much they take longer than the ones that return when all is
 * done, which the time from the end of the kernel is a part of. Outputs are disposed, as servers do; what is left to the
 * collector is freed by it, and that is measured apart.
 *
 *     npx ts-node bench/cpu/overhead.ts [--device cuda]
 *
 * On a GPU, where input and output lie there and weights do not, a call includes its kernel, which takes about 2 µs, and
 * the way to the device and back.
 */
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Conv2d, conv2d, conv2dSync, InferenceSession, type Device, type Tensor } from '../../lib';
import type { ConvolutionSpec, NativeElements, NativeGpuBuffer, NativePlan } from '../../lib/addon';
import { addon } from '../../lib/load';
import { indexOf } from '../../lib/placement';
import { node, onnxModel, tensor, value } from '../../test/support/onnx_builder';
import { describeMachine, randomTensor } from '../machine';
import { median } from '../statistics';

/** Short and many, since other work on a machine comes and goes; odd, for the median to be one of them. */
const ROUNDS = 101;
const CALLS_PER_ROUND = 200;

async function microseconds(call: () => unknown): Promise<number> {
  // What rounds before have left is finalised here, as it is in a server, and not never.
  await setImmediate();
  const start = performance.now();
  for (let index = 0; index < CALLS_PER_ROUND; index++) await call();
  return (1000 * (performance.now() - start)) / CALLS_PER_ROUND;
}

interface Way {
  readonly call: () => unknown;
  /** What it is measured in turns with, and what takes it longer than that */
  readonly beside?: readonly [call: () => void, what: string];
}

async function print(name: string, { call, beside }: Way): Promise<void> {
  const whole: number[] = [];
  const longer: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    whole.push(await microseconds(call));
    if (beside !== undefined) longer.push(whole.at(-1)! - (await microseconds(beside[0])));
  }
  const ofThat = beside === undefined ? '' : `, ${median(longer).toFixed(1)} ${beside[1]}`;
  console.log(`${name.padEnd(36)} ${median(whole).toFixed(1)} µs${ofThat}`);
}

/** The native calls behind those of the package, in the same order: what memory costs depends on it. */
class Direct {
  readonly #device: Device;
  readonly #weight: Float32Array;
  readonly #input: NativeElements;
  readonly #output: NativeElements;
  readonly #plan: NativePlan;

  constructor(
    device: Device,
    weight: Tensor<'float32'>,
    input: Tensor<'float32'>,
    output: Tensor<'float32'>,
  ) {
    this.#device = device;
    this.#weight = weight.data;
    [this.#input, this.#output] = [elementsOf(input), elementsOf(output)];
    this.#plan = this.#newPlan();
    this.#plan.prepareSync(this.#weight, null);
  }

  convolve(): void {
    const plan = this.#newPlan();
    void plan.outputDims;
    const output = this.#newOutput();
    plan.convolveSync(this.#weight, null, this.#input, null, output);
    plan.dispose();
    this.#dispose(output);
  }

  run(): void {
    const output = this.#newOutput();
    this.#plan.runSync(this.#input, null, output);
    this.#dispose(output);
  }

  runIntoOutput(): void {
    this.#plan.runSync(this.#input, null, this.#output);
  }

  dispose(): void {
    this.#plan.dispose();
  }

  /** On a GPU native code allocates an output, and on the CPU it does not. */
  #newOutput(): NativeElements {
    if (this.#device === 'cpu') return this.#output;
    return new (addon().GpuBuffer)(indexOf(this.#device), Float32Array.BYTES_PER_ELEMENT);
  }

  #dispose(output: NativeElements): void {
    if (output !== this.#output) (output as NativeGpuBuffer).dispose();
  }

  #newPlan(): NativePlan {
    const spec: ConvolutionSpec = {
      inputDims: [1, 1, 1, 1],
      weightDims: [1, 1, 1, 1],
      stride: [1, 1],
      padding: [0, 0, 0, 0],
      dilation: [1, 1],
      groups: 1,
      activation: { name: 'none', parameters: [] },
      device: indexOf(this.#device),
      algorithm: 'auto',
      variant: '',
      workspaceLimit: Infinity,
      sconv: { schedule: null, presentation: null, vectorPacking: true, packing: 'onDemand' },
    };
    return new (addon().Plan)(spec);
  }
}

function elementsOf(tensor: Tensor<'float32'>): NativeElements {
  return tensor.location === 'gpu-buffer' ? (tensor.gpuBuffer as NativeGpuBuffer) : tensor.data;
}

/** Those of a network, whose outputs are in CPU memory or on the device. */
async function networkWays(device: Device, x: Tensor<'float32'>): Promise<Record<string, Way>> {
  const model = onnxModel({
    inputs: [value('x', [1, 1, 1, 1])],
    initializers: [tensor('w', [1, 1, 1, 1], [2])],
    nodes: [node('Conv', ['x', 'w'], ['y'])],
    outputs: [value('y', [1, 1, 1, 1])],
  });
  const ways: Record<string, Way> = {};
  const places = device === 'cpu' ? ['cpu'] : ['cpu', 'gpu-buffer'];
  for (const preferredOutputLocation of places) {
    const session = await InferenceSession.create(model, { device, preferredOutputLocation });
    const sync = () => session.runSync({ x }).y!.dispose();
    const to = preferredOutputLocation;
    ways[`session.runSync, output ${to}`] = { call: sync };
    ways[`session.run, output ${to}`] = {
      call: async () => (await session.run({ x })).y!.dispose(),
      beside: [sync, 'longer than session.runSync'],
    };
  }
  return ways;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { device: { type: 'string', default: 'cpu' } } });
  const device = values.device as Device;
  console.log(`${describeMachine()}, ${device}`);
  const weight = randomTensor([1, 1, 1, 1]);
  const input = await randomTensor([1, 1, 1, 1]).to(device);
  const plan = await Conv2d.create(weight, { inputDims: input.dims, device });
  const output = await plan.run(input);
  const direct = new Direct(device, weight, input, output);
  const native = (call: () => void) => [call, 'outside of native code'] as const;
  const ways: Record<string, Way> = {
    conv2dSync: {
      call: () => conv2dSync(input, weight, { device }).dispose(),
      beside: native(() => direct.convolve()),
    },
    conv2d: { call: async () => (await conv2d(input, weight, { device })).dispose() },
    'plan.runSync': {
      call: () => plan.runSync(input).dispose(),
      beside: native(() => direct.run()),
    },
    'plan.runSync into an output': {
      call: () => plan.runSync(input, { output }),
      beside: native(() => direct.runIntoOutput()),
    },
    'plan.run': { call: async () => (await plan.run(input)).dispose() },
    'plan.run into an output': {
      call: () => plan.run(input, { output }),
      beside: [() => plan.runSync(input, { output }), 'longer than plan.runSync'],
    },
    ...(await networkWays(device, input)),
    'conv2dSync, nothing disposed': {
      call: () => conv2dSync(input, weight, { device }),
      beside: native(() => direct.convolve()),
    },
  };
  for (const [name, way] of Object.entries(ways)) await print(name, way);
  direct.dispose();
  plan.dispose();
}

void main();

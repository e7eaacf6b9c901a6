/** Networks in halves on the CPU, which widens them for each step, against the same in float32. */
import type { Done, NativeFailure } from '../../lib/addon';
import { addon } from '../../lib/load';
import { compile, type Compiled } from '../../lib/model/compile';
import { parseOnnx } from '../../lib/model/onnx/load';
import { makeProgram } from '../../lib/session/native_program';
import { InferenceSession } from '../../lib';
import { HALF_NETWORKS, type HalfNetwork } from '../support/half_networks';
import { Random } from '../support/random';
import { shuffledNetwork } from '../support/shuffled_networks';

type Precision = 'fp32' | 'fp16' | 'bf16';

/** A network that is compiled to a precision, whatever sessions would do on the CPU. */
function compiled({ model, dims }: HalfNetwork, precision: Precision): Promise<Compiled> {
  const bindings = { dims: new Map([['x', dims]]), constants: new Map() };
  return compile(parseOnnx(model), bindings, 'auto', undefined, undefined, precision);
}

/** Its outputs. */
async function run({ program }: Compiled, input: Float32Array): Promise<Float32Array[]> {
  const native = await makeProgram({ ...program, store: new (addon().Store)(-1) });
  const failure = await new Promise<NativeFailure | undefined>((resolve: Done) => native.prepare(resolve));
  expect(failure).toBeUndefined();
  const outputs = program.outputBytes.map((bytes) => new Float32Array(bytes / 4));
  native.runSync([input], outputs);
  native.dispose();
  return outputs;
}

/** What roundings of a half may do in some twenty layers, of the largest output */
const BOUNDS = { fp16: 2e-3, bf16: 2e-2 } as const;

describe.each(Object.keys(HALF_NETWORKS))('%s', (name) => {
  const network = HALF_NETWORKS[name]!;
  const count = network.dims.reduce((product, extent) => product * extent, 1);
  const random = new Random(7);
  const input = Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);

  test.each(['fp16', 'bf16'] as const)('in %s', async (precision) => {
    const exact = await run(await compiled(network, 'fp32'), input);
    const halves = await run(await compiled(network, precision), input);
    for (const [i, expected] of exact.entries()) {
      const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const worst = halves[i]!.reduce(
        (most, value, at) => Math.max(most, Math.abs(value - expected[at]!)),
        0,
      );
      expect(largest).toBeGreaterThan(0);
      expect(worst / largest).toBeLessThan(BOUNDS[precision]);
      // Not float32 by mistake
      expect(worst).toBeGreaterThan(0);
    }
  });
});

test('a session on the CPU computes in float32, and says so', async () => {
  const { model } = HALF_NETWORKS.resnet!;
  for (const precision of ['fp32', 'tf32', 'fp16', 'bf16'] as const) {
    await using session = await InferenceSession.create(model, { device: 'cpu', precision });
    const { precision: own, steps } = await session.explain();
    expect(own).toBe('fp32');
    expect(steps.every(({ format }) => format === undefined)).toBe(true);
  }
});

const SHUFFLED = 100;

/** To repeat a failure, set WARPCONV_FUZZ_SEED to the seed in its message: that network comes first. */
test('shuffled channels are those of float32, to the bit', async () => {
  const first = Number(process.env.WARPCONV_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));
  process.stdout.write(`seed ${first}\n`);
  let withoutCopies = 0;
  for (let index = 0; index < SHUFFLED; index++) {
    const seed = (first + index) % 2 ** 32;
    const random = new Random(seed);
    const network = shuffledNetwork(random);
    const size = network.dims.reduce((product, extent) => product * extent, 1);
    const input = Float32Array.from({ length: size }, () => random.integer(-4, 4));
    const [exact, halves] = [await compiled(network, 'fp32'), await compiled(network, 'fp16')];
    const isCopied = ({ steps }: Compiled) => steps.some(({ step }) => step.kind === 'copy');
    if (isCopied(exact) && !isCopied(halves)) withoutCopies++;
    const [expected, found] = [await run(exact, input), await run(halves, input)];
    expect({ seed, outputs: found }).toEqual({ seed, outputs: expected });
  }
  expect(withoutCopies).toBeGreaterThan(SHUFFLED / 20);
});

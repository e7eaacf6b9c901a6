/** Networks in halves on the CPU, which widens them for each step, against the same in float32. */
import type { Done, NativeFailure } from '../../lib/addon';
import { addon } from '../../lib/load';
import { compile } from '../../lib/model/compile';
import { parseOnnx } from '../../lib/model/onnx/load';
import { makeProgram } from '../../lib/session/native_program';
import { InferenceSession } from '../../lib';
import { HALF_NETWORKS } from '../support/half_networks';
import { Random } from '../support/random';

type Precision = 'fp32' | 'fp16' | 'bf16';

/** The outputs of a network that is compiled to a precision, whatever sessions would do on the CPU. */
async function run(name: string, input: Float32Array, precision: Precision): Promise<Float32Array[]> {
  const { model, dims } = HALF_NETWORKS[name]!;
  const bindings = { dims: new Map([['x', dims]]), constants: new Map() };
  const { program } = await compile(parseOnnx(model), bindings, 'auto', undefined, undefined, precision);
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
  const count = HALF_NETWORKS[name]!.dims.reduce((product, extent) => product * extent, 1);
  const random = new Random(7);
  const input = Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);

  test.each(['fp16', 'bf16'] as const)('in %s', async (precision) => {
    const [exact, halves] = [await run(name, input, 'fp32'), await run(name, input, precision)];
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

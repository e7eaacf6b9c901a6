/** A network gives for dims that come later what it gives for them alone. Set WARPCONV_FUZZ_SEED to repeat a failure. */
import { InferenceSession, Tensor } from '../../lib';
import { modelOf, randomDims, randomNodes } from '../support/chained_networks';
import { TEST_DEVICE } from '../support/gpu';
import { Random } from '../support/random';

const NETWORKS = 150;
const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? 1);

async function run(session: InferenceSession, output: string, dims: readonly number[]) {
  const random = new Random(dims.join().length);
  const size = dims.reduce((product, extent) => product * extent, 1);
  const x = new Tensor(
    'float32',
    Float32Array.from({ length: size }, () => 2 * random.uniform() - 1),
    dims,
  );
  const outputs = await session.run({ x });
  return outputs[output]! as Tensor<'float32'>;
}

/** Apart by rounding: with other tensors in between, other factors go into filters. */
function differ(a: Float32Array, b: Float32Array): boolean {
  return a.some((one, i) => {
    const other = b[i]!;
    return !Object.is(one, other) && !(Math.abs(one - other) <= 1e-4 * Math.max(1, Math.abs(other)));
  });
}

test('networks at random, for many dims one after the other', async () => {
  for (let seed = firstSeed; seed < firstSeed + NETWORKS; seed++) {
    const random = new Random(seed);
    const { nodes, output } = randomNodes(random);
    const model = modelOf(nodes, [output]);
    await using session = await InferenceSession.create(model, { device: TEST_DEVICE });
    for (let i = 0; i < 4; i++) {
      const dims = randomDims(random, 1);
      await using alone = await InferenceSession.create(model, { device: TEST_DEVICE });
      const [some, expected] = [await run(session, output, dims), await run(alone, output, dims)];
      const isWrong = differ(some.data, expected.data);
      expect({ seed, dims, ofOutput: some.dims, isWrong }).toEqual({
        seed,
        dims,
        ofOutput: expected.dims,
        isWrong: false,
      });
    }
  }
}, 120_000);

/** The switches for experiments change how sconv computes, show in `explain()`, and change no result. */
import { Conv2d, type SconvSwitches } from '../../lib';
import { expectExact } from '../support/compare';
import { conv2dArguments } from '../support/library';
import { integerOperands, Random, type FuzzProblem } from '../support/random';
import { reference } from '../support/reference';

const seed = Date.now() % 2 ** 32;
const problem: FuzzProblem = {
  inputDims: [2, 40, 23, 31],
  weightDims: [70, 40, 3, 3],
  stride: [1, 1],
  padding: [1, 1, 1, 1],
  dilation: [1, 1],
  groups: 1,
  activation: 'relu',
  bias: true,
  residual: true,
};
const operands = integerOperands(problem, new Random(seed));
const expected = reference(problem, operands);
const [input, weight, options] = conv2dArguments(problem, operands, 'sconv');

/** Runs, checks the result, and returns what the plan says of itself. */
async function explain(sconv: SconvSwitches): Promise<Readonly<Record<string, number>>> {
  const plan = await Conv2d.create(weight, { ...options, sconv, inputDims: problem.inputDims });
  const output = await plan.run(input);
  expectExact(output.data, expected, `seed ${seed}, ${JSON.stringify(sconv)}`);
  const candidate = plan.explain().candidates.find(({ chosen }) => chosen)!;
  plan.dispose();
  return { workspaceBytes: candidate.workspaceBytes!, ...candidate.tiles };
}

test.each<[SconvSwitches, object]>([
  [{}, { packsWindows: 0, packsAhead: 0 }],
  [{ schedule: 'inputStationary' }, { weightStationary: 0 }],
  [{ schedule: 'weightStationary' }, { weightStationary: 1 }],
  [{ presentation: 'asTheyLie' }, { packsWindows: 0 }],
  [{ presentation: 'packed' }, { packsWindows: 1 }],
  [
    { presentation: 'packed', vectorPacking: false },
    { packsWindows: 1, vectorPacking: 0 },
  ],
  [
    { presentation: 'packed', packing: 'ahead' },
    { packsWindows: 1, packsAhead: 1 },
  ],
])('%j', async (sconv, tiles) => {
  expect(await explain(sconv)).toMatchObject(tiles);
});

test('packing ahead asks for a workspace of every tile', async () => {
  const onDemand = await explain({ presentation: 'packed', schedule: 'inputStationary' });
  const ahead = await explain({ presentation: 'packed', schedule: 'inputStationary', packing: 'ahead' });
  const tiles = Math.ceil((23 * 31) / onDemand.N_win!);
  expect(ahead.workspaceBytes).toBe(tiles * onDemand.workspaceBytes!);
});

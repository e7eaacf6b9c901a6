/**
 * Random convolutions, each by every algorithm that accepts it: exact on integers, within the fp32 budget on reals; and some of
 * them once more for each narrower instruction set. Every problem has a seed of its own; to repeat a failure, set
 * WARPCONV_FUZZ_SEED to the one in its message, and that problem comes first. WARPCONV_FUZZ_CASES=3000 tries more.
 */
import { Conv2d, conv2d, conv2dSync, devices, Tensor, type AlgorithmName } from '../../lib';
import { expectExact, expectWithinBudget } from '../support/compare';
import { algorithmsUnderTest, conv2dArguments, KERNEL_FILTERS, withIsa } from '../support/library';
import {
  fuzzProblem,
  integerOperands,
  Random,
  realOperands,
  withExactActivation,
  type FuzzProblem,
} from '../support/random';
import { outputDims, reference, type Operands, type Problem, type Reference } from '../support/reference';

const PROBLEMS = Number(process.env.WARPCONV_FUZZ_CASES ?? 1000);
const CAPPED_PROBLEMS = Math.ceil(PROBLEMS / 4);
/** Milliseconds: on a GPU, a problem has a plan of each of six algorithms. */
const LONGEST = 400_000;
const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 32);

/** A problem, its data, and how its results are compared. */
interface Case {
  readonly seed: number;
  readonly data: 'integers' | 'reals';
  readonly problem: Problem;
  readonly operands: Operands;
  readonly expected: Reference;
  readonly expectAgreement: typeof expectExact;
}

function casesOf(seed: number): Case[] {
  const random = new Random(seed);
  const real = fuzzProblem(random);
  const whole = withExactActivation(real, random);
  return [
    {
      ...caseOf(seed, whole, integerOperands(whole, random)),
      data: 'integers',
      expectAgreement: expectExact,
    },
    { ...caseOf(seed, real, realOperands(real, random)), data: 'reals', expectAgreement: expectWithinBudget },
  ];
}

function caseOf(seed: number, { bias, residual, ...problem }: FuzzProblem, operands: Operands) {
  return { seed, problem, operands, expected: reference(problem, operands) };
}

function describeCase({ seed, data, problem, operands }: Case, algorithm: string): string {
  const extras = `${operands.bias ? ', bias' : ''}${operands.residual ? ', residual' : ''}`;
  const command = `WARPCONV_FUZZ_SEED=${seed} npx jest test/addon/fuzz.test.ts`;
  return `${algorithm}, ${data}${extras}, ${JSON.stringify(problem)}; repeat with ${command}`;
}

/** Most problems go through the synchronous call, the others through each of the asynchronous ones. */
async function run({ seed, problem, operands }: Case, algorithm: AlgorithmName) {
  const [input, weight, options] = conv2dArguments(problem, operands, algorithm);
  if (seed % 8 === 0) return conv2d(input, weight, options);
  if (seed % 8 > 1) return conv2dSync(input, weight, options);
  const plan = await Conv2d.create(weight, { ...options, inputDims: problem.inputDims });
  const output = await plan.run(input);
  plan.dispose();
  return output;
}

async function check(fuzzCase: Case, algorithm: AlgorithmName): Promise<void> {
  const repro = describeCase(fuzzCase, algorithm);
  const output = await run(fuzzCase, algorithm).catch((cause: unknown) => {
    throw new Error(`the call failed: ${repro}`, { cause });
  });
  if (output.dims.join() !== outputDims(fuzzCase.problem).join())
    throw new Error(`dims ${output.dims}: ${repro}`);
  fuzzCase.expectAgreement(output.data, fuzzCase.expected, repro);
}

async function checkProblems(problems: number): Promise<void> {
  process.stdout.write(`fuzz seed ${firstSeed}\n`);
  const runs = new Map<AlgorithmName, number>();
  for (let index = 0; index < problems; index++) {
    for (const fuzzCase of casesOf((firstSeed + index) >>> 0)) {
      for (const { algorithm, refusal } of algorithmsUnderTest(fuzzCase.problem)) {
        const count = runs.get(algorithm) ?? 0;
        if (refusal === undefined) await check(fuzzCase, algorithm);
        else expect(refusal).toMatch(/\w+ \w+/);
        runs.set(algorithm, refusal === undefined ? count + 1 : count);
      }
    }
  }
  process.stdout.write(`fuzz runs ${JSON.stringify(Object.fromEntries(runs))}\n`);
  expect(runs.size).toBeGreaterThan(0);
  for (const [algorithm, count] of runs) expect([algorithm, count > 0]).toEqual([algorithm, true]);
}

test(
  `${PROBLEMS} random convolutions by every algorithm that accepts them`,
  () => checkProblems(PROBLEMS),
  LONGEST,
);

/** The instruction sets below the one that the machine uses by itself. */
function narrowerIsas(): string[] {
  const [isa] = devices().flatMap((device) => (device.type === 'cpu' ? [device.isa] : []));
  const all = Object.keys(KERNEL_FILTERS);
  return all.slice(0, Math.max(0, all.indexOf(isa!)));
}

/** N_f of the micro-kernel in use, for more filters than any has. */
async function filtersInUse(): Promise<number | undefined> {
  const weight = new Tensor('float32', new Float32Array(576), [64, 1, 3, 3]);
  const plan = await Conv2d.create(weight, { inputDims: [1, 1, 8, 8], algorithm: 'sconv', device: 'cpu' });
  return plan.explain().candidates.find(({ algorithm }) => algorithm === 'sconv')?.tiles?.N_f;
}

for (const isa of narrowerIsas()) {
  test(`${CAPPED_PROBLEMS} of them with WARPCONV_ISA=${isa}`, () =>
    withIsa(isa, async () => {
      expect(await filtersInUse()).toBe(KERNEL_FILTERS[isa]);
      await checkProblems(CAPPED_PROBLEMS);
    }));
}

/** What the algorithms owe beyond agreement on ordinary data: small error, honest NaN, equal bits. */
import { Conv2d, conv2dSync } from '../../lib';
import { expectWithinBudget } from '../support/compare';
import { TEST_DEVICE } from '../support/gpu';
import { acceptingAlgorithms, conv2dArguments, algorithmsUnderTest } from '../support/library';
import { fuzzProblem, Random, realOperands } from '../support/random';
import {
  elements,
  reference,
  sequentialFloat32,
  type Activation,
  type Operands,
  type Problem,
} from '../support/reference';

const PLAIN = {
  stride: [1, 1],
  padding: [0, 0, 0, 0],
  dilation: [1, 1],
  groups: 1,
  activation: 'none',
} as const;
const LAYER: Problem = { ...PLAIN, inputDims: [1, 256, 8, 9], weightDims: [24, 256, 3, 3], padding: 'same' };
const POINTWISE: Problem = { ...PLAIN, inputDims: [1, 320, 7, 9], weightDims: [24, 320, 1, 1] };
const STEM: Problem = { ...PLAIN, inputDims: [1, 3, 23, 37], weightDims: [24, 3, 7, 7], stride: [2, 2] };
const DEPTHWISE: Problem = { ...PLAIN, inputDims: [2, 24, 17, 19], weightDims: [24, 1, 5, 5], groups: 24 };

/** Each problem with each algorithm that accepts it, as rows of a test table. */
function byAlgorithm(problems: Record<string, Problem>) {
  return Object.entries(problems).flatMap(([name, problem]) =>
    acceptingAlgorithms(problem).map((algorithm) => ({ name, problem, algorithm })),
  );
}

test('no algorithm of the device refuses every problem of this file', () => {
  const known = algorithmsUnderTest(LAYER).map(({ algorithm }) => algorithm);
  const run = byAlgorithm({ LAYER, POINTWISE, STEM, DEPTHWISE }).map(({ algorithm }) => algorithm);
  expect([...new Set(run)].sort()).toEqual([...known].sort());
});

function dataOf(problem: Problem, value: () => number): Operands {
  const fill = (size: number) => Float32Array.from({ length: size }, value);
  return { input: fill(elements(problem.inputDims)), weight: fill(elements(problem.weightDims)) };
}

describe('on positive data, where roundings do not cancel, the error is at most twice that of a plain sum', () => {
  const random = new Random(1);
  const data = { random: () => random.uniform(), constant: () => 0.1 };

  test.each(byAlgorithm({ full: LAYER, pointwise: POINTWISE, stem: STEM, depthwise: DEPTHWISE }))(
    '$name, $algorithm',
    ({ problem, algorithm }) => {
      for (const [kind, value] of Object.entries(data)) {
        const operands = dataOf(problem, value);
        const { y } = reference(problem, operands);
        const output = conv2dSync(...conv2dArguments(problem, operands, algorithm)).data;
        const allowed = 2 * largestError(sequentialFloat32(problem, operands), y);
        const error = largestError(output, y);
        if (!(error <= allowed)) throw new Error(`${kind} data: error ${error}, allowed ${allowed}`);
      }
    },
  );
});

function largestError(actual: Float32Array, expected: Float64Array): number {
  expect(actual).toHaveLength(expected.length);
  return expected.reduce((most, value, index) => Math.max(most, Math.abs(actual[index]! - value)), 0);
}

describe('NaN and infinity reach the outputs whose windows hold them, and no others', () => {
  const SPECIALS = [NaN, Infinity, -Infinity, 0];

  /** Puts a few special values among ordinary ones. */
  function spoil(data: Float32Array, random: Random): void {
    const count = random.integer(1, 3);
    for (let i = 0; i < count; i++) data[random.integer(0, data.length - 1)] = random.pick(SPECIALS);
  }

  test.each(['input', 'weight', 'bias', 'residual'] as const)('in %s', (operand) => {
    const run = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const random = new Random(seed);
      const problem = { ...fuzzProblem(random), bias: true, residual: true };
      const operands = realOperands(problem, random);
      spoil(operands[operand]!, random);
      const expected = reference(problem, operands);
      for (const algorithm of acceptingAlgorithms(problem)) {
        const output = conv2dSync(...conv2dArguments(problem, operands, algorithm));
        const repro = `seed ${seed}, ${algorithm}, ${JSON.stringify(problem)}`;
        expectWithinBudget(output.data, expected, repro);
        run.add(algorithm);
      }
    }
    expect(run.size).toBe(algorithmsUnderTest(LAYER).length);
  });

  // Every weight that padding meets is special, every other is ordinary: a padded element counts for nothing.
  test.each(
    byAlgorithm({
      full: { ...PLAIN, inputDims: [1, 3, 1, 1], weightDims: [17, 3, 3, 3], padding: [1, 1, 1, 1] },
      depthwise: {
        ...PLAIN,
        inputDims: [1, 17, 1, 1],
        weightDims: [17, 1, 3, 3],
        padding: [1, 1, 1, 1],
        groups: 17,
      },
    }),
  )('$name, $algorithm: nothing leaks out of padding', ({ problem, algorithm }) => {
    const operands = dataOf(problem, () => 0.5);
    operands.weight.forEach((_, index) => {
      if (index % 9 !== 4) operands.weight[index] = SPECIALS[index % 3]!;
    });
    const output = conv2dSync(...conv2dArguments(problem, operands, algorithm));
    const products = problem.weightDims[1];
    expect(Array.from(output.data)).toEqual(Array(17).fill(products * 0.25));
  });
});

describe('activations of special values', () => {
  const input = Float32Array.of(
    NaN,
    Infinity,
    -Infinity,
    0,
    -0,
    1e-30,
    -1e-30,
    3,
    -3,
    6.5,
    -6.5,
    90,
    -90,
    3e38,
    -3e38,
  );
  const activations: readonly Activation[] = [
    'none',
    'relu',
    'relu6',
    'leakyRelu',
    'sigmoid',
    'silu',
    'hardSwish',
    { clip: [-3, 5] },
    { clip: [0, Infinity] },
    { leakyRelu: 0.25 },
  ];

  test.each(activations.map((activation) => ({ activation })))('$activation', ({ activation }) => {
    const problem: Problem = { ...PLAIN, inputDims: [1, 1, 1, 15], weightDims: [1, 1, 1, 1], activation };
    const operands = { input, weight: Float32Array.of(1) };
    for (const algorithm of acceptingAlgorithms(problem)) {
      const output = conv2dSync(...conv2dArguments(problem, operands, algorithm));
      expectWithinBudget(output.data, reference(problem, operands), algorithm);
    }
  });
});

test.each(byAlgorithm({ full: LAYER, pointwise: POINTWISE, stem: STEM, depthwise: DEPTHWISE }))(
  '$name, $algorithm: every run of a plan, and of its twin, has the same bits',
  async ({ problem, algorithm }) => {
    const random = new Random(2);
    const operands = dataOf(problem, () => 2 * random.uniform() - 1);
    const [input, weight, options] = conv2dArguments(problem, operands, algorithm);
    const create = () => Conv2d.create(weight, { ...options, inputDims: problem.inputDims });
    const [plan, twin] = [await create(), await create()];
    const outputs = await Promise.all([plan.run(input), plan.run(input), twin.run(input)]);
    outputs.push(plan.runSync(input));
    plan.dispose();
    twin.dispose();
    const [first, ...others] = outputs.map(({ data }) => Buffer.from(data.buffer));
    for (const other of others) expect(other.equals(first!)).toBe(true);
  },
);

// Taken out of the global object once: looking them up there, for every number, is very slow under Jest.
const { abs, exp, floor, fround, log2, max, min } = Math;

describe('every activation of any float', () => {
  const random = new Random(1);
  const bits = Uint32Array.from({ length: 254 * 8 }, (_, i) => {
    const mantissa = [0, 0x7fffff][i % 4] ?? random.integer(0, 0x7fffff);
    return (i % 8 < 4 ? 0 : 0x80000000) + (floor(i / 8) + 1) * 0x800000 + mantissa;
  });
  const normal = [...new Float32Array(bits.buffer)];
  // Tensor cores read fewer bits of numbers below 2^-110.
  const least = TEST_DEVICE === 'cpu' ? 0 : 2 ** -100;
  const subnormal = [2 ** -149, -3 * 2 ** -149, 1e-39, -1e-40, 1.1754942e-38].map(fround);
  const points = [...normal, ...subnormal].map((x) => (abs(x) < least ? 0 : x));
  const one: Problem = { ...PLAIN, inputDims: [1, 1, 1, points.length], weightDims: [9, 1, 1, 1] };
  const each: Problem = { ...one, inputDims: [1, 9, 1, points.length], groups: 9 };

  const sigmoid = (x: number) => (x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)));
  const functions: readonly (readonly [Activation, number, (x: number) => number])[] = [
    ['none', 0, (x) => x],
    ['relu', 0, (x) => max(0, x)],
    ['relu6', 0, (x) => min(6, max(0, x))],
    [{ clip: [-3, 5] }, 0, (x) => min(5, max(-3, x))],
    [{ leakyRelu: -2.5 }, 0.5, (x) => (x < 0 ? -2.5 * x : x)],
    ['sigmoid', 4, sigmoid],
    ['silu', 5, (x) => x * sigmoid(x)],
    ['hardSwish', 2, (x) => (x * min(6, max(0, x + 3))) / 6],
  ];
  const rows = Object.entries({ one, each }).flatMap(([name, problem]) =>
    acceptingAlgorithms(problem).flatMap((algorithm) =>
      functions.map(([activation, ulps, exact]) => ({ name, problem, algorithm, activation, ulps, exact })),
    ),
  );

  test.each(rows)('$name, $algorithm, $activation', ({ problem, algorithm, activation, ulps, exact }) => {
    const repeats = problem.groups;
    const operands: Operands = {
      input: Float32Array.from({ length: repeats * points.length }, (_, i) => points[i % points.length]!),
      weight: new Float32Array(9).fill(1),
    };
    const output = conv2dSync(...conv2dArguments({ ...problem, activation }, operands, algorithm)).data;
    output.forEach((actual, i) => {
      const x = points[i % points.length]!;
      const expected = exact(x);
      const ulp = max(2 ** -149, 2 ** (floor(log2(abs(expected))) - 23));
      // Below -87 silu multiplies a subnormal sigmoid by x.
      const allowed = (ulps + 0.01) * ulp + (activation === 'silu' ? 1.5e-43 : 0);
      if (fround(expected) === actual || abs(actual - expected) <= allowed) return;
      throw new Error(`of ${x} is ${actual}, not ${expected}`);
    });
  });
});

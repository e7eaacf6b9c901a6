/** The oracle, and then the library, against convolutions that PyTorch computed in double precision. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { conv2dSync } from '../../lib';
import { expectWithinBudget } from '../support/compare';
import { acceptingAlgorithms, conv2dArguments } from '../support/library';
import {
  elements,
  outputDims,
  reference,
  type Dims,
  type Operands,
  type Problem,
} from '../support/reference';

interface Fixture extends Omit<Problem, 'activation'> {
  readonly name: string;
  readonly bias: boolean;
  readonly residual: boolean;
  readonly activation: Extract<Problem['activation'], string> | 'clip';
  readonly outputDims: Dims;
  readonly output: readonly number[];
}

const file = path.join(__dirname, '..', 'fixtures', 'pytorch_conv2d.json');
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: Fixture[] };

/** The data rule of scripts/make_fixtures.py. */
function values(size: number, salt: number): Float32Array {
  const bits = (i: number) => (Math.imul(i + 1, 2654435761) + salt * 40503) >>> 8;
  return Float32Array.from({ length: size }, (_, i) => bits(i) / 2 ** 23 - 1);
}

function problemOf(fixture: Fixture): Problem {
  const { activation } = fixture;
  return { ...fixture, activation: activation === 'clip' ? { clip: [-0.5, 0.75] } : activation };
}

function operandsOf({ inputDims, weightDims, outputDims, bias, residual }: Fixture): Operands {
  return {
    input: values(elements(inputDims), 1),
    weight: values(elements(weightDims), 2),
    bias: bias ? values(weightDims[0], 3) : undefined,
    residual: residual ? values(elements(outputDims), 4) : undefined,
  };
}

test('there are fixtures for every activation and both padding modes', () => {
  const wanted = [
    'none',
    'relu',
    'relu6',
    'leakyRelu',
    'sigmoid',
    'silu',
    'hardSwish',
    'clip',
    'same',
    'valid',
  ];
  const present = cases.flatMap(({ activation, padding }) => [activation, padding]);
  expect(present).toEqual(expect.arrayContaining(wanted));
});

describe.each(cases.map((fixture) => [fixture.name, fixture] as const))('%s', (name, fixture) => {
  const problem = problemOf(fixture);
  const operands = operandsOf(fixture);

  test('the oracle agrees with PyTorch', () => {
    expect(outputDims(problem)).toEqual(fixture.outputDims);
    // The fixtures have 12 decimal digits.
    const { bound } = reference(problem, operands);
    const pytorch = { y: Float64Array.from(fixture.output), bound };
    expectWithinBudget(reference(problem, operands).y, pytorch, name, 1e-10);
  });

  test.each(acceptingAlgorithms(problem))('%s agrees with PyTorch', (algorithm) => {
    const output = conv2dSync(...conv2dArguments(problem, operands, algorithm));
    expect(output.dims).toEqual(fixture.outputDims);
    const { bound } = reference(problem, operands);
    expectWithinBudget(output.data, { y: Float64Array.from(fixture.output), bound }, name);
  });
});

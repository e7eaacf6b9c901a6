/**
 * LSTM, GRU and RNN in float64, over more steps than the fuzz draws, against recurrences that are written out here. The
 * fuzz has their attributes.
 */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, typedTensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

type Attributes = Parameters<typeof node>[3];

const OUTPUTS = { RNN: ['y', 'h'], GRU: ['y', 'h'], LSTM: ['y', 'h', 'c'] };
const GATES = { RNN: 1, GRU: 3, LSTM: 4 };

interface Weights {
  /** By gate */
  readonly w: readonly number[];
  readonly r: readonly number[];
  /** Of the input, and then of the state */
  readonly b: readonly number[];
}

/** One unit over one input. */
function weightsOf(cell: keyof typeof GATES, seed: number): Weights {
  const random = new Random(seed);
  const some = (count: number) => Array.from({ length: count }, () => 2 * random.uniform() - 1);
  return { w: some(GATES[cell]), r: some(GATES[cell]), b: some(2 * GATES[cell]) };
}

interface Run {
  readonly cell: keyof typeof GATES;
  /** [steps, batch] */
  readonly x: readonly (readonly number[])[];
  /** By direction */
  readonly weights: readonly Weights[];
  readonly attributes?: Attributes;
  readonly lengths?: readonly number[];
}

async function run({ cell, x, weights, attributes, lengths }: Run) {
  const [steps, batch, directions, gates] = [x.length, x[0]!.length, weights.length, GATES[cell]];
  const all = (of: keyof Weights) => weights.flatMap((one) => one[of]);
  const bytes = onnxModel({
    opset: 14,
    inputs: [value('x', [steps, batch, 1], 'float64')],
    initializers: [
      typedTensor('w', [directions, gates, 1], all('w'), 'float64'),
      typedTensor('r', [directions, gates, 1], all('r'), 'float64'),
      typedTensor('b', [directions, 2 * gates], all('b'), 'float64'),
      ...(lengths === undefined ? [] : [typedTensor('lengths', [batch], lengths, 'int32')]),
    ],
    nodes: [
      node(cell, ['x', 'w', 'r', 'b', lengths === undefined ? '' : 'lengths'], OUTPUTS[cell], {
        hidden_size: 1,
        ...attributes,
      }),
    ],
    outputs: OUTPUTS[cell].map((name) => value(name, undefined, 'float64')),
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const feeds = { x: new Tensor('float64', Float64Array.from(x.flat()), [steps, batch, 1]) };
  const made = Object.entries(await session.run(feeds));
  expect(made.map(([, { type }]) => type)).toEqual(made.map(() => 'float64'));
  return Object.fromEntries(made.map(([name, { data }]) => [name, Array.from(data as Float64Array)]));
}

type State = readonly [h: number, c: number];

const { exp, tanh } = Math;
const sigmoid = (x: number) => 1 / (1 + exp(-x));

const STEPS: Readonly<Record<keyof typeof GATES, (weights: Weights, x: number, state: State) => State>> = {
  RNN: ({ w, r, b }, x, [h, c]) => [tanh(w[0]! * x + r[0]! * h + b[0]! + b[1]!), c],
  GRU({ w, r, b }, x, [h, c]) {
    const gate = (i: number) => sigmoid(w[i]! * x + r[i]! * h + b[i]! + b[3 + i]!);
    const candidate = tanh(w[2]! * x + r[2]! * (gate(1) * h) + b[2]! + b[5]!);
    return [(1 - gate(0)) * candidate + gate(0) * h, c];
  },
  LSTM({ w, r, b }, x, [h, c]) {
    const sum = (i: number) => w[i]! * x + r[i]! * h + b[i]! + b[4 + i]!;
    const next = sigmoid(sum(2)) * c + sigmoid(sum(0)) * tanh(sum(3));
    return [sigmoid(sum(1)) * tanh(next), next];
  },
};

/** The states of a sequence, the first of them from before it. */
function statesOf(cell: keyof typeof GATES, weights: Weights, sequence: readonly number[]): State[] {
  const states: State[] = [[0, 0]];
  for (const x of sequence) states.push(STEPS[cell](weights, x, states.at(-1)!));
  return states;
}

function sequences(steps: number, batch: number): number[][] {
  const random = new Random(steps);
  return Array.from({ length: steps }, () => Array.from({ length: batch }, () => 4 * random.uniform() - 2));
}

/** Some hundred roundings in float64, of numbers below 2, none of which grows from step to step. float32 is off by 1e-8. */
const CLOSE = 1e-13;

function expectClose(made: readonly number[] | undefined, expected: readonly number[]): void {
  expect(made).toHaveLength(expected.length);
  expected.forEach((one, i) => expect(Math.abs(made![i]! - one)).toBeLessThan(CLOSE));
}

describe.each(['RNN', 'GRU', 'LSTM'] as const)('%s', (cell) => {
  test('of as many steps as it takes', async () => {
    const [x, weights] = [sequences(256, 2), weightsOf(cell, 1)];
    const made = await run({ cell, x, weights: [weights] });
    const states = [0, 1].map((b) =>
      statesOf(
        cell,
        weights,
        x.map((row) => row[b]!),
      ),
    );
    expectClose(
      made.y,
      x.flatMap((_, t) => states.map((one) => one[t + 1]![0])),
    );
    expectClose(
      made.h,
      states.map((one) => one.at(-1)![0]),
    );
    if (cell === 'LSTM')
      expectClose(
        made.c,
        states.map((one) => one.at(-1)![1]),
      );
  });

  test('in both directions, of sequences that end early', async () => {
    const [x, lengths] = [sequences(6, 3), [4, 6, 1]];
    const both = [weightsOf(cell, 2), weightsOf(cell, 3)] as const;
    const made = await run({ cell, x, weights: both, lengths, attributes: { direction: 'bidirectional' } });
    const own = lengths.map((length, b) => x.slice(0, length).map((row) => row[b]!));
    const forward = own.map((sequence) => statesOf(cell, both[0], sequence));
    const backward = own.map((sequence) => statesOf(cell, both[1], sequence.toReversed()));
    // What lies behind the end of a sequence is 0.
    const at = (t: number, b: number, state: State | undefined) => (t < lengths[b]! ? state![0] : 0);
    expectClose(
      made.y,
      x.flatMap((_, t) => [
        ...forward.map((states, b) => at(t, b, states[t + 1])),
        ...backward.map((states, b) => at(t, b, states[lengths[b]! - t])),
      ]),
    );
    expectClose(
      made.h,
      [...forward, ...backward].map((states) => states.at(-1)![0]),
    );
  });

  test('of more steps is refused, and says what would do', async () => {
    const long = run({ cell, x: sequences(257, 1), weights: [weightsOf(cell, 1)] });
    await expect(long).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringMatching(
        /takes 257 steps in float64; here it can take 256, or any number in float32: cast its inputs/,
      ) as string,
    });
  });
});

test('both directions count', async () => {
  const weights = [weightsOf('RNN', 1), weightsOf('RNN', 2)];
  const long = run({
    cell: 'RNN',
    x: sequences(129, 1),
    weights,
    attributes: { direction: 'bidirectional' },
  });
  await expect(long).rejects.toThrow(/takes 258 steps in float64/);
});

/** Weights below 2^-126 are 0 in networks; what runs bring, and constants of other operators, are what they are. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import {
  float,
  floats,
  node,
  onnxModel,
  subgraph,
  tensor,
  value,
  type OnnxModel,
} from '../support/onnx_builder';

const SMALL = 2 ** -130;
const LARGE = 2 ** 100;

async function run(model: OnnxModel, feeds: Record<string, Tensor>): Promise<number[]> {
  await using session = await InferenceSession.create(onnxModel(model), { device: TEST_DEVICE });
  const { y } = await session.run(feeds);
  return Array.from(y!.data as Float32Array);
}

const x = new Tensor('float32', [LARGE, LARGE], [1, 2, 1, 1]);
const conv = {
  inputs: [value('x', [1, 2, 1, 1])],
  outputs: [value('y')],
  nodes: [node('Conv', ['x', 'w'], ['y'])],
};

test('filters have none, and keep the least normal numbers', async () => {
  const w = tensor('w', [2, 2, 1, 1], [SMALL, 2 ** -126, -SMALL, 0]);
  expect(await run({ ...conv, initializers: [w] }, { x })).toEqual([2 ** -26, 0]);
});

test('nor have filters in the branch that is taken', async () => {
  const branch = (name: string, factor: number) => ({
    initializers: [tensor(`w${name}`, [1, 2, 1, 1], [SMALL, factor])],
    nodes: [node('Conv', ['x', `w${name}`], [`y${name}`])],
    outputs: [value(`y${name}`)],
  });
  const model = {
    ...conv,
    inputs: [...conv.inputs, value('is', [], 'bool')],
    nodes: [
      node('If', ['is'], ['y'], {
        then_branch: subgraph(branch('a', 1)),
        else_branch: subgraph(branch('b', 2)),
      }),
    ],
  };
  expect(await run(model, { x, is: new Tensor('bool', [true], []) })).toEqual([LARGE]);
  expect(await run(model, { x, is: new Tensor('bool', [false], []) })).toEqual([2 * LARGE]);
});

test('nor have filters that a node stands for', async () => {
  const w = tensor('', [2, 2, 1, 1], [SMALL, 2 ** -126, -SMALL, 0]);
  const nodes = [node('Constant', [], ['w'], { value: w }), ...conv.nodes];
  expect(await run({ ...conv, nodes }, { x })).toEqual([2 ** -26, 0]);
});

test('nor has a list of numbers that a node in a branch stands for', async () => {
  const branch = (name: string, factor: number) => ({
    nodes: [
      node('Constant', [], [`w${name}`], { value_floats: floats(SMALL, factor) }),
      node('MatMul', ['x', `w${name}`], [`y${name}`]),
    ],
    outputs: [value(`y${name}`)],
  });
  const model = {
    inputs: [value('x', [1, 2]), value('is', [], 'bool')],
    outputs: [value('y')],
    nodes: [
      node('If', ['is'], ['y'], {
        then_branch: subgraph(branch('a', 1)),
        else_branch: subgraph(branch('b', 2)),
      }),
    ],
  };
  const row = new Tensor('float32', [LARGE, 2 ** -20], [1, 2]);
  expect(await run(model, { x: row, is: new Tensor('bool', [true], []) })).toEqual([2 ** -20]);
  expect(await run(model, { x: row, is: new Tensor('bool', [false], []) })).toEqual([2 ** -19]);
});

test('other operators read all bits of what a node stands for', async () => {
  const model = {
    inputs: [value('x', [1])],
    outputs: [value('y')],
    nodes: [node('Constant', [], ['c'], { value_float: float(SMALL) }), node('Mul', ['x', 'c'], ['y'])],
  };
  expect(await run(model, { x: new Tensor('float32', [LARGE], [1]) })).toEqual([2 ** -30]);
});

test('the weights that a run brings have them, and so have other constants', async () => {
  const w = new Tensor('float32', [SMALL, 0], [1, 2, 1, 1]);
  expect(await run({ ...conv, inputs: [...conv.inputs, value('w', [1, 2, 1, 1])] }, { x, w })).toEqual([
    2 ** -30,
  ]);
  const model = {
    inputs: [value('x', [1])],
    outputs: [value('y')],
    initializers: [tensor('c', [1], [SMALL])],
    nodes: [node('Mul', ['x', 'c'], ['y'])],
  };
  expect(await run(model, { x: new Tensor('float32', [LARGE], [1]) })).toEqual([2 ** -30]);
});

test('scales of batch normalisation have none, and variances have', async () => {
  const ones = (name: string) => tensor(name, [2], [1, 1]);
  const zeros = (name: string) => tensor(name, [2], [0, 0]);
  const nodes = [
    node('BatchNormalization', ['x', 'scale', 'bias', 'mean', 'variance'], ['y'], { epsilon: float(0) }),
  ];
  const scaled = [tensor('scale', [2], [SMALL, 1]), zeros('bias'), zeros('mean'), ones('variance')];
  expect(await run({ ...conv, initializers: scaled, nodes }, { x })).toEqual([0, LARGE]);
  const varied = [ones('scale'), zeros('bias'), zeros('mean'), tensor('variance', [2], [SMALL, 1])];
  const small = new Tensor('float32', [SMALL, 1], [1, 2, 1, 1]);
  expect(await run({ ...conv, initializers: varied, nodes }, { x: small })).toEqual([2 ** -65, 1]);
});

test('a model of NaN keeps it', async () => {
  const w = tensor('w', [2, 2, 1, 1], [NaN, SMALL, SMALL, 1]);
  expect(await run({ ...conv, initializers: [w] }, { x })).toEqual([NaN, LARGE]);
});

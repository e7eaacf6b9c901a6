/** Which networks are proved to keep rows apart. That joined rows come out as alone is fuzzed with the server's tests. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { parseOnnx } from '../../../lib/model/onnx/load';
import { rowFunction } from '../../../lib/model/rows';
import {
  float,
  node,
  onnxModel,
  tensor,
  value,
  type OnnxModel,
  type OnnxType,
} from '../../support/onnx_builder';
import { Random } from '../../support/random';

const random = new Random(1);
const reals = (count: number) => Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);
const real = (name: string, ...dims: number[]) =>
  tensor(name, dims, reals(dims.reduce((product, extent) => product * extent, 1)));
const ints = (name: string, ...elements: number[]) => tensor(name, [elements.length], elements, 'int64');
const int = (name: string, element: number) => tensor(name, [], [element], 'int64');

/** What one row computes, for 1, 2, 3 and 5 rows of x and all other inputs. */
function functions(model: OnnxModel, row: readonly number[]): (string | undefined)[] {
  const graph = parseOnnx(onnxModel(model));
  return [1, 2, 3, 5].map((rows) =>
    rowFunction(graph, new Map(graph.inputs.map(({ name }) => [name, [rows, ...row]]))),
  );
}

interface Case extends Pick<OnnxModel, 'nodes' | 'initializers' | 'opset'> {
  /** The dims of x without its rows */
  readonly row: readonly number[];
  readonly type?: OnnxType;
}

function functionsOf({ row, type, ...model }: Case): (string | undefined)[] {
  const inputs = [value('x', ['N', ...row], type)];
  return functions({ inputs, outputs: [value('y')], ...model }, row);
}

const IMAGE = [4, 8, 8];
const SEQUENCE = [6, 8];
const conv = (from: string, weight: string, to: string, attributes = {}) =>
  node('Conv', [from, weight], [to], { pads: [1, 1, 1, 1], ...attributes });
const norm = (from: string, to: string) => node('BatchNormalization', [from, 's', 'b', 'm', 'v'], [to]);
const statistics = (count: number) => [
  ...['s', 'b', 'm'].map((name) => real(name, count)),
  tensor('v', [count], new Float32Array(count).fill(1)),
];

/** The number of rows as a tensor of dims []. */
const countRows = [node('Shape', ['x'], ['shape']), node('Gather', ['shape', 'zero'], ['rows'])];
const zero = int('zero', 0);

const SEPARATE: Readonly<Record<string, Case>> = {
  'a residual block': {
    row: IMAGE,
    initializers: [real('w', 4, 4, 3, 3), ...statistics(4)],
    nodes: [
      conv('x', 'w', 'c'),
      norm('c', 'n'),
      node('Relu', ['n'], ['r']),
      conv('r', 'w', 'd'),
      node('Add', ['d', 'x'], ['a']),
      node('Relu', ['a'], ['y']),
    ],
  },
  'a depthwise block with squeeze and excitation': {
    row: IMAGE,
    initializers: [real('w', 4, 1, 3, 3), real('p', 4, 4, 1, 1)],
    nodes: [
      conv('x', 'w', 'c', { group: 4 }),
      node('HardSwish', ['c'], ['h']),
      node('GlobalAveragePool', ['h'], ['g']),
      node('Conv', ['g', 'p'], ['e']),
      node('HardSigmoid', ['e'], ['s']),
      node('Mul', ['h', 's'], ['y']),
    ],
  },
  'dense blocks, joined by channel': {
    row: IMAGE,
    initializers: [real('w', 4, 4, 3, 3), real('u', 4, 8, 3, 3)],
    nodes: [
      conv('x', 'w', 'c'),
      node('Concat', ['x', 'c'], ['d'], { axis: 1 }),
      conv('d', 'u', 'e'),
      node('Concat', ['d', 'e'], ['y'], { axis: 1 }),
    ],
  },
  'a channel shuffle after a split': {
    row: IMAGE,
    initializers: [ints('five', -1, 2, 2, 8, 8), ints('four', -1, 4, 8, 8), ints('halves', 2, 2)],
    nodes: [
      node('Split', ['x', 'halves'], ['a', 'b'], { axis: 1 }),
      node('Relu', ['b'], ['r']),
      node('Concat', ['a', 'r'], ['c'], { axis: 1 }),
      node('Reshape', ['c', 'five'], ['f']),
      node('Transpose', ['f'], ['t'], { perm: [0, 2, 1, 3, 4] }),
      node('Reshape', ['t', 'four'], ['y']),
    ],
  },
  'a classifier of flattened maps': {
    row: IMAGE,
    initializers: [real('w', 10, 64), real('b', 10)],
    nodes: [
      node('MaxPool', ['x'], ['p'], { kernel_shape: [2, 2], strides: [2, 2] }),
      node('Flatten', ['p'], ['f']),
      node('Gemm', ['f', 'w', 'b'], ['g'], { transB: 1 }),
      node('Softmax', ['g'], ['y'], { axis: -1 }),
    ],
  },
  'a detection head that keeps the batch': {
    row: IMAGE,
    initializers: [
      real('w', 10, 4, 3, 3),
      ints('to', 0, 2, 5, -1),
      ints('flat', 0, -1, 5),
      real('anchors', 1, 128, 5),
    ],
    nodes: [
      conv('x', 'w', 'c'),
      node('Reshape', ['c', 'to'], ['r']),
      node('Transpose', ['r'], ['t'], { perm: [0, 1, 3, 2] }),
      node('Reshape', ['t', 'flat'], ['f']),
      node('Sigmoid', ['f'], ['s']),
      node('Add', ['s', 'anchors'], ['y']),
    ],
  },
  'a transformer block with heads': {
    row: SEQUENCE,
    initializers: [
      ...['q', 'k', 'v', 'o'].map((name) => real(name, 8, 8)),
      ...[real('g', 8), real('h', 8)],
      ints('heads', 0, 6, 2, 4),
      ints('joined', 0, 0, -1),
      tensor('scale', [], [0.5]),
    ],
    nodes: [
      node('LayerNormalization', ['x', 'g', 'h'], ['n']),
      ...['q', 'k', 'v'].flatMap((name) => [
        node('MatMul', ['n', name], [`${name}0`]),
        node('Reshape', [`${name}0`, 'heads'], [`${name}1`]),
        node('Transpose', [`${name}1`], [`${name}2`], { perm: name === 'k' ? [0, 2, 3, 1] : [0, 2, 1, 3] }),
      ]),
      node('MatMul', ['q2', 'k2'], ['scores']),
      node('Mul', ['scores', 'scale'], ['scaled']),
      node('Softmax', ['scaled'], ['attention'], { axis: -1 }),
      node('MatMul', ['attention', 'v2'], ['mixed']),
      node('Transpose', ['mixed'], ['back'], { perm: [0, 2, 1, 3] }),
      node('Reshape', ['back', 'joined'], ['flat']),
      node('MatMul', ['flat', 'o'], ['out']),
      node('Add', ['x', 'out'], ['y']),
    ],
  },
  'one head, whose product has an axis less alone': {
    row: SEQUENCE,
    nodes: [
      node('Transpose', ['x'], ['t'], { perm: [0, 2, 1] }),
      node('MatMul', ['x', 't'], ['s']),
      node('MatMul', ['s', 'x'], ['y']),
    ],
  },
  'a class token that is expanded to the batch': {
    row: SEQUENCE,
    initializers: [
      real('token', 1, 1, 8),
      real('positions', 1, 7, 8),
      zero,
      int('one', 1),
      ints('front', 0),
      ints('rest', 1, 8),
    ],
    nodes: [
      ...countRows,
      node('Unsqueeze', ['rows', 'front'], ['n']),
      node('Concat', ['n', 'rest'], ['dims'], { axis: 0 }),
      node('Expand', ['token', 'dims'], ['tokens']),
      node('Concat', ['tokens', 'x'], ['c'], { axis: 1 }),
      node('Add', ['c', 'positions'], ['p']),
      node('Softmax', ['p'], ['s'], { axis: -1 }),
      node('Gather', ['s', 'zero'], ['y'], { axis: 1 }),
    ],
  },
  'an embedding, with zeros made for the batch': {
    row: [6],
    type: 'int64',
    initializers: [real('words', 20, 8), real('types', 2, 8)],
    nodes: [
      node('Gather', ['words', 'x'], ['w']),
      node('Shape', ['x'], ['dims']),
      node('ConstantOfShape', ['dims'], ['ids'], { value: tensor('', [1], [1], 'int64') }),
      node('Gather', ['types', 'ids'], ['t']),
      node('Add', ['w', 't'], ['y']),
    ],
  },
  'a pyramid of transposed convolution, resizing and padding': {
    row: IMAGE,
    initializers: [
      real('up', 4, 4, 2, 2),
      real('w', 4, 4, 3, 3),
      tensor('scales', [4], [1, 1, 2, 2]),
      ints('pads', 0, 0, 1, 0, 0, 0, 0, 1),
      ints('reflected', 0, 0, 0, 2, 0, 0, 2, 0),
    ],
    nodes: [
      node('ConvTranspose', ['x', 'up'], ['a'], { strides: [2, 2] }),
      node('Resize', ['x', '', 'scales'], ['b'], { mode: 'linear' }),
      node('Resize', ['x', '', 'scales'], ['c'], { mode: 'nearest' }),
      node('Concat', ['a', 'b', 'c'], ['d'], { axis: 1 }),
      node('Pad', ['d', 'pads'], ['p']),
      node('Pad', ['p', 'reflected'], ['y'], { mode: 'reflect' }),
    ],
  },
  'what normalises, reduces and selects within a row': {
    row: IMAGE,
    initializers: [
      ...statistics(4),
      ints('last', -1),
      ints('first', 3),
      ints('end', -9),
      ints('axis', 1),
      ints('step', -1),
    ],
    nodes: [
      node('LRN', ['x'], ['l'], { size: 3 }),
      node('InstanceNormalization', ['l', 's', 'b'], ['i']),
      node('Slice', ['i', 'first', 'end', 'axis', 'step'], ['f']),
      node('ReduceMax', ['f'], ['r'], { axes: [1, 3], keepdims: 1 }),
      node('Sub', ['f', 'r'], ['d']),
      node('DepthToSpace', ['d'], ['p'], { blocksize: 2 }),
      node('ArgMax', ['p'], ['y'], { axis: 2 }),
    ],
  },
  'rows that are several of another axis': {
    row: SEQUENCE,
    initializers: [ints('tall', -1, 8), ints('back', -1, 6, 8), real('w', 8, 8)],
    nodes: [
      node('Reshape', ['x', 'tall'], ['t']),
      node('Gemm', ['t', 'w'], ['g']),
      node('Softmax', ['g'], ['s'], { axis: 1 }),
      node('Reshape', ['s', 'back'], ['y']),
    ],
  },
};

test.each(Object.entries(SEPARATE))('%s is the same function of a row beside others', (_, one) => {
  const names = functionsOf(one);
  expect(names[0]).toEqual(expect.any(String));
  expect(new Set(names).size).toBe(1);
});

test('the networks that PyTorch exported are the same function of a row beside others', () => {
  const fixtures = JSON.parse(readFileSync(path.join(__dirname, '../../fixtures/networks.json'), 'utf8')) as {
    cases: { name: string; model: string }[];
  };
  const graphs = fixtures.cases.map(({ model }) => parseOnnx(Buffer.from(model, 'base64')));
  const single = graphs.filter(({ inputs }) => inputs.length === 1);
  expect(single.length).toBeGreaterThan(50);
  for (const graph of single) {
    const [{ name, shape }] = graph.inputs as [(typeof graph.inputs)[0]];
    const names = [1, 2, 7].map((rows) =>
      rowFunction(graph, new Map([[name, (shape as number[]).with(0, rows)]])),
    );
    expect([typeof names[0], new Set(names).size]).toEqual(['string', 1]);
  }
});

const MIXED: Readonly<Record<string, Case>> = {
  'a softmax over the batch': { row: [8], nodes: [node('Softmax', ['x'], ['y'], { axis: 0 })] },
  'a softmax over the batch with all else': {
    row: [8],
    opset: 11,
    nodes: [node('Softmax', ['x'], ['y'], { axis: 0 })],
  },
  'a mean over the batch': {
    row: [8],
    nodes: [node('ReduceMean', ['x'], ['m'], { axes: [0] }), node('Sub', ['x', 'm'], ['y'])],
  },
  'a mean over the batch and the maps': {
    row: IMAGE,
    nodes: [node('ReduceMean', ['x'], ['m'], { axes: [0, 2, 3] }), node('Sub', ['x', 'm'], ['y'])],
  },
  'a mean over everything': {
    row: [8],
    nodes: [node('ReduceMean', ['x'], ['m'], { keepdims: 0 }), node('Sub', ['x', 'm'], ['y'])],
  },
  'a normalisation of the batch as one row': {
    row: [8],
    initializers: [ints('flat', 1, -1)],
    nodes: [
      node('Shape', ['x'], ['shape']),
      node('Reshape', ['x', 'flat'], ['f']),
      node('LogSoftmax', ['f'], ['s']),
      node('Reshape', ['s', 'shape'], ['y']),
    ],
  },
  'similarities of rows': {
    row: [8],
    nodes: [
      node('Transpose', ['x'], ['t']),
      node('MatMul', ['x', 't'], ['s']),
      node('MatMul', ['s', 'x'], ['y']),
    ],
  },
  'rows in reverse': {
    row: [8],
    initializers: [ints('start', -1), ints('end', -99), ints('axis', 0), ints('step', -1)],
    nodes: [node('Slice', ['x', 'start', 'end', 'axis', 'step'], ['y'])],
  },
  'rows moved on by one': {
    row: [8],
    initializers: [ints('begin', 0), ints('one', 1), ints('end', 99), ints('axis', 0)],
    nodes: [
      node('Slice', ['x', 'begin', 'one', 'axis'], ['a']),
      node('Slice', ['x', 'one', 'end', 'axis'], ['b']),
      node('Concat', ['b', 'a'], ['y'], { axis: 0 }),
    ],
  },
  'the first row, added to all': {
    row: [8],
    initializers: [int('zero', 0)],
    nodes: [node('Gather', ['x', 'zero'], ['f'], { axis: 0 }), node('Add', ['x', 'f'], ['y'])],
  },
  'rows read as columns': {
    row: [8],
    nodes: [
      node('Shape', ['x'], ['shape']),
      node('Transpose', ['x'], ['t']),
      node('Relu', ['t'], ['r']),
      node('Reshape', ['r', 'shape'], ['y']),
    ],
  },
  'a division by the number of rows': {
    row: [8],
    initializers: [zero],
    nodes: [...countRows, node('Cast', ['rows'], ['n'], { to: 1 }), node('Div', ['x', 'n'], ['y'])],
  },
  'a bound of the number of rows': {
    row: [8],
    initializers: [zero],
    nodes: [...countRows, node('Cast', ['rows'], ['n'], { to: 1 }), node('Clip', ['x', '', 'n'], ['y'])],
  },
  'the number of each row, added to it': {
    row: [8],
    initializers: [zero, int('one', 1), ints('back', 1)],
    nodes: [
      ...countRows,
      node('Range', ['zero', 'rows', 'one'], ['numbers']),
      node('Cast', ['numbers'], ['n'], { to: 1 }),
      node('Unsqueeze', ['n', 'back'], ['column']),
      node('Add', ['x', 'column'], ['y']),
    ],
  },
  'a product with the sum of a one for each element': {
    row: [8],
    nodes: [
      node('Shape', ['x'], ['shape']),
      node('ConstantOfShape', ['shape'], ['ones'], { value: tensor('', [1], [1]) }),
      node('ReduceSum', ['ones'], ['count'], { keepdims: 0 }),
      node('Mul', ['x', 'count'], ['y']),
    ],
  },
  'a normalisation that takes rows for channels': {
    row: [8, 8],
    initializers: [ints('front', 0)],
    nodes: [
      node('Unsqueeze', ['x', 'front'], ['u']),
      node('LRN', ['u'], ['l'], { size: 3 }),
      node('Squeeze', ['l', 'front'], ['y']),
    ],
  },
  'a filter made of the input': {
    row: [4, 8, 8],
    initializers: [int('zero', 0), ints('to', 1, 4, 8, 8)],
    nodes: [
      node('Gather', ['x', 'zero'], ['f'], { axis: 0 }),
      node('Reshape', ['f', 'to'], ['w']),
      node('Conv', ['x', 'w'], ['y']),
    ],
  },
};

test.each(Object.entries(MIXED))('%s is not', (_, one) => {
  const [alone, ...joined] = functionsOf(one);
  expect(alone).toEqual(expect.any(String));
  for (const name of joined) expect(name).not.toBe(alone);
});

describe('parameters that decide are part of the name', () => {
  const clip = (min: number, max: number): Case => ({
    row: [8],
    opset: 10,
    nodes: [node('Clip', ['x'], ['y'], { min: float(min), max: float(max) })],
  });
  test.each([
    ['infinite bounds', clip(-Infinity, 0), clip(Infinity, 0)],
    ['an infinite bound and none that is a number', clip(-Infinity, 0), clip(NaN, 0)],
    ['the sign of zero', clip(0, 1), clip(-0, 1)],
  ])('%s', (_, a, b) => {
    expect(functionsOf(a)[1]).not.toBe(functionsOf(b)[1]);
  });
});

test('inputs of other rows have no function of a row', () => {
  const graph = parseOnnx(
    onnxModel({
      inputs: [value('a', ['N', 2]), value('b', ['M', 2])],
      outputs: [value('y')],
      nodes: [node('Add', ['a', 'b'], ['y'])],
    }),
  );
  const name = (a: number, b: number) =>
    rowFunction(
      graph,
      new Map([
        ['a', [a, 2]],
        ['b', [b, 2]],
      ]),
    );
  expect(name(2, 2)).toBe(name(1, 1));
  expect(name(2, 2)).toEqual(expect.any(String));
  expect([name(1, 3), name(3, 1)]).toEqual([undefined, undefined]);
});

test('outputs of other rows, and networks for other dims, have none', () => {
  const graph = parseOnnx(
    onnxModel({
      inputs: [value('x', ['N', 2])],
      outputs: [value('y')],
      initializers: [real('w', 3, 2)],
      nodes: [node('Gemm', ['w', 'x'], ['y'], { transB: 1 })],
    }),
  );
  expect(rowFunction(graph, new Map([['x', [3, 2]]]))).toBeUndefined();
  expect(rowFunction(graph, new Map([['x', [2, 2]]]))).toBeUndefined();
  expect(rowFunction(graph, new Map([['x', [2, 5]]]))).toBeUndefined();
});

test('a chain of 20,000 steps is followed to its end', () => {
  const names = ['x', ...Array.from({ length: 19_999 }, (_, i) => `v${i}`), 'y'];
  const nodes = names.slice(1).map((name, i) => node('Abs', [names[i]!], [name]));
  const graph = parseOnnx(onnxModel({ inputs: [value('x', ['N', 2])], outputs: [value('y')], nodes }));
  expect(rowFunction(graph, new Map([['x', [2, 2]]]))).toEqual(expect.any(String));
});

/** Folding: every operator against ONNX's reference implementation, and what is left alone or refused by hand. */
import { evaluate, evaluateFromDims, shapeValue } from '../../../lib/model/fold';
import type { ConstantTensor, Graph } from '../../../lib/model/graph';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { atOnce } from '../../../lib/slices';
import fixtures from '../../fixtures/onnx_folding.json';
import {
  node,
  onnxModel,
  tensor,
  value,
  type AttributeValue,
  type NodeOptions,
  type OnnxType,
} from '../../support/onnx_builder';

/** The results of a graph's only node. */
function fold({ nodes, constants }: Graph): ConstantTensor[] | undefined {
  const [only] = nodes;
  const inputs = only!.inputs.map((name) => constants.get(name));
  return atOnce(evaluate(only!, inputs));
}

test.each(fixtures.cases)('$name', ({ model, outputs }) => {
  const results = fold(parseOnnx(Buffer.from(model, 'base64')));
  const shown = results?.map(({ type, dims, data }) => ({ type, dims, elements: Array.from(data, show) }));
  expect(shown).toEqual(outputs.map((output) => ({ ...output, elements: output.elements.map(normal) })));
});

const show = (element: number | bigint) => (Object.is(element, -0) ? '-0' : String(element));
/** Python writes floats in another way. */
const normal = (element: string) => (/[.e]/.test(element) ? show(Number(element)) : element);

type Constant = readonly [dims: readonly number[], elements: readonly (number | bigint)[], type?: OnnxType];

/** What folding makes of a node that reads those constants; a missing one is not known. */
function folded(
  operator: string,
  inputs: readonly (Constant | undefined)[],
  attributes: Record<string, AttributeValue> = {},
  { outputs = ['y'], ...options }: NodeOptions & { readonly outputs?: readonly string[] } = {},
) {
  const names = inputs.map((_, index) => `in${index}`);
  const known = inputs.flatMap((constant, index) => (constant ? [{ constant, name: names[index]! }] : []));
  return fold(
    parseOnnx(
      onnxModel({
        inputs: names.filter((_, index) => inputs[index] === undefined).map((name) => value(name)),
        initializers: known.map(({ name, constant: [dims, elements, type = 'int64'] }) =>
          tensor(name, dims, elements, type),
        ),
        nodes: [node(operator, names, outputs, attributes, { name: 'the_node', ...options })],
        outputs: [value(outputs[0]!)],
      }),
    ),
  );
}

const list = (...elements: number[]): Constant => [[elements.length], elements];
const float32 = (...elements: number[]): Constant => [[elements.length], elements, 'float32'];

describe('integers', () => {
  // NumPy, and with it the reference implementation, rounds down; ONNX and C round to zero.
  test('are divided towards zero', () => {
    expect(folded('Div', [list(7, -7, 7, -7), list(2, 2, -2, -2)])![0]!.data).toEqual(
      BigInt64Array.of(3n, -3n, -3n, 3n),
    );
  });

  test('are exact where doubles are not', () => {
    const [product] = folded('Mul', [
      [[1], [2n ** 31n + 1n]],
      [[1], [2n ** 31n - 1n]],
    ])!;
    expect(product!.data).toEqual(BigInt64Array.of(2n ** 62n - 1n));
  });

  test('to a very high power wrap around without being computed in full', () => {
    expect(folded('Pow', [list(3), [[1], [2n ** 62n]]])![0]!.data).toEqual(
      // 3 to the power of 2^62 is 1 modulo 2^64: the order of 3 divides 2^62.
      BigInt64Array.of(1n),
    );
  });
});

test('float32 to the power of float32 is rounded', () => {
  expect(folded('Pow', [float32(0.1), float32(2)])![0]!.data).toEqual(Float32Array.of(Math.fround(0.1) ** 2));
});

test.each([
  [1, NaN, 1],
  [1, Infinity, 1],
  [-1, -Infinity, 1],
  [-1, NaN, NaN],
  [NaN, 0, 1],
  [-8, 1 / 3, NaN],
  [-2, 3, -8],
  [-0, -1, -Infinity],
  [0, -2, Infinity],
])('%d to the power of %d is %d, as in a run', (base, exponent, expected) => {
  expect(folded('Pow', [float32(base), float32(exponent)])![0]!.data).toEqual(Float32Array.of(expected));
});

describe('what is left alone', () => {
  const large = [[65_537], new Array<number>(65_537).fill(1)] as const;

  test.each<[string, () => ConstantTensor[] | undefined]>([
    ['an input that is not known', () => folded('Add', [list(1), undefined])],
    ['an optional input that is not known', () => folded('Slice', [list(1), list(0), list(1), undefined])],
    ['an operator without a rule', () => folded('Conv', [list(1), list(1)])],
    ['an operator that is a property of every object', () => folded('constructor', [list(1)])],
    ['another domain', () => folded('Add', [list(1), list(1)], {}, { domain: 'com.example' })],
    ['too many elements', () => folded('Neg', [large])],
    ['a result of too many elements', () => folded('Expand', [list(1), list(65_537)])],
    ['a result of huge dims', () => folded('ConstantOfShape', [list(2 ** 40, 2 ** 40, 2 ** 40)])],
    [
      'a range without end',
      () =>
        folded('Range', [
          [[], [0]],
          [[], [2n ** 62n]],
          [[], [1]],
        ]),
    ],
    ['very many dimensions', () => folded('Expand', [list(1), [[40], new Array<number>(40).fill(1)]])],
    ['very many inputs', () => folded('Max', new Array<Constant>(300).fill(list(1)))],
    ['16-bit floats', () => folded('Neg', [[[1], [0x3c00], 'float16']])],
    ['a cast to them', () => folded('Cast', [list(1)], { to: 10 })],
    ['a cast to strings', () => folded('Cast', [list(1)], { to: 8 })],
    ['a float beyond an integer', () => folded('Cast', [float32(1e30)], { to: 7 })],
    ['NaN as an integer', () => folded('Cast', [float32(NaN)], { to: 7 })],
    ['a division of integers by zero', () => folded('Div', [list(1), list(0)])],
    ['a remainder of integers by zero', () => folded('Mod', [list(1), list(0)])],
    ['an integer to a negative power', () => folded('Pow', [list(2), list(-1)])],
    ['the root of an integer', () => folded('Sqrt', [list(4)])],
    ['the least of no elements', () => folded('ReduceMin', [[[0], []]])],
    ['the coordinates of a scalar', () => folded('NonZero', [[[], [1]]])],
    ['strings', () => folded('Constant', [], { value_string: 'a' })],
    ['a node with an obstacle', () => folded('Constant', [], { value: tensor('', [1], [1], 'complex64') })],
  ])('%s', (_, evaluation) => {
    expect(evaluation()).toBeUndefined();
  });
});

describe('what has no result names the node', () => {
  test.each<[string, () => unknown, RegExp]>([
    [
      'dims that cannot be broadcast',
      () => folded('Add', [list(1, 2), list(1, 2, 3)]),
      /broadcast dims \[2\] and \[3\]/,
    ],
    ['types that differ', () => folded('Add', [list(1), float32(1)]), /got int64 and float32/],
    ['a missing operand', () => folded('Add', [list(1)]), /takes 2 inputs, got 1/],
    ['an operand too many', () => folded('Neg', [list(1), list(1)]), /takes 1 inputs, got 2/],
    ['no operands', () => folded('Max', []), /lacks its input 0/],
    ['logic on integers', () => folded('And', [list(1), list(1)]), /takes bool, got int64/],
    ['a condition of integers', () => folded('Where', [list(1), list(1), list(1)]), /takes bool as input 0/],
    [
      'an index beyond the axis',
      () => folded('Gather', [list(1, 2), list(2)]),
      /takes element 2 along an axis of 2/,
    ],
    ['an axis beyond the rank', () => folded('Concat', [list(1)], { axis: 1 }), /has axis 1 for rank 1/],
    ['a missing attribute', () => folded('Concat', [list(1)]), /no attribute 'axis'/],
    [
      'dims that cannot be joined',
      () =>
        folded(
          'Concat',
          [
            [
              [1, 2],
              [1, 2],
            ],
            [[1, 1], [1]],
          ],
          { axis: 0 },
        ),
      /join dims \[1, 1\]/,
    ],
    ['a reshape to another size', () => folded('Reshape', [list(1, 2, 3), list(2)]), /dims \[2\] of \[3\]/],
    [
      'a reshape that does not divide',
      () => folded('Reshape', [list(1, 2, 3), list(2, -1)]),
      /dims \[2, 1.5\] of \[3\]/,
    ],
    ['a reshape with two unknowns', () => folded('Reshape', [list(1), list(-1, -1)]), /cannot make dims/],
    [
      'a reshape that copies what is not there',
      () => folded('Reshape', [list(1), list(1, 0)]),
      /copies extent 1/,
    ],
    [
      'a squeeze of more than 1',
      () => folded('Squeeze', [list(1, 2), list(0)]),
      /squeezes axis 0 of dims \[2\]/,
    ],
    ['an axis inserted twice', () => folded('Unsqueeze', [list(1), list(0, 0)]), /the same axis twice/],
    ['no axes to insert', () => folded('Unsqueeze', [list(1)]), /has no axes/],
    [
      'a permutation that is none',
      () => folded('Transpose', [[[1, 1], [1]]], { perm: [0, 0] }),
      /same axis twice/,
    ],
    [
      'a permutation of fewer axes',
      () => folded('Transpose', [[[1, 1], [1]]], { perm: [0] }),
      /permutes 1 axes of 2/,
    ],
    ['a step of 0', () => folded('Slice', [list(1), list(0), list(1), list(0), list(0)]), /a step of 0/],
    [
      'a range with a step of 0',
      () =>
        folded('Range', [
          [[], [0]],
          [[], [1]],
          [[], [0]],
        ]),
      /a step of 0/,
    ],
    ['ends of another length', () => folded('Slice', [list(1), list(0), list(1, 2)]), /different lengths/],
    [
      'parts of another size',
      () => folded('Split', [list(1, 2), list(1, 2)], {}, { outputs: ['a', 'b'] }),
      /cannot split an axis of 2/,
    ],
    ['a negative extent', () => folded('ConstantOfShape', [list(-1)]), /cannot make dims \[-1\]/],
    ['a negative repeat', () => folded('Tile', [list(1), list(-1)]), /cannot repeat dims/],
    [
      'a shape of floats',
      () => folded('Expand', [list(1), float32(1)]),
      /takes a list of integers as input 1/,
    ],
    [
      'two elements for one',
      () => folded('Range', [list(0, 1), list(2), list(1)]),
      /takes one element as input 0/,
    ],
  ])('%s', (_, evaluation, message) => {
    expect(evaluation).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_MODEL',
        message: expect.stringMatching(message),
      }),
    );
    expect(evaluation).toThrow(/'the_node'/);
  });
});

describe('what only changes dimensions', () => {
  const weights = new Array<number>(70_000).fill(1);
  const shapes: [string, Constant[], Record<string, AttributeValue>, number[]][] = [
    ['Identity', [], {}, [7, 10_000]],
    ['Reshape', [list(10, -1)], {}, [10, 7000]],
    ['Flatten', [], { axis: 0 }, [1, 70_000]],
    ['Unsqueeze', [list(0)], {}, [1, 7, 10_000]],
    ['Squeeze', [], {}, [7, 10_000]],
  ];

  test.each(shapes)('%s takes large tensors and shares their data', (operator, inputs, attributes, dims) => {
    const model = onnxModel({
      initializers: [
        tensor('w', [7, 10_000], weights, 'float16'),
        ...inputs.map(([extents, elements]) => tensor('extra', extents, elements, 'int64')),
      ],
      nodes: [node(operator, ['w', ...inputs.map(() => 'extra')], ['y'], attributes)],
      outputs: [value('y')],
    });
    const graph = parseOnnx(model);
    const [result] = fold(graph)!;
    expect(result!.dims).toEqual(dims);
    expect(result!.data).toBe(graph.constants.get('w')!.data);
  });

  test('is evaluated from dimensions alone where the operator asks for no more', () => {
    const nodeOf = (operator: string, attributes = {}, options: NodeOptions = {}) =>
      parseOnnx(
        onnxModel({
          inputs: [value('x')],
          nodes: [node(operator, ['x'], ['y'], attributes, options)],
          outputs: [value('y')],
        }),
      ).nodes[0]!;
    expect(evaluateFromDims(nodeOf('Shape', { start: -2 }), [2, 3, 4])).toEqual(shapeValue([3, 4]));
    expect(evaluateFromDims(nodeOf('Shape', { start: 2, end: 1 }), [2, 3, 4])).toEqual(shapeValue([]));
    expect(evaluateFromDims(nodeOf('Size'), [2, 3, 4])).toEqual({
      type: 'int64',
      dims: [],
      data: BigInt64Array.of(24n),
    });
    expect(evaluateFromDims(nodeOf('Relu'), [2])).toBeUndefined();
    expect(evaluateFromDims(nodeOf('Shape', {}, { domain: 'com.example' }), [2])).toBeUndefined();
    expect(shapeValue([1, 2 ** 40])).toEqual({
      type: 'int64',
      dims: [2],
      data: BigInt64Array.of(1n, 2n ** 40n),
    });
  });
});

test.each([
  ['Transpose', [[2 ** 31 - 1, 2 ** 20, 0], []], { perm: [1, 0, 2] }, [2 ** 20, 2 ** 31 - 1, 0]],
  ['Concat', [[2 ** 31 - 1, 0], []], { axis: 1 }, [2 ** 31 - 1, 0]],
] as const)(
  '%s of no elements takes no time, however many rows they are in',
  (operator, constant, attributes, dims) => {
    const [result] = folded(operator, [constant as unknown as Constant], attributes as never)!;
    expect([...result!.dims, result!.data.length]).toEqual([...dims, 0]);
  },
);

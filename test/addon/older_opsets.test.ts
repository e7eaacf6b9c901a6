/** Operators as opsets 1 to 6 have them, against what ONNX's changelog says of each. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { float, node, onnxModel, subgraph, tensor, value, type OnnxModel } from '../support/onnx_builder';

type Model = Pick<OnnxModel, 'nodes' | 'opset'> & Partial<OnnxModel>;

/** What the model's y is for an x of those dims and elements. */
async function run(model: Model, dims: readonly number[], elements: readonly number[]) {
  const bytes = onnxModel({ irVersion: 3, inputs: [value('x', dims)], outputs: [value('y')], ...model });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(elements), dims) });
  return { type: y!.type, dims: [...y!.dims], elements: Array.from(y!.data as Float32Array, Number) };
}

const counted = (size: number) => Array.from({ length: size }, (_, i) => i + 1);

describe('broadcasting along an axis', () => {
  const dims = [2, 3, 2, 2];
  const x = counted(24);
  const channel = (i: number) => Math.floor(i / 4) % 3;

  test.each([
    [
      'a list along the channels',
      [3],
      [10, 20, 30],
      { broadcast: 1, axis: 1 },
      (i: number) => 10 * (channel(i) + 1),
    ],
    [
      'two axes from the first on',
      [2, 3],
      [1, 2, 3, 4, 5, 6],
      { broadcast: 1, axis: 0 },
      (i: number) => Math.floor(i / 4) + 1,
    ],
    ['the last ones without an axis', [2, 2], [1, 2, 3, 4], { broadcast: 1 }, (i: number) => (i % 4) + 1],
    ['one element of two axes', [1, 1], [7], { broadcast: 1, axis: 1 }, () => 7],
    ['one element', [], [7], { broadcast: 1 }, () => 7],
    [
      'the last axis, counted from behind',
      [2],
      [5, 6],
      { broadcast: 1, axis: -1 },
      (i: number) => (i % 2) + 5,
    ],
  ])('%s', async (_, own, elements, attributes, of) => {
    const model = {
      opset: 6,
      initializers: [tensor('b', own, elements)],
      nodes: [node('Sub', ['x', 'b'], ['y'], attributes)],
    };
    expect(await run(model, dims, x)).toEqual({
      type: 'float32',
      dims,
      elements: x.map((one, i) => one - of(i)),
    });
  });

  test('of what the network computes, in a chain, and of bools', async () => {
    const model = {
      opset: 6,
      initializers: [tensor('two', [3], [2, 2, 2]), tensor('limit', [3], [4, 8, 100])],
      nodes: [
        node('Mul', ['limit', 'two'], ['bound']),
        node('Add', ['x', 'x'], ['twice'], { consumed_inputs: [0, 0] }),
        node('Less', ['twice', 'bound'], ['mask'], { broadcast: 1, axis: 1 }),
        node('Cast', ['mask'], ['y'], { to: 1 }),
      ],
    };
    const { elements } = await run(model, dims, x);
    expect(elements).toEqual(x.map((one, i) => Number(2 * one < [8, 16, 200][channel(i)]!)));
  });

  test('within a branch, where the axis of its tensor is meant', async () => {
    const model = {
      opset: 6,
      initializers: [tensor('yes', [], [1], 'bool'), tensor('b', [3], [10, 20, 30])],
      nodes: [
        node('If', ['yes'], ['y'], {
          then_branch: subgraph({
            nodes: [node('Add', ['x', 'b'], ['r'], { broadcast: 1, axis: 1 })],
            outputs: [value('r')],
          }),
          else_branch: subgraph({ nodes: [node('Neg', ['x'], ['r'])], outputs: [value('r')] }),
        }),
      ],
    };
    const { elements } = await run(model, dims, x);
    expect(elements).toEqual(x.map((one, i) => one + 10 * (channel(i) + 1)));
  });

  test('what does not fit there is refused', async () => {
    const model = {
      opset: 6,
      initializers: [tensor('b', [2, 2], [1, 2, 3, 4])],
      nodes: [node('Add', ['x', 'b'], ['y'], { broadcast: 1, axis: 3 }, { name: 'sum' })],
    };
    await expect(run(model, dims, x)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(
        "'sum:AlignAxis' brings float32[2,2] to axis 3 of float32[2,3,2,2]",
      ) as string,
    });
  });
});

test('a slope of PRelu is one a channel', async () => {
  const model = (slope: number[]) => ({
    opset: 6,
    initializers: [tensor('slope', [slope.length], slope)],
    nodes: [node('PRelu', ['x', 'slope'], ['y'])],
  });
  const x = counted(8).map((one) => -one);
  expect((await run(model([2, 3]), [1, 2, 2, 2], x)).elements).toEqual([-2, -4, -6, -8, -15, -18, -21, -24]);
  expect((await run(model([2]), [1, 2, 2, 2], x)).elements).toEqual(x.map((one) => 2 * one));
});

describe('what was an attribute', () => {
  const dims = [1, 2, 2, 1];
  const x = counted(4);

  test.each<[string, Model, { dims: number[]; elements: number[] }]>([
    [
      'the shape of Reshape 1',
      { opset: 4, nodes: [node('Reshape', ['x'], ['y'], { shape: [0, -1] })] },
      { dims: [1, 4], elements: x },
    ],
    [
      'the name of the type of Cast 1',
      {
        opset: 5,
        nodes: [node('Cast', ['x'], ['i'], { to: 'INT32' }), node('Cast', ['i'], ['y'], { to: 'FLOAT' })],
      },
      { dims, elements: x },
    ],
    [
      'the axis of Concat 1, by itself that of channels',
      { opset: 3, nodes: [node('Concat', ['x', 'x'], ['y'])] },
      { dims: [1, 4, 2, 1], elements: [...x, ...x] },
    ],
    [
      'the paddings of Pad 1',
      {
        opset: 1,
        nodes: [node('Pad', ['x'], ['y'], { paddings: [0, 0, 1, 0, 0, 0, 0, 1], value: float(9) })],
      },
      { dims: [1, 2, 3, 2], elements: [9, 9, 1, 9, 2, 9, 9, 9, 3, 9, 4, 9] },
    ],
    [
      'the scales of Upsample 1',
      {
        opset: 6,
        nodes: [node('Upsample', ['x'], ['y'], { height_scale: float(1), width_scale: float(2) })],
      },
      { dims: [1, 2, 2, 2], elements: [1, 1, 2, 2, 3, 3, 4, 4] },
    ],
    [
      'the power of GlobalLpPool 1, a float',
      { opset: 1, nodes: [node('GlobalLpPool', ['x'], ['y'], { p: float(1) })] },
      { dims: [1, 2, 1, 1], elements: [3, 7] },
    ],
    [
      'places of Slice 1',
      { opset: 1, nodes: [node('Slice', ['x'], ['y'], { axes: [1], starts: [1], ends: [9] })] },
      { dims: [1, 1, 2, 1], elements: [3, 4] },
    ],
    [
      'that a Dropout infers',
      { opset: 6, nodes: [node('Dropout', ['x'], ['y'], { is_test: 1 })] },
      { dims, elements: x },
    ],
    [
      'that a BatchNormalization infers',
      {
        opset: 1,
        initializers: [tensor('scale', [2], [2, 4]), tensor('zero', [2], [0, 1]), tensor('one', [2], [1, 1])],
        nodes: [
          node('BatchNormalization', ['x', 'scale', 'zero', 'one', 'one'], ['y'], {
            consumed_inputs: [0, 0, 0, 1, 1],
            is_test: 1,
            epsilon: float(0),
          }),
        ],
      },
      { dims, elements: [0, 2, 9, 13] },
    ],
  ])('%s', async (_, model, expected) => {
    expect(await run(model, dims, x)).toEqual({ type: 'float32', ...expected });
  });

  test('Selu 1 has constants of fewer digits', async () => {
    const { elements } = await run({ opset: 5, nodes: [node('Selu', ['x'], ['y'])] }, [2], [1, 2]);
    expect(elements).toEqual([1, 2].map((one) => Math.fround(Math.fround(1.0507) * one)));
  });
});

describe('is refused', () => {
  test.each<[string, number, ReturnType<typeof node>, string]>([
    [
      'a Dropout that trains',
      6,
      node('Dropout', ['x'], ['y'], { is_test: 0 }),
      "'Dropout#0' (its is_test of 0 has it train)",
    ],
    [
      'a Tile by an axis',
      5,
      node('Tile', ['x', 'x', 'x'], ['y']),
      "'Tile#0' (it repeats one axis, which an input says)",
    ],
    [
      'a Split by an input',
      1,
      node('Split', ['x', 'x'], ['y']),
      "'Split#0' (its second input has the sizes, as floats)",
    ],
    [
      'an odd power',
      1,
      node('GlobalLpPool', ['x'], ['y'], { p: float(1.5) }),
      "'GlobalLpPool#0' (its p of 1.5 is no integer)",
    ],
    [
      'an operator of a later opset',
      6,
      node('Erf', ['x'], ['y']),
      "'Erf#0' (it is none of opset 6 that has a reading here)",
    ],
  ])('%s', async (_, opset, one, message) => {
    await expect(run({ opset, nodes: [one] }, [2], [1, 2])).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringContaining(message) as string,
    });
  });

  test.each<[string, number, ReturnType<typeof node>, string]>([
    [
      'a Reshape without a shape',
      1,
      node('Reshape', ['x'], ['y']),
      "Reshape 'Reshape#0' has no attribute 'shape'",
    ],
    [
      'a Cast to no type',
      5,
      node('Cast', ['x'], ['y'], { to: 'NUMBER' }),
      "casts to 'NUMBER', which is no type of ONNX's",
    ],
    ['a Cast to a number', 5, node('Cast', ['x'], ['y'], { to: 1 }), 'must be of the type STRING, got INT'],
    ['an Upsample without scales', 6, node('Upsample', ['x'], ['y']), 'has no height_scale and width_scale'],
  ])('%s', async (_, opset, one, message) => {
    await expect(run({ opset, nodes: [one] }, [2], [1, 2])).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(message) as string,
    });
  });
});

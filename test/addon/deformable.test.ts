/** DeformConv against sums that are written out here, and float64 against float32's digits. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, value, type AttributeValue } from '../support/onnx_builder';

type Part = readonly [dims: readonly number[], elements: readonly number[]];

async function deform(
  { x, w, offset, bias, mask }: Readonly<Record<'x' | 'w' | 'offset', Part>> & { bias?: Part; mask?: Part },
  attributes: Readonly<Record<string, AttributeValue>> = {},
) {
  const given = Object.entries({ w, offset, bias, mask }).filter((one): one is [string, Part] => !!one[1]);
  const bytes = onnxModel({
    opset: 22,
    inputs: [value('x', x[0])],
    initializers: given.map(([name, [dims, elements]]) => tensor(name, dims, elements)),
    nodes: [
      node('DeformConv', ['x', 'w', 'offset', bias ? 'bias' : '', mask ? 'mask' : ''], ['y'], attributes),
    ],
    outputs: [value('y')],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(x[1]), x[0]) });
  return { dims: [...y!.dims], elements: Array.from(y!.data as Float32Array) };
}

const LINE: Part = [
  [1, 1, 4],
  [8, 16, 32, 64],
];

test('elements between others, and beyond the ends', async () => {
  // One tap over four windows: 0.5, 0.75, 4.5 and -0.25.
  const offset: Part = [
    [1, 1, 4],
    [0.5, -0.25, 2.5, -3.25],
  ];
  const y = await deform({ x: LINE, w: [[1, 1, 1], [2]], offset });
  expect(y).toEqual({ dims: [1, 1, 4], elements: [24, 28, 0, 12] });
  // Half a tap beyond the last element half of it is left.
  const beyond = await deform({
    x: LINE,
    w: [[1, 1, 1], [1]],
    offset: [
      [1, 1, 4],
      [0, 0, 0, 0.5],
    ],
  });
  expect(beyond.elements).toEqual([8, 16, 32, 32]);
});

test('offsets are along the first axis before the second', async () => {
  const x: Part = [
    [1, 1, 2, 3],
    [1, 2, 3, 4, 5, 6],
  ];
  const zeros = new Array<number>(5).fill(0);
  const offset: Part = [
    [1, 2, 2, 3],
    // Down by one, and to the right by two, from the first place alone
    [1, ...zeros, 2, ...zeros],
  ];
  const y = await deform({ x, w: [[1, 1, 1, 1], [1]], offset });
  expect(y.elements).toEqual([6, 2, 3, 4, 5, 6]);
});

test('groups of channels have offsets, factors and filters of their own', async () => {
  const x: Part = [
    [1, 2, 3],
    [1, 2, 3, 10, 20, 30],
  ];
  // Two taps, dilated by 2 over padding of 1 on either end: places -1 and 1, 0 and 2, 1 and 3.
  const moved = [0, 0, 0, 0, 0, 0];
  const offset: Part = [
    [1, 4, 3],
    [...moved, 1, 0, 0, 0, 0, 0],
  ];
  const mask: Part = [
    [1, 4, 3],
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5, 1, 1],
  ];
  const y = await deform(
    {
      x,
      w: [
        [2, 1, 2],
        [1, 1, 1, 3],
      ],
      offset,
      mask,
      bias: [[2], [100, 200]],
    },
    { group: 2, offset_group: 2, dilations: [2], pads: [1, 1] },
  );
  expect(y).toEqual({
    dims: [1, 2, 3],
    // 0 + 2, 1 + 3, 2 + 0; 10 + 3 * 20 / 2, 10 + 3 * 30, 20 + 0
    elements: [102, 104, 102, 240, 300, 220],
  });
});

test.each<[string, Part, Part | undefined, number]>([
  [
    'offsets of other windows',
    [
      [1, 1, 3],
      [0, 0, 0],
    ],
    undefined,
    1,
  ],
  [
    'a mask of other windows',
    [
      [1, 1, 4],
      [0, 0, 0, 0],
    ],
    [[1, 2, 4], new Array<number>(8).fill(1)],
    1,
  ],
  [
    'groups of offsets that do not divide the channels',
    [[1, 2, 4], new Array<number>(8).fill(0)],
    undefined,
    2,
  ],
])('%s are refused', async (_, offset, mask, groups) => {
  const parts = { x: LINE, w: [[1, 1, 1], [1]] as Part, offset, ...(mask && { mask }) };
  await expect(deform(parts, { offset_group: groups })).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_MODEL',
  });
});

test('filters that a run brings, of several lengths one after the other', async () => {
  const bytes = onnxModel({
    opset: 22,
    inputs: [value('x', [1, 1, 'n']), value('w', [1, 1, 'k']), value('offset', [1, 'k', 'm'])],
    nodes: [node('DeformConv', ['x', 'w', 'offset'], ['y'])],
    outputs: [value('y')],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const tensorOf = (elements: readonly number[], ...dims: number[]) =>
    new Tensor('float32', Float32Array.from(elements), dims);
  // Each has three windows, of so many elements in a row.
  for (const taps of [2, 1, 3]) {
    const x = Array.from({ length: taps + 2 }, (_, i) => 2 ** i);
    const { y } = await session.run({
      x: tensorOf(x, 1, 1, taps + 2),
      w: tensorOf(new Array<number>(taps).fill(1), 1, 1, taps),
      offset: tensorOf(new Array<number>(3 * taps).fill(0), 1, taps, 3),
    });
    expect(Array.from(y!.data as Float32Array)).toEqual([0, 1, 2].map((i) => 2 ** i * (2 ** taps - 1)));
  }
});

/** Floats of 8 and 4 bits and integers of 4 and 2, against tables that are written out here. */
import { InferenceSession, Tensor, type DataType } from '../../lib';
import { rowFunction } from '../../lib/model/rows';
import { parseOnnx } from '../../lib/model/onnx/load';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, typedTensor, value, type OnnxModel } from '../support/onnx_builder';

async function run(model: OnnxModel, feeds: Record<string, Tensor>): Promise<Tensor> {
  await using session = await InferenceSession.create(onnxModel({ opset: 25, irVersion: 11, ...model }), {
    device: TEST_DEVICE,
  });
  const { y } = await session.run(feeds);
  return y!;
}

/** The bytes that hold these elements of so many bits, the first in the low ones. */
function packedBytes(bits: number, elements: readonly number[]): number[] {
  const bytes = new Array<number>(Math.ceil((elements.length * bits) / 8)).fill(0);
  elements.forEach((element, i) => {
    for (let bit = 0; bit < bits; bit++) {
      const place = i * bits + bit;
      if ((element >> bit) & 1) bytes[place >> 3]! += 2 ** (place % 8);
    }
  });
  return bytes;
}

const bytesOf = ({ data }: Tensor) => Array.from(data as Uint8Array, (byte) => byte & 255);

const PACKED = [
  ['int4', 4, -8, 7],
  ['uint4', 4, 0, 15],
  ['int2', 2, -2, 1],
  ['uint2', 2, 0, 3],
] as const;

/** All elements of a type in turn, so many of them. */
function elementsOf(least: number, most: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => least + ((i * 5) % (most - least + 1)));
}

describe.each(PACKED)('%s', (type, bits, least, most) => {
  test.each([0, 1, 2, 3, 4, 5, 7, 8, 33])('of %i elements comes in and goes out packed', async (count) => {
    const elements = elementsOf(least, most, count);
    const x = new Tensor(type, elements, [count]);
    expect([x.size, ...bytesOf(x)]).toEqual([count, ...packedBytes(bits, elements)]);
    const nodes = [node('Identity', ['x'], ['y'])];
    const y = await run(
      { inputs: [value('x', ['n'], type)], outputs: [value('y', ['n'], type)], nodes },
      { x },
    );
    expect([y.type, ...y.dims, ...bytesOf(y)]).toEqual([type, count, ...packedBytes(bits, elements)]);
  });

  test('becomes and is made of wider numbers, of which it has the low bits', async () => {
    const x = new Tensor(type, elementsOf(least, most, 15), [3, 5]);
    const wide = await run(
      {
        inputs: [value('x', [3, 5], type)],
        outputs: [value('y')],
        nodes: [node('Cast', ['x'], ['y'], { to: 1 })],
      },
      { x },
    );
    expect(Array.from(wide.data as Float32Array)).toEqual(elementsOf(least, most, 15));
    const given = [0, 1, 2, 3, 7, 8, 15, 16, 100, -1, -2, -3, -8, -9];
    const to = { int4: 22, uint4: 21, int2: 26, uint2: 25 }[type];
    const narrow = await run(
      {
        inputs: [value('x', [14], 'int32')],
        outputs: [value('y', [14], type)],
        nodes: [node('Cast', ['x'], ['y'], { to })],
      },
      { x: new Tensor('int32', given, [14]) },
    );
    expect(bytesOf(narrow)).toEqual(packedBytes(bits, given));
  });

  test('is moved about', async () => {
    const elements = elementsOf(least, most, 15);
    const model = {
      inputs: [value('x', [3, 5], type)],
      outputs: [value('y', [5, 3], type)],
      nodes: [node('Transpose', ['x'], ['y'])],
    };
    const y = await run(model, { x: new Tensor(type, elements, [3, 5]) });
    const moved = Array.from({ length: 15 }, (_, i) => elements[(i % 3) * 5 + Math.floor(i / 3)]!);
    expect(bytesOf(y)).toEqual(packedBytes(bits, moved));
  });

  test.each(['raw', 'as numbers'])('is read of a file, %s', async (form) => {
    const elements = elementsOf(least, most, 7);
    const write = form === 'raw' ? tensor : typedTensor;
    const y = await run(
      {
        outputs: [value('y')],
        initializers: [write('w', [7], packedBytes(bits, elements), type), tensor('scale', [], [0.5])],
        nodes: [node('DequantizeLinear', ['w', 'scale'], ['y'])],
      },
      {},
    );
    expect(Array.from(y.data as Float32Array)).toEqual(elements.map((element) => element / 2));
  });

  test('is quantised to within its range', async () => {
    const y = await run(
      {
        inputs: [value('x', [5])],
        outputs: [value('y', [5], type)],
        initializers: [tensor('scale', [], [2]), tensor('zero', [], packedBytes(bits, [1]), type)],
        nodes: [node('QuantizeLinear', ['x', 'scale', 'zero'], ['y'])],
      },
      { x: new Tensor('float32', [-100, -2, 0, 3.9, 100], [5]) },
    );
    const bounded = [-49, 0, 1, 3, 51].map((number) => Math.min(Math.max(number, least), most));
    expect(bytesOf(y)).toEqual(packedBytes(bits, bounded));
  });

  test('rows that share a byte are not run together', () => {
    const bytes = onnxModel({
      opset: 25,
      irVersion: 11,
      inputs: [value('x', ['n', 3], type)],
      outputs: [value('y', ['n', 3], type)],
      nodes: [node('Identity', ['x'], ['y'])],
    });
    expect(rowFunction(parseOnnx(bytes), new Map([['x', [2, 3]]]))).toBeUndefined();
  });

  test('parts that share bytes are not joined', async () => {
    const bytes = onnxModel({
      opset: 25,
      irVersion: 11,
      inputs: [value('x', ['n'], type)],
      outputs: [value('y', ['n'], type)],
      nodes: [node('Identity', ['x'], ['y'])],
    });
    await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
    const part = new Tensor(type, elementsOf(least, most, 3), [3]);
    await expect(session.runJoined({ x: [part, part] })).rejects.toThrow(
      /share bytes; bring it as one tensor/,
    );
    const { y } = await session.runJoined({ x: [part] });
    expect(bytesOf(y!)).toEqual(bytesOf(part));
  });

  test('a list of other numbers, or too few bytes, is refused', () => {
    expect(() => new Tensor(type, [most + 1], [1])).toThrow(/data\[0\] must be an integer from/);
    const Bytes = least < 0 ? Int8Array : Uint8Array;
    expect(() => new Tensor(type, new Bytes(1) as never, [9])).toThrow(
      /data has 1 element; dims \[9\] needs/,
    );
  });
});

/** Codes and what they stand for, from the definitions of the formats. */
type Codes = readonly (readonly [code: number, number: number])[];

const CODES: readonly (readonly [type: DataType, to: number, codes: Codes])[] = [
  [
    'float8e4m3fn',
    17,
    [
      [0x01, 2 ** -9],
      [0x38, 1],
      [0x39, 1.125],
      [0x7e, 448],
      [0x7f, NaN],
      [0x80, -0],
      [0xb8, -1],
    ],
  ],
  [
    'float8e4m3fnuz',
    18,
    [
      [0x01, 2 ** -10],
      [0x40, 1],
      [0x7f, 240],
      [0x80, NaN],
      [0xc0, -1],
    ],
  ],
  [
    'float8e5m2',
    19,
    [
      [0x01, 2 ** -16],
      [0x3c, 1],
      [0x7b, 57344],
      [0x7c, Infinity],
      [0xfc, -Infinity],
      [0x7e, NaN],
    ],
  ],
  [
    'float8e5m2fnuz',
    20,
    [
      [0x01, 2 ** -17],
      [0x40, 1],
      [0x7f, 57344],
      [0x80, NaN],
    ],
  ],
  [
    'float8e8m0',
    24,
    [
      [0x00, 2 ** -127],
      [0x7f, 1],
      [0x80, 2],
      [0xfe, 2 ** 127],
      [0xff, NaN],
    ],
  ],
];

describe.each(CODES)('%s', (type, to, codes) => {
  test('codes are read', async () => {
    const x = new Tensor(type, Uint8Array.from(codes, ([code]) => code) as never, [codes.length]);
    const y = await run(
      {
        inputs: [value('x', ['n'], type as never)],
        outputs: [value('y')],
        nodes: [node('Cast', ['x'], ['y'], { to: 1 })],
      },
      { x },
    );
    expect(Array.from(y.data as Float32Array)).toEqual(codes.map(([, number]) => number));
  });

  test('and written, by casts and in lists', async () => {
    const finite = codes.filter(([, number]) => Number.isFinite(number));
    const numbers = finite.map(([, number]) => number);
    const y = await run(
      {
        inputs: [value('x', ['n'])],
        outputs: [value('y', ['n'], type as never)],
        nodes: [node('Cast', ['x'], ['y'], { to })],
      },
      { x: new Tensor('float32', numbers, [numbers.length]) },
    );
    expect(bytesOf(y)).toEqual(finite.map(([code]) => code));
    expect(bytesOf(new Tensor(type, codes.map(([, number]) => number) as never, [codes.length]))).toEqual(
      codes.map(([code]) => code),
    );
  });
});

test.each([
  [1, [0x7e, 0xfe, 0x7e, 0x7f]],
  [0, [0x7f, 0xff, 0x7f, 0x7f]],
])('what float8e4m3fn cannot hold, with saturate %i', async (saturate, codes) => {
  const y = await run(
    {
      inputs: [value('x', ['n'])],
      outputs: [value('y', ['n'], 'float8e4m3fn')],
      nodes: [node('Cast', ['x'], ['y'], { to: 17, saturate })],
    },
    { x: new Tensor('float32', [1000, -1000, Infinity, NaN], [4]) },
  );
  expect(bytesOf(y)).toEqual(codes);
});

test.each([
  ['up', [1, 2, 2, 2, 4]],
  ['nearest', [1, 1, 2, 2, 2]],
  ['down', [1, 1, 1, 1, 2]],
])('powers of two are rounded %s', async (mode, powers) => {
  const y = await run(
    {
      inputs: [value('x', ['n'])],
      outputs: [value('y', ['n'], 'float8e8m0')],
      nodes: [node('Cast', ['x'], ['y'], { to: 24, round_mode: mode })],
    },
    { x: new Tensor('float32', [1, 1.25, 1.5, 1.9999, 2.5], [5]) },
  );
  expect(bytesOf(y)).toEqual(powers.map((power) => 127 + Math.log2(power)));
});

test('weights of four bits in blocks feed a product', async () => {
  const [k, n, block] = [8, 3, 4];
  const weights = elementsOf(-8, 7, k * n);
  const scales = [0.5, 1, 2, 0.25, 4, 1];
  const y = await run(
    {
      inputs: [value('x', [2, k])],
      outputs: [value('y')],
      initializers: [
        tensor('w', [k, n], packedBytes(4, weights), 'int4'),
        tensor('scales', [k / block, n], scales),
      ],
      nodes: [
        node('DequantizeLinear', ['w', 'scales'], ['wide'], { axis: 0, block_size: block }),
        node('MatMul', ['x', 'wide'], ['y']),
      ],
    },
    { x: new Tensor('float32', elementsOf(-3, 3, 2 * k), [2, k]) },
  );
  const x = elementsOf(-3, 3, 2 * k);
  const expected = Array.from({ length: 2 * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n];
    let sum = 0;
    for (let j = 0; j < k; j++) {
      sum += x[row * k + j]! * weights[j * n + column]! * scales[Math.floor(j / block) * n + column]!;
    }
    return sum;
  });
  expect(Array.from(y.data as Float32Array)).toEqual(expected);
});

describe('weights of more bytes than are made at once, known before a run', () => {
  const dims = [7, 5, 3, 331];
  const count = dims.reduce((product, extent) => product * extent, 1);
  const weights = Int8Array.from({ length: count }, (_, i) => ((i * 37) % 256) - 128);

  test.each([0, 1, 2, 3])('have a scale and a zero point for each position of axis %i', async (axis) => {
    const extent = dims[axis]!;
    const scales = Float32Array.from({ length: extent }, (_, i) => 0.01 * (i + 1));
    const zeros = Int8Array.from({ length: extent }, (_, i) => ((i * 11) % 40) - 20);
    const numbers = await numbersFrom(['w', 'scales', 'zeros'], scales, zeros, axis);
    expectEach(numbers, (i) => (weights[i]! - zeros[positionOf(i, axis)]!) * scales[positionOf(i, axis)]!);
  });

  test('have one scale, and no zero point', async () => {
    const scales = Float32Array.of(0.3);
    const numbers = await numbersFrom(['w', 'scales'], scales, Int8Array.of(0));
    expectEach(numbers, (i) => weights[i]! * scales[0]!);
  });

  /** Names the first element that differs: jest takes minutes to show what differs in arrays of this size. */
  function expectEach(numbers: Float32Array, expected: (i: number) => number): void {
    expect(numbers.length).toBe(count);
    const different = numbers.findIndex((number, i) => number !== Math.fround(expected(i)));
    expect([different, numbers[different]]).toEqual([-1, undefined]);
  }

  /** What place along the axis the element that is number i has. */
  function positionOf(i: number, axis: number): number {
    const inner = dims.slice(axis + 1).reduce((product, extent) => product * extent, 1);
    return Math.floor(i / inner) % dims[axis]!;
  }

  async function numbersFrom(inputs: string[], scales: Float32Array, zeros: Int8Array, axis?: number) {
    const ofParameters = axis === undefined ? [] : [scales.length];
    const y = await run(
      {
        inputs: [value('x', [1])],
        outputs: [value('y')],
        initializers: [
          tensor('w', dims, weights, 'int8'),
          tensor('scales', ofParameters, scales),
          tensor('zeros', ofParameters, zeros, 'int8'),
        ],
        nodes: [
          node('DequantizeLinear', inputs, ['wide'], axis === undefined ? {} : { axis }),
          node('Add', ['x', 'wide'], ['y']),
        ],
      },
      { x: new Tensor('float32', [0], [1]) },
    );
    return y.data as Float32Array;
  }
});

test.each([
  ['int4', [-8, -1, 0, 7], 21, [8, 15, 0, 7]],
  ['uint4', [8, 15, 0, 7], 22, [-8, -1, 0, 7]],
  ['int2', [-2, -1, 0, 1], 25, [2, 3, 0, 1]],
] as const)(
  'the bits of %s as another type of its width are numbers of that',
  async (type, given, to, made) => {
    const y = await run(
      {
        opset: 26,
        inputs: [value('x', [4], type)],
        outputs: [value('y', [4], 'int32')],
        nodes: [node('BitCast', ['x'], ['bits'], { to }), node('Cast', ['bits'], ['y'], { to: 6 })],
      },
      { x: new Tensor(type, [...given], [4]) },
    );
    expect(Array.from(y.data as Int32Array)).toEqual(made);
  },
);

test('the bits of int4 are not those of uint8', async () => {
  const model = {
    opset: 26,
    inputs: [value('x', [2], 'int4')],
    outputs: [value('y', [2], 'uint8')],
    nodes: [node('BitCast', ['x'], ['y'], { to: 2 })],
  };
  await expect(run(model, { x: new Tensor('int4', [1, 2], [2]) })).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_MODEL',
  });
});

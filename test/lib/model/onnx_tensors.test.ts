/** Tensors of every type, raw and as numbers, against values worked by hand. */
import { WireType } from '@bufbuild/protobuf/wire';

import { parseOnnx } from '../../../lib/model/onnx/load';
import { TensorProtoSchema, type TensorProto } from '../../../lib/model/onnx/onnx_pb';
import { onnxModel, tensor, typedTensor, value, type OnnxType } from '../../support/onnx_builder';

function load(initializer: TensorProto) {
  const model = onnxModel({ initializers: [initializer], outputs: [value(initializer.name)] });
  return parseOnnx(model).constants.get(initializer.name);
}

const FIELDS = ['floatData', 'doubleData', 'int32Data', 'int64Data', 'uint64Data'] as const;

/** A number as a field of its own, which the decoder does not know: a writer need not pack numbers. */
function looseNumber(element: number | bigint, type: OnnxType) {
  const packed = typedTensor('', [1], [element], type);
  const field = FIELDS.find((name) => packed[name].length > 0)!;
  const wireType =
    { floatData: WireType.Bit32, doubleData: WireType.Bit64 }[field as string] ?? WireType.Varint;
  return { no: TensorProtoSchema.field[field].number, wireType, data: packed[field][0]! };
}

interface Case {
  readonly type: OnnxType;
  readonly elements: readonly (number | bigint)[];
  /** Little-endian, in hexadecimal */
  readonly raw: string;
  readonly data: ArrayLike<number | bigint>;
}

const CASES: readonly Case[] = [
  {
    type: 'float32',
    elements: [1, -2.5, Infinity],
    raw: '0000803f 000020c0 0000807f',
    data: Float32Array.of(1, -2.5, Infinity),
  },
  {
    type: 'float64',
    elements: [1, -0.1],
    raw: '000000000000f03f 9a9999999999b9bf',
    data: Float64Array.of(1, -0.1),
  },
  // 1, -2 and the largest, as bits
  {
    type: 'float16',
    elements: [0x3c00, 0xc000, 0x7bff],
    raw: '003c 00c0 ff7b',
    data: Uint16Array.of(0x3c00, 0xc000, 0x7bff),
  },
  { type: 'bfloat16', elements: [0x3f80, 0xc000], raw: '803f 00c0', data: Uint16Array.of(0x3f80, 0xc000) },
  { type: 'int8', elements: [-128, -1, 127], raw: '80 ff 7f', data: Int8Array.of(-128, -1, 127) },
  { type: 'uint8', elements: [0, 128, 255], raw: '00 80 ff', data: Uint8Array.of(0, 128, 255) },
  { type: 'int16', elements: [-32768, 32767], raw: '0080 ff7f', data: Int16Array.of(-32768, 32767) },
  { type: 'uint16', elements: [1, 65535], raw: '0100 ffff', data: Uint16Array.of(1, 65535) },
  {
    type: 'int32',
    elements: [-(2 ** 31), -1, 2 ** 31 - 1],
    raw: '00000080 ffffffff ffffff7f',
    data: Int32Array.of(-(2 ** 31), -1, 2 ** 31 - 1),
  },
  {
    type: 'uint32',
    elements: [1, 2 ** 32 - 1],
    raw: '01000000 ffffffff',
    data: Uint32Array.of(1, 2 ** 32 - 1),
  },
  {
    type: 'int64',
    elements: [-(2n ** 63n), -1n, 2n ** 53n + 1n],
    raw: '0000000000000080 ffffffffffffffff 0100000000002000',
    data: BigInt64Array.of(-(2n ** 63n), -1n, 2n ** 53n + 1n),
  },
  {
    type: 'uint64',
    elements: [2n ** 64n - 1n, 300n],
    raw: 'ffffffffffffffff 2c01000000000000',
    data: BigUint64Array.of(2n ** 64n - 1n, 300n),
  },
  { type: 'bool', elements: [1, 0, 1], raw: '01 00 01', data: Uint8Array.of(1, 0, 1) },
];

describe.each(CASES)('$type', ({ type, elements, raw, data }) => {
  const expected = { type, dims: [elements.length], data };
  const rawData = new Uint8Array(Buffer.from(raw.replaceAll(' ', ''), 'hex'));

  test('raw', () => {
    expect(load({ ...tensor('w', [elements.length], [], type), rawData })).toEqual(expected);
  });

  test('raw, at every place in memory', () => {
    // The length of a name moves what comes after it.
    for (let length = 1; length <= 8; length++) {
      const name = 'w'.repeat(length);
      expect(load({ ...tensor(name, [elements.length], [], type), rawData })).toEqual(expected);
    }
  });

  test('as numbers', () => {
    expect(load(typedTensor('w', [elements.length], elements, type))).toEqual(expected);
  });

  test.each([0, 1])('as numbers, one by one behind %d that are packed', (count) => {
    const whole = typedTensor('w', [elements.length], elements.slice(0, count), type);
    const $unknown = elements.slice(count).map((element) => looseNumber(element, type));
    expect(load({ ...whole, $unknown })).toEqual(expected);
  });

  test('as numbers in several pieces', () => {
    const whole = typedTensor('w', [elements.length], elements, type);
    const first = typedTensor('w', [1], elements.slice(0, 1), type);
    const rest = typedTensor('w', [elements.length - 1], elements.slice(1), type);
    const pieces = FIELDS.map((field) => [field, [...first[field], ...rest[field]]]);
    expect(load({ ...whole, ...(Object.fromEntries(pieces) as Partial<TensorProto>) })).toEqual(expected);
  });

  test('scalars and tensors without elements', () => {
    expect(load(typedTensor('w', [], elements.slice(0, 1), type))).toEqual({
      type,
      dims: [],
      data: (data as Uint8Array).slice(0, 1),
    });
    expect(load(tensor('w', [2, 0], [], type))).toEqual({
      type,
      dims: [2, 0],
      data: (data as Uint8Array).slice(0, 0),
    });
  });
});

test.each<[OnnxType, number | bigint]>([
  ['int8', -129],
  ['uint8', 256],
  ['uint8', -1],
  ['int16', 32768],
  ['uint16', -1],
  ['float16', 65536],
  ['bfloat16', -1],
  ['bool', 2],
  ['bool', -1],
  ['uint32', 2n ** 32n],
])('%s has no %d', (type, element) => {
  expect(() => load(typedTensor('w', [1], [element], type))).toThrow(
    `element ${element}, which is no ${type}`,
  );
});

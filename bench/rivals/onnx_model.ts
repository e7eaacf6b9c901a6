/** A model of one Conv node in ONNX's protobuf format, written by hand: the bench needs nothing more of it. */

const FLOAT = 1;
const INT = 2;
const INTS = 7;
const OPSET = 13;
const IR_VERSION = 8;

type Bytes = Uint8Array;

function varint(value: number): Bytes {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

function integer(field: number, value: number): Bytes {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

function bytes(field: number, content: Bytes | string): Bytes {
  const raw = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([varint(field * 8 + 2), varint(raw.length), raw]);
}

function attribute(name: string, value: number | readonly number[]): Bytes {
  const content =
    typeof value === 'number'
      ? [integer(3, value), integer(20, INT)]
      : [...value.map((element) => integer(8, element)), integer(20, INTS)];
  return bytes(5, Buffer.concat([bytes(1, name), ...content]));
}

function valueInfo(field: number, name: string, dims: readonly number[]): Bytes {
  const shape = Buffer.concat(dims.map((extent) => bytes(1, integer(1, extent))));
  const tensor = Buffer.concat([integer(1, FLOAT), bytes(2, shape)]);
  return bytes(field, Buffer.concat([bytes(1, name), bytes(2, bytes(1, tensor))]));
}

export interface ConvNode {
  readonly inputDims: readonly number[];
  readonly weightDims: readonly number[];
  readonly outputDims: readonly number[];
  readonly strides: readonly number[];
  /** top, left, bottom, right */
  readonly pads: readonly number[];
  readonly dilations: readonly number[];
  readonly group: number;
}

/** Input `x`, output `y`, the weights inside the model. */
export function convModel(conv: ConvNode, weight: Float32Array): Bytes {
  const node = Buffer.concat([
    bytes(1, 'x'),
    bytes(1, 'w'),
    bytes(2, 'y'),
    bytes(4, 'Conv'),
    attribute('strides', conv.strides),
    attribute('pads', conv.pads),
    attribute('dilations', conv.dilations),
    attribute('group', conv.group),
  ]);
  const raw = new Uint8Array(weight.buffer, weight.byteOffset, weight.byteLength);
  const dims = conv.weightDims.map((extent) => integer(1, extent));
  const initializer = Buffer.concat([...dims, integer(2, FLOAT), bytes(8, 'w'), bytes(9, raw)]);
  const graph = Buffer.concat([
    bytes(1, node),
    bytes(2, 'convolution'),
    bytes(5, initializer),
    valueInfo(11, 'x', conv.inputDims),
    valueInfo(12, 'y', conv.outputDims),
  ]);
  return Buffer.concat([integer(1, IR_VERSION), bytes(7, graph), bytes(8, integer(2, OPSET))]);
}

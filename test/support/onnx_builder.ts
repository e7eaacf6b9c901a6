/**
 * Writes ONNX models for tests:
 *
 *     onnxModel({
 *       inputs: [value('x', [1, 3, 'H', 'W'])],
 *       initializers: [tensor('w', [8, 3, 3, 3], weights)],
 *       nodes: [node('Conv', ['x', 'w'], ['y'], { pads: [1, 1, 1, 1] }), node('Elu', ['y'], ['z'], { alpha: float(1) })],
 *       outputs: [value('z')],
 *     })
 */
import { clone, create, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter } from '@bufbuild/protobuf/wire';

import {
  AttributeProto_AttributeType as AttributeType,
  AttributeProtoSchema,
  GraphProtoSchema,
  ModelProtoSchema,
  NodeProtoSchema,
  TensorProto_DataLocation,
  TensorProtoSchema,
  ValueInfoProtoSchema,
  type AttributeProto,
  type ModelProto,
  type NodeProto,
  type TensorProto,
  type ValueInfoProto,
} from '../../lib/model/onnx/onnx_pb';

/** ONNX's numbers for the types of elements, and how many bytes an element takes. */
const TYPES = {
  float32: [1, 4],
  uint8: [2, 1],
  int8: [3, 1],
  uint16: [4, 2],
  int16: [5, 2],
  int32: [6, 4],
  int64: [7, 8],
  string: [8, 0],
  bool: [9, 1],
  float16: [10, 2],
  float64: [11, 8],
  uint32: [12, 4],
  uint64: [13, 8],
  bfloat16: [16, 2],
  complex64: [14, 8],
  float8e4m3fn: [17, 1],
  float8e4m3fnuz: [18, 1],
  float8e5m2: [19, 1],
  float8e5m2fnuz: [20, 1],
  uint4: [21, 1],
  int4: [22, 1],
  float4e2m1: [23, 1],
  float8e8m0: [24, 1],
  uint2: [25, 1],
  int2: [26, 1],
  float6e2m3: [27, 1],
} as const;

export type OnnxType = keyof typeof TYPES;

/** For floats of 16 bits and less, their bits; for types of less than 8 bits, the bytes that hold them. */
export type Elements = ArrayLike<number | bigint>;

export interface OnnxModel {
  /** Default 17 */
  readonly opset?: number;
  /** Default 8 */
  readonly irVersion?: number;
  /** Versions of other domains' operators */
  readonly domains?: Readonly<Record<string, number>>;
  /** The model's own functions, as `[domain, name]` */
  readonly functions?: readonly (readonly [domain: string, name: string])[];
  readonly inputs?: readonly ValueInfoProto[];
  readonly outputs?: readonly ValueInfoProto[];
  readonly initializers?: readonly TensorProto[];
  /** Names of sparse initializers */
  readonly sparse?: readonly string[];
  readonly nodes?: readonly NodeProto[];
}

/** The bytes of an ONNX file. */
export function onnxModel(model: OnnxModel): Uint8Array {
  return toBinary(ModelProtoSchema, onnxProto(model));
}

/** The model as a message, for tests that change more than an {@link OnnxModel} can say. */
export function onnxProto({
  opset = 17,
  irVersion = 8,
  domains = {},
  functions = [],
  inputs = [],
  outputs = [],
  initializers = [],
  sparse = [],
  nodes = [],
}: OnnxModel): ModelProto {
  const imports = Object.entries({ '': opset, ...domains });
  const proto = create(ModelProtoSchema, {
    irVersion: BigInt(irVersion),
    opsetImport: imports.map(([domain, version]) => ({ domain, version: BigInt(version) })),
    functions: functions.map(([domain, name]) => ({ domain, name })),
    graph: create(GraphProtoSchema, {
      node: [...nodes],
      initializer: [...initializers],
      input: [...inputs],
      output: [...outputs],
      sparseInitializer: sparse.map((name) => ({ values: { name } })),
    }),
  });
  // So that a change to one model is not one to others that were built from the same parts.
  return clone(ModelProtoSchema, proto);
}

/**
 * An input or output of the graph.
 *
 * @param shape - extents, names of extents, or `null` for ones without a name; left out where not even the rank is known
 */
export function value(
  name: string,
  shape?: readonly (number | string | null)[],
  type: OnnxType = 'float32',
): ValueInfoProto {
  const dim = shape?.map((extent) => {
    if (typeof extent === 'number') return { value: { case: 'dimValue', value: BigInt(extent) } as const };
    return extent === null ? {} : { value: { case: 'dimParam', value: extent } as const };
  });
  const tensorType = { elemType: TYPES[type][0], shape: dim && { dim } };
  return create(ValueInfoProtoSchema, { name, type: { value: { case: 'tensorType', value: tensorType } } });
}

export interface NodeOptions {
  readonly name?: string;
  readonly domain?: string;
}

/** A node. Integers become INT or INTS, strings STRING or STRINGS; see {@link float} for the rest. */
export function node(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: Readonly<Record<string, AttributeValue>> = {},
  { name = '', domain = '' }: NodeOptions = {},
): NodeProto {
  return create(NodeProtoSchema, {
    name,
    opType: operator,
    domain,
    input: [...inputs],
    output: [...outputs],
    attribute: Object.entries(attributes).map(([key, content]) =>
      create(AttributeProtoSchema, { name: key, ...contentOf(content) }),
    ),
  });
}

type Content = Partial<Omit<AttributeProto, '$typeName' | '$unknown' | 'name'>>;
export type AttributeValue =
  | number
  | bigint
  | string
  | readonly (number | bigint)[]
  | readonly string[]
  | TensorProto
  | { readonly content: Content };

/** An attribute of type FLOAT. */
export function float(f: number): AttributeValue {
  return { content: { type: AttributeType.FLOAT, f } };
}

/** An attribute of type FLOATS. */
export function floats(...list: number[]): AttributeValue {
  return { content: { type: AttributeType.FLOATS, floats: list } };
}

/** Field 2 of a GraphProto, which the library does not read, and other runtimes ask for. */
const GRAPH_NAME = Buffer.from([0x12, 4, ...Buffer.from('body')]);

/** An attribute of type GRAPH: the graph of a model, or bytes that should be one. */
export function subgraph(graph: OnnxModel | Uint8Array = new Uint8Array()): AttributeValue {
  const g =
    graph instanceof Uint8Array
      ? graph
      : Buffer.concat([toBinary(GraphProtoSchema, onnxProto(graph).graph!), GRAPH_NAME]);
  return { content: { type: AttributeType.GRAPH, g } };
}

/** Any attribute at all. */
export function attribute(content: Content): AttributeValue {
  return { content };
}

function contentOf(content: AttributeValue): Content {
  if (typeof content === 'number' || typeof content === 'bigint') {
    return { type: AttributeType.INT, i: BigInt(content) };
  }
  if (typeof content === 'string') return { type: AttributeType.STRING, s: Buffer.from(content) };
  if ('content' in content) return content.content;
  if ('$typeName' in content) return { type: AttributeType.TENSOR, t: content };
  const list = content as readonly (number | bigint | string)[];
  if (typeof list[0] === 'string') {
    return { type: AttributeType.STRINGS, strings: list.map((text) => Buffer.from(String(text))) };
  }
  return { type: AttributeType.INTS, ints: list.map(BigInt) };
}

/** A tensor with raw data. */
export function tensor(
  name: string,
  dims: readonly number[],
  elements: Elements,
  type: OnnxType = 'float32',
): TensorProto {
  return create(TensorProtoSchema, { ...header(name, dims, type), rawData: rawBytes(elements, type) });
}

/** A tensor with its elements as numbers, in the field that ONNX has for the type. */
export function typedTensor(
  name: string,
  dims: readonly number[],
  elements: Elements,
  type: OnnxType = 'float32',
): TensorProto {
  return create(TensorProtoSchema, { ...header(name, dims, type), ...packed(elements, type) });
}

/** A tensor with its data in another file. */
export function externalTensor(
  name: string,
  dims: readonly number[],
  place: { readonly location?: string; readonly offset?: number | string; readonly length?: number | string },
  type: OnnxType = 'float32',
): TensorProto {
  return create(TensorProtoSchema, {
    ...header(name, dims, type),
    dataLocation: TensorProto_DataLocation.EXTERNAL,
    externalData: Object.entries(place).map(([key, entry]) => ({ key, value: String(entry) })),
  });
}

function header(name: string, dims: readonly number[], type: OnnxType) {
  return { name, dims: dims.map(BigInt), dataType: TYPES[type][0] };
}

/** Elements as ONNX's raw data: little-endian. */
export function rawBytes(elements: Elements, type: OnnxType = 'float32'): Uint8Array {
  const width = TYPES[type][1];
  const view = new DataView(new ArrayBuffer(width * elements.length));
  Array.from(elements).forEach((element, index) => {
    const at = width * index;
    if (type === 'float32') view.setFloat32(at, Number(element), true);
    else if (type === 'float64') view.setFloat64(at, Number(element), true);
    else
      for (let byte = 0; byte < width; byte++)
        view.setUint8(at + byte, Number((BigInt(element) >> BigInt(8 * byte)) & 255n));
  });
  return new Uint8Array(view.buffer);
}

function packed(elements: Elements, type: OnnxType) {
  const list = Array.from(elements);
  const write = (add: (writer: BinaryWriter, element: number | bigint) => unknown) => {
    const writer = new BinaryWriter();
    for (const element of list) add(writer, element);
    return [writer.finish()];
  };
  switch (type) {
    case 'float32':
      return { floatData: [rawBytes(elements, type)] };
    case 'float64':
      return { doubleData: [rawBytes(elements, type)] };
    case 'int64':
      return { int64Data: write((writer, element) => writer.int64(element)) };
    case 'uint32':
    case 'uint64':
      return { uint64Data: write((writer, element) => writer.uint64(element)) };
    default:
      return { int32Data: write((writer, element) => writer.int32(Number(element))) };
  }
}

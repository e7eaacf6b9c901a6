/** From the bytes of a file to the messages of onnx.proto. */
import {
  create,
  mergeFromBinary,
  ScalarType,
  type DescField,
  type DescMessage,
  type MessageShape,
} from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

import type { Sliced } from '../../slices';
import { invalidModel } from '../complaints';
import {
  GraphProtoSchema,
  ModelProtoSchema,
  TensorProtoSchema,
  type GraphProto,
  type ModelProto,
} from './onnx_pb';

// A message of two bytes takes some 600 once it is decoded: without a limit, a file of 10 MB could exhaust V8's heap. With
// this one it takes 0.7 GB and three seconds at worst. Large networks have a tenth as many fields.
const MOST_FIELDS = 2 ** 20;

/** @throws `ERR_WARPCONV_INVALID_MODEL` for bytes that are not a model's */
export function* decodeModel(bytes: Uint8Array): Sliced<ModelProto> {
  try {
    const survey = new Survey(bytes);
    yield* survey.walk(ModelProtoSchema);
    return yield* mergeModel(bytes, survey.hasLooseNumbers);
  } catch (cause) {
    throw invalidModel(`the model is not an ONNX file, or is damaged: ${(cause as Error).message}`, cause);
  }
}

/** A graph that a node has. {@link decodeModel} has bounded the size of the file, and not gone into it. */
export function* decodeGraph(what: string, bytes: Uint8Array): Sliced<GraphProto> {
  try {
    const survey = new Survey(bytes);
    yield* survey.walk(GraphProtoSchema);
    const graph = create(GraphProtoSchema);
    yield* mergeGraph(graph, bytes, survey.hasLooseNumbers);
    return graph;
  } catch (cause) {
    throw invalidModel(`${what} is damaged: ${(cause as Error).message}`, cause);
  }
}

/** The decoder goes through all of a message at once, and is given a few fields of the largest one at a time. */
function* mergeModel(bytes: Uint8Array, hasLooseNumbers: boolean): Sliced<ModelProto> {
  const model = create(ModelProtoSchema);
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    yield;
    const start = reader.pos;
    const [number, wireType] = reader.tag();
    if (number === ModelProtoSchema.field.graph.number) {
      model.graph ??= create(GraphProtoSchema);
      yield* mergeGraph(model.graph, reader.bytes(), hasLooseNumbers);
    } else {
      reader.skip(wireType, number);
      merge(ModelProtoSchema, model, bytes.subarray(start, reader.pos));
    }
  }
  return model;
}

/** Of a graph: they take a tenth of a millisecond. */
const FIELDS_AT_ONCE = 16;

function* mergeGraph(graph: GraphProto, bytes: Uint8Array, hasLooseNumbers: boolean): Sliced<void> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    yield;
    const start = reader.pos;
    const most = hasLooseNumbers ? 1 : FIELDS_AT_ONCE;
    for (let count = 0; count < most && reader.pos < reader.len; count++) {
      const [number, wireType] = reader.tag();
      reader.skip(wireType, number);
    }
    const part = bytes.subarray(start, reader.pos);
    merge(GraphProtoSchema, graph, hasLooseNumbers ? yield* withPackedNumbers(part) : part);
  }
}

function merge<Schema extends DescMessage>(
  schema: Schema,
  message: MessageShape<Schema>,
  fields: Uint8Array,
): void {
  mergeFromBinary(schema, message, fields, { readUnknownFields: false });
}

/** A message that has been entered, and where it ends. */
interface Entered {
  readonly schema: DescMessage;
  readonly end: number;
}

/** Fields that are walked over in a fraction of a millisecond. */
const WALKED_AT_ONCE = 256;

/**
 * Walks a message without building anything. The decoder takes a field for what the schema says, whatever its encoding,
 * lets a message reach past the end of the one it is in, and has no limit.
 */
class Survey {
  /** Whether a tensor's numbers come one by one, as a writer may put them whatever the schema says. */
  hasLooseNumbers = false;
  readonly #reader: BinaryReader;
  #fields = 0;

  constructor(bytes: Uint8Array) {
    this.#reader = new BinaryReader(bytes);
  }

  *walk(schema: DescMessage): Sliced<void> {
    const reader = this.#reader;
    const path: Entered[] = [{ schema, end: reader.len }];
    for (let walked = 0; path.length > 0; walked++) {
      if (walked % WALKED_AT_ONCE === 0) yield;
      const message = path.at(-1)!;
      if (reader.pos > message.end) {
        throw new Error(`a field reaches past the end of ${message.schema.typeName}`);
      }
      if (reader.pos === message.end) {
        path.pop();
        continue;
      }
      const entered = this.#passField(message.schema);
      this.#count(1);
      if (entered !== undefined) path.push(entered);
    }
  }

  /** A message is entered instead. */
  #passField(schema: DescMessage): Entered | undefined {
    const reader = this.#reader;
    const [number, wireType] = reader.tag();
    const field = fieldsOf(schema).get(number);
    if (field === undefined) {
      reader.skip(wireType, number);
      return undefined;
    }
    const packed = wireType === WireType.LengthDelimited && isPackable(field);
    const loose = isLooseNumber(schema, field, wireType);
    this.hasLooseNumbers ||= loose;
    if (wireType !== wireTypeOf(field) && !packed && !loose) {
      throw new Error(`${field.toString()} is encoded as another type`);
    }
    if (field.message !== undefined) {
      const length = reader.uint32();
      return { schema: field.message, end: reader.pos + length };
    }
    const { length } = reader.skip(wireType, field.number);
    if (packed) this.#count(length);
    return undefined;
  }

  #count(fields: number): void {
    this.#fields += fields;
    if (this.#fields > MOST_FIELDS) throw new Error(`it has more than ${MOST_FIELDS} fields`);
  }
}

/** How a number comes by itself, for the fields that onnx.proto has as packed numbers. */
const LOOSE_NUMBERS: Readonly<Record<string, WireType>> = {
  floatData: WireType.Bit32,
  int32Data: WireType.Varint,
  int64Data: WireType.Varint,
  doubleData: WireType.Bit64,
  uint64Data: WireType.Varint,
};

function isLooseNumber(schema: DescMessage, field: DescField, wireType: WireType): boolean {
  return schema.typeName === TensorProtoSchema.typeName && LOOSE_NUMBERS[field.localName] === wireType;
}

/** A field of a graph, which has been surveyed, with its loose numbers packed. */
function* withPackedNumbers(part: Uint8Array): Sliced<Uint8Array> {
  const survey = new Survey(part);
  yield* survey.walk(GraphProtoSchema);
  return survey.hasLooseNumbers ? yield* packNumbers(GraphProtoSchema, part) : part;
}

/** Numbers that are packed together. */
const MOST_PACKED = 1024;

/** The same message with numbers that come by themselves in packed lists. */
function* packNumbers(schema: DescMessage, bytes: Uint8Array): Sliced<Uint8Array> {
  const reader = new BinaryReader(bytes);
  const writer = new BinaryWriter();
  const known = fieldsOf(schema);
  let list = { number: 0, contents: [] as Uint8Array[] };
  const finishList = () => {
    if (list.contents.length > 0) {
      writer.tag(list.number, WireType.LengthDelimited).bytes(Buffer.concat(list.contents));
    }
    list = { number: 0, contents: [] };
  };
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const field = known.get(number);
    const isLoose = field !== undefined && isLooseNumber(schema, field, wireType);
    if (!isLoose || number !== list.number || list.contents.length === MOST_PACKED) {
      yield;
      finishList();
    }
    if (isLoose) {
      list.number = number;
      list.contents.push(reader.skip(wireType, number));
    } else if (field?.message !== undefined) {
      writer.tag(number, wireType).bytes(yield* packNumbers(field.message, reader.bytes()));
    } else {
      writer.tag(number, wireType).raw(reader.skip(wireType, number));
    }
  }
  finishList();
  return writer.finish();
}

const numbered = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>();

function fieldsOf(schema: DescMessage): ReadonlyMap<number, DescField> {
  let fields = numbered.get(schema);
  if (fields === undefined) {
    fields = new Map(schema.fields.map((field) => [field.number, field]));
    numbered.set(schema, fields);
  }
  return fields;
}

function isPackable(field: DescField): boolean {
  return field.fieldKind === 'list' && wireTypeOf(field) !== WireType.LengthDelimited;
}

/** How a field of onnx.proto, or each element of a repeated one, is encoded. */
function wireTypeOf(field: DescField): WireType {
  if (field.enum !== undefined) return WireType.Varint;
  switch (field.scalar) {
    case ScalarType.INT32:
    case ScalarType.INT64:
      return WireType.Varint;
    case ScalarType.FLOAT:
      return WireType.Bit32;
    default:
      return WireType.LengthDelimited;
  }
}

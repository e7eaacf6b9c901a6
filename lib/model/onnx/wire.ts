/** From the bytes of a file to the messages of onnx.proto. */
import { fromBinary, ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

import { invalidModel } from '../complaints';
import { ModelProtoSchema, TensorProtoSchema, type ModelProto } from './onnx_pb';

// A message of two bytes takes some 600 once it is decoded: without a limit, a file of 10 MB could exhaust V8's heap. With
// this one it takes 0.7 GB and three seconds at worst. Large networks have a tenth as many fields.
const MOST_FIELDS = 2 ** 20;

/** @throws `ERR_WARPCONV_INVALID_MODEL` for bytes that are not a model's */
export function decodeModel(bytes: Uint8Array): ModelProto {
  try {
    const survey = new Survey(bytes);
    survey.message(ModelProtoSchema, bytes.length);
    const regular = survey.hasLooseNumbers ? packNumbers(ModelProtoSchema, bytes) : bytes;
    return fromBinary(ModelProtoSchema, regular, { readUnknownFields: false });
  } catch (cause) {
    throw invalidModel(`the model is not an ONNX file, or is damaged: ${(cause as Error).message}`, cause);
  }
}

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

  message(schema: DescMessage, end: number): void {
    const reader = this.#reader;
    const known = fieldsOf(schema);
    while (reader.pos < end) {
      const [number, wireType] = reader.tag();
      const field = known.get(number);
      if (field === undefined) reader.skip(wireType, number);
      else this.#field(schema, field, wireType);
      this.#count(1);
    }
    if (reader.pos > end) throw new Error(`a field reaches past the end of ${schema.typeName}`);
  }

  #field(schema: DescMessage, field: DescField, wireType: WireType): void {
    const reader = this.#reader;
    const packed = wireType === WireType.LengthDelimited && isPackable(field);
    const loose = isLooseNumber(schema, field, wireType);
    this.hasLooseNumbers ||= loose;
    if (wireType !== wireTypeOf(field) && !packed && !loose) {
      throw new Error(`${field.toString()} is encoded as another type`);
    }
    if (field.message !== undefined) {
      const length = reader.uint32();
      this.message(field.message, reader.pos + length);
    } else {
      const { length } = reader.skip(wireType, field.number);
      if (packed) this.#count(length);
    }
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

/** The same message with each number that comes by itself as a packed list of one. It has been surveyed. */
function packNumbers(schema: DescMessage, bytes: Uint8Array): Uint8Array {
  const reader = new BinaryReader(bytes);
  const writer = new BinaryWriter();
  const known = fieldsOf(schema);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const field = known.get(number);
    if (field?.message !== undefined) {
      writer.tag(number, wireType).bytes(packNumbers(field.message, reader.bytes()));
      continue;
    }
    const content = reader.skip(wireType, number);
    if (field !== undefined && isLooseNumber(schema, field, wireType)) {
      writer.tag(number, WireType.LengthDelimited).bytes(content);
    } else {
      writer.tag(number, wireType).raw(content);
    }
  }
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

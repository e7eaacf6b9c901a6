/** From the bytes of a file to the messages of onnx.proto. */
import { fromBinary, ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

import { invalidModel } from '../complaints';
import { ModelProtoSchema, type ModelProto } from './onnx_pb';

// A message of two bytes takes some 600 once it is decoded: without a limit, a file of 10 MB could exhaust V8's heap. With
// this one it takes 0.7 GB and three seconds at worst. Large networks have a tenth as many fields.
const MOST_FIELDS = 2 ** 20;

/** @throws `ERR_WARPCONV_INVALID_MODEL` for bytes that are not a model's */
export function decodeModel(bytes: Uint8Array): ModelProto {
  try {
    new Survey(bytes).message(ModelProtoSchema, bytes.length);
    return fromBinary(ModelProtoSchema, bytes, { readUnknownFields: false });
  } catch (cause) {
    throw invalidModel(`the model is not an ONNX file, or is damaged: ${(cause as Error).message}`, cause);
  }
}

/**
 * Walks a message without building anything. The decoder takes a field for what the schema says, whatever its encoding,
 * lets a message reach past the end of the one it is in, and has no limit.
 */
class Survey {
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
      else this.#field(field, wireType);
      this.#count(1);
    }
    if (reader.pos > end) throw new Error(`a field reaches past the end of ${schema.typeName}`);
  }

  #field(field: DescField, wireType: WireType): void {
    const reader = this.#reader;
    const packed = wireType === WireType.LengthDelimited && isPackable(field);
    if (wireType !== wireTypeOf(field) && !packed) {
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

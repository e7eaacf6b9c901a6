/** Tensors of a file as typed arrays: views of its bytes wherever those can be one. */
import { BinaryReader } from '@bufbuild/protobuf/wire';

import { describe, elementCount, plural } from '../../check';
import { arrayLength, packedBits } from '../../tensor/packed';
import { CONSTRUCTORS, type DataType } from '../../tensor/tensor';
import { invalidModel } from '../complaints';
import { elementType, unsupportedTypeName } from '../element_types';
import { unpacked } from '../packing';
import type { Sliced } from '../../slices';
import type { ConstantTensor } from '../graph';
import { copyInSlices } from './files';
import type { TensorProto } from './onnx_pb';

/**
 * What there is about a tensor that warpconv has no form for, or `undefined`.
 *
 * @param what - names the tensor in complaints
 */
export function tensorObstacle(what: string, tensor: TensorProto): string | undefined {
  if (tensor.segment.length > 0) return 'a tensor in segments';
  return typeObstacle(what, tensor.dataType);
}

/** The same for a type of elements, by its number. */
export function typeObstacle(what: string, number: number): string | undefined {
  if (elementType(number) !== undefined) return undefined;
  const name = unsupportedTypeName(number);
  if (name !== undefined) return `a tensor of ${name}`;
  throw invalidModel(`${what} has elements of type ${number}, a number that ONNX gives to no type`);
}

/** What the header of a tensor without obstacle says. */
export interface TensorHeader {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly byteLength: number;
}

export function readHeader(what: string, tensor: TensorProto): TensorHeader {
  const type = elementType(tensor.dataType)!;
  const dims = tensor.dims.map((extent) => {
    if (extent >= 0 && extent <= Number.MAX_SAFE_INTEGER) return Number(extent);
    throw invalidModel(`${what} has an extent of ${extent}`);
  });
  return {
    type,
    dims,
    byteLength: arrayLength(type, elementCount(dims)) * CONSTRUCTORS[type].BYTES_PER_ELEMENT,
  };
}

/**
 * A tensor without obstacle.
 *
 * @param what - names the tensor in complaints
 * @param external - its bytes where they are not in the file itself
 */
export function* readTensor(
  what: string,
  tensor: TensorProto,
  external: Uint8Array | undefined,
): Sliced<ConstantTensor> {
  const header = readHeader(what, tensor);
  const { type, dims, byteLength } = header;
  if (packedBits(type) !== undefined) {
    const stored = { type: 'uint8', dims: [byteLength], byteLength } as const;
    const bytes = yield* readData(what, stored, tensor, external);
    const data = yield* unpacked(type, bytes as Uint8Array, elementCount(dims));
    return { type, dims, data } as ConstantTensor;
  }
  const data = yield* readData(what, header, tensor, external);
  if (type === 'bool') yield* checkBooleans(what, data as Uint8Array);
  return { type, dims, data };
}

type Data = ConstantTensor['data'];

function* readData(
  what: string,
  header: TensorHeader,
  tensor: TensorProto,
  external: Uint8Array | undefined,
): Sliced<Data> {
  if (external !== undefined) return yield* fromBytes(what, header, external);
  const packed = packedNumbers(header.type, tensor);
  if (tensor.rawData.length === 0) {
    return packed.encoding === 'varint'
      ? yield* fromVarints(what, header, packed.pieces)
      : yield* fromBytes(what, header, yield* joined(packed.pieces));
  }
  if (packed.pieces.length > 0) throw invalidModel(`${what} has its elements twice: raw and as numbers`);
  return yield* fromBytes(what, header, tensor.rawData);
}

interface PackedNumbers {
  readonly encoding: 'fixed' | 'varint';
  readonly pieces: readonly Uint8Array[];
}

/** The field that holds the elements of a type where they are not raw. */
function packedNumbers(type: DataType, tensor: TensorProto): PackedNumbers {
  switch (type) {
    case 'float32':
      return { encoding: 'fixed', pieces: tensor.floatData };
    case 'float64':
      return { encoding: 'fixed', pieces: tensor.doubleData };
    case 'int64':
      return { encoding: 'varint', pieces: tensor.int64Data };
    case 'uint32':
    case 'uint64':
      return { encoding: 'varint', pieces: tensor.uint64Data };
    default:
      return { encoding: 'varint', pieces: tensor.int32Data };
  }
}

function* joined(pieces: readonly Uint8Array[]): Sliced<Uint8Array> {
  if (pieces.length === 1) return pieces[0]!;
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let place = 0;
  for (const piece of pieces) {
    yield* copyInSlices(piece, all, place);
    place += piece.length;
  }
  return all;
}

function* fromBytes(what: string, { type, dims, byteLength }: TensorHeader, bytes: Uint8Array): Sliced<Data> {
  if (bytes.length !== byteLength) {
    throw invalidModel(
      `${what} has ${plural(bytes.length, 'byte')} of data; dims ${describe(dims)} of ${type} need ${byteLength}`,
    );
  }
  const Elements = CONSTRUCTORS[type];
  const length = byteLength / Elements.BYTES_PER_ELEMENT;
  const isAligned = bytes.byteOffset % Elements.BYTES_PER_ELEMENT === 0;
  if (isAligned) return new Elements(bytes.buffer, bytes.byteOffset, length);
  const aligned = new Uint8Array(byteLength);
  yield* copyInSlices(bytes, aligned, 0);
  return new Elements(aligned.buffer, 0, length);
}

function* fromVarints(what: string, header: TensorHeader, pieces: readonly Uint8Array[]): Sliced<Data> {
  const { type, dims } = header;
  const count = pieces.reduce((sum, piece) => sum + countVarints(piece), 0);
  if (count !== elementCount(dims)) {
    throw invalidModel(
      `${what} has ${plural(count, 'element')} of data; dims ${describe(dims)} need ${elementCount(dims)}`,
    );
  }
  const data = new CONSTRUCTORS[type](count);
  const read = varintReader(type);
  let index = 0;
  for (const piece of pieces) {
    const reader = new BinaryReader(piece);
    while (reader.pos < reader.len) {
      if (index % READ_AT_ONCE === 0) yield;
      const value = decoded(what, reader, read);
      data[index] = value;
      if (data[index] !== value) throw invalidModel(`${what} has an element ${value}, which is no ${type}`);
      index++;
    }
  }
  return data;
}

/** Elements that are read one by one in a tenth of a millisecond or so. */
const READ_AT_ONCE = 1024;

/** Each ends with the first byte that has no continuation bit. */
function countVarints(bytes: Uint8Array): number {
  let count = 0;
  for (let index = 0; index < bytes.length; index++) if (bytes[index]! < 0x80) count++;
  return count;
}

function varintReader(type: DataType): (reader: BinaryReader) => number | bigint {
  switch (type) {
    case 'int64':
      return (reader) => reader.int64() as bigint;
    case 'uint64':
      return (reader) => reader.uint64() as bigint;
    case 'uint32':
      return (reader) => Number(reader.uint64());
    default:
      return (reader) => reader.int32();
  }
}

function decoded<T>(what: string, reader: BinaryReader, read: (reader: BinaryReader) => T): T {
  try {
    return read(reader);
  } catch (cause) {
    throw invalidModel(`${what} has data that are not encoded as numbers`, cause);
  }
}

function* checkBooleans(what: string, data: Uint8Array): Sliced<void> {
  for (let first = 0; first < data.length; first += CHECKED_AT_ONCE) {
    yield;
    const index = data.subarray(first, first + CHECKED_AT_ONCE).findIndex((element) => element > 1);
    if (index >= 0) throw invalidModel(`${what} has an element ${data[first + index]}, which is no bool`);
  }
}

const CHECKED_AT_ONCE = 2 ** 16;

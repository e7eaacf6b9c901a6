/** Models of one node: as the fuzz draws them, as files, and as a line that says what they are. */
import { bitsIn } from '../float16_bits';
import type { Random } from '../random';
import {
  attribute,
  float,
  floats,
  node,
  onnxModel,
  tensor,
  typedTensor,
  value,
  type AttributeValue,
  type Elements,
} from '../onnx_builder';
import type { Attribute, RefNode } from '../onnx_reference/node';
import { numbersByCode, roundTo, wrap } from '../onnx_reference/precision';
import {
  isSmallFloat,
  sizeOf,
  type Dims,
  type ElementType,
  type RefTensor,
  type Scalar,
} from '../onnx_reference/tensor';
import { AttributeProto_AttributeType as AttributeType } from '../../../lib/model/onnx/onnx_pb';

export interface CaseInput {
  readonly tensor: RefTensor;
  /** Brought by the run; else in the file */
  readonly isFeed: boolean;
  /** What the model says of a feed's extents: itself, a name, or nothing */
  readonly shape: readonly (number | string | null)[];
}

export interface Case extends Omit<RefNode, 'inputs' | 'outputs'> {
  /** `undefined` for one that is left out */
  readonly inputs: readonly (CaseInput | undefined)[];
  readonly outputs: number;
  /** Outputs without a name, which nobody wants */
  readonly unnamed: readonly number[];
  /** Whether tensors in the file are of raw bytes, or in the field of their type */
  readonly isRaw: boolean;
}

export const ELEMENT_ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  float8e4m3fn: Uint8Array,
  float8e4m3fnuz: Uint8Array,
  float8e5m2: Uint8Array,
  float8e5m2fnuz: Uint8Array,
  float4e2m1: Uint8Array,
  int4: Int8Array,
  uint4: Uint8Array,
  int2: Int8Array,
  uint2: Uint8Array,
} as const;

/** Bits of elements of which several share a byte, the first of them in its low bits */
const PACKED: Readonly<Partial<Record<ElementType, number>>> = {
  float4e2m1: 4,
  int4: 4,
  uint4: 4,
  int2: 2,
  uint2: 2,
};

export function refNode({ inputs, ...rest }: Case): RefNode {
  return { ...rest, inputs: inputs.map((input) => input?.tensor) };
}

/** Elements as files and feeds have them: of floats of 16 bits and less the bits, of what is packed the bytes. */
export function stored({ type, data }: RefTensor): Elements {
  const bits = PACKED[type];
  if (bits !== undefined) return packed(codesOf(type, data), bits);
  if (isSmallFloat(type)) return codesOf(type, data);
  if (type === 'float16') return (data as readonly number[]).map(float16Bits);
  if (type === 'bfloat16') return (data as readonly number[]).map(bfloat16Bits);
  return type === 'int64' || type === 'uint64' ? data : data.map(Number);
}

function codesOf(type: ElementType, data: readonly Scalar[]): number[] {
  if (!isSmallFloat(type)) return data.map(Number);
  const numbers = numbersByCode(type);
  return data.map((x) => numbers.findIndex((number) => Object.is(number, x)));
}

function packed(codes: readonly number[], bits: number): number[] {
  const perByte = 8 / bits;
  const mask = 2 ** bits - 1;
  return Array.from({ length: Math.ceil(codes.length / perByte) }, (_, i) =>
    codes
      .slice(i * perByte, (i + 1) * perByte)
      .reduce((byte, code, place) => byte | ((code & mask) << (place * bits)), 0),
  );
}

function unpacked(bytes: readonly number[], bits: number, count: number): number[] {
  const perByte = 8 / bits;
  return Array.from(
    { length: count },
    (_, i) => (bytes[Math.floor(i / perByte)]! >> ((i % perByte) * bits)) & (2 ** bits - 1),
  );
}

/** The other way round. */
export function loaded(type: ElementType, elements: ArrayLike<number | bigint>, dims: Dims): Scalar[] {
  const bits = PACKED[type];
  const codes =
    bits === undefined ? bitsIn(elements) : unpacked(Array.from(elements, Number), bits, sizeOf(dims));
  const numbers = isSmallFloat(type) ? numbersByCode(type) : [];
  return Array.from(codes, (element): Scalar => {
    if (isSmallFloat(type)) return numbers[Number(element)]!;
    if (bits !== undefined) return wrap(type, BigInt(element));
    if (type === 'float16') return float16Of(Number(element));
    if (type === 'bfloat16') return bfloat16Of(Number(element));
    return type === 'float32' || type === 'float64' ? Number(element) : BigInt(element);
  });
}

const view = new DataView(new ArrayBuffer(4));

function bfloat16Bits(x: number): number {
  view.setFloat32(0, roundTo('bfloat16', x));
  return Number.isNaN(x) ? 0x7fc0 : view.getUint16(0);
}

function bfloat16Of(bits: number): number {
  view.setUint32(0, bits * 0x10000);
  return view.getFloat32(0);
}

function float16Bits(given: number): number {
  const x = roundTo('float16', given);
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(x);
  if (Number.isNaN(x)) return 0x7e00;
  if (magnitude === Infinity) return sign | 0x7c00;
  if (magnitude < 2 ** -14) return sign | (magnitude * 2 ** 24);
  const exponent = Math.floor(Math.log2(magnitude));
  return sign | ((exponent + 15) << 10) | ((magnitude / 2 ** exponent - 1) * 1024);
}

function float16Of(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

export function attributeOf(given: Attribute): AttributeValue {
  switch (given.kind) {
    case 'int':
      return given.value;
    case 'float':
      return float(given.value);
    case 'floats':
      return floats(...given.value);
    case 'ints':
      return attribute({ type: AttributeType.INTS, ints: [...given.value] });
    case 'strings':
      return attribute({
        type: AttributeType.STRINGS,
        strings: given.value.map((text) => Buffer.from(text)),
      });
    case 'tensor':
      return tensor('', given.value.dims, stored(given.value), given.value.type);
    default:
      return given.value;
  }
}

const inputName = (index: number) => `x${index}`;

/** The names of outputs, empty for one that has none. */
function allOutputs({ outputs, unnamed }: Case): string[] {
  return Array.from({ length: outputs }, (_, i) => (unnamed.includes(i) ? '' : `y${i}`));
}

export function outputNames(drawn: Case): string[] {
  return allOutputs(drawn).filter((name) => name !== '');
}

/** @param outputs - of what types those that have a name are said to be */
export function modelOf(drawn: Case, outputs: readonly ElementType[]): Uint8Array {
  const { inputs, operator, domain, opset, isRaw } = drawn;
  const write = isRaw ? tensor : typedTensor;
  const attributes = Object.entries(drawn.attributes).map(
    ([name, given]) => [name, attributeOf(given)] as const,
  );
  const given = inputs.flatMap((input, i) => (input === undefined ? [] : [{ ...input, name: inputName(i) }]));
  const inputNames = inputs.map((input, i) => (input === undefined ? '' : inputName(i)));
  return onnxModel({
    opset: domain === '' ? opset : 17,
    domains: domain === '' ? {} : { [domain]: opset },
    inputs: given
      .filter(({ isFeed }) => isFeed)
      .map(({ name, shape, tensor: { type } }) => value(name, shape, type)),
    initializers: given
      .filter(({ isFeed }) => !isFeed)
      .map(({ name, tensor: t }) => write(name, t.dims, stored(t), t.type)),
    nodes: [node(operator, inputNames, allOutputs(drawn), Object.fromEntries(attributes), { domain })],
    outputs: outputNames(drawn).map((name, i) => value(name, undefined, outputs[i] ?? 'float32')),
  });
}

/** The tensors that a run brings, by name. */
export function feedsOf({ inputs }: Case): [name: string, tensor: RefTensor][] {
  return inputs.flatMap((input, i) =>
    input?.isFeed ? [[inputName(i), input.tensor] as [string, RefTensor]] : [],
  );
}

const MOST_SHOWN = 12;

/** A tensor in short, such as `float32[2,3] = 1 2 3 …`. */
export function tensorText({ type, dims, data }: RefTensor): string {
  const shown = data.slice(0, MOST_SHOWN).map((x) => (Object.is(x, -0) ? '-0' : String(x)));
  return `${type}[${dims}] = ${shown.join(' ')}${data.length > MOST_SHOWN ? ' …' : ''}`;
}

function attributeText(name: string, { kind, value: content }: Attribute): string {
  const shown =
    typeof content === 'object' && 'dims' in content ? tensorText(content) : `${content as string}`;
  return `${name}: ${kind} ${kind.endsWith('s') ? `[${shown}]` : shown}`;
}

function inputText(input: CaseInput | undefined): string {
  if (input === undefined) return 'nothing';
  const { tensor: t, isFeed, shape } = input;
  if (!isFeed) return `initializer ${tensorText(t)}`;
  return `feed ${tensorText(t)}${shape.join() === t.dims.join() ? '' : ` as [${shape}]`}`;
}

/** One line, from which the case could be written down by hand. */
export function describeCase({
  domain,
  operator,
  opset,
  attributes,
  inputs,
  outputs,
  unnamed,
}: Case): string {
  const name = domain === '' ? operator : `${domain}.${operator}`;
  const listed = Object.entries(attributes).map(([key, given]) => attributeText(key, given));
  const without = unnamed.length === 0 ? '' : `, no name for ${unnamed}`;
  const more = outputs === 1 ? '' : `, ${outputs} outputs${without}`;
  return `${name} of opset ${opset} {${listed.join(', ')}}${more} of ${inputs.map(inputText).join(' and ')}`;
}

/** What a model says of a feed's extents, at random. */
export function anyShape(dims: readonly number[], random: Random, index: number): (number | string | null)[] {
  if (random.chance(0.5)) return [...dims];
  return dims.map((extent, axis) =>
    random.chance(0.3) ? extent : random.chance(0.8) ? `d${index}_${axis}` : null,
  );
}

/** Collects the steps of a network while its nodes are lowered. */
import { invalidNode, unsupportedNode } from './refusals';
import type { Constants } from './constants';
import type { ConstantTensor, GraphNode } from './graph';
import { fromBits, smallFloatOf } from '../tensor/small_floats';
import type { DataType } from '../tensor/tensor';
import type { BinaryOperation, ComputeType, Instruction, MapOperation, Step, UnaryOperation } from './steps';
import {
  broadcastDims,
  broadcastStrides,
  bytesOf,
  coalesce,
  sizeOf,
  stridesOf,
  type Operand,
  type Storage,
  type Value,
} from './values';

/** As native code has it for convolutions: 4 TiB of float32. */
const MOST_ELEMENTS = 2 ** 40;

/** Bytes of constants that compiling may make of a model's own. Networks of hundreds of megabytes make as many. */
const MOST_MADE_BYTES = 2 ** 32;

/** Elements that may be computed ahead: a second or two. Grids of anchors take a tenth of it. */
const MOST_FOLDED_ELEMENTS = 2 ** 22;

/** Positions of axes that are listed one by one, of all nodes together: a second or two, and some 300 MB on the way. */
const MOST_POSITIONS = 2 ** 19;

/** A step and the nodes of the model that it computes. */
export interface PlannedStep {
  readonly step: Step<Operand>;
  readonly nodes: readonly string[];
}

export interface MapOptions<T extends DataType> {
  readonly outputType: T;
  /** That of the first operand unless given */
  readonly compute?: ComputeType;
  readonly p?: number;
  readonly q?: number;
}

const isExtent = (extent: number) => Number.isInteger(extent) && extent >= 0;

/** One instruction on its own: `b` for a second operand, p and q for parameters. */
export function instruction(
  operation: BinaryOperation | UnaryOperation,
  fields: Partial<Omit<Instruction, 'operation'>> = {},
): Instruction {
  return { operation, a: 0, b: 0, p: 0, q: 0, ...fields };
}

export class Builder {
  readonly steps: PlannedStep[] = [];
  /** Of every convolution */
  readonly algorithm: string;
  readonly constants: Constants;
  #node: GraphNode | undefined;
  #nodes: readonly string[] = [];
  readonly #buffers = new Set<ArrayBufferLike>();
  #constantBytes = 0;
  #foldedElements = 0;
  #positions = 0;
  /** Of halves the float32 tensors that they were rounded from */
  readonly #widened = new Map<Storage, Value>();

  constructor(algorithm: string, constants: Constants) {
    this.algorithm = algorithm;
    this.constants = constants;
  }

  /** The steps emitted from now on are this node's. */
  enter(node: GraphNode): void {
    this.#node = node;
    this.#nodes = [node.name];
  }

  /** Work of no elements is left out. */
  emit(step: Step<Operand>, nodes = this.#nodes): void {
    if (step.output.storage.bytes === 0) return;
    this.steps.push({ step, nodes });
  }

  /** Puts another step in the place of the last. */
  amend(step: Step<Operand>, nodes: readonly string[]): void {
    this.steps[this.steps.length - 1] = { step, nodes };
  }

  /**
   * A tensor of the model, or one that was computed ahead.
   *
   * @param isFixed - whether it is this very tensor for all dims of the network's inputs
   */
  constant(tensor: ConstantTensor, isFixed = false): Value {
    const { type, dims, data } = tensor;
    this.#admit(data);
    const storage: Storage = { space: 'constant', bytes: data.byteLength, data, isShared: isFixed };
    return { type, dims, operand: { storage, offset: 0 }, constant: tensor, isFixed };
  }

  /** What the node's operator makes of constants, element by element on this thread. */
  folded(tensor: ConstantTensor, isFixed: boolean): Value {
    const isNew = !this.#isKnown(tensor.data);
    const value = this.constant(tensor, isFixed);
    if (isNew) this.#foldedElements += tensor.data.length;
    if (this.#foldedElements <= MOST_FOLDED_ELEMENTS) return value;
    throw unsupportedNode(
      this.#node!,
      `and those before it make more than ${MOST_FOLDED_ELEMENTS} elements of constants alone`,
    );
  }

  /** A node of a few bytes can ask for a copy of a constant that many others have, too. */
  #admit(data: ArrayBufferView): void {
    if (this.#isKnown(data)) return;
    this.#buffers.add(data.buffer);
    // What inputs bring comes before the nodes.
    if (this.#node === undefined) return;
    this.#constantBytes += data.byteLength;
    if (this.#constantBytes <= MOST_MADE_BYTES) return;
    throw unsupportedNode(
      this.#node,
      `and those before it make more than ${MOST_MADE_BYTES} bytes of constants`,
    );
  }

  #isKnown({ buffer }: ArrayBufferView): boolean {
    return this.constants.isOfModel(buffer) || this.#buffers.has(buffer);
  }

  /** Called before an axis is listed position by position. Refuses a network that lists too many in all. */
  admitPositions(count: number): void {
    this.#positions += count;
    if (this.#positions <= MOST_POSITIONS) return;
    throw unsupportedNode(
      this.#node!,
      `lists ${count} positions along an axis; all that are resized or padded by the input can have ${MOST_POSITIONS}`,
    );
  }

  /** A tensor that a step is going to write. */
  scratch<T extends DataType>(type: T, dims: readonly number[]): Value<T> {
    if (!dims.every(isExtent) || sizeOf(dims) > MOST_ELEMENTS) {
      throw invalidNode(this.#node!, `would make a tensor of dims [${dims.join(', ')}], which cannot be`);
    }
    const storage: Storage = { space: 'arena', bytes: sizeOf(dims) * bytesOf(type) };
    return { type, dims, operand: { storage, offset: 0 } };
  }

  /** The same elements under other dims, or a dense part of them from an element on. */
  view(value: Value, dims: readonly number[], first = 0): Value {
    const { storage } = value.operand;
    const offset = value.operand.offset + first * bytesOf(value.type);
    const isInside = offset >= 0 && offset + sizeOf(dims) * bytesOf(value.type) <= storage.bytes;
    if (!dims.every(isExtent) || !(isInside || sizeOf(dims) === 0)) {
      throw invalidNode(this.#node!, `would take dims [${dims.join(', ')}] from ${shapeOf(value)}`);
    }
    const operand = { storage, offset };
    const whole = first === 0 && sizeOf(dims) === sizeOf(value.dims);
    const constant =
      value.constant &&
      ({
        type: value.type,
        dims,
        data: whole ? value.constant.data : value.constant.data.subarray(first, first + sizeOf(dims)),
      } as ConstantTensor);
    return { type: value.type, dims, operand, constant };
  }

  /** A function of float32 tensors that are broadcast to each other. */
  elementwise(node: GraphNode, values: readonly Value[], code: readonly Instruction[]): Value<'float32'> {
    for (const value of values) requireFloat(node, value);
    const dims = broadcastDims(...values.map((value) => value.dims));
    if (dims === undefined) throw cannotBroadcast(node, values);
    const distinct = values.filter((value, i) => values.indexOf(value) === i);
    const saved = values.length - distinct.length;
    const to = (value: number) => (value < values.length ? distinct.indexOf(values[value]!) : value - saved);
    const output = this.scratch('float32', dims);
    this.emit({
      kind: 'elementwise',
      extents: dims,
      operands: distinct.map(({ operand }) => operand),
      strides: distinct.map((value) => broadcastStrides(value.dims, dims)),
      code: saved === 0 ? code : code.map((one) => ({ ...one, a: to(one.a), b: to(one.b) })),
      output: output.operand,
    });
    return output;
  }

  /** A function of tensors of any types, which are broadcast to each other. */
  map<T extends DataType>(
    operation: MapOperation,
    values: readonly Value[],
    options: MapOptions<T>,
  ): Value<T> {
    const { p = 0, q = 0, outputType, compute = computeOf(values[0]!.type) } = options;
    const dims = broadcastDims(...values.map((value) => value.dims));
    if (dims === undefined) throw cannotBroadcast(this.#node!, values);
    const output = this.scratch(outputType, dims);
    const { extents, strides } = coalesce(
      dims,
      values.map((value) => broadcastStrides(value.dims, dims)),
    );
    this.emit({
      kind: 'map',
      operation,
      compute,
      outputType,
      types: values.map(({ type }) => type),
      extents,
      operands: values.map(({ operand }) => operand),
      strides,
      p,
      q,
      output: output.operand,
    });
    return output;
  }

  /** The elements, cast to another type. What happens to those that do not fit, `MapStep` in native/program/steps.h says. */
  cast<T extends DataType>(value: Value, type: T): Value<T> {
    if (value.type === (type as DataType)) return value as Value<T>;
    const known = this.#widened.get(value.operand.storage);
    // What was rounded to a half on the way to its storage alone.
    if (known !== undefined && type === 'float32' && isWhole(value)) {
      return this.view(known, value.dims) as Value<T>;
    }
    const made = this.map('identity', [value], { outputType: type });
    // As onnxruntime has it on CPUs. bfloat16 is rounded wherever a model has it: 8 bits are what models that have it
    // were trained with.
    if (value.type === 'float32' && type === 'float16') {
      this.#widened.set(made.operand.storage, value);
    }
    return made;
  }

  /** The elements of `input` at these strides, as a new dense tensor. */
  gatherStrided(input: Value, dims: readonly number[], strides: readonly number[], first = 0): Value {
    const output = this.scratch(input.type, dims);
    this.copy(input, dims, strides, output, stridesOf(dims), first);
    return output;
  }

  /** Copies a box of `extents` between two tensors, from an element of either on. */
  copy(
    input: Value,
    extents: readonly number[],
    inputStrides: readonly number[],
    output: Value,
    outputStrides: readonly number[],
    firstOfInput = 0,
    firstOfOutput = 0,
  ): void {
    if (sizeOf(extents) === 0) return;
    const bytes = bytesOf(input.type);
    const merged = coalesce(extents, [inputStrides, outputStrides]);
    this.emit({
      kind: 'copy',
      bytes,
      extents: merged.extents,
      inputStrides: merged.strides[0]!,
      outputStrides: merged.strides[1]!,
      input: shifted(input.operand, firstOfInput * bytes),
      output: shifted(output.operand, firstOfOutput * bytes),
    });
  }

  /** The axes in another order: output axis i is the input's axis order[i]. */
  transpose(input: Value, order: readonly number[]): Value {
    const strides = stridesOf(input.dims);
    const dims = order.map((axis) => input.dims[axis]!);
    const moved = order.filter((axis) => input.dims[axis] !== 1);
    if (moved.every((axis, i) => i === 0 || axis > moved[i - 1]!)) return this.view(input, dims);
    return this.gatherStrided(
      input,
      dims,
      order.map((axis) => strides[axis]!),
    );
  }
}

/** In what elements of a type are computed. */
export function computeOf(type: DataType): ComputeType {
  if (smallFloatOf(type) !== undefined) return 'float32';
  switch (type) {
    case 'float32':
    case 'float64':
    case 'uint64':
      return type;
    default:
      return 'int64';
  }
}

/** Whether it is all of its storage. */
function isWhole({ type, dims, operand: { storage, offset } }: Value): boolean {
  return offset === 0 && storage.bytes === sizeOf(dims) * bytesOf(type);
}

function cannotBroadcast(node: GraphNode, values: readonly Value[]): Error {
  return invalidNode(node, `has inputs that cannot be broadcast: ${values.map(shapeOf).join(' and ')}`);
}

function shifted({ storage, offset }: Operand, bytes: number): Operand {
  return { storage, offset: offset + bytes };
}

export function requireFloat(node: GraphNode, value: Value): void {
  if (value.type === 'float32') return;
  throw unsupportedNode(node, `computes in ${value.type}; here it can in float32`);
}

/** `float32[1,3,224,224]` */
export function shapeOf({ type, dims }: { type: DataType; dims: readonly number[] }): string {
  return `${type}[${dims.join(',')}]`;
}

/** Elements of a constant as numbers. */
export function numbersOf({ type, data }: ConstantTensor): number[] {
  const numbers = Array.from(data as ArrayLike<number | bigint>, Number);
  const format = smallFloatOf(type);
  return format === undefined ? numbers : numbers.map((bits) => fromBits(bits, format));
}

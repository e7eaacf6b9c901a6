/** What the kinds of steps share while a network's steps are given halves. */
import type { TensorFormat } from '../../native_types';
import type { DataType } from '../../tensor/data_types';
import type { PlannedStep } from '../builder';
import type { Constants } from '../constants';
import { buffersRead, type ConvolutionStep, type FloatType, type HalfType, type Step } from '../steps';
import type { Operand, Storage } from '../values';
import { placed, waysThrough, beginOf, type Ways } from './axes';
import { HalfTensor, SECTOR } from './tensor';

export const PLAIN: TensorFormat = { type: 'float32', layout: 'nchw', pitch: 0 };

/** A step that is made once it is known where tensors lie. */
interface Pending {
  readonly nodes: readonly string[];
  readonly make: () => Step<Operand>;
  /** Of one that copies pixels as they are from the channels of a tensor to those of another */
  readonly join: Join | undefined;
}

/** A convolution that was a product of rows, whose result one step alone reads. */
export interface Product {
  readonly step: ConvolutionStep<Operand>;
  readonly from: HalfTensor;
  /** Its place among the steps that have been emitted */
  readonly index: number;
  /** The largest magnitude among its filters; of bfloat16, nobody asks */
  readonly greatest: number;
  readonly nodes: readonly string[];
}

export interface Join {
  readonly from: HalfTensor;
  readonly into: HalfTensor;
}

/** So many elements that follow each other, in another type. */
export interface Cast {
  readonly operand: Operand;
  readonly size: number;
  readonly from: FloatType;
  readonly to: FloatType;
}

const FLOAT_TYPES: ReadonlySet<string> = new Set(['float32', 'float16', 'bfloat16'] satisfies FloatType[]);
const isFloatType = (type: DataType | undefined): type is FloatType => FLOAT_TYPES.has(type ?? '');

/** What a step casts, if it does nothing else. */
export function castOf(step: Step<Operand>): Cast | undefined {
  if (step.kind !== 'map' || step.operation !== 'identity') return undefined;
  const [from, to, size] = [step.types[0], step.outputType, step.extents[0]!];
  const isRun = step.extents.length === 1 && (size === 1 || step.strides[0]![0] === 1);
  return isRun && isFloatType(from) && isFloatType(to)
    ? { operand: step.operands[0]!, size, from, to }
    : undefined;
}

/** Elements of float32. */
export function elementsOf({ bytes }: Storage): number {
  return bytes / 4;
}

export function firstOf({ offset }: Operand): number {
  return offset / 4;
}

export class Halving {
  readonly type: HalfType;
  readonly outputs: ReadonlySet<Storage>;
  readonly constants: Constants;
  readonly steps: readonly PlannedStep[];
  /** The nodes of the step that is looked at */
  nodes: readonly string[] = [];
  /** Those of convolutions whose filters halves do not have */
  readonly tooLarge: (readonly string[])[] = [];
  readonly products = new Map<Storage, Product>();
  readonly #pending: (Pending | undefined)[] = [];
  /** By the float32 that they are in the place of; the first has all of it */
  readonly #halves = new Map<Storage, HalfTensor[]>();
  /** The nodes that made the halves */
  readonly #makers = new Map<Storage, readonly string[]>();
  /** Those that are float32, too */
  readonly #floats = new Set<Storage>();
  readonly #writers = new Map<Storage, number[]>();
  readonly #readers = new Map<Storage, number>();
  /** The places of steps that make float32 */
  readonly #floatMakers = new Map<Storage, number>();

  constructor(
    steps: readonly PlannedStep[],
    outputs: ReadonlySet<Storage>,
    constants: Constants,
    type: HalfType,
  ) {
    this.steps = steps;
    this.outputs = outputs;
    this.constants = constants;
    this.type = type;
    steps.forEach(({ step }, index) => {
      const { storage } = step.output;
      const writers = this.#writers.get(storage);
      if (writers === undefined) this.#writers.set(storage, [index]);
      else writers.push(index);
      for (const read of new Set(buffersRead(step).map((operand) => operand.storage))) {
        this.#readers.set(read, (this.#readers.get(read) ?? 0) + 1);
      }
    });
  }

  /** The steps that write a storage. */
  writersOf(storage: Storage): readonly number[] {
    return this.#writers.get(storage) ?? [];
  }

  /** Whether a step makes so many elements, and with them all that its storage ever has. */
  isWhole({ storage, offset }: Operand, size: number): boolean {
    return offset === 0 && elementsOf(storage) === size && this.writersOf(storage).length === 1;
  }

  /** The storage as halves, if it is; there can be several, as it has been read in different ways. */
  halvesOf(storage: Storage): readonly HalfTensor[] {
    return this.#halves.get(storage) ?? [];
  }

  /** Elements of a storage that follow each other, as halves, if they are. */
  runOf(operand: Operand, size: number): HalfTensor | undefined {
    for (const whole of this.halvesOf(operand.storage)) {
      const run = runIn(whole, firstOf(operand), size);
      if (run !== undefined) return run;
    }
    return undefined;
  }

  /** The same as a tensor of these dims; those that are not, or are halves of other dims, are brought there. */
  bring(operand: Operand, n: number, channels: number, area: number): HalfTensor {
    const size = n * channels * area;
    for (const whole of this.halvesOf(operand.storage)) {
      const run = runIn(whole, firstOf(operand), size);
      if (run?.is(n, channels, area)) return run;
    }
    this.requireFloats(operand.storage);
    const tensor = HalfTensor.of(n, channels, area);
    this.toHalves(operand, tensor);
    const isWhole = operand.offset === 0 && elementsOf(operand.storage) === size;
    if (isWhole) this.#add(operand.storage, tensor);
    return tensor;
  }

  /** {@link bring}, from whole words on. */
  bringAligned(operand: Operand, n: number, channels: number, area: number): HalfTensor {
    const tensor = this.bring(operand, n, channels, area);
    return tensor.isAligned ? tensor : this.copied(tensor, HalfTensor.of(n, channels, area));
  }

  /** A copy of a tensor, in another of its dims. */
  copied(from: HalfTensor, to: HalfTensor, join?: Join): HalfTensor {
    const { n, channels, area } = from;
    const strides = [channels * area, area, 1];
    const region = (tensor: HalfTensor) => ({ tensor, first: 0, strides });
    this.copy(waysThrough([n, channels, area], [region(to), region(from)])!, join);
    return to;
  }

  /** Emits the copy that goes those ways, first the output's. */
  copy(ways: Ways, join?: Join): void {
    const [to, from] = ways.ways;
    this.emit(() => {
      const { extents, strides } = placed(ways);
      return {
        kind: 'copy',
        bytes: 2,
        extents,
        inputStrides: strides[1]!,
        outputStrides: strides[0]!,
        input: beginOf(from!),
        output: beginOf(to!),
      };
    }, join);
  }

  /** Emits the step that rounds a tensor of float32, or takes the halves that it was widened from. */
  toHalves(operand: Operand, tensor: HalfTensor): void {
    const { n, channels, area } = tensor;
    const widened = this.#widenedAt(operand.storage);
    const input = widened && {
      storage: widened.operand.storage,
      offset: widened.operand.offset + operand.offset / 2,
    };
    this.emit(() => ({
      kind: 'format',
      ...{ n, channels, area },
      from: widened === undefined ? PLAIN : { ...PLAIN, type: widened.from },
      to: tensor.format(this.type),
      input: input ?? operand,
      output: tensor.operand,
    }));
  }

  /** What all of a storage was widened from, if it is that. */
  #widenedAt(storage: Storage): Cast | undefined {
    const [writer, ...others] = this.writersOf(storage);
    const step = writer === undefined || others.length > 0 ? undefined : this.steps[writer]!.step;
    const cast = step && castOf(step);
    const isWidened = cast !== undefined && cast.to === 'float32' && cast.from !== 'float32';
    return isWidened && step!.output.offset === 0 && cast.size === elementsOf(storage) ? cast : undefined;
  }

  /** Sees to it that a storage is float32, whatever it is besides. */
  requireFloats(storage: Storage): void {
    const tensor = this.#halves.get(storage)?.[0];
    if (tensor === undefined || this.#floats.has(storage)) return;
    this.#floats.add(storage);
    const { n, channels, area } = tensor;
    const make = (): Step<Operand> => ({
      kind: 'format',
      ...{ n, channels, area },
      from: tensor.format(this.type),
      to: PLAIN,
      input: tensor.operand,
      output: { storage, offset: 0 },
    });
    this.#pending.push({ nodes: this.#makers.get(storage)!, make, join: undefined });
  }

  /** Notes that a storage is this tensor now. */
  made(storage: Storage, tensor: HalfTensor): void {
    this.#halves.set(storage, [tensor]);
    this.#makers.set(storage, this.nodes);
  }

  #add(storage: Storage, tensor: HalfTensor): void {
    const others = this.#halves.get(storage);
    if (others !== undefined) {
      others.push(tensor);
      return;
    }
    this.#halves.set(storage, [tensor]);
    this.#floats.add(storage);
  }

  /** Notes that a storage is what a product makes, if one step reads it. */
  noteProduct(storage: Storage, product: Product): void {
    if (this.isReadOnce(storage)) this.products.set(storage, product);
  }

  /** Whether one step alone needs a storage. */
  isReadOnce(storage: Storage): boolean {
    return this.#readers.get(storage) === 1 && !this.outputs.has(storage);
  }

  /** Emits a step that makes a storage's float32. */
  emitFloats(storage: Storage, make: () => Step<Operand>): void {
    this.#floatMakers.set(storage, this.emit(make));
  }

  /** The place of the last step that makes a storage's float32, for {@link withdraw}. */
  floatMakerOf(storage: Storage): number | undefined {
    return this.#floatMakers.get(storage);
  }

  /** Returns its place, for {@link withdraw}. */
  emit(make: () => Step<Operand>, join?: Join): number {
    return this.#pending.push({ nodes: this.nodes, make, join }) - 1;
  }

  withdraw(index: number): void {
    this.#pending[index] = undefined;
  }

  /** All steps, once tensors that are joined lie where they are joined. */
  finish(): PlannedStep[] {
    for (const output of this.outputs) this.requireFloats(output);
    const gone = joinTensors(this.#pending.map((pending) => pending?.join));
    return this.#pending
      .filter((pending, index) => pending !== undefined && !gone.has(index))
      .map((pending) => ({ nodes: pending!.nodes, step: pending!.make() }));
  }
}

/** So many elements of a tensor from one on, in the order of NCHW: whole images, or whole maps of one image. */
function runIn(tensor: HalfTensor, first: number, size: number): HalfTensor | undefined {
  const { channels, area } = tensor;
  if (first === 0 && size === tensor.size) return tensor;
  const image = channels * area;
  if (first % image === 0 && size % image === 0) {
    return tensor.part((first / image) * area, 0, size / image, channels, area);
  }
  const isInImage = Math.floor(first / image) === Math.floor((first + size - 1) / image);
  if (!isInImage || first % area !== 0 || size % area !== 0) return undefined;
  return tensor.part(Math.floor(first / image) * area, (first % image) / area, 1, size / area, area);
}

/**
 * Makes tensors parts of those that they are copied into, and returns the copies that are not needed then. A tensor that
 * parts of it are copied from goes where all of them go: in DenseNet each joined tensor begins with the one before.
 */
function joinTensors(joins: readonly (Join | undefined)[]): Set<number> {
  const gone = new Set<number>();
  const copies = new Map<
    HalfTensor,
    { into: HalfTensor; channel: number; indices: number[]; count: number }
  >();
  for (const [index, join] of joins.entries()) {
    if (join === undefined) continue;
    const [from, into] = [join.from.root, join.into.root];
    const channel = into.channel - from.channel;
    if (from.of === into.of && channel === 0) gone.add(index);
    const isPossible = from.of.isFree && from.of !== into.of && from.of.pixels === into.of.pixels;
    // Copies of pixels as they are begin where all the pixels do.
    if (!isPossible || from.pixel !== 0 || into.pixel !== 0) continue;
    if (channel % SECTOR !== 0 || into.of.pitch % SECTOR !== 0) continue;
    let known = copies.get(from.of);
    if (known?.into !== into.of || known.channel !== channel) {
      known = { into: into.of, channel, indices: [], count: 0 };
      copies.set(from.of, known);
    }
    known.indices.push(index);
    known.count += join.from.channels;
    if (known.count < from.of.channels) continue;
    from.of.join(into.of, channel);
    for (const copy of known.indices) gone.add(copy);
  }
  return gone;
}

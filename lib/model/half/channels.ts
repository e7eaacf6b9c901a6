/** Where the channels of tensors come from, through copies that split, join and shuffle them. */
import { isDue, type Sliced } from '../../slices';
import type { PlannedStep } from '../builder';
import { isKnown } from '../scaling';
import { buffersRead, type ConvolutionStep, type CopyStep } from '../steps';
import { sizeOf, type Operand, type Storage } from '../values';
import { waysThrough, type Ways } from './axes';
import { outputArea } from './convolution';
import { elementsOf, firstOf } from './halving';
import { HalfTensor } from './tensor';

export type Convolution = ConvolutionStep<Operand>;

/** A convolution's result, whose channels are counted with those of all bases. */
export interface Base {
  readonly storage: Storage;
  readonly step: Convolution;
  /** Of its step */
  readonly index: number;
  readonly n: number;
  readonly channels: number;
  readonly area: number;
  /** What its first channel is called */
  readonly first: number;
}

/** A step that reads channels of tensors and does more than to copy them. */
export interface Reader {
  readonly index: number;
  readonly storage: Storage;
  /** Those that it reads, in its order, as the bases call them */
  readonly channels: readonly number[];
  /** Whether it is a convolution whose filters can be brought into another order */
  readonly isDense: boolean;
}

/** Tensors among which channels are copied. */
export class Family {
  readonly storages = new Set<Storage>();
  readonly bases: Base[] = [];
  readonly copies: number[] = [];
  readonly readers: Reader[] = [];
  /** Whether a copy changes the channels' order */
  isShuffled = false;
  /** Whether a tensor is written or read by what does not go channel by channel */
  isSpoilt = false;
}

/** Families of the results of convolutions, in the order of the first. */
export function* familiesIn(steps: readonly PlannedStep[]): Sliced<Iterable<Family>> {
  const channels = new Channels();
  for (const [index, { step }] of steps.entries()) {
    if (isDue(index)) yield;
    if (step.kind === 'copy') channels.copy(step, index);
    else channels.note(index, steps[index]!);
  }
  return channels.families();
}

class Channels {
  readonly #families = new Map<Storage, Family>();
  /** Of each tensor, by channel, what the bases call it; as long as a part has not been written, `undefined` */
  readonly #names = new Map<Storage, (number | undefined)[]>();
  readonly #bases = new Map<Storage, Base>();
  readonly #copied = new Set<Storage>();
  #named = 0;

  families(): Set<Family> {
    return new Set(this.#families.values());
  }

  /** A step that is no copy. */
  note(index: number, { step }: PlannedStep): void {
    const operands = buffersRead(step);
    for (const [i, operand] of operands.entries()) {
      const family = this.#families.get(operand.storage);
      if (family === undefined) continue;
      const reader = this.#readerAt(
        index,
        step.kind === 'convolution' && i === 0 ? step : undefined,
        operand,
      );
      if (reader === undefined) family.isSpoilt = true;
      else family.readers.push(reader);
    }
    const written = this.#families.get(step.output.storage);
    if (written !== undefined) written.isSpoilt = true;
    else if (step.kind === 'convolution') this.#addBase(step, index);
  }

  #addBase(step: Convolution, index: number): void {
    const { storage, offset } = step.output;
    const [n, channels, area] = [
      step.convolution.inputDims[0]!,
      step.convolution.weightDims[0]!,
      outputArea(step.convolution),
    ];
    if (area === 1 || offset !== 0 || elementsOf(storage) !== n * channels * area) return;
    const base: Base = { ...{ storage, step, index, n, channels, area }, first: this.#named };
    this.#named += channels;
    this.#bases.set(storage, base);
    this.#names.set(
      storage,
      Array.from({ length: channels }, (_, channel) => base.first + channel),
    );
    const family = new Family();
    family.storages.add(storage);
    family.bases.push(base);
    this.#families.set(storage, family);
  }

  copy(step: CopyStep<Operand>, index: number): void {
    const { input, output } = step;
    const family = this.#families.get(input.storage);
    const written = this.#families.get(output.storage);
    if (family === undefined) {
      if (written !== undefined) written.isSpoilt = true;
      return;
    }
    const [{ n, area }] = family.bases as [Base];
    const channels = elementsOf(output.storage) / (n * area);
    const names = this.#names.get(input.storage)!;
    const isPossible =
      Number.isInteger(channels) && (written === undefined || this.#copied.has(output.storage));
    const from = HalfTensor.of(n, names.length, area);
    const pairs = isPossible ? pairsOf(step, from, HalfTensor.of(n, channels, area)) : undefined;
    if (pairs === undefined || (written !== undefined && !areAlike(written, family))) {
      family.isSpoilt = true;
      if (written !== undefined) written.isSpoilt = true;
      return;
    }
    const both = written === undefined ? family : this.#merge(written, family);
    both.storages.add(output.storage);
    both.copies.push(index);
    this.#families.set(output.storage, both);
    this.#copied.add(output.storage);
    let into = this.#names.get(output.storage);
    if (into === undefined)
      this.#names.set(output.storage, (into = new Array<undefined>(channels).fill(undefined)));
    for (const [to, at] of pairs) into[to] = names[at];
    const [first] = pairs;
    both.isShuffled ||= pairs.some(([to, at]) => to - at !== first![0] - first![1]);
  }

  #merge(a: Family, b: Family): Family {
    if (a === b) return a;
    for (const storage of b.storages) {
      a.storages.add(storage);
      this.#families.set(storage, a);
    }
    a.bases.push(...b.bases);
    a.copies.push(...b.copies);
    a.readers.push(...b.readers);
    a.isShuffled ||= b.isShuffled;
    a.isSpoilt ||= b.isSpoilt;
    return a;
  }

  /** Of an operand, the input of `convolution` if that is given. Others read all of a tensor. */
  #readerAt(index: number, convolution: Convolution | undefined, operand: Operand): Reader | undefined {
    const { storage } = operand;
    const names = this.#names.get(storage)!;
    const [{ n, area }] = this.#families.get(storage)!.bases as [Base];
    const count = convolution?.convolution.inputDims[1] ?? names.length;
    const first = firstOf(operand) / area;
    const isPart =
      Number.isInteger(first) && (n === 1 || count === names.length) && first + count <= names.length;
    const channels = isPart ? names.slice(first, first + count) : [];
    const areAll = isPart && channels.every((channel) => channel !== undefined);
    if (!areAll || (convolution === undefined && first !== 0)) return undefined;
    return { index, storage, channels, isDense: convolution !== undefined && isDense(convolution) };
  }
}

/** Whether the channels of a convolution's input may come in any order. */
export function isDense({ convolution, weight }: Convolution): boolean {
  return convolution.groups === 1 && isKnown(weight) && convolution.keepsIntegers !== true;
}

const areAlike = ({ bases: [a] }: Family, { bases: [b] }: Family) => a!.n === b!.n && a!.area === b!.area;

/** The channels of the output that a copy writes, each with that of the input which it is; all pixels of each. */
function pairsOf(
  step: CopyStep<Operand>,
  from: HalfTensor,
  to: HalfTensor,
): readonly (readonly [number, number])[] | undefined {
  if (step.bytes !== 4) return undefined;
  const found = waysThrough(step.extents, [
    { tensor: to, first: firstOf(step.output), strides: step.outputStrides },
    { tensor: from, first: firstOf(step.input), strides: step.inputStrides },
  ]);
  return found && goesByChannel(found, to.pixels) ? channelsOf(found) : undefined;
}

/** Whether all pixels of the one tensor are brought to the same of the other. */
function goesByChannel({ extents, ways }: Ways, pixels: number): boolean {
  const [to, from] = ways as [Ways['ways'][number], Ways['ways'][number]];
  if (to.pixel !== 0 || from.pixel !== 0) return false;
  let count = 1;
  for (const [axis, extent] of extents.entries()) {
    if (to.pixels[axis] !== from.pixels[axis]) return false;
    if (to.pixels[axis] === 0) continue;
    if (to.channels[axis] !== 0 || from.channels[axis] !== 0) return false;
    count *= extent;
  }
  return count === pixels;
}

function channelsOf({ extents, ways }: Ways): readonly (readonly [number, number])[] {
  const [to, from] = ways as [Ways['ways'][number], Ways['ways'][number]];
  let pairs: (readonly [number, number])[] = [[to.channel, from.channel]];
  for (const [axis, extent] of extents.entries()) {
    if (to.pixels[axis] !== 0) continue;
    pairs = pairs.flatMap(([a, b]) =>
      Array.from(
        { length: extent },
        (_, i) => [a + i * to.channels[axis]!, b + i * from.channels[axis]!] as const,
      ),
    );
  }
  return pairs;
}

/** Whether a convolution makes each pixel of the one at the same place, of its channels alone, and nothing is added. */
export function isOfPixels(step: Convolution): boolean {
  const { weightDims, stride, padding } = step.convolution;
  const isUnit = sizeOf(weightDims.slice(2)) === 1 && stride.every((one) => one === 1);
  return isUnit && [0, 1, 2, 3].every((side) => Number(padding[side]) === 0) && hasOwnChannels(step);
}

/** Whether the channels of a convolution's output may be brought into any order by that of its filters. */
export function hasOwnChannels(step: Convolution): boolean {
  return (
    isDense(step) &&
    step.residual === null &&
    [step.scale, step.bias].every((one) => one === null || isKnown(one))
  );
}

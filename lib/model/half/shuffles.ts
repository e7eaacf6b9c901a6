/**
 * Channels that are shuffled between convolutions of single pixels, as in ShuffleNet, without copies. Such a convolution
 * makes, beside its own channels, those that pass it by, by filters that have a one at a single channel; it makes all of
 * them in the order in which they are read next, and filters that read them are brought into that order. Products with one
 * and sums of zeros are exact. But of a pixel where one channel is infinite or NaN, all become NaN.
 */
import { areSameDims } from '../../check';
import { isDue, type Sliced } from '../../slices';
import type { PlannedStep } from '../builder';
import type { Constants } from '../constants';
import { constantOperand, filtersOf, floatsOf } from '../scaling';
import { mapBuffers, type CopyStep } from '../steps';
import { sizeOf, type Operand, type Storage } from '../values';
import {
  familiesIn,
  hasOwnChannels,
  isOfPixels,
  type Base,
  type Convolution,
  type Family,
  type Reader,
} from './channels';
import { elementsOf } from './halving';
import { SECTOR, WORD } from './tensor';

/** Products for an output pixel, beyond which copies are the lesser work */
const MOST_PRODUCTS = 2 ** 20;

/** Steps after `fuse`; `outputs` are read by the caller. */
export function* withoutShuffles(
  steps: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
  constants: Constants,
): Sliced<readonly PlannedStep[]> {
  const families = [...(yield* familiesIn(steps))].filter(
    ({ isShuffled, isSpoilt, storages }) =>
      isShuffled && !isSpoilt && ![...storages].some((storage) => outputs.has(storage)),
  );
  const shuffled = new Set(families.flatMap(({ storages }) => [...storages]));
  const made = new Map<number, readonly PlannedStep[]>();
  for (const family of families) {
    const pools = poolsOf(family, shuffled);
    if (pools !== undefined) yield* new Rewriting(steps, family, pools, constants, made).rewrite();
  }
  return made.size === 0 ? steps : steps.flatMap((step, index) => made.get(index) ?? [step]);
}

/** In a layout, a channel of zeros that nothing reads */
const GAP = -1;

/** Activations that leave what they have made as it is */
const REPEATABLE: ReadonlySet<string> = new Set(['none', 'relu', 'clip']);

/** A tensor of all channels that are to be read yet, from the convolution of one base to that of the next. */
interface Pool {
  readonly base: Base;
  /** Its channels in their order, as bases call them, or {@link GAP} */
  readonly layout: readonly number[];
  /** Those that it takes over from the pool before */
  readonly passed: readonly number[];
  readonly readers: readonly Reader[];
}

/**
 * `undefined` where a family cannot do without copies.
 *
 * @param shuffled - the tensors of all families that may be rewritten
 */
function poolsOf(family: Family, shuffled: ReadonlySet<Storage>): readonly Pool[] | undefined {
  const bases = [...family.bases].sort((a, b) => a.index - b.index);
  if (!areRepeatable(bases.map(({ step }) => step))) return undefined;
  const pools: Pool[] = [];
  for (const [i, base] of bases.entries()) {
    const [before, next] = [pools.at(-1), bases[i + 1]];
    const later = family.readers.filter(({ index }) => index > base.index);
    const made = base.first + base.channels;
    const live = [...new Set(later.flatMap(({ channels }) => channels.filter((one) => one < made)))];
    const readers = later.filter(({ index }) => next === undefined || index <= next.index);
    const layout = layoutOf(
      live.sort((a, b) => a - b),
      readers,
      next !== undefined,
    );
    const pool = layout && { base, layout, readers, passed: live.filter((one) => one < base.first) };
    if (pool === undefined || !isPossible(pool, before, shuffled)) return undefined;
    pools.push(pool);
  }
  return pools;
}

/** Whether all of them have the same activation, which changes nothing of what it has made. */
function areRepeatable(steps: readonly Convolution[]): boolean {
  const [first, ...others] = steps.map(({ convolution }) => convolution.activation);
  return (
    REPEATABLE.has(first!.name) &&
    others.every(({ name, parameters }) => name === first!.name && areSameDims(parameters, first!.parameters))
  );
}

/** What is read first comes first. What other channels may follow, in the next pool's convolution, has whole sectors. */
function layoutOf(
  live: readonly number[],
  readers: readonly Reader[],
  isFollowed: boolean,
): readonly number[] | undefined {
  if (readers.some(({ channels }) => new Set(channels).size < channels.length)) return undefined;
  if (live.length === 0) return undefined;
  const ordered = readers.find(({ isDense }) => !isDense);
  if (ordered !== undefined) {
    const isAll = ordered.channels.length === live.length;
    const areSame = readers.every(
      (reader) => reader.isDense || areSameDims(reader.channels, ordered.channels),
    );
    const fits = !isFollowed || live.length % SECTOR === 0;
    return isAll && areSame && fits ? ordered.channels : undefined;
  }
  const first = new Set(readers[0]?.channels ?? live);
  const [head, rest] = [live.filter((one) => first.has(one)), live.filter((one) => !first.has(one))];
  const isCut = rest.length > 0;
  return [...(isCut || isFollowed ? inSectors(head) : head), ...(isFollowed ? inSectors(rest) : rest)];
}

function inSectors(channels: readonly number[]): number[] {
  const gaps = Math.ceil(channels.length / SECTOR) * SECTOR - channels.length;
  return [...channels, ...new Array<number>(gaps).fill(GAP)];
}

function isPossible(
  { base, layout, passed }: Pool,
  before: Pool | undefined,
  shuffled: ReadonlySet<Storage>,
): boolean {
  const { step, n, area } = base;
  if (passed.length === 0) return hasOwnChannels(step) || isAsMade(layout, base);
  const inputs = step.convolution.inputDims[1]!;
  const { storage, offset } = step.input;
  const isWhole = offset === 0 && elementsOf(storage) === n * inputs * area;
  const products = layout.length * (before!.layout.length + inputs);
  return isWhole && !shuffled.has(storage) && isOfPixels(step) && products <= MOST_PRODUCTS;
}

/** Whether a layout is a convolution's own. */
function isAsMade(layout: readonly number[], { first, channels }: Base): boolean {
  return layout.length === channels && layout.every((one, i) => one === first + i);
}

/** The steps of one family. */
class Rewriting {
  readonly #steps: readonly PlannedStep[];
  readonly #family: Family;
  readonly #pools: readonly Pool[];
  readonly #constants: Constants;
  readonly #made: Map<number, readonly PlannedStep[]>;

  /** @param made - what comes in the place of steps, by their index; other families may have changed some of these */
  constructor(
    steps: readonly PlannedStep[],
    family: Family,
    pools: readonly Pool[],
    constants: Constants,
    made: Map<number, readonly PlannedStep[]>,
  ) {
    this.#steps = steps;
    this.#family = family;
    this.#pools = pools;
    this.#constants = constants;
    this.#made = made;
  }

  *rewrite(): Sliced<void> {
    for (const copy of this.#family.copies) this.#made.set(copy, []);
    let before: Tensor | undefined;
    for (const [i, pool] of this.#pools.entries()) {
      const tensor = yield* this.#makePool(pool, before, this.#nodesOf(i));
      for (const reader of pool.readers) yield* this.#read(tensor, reader);
      before = tensor;
    }
  }

  /** Where a step is by now, which is the last, and what has come before it. */
  #at(index: number): { readonly steps: readonly PlannedStep[]; readonly last: PlannedStep } {
    const made = this.#made.get(index) ?? [this.#steps[index]!];
    return { steps: made.slice(0, -1), last: made.at(-1)! };
  }

  /** Those of a base's step, and of the copies until the next. */
  #nodesOf(i: number): readonly string[] {
    const { index } = this.#pools[i]!.base;
    const end = this.#pools[i + 1]?.base.index ?? Infinity;
    const copies = this.#family.copies.filter((copy) => copy > index && copy < end).sort((a, b) => a - b);
    return [...new Set([index, ...copies].flatMap((step) => this.#steps[step]!.nodes))];
  }

  *#makePool(pool: Pool, before: Tensor | undefined, nodes: readonly string[]): Sliced<Tensor> {
    const { base, layout, passed } = pool;
    const { n, area } = base;
    const { steps, last } = this.#at(base.index);
    if (isAsMade(layout, base)) {
      this.#made.set(base.index, [...steps, { nodes, step: last.step }]);
      return { n, area, layout, storage: base.storage };
    }
    const tensor = tensorOf(n, area, layout);
    const own = last.step as Convolution;
    const [copies, step] =
      passed.length === 0
        ? [[], yield* this.#relaid(own, base.first, layout)]
        : yield* this.#passing(own, pool, before!);
    const made: Convolution = { ...step, output: { storage: tensor.storage, offset: 0 } };
    const rest = [...copies, made].map((one) => ({ nodes, step: one }));
    this.#made.set(base.index, [...steps, ...rest]);
    return tensor;
  }

  /** A base's convolution with its filters in the order of a layout. */
  *#relaid(step: Convolution, first: number, layout: readonly number[]): Sliced<Convolution> {
    const [, ...ofFilter] = step.convolution.weightDims;
    const weight = yield* this.#filters(
      step,
      [layout.length, ...ofFilter],
      [layout.join(), first],
      (own, filter, k) => {
        if (layout[k] !== GAP) filter.set(own(layout[k]! - first));
      },
    );
    return { ...step, ...relaidVectors(step, layout, first), ...weight };
  }

  /** A base's convolution that makes, too, what passes it by, and the copies that bring it both. */
  *#passing(
    step: Convolution,
    { base: { first }, layout, passed }: Pool,
    before: Tensor,
  ): Sliced<readonly [readonly CopyStep<Operand>[], Convolution]> {
    const [n, inputs, h, w] = step.convolution.inputDims as [number, number, number, number];
    const { begin } = spanOf(before, passed);
    const ofBefore = before.layout.length;
    // What it reads lies behind all that there was, whose last channels nothing else needs.
    const joined = tensorOf(n, h * w, new Array<number>(ofBefore + inputs).fill(GAP));
    const own = tensorOf(n, h * w, new Array<number>(inputs).fill(GAP), step.input.storage);
    const copies = [copyOf(before, 0, joined, 0, ofBefore), copyOf(own, 0, joined, ofBefore, inputs)];
    const read = partOf(joined, begin, ofBefore + inputs);
    const channels = ofBefore + inputs - begin;
    const key = [layout.join(), first, before.layout.join(), begin];
    const weight = yield* this.#filters(
      step,
      [layout.length, channels, 1, 1],
      key,
      (ownFilter, filter, k) => {
        const name = layout[k]!;
        if (name >= first) filter.set(ownFilter(name - first), ofBefore - begin);
        else if (name !== GAP) filter[before.layout.indexOf(name) - begin] = 1;
      },
    );
    const convolution = { ...weight.convolution, inputDims: [n, channels, h, w] };
    const vectors = relaidVectors(step, layout, first);
    return [
      [...copies, ...read.copies],
      { ...step, ...vectors, ...weight, convolution, input: read.operand },
    ];
  }

  /** A reader, of what the pool has. */
  *#read(tensor: Tensor, { index, storage, channels, isDense }: Reader): Sliced<void> {
    const { steps, last } = this.#at(index);
    const { step, nodes } = last;
    if (!isDense) {
      const place = (operand: Operand) =>
        operand.storage === storage ? { storage: tensor.storage, offset: 0 } : operand;
      this.#made.set(index, [...steps, { nodes, step: mapBuffers(step, place) }]);
      return;
    }
    const convolution = step as Convolution;
    const { begin, end } = spanOf(tensor, channels);
    const { operand, copies } = partOf(tensor, begin, end);
    const places = channels.map((name) => tensor.layout.indexOf(name) - begin);
    const filters = yield* this.#readInPlaces(convolution, places, end - begin);
    const read = copies.map((copy) => ({ nodes, step: copy }));
    this.#made.set(index, [
      ...steps,
      ...read,
      { nodes, step: { ...convolution, ...filters, input: operand } },
    ]);
  }

  /** A convolution's filters, of an input where its channels lie in those places. */
  *#readInPlaces(
    step: Convolution,
    places: readonly number[],
    channels: number,
  ): Sliced<Pick<Convolution, 'weight' | 'convolution'>> {
    const { weight, convolution } = step;
    const isInOrder = places.length === channels && places.every((place, i) => place === i);
    if (isInOrder) return { weight, convolution };
    const [filters, , r, s] = convolution.weightDims as [number, number, number, number];
    const taps = r * s;
    const dims = [filters, channels, r, s];
    const made = yield* this.#filters(step, dims, [places.join()], (own, filter, k) => {
      const before = own(k);
      for (const [c, place] of places.entries()) {
        filter.set(before.subarray(c * taps, (c + 1) * taps), place * taps);
      }
    });
    const [n, , h, w] = convolution.inputDims as [number, number, number, number];
    return { weight: made.weight, convolution: { ...made.convolution, inputDims: [n, channels, h, w] } };
  }

  /**
   * Filters that are made of a convolution's own.
   *
   * @param key - what else they follow from
   */
  *#filters(
    step: Convolution,
    weightDims: readonly number[],
    key: readonly (string | number)[],
    fill: (own: (k: number) => Float32Array, filter: Float32Array, k: number) => void,
  ): Sliced<Pick<Convolution, 'weight' | 'convolution'>> {
    const { data, first, size } = filtersOf(step);
    const isShared = step.weight.storage.isShared === true;
    const own = (k: number) => data.subarray(first + k * size, first + (k + 1) * size);
    const make = function* (): Sliced<Operand> {
      const [count] = weightDims as [number];
      const made = new Float32Array(sizeOf(weightDims));
      const ofFilter = made.length / count;
      for (let k = 0; k < count; k++) {
        if (isDue(k)) yield;
        fill(own, made.subarray(k * ofFilter, (k + 1) * ofFilter), k);
      }
      return constantOperand(made, isShared);
    };
    const all = ['shuffled', data, first, size, weightDims.join(), ...key];
    const weight = isShared ? yield* this.#constants.onceInSlices(all, make) : yield* make();
    return { weight, convolution: { ...step.convolution, weightDims } };
  }
}

/** Factors and biases of a layout: what passes stays as it is. */
function relaidVectors(
  { scale, bias, convolution }: Convolution,
  layout: readonly number[],
  first: number,
): Pick<Convolution, 'scale' | 'bias'> {
  const relaid = (vector: Operand | null, ofOthers: number) => {
    if (vector === null) return null;
    const own = floatsOf(vector, convolution.weightDims[0]!);
    const all = Float32Array.from(layout, (name) => (name >= first ? own[name - first]! : ofOthers));
    return constantOperand(all, vector.storage.isShared === true);
  };
  return { scale: relaid(scale, 1), bias: relaid(bias, 0) };
}

interface Tensor {
  readonly n: number;
  readonly area: number;
  /** One for each channel, as bases call it */
  readonly layout: readonly number[];
  readonly storage: Storage;
}

function tensorOf(n: number, area: number, layout: readonly number[], storage?: Storage): Tensor {
  const bytes = 4 * n * area * layout.length;
  return { n, area, layout, storage: storage ?? { space: 'arena', bytes } };
}

/** Where channels lie, from a whole word on. */
function spanOf({ layout }: Tensor, channels: readonly number[]): { begin: number; end: number } {
  const places = channels.map((name) => layout.indexOf(name));
  const [least, most] = [Math.min(...places), Math.max(...places)];
  return { begin: least - (least % WORD), end: most + 1 };
}

/** Some channels of a tensor as an operand, and the copy of them, which halves can do without. */
function partOf(
  tensor: Tensor,
  begin: number,
  end: number,
): { operand: Operand; copies: CopyStep<Operand>[] } {
  const { n, area, layout, storage } = tensor;
  if (begin === 0 && end === layout.length) return { operand: { storage, offset: 0 }, copies: [] };
  const part = tensorOf(n, area, layout.slice(begin, end));
  return {
    operand: { storage: part.storage, offset: 0 },
    copies: [copyOf(tensor, begin, part, 0, end - begin)],
  };
}

/** Copies `channels` channels: from `first` on in one tensor, to `at` on in the other. */
function copyOf(from: Tensor, first: number, to: Tensor, at: number, channels: number): CopyStep<Operand> {
  const { n, area } = from;
  return {
    kind: 'copy',
    bytes: 4,
    extents: [n, channels * area],
    inputStrides: [from.layout.length * area, 1],
    outputStrides: [to.layout.length * area, 1],
    input: { storage: from.storage, offset: 4 * first * area },
    output: { storage: to.storage, offset: 4 * at * area },
  };
}

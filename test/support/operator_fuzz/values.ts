/** Random dims and elements. */
import type { Random } from '../random';
import { bitsOf, highestOf, lowestOf, numbersByCode, roundTo } from '../onnx_reference/precision';
import {
  isFloat,
  isSmallFloat,
  sizeOf,
  type Dims,
  type ElementType,
  type RefTensor,
  type Scalar,
} from '../onnx_reference/tensor';

/** At, just below and just above the lengths of vectors. */
const EXTENTS = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 32, 33];
const MOST_ELEMENTS = 600;
const MOST_OF_LARGE = 8000;

const SPECIALS = [
  ...[NaN, Infinity, -Infinity, 0, -0, 1e-45, -1e-40, 1.1754944e-38, 3.4028235e38, -3.4028235e38],
  ...[0.5, -0.5, 1.5, 2.5, -2.5, 1, -1, 88.8, -87.4, -104.5, 8388609, 1e30, -1e30, 1e-30],
];

export interface DimsOptions {
  readonly least?: number;
  readonly most?: number;
  /** Whether an extent may now and then be 0 */
  readonly isEmptyAllowed?: boolean;
}

export function anyDims(
  random: Random,
  { least = 0, most = 5, isEmptyAllowed = true }: DimsOptions = {},
): number[] {
  const rank = random.integer(least, most);
  const room = random.chance(0.06) ? MOST_OF_LARGE : MOST_ELEMENTS;
  const dims: number[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const extent =
      random.chance(0.05) && room > MOST_ELEMENTS ? random.integer(40, 300) : random.pick(EXTENTS);
    dims.push(Math.max(1, Math.min(extent, Math.floor(room / sizeOf(dims)))));
  }
  if (isEmptyAllowed && rank > 0 && random.chance(0.03)) dims[random.integer(0, rank - 1)] = 0;
  return shuffled(dims, random);
}

export function shuffled<T>(list: readonly T[], random: Random): T[] {
  const result = [...list];
  for (let i = result.length - 1; i > 0; i--) {
    const j = random.integer(0, i);
    [result[i], result[j]] = [result[j]!, result[i]!];
  }
  return result;
}

/** Another shape that can be broadcast to this one. */
export function narrower(dims: Dims, random: Random): number[] {
  const kept = random.chance(0.4) ? [...dims] : dims.slice(random.integer(0, dims.length));
  return kept.map((extent) => (random.chance(0.25) ? 1 : extent));
}

export type Kind = 'unit' | 'whole' | 'positive' | 'wide' | 'special';

function anyKind(random: Random): Kind {
  return random.pick([
    ...([
      'unit',
      'unit',
      'unit',
      'unit',
      'unit',
      'unit',
      'whole',
      'whole',
      'positive',
      'wide',
      'special',
      'special',
    ] as const),
  ]);
}

export function anyTensor(random: Random, type: ElementType, dims: Dims, kind = anyKind(random)): RefTensor {
  return { type, dims, data: Array.from({ length: sizeOf(dims) }, () => anyElement(random, type, kind)) };
}

function anyElement(random: Random, type: ElementType, kind: Kind): Scalar {
  if (type === 'bool') return random.chance(0.5) ? 1n : 0n;
  if (isSmallFloat(type)) return random.pick(numbersByCode(type));
  if (bitsOf(type) < 8) return BigInt(random.integer(Number(lowestOf(type)), Number(highestOf(type))));
  return isFloat(type) ? roundTo(type, Math.fround(anyFloat(random, kind))) : anyInteger(random, type, kind);
}

/** Integers that a double rounds: beside another one, or to where a float32 or a bfloat16 would be rounded wrongly. */
const TOO_LONG = [2n ** 53n + 1n, 2n ** 60n + 2n ** 36n + 1n, 2n ** 60n + 2n ** 52n + 1n];

function anyFloat(random: Random, kind: Kind): number {
  const unit = 2 * random.uniform() - 1;
  switch (kind) {
    case 'unit':
      return unit;
    case 'whole':
      return random.integer(-5, 5);
    case 'positive':
      return random.uniform() * 10;
    case 'wide':
      return unit * 10 ** random.integer(-15, 15);
    case 'special':
      return random.chance(0.15) ? random.pick(SPECIALS) : unit * random.pick([1, 4, 40]);
  }
}

function anyInteger(random: Random, type: ElementType, kind: Kind): bigint {
  const isSigned = !type.startsWith('u');
  if (kind === 'special' && random.chance(0.3)) {
    const [low, high] = [lowestOf(type), highestOf(type)] as [bigint, bigint];
    return random.pick([low, high, high - 1n, 0n, 1n, ...(bitsOf(type) === 64 ? TOO_LONG : [])]);
  }
  if (kind === 'wide') {
    const bits =
      BigInt(Math.floor(random.uniform() * 2 ** 24)) * (1n << 40n) + BigInt(random.integer(0, 2 ** 24 - 1));
    const width = random.integer(1, bitsOf(type));
    return isSigned ? BigInt.asIntN(width, bits >> 3n) : BigInt.asUintN(width, bits >> 3n);
  }
  return BigInt(random.integer(isSigned ? -6 : 0, 9));
}

/** A list of integers, as shapes and axes are. */
export function list(values: readonly number[], type: ElementType = 'int64'): RefTensor {
  return { type, dims: [values.length], data: values.map(BigInt) };
}

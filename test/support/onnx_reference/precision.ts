/** Element types as sets of numbers: what they can hold, and how they round. */
import { isFloat, type ElementType, type Expected, type Scalar, type SmallFloat } from './tensor';

interface Format {
  /** Bits of the significand, the leading one included */
  readonly digits: number;
  readonly minExponent: number;
  readonly greatest: number;
}

const FORMATS: Readonly<Record<string, Format>> = {
  float16: { digits: 11, minExponent: -14, greatest: 65504 },
  bfloat16: { digits: 8, minExponent: -126, greatest: (2 - 2 ** -7) * 2 ** 127 },
  float32: { digits: 24, minExponent: -126, greatest: (2 - 2 ** -23) * 2 ** 127 },
  float64: { digits: 53, minExponent: -1022, greatest: Number.MAX_VALUE },
  float8e4m3fn: { digits: 4, minExponent: -6, greatest: 448 },
  float8e4m3fnuz: { digits: 4, minExponent: -7, greatest: 240 },
  float8e5m2: { digits: 3, minExponent: -14, greatest: 57344 },
  float8e5m2fnuz: { digits: 3, minExponent: -15, greatest: 57344 },
  float4e2m1: { digits: 2, minExponent: 0, greatest: 6 },
};

/** The number that each code of a small float stands for: a sign, an exponent and a fraction. */
export function numbersByCode(type: SmallFloat): number[] {
  const sign = type === 'float4e2m1' ? 8 : 128;
  return Array.from({ length: 2 * sign }, (_, code) => {
    if (type.endsWith('fnuz') && code === sign) return NaN;
    return (code < sign ? 1 : -1) * magnitudeOf(type, code % sign);
  });
}

function magnitudeOf(type: SmallFloat, code: number): number {
  const { digits, minExponent, greatest } = FORMATS[type]!;
  const fractions = 2 ** (digits - 1);
  const [exponent, fraction] = [Math.floor(code / fractions), code % fractions];
  const unit = 2 ** (minExponent + Math.max(exponent - 1, 0)) / fractions;
  const magnitude = (fraction + (exponent === 0 ? 0 : fractions)) * unit;
  if (magnitude <= greatest) return magnitude;
  return type === 'float8e5m2' && fraction === 0 ? Infinity : NaN;
}

export function greatestOf(type: ElementType): number {
  return FORMATS[type]!.greatest;
}

/** The distance of the type's numbers around x. */
export function ulp(type: ElementType, x: number): number {
  const { digits, minExponent } = FORMATS[type]!;
  return 2 ** (exponentOf(x, minExponent) - digits + 1);
}

function exponentOf(x: number, least: number): number {
  const magnitude = Math.abs(x);
  if (!(magnitude >= 2 ** least)) return least;
  if (magnitude === Infinity) return least;
  let exponent = Math.floor(Math.log2(magnitude));
  if (2 ** exponent > magnitude) exponent--;
  if (2 ** (exponent + 1) <= magnitude) exponent++;
  return exponent;
}

/** The nearest number of the type, of two equally near ones the even one. */
export function roundTo(type: ElementType, x: number): number {
  if (type === 'float64' || !Number.isFinite(x) || x === 0) return x;
  if (type === 'float32') return Math.fround(x);
  const unit = ulp(type, x);
  const steps = x / unit;
  const whole = Math.floor(steps);
  const rest = steps - whole;
  const rounded = rest > 0.5 || (rest === 0.5 && whole % 2 !== 0) ? whole + 1 : whole;
  const result = rounded * unit;
  return Math.abs(result) > greatestOf(type) ? Math.sign(x) * Infinity : result || 0 * x;
}

/** An integer as the nearest number of a float type, rounded once. */
export function roundInteger(type: ElementType, x: bigint): number {
  const near = Number(x);
  if (type === 'float64') return near;
  const rounded = roundTo(type, near);
  // Rounded to a double first, what lay beside the middle of two numbers may have come to lie on it.
  if (BigInt(near) === x || !Number.isFinite(rounded)) return rounded;
  const unit = ulp(type, near);
  const candidates = [rounded - unit, rounded, rounded + unit];
  const distance = (candidate: number) => {
    const difference = x - BigInt(candidate);
    return difference < 0n ? -difference : difference;
  };
  return candidates.reduce(
    (best, candidate) => (distance(candidate) < distance(best) ? candidate : best),
    rounded,
  );
}

const BITS: Readonly<Record<string, number>> = {
  int8: 8,
  int16: 16,
  int32: 32,
  int64: 64,
  uint8: 8,
  uint16: 16,
  uint32: 32,
  uint64: 64,
  int4: 4,
  uint4: 4,
  int2: 2,
  uint2: 2,
};

export function bitsOf(type: ElementType): number {
  return BITS[type]!;
}

/** An integer without the bits beyond its type's width. */
export function wrap(type: ElementType, x: bigint): bigint {
  return type.startsWith('u') ? BigInt.asUintN(BITS[type]!, x) : BigInt.asIntN(BITS[type]!, x);
}

export function lowestOf(type: ElementType): Scalar {
  if (isFloat(type)) return -greatestOf(type);
  if (type === 'bool') return 0n;
  return type.startsWith('u') ? 0n : -(1n << BigInt(BITS[type]! - 1));
}

export function highestOf(type: ElementType): Scalar {
  if (isFloat(type)) return greatestOf(type);
  if (type === 'bool') return 1n;
  return (1n << BigInt(type.startsWith('u') ? BITS[type]! : BITS[type]! - 1)) - 1n;
}

/** What docs/numerics.md promises of sums in float32: this times the sum of the absolute values of what is added. */
export const SUM_RULE = 4e-6;

/** A rounding among the subnormal floats, times as many as a test adds up. */
export const TINY = 1.5e-42;

/** What the library computes with where elements are of a float type. */
export interface Arithmetic {
  /** Halves become float32 before, and are rounded once after, which {@link roundedOutput} allows for. */
  readonly type: 'float32' | 'float64';
  /** The greatest error of a rounding, relative to its result */
  readonly unit: number;
  readonly tiny: number;
  /** Sizes beyond may overflow on the way, and those below its inverse may be lost. */
  readonly extreme: number;
  /** Times the sum of the absolute values of so many terms: by how much their sum may be off */
  readonly sumRule: (terms: number) => number;
}

const FLOAT32: Arithmetic = {
  type: 'float32',
  unit: 2 ** -24,
  tiny: TINY,
  extreme: 2 ** 126,
  sumRule: () => SUM_RULE,
};

/** Of doubles nothing but rounding is promised: one for each term, and one for a factor of it. The reference rounds, too. */
const FLOAT64: Arithmetic = {
  type: 'float64',
  unit: 2 ** -53,
  tiny: 1000 * 2 ** -1074,
  extreme: 2 ** 1022,
  sumRule: (terms) => 2 * (terms + 2) * 2 ** -53,
};

export function arithmeticOf(type: ElementType): Arithmetic {
  return type === 'float64' ? FLOAT64 : FLOAT32;
}

/** What rounding an element to its half type adds to what it may be off before. */
function errorOfHalf(type: ElementType, y: number, allowed: number): number {
  if (allowed === 0 && roundTo(type, y) === y) return 0;
  return 0.5 * ulp(type, Math.abs(y) + allowed);
}

/** An output as the library has it: of halves, computed in float32, each element is rounded at the end. */
export function roundedOutput(output: Expected): Expected {
  const { type, data, allowed } = output;
  if (allowed === undefined || (type !== 'float16' && type !== 'bfloat16')) return output;
  const widened = allowed.map((bound, i) => bound + errorOfHalf(type, data[i] as number, bound));
  return { ...output, allowed: widened };
}

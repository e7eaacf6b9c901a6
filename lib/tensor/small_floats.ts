/**
 * Floating-point formats of 16 bits and less, which JavaScript has no numbers or, in older runtimes, no arrays for. A code
 * is a sign, an exponent and a fraction in the low bits of an integer.
 */
import type { DataType } from './data_types';
import { kindOf } from './typed_array';

export interface SmallFloat {
  /** Bits in all */
  readonly width: number;
  readonly fractionBits: number;
  readonly bias: number;
  /**
   * What there is besides finite numbers: infinities, and NaN above them; NaN alone, as the greatest magnitude or in the
   * place of -0; or nothing. Powers have no sign, no zero, and NaN as the greatest code.
   */
  readonly specials: 'infinities' | 'greatestIsNaN' | 'minusZeroIsNaN' | 'none' | 'powers';
}

/** IEEE 754 binary16. */
export const FLOAT16: SmallFloat = { width: 16, fractionBits: 10, bias: 15, specials: 'infinities' };
/** The upper half of an IEEE 754 binary32. */
export const BFLOAT16: SmallFloat = { width: 16, fractionBits: 7, bias: 127, specials: 'infinities' };

const FORMATS: Readonly<Partial<Record<DataType, SmallFloat>>> = {
  float16: FLOAT16,
  bfloat16: BFLOAT16,
  float8e4m3fn: { width: 8, fractionBits: 3, bias: 7, specials: 'greatestIsNaN' },
  float8e4m3fnuz: { width: 8, fractionBits: 3, bias: 8, specials: 'minusZeroIsNaN' },
  float8e5m2: { width: 8, fractionBits: 2, bias: 15, specials: 'infinities' },
  float8e5m2fnuz: { width: 8, fractionBits: 2, bias: 16, specials: 'minusZeroIsNaN' },
  float8e8m0: { width: 8, fractionBits: 0, bias: 127, specials: 'powers' },
  float4e2m1: { width: 4, fractionBits: 1, bias: 1, specials: 'none' },
};

/** The format of a type whose elements are codes; `undefined` for one whose elements are numbers. */
export function smallFloatOf(type: DataType): SmallFloat | undefined {
  return FORMATS[type];
}

/** The code of the number nearest to a finite `value`, ties going to even; `undefined` beyond the largest. */
export function toBits(value: number, format: SmallFloat): number | undefined {
  const { fractionBits, bias } = format;
  const magnitude = Math.abs(value);
  if (format.specials === 'powers') return powerFrom(magnitude);
  // Subnormal numbers share the exponent of the smallest normal ones.
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), 1 - bias);
  // Adding 2 ** 52 leaves no bits for a fraction, so that the addition rounds to an integer.
  const steps = magnitude / 2 ** (exponent - fractionBits) + 2 ** 52 - 2 ** 52;
  // A normal number's steps include its leading bit, which the format leaves out by counting exponents from one more.
  const bits = (exponent + bias - 1) * 2 ** fractionBits + steps;
  if (bits > greatestOf(format)) return undefined;
  const isNegative = value < 0 || Object.is(value, -0);
  const isUnsignedZero = bits === 0 && format.specials === 'minusZeroIsNaN';
  return isNegative && !isUnsignedZero ? signOf(format) | bits : bits;
}

/** The code of the least power of two that is not below. */
function powerFrom(magnitude: number): number | undefined {
  let exponent = Math.ceil(Math.log2(magnitude));
  // The logarithm is rounded.
  if (2 ** (exponent - 1) >= magnitude) exponent--;
  if (2 ** exponent < magnitude) exponent++;
  const code = Math.max(exponent, -127) + 127;
  return code > 254 ? undefined : code;
}

/** The code that any number becomes: infinity beyond the largest, or else NaN, or else the largest itself. */
export function nearestBits(value: number, format: SmallFloat): number {
  if (Number.isNaN(value)) return nanOf(format);
  const bits = Number.isFinite(value) ? toBits(value, format) : undefined;
  if (bits !== undefined) return bits;
  if (format.specials === 'minusZeroIsNaN' || format.specials === 'powers') return nanOf(format);
  const beyond = format.specials === 'none' ? greatestOf(format) : greatestOf(format) + 1;
  return value < 0 ? signOf(format) | beyond : beyond;
}

/** The number that a code stands for. */
export function fromBits(bits: number, format: SmallFloat): number {
  const { fractionBits, bias, specials } = format;
  if (specials === 'powers') return bits === nanOf(format) ? NaN : 2 ** (bits - bias);
  if (specials === 'minusZeroIsNaN' && bits === signOf(format)) return NaN;
  const sign = bits & signOf(format) ? -1 : 1;
  const magnitude = bits & (signOf(format) - 1);
  const greatest = greatestOf(format);
  if (magnitude > greatest) {
    return specials === 'infinities' && magnitude === greatest + 1 ? sign * Infinity : NaN;
  }
  const exponent = magnitude >> fractionBits;
  const fraction = magnitude & (2 ** fractionBits - 1);
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (2 ** fractionBits + fraction) * 2 ** (exponent - bias - fractionBits);
}

/** The greatest finite number. */
export function greatestNumber(format: SmallFloat): number {
  return fromBits(greatestOf(format), format);
}

function signOf({ width }: SmallFloat): number {
  return 2 ** (width - 1);
}

/** The code of the greatest finite number. */
function greatestOf(format: SmallFloat): number {
  const { width, fractionBits, specials } = format;
  switch (specials) {
    case 'infinities':
      return signOf(format) - 2 ** fractionBits - 1;
    case 'greatestIsNaN':
      return signOf(format) - 2;
    case 'powers':
      return 2 ** width - 2;
    default:
      return signOf(format) - 1;
  }
}

/** The code of a NaN that signals nothing. A format without NaN has -0 instead, as ONNX's reference does. */
function nanOf(format: SmallFloat): number {
  const { fractionBits, specials } = format;
  switch (specials) {
    case 'infinities':
      return (greatestOf(format) + 1) | (2 ** (fractionBits - 1));
    case 'greatestIsNaN':
    case 'powers':
      return greatestOf(format) + 1;
    default:
      return signOf(format);
  }
}

const tables = new Map<SmallFloat, Float32Array>();

/** The numbers that any code stands for, by the codes. */
export function floatsByBits(format: SmallFloat): Float32Array {
  let table = tables.get(format);
  if (table === undefined) {
    table = Float32Array.from({ length: 2 ** format.width }, (_, bits) => fromBits(bits, format));
    tables.set(format, table);
  }
  return table;
}

/** Elements of a type that is not packed: as the numbers that they stand for where they are codes, or as they are. */
export function decoded(type: DataType, elements: ArrayLike<number | bigint>): ArrayLike<number | bigint> {
  const format = smallFloatOf(type);
  if (format === undefined || kindOf(elements) === 'Float16Array') return elements;
  const table = floatsByBits(format);
  return Float32Array.from(elements, (code) => table[Number(code)]!);
}

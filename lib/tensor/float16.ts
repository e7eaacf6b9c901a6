/** The two 16-bit floating-point formats, which JavaScript has no numbers or, in older runtimes, no arrays for. */
export interface Float16Format {
  readonly fractionBits: number;
  readonly bias: number;
}

/** IEEE 754 binary16. */
export const FLOAT16: Float16Format = { fractionBits: 10, bias: 15 };
/** The upper half of an IEEE 754 binary32. */
export const BFLOAT16: Float16Format = { fractionBits: 7, bias: 127 };

const SIGN = 0x8000;

/** The bits of the number of the format nearest to a finite `value`, ties going to even; `undefined` beyond the largest. */
export function toBits(value: number, { fractionBits, bias }: Float16Format): number | undefined {
  const magnitude = Math.abs(value);
  // Subnormal numbers share the exponent of the smallest normal ones.
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), 1 - bias);
  // Adding 2 ** 52 leaves no bits for a fraction, so that the addition rounds to an integer.
  const steps = magnitude / 2 ** (exponent - fractionBits) + 2 ** 52 - 2 ** 52;
  // A normal number's steps include its leading bit, which the format leaves out by counting exponents from one more.
  const bits = (exponent + bias - 1) * 2 ** fractionBits + steps;
  if (bits >= infinityOf(fractionBits)) return undefined;
  return value < 0 || Object.is(value, -0) ? SIGN | bits : bits;
}

/** The number that 16 bits stand for. */
export function fromBits(bits: number, { fractionBits, bias }: Float16Format): number {
  const sign = bits & SIGN ? -1 : 1;
  const unsigned = bits & ~SIGN;
  const infinity = infinityOf(fractionBits);
  if (unsigned >= infinity) return unsigned === infinity ? sign * Infinity : NaN;
  const exponent = unsigned >> fractionBits;
  const fraction = unsigned & (2 ** fractionBits - 1);
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (2 ** fractionBits + fraction) * 2 ** (exponent - bias - fractionBits);
}

/** The bits of infinity. */
export function infinityOf(fractionBits: number): number {
  return 2 ** 15 - 2 ** fractionBits;
}

const tables = new Map<Float16Format, Float32Array>();

/** The numbers that any 16 bits stand for, by the bits. */
export function floatsByBits(format: Float16Format): Float32Array {
  let table = tables.get(format);
  if (table === undefined) {
    table = Float32Array.from({ length: 2 ** 16 }, (_, bits) => fromBits(bits, format));
    tables.set(format, table);
  }
  return table;
}

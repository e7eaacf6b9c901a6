/** Numbers that carry along by how much they may be off: errors of a step go into the next one. */
import { erf, erfc, sigmoid } from './functions';
import { ulp, type Arithmetic } from './precision';
import { forEachIndex, type Dims, type ElementType, type Expected } from './tensor';

export const ANYTHING = NaN;

/** A number and by how much it may be off; NaN where ONNX says nothing of it. */
export interface Inexact {
  readonly y: number;
  readonly off: number;
}

export const exact = (y: number): Inexact => ({ y, off: 0 });
export const range = (count: number) => Array.from({ length: count }, (_, i) => i);

/** What may have overflowed on the way may be anything from there on. */
export function within({ extreme }: Arithmetic, y: number, off: number): Inexact {
  return { y, off: Math.abs(y) + off < extreme ? off : ANYTHING };
}

export function times(arithmetic: Arithmetic, a: Inexact, b: Inexact): Inexact {
  const y = a.y * b.y;
  const off = Math.abs(a.y) * b.off + Math.abs(b.y) * a.off + a.off * b.off;
  return within(arithmetic, y, off + 2 * arithmetic.unit * (Math.abs(y) + off) + arithmetic.tiny);
}

export function sum(arithmetic: Arithmetic, terms: readonly Inexact[]): Inexact {
  const { sumRule, tiny } = arithmetic;
  const total = (of: (term: Inexact) => number) => terms.reduce((a, term) => a + of(term), 0);
  const [off, size] = [total((term) => term.off), total((term) => Math.abs(term.y) + term.off)];
  const rounding = sumRule(terms.length) * size + tiny;
  return within(
    arithmetic,
    total((term) => term.y),
    size < arithmetic.extreme ? off + rounding : ANYTHING,
  );
}

/** The products of two lists, to be added up. */
export function products(factors: readonly Inexact[], weights: readonly number[]): Inexact[] {
  return factors.map(({ y, off }, i) => ({ y: y * weights[i]!, off: off * Math.abs(weights[i]!) }));
}

/** One minus a number. */
export const rest = ({ unit }: Arithmetic, { y, off }: Inexact): Inexact => ({
  y: 1 - y,
  off: off + 2 * unit,
});

export const OPEN: Inexact = { y: 0, off: ANYTHING };

export function tensorOf(
  type: ElementType,
  dims: Dims,
  numberAt: (at: readonly number[]) => Inexact,
): Expected {
  const numbers: Inexact[] = [];
  forEachIndex(dims, (coordinates) => numbers.push(numberAt(coordinates)));
  return {
    type,
    dims,
    data: numbers.map(({ y }) => y),
    allowed: numbers.map(({ y, off }) => (Number.isFinite(y) ? off : ANYTHING)),
  };
}

/** Of a result that is known, in the order of its elements. */
export function numbersOf({ data, allowed }: Expected): Inexact[] {
  return data.map((y, i) => ({ y: Number(y), off: allowed?.[i] ?? 0 }));
}

/** @param numbers - in row-major order */
export function listed(type: ElementType, dims: Dims, numbers: readonly Inexact[]): Expected {
  let next = 0;
  return tensorOf(type, dims, () => numbers[next++]!);
}

interface Smooth {
  readonly compute: (x: number) => number;
  /** The most that it changes by where its argument does by 1 */
  readonly slope: number;
  readonly ulps: number;
  /** Beside units in the last place, of a size that follows from the argument */
  readonly absolute?: (x: number, arithmetic: Arithmetic) => number;
}

/** A function with a bounded slope. */
export function smooth(arithmetic: Arithmetic, of: Smooth, { y: x, off }: Inexact): Inexact {
  const y = of.compute(x);
  const own =
    (of.ulps + 0.51) * ulp(arithmetic.type, y) + (of.absolute?.(x, arithmetic) ?? 0) + arithmetic.tiny;
  return within(arithmetic, y, of.slope * off + own);
}

/** x * sigmoid(alpha x): the argument of the exponential is rounded, and with it the result. */
export function silu(arithmetic: Arithmetic, x: Inexact, alpha = 1): Inexact {
  const compute = (y: number) => y * sigmoid(alpha * y);
  const absolute = (y: number) => ulp(arithmetic.type, compute(y)) * Math.min(800, Math.abs(alpha * y));
  return smooth(arithmetic, { compute, slope: 1.1, ulps: 5, absolute }, x);
}

/** In float64 the 1 in the formula has an error of four units, by which x is multiplied. */
function errorOfGelu(x: number, { type, unit }: Arithmetic): number {
  return x < 0 ? -x * (type === 'float64' ? 8 * unit : 1.5e-7) : 0;
}

const GELU: Smooth = {
  compute: (x) => (x < 0 ? 0.5 * x * erfc(-x / Math.SQRT2) : 0.5 * x * (1 + erf(x / Math.SQRT2))),
  slope: 1.13,
  ulps: 5,
  absolute: errorOfGelu,
};

/** (1 + tanh(u)) / 2 is the sigmoid of 2 u. */
const GELU_TANH: Smooth = {
  ...GELU,
  compute: (x) => x * sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)),
};

export const gelu = (arithmetic: Arithmetic, x: Inexact) => smooth(arithmetic, GELU, x);
export const geluTanh = (arithmetic: Arithmetic, x: Inexact) => smooth(arithmetic, GELU_TANH, x);

/** Differences from the maximum are rounded, and their exponentials by as much times their size. */
export function softmax(arithmetic: Arithmetic, terms: readonly Inexact[]): Inexact[] {
  const { sumRule, unit, tiny } = arithmetic;
  const most = terms.reduce((a, { y }) => Math.max(a, y), -Infinity);
  const off = terms.reduce((a, term) => Math.max(a, term.off), 0);
  const total = terms.reduce((a, { y }) => a + Math.exp(y - most), 0);
  return terms.map(({ y: x }) => {
    const y = Math.exp(x - most) / total;
    const relative = Math.expm1(2 * off) + sumRule(terms.length + 8) + 4 * unit * Math.min(most - x, 800);
    return within(arithmetic, y, relative * y + tiny);
  });
}

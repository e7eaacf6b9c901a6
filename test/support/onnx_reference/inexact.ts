/** Numbers that carry along by how much they may be off: errors of a step go into the next one. */
import type { Arithmetic } from './precision';
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

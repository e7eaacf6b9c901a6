import type { Reference } from './reference';

// Taken out of the global object once: looking them up there, for every element, is very slow under Jest.
const { abs } = Math;
const { isFinite } = Number;
const { is } = Object;

/** What fp32 allows: this times the bound of {@link Reference}. */
export const FP32_TOLERANCE = 4e-6;

/** Every element equals the reference. `repro` goes into the failure's message. */
export function expectExact(actual: ArrayLike<number>, { y }: Reference, repro: string): void {
  expectEach(actual, y, () => 0, repro);
}

/** Every element is within `tolerance` times its bound of the reference. */
export function expectWithinBudget(
  actual: ArrayLike<number>,
  { y, bound }: Reference,
  repro: string,
  tolerance = FP32_TOLERANCE,
): void {
  // What an activation makes of an infinite sum, it makes exactly.
  const allowed = (index: number) => (isFinite(bound[index]!) ? tolerance * bound[index]! : 0);
  expectEach(actual, y, allowed, repro);
}

function expectEach(
  actual: ArrayLike<number>,
  expected: Float64Array,
  allowed: (index: number) => number,
  repro: string,
): void {
  if (actual.length !== expected.length) {
    throw new Error(`${actual.length} elements instead of ${expected.length}: ${repro}`);
  }
  for (let index = 0; index < expected.length; index++) {
    if (agrees(actual[index]!, expected[index]!, allowed(index))) continue;
    throw new Error(
      `element ${index} of ${expected.length} is ${actual[index]}, should be ${expected[index]} ` +
        `within ${allowed(index)}: ${repro}`,
    );
  }
}

/** NaN agrees with NaN alone, and an infinity with itself alone. */
function agrees(actual: number, expected: number, allowed: number): boolean {
  if (!isFinite(expected)) return is(actual, expected);
  return abs(actual - expected) <= allowed;
}

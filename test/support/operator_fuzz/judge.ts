/** Whether what came out of a model is what the reference says. */
import { greatestOf } from '../onnx_reference/precision';
import { type Expected, type RefTensor, type Scalar } from '../onnx_reference/tensor';

// Taken out of the global object once: looking them up there, for every element, is very slow under Jest.
const { abs } = Math;
const { isNaN } = Number;
const { is } = Object;

/** What is wrong, or `undefined`. */
export function complaintAbout(
  actual: readonly RefTensor[],
  expected: readonly Expected[],
): string | undefined {
  for (const [i, wanted] of expected.entries()) {
    const complaint = complaintAboutOne(actual[i]!, wanted);
    if (complaint !== undefined) return expected.length === 1 ? complaint : `output ${i}: ${complaint}`;
  }
  return undefined;
}

function complaintAboutOne(actual: RefTensor, expected: Expected): string | undefined {
  const [got, wanted] = [actual, expected].map(({ type, dims }) => `${type}[${dims}]`);
  if (got !== wanted) return `${got} instead of ${wanted}`;
  if (actual.data.length !== expected.data.length) {
    return `${actual.data.length} elements instead of ${expected.data.length}`;
  }
  for (let i = 0; i < expected.data.length; i++) {
    const [x, y, allowed] = [actual.data[i]!, expected.data[i]!, expected.allowed?.[i]];
    if (isRight(expected, x, y, allowed)) continue;
    const shown = is(x, -0) ? '-0' : `${x}`;
    return `element ${i} of ${expected.data.length} is ${shown}, should be ${y} within ${allowed ?? 'its bits'}`;
  }
  return undefined;
}

/**
 * Fails unless within: NaN agrees with NaN alone, and an infinity with itself. An integer may be above what is expected,
 * where the result lies between two of them.
 */
function isRight({ type }: Expected, actual: Scalar, expected: Scalar, allowed: number | undefined): boolean {
  if (allowed === undefined) return is(actual, expected);
  if (isNaN(allowed)) return true;
  if (typeof expected === 'bigint') return actual >= expected && Number(BigInt(actual) - expected) <= allowed;
  return isNear(Number(actual), expected, allowed, greatestOf(type));
}

function isNear(actual: number, expected: number, allowed: number, greatest: number): boolean {
  if (isNaN(expected)) return isNaN(actual);
  if (actual === expected) return true;
  // Beyond the greatest number lies infinity.
  const bounded = abs(actual) === Infinity ? Math.sign(actual) * greatest : actual;
  const target = abs(expected) > greatest ? Math.sign(expected) * greatest : expected;
  if (abs(actual) === Infinity && abs(expected) + allowed < greatest) return false;
  if (abs(expected) === Infinity) return false;
  return abs(bounded - target) <= allowed + (abs(expected) > greatest ? greatest * 2 ** -23 : 0);
}

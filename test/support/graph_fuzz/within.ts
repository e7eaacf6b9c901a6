/**
 * What a node makes of values that are known only to within something. The node is computed of them as they are, and again
 * of some that lie as far off as they may: by as much as its results differ they may be off, too, beside what the node
 * itself may round. An estimate, not a proof: of a sum of many such values no trial is the worst case. It is one that rounding
 * errors, which are smaller than what is allowed and of either sign, stay below.
 */
import { evaluate } from '../onnx_reference';
import type { RefNode } from '../onnx_reference/node';
import { greatestOf, roundTo } from '../onnx_reference/precision';
import {
  Illegal,
  isFloat,
  TooLarge,
  Unjudged,
  type Expected,
  type RefTensor,
  type Scalar,
} from '../onnx_reference/tensor';
import { Random } from '../random';

// Taken out of the global object once: looking them up there, for every element, is very slow under Jest.
const { abs, max, sign } = Math;
const { isFinite, isNaN } = Number;
const { is } = Object;

export interface NodeWithin extends Omit<RefNode, 'inputs'> {
  readonly inputs: readonly (Expected | undefined)[];
}

/** A trial is one error added to more of the same: what trials miss of a sum of several. */
const GROWTH = 1.5;

export function evaluateWithin(node: NodeWithin): Expected[] {
  const outputs = evaluate(node).outputs.map(settled);
  const isOff = node.inputs.some((input) => input?.allowed?.some((bound) => bound > 0));
  const isOpen = node.inputs.some((input) => input?.allowed?.some(isNaN));
  const hasZero = node.inputs.some((input) => input?.allowed !== undefined && isFloat(input.type));
  const near = isOff ? DISTURBANCES : hasZero ? [NEGATIVE] : [];
  const nearby = near.map((disturb) => evaluateOff(node, disturb));
  const anywhere = isOpen ? REPLACEMENTS.map((replace) => evaluateOff(node, replace)) : [];
  if (nearby.length + anywhere.length === 0) return outputs;
  return outputs.map((output, i) =>
    widened(
      output,
      nearby.map((trial) => trial[i]!),
      anywhere.map((trial) => trial[i]!),
    ),
  );
}

/** As a run may have it: a number of its type. Where it may be beyond the greatest one, nothing is known of it. */
function settled(output: Expected): Expected {
  const { type, data, allowed } = output;
  if (!isFloat(type) || allowed === undefined) return output;
  const rounded = (data as readonly number[]).map((x) => roundTo(type, x));
  const greatest = greatestOf(type);
  const bounds = rounded.map((x, i) => {
    const [exact, bound] = [data[i] as number, allowed[i]!];
    if (isFinite(exact) && abs(exact) + bound > greatest / 2) return NaN;
    return isFinite(exact) ? bound + abs(x - exact) : bound;
  });
  return { ...output, data: rounded, allowed: bounds };
}

/** Another value for an element. */
type Disturb = (x: Scalar, allowed: number, input: Expected) => Scalar;

function evaluateOff(node: NodeWithin, disturb: Disturb): readonly RefTensor[] {
  try {
    return evaluate({ ...node, inputs: node.inputs.map((input) => input && disturbed(input, disturb)) })
      .outputs;
  } catch (error) {
    if (!(error instanceof Illegal) && !(error instanceof TooLarge)) throw error;
    throw new Unjudged(`whether ${node.operator} is legal hangs on rounding`);
  }
}

function disturbed(input: Expected, disturb: Disturb): RefTensor {
  const { type, dims, data, allowed } = input;
  if (allowed === undefined) return input;
  return { type, dims, data: data.map((x, i) => disturb(x, allowed[i]!, input)) };
}

/** Off by some share of what is allowed. Integers may lie above alone. */
function offBy(share: (x: number) => number): Disturb {
  return (x, allowed) => {
    if (typeof x === 'bigint') return allowed > 0 && share(Number(x)) > 0 ? x + BigInt(allowed) : x;
    const part = share(x);
    // Which zero it is, is not known either.
    if (x === 0 && part < 0 && !(allowed > 0)) return -0;
    return allowed > 0 && isFinite(x) ? x + part * allowed : x;
  };
}

const NEGATIVE = offBy(() => -1);

const random = new Random(271828);
const DISTURBANCES: readonly Disturb[] = [
  ...[NEGATIVE, offBy(() => 1), offBy((x) => sign(x) || 1), offBy((x) => -(sign(x) || 1))],
  ...Array.from({ length: 4 }, () => offBy(() => (random.chance(0.5) ? 1 : -1))),
  ...Array.from({ length: 2 }, () => offBy(() => 2 * random.uniform() - 1)),
];

/** In the place of what is not known at all. */
function by(float: number, integer: (x: bigint) => bigint): Disturb {
  return (x, allowed, { type }) => {
    if (!isNaN(allowed)) return x;
    if (typeof x === 'number') return float;
    return type === 'bool' ? 1n - x : integer(x);
  };
}

const REPLACEMENTS: readonly Disturb[] = [
  by(NaN, () => 0n),
  by(1e4, (x) => x + 1n),
  by(-1e4, (x) => (x > 0n ? x - 1n : x + 2n)),
];

function widened(output: Expected, nearby: readonly RefTensor[], anywhere: readonly RefTensor[]): Expected {
  const { type, dims, data } = output;
  if ([...nearby, ...anywhere].some((trial) => trial.dims.join() !== dims.join())) {
    throw new Unjudged('extents hang on rounding');
  }
  const isOpen = (i: number) => anywhere.some((trial) => !is(trial.data[i], data[i]));
  const own = (i: number) => output.allowed?.[i] ?? 0;
  if (!isFloat(type)) {
    const lowest = data.map((x, i) => nearby.reduce((least, trial) => lesser(least, trial.data[i]!), x));
    const allowed = data.map((x, i) => {
      if (isOpen(i)) return NaN;
      const highest = nearby.reduce((most, trial) => greater(most, trial.data[i]!), x);
      const range = Number(BigInt(highest) - BigInt(lowest[i]!));
      // Of places one that is near is no better than another.
      return (type === 'bool' || type === 'int64') && range > 0 ? NaN : own(i) + range;
    });
    return { ...output, data: lowest, allowed };
  }
  const allowed = (data as readonly number[]).map((x, i) => {
    if (isOpen(i)) return NaN;
    const spread = nearby.reduce((most, trial) => max(most, distance(x, trial.data[i] as number)), 0);
    return isFinite(spread) ? own(i) + GROWTH * spread : NaN;
  });
  const greatest = greatestOf(type);
  return {
    ...output,
    allowed: allowed.map((bound, i) => {
      const size = abs(data[i] as number);
      return isFinite(size) && size + bound > greatest / 2 ? NaN : bound;
    }),
  };
}

function lesser(a: Scalar, b: Scalar): Scalar {
  return b < a ? b : a;
}

function greater(a: Scalar, b: Scalar): Scalar {
  return b > a ? b : a;
}

function distance(x: number, y: number): number {
  if (x === y || (isNaN(x) && isNaN(y))) return 0;
  const apart = abs(x - y);
  return isNaN(apart) ? Infinity : apart;
}

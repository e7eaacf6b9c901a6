/** Operators that compute each element from those at the same place of their inputs, which are broadcast to each other. */
import { describe } from '../../check';
import type { Sliced } from '../../slices';
import { CONSTRUCTORS } from '../../tensor/tensor';
import { flag, integer } from '../attributes';
import { elementType } from '../element_types';
import { shortened } from '../typed_constants';
import type { Operands } from './operands';
import {
  build,
  greatest,
  isFloat,
  isFoldable,
  least,
  LeftAlone,
  offsetOf,
  stridesOf,
  wrap,
  type FoldableType,
  type Scalar,
  type Value,
} from './values';

export type Operation = (operands: Operands) => Sliced<Value>;

type OnFloats = (...elements: number[]) => number;
type OnIntegers = (...elements: bigint[]) => bigint;

/** The same on floats and on integers; an absent one is left alone. Without `arity`, any number of inputs from one on. */
function arithmetic(arity: number | undefined, float?: OnFloats, onIntegers?: OnIntegers): Operation {
  return (operands) => {
    const values = inputsOf(operands, arity);
    const { type } = values[0];
    const compute = isFloat(type) ? float : type === 'bool' ? undefined : onIntegers;
    if (compute === undefined) throw new LeftAlone(`no ${operands.node.operator} of ${type}`);
    return map(operands, type, values, compute as OnScalars);
  };
}

function comparison(holds: (a: Scalar, b: Scalar) => boolean): Operation {
  return (operands) => map(operands, 'bool', inputsOf(operands, 2), (a, b) => (holds(a!, b!) ? 1n : 0n));
}

function logic(arity: number, compute: OnIntegers): Operation {
  return (operands) => {
    const values = inputsOf(operands, arity);
    if (values[0].type !== 'bool') throw operands.invalid(`takes bool, got ${values[0].type}`);
    return map(operands, 'bool', values, compute as OnScalars);
  };
}

function inputsOf(operands: Operands, arity: number | undefined): [Value, ...Value[]] {
  const values = operands.alike();
  if (arity === undefined || values.length === arity) return values;
  throw operands.invalid(`takes ${arity} inputs, got ${values.length}`);
}

export const ELEMENTWISE: readonly (readonly [operator: string, Operation])[] = [
  [
    'Neg',
    arithmetic(
      1,
      (x) => -x!,
      (x) => -x!,
    ),
  ],
  ['Abs', arithmetic(1, Math.abs, (x) => (x! < 0n ? -x! : x!))],
  ['Sqrt', arithmetic(1, Math.sqrt)],
  ['Floor', arithmetic(1, Math.floor)],
  ['Ceil', arithmetic(1, Math.ceil)],
  ['Round', arithmetic(1, (x) => roundHalfToEven(x!))],
  [
    'Add',
    arithmetic(
      2,
      (a, b) => a! + b!,
      (a, b) => a! + b!,
    ),
  ],
  [
    'Sub',
    arithmetic(
      2,
      (a, b) => a! - b!,
      (a, b) => a! - b!,
    ),
  ],
  [
    'Mul',
    arithmetic(
      2,
      (a, b) => a! * b!,
      (a, b) => a! * b!,
    ),
  ],
  [
    'Div',
    arithmetic(
      2,
      (a, b) => a! / b!,
      (a, b) => a! / nonZero(b!),
    ),
  ],
  [
    'Min',
    arithmetic(
      undefined,
      (...xs) => xs.reduce(least),
      (...xs) => xs.reduce(least),
    ),
  ],
  [
    'Max',
    arithmetic(
      undefined,
      (...xs) => xs.reduce(greatest),
      (...xs) => xs.reduce(greatest),
    ),
  ],
  ['Mod', modulo],
  ['Pow', power],
  ['Equal', comparison((a, b) => a === b)],
  ['Less', comparison((a, b) => a < b)],
  ['LessOrEqual', comparison((a, b) => a <= b)],
  ['Greater', comparison((a, b) => a > b)],
  ['GreaterOrEqual', comparison((a, b) => a >= b)],
  ['Not', logic(1, (x) => 1n - x!)],
  ['And', logic(2, (a, b) => a! & b!)],
  ['Or', logic(2, (a, b) => a! | b!)],
  ['Xor', logic(2, (a, b) => a! ^ b!)],
  ['Where', where],
  ['Cast', cast],
  ['CastLike', castLike],
  ['Expand', expand],
];

type OnScalars = (...elements: readonly Scalar[]) => Scalar;

function map(
  operands: Operands,
  type: FoldableType,
  values: readonly Value[],
  compute: OnScalars,
): Sliced<Value> {
  const dims = broadcastDims(
    operands,
    values.map((value) => value.dims),
  );
  const elementsAt = values.map((value) => broadcast(value, dims.length));
  return build(type, dims, (at) => compute(...elementsAt.map((elementAt) => elementAt(at))));
}

/** Aligned at the last axis, extents are the same or 1. */
function broadcastDims(operands: Operands, shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(...shapes.map((dims) => dims.length));
  return Array.from({ length: rank }, (_, axis) => {
    const extents = shapes.map((dims) => dims[axis - rank + dims.length] ?? 1);
    const extent = extents.find((candidate) => candidate !== 1) ?? 1;
    if (extents.every((other) => other === 1 || other === extent)) return extent;
    throw operands.invalid(`cannot broadcast dims ${shapes.map(describe).join(' and ')} to each other`);
  });
}

/** A value's elements by coordinates of a shape that it is broadcast to. */
function broadcast({ dims, elements }: Value, rank: number): (at: readonly number[]) => Scalar {
  const own = stridesOf(dims).map((stride, axis) => (dims[axis] === 1 ? 0 : stride));
  const strides = [...Array<number>(rank - dims.length).fill(0), ...own];
  return (at) => elements[offsetOf(at, strides)]!;
}

function roundHalfToEven(x: number): number {
  return x - Math.floor(x) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
}

function nonZero(divisor: bigint): bigint {
  if (divisor === 0n) throw new LeftAlone('a division of integers by zero');
  return divisor;
}

/** The sign is the dividend's with `fmod`, else the divisor's. */
function modulo(operands: Operands): Sliced<Value> {
  const truncates = flag(operands.node, 'fmod', false);
  const floored = (a: bigint, b: bigint) => {
    const rest = a % nonZero(b);
    return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest;
  };
  const onFloats: OnFloats | undefined = truncates ? (a, b) => a! % b! : undefined;
  return arithmetic(2, onFloats, (a, b) => (truncates ? a! % nonZero(b!) : floored(a!, b!)))(operands);
}

/** The result is of the base's type, and the exponent may be of another. */
function power(operands: Operands): Sliced<Value> {
  const [base, exponent] = [operands.value(0), operands.value(1)];
  const { type } = base;
  if (isFloat(type)) return map(operands, type, [base, exponent], (a, b) => floatPower(Number(a), Number(b)));
  if (isFloat(exponent.type) || type === 'bool')
    throw new LeftAlone(`${type} to the power of ${exponent.type}`);
  return map(operands, type, [base, exponent], (a, b) => integerPower(type, a as bigint, b as bigint));
}

/** As IEEE 754 has it: JavaScript's power of 1 to NaN or infinity, and of -1 to infinity, is NaN. */
function floatPower(base: number, exponent: number): number {
  const isOne = base === 1 || (base === -1 && Math.abs(exponent) === Infinity);
  return isOne ? 1 : base ** exponent;
}

/** By squaring, within the type's width: the power itself may have more digits than there is memory for. */
function integerPower(type: FoldableType, base: bigint, exponent: bigint): bigint {
  if (exponent < 0n) throw new LeftAlone('an integer to a negative power');
  let result = 1n;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = wrap(type, result * base) as bigint;
    base = wrap(type, base * base) as bigint;
  }
  return result;
}

function where(operands: Operands): Sliced<Value> {
  const condition = operands.value(0);
  const [chosen, other] = operands.alike(1);
  if (condition.type !== 'bool') throw operands.invalid(`takes bool as input 0, got ${condition.type}`);
  if (other === undefined) throw operands.invalid('lacks its input 2');
  return map(operands, chosen.type, [condition, chosen, other], (holds, yes, no) => (holds ? yes! : no!));
}

function cast(operands: Operands): Sliced<Value> {
  const type = elementType(integer(operands.node, 'to'));
  return castTo(operands.value(0), type);
}

function castLike(operands: Operands): Sliced<Value> {
  return castTo(operands.value(0), operands.tensor(1).type);
}

function castTo(value: Value, type: ReturnType<typeof elementType>): Sliced<Value> {
  if (type === undefined || !isFoldable(type)) throw new LeftAlone('a cast to a type without arithmetic');
  return build(type, value.dims, (_, index) => convert(value.elements[index]!, type));
}

function convert(element: Scalar, type: FoldableType): Scalar {
  if (type === 'float32') return shortened(element);
  if (type === 'float64') return Number(element);
  if (type === 'bool') return Number(element) === 0 ? 0n : 1n;
  if (typeof element === 'bigint') return element;
  const whole = Math.trunc(element);
  // Hardware differs in what it makes of the others.
  if (Number.isFinite(whole) && wrap(type, BigInt(whole)) === BigInt(whole)) return BigInt(whole);
  throw new LeftAlone(`${element} as ${CONSTRUCTORS[type].name}`);
}

function expand(operands: Operands): Sliced<Value> {
  const value = operands.value(0);
  const wanted = operands.list(1);
  if (wanted.some((extent) => extent < 0)) throw operands.invalid(`cannot make dims ${describe(wanted)}`);
  const dims = broadcastDims(operands, [value.dims, wanted]);
  const elementAt = broadcast(value, dims.length);
  return build(value.type, dims, elementAt);
}

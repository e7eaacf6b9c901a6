/** Functions of single elements. */
import { areSameDims } from '../../check';
import type { Sliced } from '../../slices';
import { flag, float, string } from '../attributes';
import { computeOf, instruction, numbersOf, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { BinaryOperation, Instruction, MapOperation, UnaryOperation } from '../steps';
import { broadcastDims, type Value } from '../values';
import { apply, asFloat32, choose, mapped, scalar } from './typed';

function unary(
  operation: UnaryOperation,
  parameters: (x: Lowering) => Partial<Pick<Instruction, 'p' | 'q'>> = () => ({}),
): Lower {
  return (x) => apply(x, operation, [x.input(0)], parameters(x));
}

function binary(operation: BinaryOperation): Lower {
  return (x) => apply(x, operation, [x.input(0), x.input(1)]);
}

/** Any number of inputs, two at a time. */
function variadic(operation: BinaryOperation): (x: Lowering) => Sliced<Value> {
  return function* (x) {
    const [first, ...others] = x.inputs;
    let result = first!;
    for (const other of others) {
      yield;
      result = apply(x, operation, [result, other]);
    }
    return result;
  };
}

const sum = variadic('add');

function* mean(x: Lowering): Sliced<Value> {
  const count = scalar(x, x.input(0).type, x.inputs.length);
  return apply(x, 'divide', [yield* sum(x), count]);
}

/** An omitted bound of Clip is the greatest finite number: an infinity is brought to it. */
const GREATEST_FLOAT = 3.4028234663852886e38;

/** Where the bounds cross, the upper one wins. It then is the lower one too, so that no kernel has to know. */
function clipTo(x: Lowering, low: number, high: number): Value {
  return apply(x, 'clip', [x.input(0)], { p: Math.min(low, high), q: high });
}

/** Bounds were attributes before opset 11, and are inputs since. */
const clip: Lower = (x) => {
  const input = x.input(0);
  if (x.opset < 11) {
    return clipTo(x, float(x.node, 'min', -GREATEST_FLOAT), float(x.node, 'max', GREATEST_FLOAT));
  }
  const [low, high] = [x.optional(1), x.optional(2)];
  const isOfFloats = input.type === 'float32';
  if (isOfFloats && [low, high].every((bound) => bound === undefined || bound.constant !== undefined)) {
    const numberOf = (bound: Value | undefined) => bound && numbersOf(bound.constant!)[0]!;
    return clipTo(x, numberOf(low) ?? -GREATEST_FLOAT, numberOf(high) ?? GREATEST_FLOAT);
  }
  const limit = (
    value: Value,
    operation: 'minimum' | 'maximum',
    given: Value | undefined,
    greatest: number,
  ) => {
    // One element of any rank, which must not widen the input.
    const bound = given && x.build.view(given, []);
    if (bound === undefined && !isOfFloats) return value;
    return apply(x, operation, [value, bound ?? scalar(x, 'float32', greatest)]);
  };
  return limit(limit(input, 'maximum', low, -GREATEST_FLOAT), 'minimum', high, GREATEST_FLOAT);
};

const gelu: Lower = (x) => {
  const form = string(x.node, 'approximate', ['none', 'tanh'], 'none');
  return apply(x, form === 'none' ? 'gelu' : 'geluTanh', [x.input(0)]);
};

/** The exponent may be of another type than the base. */
const power: Lower = (x) => {
  const [base, exponent] = [x.input(0), x.input(1)];
  if (base.type !== 'float32') {
    const areIntegers = [base, exponent].every(({ type }) => computeOf(type).endsWith('int64'));
    return mapped(x, 'power', [base, exponent], base.type, {
      compute: areIntegers ? computeOf(base.type) : 'float64',
    });
  }
  const { constant } = exponent;
  const isSquare = constant?.data.length === 1 && numbersOf(constant)[0] === 2;
  // Exact, and a hundred times as fast as a power; a larger shape of the exponent would have to be broadcast to.
  if (isSquare && exponent.dims.length <= base.dims.length) {
    return x.build.elementwise(x.node, [base], [instruction('multiply', { a: 0, b: 0 })]);
  }
  return x.build.elementwise(x.node, [base, asFloat32(x, exponent)], [instruction('power', { b: 1 })]);
};

/** The slope is broadcast to the input, not the other way round. */
const prelu: Lower = (x) => {
  const [input, slope] = [x.input(0), x.input(1)];
  const dims = broadcastDims(input.dims, slope.dims);
  if (dims === undefined || !areSameDims(dims, input.dims)) {
    throw x.invalid(`cannot bring a slope of ${shapeOf(slope)} to ${shapeOf(input)}`);
  }
  return binary('prelu')(x);
};

/** x * sigmoid(alpha * x) */
function scaledSilu(defaultAlpha: number): Lower {
  return (x) => {
    const alpha = float(x.node, 'alpha', defaultAlpha);
    const code = [
      instruction('affine', { p: alpha }),
      instruction('sigmoid', { a: 1 }),
      instruction('multiply', { a: 0, b: 2 }),
    ];
    const input = x.input(0);
    if (input.type === 'float32') {
      return x.build.elementwise(x.node, [input], alpha === 1 ? [instruction('silu')] : code);
    }
    const gate = apply(x, 'sigmoid', [apply(x, 'affine', [input], { p: alpha })]);
    return apply(x, 'multiply', [input, gate]);
  };
}

/** A function that chains do not have. */
function single(
  operation: MapOperation,
  parameters: (x: Lowering) => Partial<Pick<Instruction, 'p' | 'q'>> = () => ({}),
): Lower {
  return (x) => {
    const { inputs } = x;
    return mapped(x, operation, inputs, inputs[0]!.type, parameters(x));
  };
}

/** A question, of which the answer is a bool. */
function question(
  operation: MapOperation,
  parameters: (x: Lowering) => Partial<Pick<Instruction, 'p' | 'q'>> = () => ({}),
): Lower {
  return (x) => mapped(x, operation, x.inputs, 'bool', parameters(x));
}

const mod: Lower = (x) => {
  const [a, b] = [x.input(0), x.input(1)];
  const isOfDividend = flag(x.node, 'fmod', false);
  return mapped(x, isOfDividend ? 'remainder' : 'modulo', [a, b], a.type);
};

const bitShift: Lower = (x) => {
  const direction = string(x.node, 'direction', ['LEFT', 'RIGHT']);
  const operation = direction === 'LEFT' ? 'shiftLeft' : 'shiftRight';
  return mapped(x, operation, [x.input(0), x.input(1)], x.input(0).type);
};

/** Integers are compared with a number, and a bias is added to them as to integers. */
const shrink: Lower = (x) => {
  const input = x.input(0);
  const [limit, bias] = [float(x.node, 'lambd', 0.5), float(x.node, 'bias', 0)];
  const { type } = input;
  if (computeOf(type).startsWith('float')) return mapped(x, 'shrink', [input], type, { p: limit, q: bias });
  if (!Number.isSafeInteger(bias)) {
    throw unsupportedNode(x.node, `has a bias of ${bias} for ${type}; here it can be an integer`);
  }
  const compare = (operation: 'greater' | 'less', number: number) =>
    mapped(x, operation, [input, scalar(x, 'float64', number)], 'bool', { compute: 'float64' });
  const by = scalar(x, type, bias);
  const below = choose(x, compare('less', -limit), apply(x, 'add', [input, by]), scalar(x, type, 0));
  return choose(x, compare('greater', limit), apply(x, 'subtract', [input, by]), below);
};

/** Of any type: elements are chosen, not computed. */
const where: Lower = (x) => {
  return choose(x, x.input(0), x.input(1), x.input(2));
};

/** Functions that are a step of their own each. */
export const singles: Record<string, Lower> = {
  Acos: single('acos'),
  Acosh: single('acosh'),
  And: question('logicalAnd'),
  Asin: single('asin'),
  Asinh: single('asinh'),
  Atan: single('atan'),
  Atanh: single('atanh'),
  BitShift: bitShift,
  BitwiseAnd: single('bitAnd'),
  BitwiseNot: single('bitNot'),
  BitwiseOr: single('bitOr'),
  BitwiseXor: single('bitXor'),
  Cosh: single('cosh'),
  Equal: question('equal'),
  Greater: question('greater'),
  GreaterOrEqual: question('greaterOrEqual'),
  IsInf: question('isInfinite', ({ node }) => ({
    p: Number(flag(node, 'detect_negative', true)),
    q: Number(flag(node, 'detect_positive', true)),
  })),
  IsNaN: question('isNaN'),
  Less: question('less'),
  LessOrEqual: question('lessOrEqual'),
  Mod: mod,
  Not: question('logicalNot'),
  Or: question('logicalOr'),
  Shrink: shrink,
  Sinh: single('sinh'),
  Tan: single('tan'),
  ThresholdedRelu: single('thresholdedRelu', ({ node }) => ({ p: float(node, 'alpha', 1) })),
  Where: where,
  Xor: question('logicalXor'),
};

/** Functions of tensors that are broadcast to each other. */
export const broadcasting: Record<string, Lower> = {
  Add: binary('add'),
  Div: binary('divide'),
  Max: variadic('maximum'),
  Mean: mean,
  Min: variadic('minimum'),
  Mul: binary('multiply'),
  Pow: power,
  PRelu: prelu,
  Sub: binary('subtract'),
  Sum: sum,
};

/** All. Of those that do not broadcast, inputs beyond the first are parameters. */
export const elementwise: Record<string, Lower> = {
  ...broadcasting,
  Abs: unary('absolute'),
  Ceil: unary('ceil'),
  Celu: unary('celu', ({ node }) => ({ p: float(node, 'alpha', 1) })),
  Clip: clip,
  Cos: unary('cos'),
  Elu: unary('elu', ({ node }) => ({ p: float(node, 'alpha', 1) })),
  Erf: unary('erf'),
  Exp: unary('exp'),
  Floor: unary('floor'),
  Gelu: gelu,
  HardSigmoid: unary('hardSigmoid', ({ node }) => ({
    p: float(node, 'alpha', 0.2),
    q: float(node, 'beta', 0.5),
  })),
  HardSwish: unary('hardSwish'),
  LeakyRelu: unary('leakyRelu', ({ node }) => ({ p: float(node, 'alpha', 0.01) })),
  Log: unary('log'),
  Mish: unary('mish'),
  Neg: unary('negate'),
  QuickGelu: scaledSilu(1.702),
  Reciprocal: unary('reciprocal'),
  Relu: unary('relu'),
  Round: unary('round'),
  Selu: unary('selu', ({ node }) => ({
    p: float(node, 'alpha', 1.67326319217681884765625),
    q: float(node, 'gamma', 1.05070102214813232421875),
  })),
  Sigmoid: unary('sigmoid'),
  Sign: unary('sign'),
  Silu: unary('silu'),
  Sin: unary('sin'),
  Softplus: unary('softplus'),
  Softsign: unary('softsign'),
  Sqrt: unary('sqrt'),
  Swish: scaledSilu(1),
  Tanh: unary('tanh'),
};

/** Functions of single elements. */
import { areSameDims } from '../../check';
import type { Sliced } from '../../slices';
import { float, string } from '../attributes';
import { instruction, numbersOf, requireFloat, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import type { BinaryOperation, Instruction, UnaryOperation } from '../steps';
import { broadcastDims, type Value } from '../values';
import { asFloat32 } from './layout';

function unary(
  operation: UnaryOperation,
  parameters: (x: Lowering) => Partial<Pick<Instruction, 'p' | 'q'>> = () => ({}),
): Lower {
  return (x) => x.build.elementwise(x.node, [x.input(0)], [instruction(operation, parameters(x))]);
}

function binary(operation: BinaryOperation): Lower {
  const code = [instruction(operation, { b: 1 })];
  return (x) => x.build.elementwise(x.node, [x.input(0), x.input(1)], code);
}

/** Any number of inputs, two at a time. */
function variadic(operation: BinaryOperation): (x: Lowering) => Sliced<Value> {
  const code = [instruction(operation, { b: 1 })];
  return function* (x) {
    const [first, ...others] = x.inputs;
    let result = first!;
    for (const other of others) {
      yield;
      result = x.build.elementwise(x.node, [result, other], code);
    }
    return result;
  };
}

const sum = variadic('add');

/** A number that follows from the node, or from a constant that it has. */
function scalar(x: Lowering, number: number, ...from: readonly (Value | undefined)[]): Value {
  const given = from.filter((value) => value !== undefined);
  return x.derive('scalar', given, () => ({ type: 'float32', dims: [], data: Float32Array.of(number) }));
}

function* mean(x: Lowering): Sliced<Value> {
  const count = scalar(x, x.inputs.length);
  return x.build.elementwise(x.node, [yield* sum(x), count], [instruction('divide', { b: 1 })]);
}

/** An omitted bound of Clip is the greatest finite number: an infinity is brought to it. */
const GREATEST_FLOAT = 3.4028234663852886e38;

/** Where the bounds cross, the upper one wins. It then is the lower one too, so that no kernel has to know. */
function clipTo(x: Lowering, low: number, high: number): Value {
  const code = instruction('clip', { p: Math.min(low, high), q: high });
  return x.build.elementwise(x.node, [x.input(0)], [code]);
}

/** Bounds were attributes before opset 11, and are inputs since. */
const clip: Lower = (x) => {
  if (x.opset < 11) {
    return clipTo(x, float(x.node, 'min', -GREATEST_FLOAT), float(x.node, 'max', GREATEST_FLOAT));
  }
  const bound = (i: number, otherwise: number) => {
    const given = x.optional(i);
    if (given === undefined) return otherwise;
    // One element of any rank, which must not widen the input.
    return given.constant === undefined ? x.build.view(given, []) : numbersOf(given.constant)[0]!;
  };
  const [low, high] = [bound(1, -GREATEST_FLOAT), bound(2, GREATEST_FLOAT)];
  if (typeof low === 'number' && typeof high === 'number') return clipTo(x, low, high);
  const tensors = [low, high].map((given, i) =>
    typeof given === 'number' ? scalar(x, given, x.optional(i + 1)) : given,
  ) as [Value, Value];
  return limit(x, limit(x, x.input(0), 'maximum', tensors[0]), 'minimum', tensors[1]);
};

function limit(x: Lowering, value: Value, operation: 'minimum' | 'maximum', tensor: Value): Value {
  return x.build.elementwise(x.node, [value, tensor], [instruction(operation, { b: 1 })]);
}

const gelu: Lower = (x) => {
  const form = string(x.node, 'approximate', ['none', 'tanh'], 'none');
  return x.build.elementwise(x.node, [x.input(0)], [instruction(form === 'none' ? 'gelu' : 'geluTanh')]);
};

/** The exponent may be of another type than the base. */
const power: Lower = (x) => {
  const [base, exponent] = [x.input(0), x.input(1)];
  requireFloat(x.node, base);
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
    return x.build.elementwise(x.node, [x.input(0)], alpha === 1 ? [instruction('silu')] : code);
  };
}

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

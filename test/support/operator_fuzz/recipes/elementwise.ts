/** Functions of single elements, and of those at the same places of several tensors. */
import { typeNumber } from '../../onnx_reference/elementwise';
import { bitsOf } from '../../onnx_reference/precision';
import { sizeOf, type ElementType, type RefTensor } from '../../onnx_reference/tensor';
import { float, int, recipes, string, type Draw, type Recipe } from '../draw';
import { narrower } from '../values';

const unary: Recipe = (draw) => {
  const scale = () => float(draw.random.pick([-1.5, 0.1, 0.2, 0.5, 1, 1.7, 3]));
  const attributes = {
    ...draw.maybe('alpha', scale),
    ...draw.maybe('beta', scale),
    ...draw.maybe('gamma', scale),
  };
  const approximate = draw.maybe('approximate', () => string(draw.random.pick(['none', 'tanh'])));
  return { attributes: { ...attributes, ...approximate }, inputs: [draw.tensor(draw.dims())] };
};

/** Of arguments around one, where these functions bend or end. */
const trigonometric: Recipe = (draw) => {
  const usual = draw.operator === 'Acosh' ? 'positive' : 'unit';
  return { inputs: [draw.tensor(draw.dims(), undefined, draw.random.chance(0.5) ? usual : undefined)] };
};

/** Of elements among which there are infinities and NaN. */
const question: Recipe = (draw) => ({
  attributes: {
    ...draw.maybe('detect_negative', () => int(draw.random.integer(0, 1))),
    ...draw.maybe('detect_positive', () => int(draw.random.integer(0, 1))),
  },
  inputs: [draw.tensor(draw.dims(), undefined, 'special')],
});

/** What integers and numbers that are none add up to, ONNX does not say; nor what a bound below zero means. */
const shrink: Recipe = (draw) => {
  const type = draw.type();
  const biases = type.includes('float') ? [0, 0.25, -1.5, 0.1] : [0, 1, -2];
  return {
    attributes: {
      ...draw.maybe('lambd', () => float(draw.random.pick([0, 0.5, 0.1, 1, 2.5]))),
      ...draw.maybe('bias', () => float(draw.random.pick(biases))),
    },
    inputs: [draw.tensor(draw.dims(), type)],
  };
};

const bitShift: Recipe = (draw) => {
  const { random } = draw;
  const [left, right] = broadcastable(draw, 2) as [number[], number[]];
  const type = draw.type();
  const bits = bitsOf(type);
  // What other shifts come to, ONNX says since opset 28.
  const beyond = type.startsWith('u') ? [bits, bits + 1, 2 * bits] : [-1, -bits, bits, bits + 1];
  const count = () =>
    BigInt(draw.opset >= 28 && random.chance(0.15) ? random.pick(beyond) : random.integer(0, bits - 1));
  const shifts = Array.from({ length: sizeOf(right) }, count);
  return {
    attributes: { direction: string(random.pick(['LEFT', 'RIGHT'])) },
    inputs: [draw.tensor(left, type), { type, dims: right, data: shifts }],
  };
};

/** Two tensors that are broadcast to each other, of one type or, where the schema has two, of two. */
const binary: Recipe = (draw) => {
  const [left, right] = broadcastable(draw, 2) as [number[], number[]];
  const type = draw.type();
  const group = draw.schema.inputs[1]!.group;
  const second = group === 'T' ? type : draw.type(group);
  const isPower = draw.operator === 'Pow';
  const isMod = draw.operator === 'Mod';
  const fmod = (type.includes('float') && draw.random.chance(0.5)) || draw.random.chance(0.4) ? 1 : 0;
  return {
    attributes: isMod && (fmod === 1 || draw.random.chance(0.5)) ? { fmod: int(fmod) } : {},
    inputs: [draw.tensor(left, type), draw.tensor(right, second, isPower ? 'whole' : undefined)],
  };
};

function broadcastable(draw: Draw, count: number): number[][] {
  const whole = draw.dims();
  const shapes = Array.from({ length: count }, () => narrower(whole, draw.random));
  shapes[draw.random.integer(0, count - 1)] = whole;
  return shapes;
}

const prelu: Recipe = (draw) => {
  const dims = draw.dims();
  const type = draw.type();
  return { inputs: [draw.tensor(dims, type), draw.tensor(narrower(dims, draw.random), type)] };
};

const variadic: Recipe = (draw) => {
  const count = draw.random.integer(1, 4);
  const type = draw.type();
  const dims = draw.dims();
  const shapes = draw.opset < 8 ? Array.from({ length: count }, () => dims) : broadcastable(draw, count);
  return { inputs: shapes.map((shape) => draw.tensor(shape, type)) };
};

const where: Recipe = (draw) => {
  const [condition, yes, no] = broadcastable(draw, 3) as [number[], number[], number[]];
  const type = draw.type();
  return { inputs: [draw.tensor(condition, 'bool'), draw.tensor(yes, type), draw.tensor(no, type)] };
};

const clip: Recipe = (draw) => {
  const type = draw.type();
  const input = draw.tensor(draw.dims(), type);
  const low = draw.random.integer(type.startsWith('u') ? 0 : -3, 2);
  const high = low + draw.random.integer(0, 4);
  if (draw.opset < 11) {
    return {
      attributes: { ...draw.maybe('min', () => float(low)), ...draw.maybe('max', () => float(high)) },
      inputs: [input],
    };
  }
  const bound = (value: number): RefTensor | undefined =>
    draw.random.chance(0.3)
      ? undefined
      : { type, dims: [], data: [type.includes('float') ? value : BigInt(value)] };
  return { inputs: [input, bound(low), bound(high)] };
};

const cast: Recipe = (draw) => {
  const to = draw.random.chance(0.4) ? 'float32' : draw.type('T');
  return { attributes: { to: int(typeNumber(to)) }, inputs: [draw.tensor(draw.dims())] };
};

const SAME_WIDTH: readonly (readonly ElementType[])[] = [
  ['float64', 'int64', 'uint64'],
  ['float32', 'int32', 'uint32'],
  ['float16', 'bfloat16', 'int16', 'uint16'],
  ['int8', 'uint8', 'bool'],
];

const bitCast: Recipe = (draw) => {
  const input = draw.tensor(draw.dims());
  const types = SAME_WIDTH.find((group) => group.includes(input.type))!;
  // A flag has no other bits than 0 and 1.
  const isFlags = input.data.every((x) => x === 0n || x === 1n);
  const to = draw.random.pick(types.filter((type) => type !== 'bool' || isFlags));
  return { attributes: { to: int(typeNumber(to)) }, inputs: [input] };
};

const castLike: Recipe = (draw) => ({
  inputs: [draw.tensor(draw.dims()), draw.tensor(draw.dims({ most: 2 }), draw.type('U'))],
});

const swiGlu: Recipe = (draw) => {
  const [dims, type] = [draw.dims(), draw.type()];
  return {
    attributes: draw.maybe('alpha', () => float(draw.random.pick([0.5, 1, 1.7]))),
    inputs: [draw.tensor(dims, type, 'unit'), draw.tensor(dims, type)],
  };
};

export const elementwise: Readonly<Record<string, Recipe>> = {
  ...recipes(
    unary,
    'Abs BitwiseNot Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Sigmoid Sign Silu Sin Softplus Softsign Sqrt Swish Tanh ThresholdedRelu com.microsoft.Gelu com.microsoft.QuickGelu',
  ),
  ...recipes(trigonometric, 'Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan'),
  ...recipes(question, 'IsInf IsNaN'),
  ...recipes(
    binary,
    'Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Or Pow Sub Xor',
  ),
  ...recipes(variadic, 'Max Mean Min Sum'),
  BitShift: bitShift,
  BitCast: bitCast,
  Cast: cast,
  CastLike: castLike,
  Clip: clip,
  PRelu: prelu,
  Shrink: shrink,
  Where: where,
  SwiGLU: swiGlu,
};

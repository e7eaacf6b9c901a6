/** Functions of single elements, and of those at the same places of several tensors. */
import { ELEMENT_ARRAYS, loaded, stored } from '../operator_fuzz/case';
import { erf, erfc, power, roundHalfToEven, sigmoid } from './functions';
import type { Node } from './node';
import {
  arithmeticOf,
  bitsOf,
  greatestOf,
  highestOf,
  lowestOf,
  roundInteger,
  roundTo,
  ulp,
  wrap,
  type Arithmetic,
} from './precision';
import {
  broadcastData,
  broadcastDims,
  Illegal,
  isFloat,
  requireBroadcastTo,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

export type Operator = (node: Node) => Expected[];

/** How far a function of floats may be off: units in the last place of the result, and beside them an absolute error. */
interface Bound {
  readonly ulps: number;
  readonly absolute?: (x: number, y: number, arithmetic: Arithmetic) => number;
}

/** ONNX says nothing of the element. */
const ANYTHING = NaN;

/** Of the functions here that are not one operation of JavaScript's, which are exact to some fifteen digits. */
const ULPS_OF_REFERENCE = 16;

function allowedBy(arithmetic: Arithmetic, { ulps, absolute }: Bound, x: number, y: number): number {
  const { type } = arithmetic;
  const own = type === 'float64' && ulps > 0.5 ? ULPS_OF_REFERENCE : 0;
  // Half a unit for the rounding of the exact result, from which units are counted.
  const units = ulps === 0 ? 0 : (ulps + own + 0.51) * ulp(type, y);
  return units + (absolute?.(x, y, arithmetic) ?? 0);
}

/** @param integer - the same of integers, where there is such */
function unary(
  float: (node: Node) => (x: number) => number,
  bound: (node: Node) => Bound,
  integer?: (x: bigint) => bigint,
): Operator {
  return (node) => {
    const { type, dims, data } = node.input(0);
    if (!isFloat(type)) {
      if (integer === undefined) throw new Unjudged(`${node.operator} of ${type}`);
      const results = (data as readonly bigint[]).map((x) => wrap(type, integer(x)));
      return [{ type, dims, data: results, allowed: results.map(() => 0) }];
    }
    const [compute, within] = [float(node), bound(node)];
    const results = (data as readonly number[]).map(compute);
    const arithmetic = arithmeticOf(type);
    const allowed = results.map((y, i) => allowedBy(arithmetic, within, data[i] as number, y));
    return [{ type, dims, data: results, allowed }];
  };
}

/** A function without attributes, to within as many units as the native tests state for CPUs and GPUs. */
const plain = (compute: (x: number) => number, ulps: number, integer?: (x: bigint) => bigint): Operator =>
  unary(
    () => compute,
    () => ({ ulps }),
    integer,
  );

const magnitude = (x: bigint) => (x < 0n ? -x : x);

function relu(x: number): number {
  return x < 0 ? 0 : x;
}

const within = (x: number, low: number, high: number) => (x < low ? low : x > high ? high : x);

function gelu(x: number): number {
  return x < 0 ? 0.5 * x * erfc(-x / Math.SQRT2) : 0.5 * x * (1 + erf(x / Math.SQRT2));
}

function geluTanh(x: number): number {
  // (1 + tanh(u)) / 2 is the sigmoid of 2 u.
  return x * sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3));
}

/**
 * Exact as its formula in floats for negative numbers, which is zero where the exact result is tiny. In float64 the 1 in
 * it has an error of four units, by which x is multiplied.
 */
const GELU: Bound = {
  ulps: 5,
  absolute: (x, _, { type, unit }) =>
    x < 0 && x !== -Infinity ? -x * (type === 'float64' ? 8 * unit : 1.5e-7) : 0,
};

function hardSigmoid(node: Node): (x: number) => number {
  const [alpha, beta] = [node.float('alpha', 0.2), node.float('beta', 0.5)];
  return (x) => within(alpha * x + beta, 0, 1);
}

/** x * sigmoid(alpha * x); the argument of the exponential is rounded, and with it the result. */
const scaledSilu = (fallback: number): Operator =>
  unary(
    (node) => (x) => x * sigmoid(node.float('alpha', fallback) * x),
    (node) => ({
      ulps: 5,
      absolute: (x, y, { type, tiny }) =>
        tiny + ulp(type, y) * Math.min(800, Math.abs(node.float('alpha', fallback) * x)),
    }),
  );

function celu(node: Node): (x: number) => number {
  const alpha = node.float('alpha', 1);
  return (x) => (Number.isNaN(x) ? x : Math.max(0, x) + Math.min(0, alpha * Math.expm1(x / alpha)));
}

function mish(x: number): number {
  if (x > 40) return x;
  const e = Math.exp(x);
  return (x * (e * e + 2 * e)) / (e * e + 2 * e + 2);
}

const geluOperator: Operator = (node) => {
  const form = node.string('approximate', ['none', 'tanh']);
  return unary(
    () => (form === 'none' ? gelu : geluTanh),
    () => GELU,
  )(node);
};

type OnFloats = (a: number, b: number) => number;
type OnIntegers = (a: bigint, b: bigint) => bigint | undefined;

/** A function of two tensors, rounded to `ulps`; `undefined` of integers where ONNX says nothing. */
function binary(float: OnFloats, ulps: number, integer: OnIntegers): Operator {
  return (node) => {
    const [a, b] = [node.input(0), node.input(1)];
    const dims = broadcastDims(a.dims, b.dims);
    return [pairwise(a.type, dims, broadcastData(a, dims), broadcastData(b, dims), float, ulps, integer)];
  };
}

function pairwise(
  type: ElementType,
  dims: Dims,
  left: readonly Scalar[],
  right: readonly Scalar[],
  float: OnFloats,
  ulps: number,
  integer: OnIntegers,
): Expected {
  if (isFloat(type)) {
    const data = left.map((a, i) => float(a as number, right[i] as number));
    return { type, dims, data, allowed: data.map((y) => allowedBy(arithmeticOf(type), { ulps }, 0, y)) };
  }
  const results = left.map((a, i) => integer(a as bigint, right[i] as bigint));
  return {
    type,
    dims,
    data: results.map((y) => wrap(type, y ?? 0n)),
    allowed: results.map((y) => (y === undefined ? ANYTHING : 0)),
  };
}

function floorModulo(a: bigint, b: bigint): bigint | undefined {
  if (b === 0n) return undefined;
  const rest = a % b;
  return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest;
}

/** A remainder with the sign of the divisor, which ONNX has of floats since opset 28. */
function floatModulo(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

const mod: Operator = (node) => {
  const isFmod = node.flag('fmod');
  if (!isFmod && isFloat(node.input(0).type) && node.opset < 28) node.tolerate();
  const remainder = (a: bigint, b: bigint) => (b === 0n ? undefined : a % b);
  const operator = isFmod ? binary((a, b) => a % b, 0, remainder) : binary(floatModulo, 0.5, floorModulo);
  return operator(node);
};

/** Of the base's type; the exponent may be of any. */
const pow: Operator = (node) => {
  const [base, exponent] = [node.input(0), node.input(1)];
  const dims = broadcastDims(base.dims, exponent.dims);
  const bases = broadcastData(base, dims);
  const exponents = broadcastData(exponent, dims);
  if (isFloat(base.type)) {
    const values = exponents.map(Number);
    const float = (a: number, b: number) => power(a, b);
    const powers = pairwise(base.type, dims, bases, values, float, 4.5, () => undefined);
    // In which type an integer meets a float, ONNX does not say.
    const isOpen = (value: number) =>
      base.type !== 'float64' && Math.fround(value) !== value && !Number.isNaN(value);
    return [{ ...powers, allowed: powers.allowed!.map((bound, i) => (isOpen(values[i]!) ? NaN : bound)) }];
  }
  // Nor here, where a float would lose bits of what is large.
  const isLarge = (x: bigint) => magnitude(x) > 2n ** 24n;
  const isOpen = (a: bigint, b: bigint) =>
    isFloat(exponent.type) && (isLarge(a) || isLarge(a ** (b < 25n ? b : 25n)));
  const integer = (a: bigint, b: bigint) =>
    b < 0n || isOpen(a, b) ? undefined : integerPower(base.type, a, b);
  const whole = exponents.map((b) => (typeof b === 'bigint' ? b : Number.isInteger(b) ? BigInt(b) : -1n));
  return [pairwise(base.type, dims, bases, whole, () => NaN, 0, integer)];
};

/** One after the other, within the type: the power itself may have millions of digits. */
function integerPower(type: ElementType, base: bigint, exponent: bigint): bigint | undefined {
  if (exponent > 4096n) return undefined;
  let result = 1n;
  for (let i = 0n; i < exponent; i++) result = wrap(type, result * base);
  return result;
}

/** Since opset 28 ONNX says what becomes of a shift by too many bits, or by fewer than none. */
const bitShift: Operator = (node) => {
  const { type } = node.input(0);
  const isLeft = node.string('direction', ['LEFT', 'RIGHT']) === 'LEFT';
  const shift = (x: bigint, count: bigint) => {
    if (count >= 0n && count < BigInt(bitsOf(type))) return isLeft ? x << count : x >> count;
    if (node.opset < 28) return undefined;
    return !isLeft && x < 0n ? -1n : 0n;
  };
  return binary(() => NaN, 0, shift)(node);
};

const bitwise = (combine: (a: bigint, b: bigint) => bigint) => binary(() => NaN, 0, combine);

/** A property of each element of a float type. */
function question(holdsFor: (node: Node) => (x: number) => boolean): Operator {
  return (node) => {
    const { dims, data } = node.input(0);
    const holds = holdsFor(node);
    return [{ type: 'bool', dims, data: (data as readonly number[]).map((x) => (holds(x) ? 1n : 0n)) }];
  };
}

function isInfinite(node: Node): (x: number) => boolean {
  const [low, high] = [node.flag('detect_negative', true), node.flag('detect_positive', true)];
  return (x) => (low && x === -Infinity) || (high && x === Infinity);
}

/** What lies between two integers may become either of them. */
function integerErf({ type, dims, data }: RefTensor): Expected {
  const below = data.map((x) => (x < 0 ? -1n : 0n));
  return { type, dims, data: below, allowed: data.map((x) => (x === 0n ? 0 : 1)) };
}

/** Nearer to zero by the bias, and zero around zero. */
const shrink: Operator = (node) => {
  const { type, dims, data } = node.input(0);
  const [bound, bias] = [node.float('lambd', 0.5), node.float('bias', 0)];
  if (!isFloat(type)) {
    if (!Number.isInteger(bias)) throw new Unjudged(`integers plus ${bias}`);
    const whole = BigInt(bias);
    const moved = data.map((x) =>
      wrap(type, x < -bound ? BigInt(x) + whole : x > bound ? BigInt(x) - whole : 0n),
    );
    return [{ type, dims, data: moved, allowed: moved.map(() => (bound < 0 ? ANYTHING : 0)) }];
  }
  const moved = (data as readonly number[]).map((x) => (x < -bound ? x + bias : x > bound ? x - bias : 0));
  // Below zero the bounds cross, and both formulas hold of an element.
  const allowed = moved.map((y) =>
    bound < 0 ? ANYTHING : allowedBy(arithmeticOf(type), { ulps: 0.5 }, 0, y),
  );
  return [{ type, dims, data: moved, allowed }];
};

function compare(holds: (a: Scalar, b: Scalar) => boolean): Operator {
  return (node) => {
    const [a, b] = [node.input(0), node.input(1)];
    const dims = broadcastDims(a.dims, b.dims);
    const [left, right] = [broadcastData(a, dims), broadcastData(b, dims)];
    return [{ type: 'bool', dims, data: left.map((x, i) => (holds(x, right[i]!) ? 1n : 0n)) }];
  };
}

const where: Operator = (node) => {
  const inputs = [0, 1, 2].map((i) => node.input(i));
  const dims = broadcastDims(...inputs.map((input) => input.dims));
  const [condition, yes, no] = inputs.map((input) => broadcastData(input, dims));
  return [
    { type: node.input(1).type, dims, data: condition!.map((holds, i) => (holds ? yes![i]! : no![i]!)) },
  ];
};

const prelu: Operator = (node) => {
  requireBroadcastTo(node.input(1).dims, node.input(0).dims);
  return binary(
    (x, slope) => (x < 0 ? slope * x : x),
    0.5,
    (x, slope) => (x < 0n ? slope * x : x),
  )(node);
};

/** Before opset 8 there was no broadcasting among any number of tensors. */
function variadic(
  combine: (
    node: Node,
    type: ElementType,
    columns: readonly (readonly Scalar[])[],
  ) => Pick<Expected, 'data' | 'allowed'>,
): Operator {
  return (node) => {
    const { inputs } = node;
    if (inputs.length === 0) throw new Illegal(`${node.operator} of nothing`);
    const dims = broadcastDims(...inputs.map((input) => input.dims));
    if (node.opset < 8 && inputs.some((input) => input.dims.join() !== dims.join())) {
      node.tolerate();
    }
    const columns = inputs.map((input) => broadcastData(input, dims));
    const { type } = inputs[0]!;
    return [{ type, dims, ...combine(node, type, columns) }];
  };
}

const extreme = (isBetter: (a: Scalar, b: Scalar) => boolean): Operator =>
  variadic((_, __, columns) => {
    const better = (a: Scalar, b: Scalar) =>
      Number.isNaN(a) ? a : Number.isNaN(b) || isBetter(b, a) ? b : a;
    const data = columns[0]!.map((_, i) => columns.map((column) => column[i]!).reduce(better));
    return { data, allowed: data.map(() => 0) };
  });

const sum = (isMean: boolean): Operator =>
  variadic((_, type, columns) => {
    const divisor = isMean ? columns.length : 1;
    const rows = columns[0]!.map((_, i) => columns.map((column) => column[i] as number));
    const total = (row: readonly number[]) => row.reduce((a, b) => a + b, 0);
    return {
      data: rows.map((row) => total(row) / divisor),
      allowed: rows.map((row) =>
        allowedOfSum(
          arithmeticOf(type),
          total(row.filter(Number.isFinite).map(Math.abs)),
          divisor,
          row.length,
        ),
      ),
    };
  });

/** A partial sum of the finite terms may overflow where the whole does not. */
function allowedOfSum(
  { extreme, sumRule, tiny }: Arithmetic,
  magnitudes: number,
  divisor: number,
  terms: number,
): number {
  if (magnitudes > extreme) return ANYTHING;
  return terms === 1 ? 0 : (sumRule(terms) * magnitudes) / divisor + tiny;
}

/** Bounds are attributes at first, and inputs since opset 11. */
const clip: Operator = (node) => {
  const { type, dims, data } = node.input(0);
  const given = node.opset < 11 ? attributeBounds(node) : inputBounds(node);
  const [low, high] = [given[0] ?? lowestOf(type), given[1] ?? highestOf(type)];
  const isBounded = !Number.isNaN(low) && !Number.isNaN(high) && (node.opset >= 12 || low <= high);
  const results = data.map((x) => {
    if (Number.isNaN(x)) return x;
    const raised = x < low ? low : x;
    return raised > high ? high : raised;
  });
  return [{ type, dims, data: results, allowed: results.map(() => (isBounded ? 0 : ANYTHING)) }];
};

function attributeBounds(node: Node): (Scalar | undefined)[] {
  const { type } = node.input(0);
  const greatest = greatestOf('float32');
  return ['min', 'max'].map((name) => {
    // Attributes are floats, whatever the type is that they bound.
    const bound = node.float(name, name === 'min' ? -greatest : greatest);
    if (isFloat(type)) return bound;
    if (!node.has(name)) return undefined;
    // Integers came when bounds were attributes no more.
    if (!Number.isInteger(bound)) throw new Unjudged(`integers within ${bound}`);
    return BigInt(bound);
  });
}

function inputBounds(node: Node): (Scalar | undefined)[] {
  return [1, 2].map((i) => {
    const bound = node.optional(i);
    if (bound !== undefined && bound.data.length !== 1) throw new Illegal(`a bound of [${bound.dims}]`);
    if (bound !== undefined && bound.dims.length > 0) node.tolerate();
    return bound?.data[0];
  });
}

const TYPE_NUMBERS: Readonly<Record<number, ElementType>> = {
  1: 'float32',
  2: 'uint8',
  3: 'int8',
  4: 'uint16',
  5: 'int16',
  6: 'int32',
  7: 'int64',
  9: 'bool',
  10: 'float16',
  11: 'float64',
  12: 'uint32',
  13: 'uint64',
  16: 'bfloat16',
};

/** ONNX's number of a type. */
export function typeNumber(type: ElementType): number {
  return Number(Object.keys(TYPE_NUMBERS).find((number) => TYPE_NUMBERS[Number(number)] === type));
}

/** The type of ONNX's number, if it is one of those here. */
export function typeOfNumber(number: number): ElementType {
  const type = TYPE_NUMBERS[number];
  if (type !== undefined) return type;
  // Strings, complex numbers and those of eight bits and fewer.
  if (number >= 8 && number <= 28) throw new Unjudged(`elements of type ${number}`);
  throw new Illegal(`elements of type ${number}`);
}

/** The same bits, of types that are as wide. */
const bitCast: Operator = (node) => {
  const input = node.input(0);
  const type = typeOfNumber(node.integer('to'));
  const [from, to] = [ELEMENT_ARRAYS[input.type], ELEMENT_ARRAYS[type]];
  if (from.BYTES_PER_ELEMENT !== to.BYTES_PER_ELEMENT) throw new Illegal(`bits of ${input.type} as ${type}`);
  const bits = (from as { from(elements: unknown): { buffer: ArrayBuffer } }).from(stored(input));
  const data = loaded(type, new to(bits.buffer), input.dims);
  if (type === 'bool' && data.some((x) => x !== 0n && x !== 1n)) throw new Unjudged('flags of other bits');
  // NaN has many bits, which the numbers here do not have.
  const allowed = data.map((x, i) => (Number.isNaN(x) || Number.isNaN(input.data[i]) ? NaN : 0));
  return [{ type, dims: input.dims, data, ...(allowed.some(Number.isNaN) ? { allowed } : {}) }];
};

const cast: Operator = (node) => [castTo(node.input(0), typeOfNumber(node.integer('to')))];

function castTo(input: RefTensor, type: ElementType): Expected {
  const data = input.data.map((x) => castOne(x, type));
  return { type, dims: input.dims, data, allowed: data.map(() => 0) };
}

/**
 * Integers lose the bits beyond their width. Decided, because ONNX leaves it open: a float that does not fit an integer
 * becomes the nearest that does, and NaN zero.
 */
function castOne(x: Scalar, type: ElementType): Scalar {
  if (isFloat(type)) return typeof x === 'bigint' ? roundInteger(type, x) : roundTo(type, x);
  if (type === 'bool') return Number(x) === 0 ? 0n : 1n;
  if (typeof x === 'bigint') return wrap(type, x);
  if (Number.isNaN(x)) return 0n;
  const [low, high] = [lowestOf(type), highestOf(type)] as [bigint, bigint];
  if (x <= low) return low;
  return x >= high ? high : BigInt(Math.trunc(x));
}

export const elementwise: Readonly<Record<string, Operator>> = {
  Abs: plain(Math.abs, 0, magnitude),
  Acos: plain(Math.acos, 4),
  Acosh: plain(Math.acosh, 4),
  Add: binary(
    (a, b) => a + b,
    0.5,
    (a, b) => a + b,
  ),
  And: compare((a, b) => a === 1n && b === 1n),
  Asin: plain(Math.asin, 4),
  Asinh: plain(Math.asinh, 4),
  Atan: plain(Math.atan, 4),
  Atanh: plain(Math.atanh, 4),
  BitShift: bitShift,
  BitwiseAnd: bitwise((a, b) => a & b),
  BitwiseNot: plain(
    () => NaN,
    0,
    (x) => ~x,
  ),
  BitwiseOr: bitwise((a, b) => a | b),
  BitwiseXor: bitwise((a, b) => a ^ b),
  BitCast: bitCast,
  Cast: cast,
  CastLike: (node) => [castTo(node.input(0), node.input(1).type)],
  Ceil: plain(Math.ceil, 0),
  Celu: unary(celu, (node) => ({
    ulps: 4,
    absolute: (x, y, { type, tiny }) =>
      // By an alpha of 0 the formula divides, and infinity times 0 is what a runtime makes of it.
      node.float('alpha', 1) === 0 || !Number.isFinite(node.float('alpha', 1))
        ? ANYTHING
        : tiny +
          ulp(type, y) * (Number.isFinite(y) ? Math.min(800, Math.abs(x / node.float('alpha', 1))) : 0),
  })),
  Clip: clip,
  Cos: plain(Math.cos, 1),
  Cosh: plain(Math.cosh, 4),
  Div: binary(
    (a, b) => a / b,
    0.5,
    // Decided: ONNX says nothing of a division by zero.
    (a, b) => (b === 0n ? 0n : a / b),
  ),
  Elu: unary(
    (node) => (x) => (x < 0 ? node.float('alpha', 1) * Math.expm1(x) : x),
    () => ({ ulps: 3 }),
  ),
  Equal: compare((a, b) => a === b),
  Erf: (node) => (isFloat(node.input(0).type) ? plain(erf, 2.5)(node) : [integerErf(node.input(0))]),
  Exp: plain(Math.exp, 2),
  Floor: plain(Math.floor, 0),
  Gelu: geluOperator,
  Greater: compare((a, b) => a > b),
  GreaterOrEqual: compare((a, b) => a >= b),
  HardSigmoid: unary(hardSigmoid, (node) => ({
    ulps: 1,
    // A product and a sum, each of them rounded.
    absolute: (x, _, { unit }) => {
      const size = Math.abs(node.float('alpha', 0.2) * x) + Math.abs(node.float('beta', 0.5));
      return Math.min(2, size) * 2 * unit;
    },
  })),
  HardSwish: unary(
    () => (x) => x * within(x / 6 + 0.5, 0, 1),
    () => ({ ulps: 2, absolute: (x, _, { unit }) => (Math.abs(x) < 8 ? Math.abs(x) * 2 * unit : 0) }),
  ),
  IsInf: question(isInfinite),
  IsNaN: question(() => Number.isNaN),
  LeakyRelu: unary(
    (node) => (x) => (x < 0 ? node.float('alpha', 0.01) * x : x),
    () => ({ ulps: 1 }),
  ),
  Less: compare((a, b) => a < b),
  LessOrEqual: compare((a, b) => a <= b),
  Log: plain(Math.log, 2),
  Max: extreme((a, b) => a > b),
  Mean: sum(true),
  Min: extreme((a, b) => a < b),
  Mish: unary(
    () => mish,
    () => ({ ulps: 6, absolute: (_, __, { tiny }) => tiny }),
  ),
  Mod: mod,
  Mul: binary(
    (a, b) => a * b,
    0.5,
    (a, b) => a * b,
  ),
  Neg: plain(
    (x) => -x,
    0,
    (x) => -x,
  ),
  Not: (node) => [
    { type: 'bool', dims: node.input(0).dims, data: node.input(0).data.map((x) => (x === 0n ? 1n : 0n)) },
  ],
  Or: compare((a, b) => a === 1n || b === 1n),
  PRelu: prelu,
  Pow: pow,
  QuickGelu: scaledSilu(1.702),
  Reciprocal: plain((x) => 1 / x, 0.5),
  Relu: plain(relu, 0, (x) => (x < 0n ? 0n : x)),
  Round: plain(roundHalfToEven, 0),
  Selu: unary(
    (node) => {
      const [alpha, gamma] = [
        node.float('alpha', 1.67326319217681884765625),
        node.float('gamma', 1.05070102214813232421875),
      ];
      return (x) => gamma * (x <= 0 ? alpha * Math.expm1(x) : x);
    },
    (node) => ({
      ulps: 4,
      // Either formula is for 0, and by such an alpha one of them is NaN.
      absolute: (x) => (x === 0 && !Number.isFinite(node.float('alpha', 1)) ? ANYTHING : 0),
    }),
  ),
  Sigmoid: plain(sigmoid, 4),
  Shrink: shrink,
  Sign: plain(Math.sign, 0, (x) => (x > 0n ? 1n : x < 0n ? -1n : 0n)),
  Silu: scaledSilu(1),
  Sin: plain(Math.sin, 1),
  Sinh: plain(Math.sinh, 4),
  Softplus: plain((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), 4),
  Softsign: plain((x) => x / (1 + Math.abs(x)), 2),
  Sqrt: plain(Math.sqrt, 0.5),
  Sub: binary(
    (a, b) => a - b,
    0.5,
    (a, b) => a - b,
  ),
  Sum: sum(false),
  Swish: scaledSilu(1),
  Tan: plain(Math.tan, 4),
  Tanh: plain(Math.tanh, 2.5),
  ThresholdedRelu: unary(
    (node) => (x) => (x > node.float('alpha', 1) ? x : 0),
    () => ({ ulps: 0 }),
  ),
  Where: where,
  Xor: compare((a, b) => a !== b),
};

/** Operators of the domain `com.microsoft`, as onnxruntime's own optimiser and quantiser write them. */
import { flag, float, floats, integer, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { resultOf, type Sliced } from '../../slices';
import { sizeOf, type Value } from '../values';
import { convolveWith } from './convolution';
import { computed } from './known';
import { join } from './layout';
import { multiply } from './matrix';
import { normalization } from './normalization';
import { centred, dequantized, integersOf, multiplyIntegers, quantizedDynamically } from './quantization';
import { recurrentOperators } from './recurrent';
import { reduceTo, softmaxOf } from './reduction';
import { apply, asFloat32, choose, mapped, scalar } from './typed';

const plus = (x: Lowering, a: Value, b: Value) => apply(x, 'add', [a, b]);

const ACTIVATIONS = ['', 'Relu', 'Tanh', 'Sigmoid', 'LeakyRelu', 'Clip', 'HardSigmoid'] as const;

function activated(x: Lowering, value: Value): Value {
  const name = string(x.node, 'activation', ACTIVATIONS, '');
  const [p = 0, q = 0] = floats(x.node, 'activation_params', []);
  switch (name) {
    case '':
      return value;
    case 'Relu':
      return apply(x, 'relu', [value]);
    case 'Tanh':
      return apply(x, 'tanh', [value]);
    case 'Sigmoid':
      return apply(x, 'sigmoid', [value]);
    case 'LeakyRelu':
      return apply(x, 'leakyRelu', [value], { p });
    case 'Clip':
      return apply(x, 'clip', [value], { p, q });
    case 'HardSigmoid':
      return apply(x, 'hardSigmoid', [value], { p, q });
  }
}

const fusedConv: Lower = (x) => {
  const sums = convolveWith(x, x.input(0), x.input(1), x.optional(2));
  const added = x.optional(3);
  return activated(x, added === undefined ? sums : plus(x, sums, added));
};

/** Images and results in NHWC, filters as they always are. */
const nhwcConv: Lower = (x) => {
  const rank = x.input(0).dims.length;
  const order = Array.from({ length: rank }, (_, axis) => axis);
  const planes = x.build.transpose(x.input(0), [0, rank - 1, ...order.slice(1, -1)]);
  const made = activated(x, convolveWith(x, planes, x.input(1), x.optional(2)));
  return x.build.transpose(made, [0, ...order.slice(2), 1]);
};

const fusedMatMul: Lower = (x) => {
  if (flag(x.node, 'transBatchA', false) || flag(x.node, 'transBatchB', false)) {
    throw unsupportedNode(x.node, 'moves the first axis of a batch');
  }
  const side = (i: number, name: string) => (flag(x.node, name, false) ? turned(x, x.input(i)) : x.input(i));
  const product = multiply(x, side(0, 'transA'), side(1, 'transB'));
  const alpha = float(x.node, 'alpha', 1);
  return alpha === 1 ? product : apply(x, 'multiply', [product, scalar(x, product.type, alpha)]);
};

/** The last two axes the other way round. */
function turned(x: Lowering, value: Value): Value {
  const rank = value.dims.length;
  const order = value.dims.map((_, axis) => axis);
  return x.build.transpose(value, [...order.slice(0, -2), rank - 1, rank - 2]);
}

const biasGelu: Lower = (x) => apply(x, 'gelu', [plus(x, x.input(0), x.input(1))]);

const fastGelu: Lower = (x) => {
  const bias = x.optional(1);
  return apply(x, 'geluTanh', [bias === undefined ? x.input(0) : plus(x, x.input(0), bias)]);
};

/** Of the sum of an input, one that skips, and a bias; that sum is the fourth output. */
function skipping(normalize: Lower): Lower {
  return function* (x): Sliced<(Value | undefined)[]> {
    const isSimple = x.node.operator.includes('Simplified');
    const bias = x.optional(isSimple ? 3 : 4);
    const both = plus(x, x.input(0), x.input(1));
    const sum = bias === undefined ? both : plus(x, both, bias);
    const shift = isSimple ? undefined : x.optional(3);
    const made = yield* resultOf(normalize(x.with([sum, x.input(2), shift])));
    return ['operand' in made ? made : made[0], undefined, undefined, sum];
  } as Lower;
}

interface Heads {
  readonly query: Value;
  readonly key: Value;
  readonly value: Value;
}

/** [batch, length, heads * size] as [batch, heads, length, size] */
function split(x: Lowering, value: Value, heads: number): Value {
  const [batch, length, width] = value.dims as [number, number, number];
  const parts = x.build.view(value, [batch, length, heads, width / heads]);
  return x.build.transpose(parts, [0, 2, 1, 3]);
}

/** A mask of 1 and 0 by key, [batch, keys] or with axes for heads and queries, as what is added to scores. */
function maskBias(x: Lowering, mask: Value): Value {
  const [batch, ...rest] = mask.dims as [number, ...number[]];
  if (rest.length === 0) throw unsupportedNode(x.node, `has a mask of ${shapeOf(mask)}`);
  const dims =
    rest.length === 1 ? [batch, 1, 1, rest[0]!] : rest.length === 2 ? [batch, 1, ...rest] : mask.dims;
  const hidden = scalar(x, 'float32', float(x.node, 'mask_filter_value', -10000));
  const isSeen = mapped(x, 'equal', [x.build.view(mask, dims), scalar(x, mask.type, 0)], 'bool');
  return choose(x, isSeen, hidden, scalar(x, 'float32', 0));
}

function attend(x: Lowering, { query, key, value }: Heads, biases: readonly Value[]): Value {
  const [batch, heads, length, size] = query.dims as [number, number, number, number];
  const scale = float(x.node, 'scale', 0) || 1 / Math.sqrt(size);
  const scaled = apply(x, 'multiply', [query, scalar(x, query.type, scale)]);
  const scores = multiply(x, scaled, turned(x, key));
  const biased = biases.reduce((sum, bias) => plus(x, sum, bias), scores);
  const made = multiply(x, softmaxOf(x, biased, 3), value);
  return x.build.view(x.build.transpose(made, [0, 2, 1, 3]), [batch, length, heads * value.dims[3]!]);
}

/** Inputs are the sequence, the weights of queries, keys and values side by side, their bias, and a mask. */
const attention: Lower = (x) => {
  const [input, weights, bias, mask] = [x.input(0), x.input(1), x.optional(2), x.optional(3)];
  if (x.optional(4) !== undefined || x.node.attributes.has('qkv_hidden_sizes')) {
    throw unsupportedNode(x.node, 'has a past, or parts of different sizes');
  }
  const heads = integer(x.node, 'num_heads');
  const product = multiply(x, input, weights);
  const whole = bias === undefined ? product : plus(x, product, bias);
  const [batch, length, width] = whole.dims as [number, number, number];
  const size = width / 3 / heads;
  const parts = x.build.view(whole, [batch, length, 3, heads, size]);
  const moved = x.build.transpose(parts, [2, 0, 3, 1, 4]);
  const part = (i: number) =>
    x.build.view(moved, [batch, heads, length, size], i * batch * heads * length * size);
  const biases = [
    ...(mask === undefined ? [] : [maskBias(x, mask)]),
    ...[x.optional(5)].filter((one) => one !== undefined),
  ];
  if (flag(x.node, 'unidirectional', false)) throw unsupportedNode(x.node, 'sees what came before alone');
  return attend(x, { query: part(0), key: part(1), value: part(2) }, biases);
};

/** Inputs are queries, keys and values, a bias of all three, a mask of the keys, and what is added to the scores. */
const multiHeadAttention: Lower = (x) => {
  const [query, key, value] = [x.input(0), x.optional(1), x.optional(2)];
  const past = [x.optional(6), x.optional(7)].some((one) => one !== undefined);
  if (past || key?.dims.length !== 3 || value?.dims.length !== 3 || flag(x.node, 'unidirectional', false)) {
    throw unsupportedNode(x.node, 'has a past, packed inputs, or sees what came before alone');
  }
  const heads = integer(x.node, 'num_heads');
  const bias = x.optional(3);
  let from = 0;
  const [q, k, v] = [query, key, value].map((one) => {
    const width = one.dims[2]!;
    const own = bias && x.build.view(bias, [width], from);
    from += width;
    return split(x, own === undefined ? one : plus(x, one, own), heads);
  }) as [Value, Value, Value];
  const mask = x.optional(4);
  const added = x.optional(5);
  const biases = [
    ...(mask === undefined ? [] : [maskBias(x, mask)]),
    ...(added === undefined ? [] : [added]),
  ];
  return attend(x, { query: q, key: k, value: v }, biases);
};

// ------------------------------------------------------------------------------------- quantised

/** The input at i, whose scale and zero point follow it, as numbers. */
function* numbersAt(x: Lowering, i: number): Sliced<Value> {
  const one = (value: Value | undefined) =>
    value && x.build.view(value, sizeOf(value.dims) === 1 ? [] : value.dims);
  return yield* dequantized(x, x.input(i), one(x.input(i + 1))!, one(x.optional(i + 2)));
}

/** Numbers as integers by the scale at i and the zero point behind it. */
function quantizedBy(x: Lowering, value: Value, i: number): Value {
  const scale = x.build.view(x.input(i), []);
  const zero = x.optional(i + 1);
  const type = zero?.type ?? x.input(0).type;
  return integersOf(x, apply(x, 'divide', [value, scale]), zero && x.build.view(zero, []), type);
}

function qLinear(operation: 'add' | 'multiply'): Lower {
  return function* (x) {
    const [a, b] = [yield* numbersAt(x, 0), yield* numbersAt(x, 3)];
    return quantizedBy(x, apply(x, operation, [a, b]), 6);
  };
}

/** A function of one input; its scale and zero point come before those of the result. */
function qLinearUnary(compute: (x: Lowering, value: Value) => Value): Lower {
  return function* (x) {
    return quantizedBy(x, compute(x, yield* numbersAt(x, 0)), 3);
  };
}

function* qLinearConcat(x: Lowering): Sliced<Value> {
  const parts: Value[] = [];
  for (let i = 2; i < x.node.inputs.length; i += 3) parts.push(yield* numbersAt(x, i));
  const scale = x.build.view(x.input(0), []);
  const zero = x.build.view(x.input(1), []);
  const axis = x.axis(integer(x.node, 'axis'), parts[0]!.dims.length);
  return integersOf(x, apply(x, 'divide', [join(x, parts, axis), scale]), zero, zero.type);
}

function globalAverage(x: Lowering, value: Value): Value {
  const isLast = flag(x.node, 'channels_last', false);
  const axes = value.dims.map((_, axis) => axis).slice(isLast ? 1 : 2, isLast ? -1 : undefined);
  return reduceTo(x, value, axes, 'mean', true);
}

/** alpha * a * b + c, c in int32 by the scales of both */
function* qGemm(x: Lowering): Sliced<Value> {
  const side = function* (i: number, name: string): Sliced<Value> {
    const zero = x.optional(i + 2);
    const own = yield* centred(
      x,
      x.input(i),
      zero && x.build.view(zero, sizeOf(zero.dims) === 1 ? [] : zero.dims),
    );
    return flag(x.node, name, false) ? turned(x, own) : own;
  };
  const [a, b] = [yield* side(0, 'transA'), yield* side(3, 'transB')];
  const product = multiplyIntegers(x, a, b);
  const c = x.optional(6);
  const sum = asFloat32(x, c === undefined ? product : plus(x, product, c));
  const one = (i: number) => x.build.view(x.input(i), sizeOf(x.input(i).dims) === 1 ? [] : x.input(i).dims);
  const scales = apply(x, 'multiply', [one(1), one(4)]);
  const real = apply(x, 'multiply', [
    sum,
    apply(x, 'multiply', [scales, scalar(x, 'float32', float(x.node, 'alpha', 1))]),
  ]);
  return x.optional(7) === undefined ? real : quantizedBy(x, real, 7);
}

/** The product of integers as numbers: a, b, their scales, their zero points, and a bias. */
function* scaledProduct(
  x: Lowering,
  a: Value,
  b: Value,
  scales: readonly Value[],
  bias: Value | undefined,
): Sliced<Value> {
  const factor = apply(x, 'multiply', scales);
  const real = apply(x, 'multiply', [asFloat32(x, multiplyIntegers(x, a, b)), factor]);
  return bias === undefined ? real : plus(x, real, bias);
}

const oneOrAll = (x: Lowering, value: Value | undefined) =>
  value && x.build.view(value, sizeOf(value.dims) === 1 ? [] : value.dims);

function* matMulIntegerToFloat(x: Lowering): Sliced<Value> {
  const a = yield* centred(x, x.input(0), oneOrAll(x, x.optional(4)));
  const b = yield* centred(x, x.input(1), oneOrAll(x, x.optional(5)));
  return yield* scaledProduct(x, a, b, [oneOrAll(x, x.input(2))!, oneOrAll(x, x.input(3))!], x.optional(6));
}

function* dynamicQuantizeMatMul(x: Lowering): Sliced<Value> {
  const { values, scale, zero } = quantizedDynamically(x, x.input(0));
  const a = yield* centred(x, values, zero);
  const b = yield* centred(x, x.input(1), oneOrAll(x, x.optional(3)));
  return yield* scaledProduct(x, a, b, [scale, oneOrAll(x, x.input(2))!], x.optional(4));
}

/** Of 4 or 8 bits, in blocks along K with a scale each, which are brought to numbers once a session. */
function* matMulNBits(x: Lowering): Sliced<Value> {
  const [n, k] = [integer(x.node, 'N'), integer(x.node, 'K')];
  const [bits, block] = [integer(x.node, 'bits', 4), integer(x.node, 'block_size')];
  if (bits !== 4 && bits !== 8) throw unsupportedNode(x.node, `has weights of ${bits} bits`);
  const given = [x.constant(1), x.constant(2)] as const;
  const zeros = x.optional(3) && x.constant(3);
  if (x.optional(4) !== undefined) throw unsupportedNode(x.node, 'has an order of groups');
  if (given[1].type !== 'float32') throw unsupportedNode(x.node, `has scales of ${given[1].type}`);
  const blocks = Math.ceil(k / block);
  const from = [x.input(1), x.input(2), ...(zeros === undefined ? [] : [x.input(3)])];
  const packed = given[0].data as Uint8Array;
  const scales = given[1].data as Float32Array;
  const perByte = 8 / bits;
  const bytes = packed.length / (n * blocks);
  const zeroBytes = Math.ceil(blocks / perByte);
  const unpack = (data: Uint8Array, at: number, i: number) =>
    (data[at + Math.floor(i / perByte)]! >> (bits * (i % perByte))) & (2 ** bits - 1);
  const weights = yield* x.deriveInSlices('weights', from, function* () {
    const data = new Float32Array(k * n);
    for (let row = 0; row < n; row++) {
      yield;
      for (let i = 0; i < k; i++) {
        const b = Math.floor(i / block);
        const zero =
          zeros === undefined
            ? 2 ** (bits - 1)
            : zeros.type === 'uint8'
              ? unpack(zeros.data as Uint8Array, row * zeroBytes, b)
              : (zeros.data[row * blocks + b] as number);
        const value = unpack(packed, (row * blocks + b) * bytes, i % block);
        data[i * n + row] = (value - zero) * scales[row * blocks + b]!;
      }
    }
    return { type: 'float32', dims: [k, n], data };
  });
  const product = multiply(x, x.input(0), weights);
  const bias = x.optional(5);
  return bias === undefined ? product : plus(x, product, bias);
}

/** An LSTM whose weights, [directions, inputs, 4 * hidden], are integers, each direction or each column with a scale. */
function* dynamicQuantizeLstm(x: Lowering): Sliced<Value | readonly Value[]> {
  const numbers = function* (i: number, scale: number): Sliced<Value> {
    const weight = x.input(i);
    const spread = (value: Value) =>
      x.build.view(
        value,
        value.dims.length === 1 ? [value.dims[0]!, 1, 1] : [value.dims[0]!, 1, value.dims[1]!],
      );
    const values = [weight, spread(x.input(scale)), spread(x.input(scale + 1))];
    const real = yield* computed(x, `numbers of ${i}`, values, (one, step, zero) => (one - zero) * step);
    return x.build.transpose(real, [0, 2, 1]);
  };
  const [w, r] = [yield* numbers(1, 8), yield* numbers(2, 10)];
  const inputs = [x.input(0), w, r, ...[3, 4, 5, 6, 7].map((i) => x.optional(i))];
  return yield* resultOf(recurrentOperators.LSTM!(x.with(inputs)));
}

export const microsoft: Record<string, Lower> = {
  Attention: attention,
  BiasGelu: biasGelu,
  FastGelu: fastGelu,
  FusedConv: fusedConv,
  FusedMatMul: fusedMatMul,
  MultiHeadAttention: multiHeadAttention,
  NhwcConv: nhwcConv,
  SimplifiedLayerNormalization: normalization.RMSNormalization!,
  SkipLayerNormalization: skipping(normalization.LayerNormalization!),
  SkipSimplifiedLayerNormalization: skipping(normalization.RMSNormalization!),
};

export const microsoftQuantized: Record<string, Lower> = {
  DynamicQuantizeLSTM: dynamicQuantizeLstm,
  DynamicQuantizeMatMul: dynamicQuantizeMatMul,
  MatMulIntegerToFloat: matMulIntegerToFloat,
  MatMulNBits: matMulNBits,
  QGemm: qGemm,
  QLinearAdd: qLinear('add'),
  QLinearConcat: qLinearConcat,
  QLinearGlobalAveragePool: qLinearUnary(globalAverage),
  QLinearLeakyRelu: qLinearUnary((x, value) =>
    apply(x, 'leakyRelu', [value], { p: float(x.node, 'alpha', 0.01) }),
  ),
  QLinearMul: qLinear('multiply'),
  QLinearSigmoid: qLinearUnary((x, value) => apply(x, 'sigmoid', [value])),
  QLinearSoftmax: qLinearUnary((x, value) =>
    softmaxOf(x, value, x.axis(integer(x.node, 'axis', -1), value.dims.length)),
  ),
};

/** Operators of the domain `com.microsoft`, as onnxruntime's own optimiser and quantiser write them. */
import { flag, float, floats, integer, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { DataType } from '../../tensor/tensor';
import { resultOf, type Sliced } from '../../slices';
import { extentOf, sizeOf, type Value } from '../values';
import { convolveWith } from './convolution';
import { join } from './layout';
import { multiply } from './matrix';
import { normalization, simplifiedNormalization } from './normalization';
import { averagePool } from './pooling';
import { centred, dequantized, integersOf, multiplyIntegers, quantizedDynamically } from './quantization';
import { recurrentOperators } from './recurrent';
import { reduceTo, softmaxOf } from './reduction';
import { apply, asFloat32, choose, mapped, requireWithin, scalar } from './typed';

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
  return activated(x, plusWithin(x, sums, x.optional(3)));
};

/** Images and results in NHWC, filters as they always are. */
const nhwcConv: Lower = (x) =>
  withChannelsLast(x, x.input(0), (planes) =>
    activated(x, convolveWith(x, planes, x.input(1), x.optional(2))),
  );

/** What is computed of maps whose channels are the second axis, of others whose last axis they are. */
function withChannelsLast(x: Lowering, maps: Value, compute: (planes: Value) => Value): Value {
  const rank = maps.dims.length;
  const order = maps.dims.map((_, axis) => axis);
  const made = compute(x.build.transpose(maps, [0, rank - 1, ...order.slice(1, -1)]));
  return x.build.transpose(made, [0, ...order.slice(2), 1]);
}

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

/** The sum, if there is something to add, which may not make it any larger. */
function plusWithin(x: Lowering, value: Value, added: Value | undefined): Value {
  requireWithin(x, added, value.dims);
  return added === undefined ? value : plus(x, value, added);
}

const biasGelu: Lower = (x) => apply(x, 'gelu', [plusWithin(x, x.input(0), x.input(1))]);
const fastGelu: Lower = (x) => apply(x, 'geluTanh', [plusWithin(x, x.input(0), x.optional(1))]);

/** Of the sum of an input, one that skips, and a bias; that sum is the fourth output. */
function skipping(normalize: Lower): Lower {
  return function* (x): Sliced<(Value | undefined)[]> {
    const isSimple = x.node.operator.includes('Simplified');
    const bias = x.optional(isSimple ? 3 : 4);
    const shift = isSimple ? undefined : x.optional(3);
    const width = x.input(0).dims.at(-1);
    for (const list of [x.input(2), shift, bias]) {
      if (list === undefined || list.dims[0] === width) continue;
      throw x.invalid(`has ${shapeOf(list)} for ${shapeOf(x.input(0))}`);
    }
    const sum = plusWithin(x, plusWithin(x, x.input(0), x.input(1)), bias);
    const made = yield* resultOf(normalize(x.with([sum, x.input(2), shift])));
    return ['operand' in made ? made : made[0], undefined, undefined, sum];
  } as Lower;
}

interface Heads {
  readonly query: Value;
  readonly key: Value;
  readonly value: Value;
}

function sizeOfHeads(x: Lowering, width: number, heads: number): number {
  if (heads >= 1 && Number.isInteger(width / heads)) return width / heads;
  throw x.invalid(`splits ${width} elements into ${heads} heads`);
}

/** [batch, length, heads * size] as [batch, heads, length, size] */
function split(x: Lowering, value: Value, heads: number): Value {
  const [batch, length, width] = value.dims as [number, number, number];
  const parts = x.build.view(value, [batch, length, heads, sizeOfHeads(x, width, heads)]);
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
  const biased = biases.reduce((sum, bias) => plusWithin(x, sum, bias), scores);
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
  const [batch, length, width] = product.dims as [number, number, number];
  const size = sizeOfHeads(x, width / 3, heads);
  if (bias !== undefined && bias.dims[0] !== width) {
    throw x.invalid(`has a bias of ${shapeOf(bias)} for ${width} elements`);
  }
  const whole = bias === undefined ? product : plus(x, product, bias);
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
  const [batch, , width] = query.dims;
  const areAlike = key.dims[0] === batch && value.dims[0] === batch && key.dims[1] === value.dims[1];
  if (!areAlike || key.dims[2] !== width || query.dims.length !== 3) {
    throw x.invalid(`attends with ${shapeOf(query)} to ${shapeOf(key)} and ${shapeOf(value)}`);
  }
  if (bias !== undefined && bias.dims[0] !== 2 * width! + value.dims[2]!) {
    throw x.invalid(`has a bias of ${shapeOf(bias)} for ${2 * width! + value.dims[2]!} elements`);
  }
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
  return yield* dequantized(x, x.input(i), oneOrAll(x, x.input(i + 1)), optionalOneOrAll(x, i + 2));
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

const BYTES: readonly DataType[] = ['int8', 'uint8'];

/** Inputs are the result's scale and zero point, and then each part, its scale and its zero point. */
function* qLinearConcat(x: Lowering): Sliced<Value> {
  const parts: Value[] = [];
  for (let i = 2; i < x.node.inputs.length; i += 3) {
    const [part, scale, zero] = [i, i + 1, i + 2].map((at) => x.input(at)) as [Value, Value, Value];
    const isPart = BYTES.includes(part.type) && scale.type === 'float32' && zero.type === part.type;
    if (!isPart || sizeOf(scale.dims) !== 1 || sizeOf(zero.dims) !== 1) {
      throw x.invalid(
        `takes int8 or uint8, one float32 and one zero point of each part, got ${shapeOf(part)}, ${shapeOf(scale)} and ${shapeOf(zero)}`,
      );
    }
    parts.push(yield* numbersAt(x, i));
  }
  if (parts.length === 0) throw x.invalid('joins no parts');
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

function average(x: Lowering, value: Value): Value {
  if (value.dims.length < 3)
    throw x.invalid(`takes maps with axes behind their channels, got ${shapeOf(value)}`);
  if (!flag(x.node, 'channels_last', false)) return averagePool(x, value);
  return withChannelsLast(x, value, (planes) => averagePool(x, planes));
}

/** Before opset 13 of ONNX's operator, which the node names, all axes from the given one on are one. */
function softmaxByOpset(x: Lowering, value: Value): Value {
  const rank = value.dims.length;
  const axis = x.axis(integer(x.node, 'axis', -1), rank);
  if (integer(x.node, 'opset') >= 13) return softmaxOf(x, value, axis);
  const joined = [...value.dims.slice(0, axis), extentOf(value.dims, axis, rank)];
  return x.build.view(softmaxOf(x, x.build.view(value, joined), axis), value.dims);
}

/** alpha * a * b + c, c in int32 by the scales of both */
function* qGemm(x: Lowering): Sliced<Value> {
  const side = (i: number, name: string) => (flag(x.node, name, false) ? turned(x, x.input(i)) : x.input(i));
  const a = yield* centred(x, side(0, 'transA'), oneOrAll(x, x.input(2)));
  // One for each column of what is multiplied.
  const b = yield* centred(x, side(3, 'transB'), oneOrAll(x, x.input(5)));
  const product = multiplyIntegers(x, a, b);
  const c = x.optional(6);
  requireWithin(x, c, product.dims);
  const sum = asFloat32(x, c === undefined ? product : plus(x, product, c));
  const scales = apply(x, 'multiply', [oneOrAll(x, x.input(1)), oneOrAll(x, x.input(4))]);
  const factor = apply(x, 'multiply', [scales, scalar(x, 'float32', float(x.node, 'alpha', 1))]);
  requireWithin(x, factor, sum.dims);
  const real = apply(x, 'multiply', [sum, factor]);
  if ((x.optional(7) === undefined) !== (x.optional(8) === undefined)) {
    throw x.invalid('has the scale of its result, or the zero point, and not both');
  }
  return x.optional(7) === undefined ? real : quantizedBy(x, real, 7);
}

/** A list of one is broadcast like a scalar. */
function oneOrAll(x: Lowering, value: Value): Value {
  return x.build.view(value, sizeOf(value.dims) === 1 ? [] : value.dims);
}

const optionalOneOrAll = (x: Lowering, i: number) => x.optional(i) && oneOrAll(x, x.input(i));

/** The product of integers as numbers: a, b, their scales, and a bias. */
function scaledProduct(
  x: Lowering,
  a: Value,
  b: Value,
  scales: readonly Value[],
  bias: Value | undefined,
): Value {
  const factor = apply(x, 'multiply', scales);
  const product = multiplyIntegers(x, a, b);
  for (const parameter of [factor, bias]) requireWithin(x, parameter, product.dims);
  const real = apply(x, 'multiply', [asFloat32(x, product), factor]);
  return bias === undefined ? real : plus(x, real, bias);
}

function* matMulIntegerToFloat(x: Lowering): Sliced<Value> {
  const a = yield* centred(x, x.input(0), optionalOneOrAll(x, 4));
  const b = yield* centred(x, x.input(1), optionalOneOrAll(x, 5));
  return scaledProduct(x, a, b, [oneOrAll(x, x.input(2)), oneOrAll(x, x.input(3))], x.optional(6));
}

function* dynamicQuantizeMatMul(x: Lowering): Sliced<Value> {
  const { values, scale, zero } = quantizedDynamically(x, x.input(0));
  const a = yield* centred(x, values, zero);
  const b = yield* centred(x, x.input(1), optionalOneOrAll(x, 3));
  return scaledProduct(x, a, b, [scale, oneOrAll(x, x.input(2))], x.optional(4));
}

interface Blocks {
  readonly n: number;
  readonly k: number;
  readonly bits: number;
  /** Elements of a block, and blocks of a column */
  readonly block: number;
  readonly blocks: number;
}

function blocksOf(x: Lowering): Blocks {
  const [n, k] = [integer(x.node, 'N'), integer(x.node, 'K')];
  const [bits, block] = [integer(x.node, 'bits', 4), integer(x.node, 'block_size')];
  if (bits !== 4 && bits !== 8) throw unsupportedNode(x.node, `has weights of ${bits} bits`);
  if (n < 1 || k < 1 || block < 1) throw x.invalid(`has weights of ${k} x ${n} in blocks of ${block}`);
  if (x.optional(4) !== undefined) throw unsupportedNode(x.node, 'has an order of groups');
  return { n, k, bits, block, blocks: Math.ceil(k / block) };
}

/** Elements that lie in whole bytes, the first in the low bits. */
const bytesFor = (elements: number, bits: number) => Math.ceil((elements * bits) / 8);

function requireLength(x: Lowering, i: number, length: number): void {
  const value = x.optional(i);
  if (value === undefined || sizeOf(value.dims) === length) return;
  throw x.invalid(`takes ${length} elements as its input ${i}, got ${shapeOf(value)}`);
}

function requireBlocks(x: Lowering, { n, k, bits, block, blocks }: Blocks): void {
  const zeros = x.optional(3);
  if (zeros !== undefined && zeros.type !== 'uint8' && zeros.type !== 'float32') {
    throw x.invalid(`takes zero points in bytes or of the type of the scales, got ${zeros.type}`);
  }
  requireLength(x, 1, n * blocks * bytesFor(block, bits));
  requireLength(x, 2, n * blocks);
  requireLength(x, 3, n * (zeros?.type === 'uint8' ? bytesFor(blocks, bits) : blocks));
  requireLength(x, 5, n);
  if (x.input(0).dims.at(-1) !== k) throw x.invalid(`multiplies ${shapeOf(x.input(0))} by ${k} x ${n}`);
}

/** Of 4 or 8 bits, in blocks along K with a scale each, which are brought to numbers once a session. */
function* matMulNBits(x: Lowering): Sliced<Value> {
  if (x.input(0).type === 'float64') throw unsupportedNode(x.node, 'multiplies elements of float64');
  const sizes = blocksOf(x);
  requireBlocks(x, sizes);
  const { n, k, bits, block, blocks } = sizes;
  const zeros = x.optional(3) && x.constant(3);
  const from = [x.input(1), x.input(2), ...(zeros === undefined ? [] : [x.input(3)])];
  const [packed, scales] = [x.constant(1).data as Uint8Array, x.constant(2).data as Float32Array];
  const unpack = (data: Uint8Array, row: number, perRow: number, i: number) =>
    (data[row * perRow + Math.floor((i * bits) / 8)]! >> ((i * bits) % 8)) & (2 ** bits - 1);
  const zeroOf = (column: number, b: number): number => {
    if (zeros === undefined) return 2 ** (bits - 1);
    if (zeros.type !== 'uint8') return zeros.data[column * blocks + b] as number;
    return unpack(zeros.data as Uint8Array, column, bytesFor(blocks, bits), b);
  };
  const weights = yield* x.deriveInSlices('weights', from, function* () {
    const data = new Float32Array(k * n);
    for (let column = 0; column < n; column++) {
      yield;
      for (let i = 0; i < k; i++) {
        const b = Math.floor(i / block);
        const value = unpack(packed, column * blocks + b, bytesFor(block, bits), i % block);
        data[i * n + column] = (value - zeroOf(column, b)) * scales[column * blocks + b]!;
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
    const [directions, , columns] = weight.dims;
    const spread = (value: Value) => {
      const [first, second = columns, ...rest] = value.dims;
      if (first !== directions || second !== columns || rest.length > 0) {
        throw x.invalid(`takes a scale and a zero point a direction or a column, got ${shapeOf(value)}`);
      }
      return x.build.view(value, [directions!, 1, value.dims[1] ?? 1]);
    };
    const real = yield* dequantized(x, weight, spread(x.input(scale)), spread(x.input(scale + 1)));
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
  MatMulNBits: matMulNBits,
  MultiHeadAttention: multiHeadAttention,
  NhwcConv: nhwcConv,
  SimplifiedLayerNormalization: simplifiedNormalization,
  SkipLayerNormalization: skipping(normalization.LayerNormalization!),
  SkipSimplifiedLayerNormalization: skipping(simplifiedNormalization),
};

export const microsoftQuantized: Record<string, Lower> = {
  DynamicQuantizeLSTM: dynamicQuantizeLstm,
  DynamicQuantizeMatMul: dynamicQuantizeMatMul,
  MatMulIntegerToFloat: matMulIntegerToFloat,
  QGemm: qGemm,
  QLinearAdd: qLinear('add'),
  QLinearAveragePool: qLinearUnary(average),
  QLinearConcat: qLinearConcat,
  QLinearGlobalAveragePool: qLinearUnary(globalAverage),
  QLinearLeakyRelu: qLinearUnary((x, value) =>
    apply(x, 'leakyRelu', [value], { p: float(x.node, 'alpha', 0.01) }),
  ),
  QLinearMul: qLinear('multiply'),
  QLinearSigmoid: qLinearUnary((x, value) => apply(x, 'sigmoid', [value])),
  QLinearSoftmax: qLinearUnary(softmaxByOpset),
};

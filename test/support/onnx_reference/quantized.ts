/**
 * Integers that stand for numbers, (integer - zero point) * scale, by onnxruntime's texts of `com.microsoft`: they are
 * brought to numbers, computed with, and rounded to integers again. Which of two integers it is, a rounding may decide.
 */
import type { Operator } from './elementwise';
import { roundHalfToEven, sigmoid } from './functions';
import {
  ANYTHING,
  exact,
  listed,
  numbersOf,
  range,
  smooth,
  softmax,
  sum,
  times,
  type Inexact,
} from './inexact';
import type { Node } from './node';
import { arithmeticOf, highestOf, lowestOf, roundTo } from './precision';
import { recurrence } from './recurrent';
import {
  axisOf,
  broadcastData,
  broadcastDims,
  broadcastStrides,
  forEachIndex,
  Illegal,
  offsetOf,
  requireBroadcastTo,
  requireSmall,
  sizeOf,
  TooLarge,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
} from './tensor';
import { pooling } from './windows';

const FLOAT32 = arithmeticOf('float32');
const MOST_PRODUCTS = 2 ** 22;

/** Numbers in their dims. */
interface Numbers {
  readonly dims: Dims;
  readonly of: readonly Inexact[];
}

/** By one scale and one zero point. */
function dequantized({ dims, data }: RefTensor, scale: number, zero: number): Numbers {
  return { dims, of: data.map((x) => times(FLOAT32, exact(Number(x) - zero), exact(scale))) };
}

/** The input at i, whose scale and zero point follow it. */
function numbersAt(node: Node, i: number): Numbers {
  return dequantized(node.input(i), node.one(i + 1), node.optionalOne(i + 2) ?? 0);
}

/** From the least to the greatest that the quotients may be rounded to. */
export function quantized(type: ElementType, { dims, of }: Numbers, scale: number, zero: number): Expected {
  const [low, high] = [Number(lowestOf(type)), Number(highestOf(type))];
  const bounded = (y: number) => Math.min(Math.max(roundHalfToEven(y) + zero, low), high);
  const ends = of.map(({ y, off }) => {
    const quotient = y / scale;
    const rounding = Math.abs(off / scale) + 2 ** -21 * Math.abs(quotient) + 1e-30;
    return [bounded(quotient - rounding), bounded(quotient + rounding)] as const;
  });
  const isKnown = ends.map(([from, to]) => Number.isFinite(from) && Number.isFinite(to) && scale !== 0);
  return {
    type,
    dims,
    data: ends.map(([from], i) => BigInt(isKnown[i] ? from : 0)),
    allowed: ends.map(([from, to], i) => (isKnown[i] ? to - from : ANYTHING)),
  };
}

/** By the scale at i and the zero point behind it, whose type is that of the result. */
function quantizedBy(node: Node, numbers: Numbers, i: number): Expected[] {
  const type = node.optional(i + 1)?.type ?? node.input(0).type;
  return [quantized(type, numbers, node.one(i), node.optionalOne(i + 1) ?? 0)];
}

function binary(combine: (a: Inexact, b: Inexact) => Inexact): Operator {
  return (node) => {
    const [a, b] = [numbersAt(node, 0), numbersAt(node, 3)];
    const dims = broadcastDims(a.dims, b.dims);
    requireSmall(dims);
    const [left, right] = [a, b].map((side) => broadcastStrides(side.dims, dims)) as [number[], number[]];
    const of: Inexact[] = [];
    forEachIndex(dims, (at) => of.push(combine(a.of[offsetOf(at, left)]!, b.of[offsetOf(at, right)]!)));
    return quantizedBy(node, { dims, of }, 6);
  };
}

function unary(compute: (node: Node, numbers: Numbers) => Numbers): Operator {
  return (node) => quantizedBy(node, compute(node, numbersAt(node, 0)), 3);
}

const elementwise = (compute: (node: Node, x: Inexact) => Inexact) =>
  unary((node, { dims, of }) => ({ dims, of: of.map((x) => compute(node, x)) }));

const SIGMOID = { compute: sigmoid, slope: 0.25, ulps: 4 };

function leakyRelu(node: Node, x: Inexact): Inexact {
  const alpha = node.float('alpha', 0.01);
  const compute = (y: number) => (y < 0 ? alpha * y : y);
  return smooth(FLOAT32, { compute, slope: Math.max(1, Math.abs(alpha)), ulps: 1 }, x);
}

/** As the softmax of an opset: before 13 all axes from the given one on are one. */
const qLinearSoftmax: Operator = (node) =>
  unary((_, { dims, of }) => {
    const axis = axisOf(node.integer('axis', -1), dims.length);
    const axes = node.integer('opset') < 13 ? range(dims.length).slice(axis) : [axis];
    const strides = broadcastStrides(
      dims.map((extent, i) => (axes.includes(i) ? 1 : extent)),
      dims,
    );
    const groups = new Map<number, number[]>();
    forEachIndex(dims, (at, index) => {
      const group = offsetOf(at, strides);
      groups.set(group, [...(groups.get(group) ?? []), index]);
    });
    const results = new Array<Inexact>(of.length);
    for (const group of groups.values()) {
      const made = softmax(
        FLOAT32,
        group.map((index) => of[index]!),
      );
      group.forEach((index, i) => (results[index] = made[i]!));
    }
    return { dims, of: results };
  })(node);

/** A tensor with its axes in another order. */
function transposed({ dims, of }: Numbers, order: readonly number[]): Numbers {
  const target = order.map((axis) => dims[axis]!);
  const strides = order.map((axis) => sizeOf(dims.slice(axis + 1)));
  const moved: Inexact[] = [];
  forEachIndex(target, (at) => moved.push(of[offsetOf(at, strides)]!));
  return { dims: target, of: moved };
}

/** A pool of numbers, of maps whose channels may be the last axis. */
function pooled(operator: 'AveragePool' | 'GlobalAveragePool'): Operator {
  return unary((node, numbers) => {
    const isLast = node.flag('channels_last');
    const rank = numbers.dims.length;
    if (rank < 3) throw new Illegal(`maps of rank ${rank}`);
    const spatial = range(rank).slice(1, -1);
    const maps = isLast ? transposed(numbers, [0, rank - 1, ...spatial]) : numbers;
    const input: RefTensor = { type: 'float32', dims: maps.dims, data: maps.of.map(({ y }) => y) };
    const [made] = pooling[operator]!(node.with([input]));
    // No mean is off by more than all that it is of.
    const off = maps.of.reduce((most, x) => Math.max(most, x.off), 0);
    const of = numbersOf(made!).map((x) => ({ y: x.y, off: x.off + off }));
    const result = { dims: made!.dims, of };
    return isLast ? transposed(result, [0, ...spatial.map((axis) => axis + 1), 1]) : result;
  });
}

const concat: Operator = (node) => {
  const count = node.inputs.length - 2;
  if (count < 3 || count % 3 !== 0) throw new Illegal(`${count} inputs to join`);
  const { type } = node.input(1);
  const parts = range(count / 3).map((i) => {
    const [x, scale, zero] = [0, 1, 2].map((j) => node.input(2 + 3 * i + j)) as [
      RefTensor,
      RefTensor,
      RefTensor,
    ];
    const areBytes = ['int8', 'uint8'].includes(x.type) && scale.type === 'float32' && zero.type === x.type;
    if (!areBytes) throw new Illegal(`${x.type}, ${scale.type} and ${zero.type}`);
    // Others may ask for one type of all.
    if (x.type !== type) node.tolerate();
    return dequantized(x, node.one(3 + 3 * i), node.one(4 + 3 * i));
  });
  const first = parts[0]!.dims;
  const axis = axisOf(node.integer('axis'), first.length);
  const beside = (dims: Dims) => dims.toSpliced(axis, 1).join();
  if (parts.some(({ dims }) => dims.length !== first.length || beside(dims) !== beside(first))) {
    throw new Illegal('parts of other extents');
  }
  const dims = first.with(
    axis,
    parts.reduce((total, part) => total + part.dims[axis]!, 0),
  );
  requireSmall(dims);
  const inner = sizeOf(first.slice(axis + 1));
  const of = range(sizeOf(dims.slice(0, axis))).flatMap((row) =>
    parts.flatMap((part) => {
      const size = part.dims[axis]! * inner;
      return part.of.slice(row * size, (row + 1) * size);
    }),
  );
  return [quantized(type, { dims, of }, node.one(0), node.one(1))];
};

/** One element, or one for each column of the matrices. */
function byColumn(
  node: Node,
  tensor: RefTensor | undefined,
  columns: number,
  what: string,
): (column: number) => number {
  if (tensor === undefined) return () => 0;
  const { dims, data } = tensor;
  if (data.length === 1) return () => Number(data[0]);
  if (dims.length > 1 && dims.at(-1) === 1) throw new Unjudged(`a ${what} for each row`);
  if (dims.at(-1) !== columns || data.length !== columns) {
    throw new Illegal(`a ${what} of [${dims}] for ${columns} columns`);
  }
  // Axes of one before that of the columns change nothing.
  if (dims.length > 1) node.tolerate();
  return (column) => Number(data[column]);
}

interface Factors {
  readonly a: RefTensor;
  readonly b: RefTensor;
  /** Elements of a less their zero point */
  readonly left: readonly Inexact[];
  readonly zeroOfB: RefTensor | undefined;
  readonly scaleOfA: Inexact;
  readonly scaleOfB: RefTensor;
  readonly bias: RefTensor | undefined;
}

/** Products of integers are exact; they are scaled at the end. */
function scaledProduct(node: Node, { a, b, left, zeroOfB, scaleOfA, scaleOfB, bias }: Factors): Expected {
  if (a.dims.length < 2 || b.dims.length < 2) throw new Unjudged(`[${a.dims}] times [${b.dims}]`);
  const [m, k, depth, n] = [a.dims.at(-2)!, a.dims.at(-1)!, b.dims.at(-2)!, b.dims.at(-1)!];
  if (k !== depth) throw new Illegal(`[${a.dims}] times [${b.dims}]`);
  const batch = broadcastDims(a.dims.slice(0, -2), b.dims.slice(0, -2));
  const dims = [...batch, m, n];
  requireSmall(dims);
  if (sizeOf(dims) * k > MOST_PRODUCTS) throw new TooLarge(sizeOf(dims) * k);
  const [zero, scale] = [byColumn(node, zeroOfB, n, 'zero point'), byColumn(node, scaleOfB, n, 'scale')];
  if (bias !== undefined && bias.dims.join() !== `${n}`) {
    // Other runtimes broadcast one of a single element.
    if (bias.dims.join() !== '1') throw new Illegal(`a bias of [${bias.dims}]`);
    node.tolerate();
  }
  const [ofA, ofB] = [a, b].map((side) => broadcastStrides(side.dims.slice(0, -2), batch)) as [
    number[],
    number[],
  ];
  const numbers: Inexact[] = [];
  forEachIndex(dims, (at) => {
    const [row, column] = [at.at(-2)!, at.at(-1)!];
    const first = offsetOf(at, ofA) * m * k + row * k;
    const from = offsetOf(at, ofB) * k * n + column;
    let [y, off] = [0, 0];
    for (let i = 0; i < k; i++) {
      const weight = Number(b.data[from + i * n]) - zero(column);
      y += left[first + i]!.y * weight;
      off += left[first + i]!.off * Math.abs(weight);
    }
    const scaled = times(FLOAT32, { y, off }, times(FLOAT32, scaleOfA, exact(scale(column))));
    numbers.push(
      bias === undefined
        ? scaled
        : sum(FLOAT32, [scaled, exact(bias.data[column % bias.data.length] as number)]),
    );
  });
  return listed('float32', dims, numbers);
}

const matMulIntegerToFloat: Operator = (node) => {
  const [a, scale, zero] = [node.input(0), node.input(2), node.optional(4)];
  if (scale.data.length !== 1 || (zero !== undefined && zero.data.length !== 1)) {
    throw new Unjudged('scales of rows');
  }
  const from = Number(zero?.data[0] ?? 0);
  return [
    scaledProduct(node, {
      ...{ a, b: node.input(1), zeroOfB: node.optional(5), scaleOfB: node.input(3), bias: node.optional(6) },
      left: a.data.map((x) => exact(Number(x) - from)),
      scaleOfA: exact(Number(scale.data[0])),
    }),
  ];
};

/** The input in 8 bits, by a scale from its least to its greatest element. Near the middle of two it may be either. */
const dynamicQuantizeMatMul: Operator = (node) => {
  const a = node.input(0);
  const elements = a.data as readonly number[];
  const [least, greatest] = [Math.min, Math.max].map((pick) => elements.reduce((x, y) => pick(x, y), 0)) as [
    number,
    number,
  ];
  const scale = (greatest - least) / 255 || 1;
  const isKnown = Number.isFinite(scale) && scale > 2 ** -100 && scale < 2 ** 100;
  const left = elements.map((x): Inexact => {
    const quotient = x / scale;
    const isOpen = Math.abs(quotient - Math.floor(quotient) - 0.5) < 1e-3;
    return { y: roundHalfToEven(quotient), off: isKnown ? Number(isOpen) : ANYTHING };
  });
  return [
    scaledProduct(node, {
      ...{ a, b: node.input(1), zeroOfB: node.optional(3), scaleOfB: node.input(2), bias: node.optional(4) },
      ...{ left, scaleOfA: { y: scale, off: 2 ** -22 * scale } },
    }),
  ];
};

/** alpha * (a * b * their scales) + C, which has the scales of both already. */
const qGemm: Operator = (node) => {
  const [a, b] = [0, 3].map((i) => {
    const { type, dims, data } = node.input(i);
    if (dims.length !== 2) throw new Illegal(`a matrix of [${dims}]`);
    if (!node.flag(i === 0 ? 'transA' : 'transB')) return { type, dims, data };
    const [rows, columns] = dims as [number, number];
    const turned = range(rows * columns).map((at) => data[(at % rows) * columns + Math.floor(at / rows)]!);
    return { type, dims: [columns, rows], data: turned };
  }) as [RefTensor, RefTensor];
  const from = node.one(2);
  const [scaleOfB, zeroOfB, c] = [node.input(4), node.input(5), node.optional(6)];
  const sums = scaledProduct(node, {
    ...{ a, b, zeroOfB, scaleOfB: { type: 'float32', dims: [], data: [1] }, bias: undefined },
    ...{ left: a.data.map((x) => exact(Number(x) - from)), scaleOfA: exact(1) },
  });
  const { dims } = sums;
  if (c !== undefined) requireBroadcastTo(c.dims, dims);
  const added = c && broadcastData(c, dims);
  const scale = byColumn(node, scaleOfB, dims[1]!, 'scale');
  const alpha = times(FLOAT32, exact(node.float('alpha', 1)), exact(node.one(1)));
  const numbers = sums.data.map((y, i) => {
    const whole = Number(y) + Number(added?.[i] ?? 0);
    // A sum beyond 32 bits wraps, or does not.
    if (Math.abs(whole) >= 2 ** 31) return { y: 0, off: ANYTHING };
    return times(
      FLOAT32,
      { y: whole, off: 2 ** -24 * Math.abs(whole) },
      times(FLOAT32, alpha, exact(scale(i % dims[1]!))),
    );
  });
  if (node.optional(7) !== undefined) {
    if (node.optional(8) === undefined) throw new Unjudged('a scale without a zero point');
    return quantizedBy(node, { dims, of: numbers }, 7);
  }
  if (node.optional(8) !== undefined) throw new Unjudged('a zero point without a scale');
  return [listed('float32', dims, numbers)];
};

/** Weights of 4 or 8 bits by column, in blocks along K of which each has a scale and a zero point. */
const matMulNBits: Operator = (node) => {
  const [k, n] = [node.integer('K'), node.integer('N')];
  const [bits, block] = [node.integer('bits', 4), node.integer('block_size')];
  if (k < 1 || n < 1 || block < 1) throw new Illegal(`${k} x ${n} in blocks of ${block}`);
  if (bits !== 4 && bits !== 8) throw new Unjudged(`${bits} bits`);
  if (block < 16 || (block & (block - 1)) !== 0) throw new Unjudged(`blocks of ${block}`);
  const [a, b, scales, zeros, bias] = [
    node.input(0),
    node.input(1),
    node.input(2),
    node.optional(3),
    node.optional(5),
  ];
  if (node.optional(4) !== undefined) throw new Unjudged('an order of groups');
  const blocks = Math.ceil(k / block);
  const bytes = (block * bits) / 8;
  const ofZeros = Math.ceil((blocks * bits) / 8);
  if (b.data.length !== n * blocks * bytes) throw new Illegal(`weights of [${b.dims}]`);
  if (b.dims.join() !== `${n},${blocks},${bytes}`) node.tolerate();
  if (scales.data.length !== n * blocks) throw new Illegal(`scales of [${scales.dims}]`);
  if (zeros !== undefined && zeros.data.length !== n * (zeros.type === 'uint8' ? ofZeros : blocks)) {
    throw new Illegal(`zero points of [${zeros.dims}]`);
  }
  // Those of another float type are brought to that of the product.
  if (zeros !== undefined && zeros.type !== 'uint8' && zeros.type !== a.type) node.tolerate();
  if (a.dims.at(-1) !== k) throw new Illegal(`[${a.dims}] times ${k} rows`);
  if (a.dims.length < 2) throw new Unjudged('a vector');
  if (bias !== undefined && bias.dims.join() !== `${n}`) throw new Illegal(`a bias of [${bias.dims}]`);
  const dims = a.dims.with(-1, n);
  requireSmall(dims);
  requireSmall([n, k]);
  if (sizeOf(dims) * k > MOST_PRODUCTS) throw new TooLarge(sizeOf(dims) * k);
  const code = (data: readonly unknown[], row: number, perRow: number, i: number) => {
    const byte = Number(data[row * perRow + Math.floor((i * bits) / 8)]);
    return Math.floor(byte / 2 ** ((i * bits) % 8)) % 2 ** bits;
  };
  const zeroOf = (column: number, part: number): number => {
    if (zeros === undefined) return 2 ** (bits - 1);
    if (zeros.type === 'uint8') return code(zeros.data, column, ofZeros, part);
    return zeros.data[column * blocks + part] as number;
  };
  const arithmetic = arithmeticOf(a.type);
  const weight = (column: number, i: number) => {
    const part = Math.floor(i / block);
    const value = code(b.data, column * blocks + part, bytes, i % block) - zeroOf(column, part);
    return times(FLOAT32, exact(value), exact(scales.data[column * blocks + part] as number));
  };
  const columns = range(n).map((column) => range(k).map((i) => weight(column, i)));
  const numbers = range(sizeOf(dims)).map((index) => {
    const [row, column] = [Math.floor(index / n), index % n];
    const terms = columns[column]!.map(({ y, off }, i) => {
      const x = a.data[row * k + i] as number;
      return { y: x * y, off: Math.abs(x) * off };
    });
    return sum(arithmetic, bias === undefined ? terms : [...terms, exact(bias.data[column] as number)]);
  });
  return [listed(a.type, dims, numbers)];
};

/** Weights [directions, rows of X or H, gates] as numbers, which have a scale and a zero point a direction, or a gate. */
function lstmWeights(node: Node, index: number, scaleIndex: number): RefTensor {
  const [weight, scale, zero] = [node.input(index), node.input(scaleIndex), node.input(scaleIndex + 1)];
  if (weight.dims.length !== 3) throw new Illegal(`weights of [${weight.dims}]`);
  const [directions, rows, gates] = weight.dims as [number, number, number];
  for (const { dims } of [scale, zero]) {
    if (![`${directions}`, `${directions},${gates}`].includes(dims.join()))
      throw new Illegal(`scales of [${dims}]`);
  }
  const of = ({ dims, data }: RefTensor, d: number, gate: number) =>
    Number(data[dims.length === 1 ? d : d * gates + gate]);
  const data: number[] = [];
  forEachIndex([directions, gates, rows], ([d, gate, row]) => {
    const element = Number(weight.data[(d! * rows + row!) * gates + gate!]);
    data.push(roundTo('float32', (element - of(zero, d!, gate!)) * of(scale, d!, gate!)));
  });
  return { type: 'float32', dims: [directions, gates, rows], data };
}

const dynamicQuantizeLstm: Operator = (node) => {
  const [w, r] = [lstmWeights(node, 1, 8), lstmWeights(node, 2, 10)];
  return recurrence.LSTM!(node.with([node.input(0), w, r, ...[3, 4, 5, 6, 7].map((i) => node.optional(i))]));
};

/** Operators of `com.microsoft`. */
export const quantized8: Readonly<Record<string, Operator>> = {
  DynamicQuantizeLSTM: dynamicQuantizeLstm,
  DynamicQuantizeMatMul: dynamicQuantizeMatMul,
  MatMulIntegerToFloat: matMulIntegerToFloat,
  MatMulNBits: matMulNBits,
  QGemm: qGemm,
  QLinearAdd: binary((a, b) => sum(FLOAT32, [a, b])),
  QLinearAveragePool: pooled('AveragePool'),
  QLinearConcat: concat,
  QLinearGlobalAveragePool: pooled('GlobalAveragePool'),
  QLinearLeakyRelu: elementwise(leakyRelu),
  QLinearMul: binary((a, b) => times(FLOAT32, a, b)),
  QLinearSigmoid: elementwise((_, x) => smooth(FLOAT32, SIGMOID, x)),
  QLinearSoftmax: qLinearSoftmax,
};

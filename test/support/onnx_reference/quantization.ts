/** Integers that stand for numbers: (integer - zero point) * scale. */
import type { Operator } from './elementwise';
import { roundHalfToEven } from './functions';
import type { Node } from './node';
import { highestOf, lowestOf, ulp, wrap } from './precision';
import {
  axisOf,
  broadcastData,
  Illegal,
  isFloat,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

/** A scale or a zero point at every place of the input: of one element, or of one for each position of an axis. */
function spread(node: Node, index: number): readonly Scalar[] | undefined {
  const parameter = node.optional(index);
  if (parameter === undefined) return undefined;
  const { dims } = node.input(0);
  const { dims: own, data } = parameter;
  if (own.length > 1) throw new Illegal(`a parameter of [${own}]`);
  if (data.length === 1) return broadcastData({ ...parameter, dims: [] }, dims);
  const axis = axisOf(node.integer('axis', 1), dims.length);
  if (dims[axis] !== data.length) throw new Illegal(`parameters of [${own}] for axis ${axis} of [${dims}]`);
  const along: RefTensor = { ...parameter, dims: dims.map((extent, i) => (i === axis ? extent : 1)) };
  return broadcastData(along, dims);
}

/** How near to the middle of two integers a quotient in float32 may become either. */
const TIE = 4 * 2 ** -24;

/** The nearest integers, of two the even one, brought into the type's range. */
const quantizeLinear: Operator = (node) => {
  const { dims, data } = node.input(0);
  const [scales, zeros] = [spread(node, 1)!, spread(node, 2)];
  const type: ElementType = node.optional(2)?.type ?? 'uint8';
  const place = (x: number, zero: number): bigint => {
    const [low, high] = [Number(lowestOf(type)), Number(highestOf(type))];
    return BigInt(Math.min(Math.max(roundHalfToEven(x) + zero, low), high));
  };
  const results = data.map((x, i) => {
    const [quotient, zero] = [Number(x) / Number(scales[i]), Number(zeros?.[i] ?? 0)];
    if (Number.isNaN(quotient)) return [0n, NaN] as const;
    const slack = Math.abs(quotient) < 2 ** 30 ? TIE * Math.abs(quotient) : 0;
    const [below, above] = [place(quotient - slack, zero), place(quotient + slack, zero)];
    return [below, Number(above - below)] as const;
  });
  return [{ type, dims, data: results.map(([y]) => y), allowed: results.map(([, above]) => above) }];
};

const dequantizeLinear: Operator = (node) => {
  const { type: from, dims, data } = node.input(0);
  const { type } = node.input(1);
  const [scales, zeros] = [spread(node, 1)!, spread(node, 2)];
  if (!isFloat(type)) throw new Illegal(`a scale of ${type}`);
  const difference = (x: Scalar, i: number) => BigInt(x) - BigInt(zeros?.[i] ?? 0n);
  const results = data.map((x, i) => Number(difference(x, i)) * (scales[i] as number));
  const allowed = results.map((y, i) => {
    // Differences of 32 bits are rounded, too.
    const rounded = from === 'int32' ? 2 : 1;
    return difference(data[i]!, i) === 0n ? 0 : rounded * 0.51 * ulp('float32', y);
  });
  return [{ type, dims, data: results, allowed }];
};

/** Products of integers without their zero points, summed in 32 bits. */
const matMulInteger: Operator = (node) => {
  const [a, b] = [node.input(0), node.input(1)];
  if (a.dims.length !== 2 || b.dims.length !== 2) throw new Illegal(`[${a.dims}] times [${b.dims}]`);
  const [[m, k], [depth, n]] = [a.dims, b.dims] as [[number, number], [number, number]];
  if (k !== depth) throw new Illegal(`[${a.dims}] times [${b.dims}]`);
  const [aZero, bZero] = [2, 3].map((i) => BigInt(node.optional(i)?.data[0] ?? 0n)) as [bigint, bigint];
  const data = Array.from({ length: m * n }, (_, index) => {
    const [row, column] = [Math.floor(index / n), index % n];
    let sum = 0n;
    for (let i = 0; i < k; i++) {
      sum += (BigInt(a.data[row * k + i]!) - aZero) * (BigInt(b.data[i * n + column]!) - bZero);
    }
    return wrap('int32', sum);
  });
  return [{ type: 'int32', dims: [m, n], data, allowed: data.map(() => 0) } satisfies Expected];
};

export const quantization: Readonly<Record<string, Operator>> = {
  DequantizeLinear: dequantizeLinear,
  MatMulInteger: matMulInteger,
  QuantizeLinear: quantizeLinear,
};

/** Sums of products: matrices and convolutions. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf, wrap, type Arithmetic } from './precision';
import {
  broadcastData,
  broadcastDims,
  broadcastStrides,
  forEachIndex,
  Illegal,
  isFloat,
  offsetOf,
  requireBroadcastTo,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';
import { spatialAttribute, windowsOf, type Axis } from './windows';

const MOST_PRODUCTS = 2 ** 24;

/** One for each element of the output, filled product by product. */
interface Sums {
  /** @param largest - of the factors beside w: GPUs split numbers into halves of a scale that they share */
  add(index: number, x: Scalar, w: Scalar, largest: number): void;
  /** @param factor - of the term */
  addTerm(index: number, term: Scalar, factor?: number): void;
  scale(index: number, factor: number): void;
  /** Nothing is said of an element. */
  leave(index: number): void;
  expected(): Expected;
}

function sumsOf(type: ElementType, dims: Dims): Sums {
  requireSmall(dims);
  return isFloat(type) ? new FloatSums(type, dims) : new IntegerSums(type, dims);
}

/** Exact, but for the bits beyond the type's width at the end. */
class IntegerSums implements Sums {
  readonly #y: bigint[];

  constructor(
    private readonly type: ElementType,
    private readonly dims: Dims,
  ) {
    this.#y = new Array<bigint>(sizeOf(dims)).fill(0n);
  }

  add(index: number, x: Scalar, w: Scalar): void {
    this.#y[index]! += BigInt(x) * BigInt(w);
  }

  addTerm(index: number, term: Scalar, factor = 1): void {
    this.#y[index]! += BigInt(term) * wholeFactor(factor);
  }

  scale(index: number, factor: number): void {
    this.#y[index]! *= wholeFactor(factor);
  }

  leave(): void {}

  expected(): Expected {
    const data = this.#y.map((sum) => wrap(this.type, sum));
    return { type: this.type, dims: this.dims, data, allowed: data.map(() => 0) };
  }
}

/** How integers are multiplied by other numbers, ONNX does not say. */
function wholeFactor(factor: number): bigint {
  if (!Number.isInteger(factor)) throw new Unjudged(`integers times ${factor}`);
  return BigInt(factor);
}

/** With what bounds their errors. */
class FloatSums implements Sums {
  readonly #arithmetic: Arithmetic;
  readonly #y: Float64Array;
  /** The sum of the absolute values of finite terms, and how many there are */
  readonly #size: Float64Array;
  readonly #terms: Uint32Array;
  readonly #slack: Float64Array;

  constructor(
    private readonly type: ElementType,
    private readonly dims: Dims,
  ) {
    this.#arithmetic = arithmeticOf(type);
    const count = sizeOf(dims);
    this.#y = new Float64Array(count);
    this.#size = new Float64Array(count);
    this.#terms = new Uint32Array(count);
    this.#slack = new Float64Array(count);
  }

  add(index: number, given: Scalar, weight: Scalar, largest: number): void {
    const [x, w] = [Number(given), Number(weight)];
    this.addTerm(index, x * w);
    if (this.#arithmetic.type === 'float64') return;
    // What docs/numerics.md says of very small numbers on tensor cores.
    const slack = 2 ** -50 * largest * Math.abs(x) + 2 ** -109 * (Math.abs(x) + Math.abs(w));
    if (Number.isFinite(slack)) this.#slack[index]! += slack;
  }

  addTerm(index: number, given: Scalar, factor = 1): void {
    const term = Number(given) * factor;
    this.#y[index]! += term;
    this.#terms[index]!++;
    if (Number.isFinite(term)) this.#size[index]! += Math.abs(term);
  }

  scale(index: number, factor: number): void {
    this.#y[index]! *= factor;
    // A sum that may have overflowed is not what it was, whatever it is multiplied by.
    this.#size[index]! *= this.#size[index]! < this.#arithmetic.extreme ? Math.abs(factor) : 1;
  }

  leave(index: number): void {
    this.#slack[index] = NaN;
  }

  expected(): Expected {
    const { extreme, sumRule, tiny } = this.#arithmetic;
    // A partial sum of the finite terms may overflow where the whole does not.
    const allowed = Array.from(this.#size, (size, i) =>
      size < extreme ? sumRule(this.#terms[i]!) * size + this.#slack[i]! + tiny : NaN,
    );
    return { type: this.type, dims: this.dims, data: Array.from(this.#y), allowed };
  }
}

function greatestMagnitude(data: readonly Scalar[]): number {
  return data.map(Number).reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);
}

function requireFew(products: number): void {
  if (products > MOST_PRODUCTS) throw new TooLarge(products);
}

const gemm: Operator = (node) => {
  const [a, b] = [matrixOf(node.input(0), node.flag('transA')), matrixOf(node.input(1), node.flag('transB'))];
  if (a.columns !== b.rows) throw new Illegal(`${a.rows} x ${a.columns} times ${b.rows} x ${b.columns}`);
  const [alpha, beta] = [node.float('alpha', 1), node.float('beta', 1)];
  const dims = [a.rows, b.columns];
  const addend = node.opset < 11 ? node.input(2) : node.optional(2);
  if (addend !== undefined) requireBroadcastTo(addend.dims, dims);
  const sums = sumsOf(node.input(0).type, dims);
  requireFew(sizeOf(dims) * a.columns);
  const c = addend && broadcastData(addend, dims);
  const largest = greatestMagnitude(node.input(1).data);
  forEachIndex(dims, ([row, column], index) => {
    for (let k = 0; k < a.columns; k++) sums.add(index, a.at(row!, k), b.at(k, column!), largest);
    sums.scale(index, alpha);
    if (c !== undefined) sums.addTerm(index, c[index]!, beta);
  });
  return [sums.expected()];
};

function matrixOf({ dims, data }: RefTensor, transposed: boolean) {
  if (dims.length !== 2) throw new Illegal(`a matrix of rank ${dims.length}`);
  const [rows, columns] = dims as [number, number];
  const at = (row: number, column: number) => data[row * columns + column]!;
  if (!transposed) return { rows, columns, at };
  return { rows: columns, columns: rows, at: (row: number, column: number) => at(column, row) };
}

/** Vectors are matrices of one row or one column, which the result does not have. */
const matmul: Operator = (node) => {
  const [left, right] = [node.input(0), node.input(1)];
  if (left.dims.length === 0 || right.dims.length === 0) throw new Illegal('a product with a scalar');
  const a = left.dims.length === 1 ? [1, ...left.dims] : left.dims;
  const b = right.dims.length === 1 ? [...right.dims, 1] : right.dims;
  const [m, k, depth, n] = [a.at(-2)!, a.at(-1)!, b.at(-2)!, b.at(-1)!];
  if (k !== depth) throw new Illegal(`[${left.dims}] times [${right.dims}]`);
  const batch = broadcastDims(a.slice(0, -2), b.slice(0, -2));
  const full = [...batch, m, n];
  const dims = [...batch, ...(left.dims.length > 1 ? [m] : []), ...(right.dims.length > 1 ? [n] : [])];
  const sums = sumsOf(left.type, dims);
  requireFew(sizeOf(dims) * k);
  const aStrides = [...broadcastStrides(a.slice(0, -2), batch).map((stride) => stride * m * k)];
  const bStrides = [...broadcastStrides(b.slice(0, -2), batch).map((stride) => stride * k * n)];
  const largest = greatestMagnitude(node.input(1).data);
  forEachIndex(full, (at, index) => {
    const [row, column] = [at.at(-2)!, at.at(-1)!];
    const [aFirst, bFirst] = [offsetOf(at, aStrides) + row * k, offsetOf(at, bStrides) + column];
    for (let i = 0; i < k; i++) {
      sums.add(index, left.data[aFirst + i]!, right.data[bFirst + i * n]!, largest);
    }
  });
  return [sums.expected()];
};

interface Convolution {
  readonly x: RefTensor;
  readonly w: RefTensor;
  readonly bias: RefTensor | undefined;
  readonly groups: number;
  readonly kernel: Dims;
}

/** What Conv and its transpose have in common: three inputs, groups and the extents of the filter. */
function convolutionOf(node: Node): Convolution {
  const [x, w, bias] = [node.input(0), node.input(1), node.optional(2)];
  if (x.dims.length < 3 || w.dims.length !== x.dims.length) throw new Illegal(`[${x.dims}] by [${w.dims}]`);
  const groups = node.integer('group', 1);
  if (groups < 1) throw new Illegal(`${groups} groups`);
  const kernel = w.dims.slice(2);
  if (kernel.some((extent) => extent < 1)) throw new Illegal(`a filter of [${kernel}]`);
  const given = node.integers('kernel_shape') ?? kernel;
  if (given.join() !== kernel.join()) throw new Illegal(`kernel_shape [${given}] of a filter [${w.dims}]`);
  return { x, w, bias, groups, kernel };
}

function requireBias(bias: RefTensor | undefined, filters: number): void {
  if (bias !== undefined && bias.dims.join() !== `${filters}`) {
    throw new Illegal(`a bias of [${bias.dims}] for ${filters} filters`);
  }
}

const conv: Operator = (node) => {
  const { x, w, bias, groups, kernel } = convolutionOf(node);
  const [filters, depth] = w.dims as [number, number];
  if (depth * groups !== x.dims[1] || filters % groups !== 0) {
    throw new Illegal(`[${x.dims}] by [${w.dims}] in ${groups} groups`);
  }
  requireBias(bias, filters);
  const axes = windowsOf(node, x.dims.slice(2), kernel);
  const dims = [x.dims[0]!, filters, ...axes.map(({ output }) => output)];
  const sums = sumsOf(x.type, dims);
  requireFew(sizeOf(dims) * depth * sizeOf(kernel));
  const [xStrides, wStrides] = [stridesOf(x.dims), stridesOf(w.dims)];
  const largest = greatestMagnitude(node.input(1).data);
  // docs/numerics.md: padding is multiplied, and not skipped, in float64 and over three axes or more.
  const multipliesPadding = x.type === 'float64' || kernel.length > 2;
  const isFinite = w.data.every((weight) => Number.isFinite(Number(weight)));
  forEachIndex(dims, (at, index) => {
    const group = Math.floor(at[1]! / (filters / groups));
    let taps = 0;
    forEachTap(axes, kernel, at, (place, tap) => {
      taps++;
      for (let c = 0; c < depth; c++) {
        const from = at[0]! * xStrides[0]! + (group * depth + c) * xStrides[1]! + place;
        const weight = at[1]! * wStrides[0]! + c * wStrides[1]! + tap;
        sums.add(index, x.data[from]!, w.data[weight]!, largest);
      }
    });
    if (bias !== undefined) sums.addTerm(index, bias.data[at[1]!]!);
    if (multipliesPadding && !isFinite && taps < sizeOf(kernel)) sums.leave(index);
  });
  return [sums.expected()];
};

/** Visits the elements of a window that lie in the input: their offsets in a channel of it, and in one of the filter. */
function forEachTap(
  axes: readonly Axis[],
  kernel: Dims,
  at: readonly number[],
  visit: (place: number, tap: number) => void,
): void {
  const strides = stridesOf(axes.map(({ input }) => input));
  forEachIndex(kernel, (tap, index) => {
    const places = axes.map(
      ({ stride, dilation, before }, i) => at[i + 2]! * stride + tap[i]! * dilation - before,
    );
    if (places.every((place, i) => place >= 0 && place < axes[i]!.input))
      visit(offsetOf(places, strides), index);
  });
}

/** One axis of a transposed convolution; where ONNX is unclear about the padding, nothing is said of values. */
interface TransposedAxis {
  readonly stride: number;
  readonly dilation: number;
  readonly before: number;
  readonly output: number;
  readonly isUnclear: boolean;
}

const convTranspose: Operator = (node) => {
  const { x, w, bias, groups, kernel } = convolutionOf(node);
  const [channels, perGroup] = w.dims as [number, number];
  if (channels !== x.dims[1] || channels % groups !== 0) {
    throw new Illegal(`[${x.dims}] by [${w.dims}] in ${groups} groups`);
  }
  const filters = perGroup * groups;
  requireBias(bias, filters);
  const axes = transposedAxes(node, x.dims.slice(2), kernel);
  const dims = [x.dims[0]!, filters, ...axes.map(({ output }) => output)];
  if (dims.slice(2).some((extent) => extent < 1)) throw new Illegal(`an output of [${dims}]`);
  const sums = sumsOf(x.type, dims);
  requireFew(sizeOf(x.dims) * perGroup * sizeOf(kernel));
  const largest = greatestMagnitude(node.input(1).data);
  const strides = stridesOf(dims);
  forEachIndex([...x.dims, perGroup, ...kernel], (at, index) => {
    const rank = kernel.length;
    const [channel, filter] = [at[1]!, at[rank + 2]!];
    const places = axes.map(
      ({ stride, dilation, before }, i) => at[i + 2]! * stride + at[rank + 3 + i]! * dilation - before,
    );
    if (places.some((place, i) => place < 0 || place >= axes[i]!.output)) return;
    const taps = sizeOf(kernel);
    const input = Math.floor(index / (perGroup * taps));
    const weight = (channel * perGroup + filter) * taps + (index % taps);
    const output = Math.floor(channel / (channels / groups)) * perGroup + filter;
    const to = offsetOf([at[0]!, output, ...places], strides);
    sums.add(to, x.data[input]!, w.data[weight]!, largest);
  });
  if (bias !== undefined) forEachIndex(dims, (at, index) => sums.addTerm(index, bias.data[at[1]!]!));
  const expected = sums.expected();
  return [
    axes.some(({ isUnclear }) => isUnclear)
      ? { ...expected, allowed: expected.data.map(() => NaN) }
      : expected,
  ];
};

function transposedAxes(node: Node, input: Dims, kernel: Dims): TransposedAxis[] {
  const rank = kernel.length;
  const strides = spatialAttribute(node, 'strides', rank, 1, 1);
  const dilations = spatialAttribute(node, 'dilations', rank, 1, 1);
  const extra = spatialAttribute(node, 'output_padding', rank, 0, 0);
  if (extra.some((count, i) => count >= Math.max(strides[i]!, dilations[i]!))) {
    throw new Illegal(`output_padding [${extra}] with strides [${strides}]`);
  }
  const mode = node.string('auto_pad', ['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID']);
  const pads = spatialAttribute(node, 'pads', 2 * rank, 0, 0);
  const wanted = node.integers('output_shape');
  if (wanted !== undefined && wanted.length !== rank) {
    if (wanted.length === rank + 2) throw new Unjudged(`output_shape [${wanted}]`);
    throw new Illegal(`output_shape [${wanted}]`);
  }
  return input.map((extent, i) => {
    const [stride, dilation] = [strides[i]!, dilations[i]!];
    const full = stride * (extent - 1) + extra[i]! + (kernel[i]! - 1) * dilation + 1;
    const target = wanted?.[i] ?? (mode.startsWith('SAME') ? extent * stride : undefined);
    if (target === undefined) {
      const [before, after] = mode === 'VALID' ? [0, 0] : [pads[i]!, pads[i + rank]!];
      return { stride, dilation, before, output: full - before - after, isUnclear: false };
    }
    const total = full - target;
    // Until opset 11 formula and text differ in where an odd element goes.
    const isUnclear = total < 0 || (node.opset < 11 && total % 2 !== 0);
    const before = mode === 'SAME_UPPER' ? Math.floor(total / 2) : total - Math.floor(total / 2);
    return { stride, dilation, before, output: target, isUnclear };
  });
}

/** Blocks of images added up where they overlap; what lies in the padding is dropped. */
const col2Im: Operator = (node) => {
  const input = node.input(0);
  const [extents, block] = [node.list(1), node.list(2)];
  if (input.dims.length !== 3 || extents.length !== block.length) throw new Illegal(`[${input.dims}]`);
  if (input.type === 'bool') throw new Unjudged('sums of bools');
  // ONNX has two axes at least.
  if (extents.length < 2) node.tolerate();
  if (extents.some((extent) => extent < 1) || block.some((extent) => extent < 1)) {
    throw new Illegal(`blocks of [${block}] in an image of [${extents}]`);
  }
  const axes = windowsOf(node, extents, block);
  const outputs = axes.map(({ output }) => output);
  const [batch, width, count] = input.dims as [number, number, number];
  const channels = width / sizeOf(block);
  if (!Number.isInteger(channels) || sizeOf(outputs) !== count) throw new Illegal(`[${input.dims}]`);
  const sums = sumsOf(input.type, [batch, channels, ...extents]);
  const strides = stridesOf([batch, channels, ...extents]);
  forEachIndex([batch, channels, ...block, ...outputs], (at, index) => {
    const places = axes.map(
      ({ stride, dilation, before }, i) =>
        at[i + 2]! * dilation + at[i + 2 + block.length]! * stride - before,
    );
    if (places.some((place, i) => place < 0 || place >= axes[i]!.input)) return;
    sums.addTerm(offsetOf([at[0]!, at[1]!, ...places], strides), input.data[index]!);
  });
  return [sums.expected()];
};

export const products: Readonly<Record<string, Operator>> = {
  Col2Im: col2Im,
  Conv: conv,
  ConvTranspose: convTranspose,
  Gemm: gemm,
  MatMul: matmul,
};

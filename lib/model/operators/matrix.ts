/** Products of matrices. */
import { flag, float } from '../attributes';
import type { DataType } from '../../tensor/tensor';
import { computeOf, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { broadcastDims, broadcastStrides, stridesOf, type Value } from '../values';
import { apply, scalar } from './typed';

const NO_ACTIVATION = { name: 'none', parameters: [] } as const;

interface Sides {
  readonly left: Value;
  readonly right: Value;
  /** Row and column strides of either */
  readonly leftStrides: readonly [number, number];
  readonly rightStrides: readonly [number, number];
}

const gemm: Lower = (x) => {
  const [left, right, bias] = [x.input(0), x.input(1), x.optional(2)];
  x.requireRank(left, 2);
  x.requireRank(right, 2);
  const sides: Sides = {
    left,
    right,
    leftStrides: matrixStrides(left, flag(x.node, 'transA', false)),
    rightStrides: matrixStrides(right, flag(x.node, 'transB', false)),
  };
  const [m, k] = matrixDims(left, flag(x.node, 'transA', false));
  const [depth, n] = matrixDims(right, flag(x.node, 'transB', false));
  if (k !== depth) throw x.invalid(`multiplies ${shapeOf(left)} by ${shapeOf(right)}`);
  if (bias !== undefined && !fits(bias.dims, [m, n])) {
    throw x.invalid(`adds ${shapeOf(bias)} to a product of ${m} x ${n}`);
  }
  const [alpha, beta] = [float(x.node, 'alpha', 1), float(x.node, 'beta', 1)];
  if (left.type !== 'float32') {
    const product = multiplyTyped(x, { ...sides, batch: [], m, n, k });
    const scaled = scaleTyped(x, product, alpha);
    return bias === undefined ? scaled : apply(x, 'add', [scaled, scaleTyped(x, bias, beta)]);
  }
  return product(x, { ...sides, batch: [], m, n, k, alpha, beta, bias });
};

interface Product extends TypedProduct {
  readonly alpha?: number;
  readonly beta?: number;
  readonly bias?: Value | undefined;
}

/** Of float32: alpha * left * right + beta * bias, a bias being broadcast to it. */
function product(x: Lowering, { alpha = 1, beta = 1, bias, ...sizes }: Product): Value {
  const { left, right, batch, m, n, k, leftStrides, rightStrides } = sizes;
  const dims = [...batch, m, n];
  const output = x.build.scratch('float32', dims);
  x.build.emit({
    kind: 'matmul',
    ...{ batch, m, n, k, leftStrides, rightStrides, alpha, beta },
    biasStrides: bias === undefined ? [] : broadcastStrides(bias.dims, dims),
    activation: NO_ACTIVATION,
    left: left.operand,
    right: right.operand,
    bias: bias?.operand ?? null,
    output: output.operand,
  });
  return output;
}

/** left [m, k] times the transposed right [n, k], and a bias of [n] on every row. */
export function multiplyAdd(
  x: Lowering,
  { left, right, bias }: { readonly left: Value; readonly right: Value; readonly bias: Value | undefined },
): Value {
  const [m, k] = left.dims as [number, number];
  const n = right.dims[0]!;
  return product(x, { left, right, bias, batch: [], m, n, k, leftStrides: [k, 1], rightStrides: [1, k] });
}

/** Of any types, which are given as they are multiplied: see native/program/steps.h. */
export function multiplyTyped(
  x: Lowering,
  { left, right, batch, m, n, k, leftStrides, rightStrides }: TypedProduct,
  outputType: DataType = left.type,
): Value {
  const output = x.build.scratch(outputType, [...batch, m, n]);
  const compute = computeOf(outputType);
  x.build.emit({
    kind: 'typedMatmul',
    compute: compute === 'float32' ? 'float64' : compute,
    leftType: left.type,
    rightType: right.type,
    outputType,
    ...{ batch, m, n, k, leftStrides, rightStrides },
    left: left.operand,
    right: right.operand,
    output: output.operand,
  });
  return output;
}

interface TypedProduct {
  readonly left: Value;
  readonly right: Value;
  readonly batch: readonly number[];
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly leftStrides: readonly number[];
  readonly rightStrides: readonly number[];
}

function scaleTyped(x: Lowering, value: Value, factor: number): Value {
  if (factor === 1) return value;
  const { type } = value;
  if (type !== 'float64' && !Number.isSafeInteger(factor)) {
    throw unsupportedNode(x.node, `multiplies ${type} by ${factor}; here it can by an integer`);
  }
  return apply(x, 'multiply', [value, scalar(x, type, factor)]);
}

function fits(dims: readonly number[], into: readonly number[]): boolean {
  return broadcastDims(dims, into)?.join() === into.join();
}

function matrixDims({ dims: [rows, columns] }: Value, transposed: boolean): readonly [number, number] {
  return transposed ? [columns!, rows!] : [rows!, columns!];
}

function matrixStrides({ dims }: Value, transposed: boolean): readonly [number, number] {
  return transposed ? [1, dims[1]!] : [dims[1]!, 1];
}

const matmul: Lower = (x) => multiply(x, x.input(0), x.input(1));

/** As NumPy's: vectors count as matrices of one row or column, and the axes before the last two are broadcast. */
export function multiply(x: Lowering, left: Value, right: Value): Value {
  const [a, b] = [asMatrices(x, left, 'row'), asMatrices(x, right, 'column')];
  const [m, k] = a.dims.slice(-2) as [number, number];
  const [depth, n] = b.dims.slice(-2) as [number, number];
  const batch = broadcastDims(a.dims.slice(0, -2), b.dims.slice(0, -2));
  if (k !== depth || batch === undefined) {
    throw x.invalid(`multiplies ${shapeOf(left)} by ${shapeOf(right)}`);
  }
  const merged = mergeRows(batch, m, n, k, batchStrides(a, batch), batchStrides(b, batch));
  const multiplied = left.type === 'float32' ? product : multiplyTyped;
  const result = multiplied(x, { left: a, right: b, ...merged });
  const dims = [...batch, ...(left.dims.length > 1 ? [m] : []), ...(right.dims.length > 1 ? [n] : [])];
  return x.build.view(result, dims);
}

function asMatrices(x: Lowering, value: Value, kind: 'row' | 'column'): Value {
  const { dims } = value;
  if (dims.length === 0) throw x.invalid('multiplies a scalar');
  if (dims.length > 1) return value;
  return x.build.view(value, kind === 'row' ? [1, dims[0]!] : [dims[0]!, 1]);
}

/** Strides along the batch's axes, 0 where the operand is repeated, and then along its rows and columns. */
function batchStrides({ dims }: Value, batch: readonly number[]): number[] {
  const own = stridesOf(dims);
  const outer = broadcastStrides(dims.slice(0, -2), batch);
  const matrix = dims.at(-2)! * dims.at(-1)!;
  return [...outer.map((stride) => stride * matrix), ...own.slice(-2)];
}

/** A batch of left matrices by one right matrix is one tall left matrix. */
function mergeRows(
  batch: readonly number[],
  m: number,
  n: number,
  k: number,
  leftStrides: readonly number[],
  rightStrides: readonly number[],
) {
  const rank = batch.length;
  const sharesRight = rightStrides.slice(0, rank).every((stride) => stride === 0);
  const dense = stridesOf([...batch, m, k]);
  const isDense = leftStrides.every((stride, axis) => stride === dense[axis] || batch[axis] === 1);
  if (rank === 0 || !sharesRight || !isDense) return { batch, m, n, k, leftStrides, rightStrides };
  const rows = batch.reduce((product, extent) => product * extent, m);
  return {
    batch: [],
    m: rows,
    n,
    k,
    leftStrides: leftStrides.slice(rank),
    rightStrides: rightStrides.slice(rank),
  };
}

export const matrix: Record<string, Lower> = { Gemm: gemm, MatMul: matmul };

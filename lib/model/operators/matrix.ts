/** Products of matrices. */
import { flag, float } from '../attributes';
import { requireFloat, shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { broadcastDims, broadcastStrides, stridesOf, type Value } from '../values';

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
  [left, right, bias].forEach((value) => value && requireFloat(x.node, value));
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
  const output = x.build.scratch('float32', [m, n]);
  x.build.emit({
    kind: 'matmul',
    batch: [],
    m,
    n,
    k,
    leftStrides: sides.leftStrides,
    rightStrides: sides.rightStrides,
    biasStrides: bias === undefined ? [] : broadcastStrides(bias.dims, [m, n]),
    alpha,
    beta,
    activation: NO_ACTIVATION,
    left: left.operand,
    right: right.operand,
    bias: bias?.operand ?? null,
    output: output.operand,
  });
  return output;
};

function fits(dims: readonly number[], into: readonly number[]): boolean {
  return broadcastDims(dims, into)?.join() === into.join();
}

function matrixDims({ dims: [rows, columns] }: Value, transposed: boolean): readonly [number, number] {
  return transposed ? [columns!, rows!] : [rows!, columns!];
}

function matrixStrides({ dims }: Value, transposed: boolean): readonly [number, number] {
  return transposed ? [1, dims[1]!] : [dims[1]!, 1];
}

/** As NumPy's: vectors count as matrices of one row or column, and the axes before the last two are broadcast. */
const matmul: Lower = (x) => {
  const [left, right] = [x.input(0), x.input(1)];
  [left, right].forEach((value) => requireFloat(x.node, value));
  const [a, b] = [asMatrices(x, left, 'row'), asMatrices(x, right, 'column')];
  const [m, k] = a.dims.slice(-2) as [number, number];
  const [depth, n] = b.dims.slice(-2) as [number, number];
  const batch = broadcastDims(a.dims.slice(0, -2), b.dims.slice(0, -2));
  if (k !== depth || batch === undefined) {
    throw x.invalid(`multiplies ${shapeOf(left)} by ${shapeOf(right)}`);
  }
  const result = x.build.scratch('float32', [...batch, m, n]);
  x.build.emit({
    kind: 'matmul',
    ...mergeRows(batch, m, n, k, batchStrides(a, batch), batchStrides(b, batch)),
    biasStrides: [],
    alpha: 1,
    beta: 0,
    activation: NO_ACTIVATION,
    left: a.operand,
    right: b.operand,
    bias: null,
    output: result.operand,
  });
  const dims = [...batch, ...(left.dims.length > 1 ? [m] : []), ...(right.dims.length > 1 ? [n] : [])];
  return x.build.view(result, dims);
};

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

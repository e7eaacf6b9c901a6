/** Operators that make tensors of attributes, dims and bounds. */
import type { Operator } from './elementwise';
import { arithmeticOf, wrap } from './precision';
import {
  Illegal,
  isFloat,
  requireSmall,
  sizeOf,
  Unjudged,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

function int64(values: readonly number[], dims: readonly number[] = [values.length]): Expected {
  return { type: 'int64', dims, data: values.map(BigInt) };
}

const shape: Operator = (node) => {
  const { dims } = node.input(0);
  const place = (axis: number) => Math.min(Math.max(axis < 0 ? axis + dims.length : axis, 0), dims.length);
  const [start, end] = [place(node.integer('start', 0)), place(node.integer('end', dims.length))];
  return [int64(dims.slice(start, end))];
};

const VALUES = ['value', 'value_float', 'value_floats', 'value_int', 'value_ints'];

const constant: Operator = (node) => {
  switch (node.only(VALUES)) {
    case 'value_float':
      return [{ type: 'float32', dims: [], data: [node.float('value_float', 0)] }];
    case 'value_floats': {
      const data = node.floats('value_floats')!;
      return [{ type: 'float32', dims: [data.length], data }];
    }
    case 'value_int':
      return [{ type: 'int64', dims: [], data: node.longs('value_int')! }];
    case 'value_ints': {
      const data = node.longs('value_ints')!;
      return [{ type: 'int64', dims: [data.length], data }];
    }
    default:
      return [node.tensor('value')!];
  }
};

const constantOfShape: Operator = (node) => {
  const dims = node.list(0);
  if (dims.some((extent) => extent < 0)) throw new Illegal(`dims [${dims}]`);
  const filling: RefTensor = node.tensor('value') ?? { type: 'float32', dims: [1], data: [0] };
  if (filling.data.length !== 1) throw new Illegal(`${filling.data.length} elements to fill with`);
  requireSmall(dims);
  return [{ type: filling.type, dims, data: new Array<Scalar>(sizeOf(dims)).fill(filling.data[0]!) }];
};

const range: Operator = (node) => {
  const bounds = [0, 1, 2].map((i) => node.input(i));
  if (bounds.some(({ data }) => data.length !== 1)) throw new Illegal('bounds of many elements');
  const { type } = bounds[0]!;
  // Only of halves it says anything.
  if (!isFloat(type) || type === 'float32' || type === 'float64') return [rangeOf(type, bounds)];
  const stash = node.integer('stash_type', 1);
  if (stash !== 1 && stash !== 11) throw new Unjudged(`stash_type ${stash}`);
  return [rangeOf(type, bounds)];
};

function rangeOf(type: ElementType, bounds: readonly RefTensor[]): Expected {
  const [start, limit, delta] = bounds.map(({ data }) => data[0]!) as [Scalar, Scalar, Scalar];
  if (Number(delta) === 0) throw new Illegal('a step of 0');
  const count = isFloat(type)
    ? floatSteps(Number(start), Number(limit), Number(delta))
    : integerSteps(BigInt(start), BigInt(limit), BigInt(delta));
  requireSmall([count]);
  const data = Array.from({ length: count }, (_, i) =>
    isFloat(type) ? Number(start) + i * Number(delta) : wrap(type, BigInt(start) + BigInt(i) * BigInt(delta)),
  );
  const size = (i: number) => Math.abs(Number(start)) + i * Math.abs(Number(delta));
  const rule = arithmeticOf(type).sumRule(2);
  return { type, dims: [count], data, allowed: data.map((_, i) => (isFloat(type) ? rule * size(i) : 0)) };
}

function floatSteps(start: number, limit: number, delta: number): number {
  const steps = (limit - start) / delta;
  if (!Number.isFinite(steps)) throw new Unjudged(`${steps} steps`);
  const whole = Math.round(steps);
  // Where rounding decides how many there are, ONNX does not.
  if (steps !== whole && Math.abs(steps - whole) < 1e-5 * Math.abs(steps))
    throw new Unjudged(`${steps} steps`);
  return Math.max(0, Math.ceil(steps));
}

function integerSteps(start: bigint, limit: bigint, delta: bigint): number {
  const distance = limit - start;
  const steps = distance / delta;
  if (distance === 0n || distance < 0n !== delta < 0n) return 0;
  return Number(steps * delta === distance ? steps : steps + 1n);
}

export const creation: Readonly<Record<string, Operator>> = {
  Constant: constant,
  ConstantOfShape: constantOfShape,
  Range: range,
  Shape: shape,
  Size: (node) => [int64([sizeOf(node.input(0).dims)], [])],
};

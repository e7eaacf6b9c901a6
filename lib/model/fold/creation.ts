/** Operators that make constants of attributes, dimensions or a few numbers. */
import { describe, elementCount } from '../../check';
import { float, floats, integer, tensor } from '../attributes';
import { invalidModel, quote, title } from '../complaints';
import type { Sliced } from '../../slices';
import { CONSTRUCTORS } from '../../tensor/tensor';
import type { ConstantTensor, GraphNode } from '../graph';
import type { Operands } from './operands';
import { build, isFloat, checkSmall, LeftAlone, walk, type Scalar, type Value } from './values';

/** A list of extents as the tensor that `Shape` makes of them. */
export function shapeValue(dims: readonly number[]): ConstantTensor<'int64'> {
  return { type: 'int64', dims: [dims.length], data: BigInt64Array.from(dims, BigInt) };
}

/** What `Shape` or `Size` makes of a tensor with those dimensions, whatever its elements. */
export function shape(node: GraphNode, dims: readonly number[]): ConstantTensor {
  const place = (name: string, fallback: number) => {
    const axis = integer(node, name, fallback);
    return Math.min(Math.max(axis < 0 ? axis + dims.length : axis, 0), dims.length);
  };
  return shapeValue(dims.slice(place('start', 0), place('end', dims.length)));
}

export function size(dims: readonly number[]): ConstantTensor {
  return { type: 'int64', dims: [], data: BigInt64Array.of(BigInt(elementCount(dims))) };
}

export function constant({ node }: Operands): ConstantTensor {
  const [name, ...others] = node.attributes.keys();
  if (others.length > 0) {
    throw invalidModel(
      `${title(node)} has more than one of its attributes: ${[name, ...others].map((other) => quote(other!)).join(', ')}`,
    );
  }
  switch (name) {
    case 'value_float':
      return { type: 'float32', dims: [], data: Float32Array.of(float(node, name)) };
    case 'value_floats': {
      const list = floats(node, name);
      return { type: 'float32', dims: [list.length], data: Float32Array.from(list) };
    }
    case 'value_int':
    case 'value_ints':
      return tensor(node, name);
    case 'value_string':
    case 'value_strings':
      throw new LeftAlone('strings');
    default:
      return tensor(node, 'value');
  }
}

/** Of any type: nothing is computed of the element. */
export function constantOfShape(operands: Operands): ConstantTensor {
  const dims = operands.list(0);
  if (dims.some((extent) => extent < 0)) throw operands.invalid(`cannot make dims ${describe(dims)}`);
  const filling = tensor(operands.node, 'value', null);
  checkSmall(dims);
  const count = elementCount(dims);
  if (filling === null) return { type: 'float32', dims, data: new Float32Array(count) };
  const { type, data } = filling;
  if (data.length !== 1) throw operands.invalid(`takes one element as 'value', got ${data.length}`);
  const elements = new CONSTRUCTORS[type](count) as Float32Array;
  return { type, dims, data: elements.fill(data[0] as number) } as ConstantTensor;
}

export function range(operands: Operands): Sliced<Value> {
  const [{ type }] = operands.alike();
  const bounds = [operands.scalar(0), operands.scalar(1), operands.scalar(2)] as const;
  const [start, limit, step] = bounds;
  if (Number(step) === 0) throw operands.invalid('has a step of 0');
  if (isFloat(type)) {
    const [first, last, delta] = bounds.map(Number) as [number, number, number];
    const count = Math.max(Math.ceil((last - first) / delta), 0);
    return build(type, [count], ([index]) => first + index! * delta);
  }
  const count = stepsBetween(start as bigint, limit as bigint, step as bigint);
  return build(type, [Number(count)], ([index]) => (start as bigint) + BigInt(index!) * (step as bigint));
}

function stepsBetween(start: bigint, limit: bigint, step: bigint): bigint {
  const [distance, stride] = step > 0n ? [limit - start, step] : [start - limit, -step];
  return distance > 0n ? (distance + stride - 1n) / stride : 0n;
}

/** The coordinates of the elements that are not zero, one row per axis. */
export function* nonZero(operands: Operands): Sliced<Value> {
  const { dims, elements } = operands.value(0);
  if (dims.length === 0) throw new LeftAlone('runtimes differ in what they make of a scalar');
  const rows = dims.map((): Scalar[] => []);
  yield* walk(dims, (at, index) => {
    if (Number(elements[index]) !== 0) rows.forEach((row, axis) => row.push(BigInt(at[axis]!)));
  });
  const found = [dims.length, rows[0]!.length];
  checkSmall(found);
  return { type: 'int64', dims: found, elements: rows.flat() };
}

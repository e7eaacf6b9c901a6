/** Small constants as lists of numbers, which is what folding computes with. */
import { elementCount } from '../../check';
import { packedBits } from '../../tensor/packed';
import { smallFloatOf } from '../../tensor/small_floats';
import { CONSTRUCTORS, type DataType } from '../../tensor/tensor';
import type { Sliced } from '../../slices';
import type { ConstantTensor } from '../graph';

/** Types that JavaScript has an array of numbers for: the others have no arithmetic here. */
export type FoldableType =
  | 'float32'
  | 'float64'
  | 'int8'
  | 'int16'
  | 'int32'
  | 'int64'
  | 'uint8'
  | 'uint16'
  | 'uint32'
  | 'uint64'
  | 'bool';

/** A number for a float type; a bigint for an integer type, and 0n or 1n for bool. */
export type Scalar = number | bigint;

export interface Value {
  readonly type: FoldableType;
  readonly dims: readonly number[];
  readonly elements: ArrayLike<Scalar>;
}

// Shapes, and what is computed from them, have a few elements, grids of anchors thousands. Weights have more, and are
// nothing for loops over bigints.
const MOST_ELEMENTS = 65_536;
const MOST_DIMS = 32;

/** Coordinates: a tenth of a millisecond to one. */
const VISITED_AT_ONCE = 1024;

/** Thrown inside folding for what is right but not for it: too large, or of a type or operator that it does not know. */
export class LeftAlone extends Error {}

/** @param dims - integers, none below 0 */
export function checkSmall(dims: readonly number[]): void {
  if (dims.length > MOST_DIMS || !(elementCount(dims) <= MOST_ELEMENTS)) throw new LeftAlone('too large');
}

export function isFloat(type: DataType): type is 'float32' | 'float64' {
  return type === 'float32' || type === 'float64';
}

export function isFoldable(type: DataType): type is FoldableType {
  return smallFloatOf(type) === undefined && packedBits(type) === undefined;
}

export function valueOf({ type, dims, data }: ConstantTensor): Value {
  if (!isFoldable(type)) throw new LeftAlone(`no arithmetic on ${type}`);
  checkSmall(dims);
  const elements: ArrayLike<Scalar> = hasScalars(type) ? data : Array.from<Scalar, Scalar>(data, BigInt);
  return { type, dims, elements };
}

/** Whether arrays of the type have the very scalars that are computed with. */
function hasScalars(type: FoldableType): boolean {
  return isFloat(type) || type === 'int64' || type === 'uint64';
}

/** Room for the elements of a result. */
export function roomFor(
  type: FoldableType,
  dims: readonly number[],
): { [index: number]: Scalar } & Value['elements'] {
  checkSmall(dims);
  const count = elementCount(dims);
  return hasScalars(type) ? new CONSTRUCTORS[type](count) : new Array<Scalar>(count);
}

export function tensorOf({ type, dims, elements }: Value): ConstantTensor {
  if (elements instanceof CONSTRUCTORS[type]) return { type, dims, data: elements };
  const data = new CONSTRUCTORS[type](elements.length);
  const isBig = type === 'int64' || type === 'uint64';
  for (let index = 0; index < elements.length; index++) {
    data[index] = isBig ? elements[index]! : Number(elements[index]);
  }
  return { type, dims, data };
}

/** What a type makes of a result: floats are rounded, integers lose the bits beyond their width. */
export function wrap(type: FoldableType, result: Scalar): Scalar {
  if (typeof result === 'number') return type === 'float32' ? Math.fround(result) : result;
  if (type === 'bool') return result;
  const bits = 8 * CONSTRUCTORS[type].BYTES_PER_ELEMENT;
  return type.startsWith('u') ? BigInt.asUintN(bits, result) : BigInt.asIntN(bits, result);
}

/**
 * A value, element by element in row-major order.
 *
 * @param element - by its coordinates, a list that the next call changes, and by its place in the order
 */
export function* build(
  type: FoldableType,
  dims: readonly number[],
  element: (at: readonly number[], index: number) => Scalar,
): Sliced<Value> {
  const elements = roomFor(type, dims);
  yield* walk(dims, (at, index) => {
    elements[index] = wrap(type, element(at, index));
  });
  return { type, dims, elements };
}

/**
 * Elements of a value, moved.
 *
 * @param dims - of the result
 * @param origin - the place of the result's first element in the value
 * @param steps - how far apart neighbours along each axis of the result are in the value
 */
export function* moved(
  { type, elements }: Value,
  dims: readonly number[],
  origin: number,
  steps: readonly number[],
): Sliced<Value> {
  const result = roomFor(type, dims);
  if (elementCount(dims) === 0) return { type, dims, elements: result };
  const [length, step] = [dims.at(-1) ?? 1, steps.at(-1) ?? 0];
  const rowSteps = steps.slice(0, -1);
  let end = 0;
  yield* walk(dims.slice(0, -1), (at) => {
    const first = origin + offsetOf(at, rowSteps);
    for (let i = 0; i < length; i++) result[end++] = elements[first + i * step]!;
  });
  return { type, dims, elements: result };
}

/** Visits all coordinates in row-major order. */
export function* walk(
  dims: readonly number[],
  visit: (at: readonly number[], index: number) => void,
): Sliced<void> {
  const count = elementCount(dims);
  const at = dims.map(() => 0);
  for (let index = 0; index < count; index++) {
    if (index % VISITED_AT_ONCE === 0) yield;
    visit(at, index);
    for (let axis = dims.length - 1; axis >= 0 && ++at[axis]! === dims[axis]; axis--) at[axis] = 0;
  }
}

/** How many elements apart neighbours along each axis are. */
export function stridesOf(dims: readonly number[]): number[] {
  return dims.map((_, axis) => elementCount(dims.slice(axis + 1)));
}

/** The scalar product of coordinates and strides. */
export function offsetOf(at: readonly number[], strides: readonly number[]): number {
  return strides.reduce((sum, stride, axis) => sum + stride * at[axis]!, 0);
}

/** NaN beats every number, as it does in ONNX. */
export function least<T extends Scalar>(a: T, b: T): T {
  return b < a || Number.isNaN(b) ? b : a;
}

export function greatest<T extends Scalar>(a: T, b: T): T {
  return b > a || Number.isNaN(b) ? b : a;
}

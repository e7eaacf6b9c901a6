/** What follows from constants, element by element, on this thread and once a session. */
import type { Sliced } from '../../slices';
import { smallFloatOf } from '../../tensor/small_floats';
import { numbersOf } from '../builder';
import type { ConstantTensor } from '../graph';
import type { Lowering } from '../lowering';
import { broadcastDims, broadcastStrides, coalesce, sizeOf, type Value } from '../values';

/** They take a tenth of a millisecond to one. */
const ELEMENTS_AT_ONCE = 2 ** 14;

type Operands = [ArrayLike<number>, ArrayLike<number>, ArrayLike<number>?];
type Places = [number, number, number];

/** Whether all elements are known before a run. */
export function areKnown(...values: readonly (Value | undefined)[]): boolean {
  return values.every((value) => value === undefined || value.constant !== undefined);
}

/**
 * A float32 tensor of a function of two constants or three, which are broadcast to each other. Where there are two, the
 * third element is 0.
 *
 * @param what - tells it from what else is made of them for this node
 */
export function* computed(
  x: Lowering,
  what: string,
  values: readonly Value[],
  compute: (first: number, second: number, third: number) => number,
): Sliced<Value> {
  const dims = broadcastDims(...values.map((value) => value.dims))!;
  return yield* x.deriveInSlices(`${what} of [${dims.join()}]`, values, function* () {
    const [first, second, third = [0]] = values.map((value) => elementsOf(value.constant!)) as Operands;
    const { extents, strides } = coalesce(
      dims,
      [0, 1, 2].map((k) => broadcastStrides(values[k]?.dims ?? [], dims)),
    );
    const row = extents.at(-1)!;
    const steps = strides.map((list) => list.at(-1)!) as Places;
    const data = new Float32Array(sizeOf(dims));
    for (let i = 0, due = 0; i < data.length;) {
      if (i === due) {
        yield;
        due += ELEMENTS_AT_ONCE;
      }
      let [p, q, r] = strides.map((list) => placeOf(i, extents, list)) as Places;
      const end = Math.min(data.length, due, i - (i % row) + row);
      for (; i < end; i++, p += steps[0], q += steps[1], r += steps[2]) {
        data[i] = compute(first[p]!, second[q]!, third[r]!);
      }
    }
    return { type: 'float32', dims, data };
  });
}

/** Those of the tensor itself where they are numbers: a copy of ten million weights takes seconds. */
function elementsOf(constant: ConstantTensor): ArrayLike<number> {
  const { type, data } = constant;
  const areNumbers = smallFloatOf(type) === undefined && typeof data[0] === 'number';
  return areNumbers ? (data as ArrayLike<number>) : numbersOf(constant);
}

/** Where the element that is number i of the extents lies in an operand of these strides. */
function placeOf(i: number, extents: readonly number[], strides: readonly number[]): number {
  let place = 0;
  for (let axis = extents.length - 1; axis >= 0; axis--) {
    place += (i % extents[axis]!) * strides[axis]!;
    i = Math.floor(i / extents[axis]!);
  }
  return place;
}

/** What follows from constants, element by element, on this thread and once a session. */
import type { Sliced } from '../../slices';
import { numbersOf } from '../builder';
import type { Lowering } from '../lowering';
import { broadcastDims, broadcastStrides, sizeOf, stridesOf, type Value } from '../values';

/** They take a tenth of a millisecond to one. */
const ELEMENTS_AT_ONCE = 2 ** 14;

/** Whether all elements are known before a run. */
export function areKnown(...values: readonly (Value | undefined)[]): boolean {
  return values.every((value) => value === undefined || value.constant !== undefined);
}

/**
 * A float32 tensor of a function of constants, which are broadcast to each other.
 *
 * @param what - tells it from what else is made of them for this node
 */
export function* computed(
  x: Lowering,
  what: string,
  values: readonly Value[],
  compute: (...elements: number[]) => number,
): Sliced<Value> {
  const dims = broadcastDims(...values.map((value) => value.dims))!;
  return yield* x.deriveInSlices(`${what} of [${dims.join()}]`, values, function* () {
    const operands = values.map((value) => numbersOf(value.constant!));
    const strides = values.map((value) => broadcastStrides(value.dims, dims));
    const own = stridesOf(dims);
    const data = new Float32Array(sizeOf(dims));
    for (let i = 0; i < data.length; i++) {
      if (i % ELEMENTS_AT_ONCE === 0) yield;
      const elements = operands.map((operand, k) => {
        let place = 0;
        for (let axis = 0; axis < dims.length; axis++) {
          place += (Math.floor(i / own[axis]!) % dims[axis]!) * strides[k]![axis]!;
        }
        return operand[place]!;
      });
      data[i] = compute(...elements);
    }
    return { type: 'float32', dims, data };
  });
}

/** Determinants of batches of matrices, by elimination. */
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { extentOf, type Value } from '../values';
import { takeElements } from './indexing';
import { along, repeated } from './layout';
import { reduceTo } from './reduction';
import { apply, choose, mapped, scalar } from './typed';

/** Each takes some ten steps. */
const MOST_ROWS = 128;

/**
 * The product of the pivots, each the greatest of its column, with a minus for each exchange of rows. It is computed in
 * doubles: what is left after the elimination may be far smaller than what it was taken from.
 */
const det: Lower = (x) => {
  const input = x.input(0);
  const { dims } = input;
  const rows = dims.at(-1);
  if (dims.length < 2 || rows !== dims.at(-2))
    throw x.invalid(`takes square matrices, got ${shapeOf(input)}`);
  if (rows! > MOST_ROWS) {
    throw unsupportedNode(x.node, `has matrices of ${rows} rows; here it can of ${MOST_ROWS}`);
  }
  const batch = dims.slice(0, -2);
  const count = extentOf(batch, 0, batch.length);
  let rest = x.build.view(x.build.cast(input, 'float64'), [count, rows!, rows!]);
  let product = repeated(x, scalar(x, 'float64', 1), [count, 1, 1]);
  while (rest.dims[1]! > 0) {
    const { pivot, isExchanged, below } = exchanged(x, rest);
    const head = part(x, pivot, 2, 0, 1);
    product = apply(x, 'multiply', [product, head]);
    product = choose(x, isExchanged, apply(x, 'negate', [product]), product);
    rest = eliminated(x, head, pivot, below);
  }
  return x.build.view(x.build.cast(product, input.type), batch);
};

/** The row [batch, 1, columns] that begins with the greatest element of its column, and the others. */
function exchanged(x: Lowering, rest: Value) {
  const rows = rest.dims[1]!;
  const magnitudes = apply(x, 'absolute', [part(x, rest, 2, 0, 1)]);
  const place = reduceTo(x, magnitudes, [1], 'argMaximum', true);
  const pivot = takeElements(x, rest, 1, place, rest.dims.with(1, 1));
  // The first row goes to where the pivot was.
  const others = x.derive(`rows below ${rows}`, [], () => ({
    type: 'int64',
    dims: [rows - 1, 1],
    data: BigInt64Array.from({ length: rows - 1 }, (_, i) => BigInt(i + 1)),
  }));
  const isPlace = mapped(x, 'equal', [others, place], 'bool');
  const below = choose(x, isPlace, part(x, rest, 1, 0, 1), part(x, rest, 1, 1, rows - 1));
  return { pivot, below, isExchanged: x.build.cast(place, 'bool') };
}

/** What is left of the others where their first elements are taken away. Where the pivot is 0, these are 0, too. */
function eliminated(x: Lowering, head: Value, pivot: Value, below: Value): Value {
  const columns = pivot.dims[2]! - 1;
  const zero = scalar(x, 'float64', 0);
  const firsts = part(x, below, 2, 0, 1);
  const isNone = mapped(x, 'equal', [head, zero], 'bool');
  const factors = choose(x, isNone, zero, apply(x, 'divide', [firsts, head]));
  const taken = apply(x, 'multiply', [factors, part(x, pivot, 2, 1, columns)]);
  return apply(x, 'subtract', [part(x, below, 2, 1, columns), taken]);
}

function part(x: Lowering, value: Value, axis: number, start: number, count: number): Value {
  return along(x, value, [{ axis, start, step: 1, count }]);
}

export const determinants: Record<string, Lower> = { Det: det };

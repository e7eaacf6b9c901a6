/** Casts, with what is particular to floats of 8 bits. */
import { integer, string } from '../attributes';
import { computeOf } from '../builder';
import type { Lowering } from '../lowering';
import { greatestNumber, smallFloatOf } from '../../tensor/small_floats';
import type { DataType } from '../../tensor/tensor';
import type { Value } from '../values';

/**
 * The elements as another type: rounded where the model says so, whatever is known of where a half came from. What a
 * float of 8 bits cannot hold becomes its greatest number, unless the node says otherwise.
 */
export function castTo(x: Lowering, input: Value, type: DataType): Value {
  if (type === input.type) return input;
  const compute = computeOf(input.type);
  if (!type.startsWith('float8')) return x.build.map('identity', [input], { outputType: type });
  // Integers are brought into the range of a float, which 53 bits hold.
  const inFloats = compute === 'float32' ? compute : 'float64';
  const isPower = type === 'float8e8m0';
  const rounding = isPower ? rounded(x, input) : input;
  if (integer(x.node, 'saturate', 1) === 0) {
    return x.build.map('identity', [rounding], { outputType: type, compute: inFloats });
  }
  const most = greatestNumber(smallFloatOf(type)!);
  return x.build.map('clip', [rounding], {
    outputType: type,
    compute: rounding === input ? inFloats : 'float64',
    p: isPower ? 1 / most : -most,
    q: most,
  });
}

/** By what a number is multiplied so that the next power of two from there is the one that a rounding asks for. */
const BEFORE_ROUNDING_UP = {
  up: 1,
  // A little more, so that what is half way, or a power itself, does not come out below.
  nearest: (2 / 3) * (1 + 2 ** -40),
  down: (1 / 2) * (1 + 2 ** -40),
};

/** Powers of two are made by rounding up. */
function rounded(x: Lowering, input: Value): Value {
  const factor = BEFORE_ROUNDING_UP[string(x.node, 'round_mode', ['up', 'nearest', 'down'], 'up')];
  if (factor === 1) return input;
  return x.build.map('affine', [input], { outputType: 'float64', compute: 'float64', p: factor, q: 0 });
}

/** Operators that change nothing but dimensions: their results share the input's data, whatever its size or type. */
import { describe, elementCount } from '../../check';
import { flag, integer } from '../attributes';
import type { ConstantTensor } from '../graph';
import type { Operands } from './operands';

export function identity(operands: Operands): ConstantTensor {
  return operands.tensor(0);
}

export function reshape(operands: Operands): ConstantTensor {
  const { dims } = operands.tensor(0);
  const keepsZeros = flag(operands.node, 'allowzero', false);
  const wanted = operands.list(1);
  const copied = wanted.map((extent, axis) => {
    if (extent !== 0 || keepsZeros) return extent;
    if (axis < dims.length) return dims[axis]!;
    throw operands.invalid(`copies extent ${axis} of dims ${describe(dims)}`);
  });
  const unknown = copied.indexOf(-1);
  if (unknown < 0) return relabelled(operands, copied);
  const known = elementCount(copied.toSpliced(unknown, 1));
  return relabelled(operands, copied.with(unknown, elementCount(dims) / known));
}

export function flatten(operands: Operands): ConstantTensor {
  const { dims } = operands.tensor(0);
  const axis = integer(operands.node, 'axis', 1);
  // Unlike other axes, this one may lie behind the last.
  const split = axis === dims.length ? axis : operands.axis(axis, dims.length);
  return relabelled(operands, [elementCount(dims.slice(0, split)), elementCount(dims.slice(split))]);
}

export function squeeze(operands: Operands): ConstantTensor {
  const { dims } = operands.tensor(0);
  const given = operands.optionalList('axes', 1);
  if (given === undefined)
    return relabelled(
      operands,
      dims.filter((extent) => extent !== 1),
    );
  const axes = new Set(operands.axes(given, dims.length));
  return relabelled(
    operands,
    dims.filter((extent, axis) => {
      if (axes.has(axis) && extent !== 1)
        throw operands.invalid(`squeezes axis ${axis} of dims ${describe(dims)}`);
      return !axes.has(axis);
    }),
  );
}

export function unsqueeze(operands: Operands): ConstantTensor {
  const { dims } = operands.tensor(0);
  const given = operands.optionalList('axes', 1);
  if (given === undefined) throw operands.invalid('has no axes');
  const rank = dims.length + given.length;
  const axes = new Set(operands.axes(given, rank));
  const extents = dims.values();
  return relabelled(
    operands,
    Array.from({ length: rank }, (_, axis) => (axes.has(axis) ? 1 : extents.next().value!)),
  );
}

function relabelled(operands: Operands, dims: readonly number[]): ConstantTensor {
  const tensor = operands.tensor(0);
  const isShape = dims.every((extent) => Number.isInteger(extent) && extent >= 0);
  if (isShape && elementCount(dims) === elementCount(tensor.dims)) return { ...tensor, dims };
  throw operands.invalid(`cannot make dims ${describe(dims)} of ${describe(tensor.dims)}`);
}

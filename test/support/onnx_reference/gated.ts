/** Activations that weigh another tensor. */
import type { Operator } from './elementwise';
import { exact, listed, silu, times } from './inexact';
import { arithmeticOf } from './precision';
import { Illegal } from './tensor';

/** swish(A) * B, of one shape. */
const swiGlu: Operator = (node) => {
  const [a, b] = [node.input(0), node.input(1)];
  if (a.dims.join() !== b.dims.join()) throw new Illegal(`[${a.dims}] and [${b.dims}]`);
  const [arithmetic, alpha] = [arithmeticOf(a.type), node.float('alpha', 1)];
  const numbers = a.data.map((x, i) =>
    times(arithmetic, silu(arithmetic, exact(x as number), alpha), exact(b.data[i] as number)),
  );
  return [listed(a.type, a.dims, numbers)];
};

export const gated: Readonly<Record<string, Operator>> = { SwiGLU: swiGlu };

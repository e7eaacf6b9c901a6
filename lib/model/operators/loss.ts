/** Losses of classifications. */
import { areSameDims } from '../../check';
import { integer, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { sizeOf, type Value } from '../values';
import { takeElements, takeRows } from './indexing';
import { reduceTo, softmaxOf } from './reduction';
import { apply, asType, choose, mapped, scalar } from './typed';

/** Of scores [N, C, …] what the target [N, …] says, times -1 and its weight. */
function negativeLogLikelihood(x: Lowering, scores: Value): Value {
  const [target, weight] = [asType(x, x.input(1), 'int64'), x.optional(2)];
  const [n, c, ...spatial] = scores.dims as [number, number, ...number[]];
  if (!areSameDims(target.dims, [n, ...spatial]))
    throw x.invalid(`has ${shapeOf(target)} for ${shapeOf(scores)}`);
  const places = sizeOf(spatial);
  const ignored = integer(x.node, 'ignore_index', null);
  const isIgnored =
    ignored === null ? undefined : mapped(x, 'equal', [target, scalar(x, 'int64', ignored)], 'bool');
  const zero = scalar(x, scores.type, 0);
  const safe = isIgnored === undefined ? target : choose(x, isIgnored, scalar(x, 'int64', 0), target);
  const own = takeElements(x, x.build.view(scores, [n, c, places]), 1, x.build.view(safe, [n, 1, places]));
  const negative = apply(x, 'negate', [x.build.view(own, target.dims)]);
  // Chosen, and not multiplied: nothing times an infinity is NaN.
  const loss = isIgnored === undefined ? negative : choose(x, isIgnored, zero, negative);
  const weights = weight && takeRows(x, weight, safe);
  const counted =
    isIgnored === undefined ? weights : choose(x, isIgnored, zero, weights ?? scalar(x, scores.type, 1));
  const weighted = counted === undefined ? loss : apply(x, 'multiply', [loss, counted]);
  const reduction = string(x.node, 'reduction', ['none', 'sum', 'mean'], 'mean');
  if (reduction === 'none') return weighted;
  const total = (value: Value, mode: 'sum' | 'mean') =>
    reduceTo(
      x,
      value,
      value.dims.map((_, axis) => axis),
      mode,
      false,
    );
  if (reduction === 'sum' || counted === undefined) return total(weighted, reduction);
  return apply(x, 'divide', [total(weighted, 'sum'), total(counted, 'sum')]);
}

const softmaxCrossEntropy: Lower = (x) => {
  const logarithms = softmaxOf(x, x.input(0), 1, 2, true);
  return [negativeLogLikelihood(x, logarithms), logarithms];
};

export const losses: Record<string, Lower> = {
  NegativeLogLikelihoodLoss: (x) => negativeLogLikelihood(x, x.input(0)),
  SoftmaxCrossEntropyLoss: softmaxCrossEntropy,
};

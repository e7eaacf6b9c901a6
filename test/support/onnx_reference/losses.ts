/** Losses of classifications. */
import type { Operator } from './elementwise';
import { ANYTHING, exact, sum, tensorOf, times, within, type Inexact } from './inexact';
import { asNumbers, type Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import { groupsOf, softmaxOf } from './reduction';
import {
  forEachIndex,
  Illegal,
  offsetOf,
  placeOf,
  requireSmall,
  stridesOf,
  Unjudged,
  type Dims,
  type Expected,
} from './tensor';

function quotient(arithmetic: Arithmetic, a: Inexact, b: Inexact): Inexact {
  const y = a.y / b.y;
  if (!(b.off < 0.1 * Math.abs(b.y))) return { y, off: ANYTHING };
  const off = (a.off + 2 * Math.abs(y) * b.off) / Math.abs(b.y);
  return within(arithmetic, y, off + 4 * arithmetic.unit * Math.abs(y) + arithmetic.tiny);
}

/** Of scores [N, C, …], which are logarithms, those of the targets [N, …], times -1 and their weights. */
function negativeLogLikelihood(
  node: Node,
  type: Expected['type'],
  dims: Dims,
  scores: readonly Inexact[],
): Expected {
  const [target, weight] = [node.input(1), node.optional(2)];
  const [batch, classes, ...places] = dims as [number, number, ...number[]];
  if (dims.length < 2 || target.dims.join() !== [batch, ...places].join())
    throw new Illegal(`[${target.dims}] for [${dims}]`);
  if (weight !== undefined && weight.dims.join() !== `${classes}`)
    throw new Illegal(`[${weight.dims}] weights`);
  if (classes === 0) throw new Unjudged('no classes');
  const reduction = node.string('reduction', ['mean', 'none', 'sum']);
  const ignored = node.has('ignore_index') ? node.integer('ignore_index') : undefined;
  const arithmetic = arithmeticOf(type);
  const strides = stridesOf(dims);
  const [losses, weights]: [Inexact[], Inexact[]] = [[], []];
  forEachIndex(target.dims, (at, index) => {
    const given = Number(target.data[index]);
    if (given === ignored) {
      losses.push(exact(0));
      weights.push(exact(0));
      return;
    }
    const place = placeOf(given, classes);
    if (given < 0) throw new Unjudged('classes counted from the end');
    const { y, off } = scores[offsetOf([at[0]!, place, ...at.slice(1)], strides)]!;
    const own = exact(weight === undefined ? 1 : (weight.data[place] as number));
    const isPlain = weight === undefined;
    losses.push(isPlain ? { y: -y, off } : times(arithmetic, { y: -y, off }, own));
    weights.push(own);
  });
  if (reduction === 'none') {
    let next = 0;
    return tensorOf(type, target.dims, () => losses[next++]!);
  }
  const total = sum(arithmetic, losses);
  return tensorOf(type, [], () =>
    reduction === 'sum' ? total : quotient(arithmetic, total, sum(arithmetic, weights)),
  );
}

const negativeLogLikelihoodLoss: Operator = (node) => {
  const input = node.input(0);
  return [negativeLogLikelihood(node, input.type, input.dims, asNumbers(input).map(exact))];
};

const softmaxCrossEntropyLoss: Operator = (node) => {
  const { type, dims, data } = node.input(0);
  if (dims.length < 2) throw new Illegal(`scores of [${dims}]`);
  requireSmall(dims);
  const logarithms = new Array<Inexact>(data.length);
  for (const group of groupsOf(node.input(0), [1]).groups) {
    const judged = softmaxOf(
      arithmeticOf(type),
      group.map((index) => data[index] as number),
      true,
    );
    group.forEach((index, i) => (logarithms[index] = { y: judged[i]![0], off: judged[i]![1] }));
  }
  let next = 0;
  const all = tensorOf(type, dims, () => logarithms[next++]!);
  return [negativeLogLikelihood(node, type, dims, logarithms), all];
};

export const losses: Readonly<Record<string, Operator>> = {
  NegativeLogLikelihoodLoss: negativeLogLikelihoodLoss,
  SoftmaxCrossEntropyLoss: softmaxCrossEntropyLoss,
};

/** Sums over products of elements, as an equation says. */
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { stridesOf, type Value } from '../values';
import { multiply } from './matrix';
import { reduceTo } from './reduction';

/** A tensor whose axes have labels, each its own. */
interface Labelled {
  readonly value: Value;
  readonly labels: readonly string[];
}

const einsum: Lower = (x) => {
  const equation = textOf(x);
  const [left, right] = equation.replaceAll(' ', '').split('->', 2) as [string, string?];
  const terms = left.split(',');
  if (terms.length !== x.inputs.length) {
    throw x.invalid(`has ${x.inputs.length} inputs for the equation '${equation}'`);
  }
  const ranks = terms.map((term, i) => x.inputs[i]!.dims.length - term.replace('...', '').length);
  const most = Math.max(0, ...terms.map((term, i) => (term.includes('...') ? ranks[i]! : 0)));
  const labelsOf = (term: string, rank: number) => {
    // The axes of an ellipsis are broadcast from the last one on.
    const dots = Array.from({ length: rank }, (_, i) => `.${most - rank + i}`);
    const [before, after] = term.split('...') as [string, string?];
    return after === undefined ? [...before] : [...before, ...dots, ...after];
  };
  const operands = terms.map((term, i) => diagonal(x, x.inputs[i]!, labelsOf(term, ranks[i]!)));
  const all = operands.flatMap(({ labels }) => labels);
  const outputs =
    right === undefined
      ? [...new Set(all)]
          .filter((label) => label.startsWith('.') || terms.join('').split(label).length === 2)
          .sort()
      : labelsOf(right, right.includes('...') ? most : 0);
  const result = operands.slice(1).reduce((a, b, i) => {
    const later = new Set([...outputs, ...operands.slice(i + 2).flatMap(({ labels }) => labels)]);
    return contract(x, a, b, later);
  }, operands[0]!);
  return ordered(x, summed(x, result, new Set(outputs)), outputs);
};

function textOf(x: Lowering): string {
  const value = x.node.attributes.get('equation');
  if (typeof value !== 'string') throw x.invalid('has no equation');
  if (EQUATION.test(value.replaceAll(' ', ''))) return value;
  throw x.invalid(
    `has the equation '${value}'; it takes terms of letters, with commas between, and -> before a last one`,
  );
}

const TERM = String.raw`[A-Za-z]*(?:\.\.\.)?[A-Za-z]*`;
const EQUATION = new RegExp(`^${TERM}(?:,${TERM})*(?:->${TERM})?$`);

/** With each label once: of two axes of one label those elements that are at one place along both. */
function diagonal(x: Lowering, value: Value, labels: readonly string[]): Labelled {
  if (labels.length !== value.dims.length) {
    throw x.invalid(`has ${labels.length} labels for ${shapeOf(value)}`);
  }
  const distinct = [...new Set(labels)];
  if (distinct.length === labels.length) return { value, labels };
  if (labels.some((label, axis) => value.dims[axis] !== value.dims[labels.indexOf(label)])) {
    throw x.invalid(`has one label for axes of several extents of ${shapeOf(value)}`);
  }
  const own = stridesOf(value.dims);
  const strides = distinct.map((label) => {
    return labels.reduce((sum, other, axis) => (other === label ? sum + own[axis]! : sum), 0);
  });
  const dims = distinct.map((label) => value.dims[labels.indexOf(label)]!);
  return { value: x.build.gatherStrided(value, dims, strides), labels: distinct };
}

/** The product of two, summed over what only they have: labels of both are a batch, or are summed in a product of matrices. */
function contract(x: Lowering, a: Labelled, b: Labelled, later: ReadonlySet<string>): Labelled {
  const [left, right] = [
    summed(x, a, new Set([...later, ...b.labels])),
    summed(x, b, new Set([...later, ...a.labels])),
  ];
  const both = left.labels.filter((label) => right.labels.includes(label));
  const batch = both.filter((label) => later.has(label));
  const inner = both.filter((label) => !later.has(label));
  const [rows, columns] = [left, right].map(({ labels }) =>
    labels.filter((label) => !both.includes(label)),
  ) as [string[], string[]];
  // One of 1 is broadcast to the other, which may be 0.
  const extentOf = (label: string) =>
    [left, right]
      .map(({ value, labels }) => value.dims[labels.indexOf(label)] ?? 1)
      .find((extent) => extent !== 1) ?? 1;
  const sizes = (labels: readonly string[], { value, labels: own }: Labelled) =>
    labels.map((label) => value.dims[own.indexOf(label)]!);
  const product = (extents: readonly number[]) => extents.reduce((p, extent) => p * extent, 1);
  const matrixOf = (of: Labelled, first: readonly string[], second: readonly string[]) => {
    const value = ordered(x, of, [...batch, ...first, ...second]);
    return x.build.view(value, [...sizes(batch, of), product(sizes(first, of)), product(sizes(second, of))]);
  };
  const made = multiply(x, matrixOf(left, rows, inner), matrixOf(right, inner, columns));
  const labels = [...batch, ...rows, ...columns];
  return { value: x.build.view(made, labels.map(extentOf)), labels };
}

/** Over the labels that are not kept. */
function summed(x: Lowering, { value, labels }: Labelled, kept: ReadonlySet<string>): Labelled {
  const gone = labels.flatMap((label, axis) => (kept.has(label) ? [] : [axis]));
  if (gone.length === 0) return { value, labels };
  return { value: reduceTo(x, value, gone, 'sum', false), labels: labels.filter((label) => kept.has(label)) };
}

function ordered(x: Lowering, { value, labels }: Labelled, wanted: readonly string[]): Value {
  const order = wanted.map((label) => labels.indexOf(label));
  if (order.includes(-1)) throw x.invalid(`has an output of labels that no input has`);
  if (new Set(order).size < order.length) throw x.invalid('has an output with one label twice');
  return x.build.transpose(value, order);
}

export const einsums: Record<string, Lower> = { Einsum: einsum };

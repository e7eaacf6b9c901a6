/** Sums over products of elements, by the labels of their axes. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf, wrap } from './precision';
import {
  forEachIndex,
  Illegal,
  isFloat,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type Scalar,
} from './tensor';

const MOST_PRODUCTS = 2 ** 22;

interface Equation {
  /** Of each input the labels of its axes; those of an ellipsis are numbers, counted from the last. */
  readonly terms: readonly (readonly string[])[];
  readonly output: readonly string[];
}

function equationOf(node: Node): Equation {
  const text = node.text('equation').replaceAll(' ', '');
  const [left, right, ...more] = text.split('->') as [string, ...string[]];
  const parts = left.split(',');
  if (more.length > 0 || parts.length !== node.inputs.length) {
    throw new Illegal(`'${text}' for ${node.inputs.length} inputs`);
  }
  const terms = parts.map((part, i) => labelsOf(part, (count) => node.input(i).dims.length - count));
  const counts = terms.map((term) => term.filter(isOfEllipsis).length);
  const most = Math.max(0, ...counts);
  // ONNX asks for one number of axes, which other runtimes broadcast.
  if (parts.some((part, i) => part.includes('...') && counts[i] !== most)) node.tolerate();
  const output = right === undefined ? implicit(terms, most) : labelsOf(right, () => most);
  if (right !== undefined && !right.includes('...') && most > 0)
    throw new Unjudged('an ellipsis summed over');
  if (right?.includes('...') && !left.includes('...')) throw new Unjudged('an ellipsis of nothing');
  if (new Set(output).size < output.length) throw new Illegal(`'${text}' with an output label twice`);
  if (output.some((label) => !terms.some((term) => term.includes(label)))) throw new Illegal(`'${text}'`);
  return { terms, output };
}

const isOfEllipsis = (label: string) => /\d/.test(label);

/** @param rankBeside - how many axes an ellipsis stands for beside so many others */
function labelsOf(part: string, rankBeside: (count: number) => number): string[] {
  if (!/^[A-Za-z]*(\.\.\.)?[A-Za-z]*$/.test(part)) throw new Illegal(`a term '${part}'`);
  const [before, after] = part.split('...') as [string, string?];
  const named = [...before, ...(after ?? '')];
  if (after === undefined) return named;
  const count = rankBeside(named.length);
  if (count < 0) throw new Illegal(`'${part}' for too few axes`);
  return [...before, ...Array.from({ length: count }, (_, i) => `${count - i}`), ...after];
}

/** What is there once, in the order of ASCII, behind the axes of the ellipsis. */
function implicit(terms: Equation['terms'], ofEllipsis: number): string[] {
  const all = terms.flat().filter((label) => !isOfEllipsis(label));
  const once = all.filter((label) => all.indexOf(label) === all.lastIndexOf(label));
  return [...Array.from({ length: ofEllipsis }, (_, i) => `${ofEllipsis - i}`), ...once.sort()];
}

function extentsOf({ terms }: Equation, shapes: readonly Dims[]): Map<string, number> {
  const extents = new Map<string, number>();
  terms.forEach((term, i) => {
    const dims = shapes[i]!;
    if (term.length !== dims.length) throw new Illegal(`${term.length} labels for [${dims}]`);
    term.forEach((label, axis) => {
      const [before, own] = [extents.get(label) ?? dims[axis]!, dims[axis]!];
      if (before !== own && before !== 1 && own !== 1) throw new Illegal(`${label} is ${before} and ${own}`);
      if (before !== own && !isOfEllipsis(label)) throw new Unjudged(`${label} is ${before} and ${own}`);
      extents.set(label, before === 1 ? own : before);
    });
  });
  return extents;
}

/** By how much the place in a tensor changes along each label. */
function stridesBy(term: readonly string[], dims: Dims, labels: readonly string[]): number[] {
  const own = stridesOf(dims).map((stride, axis) => (dims[axis] === 1 ? 0 : stride));
  return labels.map((label) =>
    term.reduce((total, other, axis) => (other === label ? total + own[axis]! : total), 0),
  );
}

/** The greatest size of elements of which no sum, in whatever order, is lost or overflows. */
const ORDINARY = 2 ** 20;

const einsum: Operator = (node) => {
  const equation = equationOf(node);
  const { inputs } = node;
  const shapes = inputs.map(({ dims }) => dims);
  const extents = extentsOf(equation, shapes);
  const summed = [...extents.keys()].filter((label) => !equation.output.includes(label));
  const [dims, inner] = [equation.output, summed].map((labels) =>
    labels.map((label) => extents.get(label)!),
  ) as [number[], number[]];
  requireSmall(dims);
  if (sizeOf([...dims, ...inner]) > MOST_PRODUCTS) throw new TooLarge(sizeOf([...dims, ...inner]));
  const labels = [...equation.output, ...summed];
  const strides = equation.terms.map((term, i) => stridesBy(term, shapes[i]!, labels));
  const products: Scalar[][] = Array.from({ length: sizeOf(dims) }, () => []);
  const steps = sizeOf(inner);
  forEachIndex([...dims, ...inner], (at, index) => {
    const factors = inputs.map(
      ({ data }, i) => data[at.reduce((sum, x, j) => sum + x * strides[i]![j]!, 0)]!,
    );
    products[Math.floor(index / steps)]!.push(productOf(factors));
  });
  const { type } = node.input(0);
  return [
    isFloat(type)
      ? inFloats(
          type,
          dims,
          products,
          inputs.map(({ data }) => data),
        )
      : inIntegers(type, dims, products),
  ];
};

function productOf(factors: readonly Scalar[]): Scalar {
  if (factors.every((factor) => typeof factor === 'bigint')) return factors.reduce((a, b) => a * b, 1n);
  return factors.reduce<number>((a, b) => a * Number(b), 1);
}

/** Exact, but for the bits beyond the type's width. */
function inIntegers(type: ElementType, dims: Dims, products: readonly (readonly Scalar[])[]): Expected {
  const data = products.map((terms) =>
    wrap(
      type,
      terms.reduce<bigint>((a, b) => a + BigInt(b), 0n),
    ),
  );
  return { type, dims, data, allowed: data.map(() => 0) };
}

/** Each input adds a product and a sum, whose errors are in proportion to the sizes of all products. */
function inFloats(
  type: ElementType,
  dims: Dims,
  products: readonly (readonly Scalar[])[],
  factors: readonly (readonly Scalar[])[],
): Expected {
  const { sumRule, tiny, type: computed } = arithmeticOf(type);
  const largest = factors.map((data) =>
    data.reduce<number>((most, x) => Math.max(most, Math.abs(Number(x))), 0),
  );
  const isOrdinary = largest.every((most) => most <= ORDINARY);
  // What docs/numerics.md says of numbers that are very small beside the largest ones.
  const slack = computed === 'float32' ? 2 ** -50 * largest.reduce((a, b) => a * b, 1) : 0;
  const lost = tiny * ORDINARY ** (factors.length - 1);
  const data = products.map((terms) => terms.reduce<number>((a, b) => a + Number(b), 0));
  const allowed = products.map((terms) => {
    if (!isOrdinary) return NaN;
    const size = terms.reduce<number>((a, b) => a + Math.abs(Number(b)), 0);
    return factors.length * sumRule(terms.length) * size + terms.length * (slack + lost);
  });
  return { type, dims, data, allowed };
}

export const einsums: Readonly<Record<string, Operator>> = { Einsum: einsum };

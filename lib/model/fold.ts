/**
 * Evaluates nodes of which every input is known when the model is loaded. Exporters compute shapes, and what depends on
 * them, with many small nodes on integers; with the dimensions of a model's inputs known, all of these fold away.
 */
import { resultOf, type MaybeSliced, type Sliced } from '../slices';
import { constant, constantOfShape, nonZero, range, shape, size } from './fold/creation';
import { ELEMENTWISE } from './fold/elementwise';
import { concat, gather, slice, split, tile, transpose } from './fold/movement';
import { Operands } from './fold/operands';
import { reduceMax, reduceMin, reduceProd, reduceSum } from './fold/reduction';
import { flatten, identity, reshape, squeeze, unsqueeze } from './fold/relabelling';
import { LeftAlone, tensorOf, type Value } from './fold/values';
import type { ConstantTensor, GraphNode } from './graph';

export { shapeValue } from './fold/creation';

// The work of a node is bounded by what its largest tensor may have times this.
const MOST_INPUTS = 256;

type Operator = (operands: Operands) => Sliced<ConstantTensor[]>;

const OPERATORS: ReadonlyMap<string, Operator> = new Map([
  ...onTensors([
    ['Constant', constant],
    ['ConstantOfShape', constantOfShape],
    ['Flatten', flatten],
    ['Identity', identity],
    ['Reshape', reshape],
    ['Shape', (operands) => shape(operands.node, operands.tensor(0).dims)],
    ['Size', (operands) => size(operands.tensor(0).dims)],
    ['Squeeze', squeeze],
    ['Unsqueeze', unsqueeze],
  ]),
  ...onValues([
    ...ELEMENTWISE,
    ['Concat', concat],
    ['Gather', gather],
    ['NonZero', nonZero],
    ['Range', range],
    ['ReduceMax', reduceMax],
    ['ReduceMin', reduceMin],
    ['ReduceProd', reduceProd],
    ['ReduceSum', reduceSum],
    ['Slice', slice],
    ['Split', split],
    ['Tile', tile],
    ['Transpose', transpose],
  ]),
]);

type Named<T> = readonly (readonly [operator: string, (operands: Operands) => T])[];

function onTensors(operators: Named<ConstantTensor>): [string, Operator][] {
  return operators.map(([name, compute]) => [name, (operands) => resultOf([compute(operands)])]);
}

function onValues(operators: Named<MaybeSliced<Value | Value[]>>): [string, Operator][] {
  return operators.map(([name, compute]) => [
    name,
    function* (operands) {
      const values = yield* resultOf(compute(operands));
      return [values].flat().map(tensorOf);
    },
  ]);
}

/**
 * The outputs of a node, or `undefined` where they are not computed here: an input is not known, the operator or the type
 * has no arithmetic on a CPU's scalars, or more than 65,536 elements would have to be computed. Operators that change
 * dimensions alone take tensors of any size and type, and share their data.
 *
 * Integers are exact within their type and wrap around beyond; float32 is rounded after each operation.
 *
 * @param inputs - in the node's order; `undefined` for one that is not known, as for an optional one that is left out
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming the node, where it has no result
 */
export function* evaluate(
  node: GraphNode,
  inputs: readonly (ConstantTensor | undefined)[],
): Sliced<ConstantTensor[] | undefined> {
  const operator = node.domain === '' ? OPERATORS.get(node.operator) : undefined;
  if (operator === undefined || node.obstacle !== undefined || node.inputs.length > MOST_INPUTS)
    return undefined;
  if (node.inputs.some((name, index) => name !== '' && inputs[index] === undefined)) return undefined;
  try {
    return yield* operator(new Operands(node, inputs));
  } catch (thrown) {
    if (thrown instanceof LeftAlone) return undefined;
    throw thrown;
  }
}

/**
 * The output of a `Shape` or `Size` of a tensor of which only the dimensions are known; `undefined` for other operators.
 *
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming the node
 */
export function evaluateFromDims(node: GraphNode, dims: readonly number[]): ConstantTensor | undefined {
  if (node.domain !== '') return undefined;
  if (node.operator === 'Shape') return shape(node, dims);
  return node.operator === 'Size' ? size(dims) : undefined;
}

/** Whether nodes of this operator are evaluated here where their inputs are known. */
export function isFolded({ domain, operator }: GraphNode): boolean {
  return domain === '' && OPERATORS.has(operator);
}

/** The operators that are evaluated here where their inputs are known. */
export function foldedNames(): string[] {
  return [...OPERATORS.keys()].sort();
}

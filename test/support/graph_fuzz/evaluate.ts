/** What a model of several nodes makes of its feeds, node by node, with what each value may be off by. */
import { Illegal, TooLarge, type Expected, type RefTensor, type Scalar } from '../onnx_reference/tensor';
import type { Body, Graph, GraphNode } from './graph';
import { evaluateWithin } from './within';

/** Values by name; a graph within a node has the names around it, too. */
export type Scope = Map<string, Expected>;

const MOST_ROUNDS = 64;

/** @throws `Illegal`, `Unjudged` or `TooLarge` where there is no answer */
export function evaluateGraph({ opset, feeds, constants, nodes }: Graph): Scope {
  const scope: Scope = new Map(constants);
  for (const { name, tensor } of feeds) scope.set(name, tensor);
  for (const node of nodes) evaluateInto(scope, node, opset);
  return scope;
}

export function evaluateInto(scope: Scope, node: GraphNode, opset: number): void {
  const results = resultsOf(scope, node, opset);
  node.outputs.forEach((name, i) => name !== '' && scope.set(name, results[i]!));
}

function resultsOf(scope: Scope, node: GraphNode, opset: number): readonly Expected[] {
  const inputs = node.inputs.map((name) => (name === '' ? undefined : scope.get(name)!));
  switch (node.operator) {
    case 'If': {
      const body = node.bodies![isTrue(inputs[0]!) ? 'then_branch' : 'else_branch']!;
      return evaluateBody(scope, body, [], opset);
    }
    case 'Loop':
      return loop(scope, node, inputs, opset);
    case 'Scan':
      return scan(scope, node, inputs as Expected[], opset);
    default:
      return evaluateWithin({
        ...node,
        opset: node.domain === '' ? opset : 1,
        inputs,
        outputs: node.outputs.length,
      });
  }
}

function isTrue({ data, allowed }: Expected): boolean {
  // Which way a run goes is not known.
  if (allowed !== undefined && allowed[0] !== 0) throw new Illegal('a condition that hangs on rounding');
  return data[0] !== 0n;
}

function evaluateBody(scope: Scope, body: Body, inputs: readonly Expected[], opset: number): Expected[] {
  const inner: Scope = new Map([...scope, ...body.constants]);
  body.inputs.forEach(({ name }, i) => inner.set(name, inputs[i]!));
  for (const node of body.nodes) evaluateInto(inner, node, opset);
  return body.outputs.map(({ name }) => inner.get(name)!);
}

function scalar(type: 'int64' | 'bool', x: bigint): RefTensor {
  return { type, dims: [], data: [x] };
}

function loop(
  scope: Scope,
  node: GraphNode,
  [most, start, ...given]: readonly (Expected | undefined)[],
  opset: number,
): Expected[] {
  const body = node.bodies!.body!;
  let state = given as Expected[];
  let goesOn = start === undefined || isTrue(start);
  const rows: Expected[][] = [];
  const limit = most === undefined ? Infinity : Number(most.data[0]);
  for (let round = 0; round < limit && goesOn; round++) {
    if (round === MOST_ROUNDS) throw new TooLarge(limit);
    const inputs = [scalar('int64', BigInt(round)), scalar('bool', 1n), ...state];
    const [condition, ...results] = evaluateBody(scope, body, inputs, opset);
    goesOn = isTrue(condition!);
    state = results.slice(0, state.length);
    rows.push(results.slice(state.length));
  }
  const stacked = body.outputs.length - 1 - state.length;
  if (stacked > 0 && rows.length === 0) throw new Illegal('rows of a loop without rounds');
  return [...state, ...Array.from({ length: stacked }, (_, i) => stack(rows.map((row) => row[i]!)))];
}

function scan(scope: Scope, node: GraphNode, inputs: readonly Expected[], opset: number): Expected[] {
  const body = node.bodies!.body!;
  const scanned = Number(node.attributes.num_scan_inputs!.value as bigint);
  const states = inputs.length - scanned;
  let state = inputs.slice(0, states);
  const rows: Expected[][] = [];
  const rounds = inputs[states]!.dims[0]!;
  if (rounds === 0) throw new Illegal('a scan without rounds');
  for (let round = 0; round < rounds; round++) {
    const slices = inputs.slice(states).map((input) => rowOf(input, round));
    const results = evaluateBody(scope, body, [...state, ...slices], opset);
    state = results.slice(0, states);
    rows.push(results.slice(states));
  }
  return [...state, ...rows[0]!.map((_, i) => stack(rows.map((row) => row[i]!)))];
}

function rowOf({ type, dims: [, ...dims], data, allowed }: Expected, row: number): Expected {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const [first, end] = [row * size, (row + 1) * size];
  return { type, dims, data: data.slice(first, end), allowed: allowed?.slice(first, end) };
}

function stack(rows: readonly Expected[]): Expected {
  const { type, dims } = rows[0]!;
  if (rows.some((row) => row.dims.join() !== dims.join())) throw new Illegal('rows of several dims');
  const data = rows.flatMap((row): readonly Scalar[] => row.data);
  const isExact = rows.every((row) => row.allowed === undefined);
  const allowed = rows.flatMap((row) => row.allowed ?? row.data.map(() => 0));
  return { type, dims: [rows.length, ...dims], data, allowed: isExact ? undefined : allowed };
}

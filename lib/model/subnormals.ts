/**
 * Reads weights below 2^-126 as 0. Weight decay leaves many in trained models. They do not change a result visibly, and
 * Intel's processors multiply by them in microcode, which is slow.
 */
import { inSlices, type Sliced } from '../slices';
import { Constants, type Filters } from './constants';
import { evaluate } from './fold';
import type { Body, ConstantTensor, Graph, GraphNode } from './graph';

/** The operators that multiply by constants: of others a small constant may be what keeps a logarithm finite. */
const MULTIPLYING: ReadonlySet<string> = new Set([
  ...['Conv', 'ConvTranspose', 'FusedConv', 'NhwcConv'],
  ...['Gemm', 'MatMul', 'FusedMatMul'],
  ...['BatchNormalization', 'GRU', 'LSTM', 'RNN'],
]);

const LEAST_NORMAL = 2 ** -126;

/** Elements that are copied in a tenth of a millisecond or so. */
const COPIED_AT_ONCE = 2 ** 16;

type Floats = ConstantTensor<'float32'>;

/** The graph with 0 in the place of what is no normal number in weights and biases. */
export async function withoutSubnormals(graph: Graph): Promise<Graph> {
  const weights = new Map<string, Floats>();
  await inSlices(collect(graph, new Set(namesOf(graph.nodes)), weights));
  const found = await withSubnormals([...weights.values()]);
  if (found.size === 0) return graph;
  const normal = new Map<Float32Array, Float32Array>();
  for (const data of found) normal.set(data, await inSlices(flushed(data)));
  const changed = [...weights].flatMap(([name, tensor]) => {
    const data = normal.get(tensor.data);
    return data === undefined ? [] : [[name, { ...tensor, data }] as const];
  });
  return replaced(graph, new Map(changed));
}

/** A graph of the model: names are no other graph's. */
type AnyGraph = Pick<Graph | Body, 'nodes' | 'constants'>;

function bodiesOf({ bodies }: GraphNode): Body[] {
  return [...(bodies?.values() ?? [])];
}

/** What multiplying operators read, in all graphs. A small variance has a large effect: it is divided by. */
function namesOf(nodes: readonly GraphNode[]): string[] {
  return nodes.flatMap((node) => {
    const own = node.operator === 'BatchNormalization' ? node.inputs.slice(1, 3) : node.inputs;
    const inner = bodiesOf(node).flatMap((body) => namesOf(body.nodes));
    return MULTIPLYING.has(node.operator) ? [...own, ...inner] : inner;
  });
}

/** What nodes of those names read of initializers, and of nodes that stand for one. */
function* collect(
  { nodes, constants }: AnyGraph,
  names: ReadonlySet<string>,
  weights: Map<string, Floats>,
): Sliced<void> {
  const add = (name: string, tensor: ConstantTensor | undefined) => {
    if (tensor?.type === 'float32') weights.set(name, tensor as Floats);
  };
  for (const [name, tensor] of constants) if (names.has(name)) add(name, tensor);
  for (const node of nodes) {
    const [name] = node.outputs;
    if (node.operator === 'Constant' && name !== undefined && names.has(name)) {
      add(name, (yield* evaluate(node, []))?.[0]);
    }
    for (const body of bodiesOf(node)) yield* collect(body, names, weights);
  }
}

/** The graph with other tensors of those names. */
function replaced<G extends AnyGraph>(graph: G, tensors: ReadonlyMap<string, ConstantTensor>): G {
  const constants = [...graph.constants].map(([name, own]) => [name, tensors.get(name) ?? own] as const);
  const nodes = graph.nodes.map((node) => {
    const value = tensors.get(node.outputs[0] ?? '');
    if (value !== undefined) return { ...node, attributes: new Map([['value', value]]) };
    if (node.bodies === undefined) return node;
    const bodies = [...node.bodies].map(([name, body]) => [name, replaced(body, tensors)] as const);
    return { ...node, bodies: new Map(bodies) };
  });
  return { ...graph, nodes, constants: new Map(constants) };
}

/** Those that have some, looked for on other threads. */
async function withSubnormals(weights: readonly Floats[]): Promise<Set<Float32Array>> {
  const all = new Set(weights.map(({ data }) => data).filter(({ length }) => length > 0));
  const filters = [...all].map((data) => ({ data, first: 0, count: 1, size: data.length }));
  const search = new Constants([]);
  await search.findRanges(filters);
  // The second of a range is the least magnitude but 0, or NaN, which says nothing of the others.
  const isNormal = (one: Filters) => search.rangesOf(one)![1]! >= LEAST_NORMAL;
  return new Set(filters.filter((one) => !isNormal(one)).map(({ data }) => data));
}

function* flushed(data: Float32Array): Sliced<Float32Array> {
  const copy = new Float32Array(data.length);
  for (let i = 0; i < data.length; i++) {
    if (i % COPIED_AT_ONCE === 0) yield;
    const element = data[i]!;
    copy[i] = Math.abs(element) < LEAST_NORMAL ? 0 : element;
  }
  return copy;
}

/**
 * Reads weights below 2^-126 as 0. Weight decay leaves many in trained models. They do not change a result visibly, and
 * Intel's processors multiply by them in microcode, which is slow.
 */
import { inSlices, type Sliced } from '../slices';
import { Constants, type Filters } from './constants';
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
  collect(graph, new Set(namesOf(graph.nodes)), weights);
  const found = await withSubnormals([...weights.values()]);
  if (found.size === 0) return graph;
  const normal = new Map<Float32Array, Float32Array>();
  for (const data of found) normal.set(data, await inSlices(flushed(data)));
  return replaced(graph, (name, tensor) => {
    const data = weights.has(name) ? normal.get(tensor.data as Float32Array) : undefined;
    return data === undefined ? tensor : ({ ...tensor, data } as ConstantTensor);
  });
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

function collect(
  { nodes, constants }: AnyGraph,
  names: ReadonlySet<string>,
  weights: Map<string, Floats>,
): void {
  for (const [name, tensor] of constants) {
    if (tensor.type === 'float32' && names.has(name)) weights.set(name, tensor as Floats);
  }
  for (const node of nodes) for (const body of bodiesOf(node)) collect(body, names, weights);
}

function replaced<G extends AnyGraph>(
  graph: G,
  change: (name: string, tensor: ConstantTensor) => ConstantTensor,
): G {
  const constants = [...graph.constants].map(([name, tensor]) => [name, change(name, tensor)] as const);
  const nodes = graph.nodes.map((node) => {
    if (node.bodies === undefined) return node;
    const bodies = [...node.bodies].map(([name, body]) => [name, replaced(body, change)] as const);
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

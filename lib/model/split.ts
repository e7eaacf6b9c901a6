/** Graphs in two parts, between which something is known that compiling the second needs. */
import { readsOf, type Graph, type GraphNode, type ValueInfo } from './graph';

export interface Split {
  /** Computes what the rest reads; `undefined` where inputs and constants are all of that */
  readonly first: Graph | undefined;
  /** What is computed between the two, if anything */
  readonly node: GraphNode | undefined;
  /** The nodes of the rest */
  readonly after: readonly GraphNode[];
  /** The rest, given the values that it reads beside the graph's inputs */
  readonly rest: (infoOf: (name: string) => ValueInfo) => Graph;
}

/**
 * @param needed - values that the first part makes
 * @param node - what is computed of them before the rest, if anything
 * @returns `undefined` where nothing is before the rest
 */
export function split(graph: Graph, needed: readonly string[], node?: GraphNode): Split | undefined {
  const writers = new Map(graph.nodes.flatMap((one) => one.outputs.map((name) => [name, one] as const)));
  const before = reached(needed, (name) => writers.get(name));
  if (before.size === 0 && node === undefined) return undefined;
  const made = (name: string) => {
    const writer = writers.get(name);
    return writer !== undefined && (writer === node || before.has(writer));
  };
  const outputs = graph.outputs.map(({ name }) => name);
  const after = reached(outputs, (name) => (made(name) ? undefined : writers.get(name)));
  const rest = graph.nodes.filter((one) => after.has(one));
  const read = new Set([...rest.flatMap(readsOf), ...outputs]);
  const between = node === undefined ? [] : readsOf(node);
  const crossing = [...new Set([...read, ...between])].filter(
    (name) => made(name) && writers.get(name) !== node,
  );
  const brought = [...read].filter((name) => made(name));
  const first = graph.nodes.filter((one) => before.has(one));
  return {
    first: first.length === 0 ? undefined : { ...partOf(graph, first), outputs: crossing.map(infoOfAny) },
    node,
    after: rest,
    rest: (infoOf) => {
      const part = partOf(graph, rest, outputs);
      return { ...part, inputs: [...part.inputs, ...brought.map(infoOf)] };
    },
  };
}

/** These nodes, and the inputs that they or others read. */
function partOf(graph: Graph, nodes: readonly GraphNode[], others: readonly string[] = []): Graph {
  const read = new Set([...nodes.flatMap(readsOf), ...others]);
  return { ...graph, inputs: graph.inputs.filter(({ name }) => read.has(name)), nodes };
}

/** Of a value that only a run knows; its type is not looked at. */
function infoOfAny(name: string): ValueInfo {
  return { name, type: 'float32', shape: undefined };
}

/** The nodes that make these values, and what they are made of, as far as `writerOf` goes. */
function reached(
  values: readonly string[],
  writerOf: (name: string) => GraphNode | undefined,
): Set<GraphNode> {
  const nodes = new Set<GraphNode>();
  const open = [...values];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const writer = name === '' ? undefined : writerOf(name);
    if (writer === undefined || nodes.has(writer)) continue;
    nodes.add(writer);
    open.push(...readsOf(writer));
  }
  return nodes;
}

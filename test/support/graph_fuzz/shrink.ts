/** The smallest part of a model that still goes wrong: with fewer outputs, and feeds in the place of what nodes make. */
import type { Expected, RefTensor } from '../onnx_reference/tensor';
import { evaluateGraph } from './evaluate';
import { pruned, type Graph } from './graph';

interface Small {
  readonly graph: Graph;
  readonly other: Graph;
  readonly reason: string;
}

type Judge = (graph: Graph, other: Graph) => Promise<{ readonly kind: string; readonly reason: string }>;

const MOST_TRIALS = 150;

/** @param other - the same model with other feeds */
export async function shrunk(graph: Graph, other: Graph, judge: Judge): Promise<Small> {
  let small: Small = { graph, other, reason: '' };
  let trials = 0;
  for (;;) {
    let better: Small | undefined;
    for (const [one, two] of smaller(small.graph, small.other)) {
      if (++trials > MOST_TRIALS) return small;
      const { kind, reason } = await judge(one, two);
      if (kind !== 'fault') continue;
      better = { graph: one, other: two, reason };
      break;
    }
    if (better === undefined) return small;
    small = better;
  }
}

/** Smaller models, those that lack most first. */
function* smaller(graph: Graph, other: Graph): Generator<readonly [Graph, Graph]> {
  const { outputs, nodes } = graph;
  const both = (change: (one: Graph) => Graph) => [change(graph), change(other)] as const;
  if (outputs.length > 1) {
    for (const output of outputs) yield both((one) => pruned({ ...one, outputs: [output] }));
    for (const output of outputs) {
      yield both((one) => pruned({ ...one, outputs: outputs.filter((kept) => kept !== output) }));
    }
  }
  const read = new Set(outputs.map(({ name }) => name));
  for (const node of nodes.toReversed()) {
    const made = node.outputs.filter((name) => name !== '');
    if (made.some((name) => read.has(name))) continue;
    yield both((one) => withoutNode(one, made));
  }
  if (graph !== other) yield [graph, graph];
}

/** What the node makes comes from the run. */
function withoutNode(graph: Graph, made: readonly string[]): Graph {
  const scope = valuesOf(graph);
  const feeds = made.flatMap((name) => {
    const value = scope?.get(name);
    if (value === undefined) return [];
    const tensor: RefTensor = { type: value.type, dims: value.dims, data: value.data };
    return [{ name, tensor, shape: value.dims.map((_, axis) => `${name}_${axis}`) }];
  });
  const nodes = graph.nodes.filter(({ outputs }) => !outputs.includes(made[0]!));
  return pruned({ ...graph, feeds: [...graph.feeds, ...feeds], nodes });
}

/** None where the reference has no answer; then the model is not one to be smaller. */
function valuesOf(graph: Graph): Map<string, Expected> | undefined {
  try {
    return evaluateGraph(graph);
  } catch {
    return undefined;
  }
}

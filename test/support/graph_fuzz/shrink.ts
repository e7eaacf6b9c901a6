/** The smallest part of a model that still goes wrong: with fewer outputs, and feeds in the place of what nodes make. */
import type { Expected, RefTensor } from '../onnx_reference/tensor';
import { evaluateGraph } from './evaluate';
import { pruned, type Graph } from './graph';

interface Small {
  readonly graph: Graph;
  /** The same model with other feeds */
  readonly others: readonly Graph[];
  /** What is wrong with it */
  readonly reason: string;
}

type Judge = (
  graph: Graph,
  others: readonly Graph[],
) => Promise<{ readonly kind: string; readonly reason: string }>;

const MOST_TRIALS = 150;

export async function shrunk(given: Small, judge: Judge): Promise<Small> {
  let small = given;
  let trials = 0;
  for (;;) {
    let better: Small | undefined;
    for (const [graph, ...others] of smaller(small)) {
      if (++trials > MOST_TRIALS) return small;
      const { kind, reason } = await judge(graph!, others);
      if (kind !== 'fault') continue;
      better = { graph: graph!, others, reason };
      break;
    }
    if (better === undefined) return small;
    small = better;
  }
}

/** Smaller models, each before its other feeds, those that lack most first. */
function* smaller({ graph, others }: Small): Generator<Graph[]> {
  const { outputs, nodes } = graph;
  const all = (change: (one: Graph) => Graph) => [graph, ...others].map(change);
  for (const [i] of others.entries()) yield [graph, ...others.toSpliced(i, 1)];
  if (outputs.length > 1) {
    for (const output of outputs) yield all((one) => pruned({ ...one, outputs: [output] }));
    for (const output of outputs) {
      yield all((one) => pruned({ ...one, outputs: outputs.filter((kept) => kept !== output) }));
    }
  }
  const read = new Set(outputs.map(({ name }) => name));
  for (const node of nodes.toReversed()) {
    const made = node.outputs.filter((name) => name !== '');
    if (made.some((name) => read.has(name))) continue;
    yield all((one) => withoutNode(one, made));
  }
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

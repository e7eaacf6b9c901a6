/** The order of a graph's nodes. */
import type { Sliced } from '../slices';
import { invalidModel, quote, title } from './complaints';
import { readsOf, type GraphNode } from './graph';

const LONGEST_CYCLE = 8;

/**
 * The nodes in an order in which every value is written before it is read, which is their own where that is one.
 *
 * @param given - whether a value is there before the first node
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming a node that reads what nobody writes, two that write the same value, or those
 * of a cycle
 */
export function* inOrder(
  nodes: readonly GraphNode[],
  given: (value: string) => boolean,
): Sliced<GraphNode[]> {
  const writers = yield* writersOf(nodes, given);
  const ordered: GraphNode[] = [];
  const states = new Map<GraphNode, 'entered' | 'done'>();
  for (const node of nodes) {
    if (states.has(node)) continue;
    // A path from `node` back to the node whose writers are being visited: not recursion, which a long chain would exhaust.
    const path = [{ node, reads: readsOf(node), next: 0 }];
    states.set(node, 'entered');
    while (path.length > 0) {
      yield;
      const step = path.at(-1)!;
      const value = step.reads[step.next++];
      if (value === undefined) {
        states.set(step.node, 'done');
        ordered.push(step.node);
        path.pop();
        continue;
      }
      if (value === '' || given(value)) continue;
      const writer = writers.get(value);
      if (writer === undefined) {
        throw invalidModel(
          `${title(step.node)} reads ${quote(value)}, which no node writes and no input brings`,
        );
      }
      const state = states.get(writer);
      if (state === 'done') continue;
      if (state === 'entered')
        throw cycle(
          path.map((entry) => entry.node),
          writer,
        );
      states.set(writer, 'entered');
      path.push({ node: writer, reads: readsOf(writer), next: 0 });
    }
  }
  return ordered;
}

function* writersOf(
  nodes: readonly GraphNode[],
  given: (value: string) => boolean,
): Sliced<Map<string, GraphNode>> {
  const writers = new Map<string, GraphNode>();
  for (const node of nodes) {
    yield;
    for (const value of node.outputs) {
      if (value === '') continue;
      const other = writers.get(value);
      if (other !== undefined) {
        const both = other === node ? 'twice' : `as does ${title(other)}`;
        throw invalidModel(`${title(node)} writes ${quote(value)}, ${both}`);
      }
      if (given(value)) {
        throw invalidModel(`${title(node)} writes ${quote(value)}, which is an input or an initializer`);
      }
      writers.set(value, node);
    }
  }
  return writers;
}

/** @param path - each node reads what the next one writes, and the last one what `first` writes */
function cycle(path: readonly GraphNode[], first: GraphNode) {
  const members = path.slice(path.indexOf(first)).map(title);
  const shown = members.slice(0, LONGEST_CYCLE).join(' reads from ');
  const rest = members.length > LONGEST_CYCLE ? ` and so on, ${members.length} nodes` : '';
  return invalidModel(`nodes wait for one another in a cycle: ${shown}${rest}`);
}

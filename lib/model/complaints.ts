/** How complaints about models are worded. */
import { isObject, plural } from '../check';
import { WarpconvError } from '../errors';
import type { Sliced } from '../slices';
import type { GraphNode } from './graph';

// Exporters write the whole path of a module into a name, far longer than what describe() shows of a string.
const LONGEST_NAME = 200;
/** Of operators: beyond, only their number is told. */
const LONGEST_LIST = 100;
/** Of the nodes of one operator */
const MOST_NODES = 5;

export function invalidModel(message: string, cause?: unknown): WarpconvError {
  return new WarpconvError('ERR_WARPCONV_INVALID_MODEL', message, cause === undefined ? {} : { cause });
}

const unsupported = new WeakSet<object>();

export function unsupportedModel(message: string): WarpconvError {
  const error = new WarpconvError('ERR_WARPCONV_UNSUPPORTED', message);
  unsupported.add(error);
  return error;
}

/** The error; with the advice, where it is of {@link unsupportedModel} and has none yet. */
export function advised(error: unknown, advice: string): unknown {
  if (!isObject(error) || !unsupported.has(error)) return error;
  const { code, message } = error as WarpconvError;
  // Behind a list of operators it has a line of its own.
  return new WarpconvError(code, `${message}${message.includes('\n') ? '\n' : '; '}${advice}`);
}

/** A name from a file, in quotes. */
export function quote(name: string): string {
  return name.length > LONGEST_NAME ? `'${name.slice(0, LONGEST_NAME)}…'` : `'${name}'`;
}

/** The operator with its domain, for example `com.microsoft.FusedConv`. */
function operatorName({ domain, operator }: GraphNode): string {
  const name = domain === '' ? operator : `${domain}.${operator}`;
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
}

/** A node as complaints name it, for example `Conv 'stem'`. */
export function title(node: GraphNode): string {
  return `${operatorName(node)} ${quote(node.name)}`;
}

/**
 * Checks that every node can be compiled. `supports` tells the operators, of any domain, that a compiler knows.
 *
 * @throws `ERR_WARPCONV_UNSUPPORTED` naming all the operators and nodes that cannot
 */
export function* checkOperators(
  nodes: readonly GraphNode[],
  supports: (node: GraphNode) => boolean,
): Sliced<void> {
  const refused = yield* refusedNodes(nodes, supports);
  if (refused.size === 0) return;
  const lines = Array.from(
    refused,
    ([operator, group]) => `${operator}: ${listOf(group.map(complaintOf), ', ', MOST_NODES)}`,
  );
  throw unsupportedModel(
    `the model has ${plural(refused.size, 'operator')} that warpconv does not support:\n  ${listOf(lines, '\n  ')}`,
  );
}

/** Those that {@link checkOperators} complains of, by their operators. */
export function* refusedNodes(
  nodes: readonly GraphNode[],
  supports: (node: GraphNode) => boolean,
): Sliced<ReadonlyMap<string, readonly GraphNode[]>> {
  const refused = new Map<string, GraphNode[]>();
  for (const node of withBodies(nodes)) {
    yield;
    if (node.obstacle === undefined && supports(node)) continue;
    const operator = operatorName(node);
    const others = refused.get(operator);
    if (others === undefined) refused.set(operator, [node]);
    else others.push(node);
  }
  return refused;
}

/** The nodes, and those of the graphs that they have. */
function* withBodies(nodes: readonly GraphNode[]): Generator<GraphNode> {
  for (const node of nodes) {
    yield node;
    for (const body of node.bodies?.values() ?? []) yield* withBodies(body.nodes);
  }
}

function complaintOf({ name, obstacle }: GraphNode): string {
  return obstacle === undefined ? quote(name) : `${quote(name)} (${obstacle})`;
}

function listOf(items: readonly string[], separator: string, most = LONGEST_LIST): string {
  const rest = items.length - most;
  return items.slice(0, most).join(separator) + (rest > 0 ? `${separator}and ${rest} more` : '');
}

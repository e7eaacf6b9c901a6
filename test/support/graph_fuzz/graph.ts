/** Models of several nodes: as the fuzz draws them, as files, and as lines that say what they are. */
import {
  node,
  onnxModel,
  subgraph,
  tensor,
  value,
  type AttributeValue,
  type OnnxModel,
} from '../onnx_builder';
import type { Attribute } from '../onnx_reference/node';
import type { ElementType, RefTensor } from '../onnx_reference/tensor';
import { attributeOf, stored, tensorText } from '../operator_fuzz/case';

export interface GraphNode {
  readonly domain: string;
  readonly operator: string;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Names of values, empty for one that is left out */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** The graphs among its attributes */
  readonly bodies?: Readonly<Record<string, Body>>;
}

export interface Typed {
  readonly name: string;
  readonly type: ElementType;
}

/** A graph within a node. It also reads what lies around it. */
export interface Body {
  readonly inputs: readonly Typed[];
  readonly constants: ReadonlyMap<string, RefTensor>;
  readonly nodes: readonly GraphNode[];
  readonly outputs: readonly Typed[];
}

export interface Feed {
  readonly name: string;
  readonly tensor: RefTensor;
  /** What the model says of its extents; feeds that have a name in common have that extent in common */
  readonly shape: readonly (number | string)[];
}

export interface Graph {
  readonly opset: number;
  readonly feeds: readonly Feed[];
  readonly constants: ReadonlyMap<string, RefTensor>;
  readonly nodes: readonly GraphNode[];
  readonly outputs: readonly Typed[];
}

export function modelOf(graph: Graph): Uint8Array {
  return onnxModel({
    opset: graph.opset,
    irVersion: graph.opset > 21 ? 10 : 8,
    domains: graph.nodes.some(({ domain }) => domain !== '') ? { 'com.microsoft': 1 } : {},
    inputs: graph.feeds.map(({ name, shape, tensor: { type } }) => value(name, shape, type)),
    ...contentOf(graph),
  });
}

function contentOf({ constants, nodes, outputs }: Pick<Graph, 'constants' | 'nodes' | 'outputs'>): OnnxModel {
  return {
    initializers: [...constants].map(([name, given]) => tensor(name, given.dims, stored(given), given.type)),
    nodes: nodes.map(nodeOf),
    outputs: outputs.map(({ name, type }) => value(name, undefined, type)),
  };
}

function nodeOf({ domain, operator, inputs, outputs, attributes, bodies = {} }: GraphNode) {
  const given = Object.entries(attributes).map(([key, one]) => [key, attributeOf(one)] as const);
  const graphs = Object.entries(bodies).map(([key, body]): [string, AttributeValue] => [
    key,
    subgraph({
      inputs: body.inputs.map(({ name, type }) => value(name, undefined, type)),
      ...contentOf(body),
    }),
  ]);
  const all = Object.fromEntries<AttributeValue>([...given, ...graphs]);
  return node(operator, inputs, outputs, all, { domain, name: outputs.find((name) => name !== '') ?? '' });
}

/** Without the nodes and tensors that no output needs. Feeds stay where `keepsFeeds` says so. */
export function pruned(graph: Graph, keepsFeeds = false): Graph {
  const needed = new Set(graph.outputs.map(({ name }) => name));
  const kept: GraphNode[] = [];
  for (const one of graph.nodes.toReversed()) {
    if (!one.outputs.some((name) => needed.has(name))) continue;
    kept.unshift(one);
    for (const name of readBy(one)) needed.add(name);
  }
  return {
    ...graph,
    nodes: kept,
    feeds: graph.feeds.filter(({ name }) => keepsFeeds || needed.has(name)),
    constants: new Map([...graph.constants].filter(([name]) => needed.has(name))),
  };
}

/** The names that a node reads, those that graphs within it read of their own included. */
export function readBy({ inputs, bodies = {} }: GraphNode): string[] {
  const within = Object.values(bodies).flatMap((body) => [
    ...body.nodes.flatMap(readBy),
    ...body.outputs.map(({ name }) => name),
  ]);
  return [...inputs.filter((name) => name !== ''), ...within];
}

/** One line for each tensor and node, from which the model could be written down by hand. */
export function describeGraph({ opset, feeds, constants, nodes, outputs }: Graph): string {
  const head = `opset ${opset}, outputs ${outputs.map(({ name }) => name)}`;
  const brought = feeds.map(
    ({ name, tensor: given, shape }) => `${name} = feed ${tensorText(given)} as [${shape}]`,
  );
  return [head, ...brought, ...linesOf({ constants, nodes })].map((line) => `    ${line}`).join('\n');
}

/** The same model's other feeds. */
export function describeFeeds({ feeds }: Graph): string {
  return `    other feeds ${feeds.map(({ name, tensor: given }) => `${name} = ${tensorText(given)}`).join(', ')}`;
}

function linesOf({ constants, nodes }: Pick<Graph, 'constants' | 'nodes'>): string[] {
  return [
    ...[...constants].map(([name, given]) => `${name} = constant ${tensorText(given)}`),
    ...nodes.flatMap(nodeLines),
  ];
}

function nodeLines({ operator, inputs, outputs, attributes, bodies = {} }: GraphNode): string[] {
  const listed = Object.entries(attributes).map(([name, { kind, value: content }]) => {
    const shown = typeof content === 'object' && 'dims' in content ? tensorText(content) : String(content);
    return `${name}: ${kind} ${shown}`;
  });
  const within = Object.entries(bodies).flatMap(([name, body]) => [
    `  ${name} of ${body.inputs.map((input) => input.name)}:`,
    ...linesOf(body).map((line) => `    ${line}`),
    `    gives ${body.outputs.map((output) => output.name)}`,
  ]);
  return [`${outputs} = ${operator}(${inputs.join(', ')}) {${listed.join(', ')}}`, ...within];
}

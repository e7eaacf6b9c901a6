/** Graphs whose input is an image of 8 bits in place of the numbers that a network was trained on. */
import type { Attribute, Extent, Graph, GraphNode, ValueInfo } from './graph';

/** How the elements of an image become those of an input. */
export interface ImageForm {
  /** The input */
  readonly input: string;
  readonly layout: 'NHWC' | 'NCHW';
  /** For each channel, or one for all: an element of the input is `factor * byte + summand`. */
  readonly factors: Float32Array;
  readonly summands: Float32Array;
}

/**
 * A graph that does the same, and takes one of its float32 inputs, of dims [N, C, H, W], as bytes in the form's layout.
 * No output is that very input.
 */
export function withImages(graph: Graph, { input, layout, factors, summands }: ImageForm): Graph {
  const named = (what: string) => unusedName(graph, `${input} ${what}`);
  const constants = new Map(graph.constants);
  const constant = (what: string, data: Float32Array) => {
    constants.set(named(what), { type: 'float32', dims: [1, data.length, 1, 1], data });
    return named(what);
  };
  const nodes: GraphNode[] = [];
  const made = (what: string, operator: string, inputs: readonly string[], attributes = {}) => {
    nodes.push(nodeOf(operator, inputs, named(what), attributes));
    return named(what);
  };
  // Bytes are moved before they become numbers of four.
  const planes = layout === 'NCHW' ? input : made('in planes', 'Transpose', [input], { perm: [0, 3, 1, 2] });
  const numbers = made('as numbers', 'Cast', [planes], { to: FLOAT });
  const scaled = made('scaled', 'Mul', [numbers, constant('factors', factors)]);
  const result = made('shifted', 'Add', [scaled, constant('summands', summands)]);
  const channels = Math.max(factors.length, summands.length);
  const inputs = graph.inputs.map((info) => (info.name === input ? imageOf(info, layout, channels) : info));
  const rest = graph.nodes.map((one) => reading(one, input, result));
  return { ...graph, inputs, constants, nodes: [...nodes, ...rest] };
}

/** ONNX's number of float32 */
const FLOAT = 1;

function imageOf({ name, shape }: ValueInfo, layout: ImageForm['layout'], channels: number): ValueInfo {
  const [n, given, h, w] = shape as readonly [Extent, Extent, Extent, Extent];
  // Several numbers say how many channels there are, where the model does not.
  const c = channels > 1 ? channels : given;
  return { name, type: 'uint8', shape: layout === 'NHWC' ? [n, h, w, c] : [n, c, h, w] };
}

function nodeOf(
  operator: string,
  inputs: readonly string[],
  output: string,
  attributes: Readonly<Record<string, Attribute>>,
): GraphNode {
  return {
    ...{ name: output, operator, domain: '', inputs, outputs: [output] },
    attributes: new Map(Object.entries(attributes)),
  };
}

/** A node that reads another value in place of one; the node itself where it does not read that. */
function reading(node: GraphNode, value: string, other: string): GraphNode {
  if (!node.inputs.includes(value)) return node;
  return { ...node, inputs: node.inputs.map((name) => (name === value ? other : name)) };
}

function unusedName({ inputs, nodes, constants }: Graph, wanted: string): string {
  const names = new Set([
    ...inputs.map(({ name }) => name),
    ...constants.keys(),
    ...nodes.flatMap((one) => one.outputs),
  ]);
  let name = wanted;
  for (let count = 2; names.has(name); count++) name = `${wanted} ${count}`;
  return name;
}

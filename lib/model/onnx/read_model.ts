/** A decoded file as a graph: what belongs to it, how it is connected, and whether all of it is there. */
import { invalidModel, quote, unsupportedModel } from '../complaints';
import type { Sliced } from '../../slices';
import { elementType } from '../element_types';
import {
  readsOf,
  type Body,
  type ConstantTensor,
  type Extent,
  type Graph,
  type GraphNode,
  type ValueInfo,
} from '../graph';
import { inOrder } from '../order';
import { initializerTitle, type ExternalData } from './external_data';
import { NodeReader, normalDomain, operatorDomain, type Scope } from './nodes';
import { BASE_OPSET, upgraded } from './older';
import type {
  GraphProto,
  ModelProto,
  TensorShapeProto_Dimension,
  TypeProto,
  ValueInfoProto,
} from './onnx_pb';
import { decodeGraph } from './wire';
import { readTensor, tensorObstacle, typeObstacle } from './tensors';

const OLDEST_IR_VERSION = 3;
/** That of ONNX 1.23, as is {@link NEWEST_OPSET}. */
const NEWEST_IR_VERSION = 14;
const OLDEST_OPSET = 1;
const NEWEST_OPSET = 28;

export function* readModel(model: ModelProto, external: ExternalData): Sliced<Graph> {
  const opset = readVersions(model);
  const graph = graphOf(model);
  const reader = new GraphReader(model, external, opset);
  const initializers = yield* reader.initializers(graph, asItIs);
  const { constants, refused } = initializers;
  const inputs = readInfos('input', graph.input, (name) => constants.has(name) || refused.has(name));
  const brought = new Set(inputs.map(({ name }) => name));
  const isGiven = (name: string) => brought.has(name) || constants.has(name) || refused.has(name);
  const nodes = yield* inOrder(yield* reader.nodes(graph, asItIs), isGiven);
  const written = new Set<string>();
  for (const { outputs } of nodes) {
    yield;
    for (const name of outputs) written.add(name);
  }
  const outputs = readInfos('output', graph.output, () => false);
  if (outputs.length === 0) throw invalidModel('the model has no outputs');
  for (const { name } of outputs) {
    if (refused.has(name)) throw unsupportedModel(`output ${quote(name)} is ${refused.get(name)}`);
    if (written.has(name) || isGiven(name)) continue;
    throw invalidModel(`output ${quote(name)} is written by no node, and is neither input nor initializer`);
  }
  return { opset: Math.max(opset, BASE_OPSET), inputs, outputs, nodes, constants };
}

/** An empty file is a message, too. */
export function graphOf({ graph }: ModelProto): GraphProto {
  if (graph !== undefined) return graph;
  throw invalidModel('the model has no graph; it is not an ONNX file, or is damaged');
}

/** Checks the version of the format and returns that of ONNX's own operators. */
function readVersions({ irVersion, opsetImport, graph }: ModelProto): number {
  checkVersion('IR version', irVersion, OLDEST_IR_VERSION, NEWEST_IR_VERSION);
  const versions = opsetImport.filter(({ domain }) => normalDomain(domain) === '');
  const first = versions[0]?.version;
  if (first === undefined) {
    if (graph?.node.every(({ domain }) => normalDomain(domain) !== '')) return NEWEST_OPSET;
    throw invalidModel(`the model imports no version of ONNX's operators`);
  }
  const other = versions.find(({ version }) => version !== first)?.version;
  if (other !== undefined) {
    throw invalidModel(`the model imports two versions of ONNX's operators: ${first} and ${other}`);
  }
  checkVersion('opset', first, OLDEST_OPSET, NEWEST_OPSET);
  return Number(first);
}

function checkVersion(what: string, version: bigint, oldest: number, newest: number): void {
  if (version < 1)
    throw invalidModel(`the model has ${what} ${version}; it is not an ONNX file, or is damaged`);
  if (version >= oldest && version <= newest) return;
  throw unsupportedModel(
    `the model has ${what} ${version}; warpconv reads ${oldest} to ${newest}: convert or export the model again`,
  );
}

interface Initializers {
  readonly constants: ReadonlyMap<string, ConstantTensor>;
  /** Those without a form here, and what they are: an error only once something reads them */
  readonly refused: ReadonlyMap<string, string>;
}

const asItIs: Scope = (name) => name;

/** Graphs within each other. */
const MOST_DEPTH = 16;

/** Reads the graph of a model, and those that its nodes have. */
class GraphReader {
  readonly #external: ExternalData;
  /** Operators that are functions of the model itself */
  readonly #functions: ReadonlySet<string>;
  readonly #nodes: NodeReader;
  #depth = 0;
  /** Initializers without a form here, of all graphs */
  readonly #refused = new Map<string, string>();

  constructor(
    { functions }: ModelProto,
    external: ExternalData,
    private readonly opset: number,
  ) {
    this.#external = external;
    this.#functions = new Set(functions.map(({ domain, name }) => identify(domain, name)));
    this.#nodes = new NodeReader(external, opset, (bytes, scope, name) => this.#body(bytes, scope, name));
  }

  *initializers(graph: GraphProto, scope: Scope): Sliced<Initializers> {
    const constants = new Map<string, ConstantTensor>();
    const refused = new Map<string, string>();
    const claim = (name: string) => {
      if (name === '') throw invalidModel('the model has an initializer without a name');
      if (!constants.has(name) && !refused.has(name)) return;
      throw invalidModel(`the model has two initializers of the name ${quote(name)}`);
    };
    for (const tensor of graph.initializer) {
      yield;
      const what = initializerTitle(tensor);
      const name = scope(tensor.name);
      claim(name);
      const obstacle = tensorObstacle(what, tensor);
      if (obstacle === undefined) {
        constants.set(name, yield* readTensor(what, tensor, this.#external.get(tensor)));
      } else refused.set(name, obstacle);
    }
    for (const { values } of graph.sparseInitializer) {
      const name = scope(values?.name ?? '');
      claim(name);
      refused.set(name, 'a sparse tensor');
    }
    for (const [name, obstacle] of refused) this.#refused.set(name, obstacle);
    return { constants, refused };
  }

  *nodes(graph: GraphProto, scope: Scope): Sliced<GraphNode[]> {
    const nodes: GraphNode[] = [];
    for (const proto of graph.node) {
      yield;
      const read = yield* this.#nodes.read(proto, scope);
      for (const node of this.opset < BASE_OPSET ? upgraded(read, this.opset) : [read]) {
        const obstacle = this.#functions.has(identify(node.domain, node.operator))
          ? 'a function of the model itself; export the model with its functions inlined'
          : (node.obstacle ?? this.#inputObstacle(node));
        nodes.push(obstacle === undefined ? node : { ...node, obstacle });
      }
    }
    return nodes;
  }

  /** Its own values are named after the graph: others of the model may have values of the same names. */
  *#body(bytes: Uint8Array, outer: Scope, title: string): Sliced<Body> {
    if (this.#depth === MOST_DEPTH)
      throw unsupportedModel(`the model has graphs within graphs, ${MOST_DEPTH} deep`);
    this.#depth++;
    const graph = yield* decodeGraph(`the graph ${quote(title)}`, bytes);
    const own = new Set([
      ...graph.input.map(({ name }) => name),
      ...graph.initializer.map(({ name }) => name),
      ...graph.sparseInitializer.map(({ values }) => values?.name ?? ''),
      ...graph.node.flatMap(({ output }) => output),
    ]);
    own.delete('');
    const scope: Scope = (name) => (own.has(name) ? `${name} in ${title}` : outer(name));
    const { constants, refused } = yield* this.initializers(graph, scope);
    const inputs = graph.input.map(({ name }) => scope(name)).filter((name) => !constants.has(name));
    const outputs = graph.output.map(({ name }) => scope(name));
    const unordered = yield* this.nodes(graph, scope);
    const written = new Set(unordered.flatMap((node) => node.outputs));
    const brought = new Set(inputs);
    const isOwn = (name: string) =>
      written.has(name) || brought.has(name) || constants.has(name) || refused.has(name);
    const nodes = yield* inOrder(unordered, (name) => !written.has(name));
    const reads = new Set([...nodes.flatMap(readsOf), ...outputs]);
    const captures = [...reads].filter((name) => name !== '' && !isOwn(name));
    this.#depth--;
    return { inputs, outputs, nodes, constants, captures };
  }

  #inputObstacle(node: GraphNode): string | undefined {
    const input = readsOf(node).find((name) => this.#refused.has(name));
    return input === undefined ? undefined : `its input ${quote(input)} is ${this.#refused.get(input)}`;
  }
}

function identify(domain: string, operator: string): string {
  return JSON.stringify([operatorDomain(domain, operator), operator]);
}

/** Inputs or outputs, without those that have a value already. */
function readInfos(
  kind: 'input' | 'output',
  protos: readonly ValueInfoProto[],
  hasValue: (name: string) => boolean,
): ValueInfo[] {
  const names = new Set<string>();
  for (const { name } of protos) {
    if (name === '') throw invalidModel(`the model has an ${kind} without a name`);
    if (names.has(name)) throw invalidModel(`the model has two ${kind}s of the name ${quote(name)}`);
    names.add(name);
  }
  return protos
    .filter(({ name }) => !hasValue(name))
    .map(({ name, type }) => ({ name, ...readType(`${kind} ${quote(name)}`, type) }));
}

function readType(what: string, proto: TypeProto | undefined): Omit<ValueInfo, 'name'> {
  const { value } = proto ?? {};
  if (value?.case === undefined) throw invalidModel(`${what} has no type`);
  if (value.case !== 'tensorType') {
    const kind = value.case.replace('Type', '').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    throw unsupportedModel(`${what} is of the type ${kind}; warpconv takes tensors`);
  }
  const { elemType, shape } = value.value;
  const obstacle = typeObstacle(what, elemType);
  if (obstacle !== undefined) throw unsupportedModel(`${what} is ${obstacle}`);
  return { type: elementType(elemType)!, shape: shape?.dim.map((dimension) => readExtent(what, dimension)) };
}

function readExtent(what: string, { value }: TensorShapeProto_Dimension): Extent {
  if (value.case === 'dimParam') return value.value === '' ? null : value.value;
  // Some exporters write -1 where an extent is not known.
  if (value.case === undefined || value.value < 0) return null;
  if (value.value <= Number.MAX_SAFE_INTEGER) return Number(value.value);
  throw invalidModel(`${what} has an extent of ${value.value}`);
}

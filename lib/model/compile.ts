/** A graph, for inputs of given extents, as a program: the steps in order, and where every tensor lies. */
import type { DataType } from '../tensor';
import { Builder, shapeOf, type PlannedStep } from './builder';
import { checkOperators, invalidModel, quote } from './complaints';
import { Constants } from './constants';
import { evaluate, evaluateFromDims, isFolded } from './fold';
import { fuse } from './fuse';
import type { ConstantTensor, Graph, GraphNode } from './graph';
import { Lowering, ValueNeeded } from './lowering';
import { planMemory } from './memory_plan';
import { operatorOf } from './operators';
import { unsupportedNode } from './refusals';
import { checkInputs } from './schema';
import { mapBuffers, type NativeBuffer, type NativeProgramSpec, type Step } from './steps';
import { bytesOf, coalesce, sizeOf, type Operand, type Storage, type Value } from './values';

/** A graph's input or output with extents that are numbers. */
export interface Port {
  readonly name: string;
  readonly type: DataType;
  /** Of outputs frozen, since their tensors have them */
  readonly dims: readonly number[];
}

export interface Compiled {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly steps: readonly PlannedStep[];
  readonly program: Omit<NativeProgramSpec, 'store'>;
}

/** Everything that a run brings is of these dims; `constants` are inputs whose very elements are known. */
export interface Bindings {
  readonly dims: ReadonlyMap<string, readonly number[]>;
  readonly constants: ReadonlyMap<string, ConstantTensor>;
}

/** @throws `ERR_WARPCONV_UNSUPPORTED` naming all operators and nodes that nothing computes */
export function requireOperators(graph: Graph): void {
  checkOperators(graph.nodes, (node) => isFolded(node) || operatorOf(node) !== undefined);
}

/**
 * @param constants - those of the session: what follows from the graph's constants alone is the same for all dims
 * @throws {@link ValueNeeded} where a node needs an input's elements; {@link WarpconvError}
 * `ERR_WARPCONV_INVALID_MODEL` or `ERR_WARPCONV_UNSUPPORTED` naming the node
 */
export async function compile(
  graph: Graph,
  bindings: Bindings,
  algorithm = 'auto',
  constants = new Constants(graph.constants.values()),
): Promise<Compiled> {
  const build = new Builder(algorithm, constants);
  const { inputs, outputs } = lowerGraph(graph, bindings, build);
  const places = placeOutputs(build, outputs);
  const storages = new Set(places.map(({ storage }) => storage));
  const fused = await fuse(withoutDead(build.steps, storages), storages, constants);
  const steps = fused.map(finish);
  return {
    inputs: inputs.map(({ name, value: { type, dims } }) => ({ name, type, dims })),
    outputs: outputs.map(({ type, dims }, i) => ({
      name: graph.outputs[i]!.name,
      type,
      dims: Object.freeze([...dims]),
    })),
    steps,
    program: place(
      steps.map(({ step }) => step),
      inputs.map(({ value }) => value.operand.storage),
      places.map(({ storage }) => storage),
    ),
  };
}

/** The graph's inputs and outputs as tensors of known extents; the steps from one to the other are left in `build`. */
export function lowerGraph(
  graph: Graph,
  bindings: Bindings,
  build: Builder,
): { readonly inputs: readonly NamedValue[]; readonly outputs: readonly Value[] } {
  const values = new Values(graph, build);
  const inputs = graph.inputs.map((info) => bindInput(build, info, bindings));
  inputs.forEach(({ name, value }) => values.set(name, value));
  for (const node of graph.nodes) {
    const outputs = lower(graph, build, node, values);
    node.outputs.forEach((name, i) => {
      if (name !== '' && outputs[i] !== undefined) values.set(name, outputs[i]);
    });
  }
  return { inputs, outputs: graph.outputs.map(({ name }) => values.get(name)) };
}

/** The values of a graph as far as it has been lowered, by their names. */
class Values {
  readonly #values = new Map<string, Value>();

  constructor(
    private readonly graph: Graph,
    private readonly build: Builder,
  ) {}

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  get(name: string): Value {
    const value = this.#values.get(name);
    if (value !== undefined) return value;
    const tensor = this.graph.constants.get(name);
    if (tensor === undefined) throw invalidModel(`nothing makes the value ${quote(name)}`);
    const constant = this.build.constant(tensor, true);
    this.set(name, constant);
    return constant;
  }
}

interface NamedValue {
  readonly name: string;
  readonly value: Value;
}

function bindInput(build: Builder, { name, type }: Graph['inputs'][number], bindings: Bindings): NamedValue {
  const dims = bindings.dims.get(name)!;
  const storage: Storage = { space: 'input', bytes: sizeOf(dims) * bytesOf(type) };
  const constant = bindings.constants.get(name);
  const value: Value =
    constant === undefined ? { type, dims, operand: { storage, offset: 0 } } : build.constant(constant);
  return { name, value };
}

function lower(graph: Graph, build: Builder, node: GraphNode, values: Values): readonly Value[] {
  const inputs = node.inputs.map((name) => (name === '' ? undefined : values.get(name)));
  build.enter(node);
  const known = () => {
    checkInputs(node, graph.opset, inputs);
    return evaluateKnown(node, inputs);
  };
  const isFixed = inputs.every((value) => value === undefined || value.isFixed);
  const ahead = isFixed ? build.constants.once([node], known) : known();
  if (ahead !== undefined) return ahead.map((tensor) => build.folded(tensor, isFixed));
  const operator = operatorOf(node);
  if (operator === undefined) {
    const needed = node.inputs.find((_, i) => inputs[i] !== undefined && inputs[i].constant === undefined);
    if (needed !== undefined) throw new ValueNeeded(node, needed);
    throw unsupportedNode(node, `computes what is too large to compute ahead: ${describeAll(inputs)}`);
  }
  const outputs = operator(new Lowering(node, graph.opset, build, inputs));
  return 'operand' in outputs ? [outputs] : outputs;
}

function describeAll(inputs: readonly (Value | undefined)[]): string {
  return inputs.map((value) => (value === undefined ? 'nothing' : shapeOf(value))).join(' and ');
}

/** What follows from shapes and constants alone. */
function evaluateKnown(
  node: GraphNode,
  inputs: readonly (Value | undefined)[],
): readonly ConstantTensor[] | undefined {
  const [first] = inputs;
  const fromDims = first && evaluateFromDims(node, first.dims);
  if (fromDims !== undefined) return [fromDims];
  return evaluate(
    node,
    inputs.map((value) => value?.constant),
  );
}

/** Where each output is written: by the step that makes it, or by a copy of what is not made, or twice wanted. */
function placeOutputs(build: Builder, outputs: readonly Value[]): Operand[] {
  const taken = new Set<Storage>();
  return outputs.map((value) => {
    const { storage, offset } = value.operand;
    const isWhole = offset === 0 && storage.bytes === sizeOf(value.dims) * bytesOf(value.type);
    if (storage.space === 'arena' && isWhole && !taken.has(storage)) {
      taken.add(storage);
      return value.operand;
    }
    const copy = build.scratch(value.type, value.dims);
    build.copy(value, [sizeOf(value.dims)], [1], copy, [1]);
    taken.add(copy.operand.storage);
    return copy.operand;
  });
}

/** The steps that an output depends on. */
export function withoutDead(steps: readonly PlannedStep[], outputs: ReadonlySet<Storage>): PlannedStep[] {
  const needed = new Set(outputs);
  const kept = [...steps].reverse().filter(({ step }) => {
    if (!needed.has(step.output.storage)) return false;
    readStorages(step).forEach((storage) => needed.add(storage));
    return true;
  });
  return kept.reverse();
}

function readStorages(step: Step<Operand>): Storage[] {
  const storages: Storage[] = [];
  mapBuffers(step, (operand) => storages.push(operand.storage));
  return storages;
}

/** Few axes are quicker than many. */
function finish(planned: PlannedStep): PlannedStep {
  const { step } = planned;
  if (step.kind !== 'elementwise') return planned;
  const { extents, strides } = coalesce(step.extents, step.strides);
  return { ...planned, step: { ...step, extents, strides } };
}

/** Every operand as native code finds it. */
function place(
  steps: readonly Step<Operand>[],
  inputs: readonly Storage[],
  outputs: readonly Storage[],
): Omit<NativeProgramSpec, 'store'> {
  const ports = new Map<Storage, NativeBuffer>();
  inputs.forEach((storage, index) => ports.set(storage, { space: 'input', index, offset: 0 }));
  outputs.forEach((storage, index) => ports.set(storage, { space: 'output', index, offset: 0 }));
  const { offsets, bytes } = planMemory(steps, ports);
  const constants: ArrayBufferView[] = [];
  const sharedConstants: boolean[] = [];
  const indices = new Map<Storage, number>();
  const toNative = ({ storage, offset }: Operand): NativeBuffer => {
    const port = ports.get(storage);
    if (port !== undefined) return { ...port, offset };
    if (storage.data === undefined) {
      return { space: 'arena', index: 0, offset: offsets.get(storage)! + offset };
    }
    let index = indices.get(storage);
    if (index === undefined) {
      index = constants.push(storage.data) - 1;
      sharedConstants.push(storage.isShared === true);
      indices.set(storage, index);
    }
    return { space: 'constant', index, offset };
  };
  return {
    steps: steps.map((step) => mapBuffers(step, toNative)),
    constants,
    sharedConstants,
    arenaBytes: bytes,
    inputBytes: inputs.map((storage) => storage.bytes),
    outputBytes: outputs.map((storage) => storage.bytes),
  };
}

/** A graph, for inputs of given extents, as a program: the steps in order, and where every tensor lies. */
import { inSlices, isDue, isSliced, resultOf, type MaybeSliced, type Sliced } from '../slices';
import { arrayLength, packedBits } from '../tensor/packed';
import type { Precision } from '../conv2d/names';
import type { DataType } from '../tensor/tensor';
import { Builder, shapeOf, type PlannedStep } from './builder';
import { Chain, type NamedValues } from './chain';
import type { Chains } from './chains';
import { checkOperators, invalidModel, quote, refusedNodes } from './complaints';
import { Constants } from './constants';
import { evaluate, evaluateFromDims, isFolded } from './fold';
import { fuse } from './fuse';
import type { Body, ConstantTensor, Graph, GraphNode } from './graph';
import { halve, type Halved } from './half/index';
import { joinInPlace } from './join';
import { isHosted } from './hosted/index';
import { HostNeeded, Lowering, ValueNeeded } from './lowering';
import { planMemory } from './memory_plan';
import { operatorOf } from './operators';
import { pack, unpack, unpacked } from './packing';
import { invalidNode, unsupportedNode } from './refusals';
import { checkInputs } from './schema';
import { buffersRead, mapBuffers, type NativeBuffer, type NativeProgramSpec, type Step } from './steps';
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
  readonly precision: Precision;
  /** The nodes of convolutions that stay float32 in a network of halves, which have not the numbers of their filters */
  readonly tooLarge: Halved['tooLarge'];
}

/** Everything that a run brings is of these dims; `constants` are inputs whose very elements are known. */
export interface Bindings {
  readonly dims: ReadonlyMap<string, readonly number[]>;
  readonly constants: ReadonlyMap<string, ConstantTensor>;
}

/** @throws `ERR_WARPCONV_UNSUPPORTED` naming all operators and nodes that nothing computes */
export function requireOperators(graph: Graph): Promise<void> {
  return inSlices(checkOperators(graph.nodes, isKnown));
}

/** The nodes that {@link requireOperators} names, all of them, by their operators. */
export function unsupportedNodes(graph: Graph): Promise<ReadonlyMap<string, readonly GraphNode[]>> {
  return inSlices(refusedNodes(graph.nodes, isKnown));
}

function isKnown(node: GraphNode): boolean {
  return isFolded(node) || isHosted(node) || isBranch(node) || operatorOf(node) !== undefined;
}

/**
 * In slices, with others between them.
 *
 * @param constants - those of the session: what follows from the graph's constants alone is the same for all dims
 * @param chains - those of the session, where others may be compiled for other dims
 * @param precision - the least exact products that the device is to make; those of halves need a GPU that has them
 * @throws {@link ValueNeeded} where a node needs an input's elements; {@link WarpconvError}
 * `ERR_WARPCONV_INVALID_MODEL` or `ERR_WARPCONV_UNSUPPORTED` naming the node
 */
export async function compile(
  graph: Graph,
  bindings: Bindings,
  algorithm = 'auto',
  constants = new Constants(graph.constants.values()),
  chains?: Chains,
  precision: Precision = 'fp32',
): Promise<Compiled> {
  const build = new Builder(algorithm, constants);
  const units = await chains?.unitsOf(constants.unfixed(graph.nodes));
  const lowered = await inSlices(lowerGraph(graph, bindings, build, units));
  const { inputs, outputs } = lowered;
  const places = await inSlices(
    placeOutputs(
      build,
      outputs.map((value) => asStored(build, value)),
    ),
  );
  const storages = places.map(({ storage }) => storage);
  const written = new Set(storages);
  const needed = await inSlices(withoutDead(build.steps, written));
  const fused = await fuse(needed, written, constants);
  lowered.misfits.forEach((chain) => chains?.drop(chain));
  chains?.note({ graph, values: lowered.values, lowered: build.steps, fused });
  const { steps: precise, tooLarge } = await withPrecision(fused, written, constants, precision);
  const joined = await inSlices(joinInPlace(await inSlices(withoutDead(precise, written)), written));
  const steps = await inSlices(finish(joined));
  const inputStorages = inputs.map(({ port }) => port);
  return {
    inputs: inputs.map(({ name, value: { type, dims } }) => ({ name, type, dims })),
    outputs: outputs.map(({ type, dims }, i) => ({
      name: graph.outputs[i]!.name,
      type,
      dims: Object.freeze([...dims]),
    })),
    steps,
    program: await inSlices(place(steps, inputStorages, storages)),
    precision,
    tooLarge,
  };
}

async function withPrecision(
  steps: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
  constants: Constants,
  precision: Precision,
): Promise<{ readonly steps: readonly PlannedStep[]; readonly tooLarge: Halved['tooLarge'] }> {
  switch (precision) {
    case 'fp32':
      return { steps, tooLarge: [] };
    case 'tf32':
      return { steps: steps.map(asTf32), tooLarge: [] };
    case 'fp16':
    case 'bf16':
      return halve(steps, outputs, constants, precision === 'fp16' ? 'float16' : 'bfloat16');
  }
}

function asTf32(planned: PlannedStep): PlannedStep {
  const { step } = planned;
  if (step.kind !== 'convolution' || step.convolution.keepsIntegers) return planned;
  return { ...planned, step: { ...step, convolution: { ...step.convolution, precision: 'tf32' } } };
}

/** A graph whose tensors have known extents. */
export interface LoweredGraph {
  readonly inputs: readonly NamedValue[];
  readonly outputs: readonly Value[];
  readonly values: NamedValues;
  /** Chains whose nodes were lowered one by one */
  readonly misfits: readonly Chain[];
}

/**
 * The graph's inputs and outputs; the steps from one to the other are left in `build`.
 *
 * @param units - its nodes but those that make the same for all dims, some of them in chains
 */
export function* lowerGraph(
  graph: Graph,
  bindings: Bindings,
  build: Builder,
  units: readonly (GraphNode | Chain)[] = build.constants.unfixed(graph.nodes),
): Sliced<LoweredGraph> {
  const values = new Values(graph, build);
  const inputs: NamedValue[] = [];
  for (const info of graph.inputs) {
    const bound = yield* bindInput(build, info, bindings);
    inputs.push(bound);
    values.set(bound.name, bound.value);
  }
  const misfits: Chain[] = [];
  for (const [index, unit] of units.entries()) {
    if (isDue(index)) yield;
    if (unit instanceof Chain) {
      if (!(yield* lowerChain(graph, build, unit, values))) misfits.push(unit);
    } else {
      const lowered = lower(graph, build, unit, values);
      values.setAll(unit.outputs, isSliced(lowered) ? yield* lowered : lowered);
    }
  }
  return { inputs, outputs: graph.outputs.map(({ name }) => values.get(name)), values, misfits };
}

/** False where its nodes were lowered one by one. */
function* lowerChain(graph: Graph, build: Builder, chain: Chain, values: Values): Sliced<boolean> {
  const { head, nodes, result } = chain;
  let made: Value | undefined;
  if (head !== undefined) {
    const outputs = yield* resultOf(lower(graph, build, head, values));
    values.setAll(head.outputs, outputs);
    made = outputs[0];
  }
  const value = chain.emit(build, values, made);
  if (value !== undefined) {
    values.set(result, value);
    return true;
  }
  for (const node of nodes) {
    if (node === head) continue;
    yield;
    values.setAll(node.outputs, yield* resultOf(lower(graph, build, node, values)));
  }
  return false;
}

/** Those of a graph as far as it has been lowered. */
class Values implements NamedValues {
  readonly #values = new Map<string, Value>();

  /** @param outer - those of the graph around a node's, which its own hide */
  constructor(
    private readonly graph: Pick<Graph, 'constants'>,
    private readonly build: Builder,
    private readonly outer?: Values,
  ) {}

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  /** Sets the outputs of a node. An absent output has an empty name. */
  setAll(names: readonly string[], values: readonly (Value | undefined)[]): void {
    for (let i = 0; i < names.length; i++) {
      const value = values[i];
      if (names[i] !== '' && value !== undefined) this.set(names[i]!, value);
    }
  }

  get(name: string): Value {
    const value = this.#values.get(name);
    if (value !== undefined) return value;
    const tensor = this.graph.constants.get(name) ?? this.build.constants.fixed(name);
    if (tensor === undefined && this.outer !== undefined) return this.outer.get(name);
    if (tensor === undefined) throw invalidModel(`nothing makes the value ${quote(name)}`);
    const constant = this.build.constant(tensor, true);
    this.set(name, constant);
    return constant;
  }
}

interface NamedValue {
  readonly name: string;
  readonly value: Value;
  /** What a run brings it in */
  readonly port: Storage;
}

function* bindInput(
  build: Builder,
  { name, type }: Graph['inputs'][number],
  bindings: Bindings,
): Sliced<NamedValue> {
  const dims = bindings.dims.get(name)!;
  const constant = bindings.constants.get(name);
  const count = sizeOf(dims);
  const port: Storage = { space: 'input', bytes: arrayLength(type, count) * bytesOf(type) };
  const operand = { storage: port, offset: 0 };
  if (packedBits(type) !== undefined) {
    if (constant !== undefined) {
      const data = yield* unpacked(type, constant.data as Uint8Array, count);
      return { name, value: build.constant({ type, dims, data } as ConstantTensor), port };
    }
    return { name, value: unpack(build, { type: 'uint8', dims: [port.bytes], operand }, type, dims), port };
  }
  if (constant === undefined) return { name, value: { type, dims, operand }, port };
  const value = build.constant(constant);
  return { name, value, port: value.operand.storage };
}

/** An output as tensors have it. */
function asStored(build: Builder, value: Value): Value {
  return packedBits(value.type) === undefined ? value : pack(build, value);
}

/** Without a generator where it can be: most of what compiling for further dims takes is the lowering of many small nodes. */
function lower(graph: Graph, build: Builder, node: GraphNode, values: Values): MaybeSliced<readonly Value[]> {
  const inputs = node.inputs.map((name) => (name === '' ? undefined : values.get(name)));
  build.enter(node);
  if (isBranch(node)) return lowerBranch(graph, build, node, inputs, values);
  if (areFixed(inputs)) {
    return lowerFixed(graph, build, node, inputs, values);
  }
  const known = evaluateKnown(node, graph.opset, inputs);
  if (isSliced(known)) return lowerKnown(graph, build, node, inputs, values, known);
  return (
    known?.map((tensor) => build.folded(tensor, false)) ?? lowerOperator(graph, build, node, inputs, values)
  );
}

type NodeInputs = readonly (Value | undefined)[];

function isBranch({ domain, operator }: GraphNode): boolean {
  return domain === '' && operator === 'If';
}

/** The graph that the condition chooses, in the place of the node. */
function* lowerBranch(
  graph: Graph,
  build: Builder,
  node: GraphNode,
  [condition]: NodeInputs,
  outer: Values,
): Sliced<readonly Value[]> {
  checkInputs(node, graph.opset, [condition]);
  if (condition!.constant === undefined) throw new ValueNeeded(node, node.inputs[0]!);
  const isTrue = condition!.constant.data[0] !== 0;
  const body = node.bodies?.get(isTrue ? 'then_branch' : 'else_branch');
  if (body === undefined) throw invalidNode(node, 'has not both branches');
  if (body.outputs.length !== node.outputs.length) {
    throw invalidNode(node, `has ${node.outputs.length} outputs, and a branch with ${body.outputs.length}`);
  }
  const outputs = yield* lowerBody(graph, build, body, outer, []);
  return condition!.isFixed ? outputs : outputs.map(unfixed);
}

/** A graph that a node has, in the place of the node. */
function* lowerBody(
  graph: Graph,
  build: Builder,
  body: Body,
  outer: Values,
  inputs: readonly Value[],
): Sliced<readonly Value[]> {
  const values = new Values(body, build, outer);
  values.setAll(body.inputs, inputs);
  for (const [index, inner] of build.constants.unfixed(body.nodes).entries()) {
    if (isDue(index)) yield;
    values.setAll(inner.outputs, yield* resultOf(lower(graph, build, inner, values)));
  }
  return body.outputs.map((name) => values.get(name));
}

/** Of inputs that are the same for all dims: what follows from them is found once a session. */
function* lowerFixed(
  graph: Graph,
  build: Builder,
  node: GraphNode,
  inputs: NodeInputs,
  values: Values,
): Sliced<readonly Value[]> {
  const known = yield* build.constants.onceInSlices([node], () =>
    resultOf(evaluateKnown(node, graph.opset, inputs)),
  );
  if (known === undefined) return yield* resultOf(lowerOperator(graph, build, node, inputs, values));
  const outputs = known.map((tensor) => build.folded(tensor, true));
  build.constants.fix(node, known);
  return outputs;
}

function* lowerKnown(
  graph: Graph,
  build: Builder,
  node: GraphNode,
  inputs: NodeInputs,
  values: Values,
  evaluation: Sliced<readonly ConstantTensor[] | undefined>,
): Sliced<readonly Value[]> {
  const known = yield* evaluation;
  if (known !== undefined) return known.map((tensor) => build.folded(tensor, false));
  return yield* resultOf(lowerOperator(graph, build, node, inputs, values));
}

function lowerOperator(
  graph: Graph,
  build: Builder,
  node: GraphNode,
  inputs: NodeInputs,
  values: Values,
): MaybeSliced<readonly Value[]> {
  const operator = operatorOf(node);
  if (isHosted(node)) throw new HostNeeded(node);
  if (operator === undefined) {
    const needed = node.inputs.find((_, i) => inputs[i] !== undefined && inputs[i].constant === undefined);
    if (needed !== undefined) throw new ValueNeeded(node, needed);
    throw unsupportedNode(node, `computes what is too large to compute ahead: ${describeAll(inputs)}`);
  }
  const lowered = operator(
    new Lowering(node, graph.opset, build, inputs, function* (body, brought) {
      const outputs = yield* lowerBody(graph, build, body, values, brought);
      build.enter(node);
      return outputs;
    }),
  );
  return isSliced(lowered) ? listOf(lowered, inputs) : listed(lowered, inputs);
}

function* listOf(lowered: Sliced<Value | readonly Value[]>, inputs: NodeInputs): Sliced<readonly Value[]> {
  return listed(yield* lowered, inputs);
}

/** Where not all that a node reads is fixed, neither is what it makes, though for these dims it be one of its inputs. */
function listed(outputs: Value | readonly Value[], inputs: NodeInputs): readonly Value[] {
  const list = 'operand' in outputs ? [outputs] : outputs;
  return areFixed(inputs) ? list : list.map(unfixed);
}

function areFixed(inputs: NodeInputs): boolean {
  return inputs.every((value) => value === undefined || value.isFixed);
}

function unfixed<T extends Value | undefined>(value: T): T {
  return value?.isFixed ? { ...value, isFixed: false } : value;
}

function describeAll(inputs: NodeInputs): string {
  return inputs.map((value) => (value === undefined ? 'nothing' : shapeOf(value))).join(' and ');
}

/** What follows from shapes and constants alone, where they are what the operator takes. */
function evaluateKnown(
  node: GraphNode,
  opset: number,
  inputs: NodeInputs,
): MaybeSliced<readonly ConstantTensor[] | undefined> {
  checkInputs(node, opset, inputs);
  const [first] = inputs;
  const fromDims = first && evaluateFromDims(node, first.dims);
  if (fromDims !== undefined) return [fromDims];
  if (!inputs.every((value) => value === undefined || value.constant !== undefined)) return undefined;
  return evaluate(
    node,
    inputs.map((value) => value?.constant),
  );
}

/** Where each output is written: by the step that makes it, or by a copy of what is not made, or twice wanted. */
function* placeOutputs(build: Builder, outputs: readonly Value[]): Sliced<Operand[]> {
  const taken = new Set<Storage>();
  const places: Operand[] = [];
  for (const [index, value] of outputs.entries()) {
    if (isDue(index)) yield;
    const { storage, offset } = value.operand;
    const isWhole = offset === 0 && storage.bytes === sizeOf(value.dims) * bytesOf(value.type);
    const isOwn = storage.space === 'arena' && isWhole && !taken.has(storage);
    const { operand } = isOwn ? value : build.scratch(value.type, value.dims);
    if (!isOwn) build.copy(value, [sizeOf(value.dims)], [1], { ...value, operand }, [1]);
    taken.add(operand.storage);
    places.push(operand);
  }
  return places;
}

/** The steps that an output depends on. */
export function* withoutDead(
  steps: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
): Sliced<PlannedStep[]> {
  const needed = new Set(outputs);
  const kept: PlannedStep[] = [];
  for (let i = steps.length - 1; i >= 0; i--) {
    if (isDue(i)) yield;
    const { step } = steps[i]!;
    if (!needed.has(step.output.storage)) continue;
    for (const { storage } of buffersRead(step)) needed.add(storage);
    kept.push(steps[i]!);
  }
  return kept.reverse();
}

/** Few axes are quicker than many. */
function* finish(steps: readonly PlannedStep[]): Sliced<PlannedStep[]> {
  const finished: PlannedStep[] = [];
  for (const [index, planned] of steps.entries()) {
    if (isDue(index)) yield;
    const { step } = planned;
    // Those of halves have few already.
    if (step.kind === 'elementwise' && step.types === undefined) {
      finished.push({ ...planned, step: { ...step, ...coalesce(step.extents, step.strides) } });
    } else {
      finished.push(planned);
    }
  }
  return finished;
}

/** Every operand as native code finds it. */
function* place(
  planned: readonly PlannedStep[],
  inputs: readonly Storage[],
  outputs: readonly Storage[],
): Sliced<Omit<NativeProgramSpec, 'store'>> {
  const ports = new Map<Storage, NativeBuffer>();
  inputs.forEach((storage, index) => ports.set(storage, { space: 'input', index, offset: 0 }));
  outputs.forEach((storage, index) => ports.set(storage, { space: 'output', index, offset: 0 }));
  const { offsets, bytes } = yield* planMemory(
    planned.map(({ step }) => step),
    ports,
  );
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
  const steps: Step<NativeBuffer>[] = [];
  for (const [index, { step }] of planned.entries()) {
    if (isDue(index)) yield;
    steps.push(mapBuffers(step, toNative));
  }
  return {
    steps,
    constants,
    sharedConstants,
    arenaBytes: bytes,
    inputBytes: inputs.map((storage) => storage.bytes),
    outputBytes: outputs.map((storage) => storage.bytes),
  };
}

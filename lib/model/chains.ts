/**
 * Chains of nodes that were fused for one set of dims, and are lowered at once, to the same steps, for others.
 *
 * A chain is a convolution or product, or nothing, and the functions of single elements behind it. Its steps are those of
 * the compilation that found it, but for extents and strides, and these follow from what the chain reads. What is read
 * may have any extents as long as tensors are broadcast along the same axes: then each tensor between two nodes is as
 * large as the chain's result, now as then.
 */
import { isDeepStrictEqual } from 'node:util';

import { areSameDims } from '../check';
import { inSlices, isDue, type Sliced } from '../slices';
import { Builder, type PlannedStep } from './builder';
import type { Constants } from './constants';
import { withRow } from './fuse';
import type { Graph, GraphNode } from './graph';
import { isPointwise } from './operators';
import {
  mapBuffers,
  type ConvolutionStep,
  type ElementwiseStep,
  type Instruction,
  type MatmulStep,
  type Step,
} from './steps';
import {
  broadcastDims,
  broadcastStrides,
  bytesOf,
  coalesce,
  sizeOf,
  type Operand,
  type Storage,
  type Value,
} from './values';

/** The values of a graph that is being lowered, by their names. */
export interface NamedValues {
  get(name: string): Value;
}

/** A compilation, in which chains may be found. */
export interface Compilation {
  readonly graph: Graph;
  readonly values: NamedValues;
  /** Of the single nodes */
  readonly lowered: readonly PlannedStep[];
  /** What became of them, before tensors were joined */
  readonly fused: readonly PlannedStep[];
}

/** Those of a session. */
export class Chains {
  readonly #chains = new Map<GraphNode, Chain>();
  /** A compilation that may have chains that are not known */
  #noted: Compilation | undefined;
  #isComplete = false;
  #learning: Promise<void> = Promise.resolve();
  #units: readonly (GraphNode | Chain)[] = [];
  /** Whose nodes the units are; none where chains have changed since */
  #nodes: readonly GraphNode[] | undefined;

  /** @param constants - the session's */
  constructor(private readonly constants: Constants) {}

  /** Brings a compilation to learn from, should there be others. */
  note(compilation: Compilation): void {
    if (!this.#isComplete) this.#noted = compilation;
  }

  /** Looks for chains in what was noted last, in slices. */
  learn(): Promise<void> {
    const noted = this.#noted;
    if (noted === undefined) return this.#learning;
    this.#noted = undefined;
    this.#isComplete = true;
    this.#learning = inSlices(findChains(noted, this.constants)).then(
      (found) => this.#add(found),
      // Without them nodes are lowered one by one, which tells what is wrong, if it still is.
      () => {},
    );
    return this.#learning;
  }

  /** Gives up a chain whose nodes had to be lowered one by one: others may be found in these dims. */
  drop(chain: Chain): void {
    for (const node of chain.nodes) if (this.#chains.get(node) === chain) this.#chains.delete(node);
    this.#isComplete = false;
    this.#nodes = undefined;
  }

  /** Nodes with chains in their place, each where its last node is: all that it reads is there by then. */
  async unitsOf(nodes: readonly GraphNode[]): Promise<readonly (GraphNode | Chain)[]> {
    await this.learn();
    if (this.#nodes !== nodes) {
      this.#nodes = nodes;
      this.#units = nodes
        .map((node) => this.#chains.get(node) ?? node)
        .filter((unit, i) => !(unit instanceof Chain) || unit.last === nodes[i]);
    }
    return this.#units;
  }

  #add(found: readonly Chain[]): void {
    for (const chain of found) {
      if (chain.nodes.some((node) => this.#chains.has(node))) continue;
      for (const node of chain.nodes) this.#chains.set(node, chain);
    }
    this.#nodes = undefined;
  }
}

/** What an elementwise step reads: one of the chain's leaves, what an earlier step of the chain made, or a constant. */
type Source =
  | { readonly from: 'leaf'; readonly index: number }
  | { readonly from: 'step'; readonly index: number }
  | { readonly from: 'constant'; readonly operand: Operand; readonly dims: readonly number[] };

interface Leaf {
  readonly name: string;
  /** Along which of its axes it is repeated */
  readonly repeats: readonly boolean[];
}

/** What fusion adds to the step of a convolution or product. */
interface Head {
  readonly node: GraphNode;
  readonly nodes: readonly string[];
  /** The leaf that is added to the result */
  readonly residual: number | undefined;
  /** The step with everything but the residual */
  readonly finish: (step: Step<Operand>) => Convolution | Matmul | undefined;
}

interface Pointwise {
  readonly nodes: readonly string[];
  readonly sources: readonly Source[];
  readonly code: readonly Instruction[];
}

type Convolution = ConvolutionStep<Operand>;
type Matmul = MatmulStep<Operand>;

export class Chain {
  constructor(
    /** In the graph's order */
    readonly nodes: readonly GraphNode[],
    readonly head: GraphNode | undefined,
    readonly result: string,
    private readonly rank: number,
    private readonly leaves: readonly Leaf[],
    private readonly finish: Head | undefined,
    private readonly steps: readonly Pointwise[],
  ) {}

  get last(): GraphNode {
    return this.nodes.at(-1)!;
  }

  /**
   * Emits the steps.
   *
   * @param head - what the head made, whose step is then the last that was emitted
   * @returns the result; `undefined` where the nodes behind the head have to be lowered one by one
   */
  emit(build: Builder, values: NamedValues, head: Value | undefined): Value | undefined {
    const leaves = this.leaves.map(({ name }) => values.get(name));
    const dims = this.#dimsFrom(leaves, head);
    if (dims === undefined) return undefined;
    const made: Operand[] = [];
    if (this.finish !== undefined) {
      const step = this.#finished(build, leaves, head!);
      if (step === undefined) return undefined;
      build.amend(step, this.finish.nodes);
      made.push(step.output);
    }
    for (const { nodes, sources, code } of this.steps) {
      const output = build.scratch('float32', dims).operand;
      const read = sources.map((source) => operandOf(source, leaves, made, dims));
      const [operands, strides] = [read.map(({ operand }) => operand), read.map(({ strides }) => strides)];
      build.emit({ kind: 'elementwise', extents: dims, operands, strides, code, output }, nodes);
      made.push(output);
    }
    return { type: 'float32', dims, operand: made.at(-1)! };
  }

  /** Those of the result, where the chain holds for these leaves. */
  #dimsFrom(leaves: readonly Value[], head: Value | undefined): readonly number[] | undefined {
    const isLike = ({ type, dims, constant }: Value, { repeats }: Leaf) =>
      type === 'float32' && constant === undefined && dims.length === repeats.length;
    if (!leaves.every((value, i) => isLike(value, this.leaves[i]!))) return undefined;
    const constants = this.steps.flatMap(({ sources }) =>
      sources.flatMap((source) => (source.from === 'constant' ? [source.dims] : [])),
    );
    const all = [...leaves.map((leaf) => leaf.dims), ...constants];
    const dims = broadcastDims(...(head === undefined ? all : [head.dims, ...all]));
    if (dims?.length !== this.rank || sizeOf(dims) === 0) return undefined;
    if (head !== undefined && !areSameDims(dims, head.dims)) return undefined;
    const isRepeated = (leaf: readonly number[], { repeats }: Leaf) =>
      leaf.every((extent, axis) => {
        const to = dims[axis + dims.length - leaf.length];
        return repeats[axis] ? extent === 1 : extent === to;
      });
    return leaves.every((leaf, i) => isRepeated(leaf.dims, this.leaves[i]!)) ? dims : undefined;
  }

  #finished(build: Builder, leaves: readonly Value[], head: Value): Convolution | Matmul | undefined {
    const { residual, finish } = this.finish!;
    const lowered = build.steps.at(-1)?.step;
    if (lowered === undefined || !isMadeBy(lowered, head)) return undefined;
    const step = finish(lowered);
    if (residual === undefined || step?.kind !== 'convolution') return step;
    const added = leaves[residual]!;
    return areSameDims(added.dims, head.dims) ? { ...step, residual: added.operand } : undefined;
  }
}

/** Whether a step writes all of a tensor. */
function isMadeBy({ output }: Step<Operand>, { type, dims, operand }: Value): boolean {
  const { storage, offset } = operand;
  return output.storage === storage && offset === 0 && storage.bytes === sizeOf(dims) * bytesOf(type);
}

function operandOf(
  source: Source,
  leaves: readonly Value[],
  made: readonly Operand[],
  dims: readonly number[],
): { operand: Operand; strides: number[] } {
  if (source.from === 'step') return { operand: made[source.index]!, strides: broadcastStrides(dims, dims) };
  const from = source.from === 'leaf' ? leaves[source.index]! : source;
  return { operand: from.operand, strides: broadcastStrides(from.dims, dims) };
}

/** Steps that were made of the same nodes, and these. */
interface Group {
  readonly nodes: Set<string>;
  readonly steps: PlannedStep[];
}

function* findChains(found: Compilation, constants: Constants): Sliced<Chain[]> {
  const { graph, fused, lowered } = found;
  const nodes = new Map(graph.nodes.map((node, index) => [node.name, { node, index }]));
  const readers = readersIn(graph);
  const writers = new Map(lowered.map((planned) => [planned.step.output.storage, planned]));
  const chains: Chain[] = [];
  for (const group of yield* groupsOf(fused)) {
    yield;
    const members = [...group.nodes]
      .map((name) => nodes.get(name)!)
      .sort((a, b) => a.index - b.index)
      .map(({ node }) => node);
    const chain = members.length > 1 && new Finder(found, members, group.steps, readers, writers).chain();
    if (chain && isRight(chain, found, group.steps, writers, constants)) chains.push(chain);
  }
  return chains;
}

function* groupsOf(fused: readonly PlannedStep[]): Sliced<ReadonlySet<Group>> {
  const groupOf = new Map<string, Group>();
  for (const [index, planned] of fused.entries()) {
    if (isDue(index)) yield;
    const before = new Set(planned.nodes.flatMap((name) => groupOf.get(name) ?? []));
    const all = [...before];
    const group: Group = {
      nodes: new Set([...all.flatMap(({ nodes }) => [...nodes]), ...planned.nodes]),
      steps: [...all.flatMap(({ steps }) => steps), planned],
    };
    for (const name of group.nodes) groupOf.set(name, group);
  }
  return new Set(groupOf.values());
}

/** The nodes that read each value; the caller, who reads the outputs, is none of them. */
function readersIn({ nodes, outputs }: Graph): ReadonlyMap<string, readonly (GraphNode | undefined)[]> {
  const readers = new Map<string, (GraphNode | undefined)[]>();
  const note = (name: string, reader: GraphNode | undefined) => {
    const known = readers.get(name);
    if (known === undefined) readers.set(name, [reader]);
    else known.push(reader);
  };
  for (const node of nodes) for (const name of node.inputs) note(name, node);
  for (const { name } of outputs) note(name, undefined);
  return readers;
}

type Readers = ReturnType<typeof readersIn>;
type Writers = ReadonlyMap<Storage, PlannedStep>;

/** Finds what the steps of a group are made of. */
class Finder {
  readonly #leaves = new Map<string, Leaf>();

  constructor(
    private readonly found: Compilation,
    private readonly nodes: readonly GraphNode[],
    private readonly steps: readonly PlannedStep[],
    private readonly readers: Readers,
    private readonly writers: Writers,
  ) {}

  chain(): Chain | undefined {
    const { nodes, steps } = this;
    const others = nodes.filter((node) => !isPointwise(node));
    const hasHead = steps[0]!.step.kind === 'convolution' || steps[0]!.step.kind === 'matmul';
    if (others.length !== (hasHead ? 1 : 0)) return undefined;
    const [head] = others;
    const results = this.#results();
    const [result] = results;
    if (results.length !== 1 || !nodes.at(-1)!.outputs.includes(result!)) return undefined;
    const { dims } = this.found.values.get(result!);
    if (!this.#findLeaves(head, dims)) return undefined;
    const finish = head && this.#headOf(head);
    if (hasHead && finish === undefined) return undefined;
    const pointwise: Pointwise[] = [];
    for (const { step, nodes: names } of hasHead ? steps.slice(1) : steps) {
      if (step.kind !== 'elementwise' || !areSameDims(step.extents, dims)) return undefined;
      const sources = step.operands.map((operand, i) => this.#sourceOf(operand, step, i));
      const known = sources.filter((source) => source !== undefined);
      if (known.length < sources.length) return undefined;
      pointwise.push({ nodes: names, sources: known, code: step.code });
    }
    const leaves = [...this.#leaves.values()];
    if (leaves.length === 0 && head === undefined) return undefined;
    return new Chain(nodes, head, result!, dims.length, leaves, finish, pointwise);
  }

  /** What the group's nodes make for others. */
  #results(): string[] {
    const isOurs = (node: GraphNode | undefined) => node !== undefined && this.nodes.includes(node);
    return this.nodes
      .flatMap(({ outputs }) => outputs)
      .filter((name) => name !== '' && !(this.readers.get(name) ?? []).every(isOurs));
  }

  /** Notes what the nodes read that is not the same for all dims. False where some of it has more axes than the result. */
  #findLeaves(head: GraphNode | undefined, dims: readonly number[]): boolean {
    const own = new Set(this.nodes.flatMap(({ outputs }) => outputs));
    for (const node of this.nodes) {
      for (const name of node.inputs) {
        if (name === '' || own.has(name)) continue;
        const value = this.found.values.get(name);
        if (value.isFixed) continue;
        if (node === head) continue;
        const { dims: leaf } = value;
        if (leaf.length > dims.length) return false;
        const repeats = leaf.map((extent, axis) => extent !== dims[axis + dims.length - leaf.length]);
        this.#leaves.set(name, { name, repeats });
      }
    }
    return true;
  }

  #headOf(node: GraphNode): Head | undefined {
    const [{ step, nodes }] = this.steps as [PlannedStep];
    const value = this.found.values.get(node.outputs[0]!);
    const lowered = this.writers.get(value.operand.storage)?.step;
    if (lowered === undefined) return undefined;
    const finish = finishOf(lowered, step);
    const added = step.kind === 'convolution' ? step.residual : null;
    const residual = added === null ? undefined : this.#leafAt(added);
    if (finish === undefined || residual === -1) return undefined;
    return { node, nodes, residual, finish };
  }

  #leafAt({ storage, offset }: Operand): number {
    return [...this.#leaves.keys()].findIndex((name) => {
      const { operand } = this.found.values.get(name);
      return operand.storage === storage && operand.offset === offset;
    });
  }

  #sourceOf(operand: Operand, { extents, strides }: ElementwiseStep<Operand>, i: number): Source | undefined {
    const index = this.steps.findIndex(({ step }) => step.output.storage === operand.storage);
    if (index >= 0) return { from: 'step', index };
    const leaf = this.#leafAt(operand);
    if (leaf >= 0) return { from: 'leaf', index: leaf };
    if (operand.storage.isShared !== true) return undefined;
    const dims = strides[i]!.map((stride, axis) => (stride === 0 ? 1 : extents[axis]!));
    return { from: 'constant', operand, dims };
  }
}

/** How fusion came from the step of a convolution or product to another. */
function finishOf(lowered: Step<Operand>, fused: Step<Operand>): Head['finish'] | undefined {
  const isKept = (operand: Operand | null) => operand === null || operand.storage.isShared === true;
  if (lowered.kind === 'convolution' && fused.kind === 'convolution') {
    const isSame = lowered.scale === fused.scale && lowered.bias === fused.bias;
    const { scale, bias } = fused;
    const { activation } = fused.convolution;
    if (!isSame && !(isKept(scale) && isKept(bias))) return undefined;
    return (step) => {
      if (step.kind !== 'convolution') return undefined;
      const finished = { ...step, convolution: { ...step.convolution, activation } };
      return isSame ? finished : { ...finished, scale, bias };
    };
  }
  if (lowered.kind === 'matmul' && fused.kind === 'matmul') {
    const { n, bias, activation } = fused;
    const isSame = lowered.bias === bias;
    if (!isSame && !isKept(bias)) return undefined;
    return (step) => {
      if (step.kind !== 'matmul' || step.n !== n) return undefined;
      return { ...(isSame ? step : withRow(step, bias!)), activation };
    };
  }
  return undefined;
}

/** Whether a chain makes the very steps in which it was found. */
function isRight(
  chain: Chain,
  { values }: Compilation,
  steps: readonly PlannedStep[],
  writers: Writers,
  constants: Constants,
): boolean {
  const build = new Builder('auto', constants);
  const head = chain.head && values.get(chain.head.outputs[0]!);
  if (head !== undefined) build.steps.push(writers.get(head.operand.storage)!);
  if (chain.emit(build, values, head) === undefined) return false;
  const numbers = new Map<Storage, number>();
  return isDeepStrictEqual(described(build.steps, numbers), described(steps, numbers));
}

/** Steps with numbers for storages, those that they write themselves in their order. */
function described(steps: readonly PlannedStep[], numbers: Map<Storage, number>): unknown {
  const own = steps.map(({ step }) => step.output.storage);
  const numberOf = (storage: Storage) => {
    if (!numbers.has(storage)) numbers.set(storage, numbers.size);
    return numbers.get(storage)!;
  };
  return steps.map(({ step, nodes }) => {
    const named = mapBuffers(step, ({ storage, offset }) => {
      const index = own.indexOf(storage);
      return index < 0 ? [numberOf(storage), offset] : [`step ${index}`, offset];
    });
    const isElementwise = named.kind === 'elementwise';
    return { nodes, step: isElementwise ? { ...named, ...coalesce(named.extents, named.strides) } : named };
  });
}

/** Finds chains in what a compilation came to. */
import { isDeepStrictEqual } from 'node:util';

import { areSameDims } from '../check';
import { isDue, type Sliced } from '../slices';
import { Builder, type PlannedStep } from './builder';
import { Chain, type FusedHead, type Leaf, type NamedValues, type Pointwise, type Source } from './chain';
import type { Constants } from './constants';
import { withRow } from './fuse';
import { readsOf, type Graph, type GraphNode } from './graph';
import { isPointwise } from './operators';
import { mapBuffers, type ElementwiseStep, type Step } from './steps';
import { coalesce, type Operand, type Storage } from './values';

/** A compilation, in which chains may be found. */
export interface Compilation {
  readonly graph: Graph;
  readonly values: NamedValues;
  /** Of the single nodes */
  readonly lowered: readonly PlannedStep[];
  /** What became of them, before tensors were joined */
  readonly fused: readonly PlannedStep[];
}

/** Steps of a chain: one node that sums many tensors has a step for each. */
const MOST_STEPS = 16;

/** Steps that were made of the same nodes, and these. */
interface Group {
  readonly nodes: Set<string>;
  readonly steps: PlannedStep[];
}

/** All that may be of use: each makes, of the same values, the very steps in which it was found. */
export function* findChains(found: Compilation, constants: Constants): Sliced<Chain[]> {
  const { graph, fused, lowered } = found;
  const nodes = new Map(graph.nodes.map((node, index) => [node.name, { node, index }]));
  const readers = yield* readersIn(graph);
  const writers = new Map(lowered.map((planned) => [planned.step.output.storage, planned]));
  const chains: Chain[] = [];
  for (const group of yield* groupsOf(fused)) {
    yield;
    if (group.nodes.size === 1 || group.steps.length > MOST_STEPS) continue;
    const known = [...group.nodes].flatMap((name) => nodes.get(name) ?? []);
    // Nodes of a branch are none of the graph's: for other dims, another branch may be taken.
    if (known.length < group.nodes.size) continue;
    const members = known.sort((a, b) => a.index - b.index).map(({ node }) => node);
    const chain = new Finder(found, members, group.steps, readers, writers).chain();
    if (chain && isRight(chain, found, group.steps, writers, constants)) chains.push(chain);
  }
  return chains;
}

function* groupsOf(fused: readonly PlannedStep[]): Sliced<ReadonlySet<Group>> {
  const groupOf = new Map<string, Group>();
  for (const [index, planned] of fused.entries()) {
    if (isDue(index)) yield;
    const before = new Set(planned.nodes.flatMap((name) => groupOf.get(name) ?? []));
    // The others are added to the largest: that moves the least.
    const [group = { nodes: new Set(), steps: [] }, ...others] = [...before].sort(
      (a, b) => b.nodes.size - a.nodes.size,
    );
    const joining = [...others.flatMap(({ nodes }) => [...nodes]), ...planned.nodes];
    for (const name of joining) {
      group.nodes.add(name);
      groupOf.set(name, group);
    }
    group.steps.push(...others.flatMap(({ steps }) => steps), planned);
  }
  return new Set(groupOf.values());
}

/** The nodes that read each value; the caller, who reads the outputs, is none of them. */
function* readersIn({ nodes, outputs }: Graph): Sliced<Readers> {
  const readers = new Map<string, (GraphNode | undefined)[]>();
  const note = (name: string, reader: GraphNode | undefined) => {
    const known = readers.get(name);
    if (known === undefined) readers.set(name, [reader]);
    else known.push(reader);
  };
  for (const [index, node] of nodes.entries()) {
    if (isDue(index)) yield;
    for (const name of readsOf(node)) note(name, node);
  }
  for (const { name } of outputs) note(name, undefined);
  return readers;
}

type Readers = ReadonlyMap<string, readonly (GraphNode | undefined)[]>;
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
    const others = nodes.filter((node) => !isPointwise(node, this.#inputsOf(node)));
    const hasHead = steps[0]!.step.kind === 'convolution' || steps[0]!.step.kind === 'matmul';
    if (others.length !== (hasHead ? 1 : 0)) return undefined;
    const [head] = others;
    const results = this.#results();
    const [result] = results;
    if (results.length !== 1 || !nodes.at(-1)!.outputs.includes(result!)) return undefined;
    const { dims } = this.found.values.get(result!);
    if (!this.#findLeaves(head, dims)) return undefined;
    const fusedHead = head && this.#fusedHeadOf(head);
    if (hasHead && fusedHead === undefined) return undefined;
    const pointwise = this.#pointwise(hasHead ? steps.slice(1) : steps, dims);
    if (pointwise === undefined) return undefined;
    const leaves = [...this.#leaves.values()];
    if (leaves.length === 0 && head === undefined) return undefined;
    return new Chain(nodes, head, result!, dims.length, leaves, fusedHead, pointwise);
  }

  #inputsOf({ inputs }: GraphNode) {
    return inputs.map((name) => (name === '' ? undefined : this.found.values.get(name)));
  }

  /** Steps over the extents of the result alone. */
  #pointwise(steps: readonly PlannedStep[], dims: readonly number[]): Pointwise[] | undefined {
    const pointwise: Pointwise[] = [];
    for (const { step, nodes } of steps) {
      if (step.kind !== 'elementwise' || !areSameDims(step.extents, dims)) return undefined;
      const sources = step.operands.map((operand, i) => this.#sourceOf(operand, step, i));
      const known = sources.filter((source) => source !== undefined);
      if (known.length < sources.length) return undefined;
      pointwise.push({ nodes, sources: known, code: step.code });
    }
    return pointwise;
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
        if (value.isFixed || node === head) continue;
        const { dims: leaf } = value;
        if (leaf.length > dims.length) return false;
        const repeats = leaf.map((extent, axis) => extent !== dims[axis + dims.length - leaf.length]);
        this.#leaves.set(name, { name, repeats });
      }
    }
    return true;
  }

  #fusedHeadOf(node: GraphNode): FusedHead | undefined {
    const [{ step, nodes }] = this.steps as [PlannedStep];
    const value = this.found.values.get(node.outputs[0]!);
    const lowered = this.writers.get(value.operand.storage)?.step;
    if (lowered === undefined) return undefined;
    const fuse = fusionOf(lowered, step);
    const added = step.kind === 'convolution' ? step.residual : null;
    const residual = added === null ? undefined : this.#leafAt(added);
    if (fuse === undefined || residual === -1) return undefined;
    return { nodes, residual, fuse };
  }

  /** -1 where there is none, or where several leaves are one tensor: for other dims, which one is read would matter. */
  #leafAt({ storage, offset }: Operand): number {
    const isThere = (name: string) => {
      const { operand } = this.found.values.get(name);
      return operand.storage === storage && operand.offset === offset;
    };
    const names = [...this.#leaves.keys()];
    const index = names.findIndex(isThere);
    return index === names.findLastIndex(isThere) ? index : -1;
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

/** How the step of a convolution or product became another. */
function fusionOf(lowered: Step<Operand>, fused: Step<Operand>): FusedHead['fuse'] | undefined {
  const isKept = (operand: Operand | null) => operand === null || operand.storage.isShared === true;
  if (lowered.kind === 'convolution' && fused.kind === 'convolution') {
    const isSame = lowered.scale === fused.scale && lowered.bias === fused.bias;
    const { scale, bias } = fused;
    const { activation } = fused.convolution;
    if (!isSame && !(isKept(scale) && isKept(bias))) return undefined;
    return (step) => {
      if (step.kind !== 'convolution') return undefined;
      const activated = { ...step, convolution: { ...step.convolution, activation } };
      return isSame ? activated : { ...activated, scale, bias };
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

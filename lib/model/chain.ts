/**
 * Chains of nodes that were fused for one set of dims, and are lowered at once, to the same steps, for others.
 *
 * A chain is a convolution or product, or nothing, and the functions of single elements behind it. Its steps are those of
 * the compilation that found it, but for extents and strides, and these follow from what the chain reads. What is read
 * may have any extents as long as tensors are broadcast along the same axes: then each tensor between two nodes is as
 * large as the chain's result, now as then.
 */
import { areSameDims } from '../check';
import type { Builder } from './builder';
import type { GraphNode } from './graph';
import type { ConvolutionStep, Instruction, MatmulStep, Step } from './steps';
import { broadcastDims, broadcastStrides, bytesOf, sizeOf, type Operand, type Value } from './values';

/** The values of a graph that is being lowered, by their names. */
export interface NamedValues {
  get(name: string): Value;
}

/** What an elementwise step reads: a leaf of the chain, the output of an earlier step of it, or a constant. */
export type Source =
  | { readonly from: 'leaf'; readonly index: number }
  | { readonly from: 'step'; readonly index: number }
  | { readonly from: 'constant'; readonly operand: Operand; readonly dims: readonly number[] };

/** A value that the nodes read, and that is not the same for all dims. */
export interface Leaf {
  readonly name: string;
  /** Along which of its axes it is repeated */
  readonly repeats: readonly boolean[];
}

/** What fusion makes of the head's step. */
export interface FusedHead {
  readonly nodes: readonly string[];
  /** The leaf that is added to the result */
  readonly residual: number | undefined;
  /** Everything but the residual */
  readonly fuse: (step: Step<Operand>) => Convolution | Matmul | undefined;
}

/** An elementwise step without its extents. */
export interface Pointwise {
  readonly nodes: readonly string[];
  readonly sources: readonly Source[];
  readonly code: readonly Instruction[];
}

type Convolution = ConvolutionStep<Operand>;
type Matmul = MatmulStep<Operand>;

/** Nodes that are lowered together. */
export class Chain {
  /**
   * @param head - the convolution or product among the nodes
   * @param rank - of the result
   * @param leaves - what the other nodes read
   * @param fusedHead - what becomes of the head's step
   * @param steps - those that follow it
   */
  constructor(
    /** In the graph's order */
    readonly nodes: readonly GraphNode[],
    readonly head: GraphNode | undefined,
    readonly result: string,
    private readonly rank: number,
    private readonly leaves: readonly Leaf[],
    private readonly fusedHead: FusedHead | undefined,
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
    if (this.fusedHead !== undefined) {
      const step = this.#fuseHead(this.fusedHead, build, leaves, head!);
      if (step === undefined) return undefined;
      build.amend(step, this.fusedHead.nodes);
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

  #fuseHead(
    { residual, fuse }: FusedHead,
    build: Builder,
    leaves: readonly Value[],
    head: Value,
  ): Convolution | Matmul | undefined {
    const lowered = build.steps.at(-1)?.step;
    if (lowered === undefined || !isMadeBy(lowered, head)) return undefined;
    const step = fuse(lowered);
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

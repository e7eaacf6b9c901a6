/** One node on its way from ONNX's operator to steps. */
import { numbersOf, shapeOf, type Builder } from './builder';
import type { ConstantTensor, GraphNode } from './graph';
import { invalidNode } from './refusals';
import type { MaybeSliced, Sliced } from '../slices';
import type { DataType } from '../tensor/tensor';
import type { Value } from './values';

/** A value has to be known before a run, for example the dims that a Reshape asks for, and is not. */
export class ValueNeeded extends Error {
  readonly node: GraphNode;
  /** The name of the value in the graph */
  readonly value: string;

  constructor(node: GraphNode, value: string) {
    super(`${value} is needed before a run`);
    this.node = node;
    this.value = value;
  }
}

/** A node is computed between programs, on the CPU: only a run knows what dims its outputs have. */
export class HostNeeded extends ValueNeeded {
  constructor(node: GraphNode) {
    super(
      node,
      node.outputs.find((name) => name !== '')!,
    );
  }
}

export class Lowering {
  readonly node: GraphNode;
  /** The version of the node's operators */
  readonly opset: number;
  readonly build: Builder;
  readonly #inputs: readonly (Value | undefined)[];

  constructor(node: GraphNode, opset: number, build: Builder, inputs: readonly (Value | undefined)[]) {
    this.node = node;
    this.opset = opset;
    this.build = build;
    this.#inputs = inputs;
  }

  get inputs(): readonly Value[] {
    return this.node.inputs.map((_, i) => this.input(i));
  }

  input(i: number): Value {
    const value = this.optional(i);
    if (value === undefined) throw invalidNode(this.node, `lacks its input ${i}`);
    return value;
  }

  optional(i: number): Value | undefined {
    return this.#inputs[i];
  }

  /** An input whose elements are known now. */
  constant(i: number): ConstantTensor {
    const { constant } = this.input(i);
    if (constant === undefined) throw new ValueNeeded(this.node, this.node.inputs[i]!);
    return constant;
  }

  /**
   * A constant that follows from others alone. Where those are the same for all dims of the network's inputs, it is made
   * once a session.
   *
   * @param what - tells it from what else is made of them for this node
   */
  derive<T extends DataType>(what: string, from: readonly Value[], make: () => ConstantTensor<T>): Value<T> {
    return this.deriveAll(what, from, () => [make()])![0]!;
  }

  /** The same for several constants, or none. */
  deriveAll<T extends DataType>(
    what: string,
    from: readonly Value[],
    make: () => readonly ConstantTensor<T>[] | undefined,
  ): Value<T>[] | undefined {
    const key = this.#keyOf(what, from);
    const tensors = key === undefined ? make() : this.build.constants.once(key, make);
    return tensors?.map((tensor) => this.build.constant(tensor, key !== undefined) as Value<T>);
  }

  /** {@link derive} for what takes long. */
  *deriveInSlices<T extends DataType>(
    what: string,
    from: readonly Value[],
    make: () => Sliced<ConstantTensor<T>>,
  ): Sliced<Value<T>> {
    const key = this.#keyOf(what, from);
    const tensor = yield* key === undefined ? make() : this.build.constants.onceInSlices(key, make);
    return this.build.constant(tensor, key !== undefined) as Value<T>;
  }

  /** What tells a derived constant; `undefined` where it is not the same for all dims. */
  #keyOf(what: string, from: readonly Value[]): (object | string)[] | undefined {
    if (!from.every((value) => value.isFixed)) return undefined;
    return [this.node, what, ...from.map(({ constant }) => constant!.data)];
  }

  numbers(i: number): number[] {
    return numbersOf(this.constant(i));
  }

  optionalNumbers(i: number): number[] | undefined {
    return this.optional(i) === undefined ? undefined : this.numbers(i);
  }

  /** An axis as a count from the front. */
  axis(axis: number, rank: number): number {
    const counted = axis < 0 ? axis + rank : axis;
    if (Number.isInteger(counted) && counted >= 0 && counted < rank) return counted;
    throw this.invalid(`has axis ${axis}; its input has ${rank} axes`);
  }

  /** Different axes, as counts from the front. */
  axes(axes: readonly number[], rank: number): number[] {
    const counted = axes.map((axis) => this.axis(axis, rank));
    if (new Set(counted).size === counted.length) return counted;
    throw this.invalid(`has an axis twice in [${axes.join(', ')}]`);
  }

  /** Whether anybody reads the output of that number. */
  hasOutput(i: number): boolean {
    return (this.node.outputs[i] ?? '') !== '';
  }

  invalid(sentence: string): Error {
    return invalidNode(this.node, sentence);
  }

  requireRank(value: Value, ...ranks: number[]): void {
    if (ranks.includes(value.dims.length)) return;
    throw this.invalid(`takes a tensor of ${ranks.join(' or ')} axes, got ${shapeOf(value)}`);
  }
}

/** What computes an operator: emits steps, and returns the outputs. */
export type Lower = (x: Lowering) => MaybeSliced<Value | readonly Value[]>;

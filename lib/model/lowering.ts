/** One node on its way from ONNX's operator to steps. */
import { numbersOf, shapeOf, type Builder } from './builder';
import type { Body, ConstantTensor, GraphNode } from './graph';
import { invalidNode, unsupportedNode } from './refusals';
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

/** Emits the steps of a graph that a node has, for inputs in its order, and returns its outputs. */
export type LowerBody = (body: Body, inputs: readonly Value[]) => Sliced<readonly Value[]>;

export class Lowering {
  readonly node: GraphNode;
  /** The version of the node's operators */
  readonly opset: number;
  readonly build: Builder;
  readonly #inputs: readonly (Value | undefined)[];
  readonly #lowerBody: LowerBody;

  constructor(
    node: GraphNode,
    opset: number,
    build: Builder,
    inputs: readonly (Value | undefined)[],
    lowerBody: LowerBody,
  ) {
    this.node = node;
    this.opset = opset;
    this.build = build;
    this.#inputs = inputs;
    this.#lowerBody = lowerBody;
  }

  /** The node with other inputs. */
  with(inputs: readonly (Value | undefined)[]): Lowering {
    return new Lowering(this.node, this.opset, this.build, inputs, this.#lowerBody);
  }

  /** The graph that is the attribute of that name, of one input and one output; the input itself where there is none. */
  *lowerBody(name: string, input: Value): Sliced<Value> {
    const body = this.node.bodies?.get(name);
    if (body === undefined) return input;
    const [takes, makes] = [body.inputs.length, body.outputs.length];
    if (takes !== 1 || makes !== 1) {
      throw this.invalid(`has a ${name} of ${takes} inputs and ${makes} outputs; it takes one of each`);
    }
    try {
      const [output] = yield* this.#lowerBody(body, [input]);
      return output!;
    } catch (error) {
      // What is within cannot be computed between two programs: the node would have to be cut in two.
      if (!(error instanceof ValueNeeded) || !makesWithin(body, error.value)) throw error;
      throw unsupportedNode(
        this.node,
        `has a ${name} whose node '${error.node.name}' needs what only a run knows: '${error.value}'`,
      );
    }
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

/** Whether the value is one of the graph's own, or of a graph that a node of it has. */
function makesWithin({ inputs, nodes }: Body, value: string): boolean {
  return (
    inputs.includes(value) ||
    nodes.some(
      ({ outputs, bodies }) =>
        outputs.includes(value) || [...(bodies?.values() ?? [])].some((body) => makesWithin(body, value)),
    )
  );
}

/** What computes an operator: emits steps, and returns the outputs. */
export type Lower = (x: Lowering) => MaybeSliced<Value | readonly Value[]>;

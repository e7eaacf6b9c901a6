/**
 * A network as its file says it: nodes that read and write named values. What is done with it, from inferring shapes to
 * running it, knows this form alone and not the file's.
 */
import type { DataType, DataTypeMap } from '../tensor/tensor';

/** An extent known only when a run brings its inputs has a name, or none (`null`). */
export type Extent = number | string | null;

/** What the file says of a graph's input or output. */
export interface ValueInfo {
  readonly name: string;
  readonly type: DataType;
  /** `undefined` where not even the rank is known */
  readonly shape: readonly Extent[] | undefined;
}

/** A tensor that is part of the model. Its data may be a view of the model's bytes, or of another tensor's: do not write to it. */
export interface ConstantTensor<T extends DataType = DataType> {
  readonly type: T;
  readonly dims: readonly number[];
  readonly data: DataTypeMap[T];
}

/** An attribute's value. Integers beyond 2^53 are brought to the nearest number within: they mean "to the end". */
export type Attribute = number | string | ConstantTensor | readonly number[] | readonly string[];

/** One operation. An absent optional input or output has the empty name. */
export interface GraphNode {
  /** As the file has it, or made from its place: unique, for messages */
  readonly name: string;
  /** For example `Conv` */
  readonly operator: string;
  /** Empty for ONNX's own operators */
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, Attribute>;
  /** Graphs that it runs, by the attributes that they are */
  readonly bodies?: ReadonlyMap<string, Body>;
  /** Why nothing can run the node, whatever its operator: it has a list of graphs, say. `checkOperators` refuses it. */
  readonly obstacle?: string;
}

/** A graph that a node runs. Its values have names that no other graph of the model has. */
export interface Body {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** In order, as those of a {@link Graph} */
  readonly nodes: readonly GraphNode[];
  readonly constants: ReadonlyMap<string, ConstantTensor>;
  /** Values of the graphs around it that it reads */
  readonly captures: readonly string[];
}

/** The values that a node reads: its inputs, without those that are left out, and what its bodies capture. */
export function readsOf({ inputs, bodies }: GraphNode): readonly string[] {
  const given = inputs.includes('') ? inputs.filter((name) => name !== '') : inputs;
  if (bodies === undefined) return given;
  return [...given, ...[...bodies.values()].flatMap(({ captures }) => captures)];
}

export interface Graph {
  /** The version of ONNX's own operators */
  readonly opset: number;
  /** Those that a run has to bring: initializers are not among them. */
  readonly inputs: readonly ValueInfo[];
  /** Each is written by a node, or is one of the inputs or constants. */
  readonly outputs: readonly ValueInfo[];
  /** In an order in which every value is written, once, before it is read. */
  readonly nodes: readonly GraphNode[];
  readonly constants: ReadonlyMap<string, ConstantTensor>;
}

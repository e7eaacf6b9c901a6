import type { Body, ConstantTensor, GraphNode } from '../graph';

/** A run of a graph that a node has, with a tensor for each of its inputs. */
export interface BodyRun {
  readonly body: Body;
  readonly inputs: readonly ConstantTensor[];
}

/** Computes a node's outputs; it yields runs of bodies, and is given their outputs. */
export type Hosted = (
  node: GraphNode,
  inputs: readonly (ConstantTensor | undefined)[],
  opset: number,
) => Generator<BodyRun, ConstantTensor[], readonly ConstantTensor[]> | ConstantTensor[];

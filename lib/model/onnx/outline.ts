/** What a file says of its model, whether it can be run or not. */
import { elementCount } from '../../check';
import { inSlices, type Sliced } from '../../slices';
import { packedBits } from '../../tensor/packed';
import { CONSTRUCTORS } from '../../tensor/tensor';
import { elementType, unsupportedTypeName } from '../element_types';
import type { OnnxFile } from './load';
import { operatorDomain } from './nodes';
import {
  AttributeProto_AttributeType as Type,
  type GraphProto,
  type NodeProto,
  type TensorProto,
  type ValueInfoProto,
} from './onnx_pb';
import { graphOf } from './read_model';
import { decodeGraph, decodeModel } from './wire';

export interface OutlinedValue {
  readonly name: string;
  /** ONNX's name of the type of elements, or of what is no tensor */
  readonly type: string;
  /** An extent that the file leaves open has its name, or an empty one; absent where not even the rank is known */
  readonly shape?: readonly (number | string)[];
}

export interface Outline {
  readonly irVersion: number;
  /** The versions of operators, by their domains */
  readonly opsets: Readonly<Record<string, number>>;
  readonly fileBytes: number;
  /** Without those that initializers give a value */
  readonly inputs: readonly OutlinedValue[];
  readonly outputs: readonly OutlinedValue[];
  /** How many nodes each operator has, with those of the graphs that nodes have; most first */
  readonly operators: Readonly<Record<string, number>>;
  /** Elements of initializers and of Constant nodes, by their types */
  readonly parameters: Readonly<Record<string, number>>;
  /** Their bytes, in this file or beside it; those of types that have no size here do not count */
  readonly weightBytes: number;
}

/** @throws `ERR_WARPCONV_INVALID_MODEL` if the file is not an ONNX model */
export async function readOutline({ bytes }: OnnxFile): Promise<Outline> {
  const model = await inSlices(decodeModel(bytes));
  const { irVersion, opsetImport } = model;
  const graph = graphOf(model);
  const counts = new Counts();
  await inSlices(counts.add(graph));
  const given = new Set(graph.initializer.map(({ name }) => name));
  return {
    irVersion: Number(irVersion),
    opsets: Object.fromEntries(
      opsetImport.map(({ domain, version }) => [domain || 'ai.onnx', Number(version)]),
    ),
    fileBytes: bytes.length,
    inputs: graph.input.filter(({ name }) => !given.has(name)).map(outlineValue),
    outputs: graph.output.map(outlineValue),
    operators: Object.fromEntries([...counts.operators].sort(([, a], [, b]) => b - a)),
    parameters: Object.fromEntries(counts.parameters),
    weightBytes: counts.weightBytes,
  };
}

class Counts {
  readonly operators = new Map<string, number>();
  readonly parameters = new Map<string, number>();
  weightBytes = 0;

  *add(graph: GraphProto): Sliced<void> {
    for (const tensor of graph.initializer) this.#addTensor(tensor);
    for (const node of graph.node) {
      yield;
      yield* this.#addNode(node);
    }
  }

  *#addNode({ domain, opType, attribute }: NodeProto): Sliced<void> {
    const own = operatorDomain(domain, opType);
    const operator = own === '' ? opType : `${own}.${opType}`;
    this.operators.set(operator, (this.operators.get(operator) ?? 0) + 1);
    for (const { type, t, g, name } of attribute) {
      if (type === Type.GRAPH) yield* this.add(yield* decodeGraph(`the graph '${name}'`, g));
      else if (opType === 'Constant' && t !== undefined) this.#addTensor(t);
    }
  }

  #addTensor({ dataType, dims }: TensorProto): void {
    const count = elementCount(dims.map(Number));
    const type = elementType(dataType);
    const name = typeName(dataType);
    this.parameters.set(name, (this.parameters.get(name) ?? 0) + count);
    if (type === undefined) return;
    this.weightBytes += Math.ceil(
      (count * (packedBits(type) ?? 8 * CONSTRUCTORS[type].BYTES_PER_ELEMENT)) / 8,
    );
  }
}

function typeName(number: number): string {
  return elementType(number) ?? unsupportedTypeName(number) ?? `type ${number}`;
}

function outlineValue({ name, type }: ValueInfoProto): OutlinedValue {
  const { value } = type ?? {};
  if (value?.case !== 'tensorType') return { name, type: value?.case?.replace('Type', '') ?? 'unknown' };
  const shape = value.value.shape?.dim.map(({ value: extent }) => {
    if (extent.case === 'dimParam') return extent.value;
    return extent.case === undefined || extent.value < 0 ? '' : Number(extent.value);
  });
  return { name, type: typeName(value.value.elemType), ...(shape !== undefined && { shape }) };
}

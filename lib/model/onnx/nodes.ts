/** Nodes of a file, one by one: how they are connected is another matter. */
import { describe } from '../../check';
import type { Sliced } from '../../slices';
import { invalidModel, quote, title } from '../complaints';
import type { Attribute, Body, GraphNode } from '../graph';
import { attributeKind, type AttributeKind } from '../schema';
import type { ExternalData } from './external_data';
import { AttributeProto_AttributeType as Type, type AttributeProto, type NodeProto } from './onnx_pb';
import { readTensor, tensorObstacle } from './tensors';

/** Most nodes have none. */
const NONE = new Map<string, never>();

/** What a value of the file is called where names are those of one graph alone. */
export type Scope = (name: string) => string;

/** Makes nodes of a model's graphs, each with a name of its own. */
export class NodeReader {
  readonly #names = new Set<string>();
  #count = 0;

  /** @param readBody - reads a graph that a node has, of that name */
  constructor(
    private readonly external: ExternalData,
    private readonly opset: number,
    private readonly readBody: (bytes: Uint8Array, scope: Scope, name: string) => Sliced<Body>,
  ) {}

  *read(proto: NodeProto, scope: Scope): Sliced<GraphNode> {
    const { opType: operator } = proto;
    const [inputs, outputs] = [proto.input.map(scope), proto.output.map(scope)];
    const name = this.#uniqueName(proto);
    const domain = operatorDomain(proto.domain, operator);
    const attributes = proto.attribute.length === 0 ? NONE : new Map<string, Attribute>();
    const node = { name, operator, domain, inputs, outputs, attributes };
    if (operator === '') throw invalidModel(`node ${quote(name)} names no operator`);
    let obstacle: string | undefined;
    const bodies = new Map<string, Body>();
    for (const attribute of proto.attribute) {
      const what = attributeTitle(node, attribute);
      if (attributes.has(attribute.name)) throw invalidModel(`${what} is there twice`);
      requireKind(what, attribute, attributeKind(node, attribute.name, this.opset));
      const found = attributeObstacle(what, attribute);
      if (attribute.type === Type.GRAPH) {
        bodies.set(attribute.name, yield* this.readBody(attribute.g, scope, `${name}.${attribute.name}`));
      } else if (found === undefined) {
        attributes.set(attribute.name, yield* readAttribute(what, attribute, this.external));
      } else obstacle ??= `its attribute ${quote(attribute.name)} is ${found}`;
    }
    const whole = bodies.size === 0 ? node : { ...node, bodies };
    return obstacle === undefined ? whole : { ...whole, obstacle };
  }

  #uniqueName({ name, opType }: NodeProto): string {
    const place = `${opType}#${this.#count++}`;
    let unique = name === '' || this.#names.has(name) ? place : name;
    for (let copy = 2; this.#names.has(unique); copy++) unique = `${place}.${copy}`;
    this.#names.add(unique);
    return unique;
  }
}

/** `ai.onnx` is another name of the domain that has none. */
export function normalDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

/** onnxruntime has this operator of its own in ONNX's domain, where its optimiser and exporters write it. */
export function operatorDomain(domain: string, operator: string): string {
  const normal = normalDomain(domain);
  return normal === '' && operator === 'SimplifiedLayerNormalization' ? 'com.microsoft' : normal;
}

function attributeTitle(node: GraphNode, { name }: AttributeProto): string {
  return `attribute ${quote(name)} of ${title(node)}`;
}

/** A float would pass for an integer once it is read, and a list of nothing for any. */
function requireKind(what: string, { type }: AttributeProto, kind: AttributeKind | undefined): void {
  if (kind === undefined || type === Type[kind]) return;
  throw invalidModel(`${what} must be of the type ${kind}, got ${Type[type] ?? type}`);
}

const OBSTACLES: Readonly<Partial<Record<Type, string>>> = {
  [Type.GRAPHS]: 'a list of graphs',
  [Type.TENSORS]: 'a list of tensors',
  [Type.SPARSE_TENSOR]: 'a sparse tensor',
  [Type.SPARSE_TENSORS]: 'a list of sparse tensors',
  [Type.TYPE_PROTO]: 'a type',
  [Type.TYPE_PROTOS]: 'a list of types',
};

function attributeObstacle(what: string, { type, t }: AttributeProto): string | undefined {
  return type === Type.TENSOR && t !== undefined ? tensorObstacle(what, t) : OBSTACLES[type];
}

function* readAttribute(what: string, attribute: AttributeProto, external: ExternalData): Sliced<Attribute> {
  if (attribute.refAttrName !== '') {
    throw invalidModel(`${what} refers to an attribute of a function, and the node is in none`);
  }
  switch (attribute.type) {
    case Type.FLOAT:
      return attribute.f;
    case Type.INT:
      return isElement(attribute)
        ? { type: 'int64', dims: [], data: BigInt64Array.of(attribute.i) }
        : nearestInteger(attribute.i);
    case Type.STRING:
      return text(what, attribute.s);
    case Type.TENSOR:
      if (attribute.t === undefined) throw invalidModel(`${what} has no tensor`);
      return yield* readTensor(what, attribute.t, external.get(attribute.t));
    case Type.FLOATS:
      return attribute.floats;
    case Type.INTS:
      return isElement(attribute)
        ? { type: 'int64', dims: [attribute.ints.length], data: BigInt64Array.from(attribute.ints) }
        : attribute.ints.map(nearestInteger);
    case Type.STRINGS:
      return attribute.strings.map((bytes) => text(what, bytes));
    default:
      throw invalidModel(`${what} has the type ${describe(attribute.type)}, which ONNX does not have`);
  }
}

/** Elements of a constant have all their bits. */
function isElement({ name }: AttributeProto): boolean {
  return name === 'value_int' || name === 'value_ints';
}

const FURTHEST = BigInt(Number.MAX_SAFE_INTEGER);

function nearestInteger(value: bigint): number {
  if (value > FURTHEST) return Number.MAX_SAFE_INTEGER;
  return value < -FURTHEST ? Number.MIN_SAFE_INTEGER : Number(value);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function text(what: string, bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw invalidModel(`${what} is not UTF-8`, cause);
  }
}

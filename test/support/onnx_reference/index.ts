/**
 * What ONNX says that a node makes of its inputs, computed with double precision and naive loops. Written from the
 * operators' specification; shares no code with the library.
 */
import { creation } from './creation';
import { elementwise, type Operator } from './elementwise';
import { movement } from './movement';
import { Node, type RefNode } from './node';
import { normalization } from './normalization';
import { products } from './products';
import { reduction } from './reduction';
import { resizing } from './resize';
import { schemaIn, schemasOf, type Schema } from './schemas';
import { Illegal, Unjudged, type ElementType, type Expected } from './tensor';
import { pooling } from './windows';

const OPERATORS: Readonly<Record<string, Operator>> = {
  ...creation,
  ...elementwise,
  ...movement,
  ...normalization,
  ...pooling,
  ...products,
  ...reduction,
  ...resizing,
};

/** The name that schemas have the operator under. */
export function schemaName({ domain, operator }: Pick<RefNode, 'domain' | 'operator'>): string {
  return domain === '' ? operator : `${domain}.${operator}`;
}

/** @throws {@link Illegal}, {@link Unjudged} or {@link TooLarge} where there is no answer, saying why */
export function evaluate(node: RefNode): Expected[] {
  const schema = schemaIn(schemaName(node), node.opset);
  if (schema === undefined) throw new Illegal(`no ${node.operator} in opset ${node.opset}`);
  requireSignature(node, schema);
  const operator = OPERATORS[node.operator];
  if (operator === undefined) throw new Unjudged(node.operator);
  return operator(new Node(node));
}

function requireSignature(node: RefNode, schema: Schema): void {
  requireInputs(node, schema);
  if (node.outputs > schema.outputs) throw new Illegal(`${node.outputs} outputs`);
  for (const [name, { kind, required }] of Object.entries(schema.attributes)) {
    const given = node.attributes[name]?.kind;
    if (given === undefined ? required : given !== kind)
      throw new Illegal(`attribute ${name} is ${given}, not ${kind}`);
  }
}

/** A type that the operator has come to take in a later opset is one that runtimes take in earlier ones, too. */
function refuseType(node: RefNode, index: number, type: ElementType): never {
  const newest = schemasOf(schemaName(node)).at(-1)!;
  const { group } = newest.inputs[index] ?? newest.inputs.at(-1) ?? { group: '' };
  if (newest.types[group]?.includes(type))
    throw new Unjudged(`input ${index} of ${type}, in opset ${node.opset}`);
  throw new Illegal(`input ${index} of ${type}`);
}

function requireInputs(node: RefNode, schema: Schema): void {
  const { inputs } = node;
  const last = schema.inputs.at(-1);
  if (inputs.length > schema.inputs.length && !last?.variadic) throw new Illegal(`${inputs.length} inputs`);
  const types = new Map<string, ElementType>();
  for (let i = 0; i < Math.max(inputs.length, schema.inputs.length); i++) {
    const { group, optional, variadic } = (schema.inputs[i] ?? last)!;
    const input = inputs[i];
    if (input === undefined) {
      if (optional) continue;
      throw new Illegal(`no input ${i}${variadic ? ' of many' : ''}`);
    }
    if (!schema.types[group]!.includes(input.type)) refuseType(node, i, input.type);
    const other = types.get(group) ?? input.type;
    if (other !== input.type) throw new Illegal(`inputs of ${other} and ${input.type}`);
    types.set(group, input.type);
  }
}

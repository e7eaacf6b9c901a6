/**
 * What ONNX says that a node makes of its inputs, computed with double precision and naive loops. Written from the
 * operators' specification; shares no code with the library.
 */
import { attentions } from './attention';
import { creation } from './creation';
import { deformable } from './deformable';
import { einsums } from './einsum';
import { elementwise, type Operator } from './elementwise';
import { fused, simplifiedNormalization } from './fused';
import { gated } from './gated';
import { indexing } from './indexing';
import { losses } from './losses';
import { linearRecurrence } from './linear_recurrence';
import { movement } from './movement';
import { Node, type RefNode } from './node';
import { normalization } from './normalization';
import { roundedOutput } from './precision';
import { products } from './products';
import { quantization } from './quantization';
import { quantized8 } from './quantized';
import { recurrence } from './recurrent';
import { reduction } from './reduction';
import { resizing } from './resize';
import { sampling } from './sampling';
import { scanning } from './scan';
import { schemaIn, schemasOf, type Schema } from './schemas';
import { selection } from './selection';
import { signals } from './signals';
import { Illegal, type ElementType, type Expected } from './tensor';
import { pooling } from './windows';

const STANDARD: Readonly<Record<string, Operator>> = {
  ...attentions,
  ...creation,
  ...deformable,
  ...einsums,
  ...elementwise,
  ...gated,
  ...indexing,
  ...linearRecurrence,
  ...losses,
  ...movement,
  ...normalization,
  ...pooling,
  ...products,
  ...quantization,
  ...recurrence,
  ...reduction,
  ...resizing,
  ...sampling,
  ...scanning,
  ...selection,
  ...signals,
  RMSNormalization: simplifiedNormalization,
};

/** A name of ONNX's own is of the same function in another domain, unless that has another. */
const MICROSOFT: Readonly<Record<string, Operator>> = { ...STANDARD, ...fused, ...quantized8 };

/** The name that schemas have the operator under. */
export function schemaName({ domain, operator }: Pick<RefNode, 'domain' | 'operator'>): string {
  return domain === '' ? operator : `${domain}.${operator}`;
}

export interface Evaluation {
  readonly outputs: readonly Expected[];
  /** See {@link Node.isTolerated} */
  readonly isTolerated: boolean;
}

/** @throws {@link Illegal}, `Unjudged` or `TooLarge` where there is no answer, saying why */
export function evaluate(node: RefNode): Evaluation {
  const schema = schemaIn(schemaName(node), node.opset);
  if (schema === undefined) throw new Illegal(`no ${node.operator} in opset ${node.opset}`);
  const reader = new Node(node);
  requireSignature(node, schema, reader);
  const operator = (node.domain === '' ? STANDARD : MICROSOFT)[node.operator];
  if (operator === undefined) throw new Error(`no reference of ${node.operator}`);
  const outputs = operator(reader).slice(0, node.outputs).map(roundedOutput);
  return { outputs, isTolerated: reader.isTolerated };
}

function requireSignature(node: RefNode, schema: Schema, reader: Node): void {
  requireInputs(node, schema, reader);
  if (node.outputs > schema.outputs) throw new Illegal(`${node.outputs} outputs`);
  for (const [name, { kind, required }] of Object.entries(schema.attributes)) {
    const given = node.attributes[name]?.kind;
    if (given === undefined ? required : given !== kind)
      throw new Illegal(`attribute ${name} is ${given}, not ${kind}`);
  }
}

/** A type that the operator has come to take in a later opset is one that runtimes take in earlier ones, too. */
function isTypeOfLater(node: RefNode, index: number, type: ElementType): boolean {
  const newest = schemasOf(schemaName(node)).at(-1)!;
  // Where ONNX had another operator before it had this type, that one takes it.
  if (newest.until !== undefined && type === 'bfloat16') return true;
  const { group } = newest.inputs[index] ?? newest.inputs.at(-1) ?? { group: '' };
  return newest.types[group]?.includes(type) ?? false;
}

function requireInputs(node: RefNode, schema: Schema, reader: Node): void {
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
    if (!schema.types[group]!.includes(input.type)) {
      if (!isTypeOfLater(node, i, input.type)) throw new Illegal(`input ${i} of ${input.type}`);
      reader.tolerate();
    }
    // Those of many kinds each have a type of their own.
    const other = (group === 'V' ? undefined : types.get(group)) ?? input.type;
    if (other !== input.type) throw new Illegal(`inputs of ${other} and ${input.type}`);
    types.set(group, input.type);
  }
}

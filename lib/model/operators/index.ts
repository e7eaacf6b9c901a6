/** Every operator that a model may have, by domain and name. */
import type { GraphNode } from '../graph';
import type { Lower } from '../lowering';
import { sizeOf, type Value } from '../values';
import { convolution } from './convolution';
import { determinants } from './determinant';
import { deformable } from './deformable';
import { attentions, previews } from './attention';
import { einsums } from './einsum';
import { broadcasting, elementwise, singles } from './elementwise';
import { indexing } from './indexing';
import { layout, olderLayout } from './layout';
import { causalConvolutions, linearAttentions } from './linear_attention';
import { losses } from './loss';
import { matrix } from './matrix';
import { microsoft, microsoftQuantized } from './microsoft';
import { normalization } from './normalization';
import { pooling } from './pooling';
import { quantization } from './quantization';
import { recurrentOperators } from './recurrent';
import { reduction } from './reduction';
import { resizing } from './resize';
import { sampling } from './sampling';
import { signals } from './signal';
import { withHalves } from './typed';

const chained = withHalves(elementwise);
const { QuickGelu, ...standard } = chained;
const normalizing = withHalves(normalization);

const OPERATORS: Readonly<Record<string, Readonly<Record<string, Lower | undefined>>>> = {
  '': {
    ...indexing,
    ...layout,
    ...standard,
    ...normalizing,
    ...withHalves({
      ...attentions,
      ...causalConvolutions,
      ...convolution,
      ...determinants,
      ...deformable,
      ...einsums,
      ...losses,
      ...matrix,
      ...pooling,
      ...reduction,
      ...resizing,
      ...recurrentOperators,
      ...sampling,
      ...signals,
      ...singles,
    }),
    ...linearAttentions,
    ...quantization,
    Where: singles.Where,
  },
  'ai.onnx.preview': withHalves(previews),
  warpconv: olderLayout,
  'com.microsoft': {
    ...{ QuickGelu, Gelu: standard.Gelu },
    ...withHalves(microsoft),
    ...microsoftQuantized,
  },
};

/** What lowers a node; `undefined` where no kernel computes its operator. */
export function operatorOf({ domain, operator }: GraphNode): Lower | undefined {
  const operators = Object.hasOwn(OPERATORS, domain) ? OPERATORS[domain]! : {};
  return Object.hasOwn(operators, operator) ? operators[operator] : undefined;
}

const BROADCASTING: ReadonlySet<Lower | undefined> = new Set(
  Object.keys(broadcasting).map((name) => chained[name]),
);
const ELEMENTWISE: ReadonlySet<Lower | undefined> = new Set(Object.values(chained));

/**
 * Whether the node makes each element, for all dims of its inputs, by the same function of those elements that are
 * broadcast to its place.
 */
export function isPointwise(node: GraphNode, inputs: readonly (Value | undefined)[]): boolean {
  const operator = operatorOf(node);
  if (BROADCASTING.has(operator)) return true;
  const [, ...parameters] = inputs;
  if (!parameters.every((value) => value === undefined || value.isFixed)) return false;
  // Parameters of one element would be broadcast to any number of channels, which is not legal.
  if (operator === normalizing.BatchNormalization) return sizeOf(parameters[0]!.dims) > 1;
  return ELEMENTWISE.has(operator);
}

/** Of ONNX's own operators, or of another domain's, those that are computed in a run. */
export function operatorNames(domain = ''): string[] {
  return Object.keys(OPERATORS[domain]!).sort();
}

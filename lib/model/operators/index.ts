/** Every operator that a model may have, by domain and name. */
import type { GraphNode } from '../graph';
import type { Lower } from '../lowering';
import { convolution } from './convolution';
import { elementwise } from './elementwise';
import { layout } from './layout';
import { matrix } from './matrix';
import { normalization } from './normalization';
import { pooling } from './pooling';
import { reduction } from './reduction';
import { resizing } from './resize';

const { QuickGelu, ...standard } = elementwise;

const OPERATORS: Readonly<Record<string, Readonly<Record<string, Lower | undefined>>>> = {
  '': {
    ...convolution,
    ...standard,
    ...layout,
    ...matrix,
    ...normalization,
    ...pooling,
    ...reduction,
    ...resizing,
  },
  'com.microsoft': { QuickGelu, Gelu: standard.Gelu },
};

/** What lowers a node; `undefined` where no kernel computes its operator. */
export function operatorOf({ domain, operator }: GraphNode): Lower | undefined {
  const operators = Object.hasOwn(OPERATORS, domain) ? OPERATORS[domain]! : {};
  return Object.hasOwn(operators, operator) ? operators[operator] : undefined;
}

const POINTWISE: ReadonlySet<Lower | undefined> = new Set([
  ...Object.values(elementwise),
  normalization.BatchNormalization,
]);

/**
 * Whether each element that the node makes is, for all dims that its inputs may have, the same function of those elements
 * of the inputs that are broadcast to its place.
 */
export function isPointwise(node: GraphNode): boolean {
  return POINTWISE.has(operatorOf(node));
}

/** Of ONNX's own operators, those that are computed in a run. */
export function operatorNames(): string[] {
  return Object.keys(OPERATORS['']!).sort();
}

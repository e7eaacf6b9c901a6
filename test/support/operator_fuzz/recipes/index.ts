/** What draws legal models of one node, by operator. */
import type { Recipe } from '../draw';
import { attentions } from './attention';
import { creation } from './creation';
import { einsums } from './einsum';
import { elementwise } from './elementwise';
import { fused } from './fused';
import { indexing } from './indexing';
import { losses } from './losses';
import { linearRecurrence } from './linear_recurrence';
import { movement } from './movement';
import { normalization } from './normalization';
import { products } from './products';
import { quantization } from './quantization';
import { quantized } from './quantized';
import { recurrence } from './recurrent';
import { reduction } from './reduction';
import { resizing } from './resize';
import { sampling } from './sampling';
import { selection } from './selection';
import { signals } from './signals';
import { windowed } from './windows';

export const RECIPES: ReadonlyMap<string, Recipe> = new Map(
  Object.entries({
    ...attentions,
    ...creation,
    ...einsums,
    ...elementwise,
    ...fused,
    ...indexing,
    ...linearRecurrence,
    ...losses,
    ...movement,
    ...normalization,
    ...products,
    ...quantization,
    ...quantized,
    ...recurrence,
    ...reduction,
    ...resizing,
    ...sampling,
    ...selection,
    ...signals,
    ...windowed,
  }),
);

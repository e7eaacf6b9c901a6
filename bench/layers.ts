/** The layers that the bench measures, from bench/layers. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** C, H, W, K, R, S, strideH, strideW, padH, padW, dilationH, dilationW, groups */
export type LayerRow = readonly number[];

export interface Layer {
  readonly group: string;
  readonly model: string;
  readonly row: LayerRow;
  /** How often the model has it */
  readonly count: number;
}

export const LAYERS = path.join(__dirname, 'layers');

export const GROUPS = ['sconv-393', 'mobile'] as const;

export function loadLayers(group: string): Layer[] {
  const file = path.join(LAYERS, `${group}.json`);
  const {
    about: _about,
    columns: _columns,
    ...models
  } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, LayerRow[]>;
  return Object.entries(models).flatMap(([model, rows]) => distinct(group, model, rows));
}

/** A quick run measures every eighth layer. */
export const QUICK_STEP = 8;

/** The layers of a run: a quick one takes a part of each group in the order of its file, so that all models are among them. */
export function layersOf(groups: readonly string[], quick: boolean): Layer[] {
  const step = quick ? QUICK_STEP : 1;
  return groups.flatMap((group) => loadLayers(group).filter((_, index) => index % step === 0));
}

function distinct(group: string, model: string, rows: readonly LayerRow[]): Layer[] {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(String(row), (counts.get(String(row)) ?? 0) + 1);
  return [...counts].map(([key, count]) => ({ group, model, row: key.split(',').map(Number), count }));
}

export interface Shapes {
  readonly inputDims: readonly number[];
  readonly weightDims: readonly number[];
  readonly outputDims: readonly number[];
  readonly multiplyAdds: number;
}

export function shapesOf([C, H, W, K, R, S, sh, sw, ph, pw, dh, dw, groups]: LayerRow): Shapes {
  const P = Math.floor((H! + 2 * ph! - dh! * (R! - 1) - 1) / sh!) + 1;
  const Q = Math.floor((W! + 2 * pw! - dw! * (S! - 1) - 1) / sw!) + 1;
  return {
    inputDims: [1, C!, H!, W!],
    weightDims: [K!, C! / groups!, R!, S!],
    outputDims: [1, K!, P, Q],
    multiplyAdds: (K! * P * Q * C! * R! * S!) / groups!,
  };
}

/** What a plan for the layer is created with, besides the weight. */
export function planOptions(row: LayerRow) {
  const [, , , , , , sh, sw, ph, pw, dh, dw, groups] = row;
  return {
    inputDims: shapesOf(row).inputDims,
    stride: [sh!, sw!],
    padding: [ph!, pw!],
    dilation: [dh!, dw!],
    groups: groups!,
  } as const;
}

export function byModel<L extends Layer>(layers: readonly L[]): Map<string, L[]> {
  const models = new Map<string, L[]>();
  for (const layer of layers) models.set(layer.model, [...(models.get(layer.model) ?? []), layer]);
  return models;
}

export function isPointwise([, , , , R, S, sh, sw]: LayerRow): boolean {
  return R! * S! * sh! * sw! === 1;
}

export function isDepthwise([C, , , , , , , , , , , , groups]: LayerRow): boolean {
  return groups! > 1 && groups === C;
}

export function describeLayer({ model, row, count }: Layer): string {
  const [C, H, W, K, R, S, sh, , , , , , groups] = row;
  const times = count > 1 ? ` (${count} times)` : '';
  return `${model}: ${C}x${H}x${W}, ${K} filters ${R}x${S}, stride ${sh}, groups ${groups}${times}`;
}

/** The pictures of the GPU report, as Vega-Lite specifications: pure functions of what is stored. */
import { pointwiseChoices } from './goals';
import { FIGURE_2, FIGURE_3, FIGURE_4, paperLayers } from './report';
import {
  auto,
  bestRival,
  own,
  teraflops,
  type GpuBenchResult,
  type LayerResult,
  type MeasuredEntry,
} from './result';
import { formOf, workOf } from './layers';

/** The plots of float32, by the suffix of their file. A group that was not measured has none. */
export function gpuPictures(result: GpuBenchResult): Map<string, object> {
  if (result.layers.some((layer) => formOf(layer).precision !== 'fp32')) return new Map();
  const pictures = { tflops, memory, ablation, planner, roofline };
  return new Map(
    Object.entries(pictures).flatMap(([suffix, draw]) => {
      const spec = draw(result);
      return spec === undefined ? [] : [[suffix, spec] as const];
    }),
  );
}

interface Bar {
  readonly layer: string;
  readonly contestant: string;
  readonly value: number;
}

/** Bars side by side for each layer, in the order given. */
function bars(title: string, unit: string, values: readonly Bar[]): object | undefined {
  if (values.length === 0) return undefined;
  const contestants = [...new Set(values.map(({ contestant }) => contestant))];
  return {
    width: { step: 9 },
    height: 320,
    title,
    data: { values },
    mark: 'bar',
    encoding: {
      x: { field: 'layer', type: 'nominal', title: null, sort: null, axis: { labelAngle: -30 } },
      xOffset: { field: 'contestant', type: 'nominal', sort: contestants },
      y: { field: 'value', type: 'quantitative', title: unit },
      color: { field: 'contestant', type: 'nominal', title: null, sort: contestants },
    },
  };
}

type Pick = (layer: LayerResult) => MeasuredEntry | undefined;

function barsOf(
  layers: readonly LayerResult[],
  picks: readonly { title: string; pick: Pick }[],
  valueOf: (layer: LayerResult, entry: MeasuredEntry) => number,
): Bar[] {
  return layers.flatMap((layer) =>
    picks.flatMap(({ title, pick }) => {
      const entry = pick(layer);
      if (entry === undefined) return [];
      return [{ layer: layer.name, contestant: title, value: valueOf(layer, entry) }];
    }),
  );
}

function tflops({ gpu, layers }: GpuBenchResult): object | undefined {
  return bars(
    `TFLOP/s on the twelve layers, batch 128, ${gpu.name}`,
    'TFLOP/s, effective',
    barsOf(paperLayers(layers), FIGURE_2, teraflops),
  );
}

/** Like the paper's, with the tensors themselves. */
function memory({ gpu, layers }: GpuBenchResult): object | undefined {
  const total = (layer: LayerResult, { workspaceBytes }: MeasuredEntry) =>
    (workOf(layer).bytes + workspaceBytes) / 1e6;
  return bars(
    `Memory on the twelve layers, batch 128, ${gpu.name}`,
    'MB of tensors and workspace',
    barsOf(paperLayers(layers), FIGURE_3, total),
  );
}

function ablation({ gpu, layers }: GpuBenchResult): object | undefined {
  const picks = FIGURE_4.map((variant) => ({
    title: variant,
    pick: (layer: LayerResult) => own(layer, 'im2win', variant),
  }));
  const values = barsOf(paperLayers(layers), picks, teraflops);
  // im2win without its variants is no ablation.
  const isMeasured = values.some(({ contestant }) => contestant === 'explicit');
  return isMeasured ? bars(`im2win without its techniques, ${gpu.name}`, 'TFLOP/s', values) : undefined;
}

function planner({ gpu, layers }: GpuBenchResult): object | undefined {
  return bars(
    `The planner of pointwise, ${gpu.name}`,
    'time of its choice / of its best candidate',
    pointwiseChoices(layers).map(({ layer, ratio }) => ({
      layer: layer.name,
      contestant: `batch ${layer.batch}`,
      value: ratio,
    })),
  );
}

/** Every layer by its FLOPs per byte, under the ceilings of the latest run. */
function roofline({ gpu, runs, layers }: GpuBenchResult): object | undefined {
  const ceilings = runs.findLast((run) => run.ceilings !== undefined)?.ceilings;
  const points = layers.flatMap((layer) => {
    const { flops, bytes } = workOf(layer);
    const at = (who: string, entry: MeasuredEntry | undefined) =>
      entry === undefined
        ? []
        : [{ who, intensity: flops / bytes, rate: teraflops(layer, entry), layer: layer.name }];
    const batch = `batch ${layer.batch}`;
    return [...at(`warpconv, ${batch}`, auto(layer)), ...at(`best rival, ${batch}`, bestRival(layer))];
  });
  if (points.length === 0 || ceilings === undefined) return undefined;
  const { flopsPerSecond, bytesPerSecond } = ceilings;
  const roof = [0.1, flopsPerSecond / bytesPerSecond, 1000].map((intensity) => ({
    intensity,
    rate: Math.min(flopsPerSecond, intensity * bytesPerSecond) / 1e12,
  }));
  const logarithmic = (field: string, title: string) => ({
    field,
    type: 'quantitative',
    title,
    scale: { type: 'log' },
  });
  const position = {
    x: logarithmic('intensity', 'FLOPs for each byte that has to move'),
    y: logarithmic('rate', 'TFLOP/s'),
  };
  return {
    width: 640,
    height: 420,
    title: `Roofline, ${gpu.name}`,
    layer: [
      { data: { values: roof }, mark: { type: 'line', color: 'black' }, encoding: position },
      {
        data: { values: points },
        mark: { type: 'point', filled: true },
        encoding: {
          ...position,
          color: { field: 'who', type: 'nominal', title: null },
          shape: { field: 'who', type: 'nominal', title: null },
        },
      },
    ],
  };
}

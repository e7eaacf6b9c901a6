/** The pictures of the report, after figures of the SConv paper. */
import path from 'node:path';

import type { PackingResult } from './cpu/engine_results';
import { packingShares } from './cpu/report_engine';
import { PAIRS, speedups, type BenchResult } from './cpu/report';

interface Vega {
  readonly parse: (spec: unknown) => unknown;
  readonly View: new (runtime: unknown, options: { renderer: 'none' }) => { toSVG(): Promise<string> };
}
interface VegaLite {
  readonly compile: (spec: unknown) => { readonly spec: unknown };
}

const MODULES = path.join(__dirname, 'rivals/node_modules');

/** Legends are written out: Vega cuts long names off, and some begin alike. */
const CONFIG = { legend: { labelLimit: 0 } };

/** @throws Error with code `ERR_MODULE_NOT_FOUND` where Vega is not installed */
export async function toSvg(spec: object): Promise<string> {
  const [vega, lite] = (await Promise.all([
    import(path.join(MODULES, 'vega/build/vega.module.js')),
    import(path.join(MODULES, 'vega-lite/build/index.js')),
  ])) as [Vega, VegaLite];
  return new vega.View(vega.parse(lite.compile({ ...spec, config: CONFIG }).spec), {
    renderer: 'none',
  }).toSVG();
}

/** The sorted speed-ups over every layer: Figure 8. */
export function plotSpeedups(result: BenchResult): Promise<string> {
  const values = result.runs
    .filter(({ threads }) => threads === 1)
    .flatMap(({ layers }) => PAIRS.flatMap(({ title, rival, ours }) => curve(layers, title, rival, ours)));
  return toSvg({
    width: 640,
    height: 320,
    title: `Speed-up of warpconv on the 393 layers, one thread, ${result.cpu.name}`,
    data: { values },
    layer: [
      {
        mark: { type: 'line', interpolate: 'step' },
        encoding: {
          x: { field: 'layer', type: 'quantitative', title: 'convolution, sorted' },
          y: { field: 'speedup', type: 'quantitative', title: 'speed-up' },
          color: { field: 'rival', type: 'nominal', title: 'over', sort: null },
        },
      },
      { mark: { type: 'rule', strokeDash: [4, 4] }, encoding: { y: { datum: 1 } } },
    ],
  });
}

/** Packing and the rest of each model's time, im2col's being 100 %: Figure 10. */
export function plotPacking(result: PackingResult): Promise<string> {
  const values = packingShares(result).flatMap(({ model, packing, ratio }) => [
    ...bar(model, 'im2col', 1, packing.im2col),
    ...bar(model, 'sconv', ratio, packing.sconv),
  ]);
  return toSvg({
    width: { step: 28 },
    height: 320,
    title: `Convolution time by model, one thread, ${result.cpu.name}`,
    data: { values },
    mark: 'bar',
    encoding: {
      x: { field: 'model', type: 'nominal', title: null, sort: null, axis: { labelAngle: -30 } },
      xOffset: { field: 'algorithm', type: 'nominal', sort: ['im2col', 'sconv'] },
      y: { field: 'percent', type: 'quantitative', title: "% of im2col's time", stack: 'zero' },
      color: { field: 'part', type: 'nominal', title: null, sort: null },
      order: { field: 'order' },
    },
  });
}

function bar(model: string, algorithm: string, time: number, packing: number) {
  return [
    { model, algorithm, part: `packing, ${algorithm}`, percent: 100 * time * packing, order: 0 },
    { model, algorithm, part: `the rest, ${algorithm}`, percent: 100 * time * (1 - packing), order: 1 },
  ];
}

function curve(layers: BenchResult['runs'][number]['layers'], title: string, rival: string, ours: string) {
  const measured = layers.filter(({ group }) => group === 'sconv-393');
  return speedups(measured, rival, ours)
    .sort((a, b) => a - b)
    .map((speedup, layer) => ({ rival: title, layer, speedup }));
}

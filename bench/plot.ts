/** The sorted speed-ups over every layer: Figure 8 of the SConv paper, on this machine. */
import path from 'node:path';

import { PAIRS, speedups, type BenchResult } from './report';

interface Vega {
  readonly parse: (spec: unknown) => unknown;
  readonly View: new (runtime: unknown, options: { renderer: 'none' }) => { toSVG(): Promise<string> };
}
interface VegaLite {
  readonly compile: (spec: unknown) => { readonly spec: unknown };
}

const MODULES = path.join(__dirname, 'rivals/node_modules');

export async function plotSpeedups(result: BenchResult): Promise<string> {
  const [vega, lite] = (await Promise.all([
    import(path.join(MODULES, 'vega/build/vega.module.js')),
    import(path.join(MODULES, 'vega-lite/build/index.js')),
  ])) as [Vega, VegaLite];
  const values = result.runs
    .filter(({ threads }) => threads === 1)
    .flatMap(({ layers }) => PAIRS.flatMap(({ title, rival, ours }) => curve(layers, title, rival, ours)));
  const spec = {
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
          color: { field: 'rival', type: 'nominal', title: 'over' },
        },
      },
      { mark: { type: 'rule', strokeDash: [4, 4] }, encoding: { y: { datum: 1 } } },
    ],
  };
  return new vega.View(vega.parse(lite.compile(spec).spec), { renderer: 'none' }).toSVG();
}

function curve(layers: BenchResult['runs'][number]['layers'], title: string, rival: string, ours: string) {
  const measured = layers.filter(({ group }) => group === 'sconv-393');
  return speedups(measured, rival, ours)
    .sort((a, b) => a - b)
    .map((speedup, layer) => ({ rival: title, layer, speedup }));
}

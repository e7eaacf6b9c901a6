/** The report's sections on the engine itself: what packing takes, what its ideas bring, how the caches fare. */
import type { AblationResult, CacheResult, Counts, PackingAlgorithm, PackingResult } from './engine_results';
import { byModel, describeLayer, isPointwise } from '../layers';
import { geometricMean, sum } from '../statistics';
import { percent, tableOf } from '../tables';

type AblationLayer = AblationResult['layers'][number];

/** Times over the default's, one for each time that a model has the layer; 1 where the variant changes nothing. */
function slowdowns(layers: readonly AblationLayer[], variant: string): number[] {
  return layers.flatMap(({ ms, count }) =>
    Array<number>(count).fill((ms[variant] ?? ms.default!) / ms.default!),
  );
}

export function renderAblation({ variants, layers }: AblationResult): string {
  const larger = layers.filter(({ row }) => !isPointwise(row));
  const times = (chosen: readonly AblationLayer[], variant: string) =>
    chosen.length === 0 ? '–' : `${geometricMean(slowdowns(chosen, variant)).toFixed(2)} ×`;
  const rows = variants.map((variant) => {
    const changed = layers.filter(({ ms }) => variant in ms);
    return [
      variant,
      String(sum(changed.map(({ count }) => count))),
      times(changed, variant),
      times(larger, variant),
      times(layers, variant),
    ];
  });
  const head = [
    'instead of the default',
    'layers it changes',
    'time on those',
    'on all but pointwise',
    'on all 393',
  ];
  return [
    '### What each idea of sconv brings',
    '',
    'Time over that of `sconv` as it is, one thread, geometric means: above 1, the idea that was taken away pays. A layer that ' +
      'a switch cannot change, or that cannot be computed so, counts as 1. im2col has the same filter panels and micro-kernel.',
    '',
    ...tableOf(head, rows),
    '',
  ].join('\n');
}

export interface PackingShare {
  readonly model: string;
  /** Shares of a run's time */
  readonly packing: Readonly<Record<PackingAlgorithm, number>>;
  /** Time of sconv over that of im2col */
  readonly ratio: number;
}

type PackingLayers = PackingResult['layers'];

function milliseconds(layers: PackingLayers, algorithm: PackingAlgorithm, what: 'total' | 'packing'): number {
  return sum(layers.map(({ ms, count }) => ms[algorithm][what] * count));
}

/** Of the layers' time together. */
export function packingShare(layers: PackingLayers, algorithm: PackingAlgorithm): number {
  return milliseconds(layers, algorithm, 'packing') / milliseconds(layers, algorithm, 'total');
}

/** By model, and of all of them together. */
export function packingShares({ layers }: PackingResult): PackingShare[] {
  return [...byModel(layers), ['all', layers] as const].map(([model, some]) => ({
    model,
    packing: { sconv: packingShare(some, 'sconv'), im2col: packingShare(some, 'im2col') },
    ratio: milliseconds(some, 'sconv', 'total') / milliseconds(some, 'im2col', 'total'),
  }));
}

export function renderPacking(result: PackingResult): string {
  const rows = packingShares(result).map(({ model, packing, ratio }) => [
    model,
    percent(packing.im2col),
    percent(packing.sconv),
    percent(ratio),
  ]);
  return [
    '### What packing takes',
    '',
    'Share of the time that goes into rearranging inputs (sconv: windows packed, where they are not read as they lie; im2col: its matrix written), ' +
      'one thread, all convolutions of a model together.',
    '',
    ...tableOf(['model', 'im2col', 'sconv', "sconv's time, of im2col's"], rows),
    '',
  ].join('\n');
}

/** What was measured of the engine besides its speed. */
export interface EngineResults {
  readonly packing?: PackingResult | undefined;
  readonly ablation?: AblationResult | undefined;
  readonly cache?: CacheResult | undefined;
}

/** The sections on what was measured. */
export function renderEngine({ packing, ablation, cache }: EngineResults): string[] {
  return [
    packing && renderPacking(packing),
    ablation && renderAblation(ablation),
    cache && renderCacheMisses(cache),
  ].filter((section) => section !== undefined);
}

export function renderCacheMisses({ cpu, layers }: CacheResult): string {
  const million = (count: number) => (count / 1e6).toFixed(2);
  const both = (counts: Readonly<Record<PackingAlgorithm, Counts>>, key: keyof Counts) =>
    `${million(counts.im2col[key])} / ${million(counts.sconv[key])}`;
  const rows = layers.map((layer) => [
    describeLayer(layer),
    both(layer.counts, 'instructions'),
    both(layer.counts, 'accesses'),
    both(layer.counts, 'l1Misses'),
    both(layer.counts, 'l2Misses'),
  ]);
  const head = ['layer', 'instructions', 'reads and writes', 'L1d misses', 'L2 misses'];
  return [
    '### Cache misses',
    '',
    `Millions in one run, im2col / sconv, in caches of ${cpu.caches.l1d / 1024} KB and ${cpu.caches.l2 / 1024} KB as ` +
      'cachegrind simulates them. It knows no AVX-512: both run with AVX2.',
    '',
    ...tableOf(head, rows),
    '',
  ].join('\n');
}

/** What was to be reached, beside what was measured. */
import { percent } from '../tables';
import { speedups, type BenchResult, type ThreadsResult } from '../cpu/report';
import {
  auto,
  bestFamily,
  bestVariant,
  groupLayers,
  median,
  own,
  speedup,
  teraflops,
  terabytes,
  type LayerResult,
} from './result';
import { formOf, loadGroups, tunedGroups, workOf } from './layers';
import { geometricMean } from '../statistics';

export interface Goal {
  readonly what: string;
  readonly goal: string;
  /** Empty where nothing of it was measured */
  readonly measured: string;
  readonly met?: boolean;
}

/** A speed-up over the best rival: the first goal, and the one after it. */
interface SpeedupGoal {
  readonly group: string;
  readonly batch: number;
  readonly first: number;
  readonly then: number;
}

/** In float32 */
const SPEEDUP_GOALS: readonly SpeedupGoal[] = [
  { group: 'mec12', batch: 1, first: 3, then: 3 },
  { group: 'resnet', batch: 1, first: 4, then: 4 },
  { group: 'depthwise', batch: 1, first: 1.6, then: 1.8 },
  { group: 'pointwise', batch: 1, first: 2.5, then: 3 },
  { group: 'image', batch: 1, first: 4, then: 4 },
  { group: 'mec12', batch: 128, first: 0.9, then: 2 },
  { group: 'resnet', batch: 128, first: 0.9, then: 2 },
  { group: 'depthwise', batch: 128, first: 1.5, then: 1.7 },
  { group: 'pointwise', batch: 128, first: 1.4, then: 1.8 },
];

/** In other precisions, of every group that float32 has a goal for */
const OTHER_SPEEDUPS = new Map([
  [1, 2],
  [128, 1],
]);
const OTHER_SPEEDUP_GOALS: readonly SpeedupGoal[] = SPEEDUP_GOALS.map(({ group, batch }) => {
  const least = OTHER_SPEEDUPS.get(batch)!;
  return { group, batch, first: least, then: least };
});

export function meanSpeedup(layers: readonly LayerResult[]): number | undefined {
  const all = layers.map(speedup).filter((one) => one !== undefined);
  return all.length === 0 ? undefined : geometricMean(all);
}

/** Of layers in one form. */
export function gpuGoals(layers: readonly LayerResult[]): Goal[] {
  const isFloat = layers.every((layer) => formOf(layer).precision === 'fp32');
  if (!isFloat) {
    return [
      ...speedupGoals(layers, OTHER_SPEEDUP_GOALS),
      noneSlow(layers, OTHER_SLOWEST),
      ...autoGoals(layers),
    ];
  }
  return [
    ...speedupGoals(layers, SPEEDUP_GOALS),
    noneSlow(layers, SLOWEST),
    ...rates(layers),
    ...autoGoals(layers),
    choiceGoal("`pointwise`'s planner within 10 % of its best candidate", pointwiseChoices(layers), 0.9),
    ...workspaces(layers),
  ];
}

function speedupGoals(layers: readonly LayerResult[], all: readonly SpeedupGoal[]): Goal[] {
  const groups = groupLayers(layers);
  return all.map(({ group, batch, first, then }) => {
    const ofGroup = groups.find((one) => one.group === group && one.batch === batch)?.layers ?? [];
    const what = `${group}, batch ${batch}: over the best rival`;
    const goal = then === first ? `≥ ${first} ×` : `≥ ${first} ×, then ≥ ${then} ×`;
    const mean = meanSpeedup(ofGroup);
    const named = loadGroups().get(group)!.rows.length;
    if (mean !== undefined && ofGroup.length < named) {
      // A part of a group says nothing of the whole.
      return { what, goal, measured: `${times(mean)}, of ${ofGroup.length} of ${named} layers` };
    }
    return reached(what, goal, mean, (value) => value >= first, times);
  });
}

const times = (value: number) => `${value.toFixed(2)} ×`;

export function reached(
  what: string,
  goal: string,
  value: number | undefined,
  meets: (value: number) => boolean,
  format: (value: number) => string,
): Goal {
  if (value === undefined) return { what, goal, measured: '' };
  return { what, goal, measured: format(value), met: meets(value) };
}

const SLOWEST = 0.95;
const OTHER_SLOWEST = 0.85;

function noneSlow(layers: readonly LayerResult[], slowest: number): Goal {
  const all = layers.flatMap((layer) => {
    const ratio = speedup(layer);
    return ratio === undefined ? [] : [{ layer, ratio }];
  });
  const slow = all.filter(({ ratio }) => ratio < slowest);
  const names = slow.map(({ layer: { name, batch }, ratio }) => `${name} at ${batch} (${times(ratio)})`);
  return reached(
    `layers slower than ${slowest} × the best rival`,
    'none',
    all.length === 0 ? undefined : slow.length,
    (count) => count === 0,
    (count) => (count === 0 ? 'none' : `${count} of ${all.length}: ${names.join(', ')}`),
  );
}

const LARGE_BYTES = 50e6;
const LARGEST_LAYERS = 6;

function rates(layers: readonly LayerResult[]): Goal[] {
  const depthwise = layers
    .filter(({ group, batch }) => group === 'depthwise' && batch === 128)
    .filter((layer) => workOf(layer).bytes > LARGE_BYTES)
    .flatMap((layer) => auto(layer)?.ms && [terabytes(layer, auto(layer)!)])
    .filter((rate) => rate !== undefined);
  const im2win = layers
    .filter(({ group, batch }) => group === 'mec12' && batch === 128)
    .sort((a, b) => workOf(b).flops - workOf(a).flops)
    .slice(0, LARGEST_LAYERS)
    .flatMap((layer) => {
      const entry = own(layer, 'im2win');
      return entry === undefined ? [] : [teraflops(layer, entry)];
    });
  const lowest = (values: readonly number[]) => (values.length === 0 ? undefined : Math.min(...values));
  return [
    reached(
      'depthwise, batch 128: the slowest layer above 50 MB',
      '≥ 2.2 TB/s',
      lowest(depthwise),
      (rate) => rate >= 2.2,
      (rate) => `${rate.toFixed(2)} TB/s`,
    ),
    reached(
      'im2win on the six largest of mec12 at batch 128: the slowest',
      '≥ 25 TFLOP/s',
      lowest(im2win),
      (rate) => rate >= 25,
      (rate) => `${rate.toFixed(1)} TFLOP/s`,
    ),
  ];
}

/** Two times are as good as one another within this. */
export const CLOSE = 1.1;

/** How many times as long as the best of what there was to choose from. */
export interface Choice {
  readonly layer: LayerResult;
  readonly ratio: number;
}

/** What `auto` takes against the best family. */
export function autoChoices(layers: readonly LayerResult[]): Choice[] {
  return layers.flatMap((layer) => {
    const [chosen, best] = [auto(layer), bestFamily(layer)];
    return chosen && best ? [{ layer, ratio: median(chosen) / median(best) }] : [];
  });
}

/** What the planner of `pointwise` takes against the best of its candidates, where those were measured. */
export function pointwiseChoices(layers: readonly LayerResult[]): Choice[] {
  return layers.flatMap((layer) => {
    const [chosen, best] = [own(layer, 'pointwise'), bestVariant(layer, 'pointwise')];
    const hasVariants = layer.entries.some((one) => one.algorithm === 'pointwise' && Boolean(one.variant));
    return hasVariants && chosen && best ? [{ layer, ratio: median(chosen) / median(best) }] : [];
  });
}

function choiceGoal(what: string, chosen: readonly Choice[], share: number): Goal {
  const close = chosen.filter(({ ratio }) => ratio <= CLOSE).length;
  return reached(
    what,
    `≥ ${percent(share)} of layers`,
    chosen.length === 0 ? undefined : close / chosen.length,
    (value) => value >= share,
    (value) => `${percent(value)}, ${close} of ${chosen.length}`,
  );
}

function autoGoals(layers: readonly LayerResult[]): Goal[] {
  const groups = tunedGroups();
  const tuned = layers.filter(({ group }) => groups.includes(group));
  const unseen = layers.filter(({ group }) => !groups.includes(group));
  return [
    choiceGoal('`auto` within 10 % of the best family', autoChoices(tuned), 0.95),
    choiceGoal('the same, of the layers of `wide` and `networks`', autoChoices(unseen), 0.95),
  ];
}

function workspaces(layers: readonly LayerResult[]): Goal[] {
  return ['shuffle', 'pointwise'].map((family) => {
    const bytes = layers.flatMap((layer) => {
      const entry = own(layer, family);
      return entry === undefined ? [] : [entry.workspaceBytes];
    });
    return reached(
      `workspace of \`${family}\``,
      '0',
      bytes.length === 0 ? undefined : Math.max(...bytes),
      (most) => most === 0,
      (most) => `${most} bytes`,
    );
  });
}

/** Of the CPU bench: one thread on the 393 layers, and two over one. */
export function cpuGoals({ runs }: BenchResult): Goal[] {
  const one = runs.find(({ threads }) => threads === 1);
  if (one === undefined) return [];
  const layers = one.layers.filter(({ group }) => group === 'sconv-393');
  const over = (rival: string) => {
    const all = speedups(layers, rival, 'warpconv');
    return all.length === 0 ? undefined : { mean: geometricMean(all), won: wonOf(all) };
  };
  const row = (what: string, goal: string, rival: string, least: number, leastWon = 0) => {
    const result = over(rival);
    const format = (mean: number) => `${times(mean)}, ahead on ${percent(result!.won)}`;
    return reached(what, goal, result?.mean, (mean) => mean >= least && result!.won >= leastWon, format);
  };
  return [
    row('over im2col + OpenBLAS, 393 layers', '≥ 1.6 ×, ahead on ≥ 95 %', 'im2col+OpenBLAS', 1.6, 0.95),
    row('over onnxruntime-node', '≥ 1.3 ×', 'onnxruntime-node, own output', 1.3),
    row('over oneDNN with reorders', '≥ 1.15 ×', 'oneDNN', 1.15),
    ...scalingGoal(runs),
  ];
}

const wonOf = (values: readonly number[]) => values.filter((value) => value > 1).length / values.length;

function scalingGoal(runs: readonly ThreadsResult[]): Goal[] {
  const [one, two] = [1, 2].map((count) => runs.find(({ threads }) => threads === count));
  if (one === undefined || two === undefined) return [];
  const total = ({ layers }: ThreadsResult) =>
    layers
      .filter(({ group }) => group === 'sconv-393')
      .reduce((sum, { ms, count }) => sum + ms.warpconv! * count, 0);
  return [
    reached('two threads over one', '≥ 1.85 ×', total(one) / total(two), (value) => value >= 1.85, times),
  ];
}

/**
 * What each idea of sconv brings: every switch of it, and im2col with the same micro-kernel, against sconv as it is, on the
 * 393 layers with one thread. Results are checked before they are timed; what was measured quickly is printed only.
 *
 *     npx ts-node bench/cpu/ablation.ts [--quick]
 */
import { Conv2d, setThreads, Tensor, WarpconvError, type AlgorithmName, type SconvSwitches } from 'warpconv';

import { runScript } from '../command';
import { random, timeInTurns, verify, type Contender } from './contenders';
import { loadLayers, planOptions, shapesOf, type Layer } from '../layers';
import type { AblationResult } from './engine_results';
import { renderAblation } from './report_engine';
import { Progress } from '../progress';
import { circumstances, nameOf, scriptArguments, writeJson } from '../results';

interface Variant {
  readonly name: string;
  readonly algorithm?: AlgorithmName;
  readonly sconv?: SconvSwitches;
}

const DEFAULT: Variant = { name: 'default' };

const VARIANTS: readonly Variant[] = [
  { name: 'input-stationary', sconv: { schedule: 'inputStationary' } },
  { name: 'weight-stationary', sconv: { schedule: 'weightStationary' } },
  { name: 'windows as they lie', sconv: { presentation: 'asTheyLie' } },
  { name: 'windows packed', sconv: { presentation: 'packed' } },
  {
    name: 'windows packed, without vector shifts',
    sconv: { presentation: 'packed', vectorPacking: false },
  },
  { name: 'windows packed, ahead', sconv: { presentation: 'packed', packing: 'ahead' } },
  { name: 'im2col', algorithm: 'im2col' },
];

/** A large workspace costs page faults in its first run and not in each: glibc keeps what it was given. */
const KEEP_MEMORY = { MALLOC_MMAP_MAX_: '0', MALLOC_TRIM_THRESHOLD_: String(2 ** 30) };

interface Planned extends Contender {
  /** What the plan does, as far as it says so */
  readonly method: string;
}

class Workbench {
  readonly #image: Tensor<'float32'>;
  readonly #weight: Tensor<'float32'>;

  constructor(private readonly layer: Layer) {
    const { inputDims, weightDims } = shapesOf(layer.row);
    this.#image = new Tensor('float32', random(inputDims), inputDims);
    this.#weight = new Tensor('float32', random(weightDims), weightDims);
  }

  async plan({ name, algorithm = 'sconv', sconv = {} }: Variant): Promise<Planned> {
    const options = { ...planOptions(this.layer.row), algorithm, sconv, device: 'cpu' } as const;
    const plan = await Conv2d.create(this.#weight, options);
    const output = plan.runSync(this.#image);
    const { workspaceBytes, tiles } = plan.explain().candidates.find(({ chosen }) => chosen)!;
    const { costCycles: _cost, otherCostCycles: _other, ...method } = tiles!;
    return {
      name,
      method: JSON.stringify({ workspaceBytes, ...method }),
      run: () => plan.runSync(this.#image, { output }),
      output: () => output.data,
      release: () => plan.dispose(),
    };
  }

  /** Nothing where the layer cannot be computed so. */
  async planIfPossible(variant: Variant): Promise<Planned[]> {
    try {
      return [await this.plan(variant)];
    } catch (error) {
      if (error instanceof WarpconvError && error.code === 'ERR_WARPCONV_UNSUPPORTED') return [];
      throw error;
    }
  }
}

async function measure(layer: Layer, quick: boolean): Promise<Record<string, number>> {
  const bench = new Workbench(layer);
  const base = await bench.plan(DEFAULT);
  const variants = (await Promise.all(VARIANTS.map((variant) => bench.planIfPossible(variant)))).flat();
  const contenders = [base, ...variants.filter(({ method }) => method !== base.method)];
  await verify(contenders, layer);
  const times = await timeInTurns(contenders, quick ? { rounds: 3, turn: 1 } : { rounds: 7, turn: 2 });
  [base, ...variants].forEach(({ release }) => release());
  return times;
}

async function main(): Promise<void> {
  const { quick, name, out } = scriptArguments();
  setThreads(1);
  const chosen = loadLayers('sconv-393');
  const progress = new Progress('ablation', chosen.length, 'layers');
  const layers: AblationResult['layers'][number][] = [];
  for (const layer of chosen) {
    layers.push({ ...layer, ms: await measure(layer, quick) });
    progress.show(layers.length);
  }
  const result = { ...circumstances(quick), variants: VARIANTS.map((variant) => variant.name), layers };
  if (!quick) writeJson(`${name ?? nameOf(result)}-ablation`, result, out);
  console.log(renderAblation(result));
}

if (require.main === module) {
  if (process.env.MALLOC_MMAP_MAX_ === KEEP_MEMORY.MALLOC_MMAP_MAX_) void main();
  else runScript('cpu/ablation.ts', process.argv.slice(2), { ...process.env, ...KEEP_MEMORY });
}

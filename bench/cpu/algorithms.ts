/**
 * Predicted and measured time of every CPU algorithm on a few layers: the evidence for the constants that
 * `estimate` in native/cpu multiplies by.
 *
 *     npx ts-node bench/cpu/algorithms.ts
 */
import { algorithms, Conv2d, setThreads, type AlgorithmName } from '../../lib';

import { describeMachine, randomTensor } from '../machine';
import { median } from '../statistics';

interface Layer {
  readonly name: string;
  readonly inputDims: readonly number[];
  readonly weightDims: readonly number[];
  readonly padding: number;
  readonly groups: number;
}

const LAYERS: readonly Layer[] = [
  { name: '3x3 at 56x56', inputDims: [1, 64, 56, 56], weightDims: [64, 64, 3, 3], padding: 1, groups: 1 },
  { name: '3x3 at 14x14', inputDims: [1, 256, 14, 14], weightDims: [256, 256, 3, 3], padding: 1, groups: 1 },
  { name: '1x1 at 28x28', inputDims: [1, 256, 28, 28], weightDims: [512, 256, 1, 1], padding: 0, groups: 1 },
  { name: 'depthwise 3x3', inputDims: [1, 96, 56, 56], weightDims: [96, 1, 3, 3], padding: 1, groups: 96 },
];
const REPEATS = 5;

async function measure(layer: Layer, algorithm: AlgorithmName): Promise<number> {
  const { inputDims, weightDims, padding, groups } = layer;
  const weight = randomTensor(weightDims);
  const plan = await Conv2d.create(weight, { inputDims, padding, groups, algorithm, device: 'cpu' });
  const input = randomTensor(inputDims);
  const output = plan.runSync(input);
  const times = Array.from({ length: REPEATS }, () => {
    const start = performance.now();
    plan.runSync(input, { output });
    return performance.now() - start;
  });
  plan.dispose();
  return median(times);
}

async function main(): Promise<void> {
  setThreads(1);
  console.log(`${describeMachine()}; median of ${REPEATS} runs in one thread`);
  for (const layer of LAYERS) {
    const { inputDims, weightDims, padding, groups } = layer;
    for (const { algorithm, predictedMilliseconds } of algorithms(
      { inputDims, weightDims, padding, groups },
      'cpu',
    )) {
      if (predictedMilliseconds === undefined) continue;
      const milliseconds = await measure(layer, algorithm);
      console.log(
        `${layer.name.padEnd(14)} ${algorithm.padEnd(8)} predicted ${predictedMilliseconds.toFixed(2).padStart(8)} ms, ` +
          `measured ${milliseconds.toFixed(2).padStart(8)} ms`,
      );
    }
  }
}

void main();

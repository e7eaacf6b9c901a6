/** A small trained network of five convolutions, and its classification of handwritten digits. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { Conv2d, devices, Tensor, type Device } from 'warpconv';

interface Layer {
  readonly name: string;
  /** K, C / groups, R, S */
  readonly weightDims: readonly number[];
  /** Where the filters and the biases start, in elements of weights.bin */
  readonly weightOffset: number;
  readonly biasOffset: number;
  readonly stride: number;
  readonly padding: number;
  readonly groups: number;
  readonly activation: 'none' | 'relu';
}

interface Network {
  readonly images: number;
  readonly classes: number;
  /** C, H, W of one image */
  readonly inputDims: readonly number[];
  /** Pixels run from 0 to this; the network takes 0 to 1 */
  readonly greyLevels: number;
  readonly pytorch: { readonly version: string; readonly correct: number };
  readonly layers: readonly Layer[];
}

/** What scripts/train_digits.py wrote: the network, and images it was not trained on. */
export interface Digits {
  readonly network: Network;
  readonly weights: Float32Array;
  /** N, 1, 8, 8; grey levels from 0 to 1 */
  readonly images: Tensor<'float32'>;
  readonly labels: Uint8Array;
  /** N x 10: what PyTorch computes for the images */
  readonly pytorchLogits: Float32Array;
}

export function loadDigits(directory = path.join(__dirname, 'data')): Digits {
  const bytes = (file: string) => new Uint8Array(readFileSync(path.join(directory, file)));
  // The files are little-endian, as is every processor that the package runs on.
  const floats = (file: string) => new Float32Array(bytes(file).buffer);
  const network = JSON.parse(readFileSync(path.join(directory, 'network.json'), 'utf8')) as Network;
  const grey = Float32Array.from(bytes('images.bin'), (level) => level / network.greyLevels);
  return {
    network,
    weights: floats('weights.bin'),
    images: new Tensor(grey, [network.images, ...network.inputDims]),
    labels: bytes('labels.bin'),
    pytorchLogits: floats('logits.bin'),
  };
}

/** `count` images from `first` on, as a batch and without a copy. */
export function someImages({ images, network }: Digits, first: number, count: number): Tensor<'float32'> {
  const size = images.size / network.images;
  const data = images.data.subarray(first * size, (first + count) * size);
  return new Tensor(data, [count, ...network.inputDims]);
}

/** The network, ready for batches of one size: one plan per layer. */
export class Classifier {
  private constructor(
    readonly plans: readonly Conv2d[],
    readonly device: Device,
  ) {}

  static async create(
    { network, weights }: Digits,
    batch: number,
    device: Device = bestDevice(),
  ): Promise<Classifier> {
    const plans: Conv2d[] = [];
    let inputDims: readonly number[] = [batch, ...network.inputDims];
    for (const layer of network.layers) {
      const plan = await createPlan(layer, weights, inputDims, device);
      plans.push(plan);
      inputDims = plan.outputDims;
    }
    return new Classifier(plans, device);
  }

  /** The logits of each image: batch x classes x 1 x 1. What is between the layers stays on the device. */
  async run(images: Tensor<'float32'>): Promise<Tensor<'float32'>> {
    let activations = await images.to(this.device);
    for (const plan of this.plans) {
      const outputs = await plan.run(activations);
      if (activations !== images) activations.dispose();
      activations = outputs;
    }
    const logits = await activations.to('cpu');
    if (logits !== activations) activations.dispose();
    return logits;
  }

  dispose(): void {
    for (const plan of this.plans) plan.dispose();
  }
}

/** The first GPU that can be used, or the CPU. */
export function bestDevice(): Device {
  return devices().find(({ type, available }) => type === 'cuda' && available)?.device ?? 'cpu';
}

function createPlan(
  layer: Layer,
  weights: Float32Array,
  inputDims: readonly number[],
  device: Device,
): Promise<Conv2d> {
  const { weightDims, weightOffset, biasOffset, stride, padding, groups, activation } = layer;
  const filters = weightDims[0]!;
  const weight = new Tensor(weights.subarray(weightOffset, biasOffset), weightDims);
  const bias = new Tensor(weights.subarray(biasOffset, biasOffset + filters), [filters]);
  return Conv2d.create(weight, { inputDims, bias, stride, padding, groups, activation, device });
}

/** The most likely class of each row of logits. */
export function classify(logits: Float32Array, classes: number): number[] {
  return Array.from({ length: logits.length / classes }, (_, row) => {
    const scores = logits.subarray(row * classes, (row + 1) * classes);
    return scores.indexOf(Math.max(...scores));
  });
}

/** A small trained network that reads handwritten digits, and images that it has never seen. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { devices, InferenceSession, Tensor, type Device } from 'warpconv';

interface HeldOut {
  readonly images: number;
  /** C, H, W of one image */
  readonly imageDims: readonly number[];
  /** Pixels run from 0 to this; the network takes 0 to 1 */
  readonly greyLevels: number;
  readonly pytorch: { readonly version: string; readonly correct: number };
}

/** What scripts/train_digits.py wrote beside the network: images it was not trained on. */
export interface Digits {
  readonly heldOut: HeldOut;
  /** N, 1, 8, 8; grey levels from 0 to 1 */
  readonly images: Tensor<'float32'>;
  readonly labels: Uint8Array;
  /** N x 10: what PyTorch computes for the images */
  readonly pytorchLogits: Float32Array;
}

export function loadDigits(): Digits {
  const file = (name: string) => path.join(__dirname, 'data', name);
  const bytes = (name: string) => new Uint8Array(readFileSync(file(name)));
  const heldOut = JSON.parse(readFileSync(file('held_out.json'), 'utf8')) as HeldOut;
  const grey = Float32Array.from(bytes('images.bin'), (level) => level / heldOut.greyLevels);
  return {
    heldOut,
    images: new Tensor(grey, [heldOut.images, ...heldOut.imageDims]),
    labels: bytes('labels.bin'),
    // The file is little-endian, as is every processor that the package runs on.
    pytorchLogits: new Float32Array(bytes('logits.bin').buffer),
  };
}

/** `count` images from `first` on, as a batch and without a copy. */
export function someImages({ images, heldOut }: Digits, first: number, count: number): Tensor<'float32'> {
  const size = images.size / heldOut.images;
  const data = images.data.subarray(first * size, (first + count) * size);
  return new Tensor(data, [count, ...heldOut.imageDims]);
}

/** Input `image`, N x 1 x 8 x 8; outputs `logits` and `probabilities`, N x 10 each. */
export function loadNetwork(device: Device = bestDevice()): Promise<InferenceSession> {
  return InferenceSession.create(path.join(__dirname, 'digits.onnx'), { device });
}

/** The logits of each image, one row after the other. */
export async function logitsOf(network: InferenceSession, images: Tensor<'float32'>): Promise<Float32Array> {
  const { logits } = await network.run({ image: images }, ['logits']);
  return (await logits!.getData(true)) as Float32Array;
}

/** The most likely class of each image. */
export function classify(logits: Float32Array, images: number): number[] {
  const classes = logits.length / images;
  return Array.from({ length: images }, (_, row) => {
    const scores = logits.subarray(row * classes, (row + 1) * classes);
    return scores.indexOf(Math.max(...scores));
  });
}

/** The first GPU that can be used, or the CPU. */
function bestDevice(): Device {
  return devices().find(({ type, available }) => type === 'cuda' && available)?.device ?? 'cpu';
}

/** For example `'cpu: AMD EPYC, avx512'`. */
export function describeDevice({ device }: InferenceSession): string {
  const found = devices().find((one) => one.device === device)!;
  const kind = found.type === 'cpu' ? found.isa : `compute capability ${found.computeCapability}`;
  return `${device}: ${found.name}, ${kind}`;
}

/**
 * Classifies 360 handwritten digits that the network has never seen, and compares every result with PyTorch's.
 * Ends with exit code 1 when the accuracy is not PyTorch's or a logit differs by more than `LARGEST_DIFFERENCE`.
 *
 *     npm run demo
 */
import type { InferenceSession } from 'warpconv';

import { draw, picturesPerLine } from './drawing';
import {
  classify,
  describeDevice,
  loadDigits,
  loadNetwork,
  logitsOf,
  someImages,
  type Digits,
} from './network';

const LARGEST_DIFFERENCE = 1e-4;
const MEASURED_SECONDS = 0.5;

async function main(): Promise<void> {
  const digits = loadDigits();
  const network = await loadNetwork();
  try {
    const { images } = digits.heldOut;
    const logits = await logitsOf(network, digits.images);
    const predictions = classify(logits, images);
    console.log(`Some of ${images} held-out images; below each what was recognised / what it is\n`);
    console.log(showImages(digits, predictions));
    console.log(`\ndevice     ${describeDevice(network)}`);
    console.log(await describeLayers(digits, network));
    console.log(await describeSpeed(digits, network));
    report(digits, predictions, logits);
  } finally {
    await network.release();
  }
}

/** A line of images: every mistake that there is room for, after images that were recognised. */
function showImages(digits: Digits, predictions: readonly number[]): string {
  const width = digits.heldOut.imageDims[2]!;
  const room = picturesPerLine(width);
  const indices = predictions.map((_, index) => index);
  const isRight = (index: number) => predictions[index] === digits.labels[index];
  const wrong = indices.filter((index) => !isRight(index)).slice(0, room);
  const right = indices.filter(isRight).slice(0, room - wrong.length);
  return draw(
    [...right, ...wrong].map((index) => ({
      pixels: someImages(digits, index, 1).data,
      width,
      caption: `${predictions[index]} / ${digits.labels[index]}${isRight(index) ? '' : ' !'}`,
    })),
  );
}

async function describeLayers({ images }: Digits, network: InferenceSession): Promise<string> {
  const { steps } = await network.explain({ image: images.dims });
  const layers = steps.flatMap(({ nodes, algorithm }) =>
    algorithm === undefined ? [] : [`${nodes[0]!.split('/')[1]} ${algorithm}`],
  );
  return `algorithms ${layers.join(', ')}`;
}

async function describeSpeed(digits: Digits, network: InferenceSession): Promise<string> {
  const { images } = digits.heldOut;
  const perBatch = await secondsPerCall(() => logitsOf(network, digits.images));
  let next = 0;
  const perImage = await secondsPerCall(() => logitsOf(network, someImages(digits, next++ % images, 1)));
  return (
    `speed      ${Math.round(images / perBatch)} images per second in batches of ${images}, ` +
    `${Math.round(1 / perImage)} one at a time (${(1000 * perImage).toFixed(2)} ms each)`
  );
}

/** The mean over calls made one after the other, the first not counted. */
async function secondsPerCall(call: () => Promise<unknown>): Promise<number> {
  await call();
  const start = performance.now();
  let [calls, seconds] = [0, 0];
  while (seconds < MEASURED_SECONDS) {
    await call();
    calls++;
    seconds = (performance.now() - start) / 1000;
  }
  return seconds / calls;
}

/** Prints accuracy and agreement; sets the exit code where they are not as they must be. */
function report(
  { heldOut, labels, pytorchLogits }: Digits,
  predictions: readonly number[],
  logits: Float32Array,
): void {
  const { images, pytorch } = heldOut;
  const correct = predictions.filter((digit, index) => digit === labels[index]).length;
  const percent = ((100 * correct) / images).toFixed(2);
  const difference = logits.reduce(
    (most, logit, i) => Math.max(most, Math.abs(logit - pytorchLogits[i]!)),
    0,
  );
  console.log(`logits     differ from PyTorch ${pytorch.version} by at most ${difference.toExponential(1)}`);
  console.log(`accuracy   ${correct}/${images} (${percent} %), PyTorch ${pytorch.correct}/${images}`);
  if (correct !== pytorch.correct) fail("the accuracy is not PyTorch's");
  // Not `>`, which a NaN would pass.
  if (!(difference <= LARGEST_DIFFERENCE))
    fail(`a logit differs from PyTorch's by more than ${LARGEST_DIFFERENCE}`);
}

function fail(reason: string): void {
  console.error(`FAILED: ${reason}`);
  process.exitCode = 1;
}

void main();

/**
 * Classifies 360 handwritten digits that the network has never seen, and compares every result with PyTorch's.
 * Ends with exit code 1 when the accuracy is not PyTorch's or a logit differs by more than `LARGEST_DIFFERENCE`.
 */
import { devices } from 'warpconv';

import { draw, picturesPerLine } from './drawing';
import { classify, Classifier, loadDigits, someImages, type Digits } from './network';

const LARGEST_DIFFERENCE = 1e-4;
const MEASURED_SECONDS = 0.5;

async function main(): Promise<void> {
  const digits = loadDigits();
  const batched = await Classifier.create(digits, digits.network.images);
  const single = await Classifier.create(digits, 1);
  try {
    const logits = (await batched.run(digits.images)).data;
    const predictions = classify(logits, digits.network.classes);
    console.log(
      `Some of ${digits.network.images} held-out images; below each what was recognised / what it is\n`,
    );
    console.log(showImages(digits, predictions));
    console.log(`\n${describeDevice(batched)}`);
    console.log(describeLayers(digits, batched));
    console.log(await describeSpeed(digits, batched, single));
    report(digits, predictions, logits);
  } finally {
    batched.dispose();
    single.dispose();
  }
}

/** A line of images: every mistake that there is room for, after images that were recognised. */
function showImages(digits: Digits, predictions: readonly number[]): string {
  const width = digits.network.inputDims[2]!;
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

function describeDevice({ device }: Classifier): string {
  const found = devices().find((one) => one.device === device)!;
  const kind = found.type === 'cpu' ? found.isa : `compute capability ${found.computeCapability}`;
  return `device     ${device}: ${found.name}, ${kind}`;
}

function describeLayers({ network }: Digits, { plans }: Classifier): string {
  const layers = network.layers.map(({ name }, index) => `${name} ${plans[index]!.algorithm}`);
  return `algorithms ${layers.join(', ')}`;
}

async function describeSpeed(digits: Digits, batched: Classifier, single: Classifier): Promise<string> {
  const { images } = digits.network;
  const perBatch = await secondsPerCall(() => batched.run(digits.images));
  let next = 0;
  const perImage = await secondsPerCall(() => single.run(someImages(digits, next++ % images, 1)));
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
  { network, labels, pytorchLogits }: Digits,
  predictions: readonly number[],
  logits: Float32Array,
): void {
  const { images, pytorch } = network;
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

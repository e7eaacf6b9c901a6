// Says what a picture shows: the five likeliest classes of a JPEG, PNG or WebP file.
//
//     node examples/classify.mjs [model.onnx] [picture.jpg] [labels.txt]
//
// Of its own it has a network that reads handwritten digits, and a picture of one. Other models are classifiers as
// torchvision exports them, say a ResNet-50: an input [N, 3, height, width] and an output with a number a class. What the
// classes are called is read from labels.txt, a name a line, or from model.txt beside model.onnx. Needs sharp: npm install sharp
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { DIGITS, openClassifier } from './shared/classifier.mjs';
import { PICTURE, readNamed } from './shared/pictures.mjs';

const USAGE = 'usage: node examples/classify.mjs [model.onnx] [picture.jpg] [labels.txt]';
const PICTURE_OF_AN_EIGHT = fileURLToPath(new URL('digits/eight.jpg', import.meta.url));

async function main([model = DIGITS, picture, labels, ...rest]) {
  if (model === '-h' || model === '--help') return console.log(USAGE);
  if (rest.length > 0) throw new Error(`${rest[0]} is one argument too many\n${USAGE}`);
  if (PICTURE.test(model)) throw new Error(`${model} is a picture; the model comes before it\n${USAGE}`);
  if (picture === undefined && model !== DIGITS) throw new Error(`name a picture\n${USAGE}`);

  const classifier = await openClassifier(model, { labels });
  await readNamed(picture ?? PICTURE_OF_AN_EIGHT, async (file) => {
    const start = performance.now();
    const pixels = await classifier.decode(await readFile(file));
    const decoded = performance.now();
    const classes = await classifier.rank(pixels);
    const [decoding, run] = [decoded - start, performance.now() - decoded].map((time) => time.toFixed(1));
    console.log(`${classifier.name} sees in ${path.basename(file)}:`);
    for (const { label, score } of classes)
      console.log(`${(100 * score).toFixed(1).padStart(6)} %  ${label}`);
    console.log(`on ${classifier.device}: decoding ${decoding} ms, run ${run} ms`);
  });
  await classifier.release();
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

/**
 * A classifier of pictures: a file of JPEG, PNG or WebP goes in, and the likeliest classes come out.
 *
 * The model has one input [N, 3, height, width], prepared as torchvision prepares ImageNet's pictures, or [N, 1, height, width]
 * of grey levels from 0 to 1. Its first output has one number a class: logits or probabilities.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { InferenceSession, Tensor } from 'warpconv';

import { loadSharp, readNamed, readNames } from './pictures.mjs';

/** The model of its own: it reads handwritten digits, bright on dark. */
export const DIGITS = fileURLToPath(new URL('../digits/digits.onnx', import.meta.url));

/** By the number of channels. `crop` is the part of the picture's shorter side that the network sees. */
const PREPARATIONS = {
  3: { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], crop: 224 / 256, space: 'srgb' },
  1: { mean: 0, std: 1, crop: 1, space: 'b-w' },
};
/** Of networks that take pictures of any size */
const USUAL_EXTENT = 224;
/** A small file may stand for any number of pixels. */
const MOST_PIXELS = 2 ** 26;

/**
 * Loads a model once, for as many pictures as there are.
 *
 * @param labels - a file with a name a line; by default model.txt beside model.onnx, if there is one
 */
export async function openClassifier(model = DIGITS, { labels, device = 'auto' } = {}) {
  const sharp = await loadSharp();
  const names = await (labels === undefined
    ? readNames(model)
    : readNamed(labels, (file) => readNames(model, file)));
  const session = await readNamed(model, (file) => InferenceSession.create(file, { device }));
  const input = findInput(session, model);
  const { mean, std } = input.preparation;
  // Bytes become floats where the network runs: (byte / 255 - mean) / std.
  const network = session.forImages({ mean, std });
  const [output] = session.outputNames;

  async function scoresOf(pixels, signal) {
    const image = new Tensor('uint8', pixels, [1, input.height, input.width, input.channels]);
    const outputs = await network.run({ [input.name]: image }, [output], { signal });
    return outputs[output];
  }

  // The first run compiles: nobody waits for that.
  const { size, dims } = await scoresOf(new Uint8Array(input.height * input.width * input.channels));
  if (Math.max(...dims) !== size)
    throw new Error(`${model}: a classifier gives one number a class; '${output}' is [${dims}]`);
  if (names.length > 0 && names.length !== size)
    throw new Error(`${labels ?? `the names beside ${model}`}: ${names.length} names for ${size} classes`);

  return {
    session,
    name: path.basename(model),
    device: session.device,
    /** The pixels of a file, as the network takes them. */
    decode: (file) => decode(sharp, file, input),
    /** The likeliest classes of such pixels, the best first: `{ label, score }` with scores from 0 to 1. */
    async rank(pixels, { top = 5, signal } = {}) {
      const scores = probabilities((await scoresOf(pixels, signal)).data);
      const order = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, top);
      return order.map((kind) => ({ label: names[kind] ?? `class ${kind}`, score: scores[kind] }));
    },
    /** Both: from the bytes of a file to its classes. */
    async classify(file, options) {
      return this.rank(await this.decode(file), options);
    },
    release: () => session.release(),
  };
}

function findInput({ inputMetadata }, model) {
  const [{ name, shape }, ...others] = inputMetadata;
  const preparation = PREPARATIONS[shape?.[1]];
  if (others.length > 0 || shape?.length !== 4 || preparation === undefined) {
    const found = inputMetadata.map((one) => `'${one.name}' [${one.shape}]`).join(', ');
    throw new Error(
      `${model}: a classifier has one input [N, 3 or 1, height, width]; this model has ${found}`,
    );
  }
  const [height, width] = shape.slice(2).map((extent) => (Number(extent) > 0 ? extent : USUAL_EXTENT));
  return { name, channels: shape[1], height, width, preparation };
}

/** Upright, scaled to cover the network's extents and the rim that is not seen; the middle is cut out. */
async function decode(sharp, file, { height, width, preparation: { crop, space } }) {
  // sharp takes a string for the path of a file to open. Here it would come from a client.
  if (!(file instanceof Uint8Array)) throw notAPicture('a file of JPEG, PNG or WebP is needed');
  const [outerWidth, outerHeight] = [width, height].map((extent) => Math.round(extent / crop));
  const [left, top] = [(outerWidth - width) >> 1, (outerHeight - height) >> 1];
  try {
    return await sharp(file, { limitInputPixels: MOST_PIXELS })
      .rotate()
      .resize(outerWidth, outerHeight, { fit: 'cover' })
      .extract({ left, top, width, height })
      .removeAlpha()
      .toColourspace(space)
      .raw()
      .toBuffer();
  } catch (cause) {
    throw notAPicture(cause.message, cause);
  }
}

function notAPicture(why, cause) {
  const error = new Error(`not a picture that can be read: ${why}`, { cause });
  return Object.assign(error, { code: 'ERR_PICTURE' });
}

/** Of logits, their softmax; probabilities stay as they are. */
function probabilities(scores) {
  const sum = scores.reduce((total, one) => total + one, 0);
  if (scores.every((one) => one >= 0) && Math.abs(sum - 1) < 1e-3) return scores;
  const most = scores.reduce((a, b) => Math.max(a, b));
  const powers = scores.map((one) => Math.exp(one - most));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((one) => one / total);
}

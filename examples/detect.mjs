// A detection model end to end: a picture in, boxes drawn out, on the GPU or the CPU.
//
//     node examples/detect.mjs [model.onnx] [picture.jpg] [out.png] [--device cpu|cuda]
//
// Of its own it has a small network, made by scripts/make_detector.py, and a picture of coloured shapes. Other models have
// one input [1, 3, height, width] and end as YOLOv5 does ([1, N, 5 + classes]), as YOLOv8 does ([1, 4 + classes, N]), or as
// SSD does (boxes [1, N, 4] and scores [1, N, classes]), with a NonMaxSuppression or without, or as YOLOv10 and others do that
// select themselves ([1, N, 6]: x1, y1, x2, y2, score, class). What their classes are called is read from model.txt beside
// model.onnx, a name a line. Needs sharp: npm install sharp
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { InferenceSession, Tensor } from 'warpconv';

import { readOutputs } from './detect/outputs.mjs';
import { loadSharp, PICTURE, readNamed, readNames } from './shared/pictures.mjs';

const USAGE = `usage: node examples/detect.mjs [model.onnx] [picture.jpg] [out.png] [options]
  --device cpu|cuda   default: the GPU, if there is one
  --score 0.4         least score of what is shown
  --overlap 0.45      most overlap of two boxes of a class: their intersection over their union
  --mean 0 --std 255  of the bytes of a picture: the network gets (byte - mean) / std
  -h, --help          print this`;

/** What is drawn is written in the format of its ending. */
const FORMATS = { '.png': 'png', '.jpg': 'jpeg', '.jpeg': 'jpeg', '.webp': 'webp' };

/** Of networks that take pictures of any size */
const USUAL_EXTENT = 640;
/** Around pictures of another shape than the network's, as YOLO has it */
const GREY = '#727272';
const COLOURS = ['#ff00ff', '#ffb000', '#00e5ff', '#ff6f00', '#a0ff00', '#7c4dff', '#ff4081', '#ffffff'];
const MOST_OF_A_CLASS = 100;

const own = (name) => fileURLToPath(new URL(`detect/${name}`, import.meta.url));

const misuse = (complaint) => new Error(`${complaint}\n${USAGE}`);

function parse() {
  const text = (value) => ({ type: 'string', default: value });
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        ...{
          device: text('auto'),
          score: text('0.4'),
          overlap: text('0.45'),
          mean: text('0'),
          std: text('255'),
        },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw misuse(error.message);
  }
}

/** What the command line asks for; `undefined` where that is help. */
function readArguments() {
  const { values, positionals } = parse();
  if (values.help) return undefined;
  if (positionals.length > 3) throw misuse(`${positionals[3]} is one argument too many`);
  const [model = own('shapes.onnx'), picture = own('shapes.svg'), out = 'detected.png'] = positionals;
  if (PICTURE.test(model)) throw misuse(`${model} is a picture; the model comes before it`);
  const format = FORMATS[path.extname(out).toLowerCase()];
  if (format === undefined)
    throw misuse(`${out} cannot be written: it must end in ${Object.keys(FORMATS).join(', ')}`);
  const number = (name) => {
    if (!Number.isNaN(Number(values[name]))) return Number(values[name]);
    throw misuse(`--${name} must be a number, got '${values[name]}'`);
  };
  const [score, overlap, mean, std] = ['score', 'overlap', 'mean', 'std'].map(number);
  return { model, picture, out, format, device: values.device, score, overlap, mean, std };
}

/** How long each part took, in the order of the parts. */
const times = [];

async function timed(part, work) {
  const start = performance.now();
  const result = await work();
  times.push(`${part} ${(performance.now() - start).toFixed(1)} ms`);
  return result;
}

/** The network's input, and the height and the width of the pictures that it takes. */
function findInput({ inputMetadata }) {
  const [{ name, shape }, ...others] = inputMetadata;
  if (others.length > 0 || shape?.length !== 4 || shape[1] !== 3) {
    const found = inputMetadata.map((one) => `'${one.name}' [${one.shape}]`).join(', ');
    throw new Error(`a detector has one input of shape [1, 3, height, width]; this model has ${found}`);
  }
  const [height, width] = shape.slice(2).map((extent) => (Number(extent) > 0 ? extent : USUAL_EXTENT));
  return { name, height, width };
}

/** Where a picture lies in the network's input: scaled to fit, in the middle. */
function letterbox(picture, { height, width }) {
  const scale = Math.min(width / picture.width, height / picture.height);
  const inner = [picture.width, picture.height].map((extent) => Math.max(1, Math.round(extent * scale)));
  const left = Math.floor((width - inner[0]) / 2);
  const top = Math.floor((height - inner[1]) / 2);
  // Extents are rounded, so that the two scales differ a little.
  return { left, top, inner, scales: [inner[0] / picture.width, inner[1] / picture.height] };
}

/** The pixels [1, height, width, 3] for the network. */
function fit(image, { left, top, inner }, { height, width }) {
  const [right, bottom] = [width - left - inner[0], height - top - inner[1]];
  return image
    .clone()
    .resize(inner[0], inner[1], { fit: 'fill' })
    .extend({ left, top, right, bottom, background: GREY })
    .raw()
    .toBuffer();
}

/** The rows [picture, class, box] of what is left when of boxes that overlap only the best is kept. */
async function suppress({ boxes, scores, count, classes }, { score, overlap }) {
  const session = await InferenceSession.create(own('suppression.onnx'), { device: 'cpu' });
  const { selected } = await session.run({
    boxes: new Tensor('float32', boxes, [1, count, 4]),
    scores: new Tensor('float32', scores, [1, classes, count]),
    most: new Tensor('int64', [BigInt(MOST_OF_A_CLASS)], [1]),
    overlap: new Tensor('float32', [overlap], [1]),
    least: new Tensor('float32', [score], [1]),
  });
  await session.release();
  return selected.data;
}

/** Boxes in pixels of the picture, the best first. */
function inPicture({ boxes, scores, count }, selected, { left, top, scales }, picture, least) {
  const clamp = (value, most) => Math.min(Math.max(value, 0), most);
  const detections = [];
  for (let row = 0; row < selected.length; row += 3) {
    const [kind, box] = [Number(selected[row + 1]), Number(selected[row + 2])];
    const score = scores[kind * count + box];
    if (score <= least) continue;
    const [x1, y1, x2, y2] = boxes.subarray(4 * box, 4 * box + 4);
    detections.push({
      ...{ kind, score },
      left: clamp((x1 - left) / scales[0], picture.width),
      top: clamp((y1 - top) / scales[1], picture.height),
      right: clamp((x2 - left) / scales[0], picture.width),
      bottom: clamp((y2 - top) / scales[1], picture.height),
    });
  }
  return detections.sort((a, b) => b.score - a.score);
}

const escape = (text) => text.replace(/[<>&]/g, (one) => `&#${one.charCodeAt(0)};`);

/** An SVG of the picture's size, to lie over it. */
function overlay(detections, nameOf, { width, height }) {
  const line = Math.max(2, Math.round(Math.max(width, height) / 300));
  const size = 5 * line;
  const parts = detections.map(({ kind, score, left, top, right, bottom }) => {
    const colour = COLOURS[kind % COLOURS.length];
    const label = escape(`${nameOf(kind)} ${score.toFixed(2)}`);
    // Above its box, or inside where there is no room.
    const foot = top > size + line ? top - line : top + size + line;
    const font = `font-family="sans-serif" font-size="${size}" font-weight="bold"`;
    const halo = `stroke="#000000" stroke-width="${line}" paint-order="stroke" stroke-linejoin="round"`;
    return `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" fill="none"
      stroke="${colour}" stroke-width="${line}"/>
      <text x="${left + line}" y="${foot}" fill="${colour}" ${halo} ${font}>${label}</text>`;
  });
  return Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${parts.join('')}</svg>`,
  );
}

function describePlace({ left, top, right, bottom }) {
  const [x, y, width, height] = [left, top, right - left, bottom - top].map(Math.round);
  return `${x}, ${y}, ${width} x ${height}`;
}

async function main() {
  const request = readArguments();
  if (request === undefined) return console.log(USAGE);
  const sharp = await loadSharp();
  const { mean, std } = request;
  const session = await timed('loading', () =>
    readNamed(request.model, (file) => InferenceSession.create(file, { device: request.device })),
  );
  const input = findInput(session);
  // Bytes become floats where the network runs: (byte - mean) / std.
  const network = session.forImages({ scale: 1, mean, std });

  // Turned upright, without transparency.
  const upright = (file) => sharp(file).rotate().flatten({ background: GREY }).toColourspace('srgb').raw();
  const { data, info: picture } = await timed('decoding', () =>
    readNamed(request.picture, (file) => upright(file).toBuffer({ resolveWithObject: true })),
  );
  const image = sharp(data, {
    raw: { width: picture.width, height: picture.height, channels: picture.channels },
  });
  const place = letterbox(picture, input);
  const pixels = await timed('scaling', () => fit(image, place, input));
  const feeds = {
    [input.name]: new Tensor('uint8', pixels, [1, input.height, input.width, 3]),
  };
  await timed('compiling and first run', () => network.run(feeds));
  const outputs = await timed('run', () => network.run(feeds));
  const found = readOutputs(outputs, input);
  const selected = found.selected ?? (await timed('suppression', () => suppress(found, request)));
  const detections = inPicture(found, selected, place, picture, request.score);

  const names = await readNames(request.model);
  const nameOf = (kind) => names[kind] || `class ${kind}`;
  await timed('drawing', () =>
    image
      .composite([{ input: overlay(detections, nameOf, picture) }])
      .toFormat(request.format)
      .toFile(request.out),
  );
  console.log(
    `${path.basename(request.model)} found ${detections.length} in ${path.basename(request.picture)}:`,
  );
  for (const one of detections) {
    console.log(`  ${nameOf(one.kind)} ${one.score.toFixed(2)} at ${describePlace(one)}`);
  }
  console.log(`on ${network.device}: ${times.join(', ')}`);
  console.log(`drawn in ${request.out}`);
  await network.release();
  await session.release();
}

try {
  await main();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

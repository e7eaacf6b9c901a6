/** Where the zoo's models are, and what they are given where their files leave it open. */
import { readdirSync } from 'node:fs';
import path from 'node:path';

/** Of a model's inputs by their names: dims, where the file leaves some open. */
type Dims = Readonly<Record<string, readonly number[]>>;

/** By the names of files, without their ending. Extents that neither says are 1. */
const DIMS: Readonly<Record<string, Dims>> = {
  'ch_PP-OCRv4_det_infer': { x: [1, 3, 640, 640] },
  'ch_PP-OCRv4_rec_infer': { x: [1, 3, 48, 320] },
  'ch_ppocr_mobile_v2.0_cls_infer': { x: [1, 3, 48, 192] },
  embedding_model: { input_1: [1, 76, 32, 1] },
  melspectrogram: { input: [1, 16000] },
  silero_vad: { input: [1, 1536], h: [2, 1, 64], c: [2, 1, 64] },
  silero_vad_legacy: { input: [1, 1536], h: [2, 1, 64], c: [2, 1, 64] },
  silero_vad_v5: { input: [1, 512], state: [2, 1, 128] },
  silero_vad_v6: { input: [1, 512], state: [2, 1, 128] },
};

/** Second dims of the models that leave some open: the zoo measures the first run with them. */
const OTHER_DIMS: Readonly<Record<string, Dims>> = {
  'ch_PP-OCRv4_det_infer': { x: [1, 3, 480, 640] },
  'ch_PP-OCRv4_rec_infer': { x: [1, 3, 48, 240] },
  'ch_ppocr_mobile_v2.0_cls_infer': { x: [2, 3, 48, 192] },
  embedding_model: { input_1: [2, 76, 32, 1] },
  melspectrogram: { input: [1, 12800] },
  silero_vad: { input: [2, 1536], h: [2, 2, 64], c: [2, 2, 64] },
  silero_vad_legacy: { input: [2, 1536], h: [2, 2, 64], c: [2, 2, 64] },
  silero_vad_v5: { input: [2, 512], state: [2, 2, 128] },
  silero_vad_v6: { input: [2, 512], state: [2, 2, 128] },
};

/** What integers are: the rate of a sound, in samples a second. */
const INTEGERS: Readonly<Record<string, bigint>> = { sr: 16000n };

export interface ZooModel {
  readonly name: string;
  /** The npm package that it comes in */
  readonly from: string;
  readonly file: string;
}

/** All files of the packages that are installed in `folder`. */
export function zooModels(folder: string, packages: readonly string[]): ZooModel[] {
  const found = packages.flatMap((from) => {
    const root = path.join(folder, 'node_modules', from);
    const files = readdirSync(root, { recursive: true, encoding: 'utf8' });
    return files
      .filter((file) => file.endsWith('.onnx') && !file.includes('node_modules'))
      .map((file) => ({ name: path.basename(file, '.onnx'), from, file: path.join(root, file) }));
  });
  return found.sort((a, b) => (a.from + a.name < b.from + b.name ? -1 : 1));
}

/** An input as the model says it. */
export interface Input {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly (number | string)[];
}

export interface ZooFeed {
  readonly type: 'float32' | 'int64' | 'uint8' | 'bool';
  readonly dims: readonly number[];
  readonly data: Float32Array | BigInt64Array | Uint8Array;
}

/** Models that find nothing in noise, so that all they give is nearly 0: they are given a page. */
const READERS: readonly string[] = ['ch_PP-OCRv4_det_infer'];

export function hasOtherDims(model: string): boolean {
  return model in OTHER_DIMS;
}

/** Numbers from 0 to 1, or a page, the same for every run. With `others`, of other dims. */
export function feedOf(model: string, { name, type, shape }: Input, others = false): ZooFeed {
  const dims =
    (others ? OTHER_DIMS : DIMS)[model]?.[name] ??
    shape.map((extent) => (typeof extent === 'number' ? extent : 1));
  const length = dims.reduce((product, extent) => product * extent, 1);
  const numbers = READERS.includes(model) ? pageOf(dims) : Float32Array.from({ length }, randomNumbers());
  switch (type) {
    case 'float32':
      return { type, dims, data: numbers };
    case 'int64':
      return { type, dims, data: new BigInt64Array(length).fill(INTEGERS[name] ?? 1n) };
    case 'uint8':
      return { type, dims, data: Uint8Array.from(numbers, (number) => number * 256) };
    case 'bool':
      return { type, dims, data: new Uint8Array(length).fill(1) };
    default:
      throw new Error(`${model} has an input of ${type}; the zoo has none of that type`);
  }
}

/** White paper with eight or so lines of dark marks, of 4 pixels each way, in [1, C, H, W] of mean 0 and variance 1 or so. */
function pageOf(dims: readonly number[]): Float32Array {
  const [, channels, height, width] = dims as [number, number, number, number];
  const [paper, ink] = [2.4, -2];
  const margin = width / 10;
  const map = Float32Array.from({ length: height * width }, (_, i) => {
    const [x, y] = [i % width, Math.floor(i / width)];
    const isLine = y % 64 < 24 && x > margin && x < width - margin;
    return isLine && isMark(x >> 2, y >> 2) ? ink : paper;
  });
  const page = new Float32Array(channels * map.length);
  for (let c = 0; c < channels; c++) page.set(map, c * map.length);
  return page;
}

/** Of two in five places, scattered */
function isMark(column: number, row: number): boolean {
  return (Math.imul(column * 7919 + row * 104729, 2654435761) >>> 0) % 5 < 2;
}

/** A linear congruential generator: short, and the same everywhere. */
function randomNumbers(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

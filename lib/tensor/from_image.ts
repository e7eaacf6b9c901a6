/** Images as tensors and back, as onnxruntime-common's `Tensor.fromImage` and `toImageData` have it. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import {
  checkInteger,
  checkNumber,
  checkOneOf,
  isList,
  isObject,
  MAX_INT32,
  mismatch,
  propertyOf,
  readProperties,
  invalid,
} from '../check';
import { WarpconvError } from '../errors';
import { requireHere } from '../here';
import { kindOf } from './typed_array';

/** Pixels as sharp gives them, or an `ImageData`: rows from the top, the channels of a pixel next to each other. */
export interface RawImage {
  readonly data: Uint8Array | Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
  /** 1, 3 or 4; what the data are enough for unless given */
  readonly channels?: number;
}

/** What sharp's `raw().toBuffer({ resolveWithObject: true })` gives. */
export interface SharpOutput {
  readonly data: Uint8Array;
  readonly info: Omit<RawImage, 'data'>;
}

/** The order of a tensor's channels. */
export type ImageFormat = 'RGB' | 'RGBA' | 'BGR' | 'RBG';

/** What the numbers of a channel are brought to: `(byte + bias) / mean`. */
export interface ImageNorm {
  /** Of all channels, or of each; default 255 */
  readonly mean?: number | readonly number[];
  /** Of all channels, or of each; default 0 */
  readonly bias?: number | readonly number[];
}

/** The options of {@link Tensor.fromImage}. */
export interface FromImageOptions {
  /** Both or none. The aspect is not kept. */
  readonly resizedWidth?: number;
  readonly resizedHeight?: number;
  /** Default `'RGB'`. */
  readonly tensorFormat?: ImageFormat;
  /** Default `'NCHW'`. */
  readonly tensorLayout?: 'NCHW' | 'NHWC';
  /** Default `'float32'`; `'uint8'` has the bytes as they are. */
  readonly dataType?: 'float32' | 'uint8';
  readonly norm?: ImageNorm;
}

/** The options of {@link Tensor.toImageData}. */
export interface ToImageDataOptions {
  /** What the tensor's channels are; default `'RGB'`, and `'RGBA'` for four. */
  readonly format?: ImageFormat;
  readonly tensorLayout?: 'NCHW' | 'NHWC';
  /** Bytes are `(number - bias) * mean`, brought to 0 to 255. */
  readonly norm?: ImageNorm;
}

const FORMATS = ['RGB', 'RGBA', 'BGR', 'RBG'] as const;
const LAYOUTS = ['NCHW', 'NHWC'] as const;

/** For each channel of a tensor its place in a pixel of red, green, blue and opacity. */
const PLACES: Readonly<Record<ImageFormat, readonly number[]>> = {
  RGB: [0, 1, 2],
  RGBA: [0, 1, 2, 3],
  BGR: [2, 1, 0],
  RBG: [0, 2, 1],
};

/** What a tensor is made of. */
export interface ImageElements {
  readonly type: 'float32' | 'uint8';
  readonly data: Float32Array | Uint8Array;
  readonly dims: readonly number[];
}

const DEFAULTS = {
  resizedWidth: undefined,
  resizedHeight: undefined,
  tensorFormat: 'RGB',
  tensorLayout: 'NCHW',
  dataType: 'float32',
  norm: {},
} as const satisfies Record<keyof FromImageOptions, unknown>;

/** @param image - pixels, or an encoded image: its bytes, the path of a file, or a `file:` URL */
export async function imageElements(image: unknown, options: unknown = {}): Promise<ImageElements> {
  const given = readProperties('options', options, DEFAULTS);
  const format = checkOneOf('options.tensorFormat', given.tensorFormat, FORMATS);
  const layout = checkOneOf('options.tensorLayout', given.tensorLayout, LAYOUTS);
  const type = checkOneOf('options.dataType', given.dataType, ['float32', 'uint8'] as const);
  const norm = readNorm(given.norm);
  const size = readSize(given.resizedWidth, given.resizedHeight);
  const raw = await pixelsOf(image, size);
  const channels = channelsOf(raw);
  const { data, width, height } = raw;
  const places = PLACES[format];
  const area = width * height;
  const elements =
    type === 'float32' ? new Float32Array(area * places.length) : new Uint8Array(area * places.length);
  const [pixelStride, channelStride] = layout === 'NHWC' ? [places.length, 1] : [1, area];
  for (const [channel, place] of places.entries()) {
    const [mean, bias] = [norm.mean[place]!, norm.bias[place]!];
    // A grey pixel is the same in all colours, and one without opacity is opaque.
    const from = place === 3 ? (channels === 4 ? 3 : -1) : channels === 1 ? 0 : place;
    for (let i = 0; i < area; i++) {
      const byte = from < 0 ? 255 : data[i * channels + from]!;
      elements[i * pixelStride + channel * channelStride] = type === 'float32' ? (byte + bias) / mean : byte;
    }
  }
  const dims = layout === 'NHWC' ? [1, height, width, places.length] : [1, places.length, height, width];
  return { type, data: elements, dims };
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function readSize(width: unknown, height: unknown): Size | undefined {
  if (width === undefined && height === undefined) return undefined;
  const range = { min: 1, max: MAX_INT32 } as const;
  return {
    width: checkInteger('options.resizedWidth', width, range),
    height: checkInteger('options.resizedHeight', height, range),
  };
}

interface Norm {
  readonly mean: readonly number[];
  readonly bias: readonly number[];
}

function readNorm(value: unknown): Norm {
  const given = readProperties('options.norm', value, { mean: 255, bias: 0 });
  const list = (name: string, one: unknown, opacity: number): number[] => {
    if (!isList(name, one)) return new Array<number>(4).fill(checkNumber(name, one));
    if (one.length !== 3 && one.length !== 4) throw mismatch(name, 'a number, or 3 or 4 of them', one);
    const numbers = one.map((number, i) => checkNumber(`${name}[${i}]`, number));
    return numbers.length === 3 ? [...numbers, opacity] : numbers;
  };
  const mean = list('options.norm.mean', given.mean, 255);
  if (mean.includes(0)) throw invalid('options.norm.mean must not be 0: the elements are divided by it');
  return { mean, bias: list('options.norm.bias', given.bias, 0) };
}

async function pixelsOf(image: unknown, size: Size | undefined): Promise<RawImage> {
  if (kindOf(image) === 'Uint8Array') return decode(image as Uint8Array, size);
  const file = fileOf(image);
  if (file !== undefined) return decode(await readImage(file), size);
  const raw = readRaw(image);
  if (size === undefined || (size.width === raw.width && size.height === raw.height)) return raw;
  return resize(raw, size);
}

/** The path or the URL, as text. `undefined` if the image is given in another way. */
function fileOf(image: unknown): string | undefined {
  if (typeof image === 'string') return image;
  // A URL of any realm.
  const href = isObject(image) ? propertyOf(image, 'href') : undefined;
  return typeof href === 'string' ? href : undefined;
}

function readRaw(image: unknown): RawImage {
  const data = isObject(image) ? propertyOf(image, 'data') : undefined;
  if (!isObject(image) || data === undefined) throw noImage(image);
  const info = propertyOf(image, 'info');
  const [named, sized] = isObject(info) ? ['image.info', info] : ['image', image];
  const range = { min: 1, max: MAX_INT32 } as const;
  const width = checkInteger(`${named}.width`, propertyOf(sized, 'width'), range);
  const height = checkInteger(`${named}.height`, propertyOf(sized, 'height'), range);
  const channels = propertyOf(sized, 'channels');
  if (kindOf(data) !== 'Uint8Array' && kindOf(data) !== 'Uint8ClampedArray') {
    throw mismatch('image.data', 'a Uint8Array or Uint8ClampedArray', data);
  }
  const raw = { data: data as Uint8Array, width, height, channels: channels as number | undefined };
  if (![1, 3, 4].includes(channelsOf(raw)) || raw.data.length !== width * height * channelsOf(raw)) {
    throw invalid(
      `image.data has ${raw.data.length} bytes; ${width} x ${height} pixels of 1, 3 or 4 channels have ` +
        [1, 3, 4].map((count) => width * height * count).join(', '),
    );
  }
  return raw;
}

function noImage(image: unknown): WarpconvError {
  const what =
    "{ data, width, height }, sharp's { data, info }, the bytes of an encoded image, its path or its file: URL";
  // An instance of sharp, say, or a canvas.
  const canEncode = isObject(image) && typeof propertyOf(image, 'toBuffer') === 'function';
  return mismatch('image', what, image, canEncode ? '; pass what its toBuffer() resolves to' : '');
}

function channelsOf({ data, width, height, channels }: RawImage): number {
  return channels ?? data.length / (width * height);
}

/** Those that people pass. Other texts with a colon are paths. */
const URL_TEXT = /^(file|https?|data|blob):/i;

async function readImage(name: string): Promise<Uint8Array> {
  try {
    // It refuses all but file: URLs.
    return await readFile(URL_TEXT.test(name) ? fileURLToPath(name) : name);
  } catch (cause) {
    const message = `image cannot be read: ${(cause as Error).message}`;
    throw new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', message, { cause });
  }
}

/** The part of sharp that is used here. */
interface Pipeline {
  rotate(): Pipeline;
  resize(width: number, height: number, options: { fit: 'fill' }): Pipeline;
  toColourspace(space: 'srgb'): Pipeline;
  raw(): Pipeline;
  toBuffer(options: { resolveWithObject: true }): Promise<{
    data: Buffer;
    info: { width: number; height: number; channels: number };
  }>;
}

type Sharp = (
  body: Uint8Array,
  options?: { raw: { width: number; height: number; channels: number } },
) => Pipeline;

function loadSharp(what: string): Sharp {
  try {
    return requireHere('sharp') as Sharp;
  } catch (cause) {
    // The list of files that follows is about this package.
    const [reason] = (cause as Error).message.split('\nRequire stack:');
    const message = `${what} needs sharp: npm install sharp (${reason})`;
    throw new WarpconvError('ERR_WARPCONV_UNSUPPORTED', message, { cause });
  }
}

async function decode(body: Uint8Array, size: Size | undefined): Promise<RawImage> {
  const sharp = loadSharp('decoding an image');
  try {
    return await rawOf(sharp(body).rotate(), size);
  } catch (cause) {
    const message = `image is no image that sharp decodes: ${(cause as Error).message}`;
    throw new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', message, { cause });
  }
}

async function resize(raw: RawImage, size: Size): Promise<RawImage> {
  const sharp = loadSharp('resizing an image');
  const { data, width, height } = raw;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.length);
  return rawOf(sharp(bytes, { raw: { width, height, channels: channelsOf(raw) } }), size);
}

async function rawOf(pipeline: Pipeline, size: Size | undefined): Promise<RawImage> {
  const sized = size === undefined ? pipeline : pipeline.resize(size.width, size.height, { fit: 'fill' });
  const { data, info } = await sized.toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height, channels: info.channels };
}

/** The first image of a tensor [N, C, H, W] or [N, H, W, C], as an `ImageData` has it. */
export function imageData(
  elements: ArrayLike<number | bigint>,
  dims: readonly number[],
  options: unknown = {},
): Required<Omit<RawImage, 'channels'>> & { readonly colorSpace: 'srgb' } {
  const given = readProperties('options', options, { format: undefined, tensorLayout: 'NCHW', norm: {} });
  const layout = checkOneOf('options.tensorLayout', given.tensorLayout, LAYOUTS);
  const norm = readNorm(given.norm);
  const [, ...rest] = dims;
  const [height, width, channels] = layout === 'NHWC' ? rest : [rest[1]!, rest[2]!, rest[0]!];
  const format =
    given.format === undefined
      ? channels === 4
        ? 'RGBA'
        : 'RGB'
      : checkOneOf('options.format', given.format, FORMATS);
  const places = PLACES[format];
  if (dims.length !== 4 || dims[0] === 0 || channels !== places.length) {
    throw invalid(
      `the tensor has dims [${dims.join(', ')}]; an image of ${format} in ${layout} has 4, and ${places.length} channels`,
    );
  }
  const area = width! * height!;
  const [pixelStride, channelStride] = layout === 'NHWC' ? [channels, 1] : [1, area];
  const data = new Uint8ClampedArray(area * 4).fill(255);
  for (const [channel, place] of places.entries()) {
    const [mean, bias] = [norm.mean[place]!, norm.bias[place]!];
    for (let i = 0; i < area; i++) {
      data[i * 4 + place] = (Number(elements[i * pixelStride + channel * channelStride]) - bias) * mean;
    }
  }
  return { data, width: width!, height: height!, colorSpace: 'srgb' };
}

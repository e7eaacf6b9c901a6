/** Bodies that are an image: JPEG, PNG or WebP, decoded by sharp where that is installed, on its own threads. */
import type { IncomingHttpHeaders } from 'node:http';

import { describe, invalid } from '../check';
import type { Holding, RequestMemory } from './memory';
import type { ImageSpec, ModelDescription } from './model';
import { Refusal } from './refusal';
import type { InferRequest } from './request';

/** The part of sharp that is used here. */
interface Pipeline {
  rotate(): Pipeline;
  resize(width: number, height: number, options: { fit: 'cover' | 'fill' }): Pipeline;
  extract(region: { left: number; top: number; width: number; height: number }): Pipeline;
  removeAlpha(): Pipeline;
  toColourspace(space: 'srgb' | 'b-w'): Pipeline;
  raw(): Pipeline;
  toBuffer(options: { resolveWithObject: true }): Promise<{
    data: Buffer;
    info: { width: number; height: number; channels: number };
  }>;
}

type Sharp = (body: Buffer, options: { limitInputPixels: number; sequentialRead: boolean }) => Pipeline;

/** Larger images are refused before they are decoded: a small file may stand for any number of pixels. */
const MOST_PIXELS = 2 ** 26;

/** The first bytes of files. What else sharp would read, SVG with links in it, say, is refused. */
const SIGNATURES: readonly (readonly [start: number, bytes: Buffer])[] = [
  [0, Buffer.from([0xff, 0xd8, 0xff])],
  [0, Buffer.from([0x89, 0x50, 0x4e, 0x47])],
  [8, Buffer.from('WEBP')],
];

let loading: Promise<Sharp> | undefined;

function loadSharp(): Promise<Sharp> {
  return (loading ??= import('sharp').then(
    ({ default: sharp }) => sharp as unknown as Sharp,
    () => {
      loading = undefined;
      throw new Refusal(
        415,
        'encoded images are decoded by sharp, which is not installed on the server; send UINT8',
      );
    },
  ));
}

/**
 * Decodes a body that is an image, to a request for all outputs: as binary data where `Accept` asks for that.
 *
 * @param holding - takes what the pixels take up
 * @param memory - where they are to lie
 */
export async function decodeImage(
  model: ModelDescription,
  body: Buffer,
  headers: IncomingHttpHeaders,
  holding: Holding,
  memory: RequestMemory,
): Promise<InferRequest> {
  const image = model.image!;
  const missing = model.inputs.find(({ name }) => name !== image.spec.name);
  if (missing !== undefined)
    throw invalid(`the model has an input '${missing.name}', too, which no image brings`);
  const { data, width, height } = await pixelsOf(body, image);
  holding.take(data.length);
  const pixels = memory.allocate(data.length, 0);
  copyPixels(data, pixels, image.layout === 'NHWC' ? 1 : data.length / (width * height));
  const { type, Elements } = image.spec.datatype;
  const channels = data.length / (width * height);
  const dims = image.layout === 'NHWC' ? [1, height, width, channels] : [1, channels, height, width];
  const input = { type, dims, data: new Elements(pixels.buffer, pixels.byteOffset, pixels.length) };
  const binary = headers.accept?.includes('application/octet-stream') ?? false;
  const outputs = model.outputs.map((spec) => ({ spec, binary }));
  return { id: undefined, timeout: undefined, inputs: new Map([[image.spec.name, input]]), outputs };
}

async function pixelsOf(body: Buffer, { spec, layout, resize }: ImageSpec) {
  if (!SIGNATURES.some(([start, bytes]) => bytes.equals(body.subarray(start, start + bytes.length)))) {
    throw invalid('the body is no JPEG, PNG or WebP file');
  }
  const sharp = await loadSharp();
  const [channels, height, width] = (layout === 'NHWC' ? [3, 1, 2] : [1, 2, 3]).map(
    (axis) => spec.dims[axis],
  );
  const options = { limitInputPixels: MOST_PIXELS, sequentialRead: true };
  // As the file's orientation says.
  const upright = sharp(body, options).rotate();
  const sized = toSize(upright, extentOf(width), extentOf(height), resize);
  const isGrey = channels === 1;
  try {
    const pipeline = sized
      .removeAlpha()
      .toColourspace(isGrey ? 'b-w' : 'srgb')
      .raw();
    const { data, info } = await pipeline.toBuffer({ resolveWithObject: true });
    if (typeof channels === 'number' && info.channels !== channels)
      throw invalid(`the image has ${info.channels} channels, and the model takes ${describe(channels)}`);
    return { data, width: info.width, height: info.height };
  } catch (error) {
    if (error instanceof Error && error.name === 'WarpconvError') throw error;
    throw invalid(`the image cannot be decoded: ${(error as Error).message}`);
  }
}

function extentOf(extent: number | string | undefined): number | undefined {
  return typeof extent === 'number' ? extent : undefined;
}

function toSize(
  image: Pipeline,
  width: number | undefined,
  height: number | undefined,
  resize: ImageSpec['resize'],
): Pipeline {
  if (typeof resize === 'string') {
    return width === undefined || height === undefined ? image : image.resize(width, height, { fit: resize });
  }
  const square = image.resize(resize, resize, { fit: 'cover' });
  const [w, h] = [Math.min(width ?? resize, resize), Math.min(height ?? resize, resize)];
  const [left, top] = [Math.floor((resize - w) / 2), Math.floor((resize - h) / 2)];
  return square.extract({ left, top, width: w, height: h });
}

/** To planes of so many channels; 1 leaves them as they are. */
function copyPixels(from: Buffer, to: Buffer, channels: number): void {
  if (channels === 1) {
    from.copy(to);
    return;
  }
  const pixels = from.length / channels;
  for (let channel = 0; channel < channels; channel++) {
    for (let pixel = 0; pixel < pixels; pixel++)
      to[channel * pixels + pixel] = from[pixel * channels + channel]!;
  }
}

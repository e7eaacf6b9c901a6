/** Bodies that are an image: JPEG, PNG or WebP, decoded by sharp, if that is installed, on libuv's threads. */
import type { IncomingHttpHeaders } from 'node:http';

import { describe, invalid } from '../check';
import type { Holding, RequestMemory } from './memory';
import type { ImageSpec, ModelDescription } from './model';
import { Refusal } from './refusal';
import type { InferRequest } from './request';

/** The part of sharp that is used here. */
interface Pipeline {
  metadata(): Promise<{ width: number; height: number }>;
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
const SIGNATURES: Readonly<Record<string, RegExp>> = {
  jpeg: /^\xff\xd8\xff/,
  png: /^\x89PNG\r\n\x1a\n/,
  webp: /^RIFF.{4}WEBP/s,
};

function kindOf(body: Buffer): string {
  const head = body.toString('latin1', 0, 12);
  const found = Object.entries(SIGNATURES).find(([, signature]) => signature.test(head));
  if (found === undefined) throw invalid('the body is no JPEG, PNG or WebP file');
  return found[0];
}

let loading: Promise<Sharp> | undefined;

function loadSharp(): Promise<Sharp> {
  return (loading ??= import('sharp').then(
    ({ default: sharp }) => sharp as unknown as Sharp,
    (error: unknown) => {
      loading = undefined;
      // One that is there and does not load is the server's fault.
      if (!/MODULE_NOT_FOUND$/.test(String((error as { code?: unknown }).code))) throw error;
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
  const { data, width, height, channels } = await pixelsOf(body, image, holding);
  const pixels = memory.allocate(data.length, 0);
  const isInterleaved = image.layout === 'NHWC';
  if (isInterleaved) data.copy(pixels);
  else copyToPlanes(data, pixels, channels);
  const { type, Elements } = image.spec.datatype;
  const dims = isInterleaved ? [1, height, width, channels] : [1, channels, height, width];
  const elements = new Elements(pixels.buffer, pixels.byteOffset, pixels.length);
  const input = { type, dims, data: elements, location: 'cpu' } as const;
  const binary = /application\/octet-stream(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(headers.accept ?? '');
  const outputs = model.outputs.map((spec) => ({ spec, binary }));
  return { id: undefined, timeout: undefined, inputs: new Map([[image.spec.name, input]]), outputs };
}

async function pixelsOf(body: Buffer, { spec, layout, resize }: ImageSpec, holding: Holding) {
  const kind = kindOf(body);
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
    await takePixels(kind, sharp(body, options), [extentOf(height), extentOf(width)], holding);
    const pipeline = sized
      .removeAlpha()
      .toColourspace(isGrey ? 'b-w' : 'srgb')
      .raw();
    const { data, info } = await pipeline.toBuffer({ resolveWithObject: true });
    if (typeof channels === 'number' && info.channels !== channels)
      throw invalid(`the image has ${info.channels} channels, and the model takes ${describe(channels)}`);
    return { data, ...info };
  } catch (error) {
    if (error instanceof Refusal || (error as Error).name === 'WarpconvError') throw error;
    throw invalid(`the image cannot be decoded: ${(error as Error).message}`);
  }
}

/** What the decoder holds at once of the formats that it cannot decode at a smaller scale, or else the result. */
async function takePixels(
  kind: string,
  image: Pipeline,
  [height, width]: readonly (number | undefined)[],
  holding: Holding,
): Promise<void> {
  const isScaled = kind === 'jpeg' && height !== undefined && width !== undefined;
  const size = isScaled ? { width, height } : await image.metadata();
  holding.take(size.width * size.height * MOST_CHANNELS);
}

/** Before colours that no model takes are left out */
const MOST_CHANNELS = 4;

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

/** From pixels, each with all of its channels, to a plane for each channel. */
function copyToPlanes(from: Buffer, to: Buffer, channels: number): void {
  const size = from.length / channels;
  for (let channel = 0; channel < channels; channel++) {
    for (let pixel = 0; pixel < size; pixel++) to[channel * size + pixel] = from[pixel * channels + channel]!;
  }
}

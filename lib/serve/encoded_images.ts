/** Bodies that are an image: JPEG, PNG or WebP. */
import type { IncomingHttpHeaders } from 'node:http';

import { invalid } from '../check';
import type { Cancellation } from './cancellation';
import type { ImageDecoder, ImagePlan, Pixels } from './decoders/decoder';
import { sizeOf } from './decoders/sharp';
import type { Holding, RequestMemory } from './memory';
import type { ImageSpec, ModelDescription } from './model';
import { Refusal } from './refusal';
import type { InferRequest } from './request';

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

/**
 * Decodes a body that is an image, to a request for all outputs: as binary data where `Accept` asks for that.
 *
 * @param holding - takes what the pixels take up
 * @param memory - where they are to lie
 * @param cancellation - a request of it may reject with its reason
 */
export async function decodeImage(
  model: ModelDescription,
  body: Buffer,
  headers: IncomingHttpHeaders,
  holding: Holding,
  memory: RequestMemory,
  decoder: ImageDecoder,
  cancellation: Cancellation,
): Promise<InferRequest> {
  const image = model.image!;
  const missing = model.inputs.find(({ name }) => name !== image.spec.name);
  if (missing !== undefined)
    throw invalid(`the model has an input '${missing.name}', too, which no image brings`);
  const { data, width, height, channels } = await pixelsOf(body, image, holding, decoder, cancellation);
  const pixels = memory.allocate(data.length, 0);
  const isInterleaved = image.layout === 'NHWC';
  if (isInterleaved) pixels.set(data);
  else copyToPlanes(data, pixels, channels);
  const { type, Elements } = image.spec.datatype;
  const dims = isInterleaved ? [1, height, width, channels] : [1, channels, height, width];
  const elements = new Elements(pixels.buffer, pixels.byteOffset, pixels.length);
  const input = { type, dims, data: elements, location: 'cpu' } as const;
  const binary = /application\/octet-stream(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(headers.accept ?? '');
  const outputs = model.outputs.map((spec) => ({ spec, binary }));
  return { id: undefined, timeout: undefined, inputs: new Map([[image.spec.name, input]]), outputs };
}

async function pixelsOf(
  body: Buffer,
  { spec, layout, resize }: ImageSpec,
  holding: Holding,
  decoder: ImageDecoder,
  cancellation: Cancellation,
): Promise<Pixels> {
  const kind = kindOf(body);
  const [channels, height, width] = (layout === 'NHWC' ? [3, 1, 2] : [1, 2, 3]).map((axis) =>
    extentOf(spec.dims[axis]),
  );
  const plan = { height, width, resize, isGrey: channels === 1 };
  try {
    holding.take(await bytesHeld(kind, body, plan));
    const pixels = await decoder.decode(body, plan, cancellation);
    if (channels !== undefined && pixels.channels !== channels)
      throw invalid(`the image has ${pixels.channels} channels, and the model takes ${channels}`);
    return pixels;
  } catch (error) {
    if (error instanceof Refusal || (error as Error).name === 'WarpconvError') throw error;
    throw invalid(`the image cannot be decoded: ${(error as Error).message}`);
  }
}

/** What the decoder holds at once of the formats that it cannot decode at a smaller scale, or else the result. */
async function bytesHeld(kind: string, body: Buffer, { height, width }: ImagePlan): Promise<number> {
  const isScaled = kind === 'jpeg' && height !== undefined && width !== undefined;
  const size = isScaled ? { width, height } : await sizeOf(body);
  return size.width * size.height * MOST_CHANNELS;
}

/** Before colours that no model takes are left out */
const MOST_CHANNELS = 4;

function extentOf(extent: number | string | undefined): number | undefined {
  return typeof extent === 'number' ? extent : undefined;
}

/** From pixels, each with all of its channels, to a plane for each channel. */
function copyToPlanes(from: Uint8Array, to: Uint8Array, channels: number): void {
  const size = from.length / channels;
  for (let channel = 0; channel < channels; channel++) {
    for (let pixel = 0; pixel < size; pixel++) to[channel * size + pixel] = from[pixel * channels + channel]!;
  }
}

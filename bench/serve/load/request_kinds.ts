/** The kinds of requests that a model can be loaded with. */
import sharp from 'sharp';
import type { InferenceSession } from 'warpconv';

import { Random } from '../../../test/support/random';

/** What a kind has to know of a model. */
export interface Target {
  readonly input: InferenceSession['inputMetadata'][number];
  readonly output: string;
}

export interface KindRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** What the model is given */
  readonly elements: Float32Array;
}

/** The request for one image, which the seed decides. */
export type RequestKind = (target: Target, seed: number) => KindRequest | Promise<KindRequest>;

/** How servers are told to take bytes of images, for kinds that send them: as for networks trained on ImageNet. */
export const IMAGE = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const;

const OCTETS = { 'Content-Type': 'application/octet-stream' };

/** Of one image where the number is free. */
export function dimsOf({ input }: Target): number[] {
  return input.shape.map((extent) => (typeof extent === 'number' ? extent : 1));
}

/** Uniform in [0, 1). */
function randomImage(target: Target, seed: number): Float32Array {
  const size = dimsOf(target).reduce((product, extent) => product * extent, 1);
  const random = new Random(seed);
  return Float32Array.from({ length: size }, () => random.uniform());
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

const PATH = '/v2/models/model/infer';

/** A binary tensor, and one for an answer. */
function binary(
  { input, output }: Target,
  datatype: string,
  shape: readonly number[],
  data: Buffer,
): Omit<KindRequest, 'elements'> {
  const parameters = { binary_data_size: data.length };
  const head = Buffer.from(
    JSON.stringify({
      inputs: [{ name: input.name, datatype, shape, parameters }],
      outputs: [{ name: output, parameters: { binary_data: true } }],
    }),
  );
  return {
    path: PATH,
    headers: { ...OCTETS, 'Inference-Header-Content-Length': String(head.length) },
    body: Buffer.concat([head, data]),
  };
}

function float32(target: Target, seed: number): KindRequest {
  const elements = randomImage(target, seed);
  return { ...binary(target, 'FP32', dimsOf(target), bytesOf(elements)), elements };
}

/** An image as decoders give it: rows of pixels of bytes. */
function uint8(target: Target, seed: number): KindRequest {
  const [n, c, h, w] = dimsOf(target) as [number, number, number, number];
  const pixels = Buffer.from(randomImage(target, seed).map((value) => Math.floor(256 * value)));
  return { ...binary(target, 'UINT8', [n, h, w, c], pixels), elements: normalized(pixels, c) };
}

/** Smooth noise, which takes the 20 KB of a photograph of 224 x 224. */
async function jpeg(target: Target, seed: number): Promise<KindRequest> {
  const [, , h, w] = dimsOf(target) as [number, number, number, number];
  const random = new Random(seed);
  const coarse = Buffer.from(Array.from({ length: 3 * 56 * 56 }, () => Math.floor(256 * random.uniform())));
  const raw = { width: 56, height: 56, channels: 3 } as const;
  const file = await sharp(coarse, { raw }).resize(w, h, { fit: 'fill' }).jpeg({ quality: 85 }).toBuffer();
  const pixels = await sharp(file).raw().toBuffer();
  const headers = { 'Content-Type': 'image/jpeg', Accept: 'application/octet-stream' };
  return { path: PATH, headers, body: file, elements: normalized(pixels, 3) };
}

/** In planes, as the network takes them. */
function normalized(pixels: Buffer, channels: number): Float32Array {
  const size = pixels.length / channels;
  return Float32Array.from({ length: pixels.length }, (_, index) => {
    const [channel, pixel] = [Math.floor(index / size), index % size];
    const byte = pixels[pixel * channels + channel]!;
    return (byte / 255 - IMAGE.mean[channel]!) / IMAGE.std[channel]!;
  });
}

export const REQUEST_KINDS: Readonly<Record<string, RequestKind>> = { float32, uint8, jpeg };

/** The same image for the rival, which takes bare elements. */
export function forRival({ elements }: KindRequest): KindRequest {
  return { path: '/infer', headers: OCTETS, body: bytesOf(elements), elements };
}

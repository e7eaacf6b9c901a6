/** Images are decoded by sharp, if that is installed, on libuv's threads. */
import { Refusal } from '../refusal';
import type { ImageDecoder, ImagePlan, Pixels } from './decoder';

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

const OPTIONS = { limitInputPixels: MOST_PIXELS, sequentialRead: true };

const ELSE = 'send UINT8';

let loading: Promise<Sharp> | undefined;

/** @throws Refusal 415 where it is not installed, 500 where it is and does not load */
export function loadSharp(): Promise<Sharp> {
  return (loading ??= import('sharp').then(
    ({ default: sharp }) => sharp as unknown as Sharp,
    (error: unknown) => {
      loading = undefined;
      if (/MODULE_NOT_FOUND$/.test(String((error as { code?: unknown }).code)))
        throw new Refusal(
          415,
          `encoded images are decoded by sharp, which is not installed on the server; ${ELSE}`,
        );
      const message = `sharp, which decodes images, does not load on the server; ${ELSE}`;
      throw Object.assign(new Refusal(500, message), { cause: error });
    },
  ));
}

/** What the head of a file says. */
export async function sizeOf(body: Buffer): Promise<{ readonly width: number; readonly height: number }> {
  const sharp = await loadSharp();
  return sharp(body, OPTIONS).metadata();
}

export async function decode(body: Buffer, plan: ImagePlan): Promise<Pixels> {
  const sharp = await loadSharp();
  // As the file's orientation says.
  const sized = toSize(sharp(body, OPTIONS).rotate(), plan);
  const { data, info } = await sized
    .removeAlpha()
    .toColourspace(plan.isGrey ? 'b-w' : 'srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { height, width, channels } = info;
  return { data, height, width, channels };
}

function toSize(image: Pipeline, { height, width, resize }: ImagePlan): Pipeline {
  if (typeof resize === 'string') {
    return width === undefined || height === undefined ? image : image.resize(width, height, { fit: resize });
  }
  const square = image.resize(resize, resize, { fit: 'cover' });
  const [w, h] = [Math.min(width ?? resize, resize), Math.min(height ?? resize, resize)];
  const [left, top] = [Math.floor((resize - w) / 2), Math.floor((resize - h) / 2)];
  return square.extract({ left, top, width: w, height: h });
}

/** On libuv's threads. */
export const LOCAL: ImageDecoder = { decode };

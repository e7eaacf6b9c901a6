/** What turns encoded images into pixels: this process, or others. */
import type { Cancellation } from '../cancellation';

/** What is wanted of an image. */
export interface ImagePlan {
  /** In pixels; `undefined` for the image's own */
  readonly height: number | undefined;
  readonly width: number | undefined;
  /** How it gets there; see {@link ServedImageOptions} */
  readonly resize: 'cover' | 'fill' | number;
  readonly isGrey: boolean;
}

/** Rows of pixels, each with all of its channels. */
export interface Pixels {
  readonly data: Uint8Array;
  readonly height: number;
  readonly width: number;
  readonly channels: number;
}

export interface ImageDecoder {
  /**
   * @param body - an image; stays as it is until the promise settles
   * @param cancellation - a request of it may reject with its reason
   * @throws Refusal where that is not the image's fault
   * @throws whatever is wrong with the image
   */
  decode(body: Buffer, plan: ImagePlan, cancellation: Cancellation): Promise<Pixels>;
}

/** The kinds of requests that a model can be loaded with. */
import type { InferenceSession } from 'warpconv';

import { Random } from '../../test/support/random';

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
export type RequestKind = (target: Target, seed: number) => KindRequest;

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

/** A binary tensor, and one for an answer. */
function float32(target: Target, seed: number): KindRequest {
  const { input, output } = target;
  const elements = randomImage(target, seed);
  const parameters = { binary_data_size: elements.byteLength };
  const head = Buffer.from(
    JSON.stringify({
      inputs: [{ name: input.name, datatype: 'FP32', shape: dimsOf(target), parameters }],
      outputs: [{ name: output, parameters: { binary_data: true } }],
    }),
  );
  return {
    path: '/v2/models/model/infer',
    headers: { ...OCTETS, 'Inference-Header-Content-Length': String(head.length) },
    body: Buffer.concat([head, bytesOf(elements)]),
    elements,
  };
}

export const REQUEST_KINDS: Readonly<Record<string, RequestKind>> = { float32 };

/** The same image for the rival, which takes bare elements. */
export function forRival({ elements }: KindRequest): KindRequest {
  return { path: '/infer', headers: OCTETS, body: bytesOf(elements), elements };
}

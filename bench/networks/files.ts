/** The networks of scripts/export_networks.py, and whether an output of one is right. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import type { Precision } from '../../lib/conv2d/names';

export const IMAGE_DIMS = [3, 224, 224] as const;
const IMAGE_ELEMENTS = IMAGE_DIMS.reduce((product, extent) => product * extent, 1);

/** What rounding may do over a hundred layers, of the largest output: far below what a wrong layer does. */
export const TOLERANCE: Readonly<Record<Precision, number>> = {
  fp32: 1e-4,
  tf32: 4e-3,
  fp16: 4e-3,
  bf16: 3.2e-2,
};

/** @returns the names that were asked for, or of all networks in the folder */
export function networksIn(folder: string, asked: readonly string[] | undefined): string[] {
  const missing = (asked ?? []).find((name) => !existsSync(modelOf(folder, name)));
  const found = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith('.onnx')) : [];
  if (missing === undefined && found.length > 0)
    return [...(asked ?? found.map((file) => path.parse(file).name))];
  throw new Error(
    `there is no ${missing === undefined ? 'network' : `${missing}.onnx`} in ${folder}; ` +
      `make it by python3 scripts/export_networks.py ${[folder, missing].join(' ').trim()}`,
  );
}

export function modelOf(folder: string, network: string): string {
  return path.resolve(folder, `${network}.onnx`);
}

/** The bytes of a file on a boundary of any element. */
function read(file: string): ArrayBuffer {
  return new Uint8Array(readFileSync(file)).buffer;
}

/** So many images: those of the network's file over and over. */
export function batchOf(model: string, batch: number): Float32Array {
  const images = new Float32Array(read(model.replace(/onnx$/, 'input')));
  const elements = new Float32Array(batch * IMAGE_ELEMENTS);
  for (let at = 0; at < elements.length; at += images.length) {
    elements.set(images.subarray(0, elements.length - at), at);
  }
  return elements;
}

/** The largest difference from PyTorch's output in double precision, of the largest value there; NaN when anything is. */
export function errorOf(model: string, batch: number, output: Float32Array): number {
  const expected = new Float64Array(read(model.replace(/onnx$/, 'output')));
  const images = read(model.replace(/onnx$/, 'input')).byteLength / 4 / IMAGE_ELEMENTS;
  if (output.length !== (batch * expected.length) / images) return NaN;
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const worst = output.reduce(
    (most, value, i) => Math.max(most, Math.abs(expected[i % expected.length]! - value)),
    0,
  );
  return worst / largest;
}

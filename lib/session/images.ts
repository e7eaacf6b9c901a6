/** Images of 8 bits as inputs of networks. */
import { checkOneOf, invalid, isObject, mismatch, readProperties } from '../check';
import type { Graph, ValueInfo } from '../model/graph';
import type { ImageForm } from '../model/images';

/** How images of 8 bits become an input of a network: `(byte * scale - mean) / std`, for each channel. */
export interface ImageOptions {
  /** The input's name. Default: the only float32 input of four dims. */
  readonly input?: string;
  /** What a byte is multiplied by. Default 1/255. */
  readonly scale?: number;
  /** One number, or one for each channel. Default 0. */
  readonly mean?: number | readonly number[];
  /** One number, or one for each channel. Default 1. */
  readonly std?: number | readonly number[];
  /** Of the images: `'NHWC'`, as decoders give them, or `'NCHW'`, as networks have them. Default `'NHWC'`. */
  readonly layout?: 'NHWC' | 'NCHW';
}

export const IMAGE_DEFAULTS = {
  input: undefined,
  scale: 1 / 255,
  mean: 0,
  std: 1,
  layout: 'NHWC',
} as const satisfies Record<keyof ImageOptions, unknown>;

const LAYOUTS = ['NHWC', 'NCHW'] as const;

/** @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` for options that do not fit the graph, too */
export function readImageOptions(name: string, options: unknown, graph: Graph): ImageForm {
  const given = readProperties(name, options, IMAGE_DEFAULTS);
  const info = findInput(`${name}.input`, given.input, graph);
  const channels = info.shape![1];
  const scale = checkNumber(`${name}.scale`, given.scale);
  const mean = readChannels(`${name}.mean`, given.mean, channels);
  const std = readChannels(`${name}.std`, given.std, channels);
  if (std.includes(0)) throw invalid(`${name}.std has a 0, by which nothing can be divided`);
  const count = Math.max(mean.length, std.length);
  const at = (values: readonly number[], index: number) => values[values.length === 1 ? 0 : index]!;
  return {
    input: info.name,
    layout: checkOneOf(`${name}.layout`, given.layout, LAYOUTS),
    factors: Float32Array.from({ length: count }, (_, c) => scale / at(std, c)),
    summands: Float32Array.from({ length: count }, (_, c) => -at(mean, c) / at(std, c)),
  };
}

function findInput(name: string, value: unknown, graph: Graph): ValueInfo {
  const fitting = graph.inputs.filter(
    (info) => isImage(info) && !graph.outputs.some((output) => output.name === info.name),
  );
  if (value === undefined && fitting.length === 1) return fitting[0]!;
  const names = fitting.map((info) => info.name);
  if (names.length === 0) throw invalid(`${name}: the model has no float32 input of four dims`);
  const found = fitting.find((info) => info.name === value);
  if (found !== undefined) return found;
  throw mismatch(
    name,
    `the name of a float32 input of four dims: ${names.map((one) => `'${one}'`).join(' or ')}`,
    value,
  );
}

function isImage({ type, shape }: ValueInfo): boolean {
  return type === 'float32' && shape?.length === 4;
}

function checkNumber(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw mismatch(name, 'a finite number', value);
}

function readChannels(name: string, value: unknown, channels: unknown): readonly number[] {
  if (!isObject(value)) return [checkNumber(name, value)];
  if (!Array.isArray(value) || value.length === 0)
    throw mismatch(name, 'a number or a list of numbers', value);
  const numbers = Array.from(value, (one: unknown, index) => checkNumber(`${name}[${index}]`, one));
  if (numbers.length === 1 || typeof channels !== 'number' || numbers.length === channels) return numbers;
  throw invalid(`${name} has ${numbers.length} numbers, and the input ${channels} channels`);
}

/** Windows, discrete Fourier transforms by their definition, and what weighs spectra. */
import { typeOfNumber, type Operator } from './elementwise';
import { ANYTHING, OPEN, range, sum, tensorOf, type Inexact } from './inexact';
import type { Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import {
  axisOf,
  Illegal,
  isFloat,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
  type Expected,
  type RefTensor,
} from './tensor';

const MOST_TERMS = 2 ** 22;

/** Numbers as the type that the node asks for; those of integers are cut, where a rounding may decide to which. */
function asAsked(node: Node, dims: Dims, numbers: readonly number[]): Expected {
  const number = node.integer('output_datatype', 1);
  const type = typeOfNumber(number);
  if (type === 'bool' || /^float[48]|int[24]$/.test(type)) throw new Illegal(`numbers of ${type}`);
  if (isFloat(type)) {
    const rounding = type === 'float64' ? 8 * 2 ** -53 : 2 ** -24;
    return {
      type,
      dims,
      data: numbers,
      allowed: numbers.map((y) => (Number.isNaN(y) ? ANYTHING : rounding)),
    };
  }
  const [low, high] = [-1, 1].map((side) => numbers.map((y) => Math.trunc(y + side * 1e-9))) as [
    number[],
    number[],
  ];
  return {
    type,
    dims,
    data: low.map((y) => BigInt(Number.isNaN(y) ? 0 : y)),
    allowed: low.map((y, i) => high[i]! - y),
  };
}

/** a - b cos(2πi / n) + c cos(4πi / n); of a window of one element that is alike at both ends ONNX divides by 0. */
function cosineWindow(a: number, b: number, c: number): Operator {
  return (node) => {
    const size = node.one(0);
    if (size < 0) throw new Illegal(`a window of ${size}`);
    requireSmall([size]);
    const n = node.flag('periodic', true) ? size : size - 1;
    const angle = (i: number) => (2 * Math.PI * i) / n;
    return [
      asAsked(
        node,
        [size],
        range(size).map((i) => a - b * Math.cos(angle(i)) + c * Math.cos(2 * angle(i))),
      ),
    ];
  };
}

/** Triangles over bins, from one edge to the second behind it, edges being equally far apart by the mel scale. */
const melWeightMatrix: Operator = (node) => {
  const [bands, length, rate, lowest, highest] = range(5).map((i) => node.one(i)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (bands < 0 || length < 0 || !(rate > 0)) throw new Illegal(`${bands} bands, ${length} at ${rate}`);
  if (!(lowest >= 0 && highest >= lowest)) throw new Unjudged(`from ${lowest} to ${highest} hertz`);
  const bins = Math.floor(length / 2) + 1;
  requireSmall([bins, bands]);
  const mel = (hertz: number) => 2595 * Math.log10(1 + hertz / 700);
  const step = (mel(highest) - mel(lowest)) / (bands + 2);
  const places = range(bands + 2).map((i) => {
    const hertz = 700 * (10 ** ((mel(lowest) + i * step) / 2595) - 1);
    return ((length + 1) * hertz) / rate;
  });
  const edges = places.map(Math.floor);
  // Where a rounding would decide in which bin an edge is, nothing is said.
  const isOpen = places.some(
    (place, i) => Math.abs(place - Math.round(place)) < 1e-3 * (i + 1) * (1 + place / 100),
  );
  const beyond = range(bands).some((i) => edges[i + 1]! >= bins || edges[i + 2]! > bins);
  if (beyond && !isOpen) throw new Illegal(`edges [${edges}] of ${bins} bins`);
  if (beyond) throw new Unjudged('an edge at the end');
  const weights = range(bins * bands).map((index) => {
    const [bin, i] = [Math.floor(index / bands), index % bands];
    const [low, middle, high] = [edges[i]!, edges[i + 1]!, edges[i + 2]!];
    if (bin === middle) return 1;
    if (bin < middle) return bin >= low ? (bin - low) / (middle - low) : 0;
    return bin < high ? (high - bin) / (high - middle) : 0;
  });
  const expected = asAsked(node, [bins, bands], weights);
  return [isOpen ? { ...expected, allowed: weights.map(() => ANYTHING) } : expected];
};

interface Complex {
  readonly re: number;
  readonly im: number;
}

/**
 * Element k of the transform of n elements, of which those that are not there are 0: the sum of x e^(sign 2πi jk / n),
 * by its parts.
 */
function element(
  arithmetic: Arithmetic,
  x: readonly Complex[],
  k: number,
  n: number,
  isInverse: boolean,
): [Inexact, Inexact] {
  const scale = isInverse ? 1 / n : 1;
  const [real, imaginary]: [Inexact[], Inexact[]] = [[], []];
  for (let j = 0; j < Math.min(n, x.length); j++) {
    const { re, im } = x[j]!;
    const angle = ((isInverse ? 2 : -2) * Math.PI * ((j * k) % n)) / n;
    const [cos, sin] = [scale * Math.cos(angle), scale * Math.sin(angle)];
    const off = 4 * arithmetic.unit * scale * (Math.abs(re) + Math.abs(im));
    real.push({ y: re * cos - im * sin, off });
    imaginary.push({ y: re * sin + im * cos, off });
  }
  return [sum(arithmetic, real), sum(arithmetic, imaginary)];
}

/** The elements along an axis, at a place of the others: the axis of the parts is the last. */
function lineOf({ dims, data }: RefTensor, axis: number, at: readonly number[]): Complex[] {
  const strides = stridesOf(dims);
  const parts = dims.at(-1)!;
  const first = at
    .slice(0, -1)
    .reduce((offset, place, i) => offset + (i === axis ? 0 : place * strides[i]!), 0);
  return range(dims[axis]!).map((j) => {
    const offset = first + j * strides[axis]!;
    return { re: data[offset] as number, im: parts === 2 ? (data[offset + 1] as number) : 0 };
  });
}

/** The whole of a spectrum of which the second half are the conjugates of the first; its ends are real. */
function mirrored(half: readonly Complex[], n: number): Complex[] {
  const given = (k: number) => half[k] ?? { re: 0, im: 0 };
  return range(n).map((k) => {
    if (k === 0 || 2 * k === n) return { re: given(k).re, im: 0 };
    return 2 * k < n ? given(k) : { re: given(n - k).re, im: -given(n - k).im };
  });
}

function requireParts(dims: Dims): number {
  const parts = dims.at(-1);
  if (dims.length < 2 || (parts !== 1 && parts !== 2)) throw new Illegal(`[${dims}] as complex elements`);
  return parts;
}

const dft: Operator = (node) => {
  const input = node.input(0);
  const { dims } = input;
  const parts = requireParts(dims);
  const axis = axisOf(node.opset < 20 ? node.integer('axis', 1) : (node.optionalOne(2) ?? -2), dims.length);
  if (axis === dims.length - 1) throw new Illegal('a transform along the axis of the parts');
  const [isInverse, isOneSided] = [node.flag('inverse'), node.flag('onesided')];
  if (isOneSided && parts !== (isInverse ? 2 : 1)) throw new Illegal(`one side of ${parts} parts`);
  const isReal = isOneSided && isInverse;
  const n = node.optionalOne(1) ?? (isReal ? 2 * (dims[axis]! - 1) : dims[axis]!);
  if (n < 1) throw new Unjudged(`a transform of ${n} elements`);
  const count = isOneSided && !isInverse ? Math.floor(n / 2) + 1 : n;
  const outputDims = [...dims.with(axis, count).slice(0, -1), isReal ? 1 : 2];
  requireSmall(outputDims);
  const lines = sizeOf(outputDims) * n;
  if (lines > MOST_TERMS) throw new TooLarge(lines);
  const arithmetic = arithmeticOf(input.type);
  return [
    tensorOf(input.type, outputDims, (at) => {
      const line = lineOf(input, axis, at);
      // Also of what weighs nothing: times 0, an infinity is NaN.
      if (line.slice(0, n).some(({ re, im }) => !Number.isFinite(re + im))) return OPEN;
      const whole = isReal ? mirrored(line, n) : line;
      return element(arithmetic, whole, at[axis]!, n, isInverse)[at.at(-1)!]!;
    }),
  ];
};

const stft: Operator = (node) => {
  const given = node.input(0);
  // Other runtimes take real signals without the axis of the parts.
  if (given.dims.length === 2) node.tolerate();
  const signal = given.dims.length === 2 ? { ...given, dims: [...given.dims, 1] } : given;
  if (signal.dims.length !== 3) throw new Illegal(`a signal of rank ${signal.dims.length}`);
  const parts = requireParts(signal.dims);
  const [batch, extent] = signal.dims as [number, number];
  const isOneSided = node.flag('onesided', true);
  if (isOneSided && parts !== 1) throw new Illegal('one side of complex elements');
  const window = node.optional(2);
  if (window !== undefined && window.dims.length !== 1) throw new Illegal(`a window of [${window.dims}]`);
  const step = node.one(1);
  const length = node.optionalOne(3) ?? window?.dims[0] ?? extent;
  if (step < 1 || length < 1 || length > extent)
    throw new Illegal(`frames of ${length} every ${step} of ${extent}`);
  if (window !== undefined && window.dims[0] !== length) throw new Illegal(`[${window.dims}] over ${length}`);
  const frames = Math.floor((extent - length) / step) + 1;
  const count = isOneSided ? Math.floor(length / 2) + 1 : length;
  const dims = [batch, frames, count, 2];
  requireSmall(dims);
  if (sizeOf(dims) * length > MOST_TERMS) throw new TooLarge(sizeOf(dims) * length);
  const arithmetic = arithmeticOf(signal.type);
  return [
    tensorOf(signal.type, dims, ([b, frame, k, part]) => {
      const line = lineOf(signal, 1, [b!, 0, 0]).slice(frame! * step, frame! * step + length);
      const weigh = (x: number, j: number) => (window === undefined ? x : x * (window.data[j] as number));
      const weighed = line.map(({ re, im }, j) => ({ re: weigh(re, j), im: weigh(im, j) }));
      return element(arithmetic, weighed, k!, length, false)[part!]!;
    }),
  ];
};

export const signals: Readonly<Record<string, Operator>> = {
  BlackmanWindow: cosineWindow(0.42, 0.5, 0.08),
  DFT: dft,
  HammingWindow: cosineWindow(25 / 46, 21 / 46, 0),
  HannWindow: cosineWindow(0.5, 0.5, 0),
  MelWeightMatrix: melWeightMatrix,
  STFT: stft,
};

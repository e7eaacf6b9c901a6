/** Windows, spectra of signals, and what weighs those. */
import { flag, integer } from '../attributes';
import { shapeOf } from '../builder';
import { elementType, unsupportedTypeName } from '../element_types';
import type { ConstantTensor } from '../graph';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import type { Sliced } from '../../slices';
import type { DataType } from '../../tensor/tensor';
import { convertedTo } from '../typed_constants';
import { extentOf, sizeOf, stridesOf, type Value } from '../values';
import { MOST_LENGTH, realSignal, transform, turn } from './fourier';
import { apply } from './typed';

/** That a node may make of a few numbers: as many as may be computed ahead of all. */
const MOST_ELEMENTS = 2 ** 22;

/** They take a tenth of a millisecond to one. */
const ELEMENTS_AT_ONCE = 2 ** 12;

/** Numbers that follow from the node's inputs, in the type that it asks for; integers are cut towards zero. */
function* made(x: Lowering, dims: readonly number[], make: () => Sliced<Float64Array>): Sliced<Value> {
  const type = outputType(x);
  if (sizeOf(dims) > MOST_ELEMENTS) {
    throw unsupportedNode(x.node, `makes [${dims.join(', ')}]; here it can up to ${MOST_ELEMENTS} elements`);
  }
  return yield* x.deriveInSlices(`${type} of [${dims.join()}]`, x.inputs, function* () {
    const numbers = yield* make();
    const data = convertedTo(type, { type: 'float64', dims, data: numbers });
    return { type, dims, data } as ConstantTensor;
  });
}

/** ONNX allows no other: neither bool nor what is smaller. */
const OUTPUT_TYPES: ReadonlySet<DataType | undefined> = new Set<DataType>([
  ...(['int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64'] as const),
  ...(['float16', 'bfloat16', 'float32', 'float64'] as const),
]);

function outputType(x: Lowering): DataType {
  const number = integer(x.node, 'output_datatype', 1);
  const type = elementType(number);
  if (type !== undefined && OUTPUT_TYPES.has(type)) return type;
  const name = type ?? unsupportedTypeName(number) ?? 'no type';
  throw x.invalid(
    `has output_datatype ${number}, ${name}; it takes integers of 8 bits or more, or floats of 16 or more`,
  );
}

/** a - b cos(2πi / n) + c cos(4πi / n), where n is the size, or one less where both ends are to be alike. */
function cosineSum(a: number, b: number, c: number): Lower {
  return (x) => {
    const size = x.numbers(0)[0]!;
    if (size < 0) throw x.invalid(`has the size ${size}; it takes none below 0`);
    const period = flag(x.node, 'periodic', true) ? size : size - 1;
    return made(x, [size], function* () {
      const window = new Float64Array(size);
      for (let i = 0; i < size; i++) {
        if (i % ELEMENTS_AT_ONCE === 0) yield;
        window[i] = a - b * cosineOf(i, period) + c * cosineOf(2 * i, period);
      }
      return window;
    });
  };
}

/** Of k / n of a turn; NaN where n is 0, as ONNX's formula has it. */
function cosineOf(k: number, n: number): number {
  return n === 0 ? NaN : turn(k % n, n)[0];
}

/**
 * Triangles over the bins of a spectrum, each from the middle of the one before to that of the one behind, whose places
 * are equally far from each other by mel = 2595 log10(1 + hertz / 700): [bins, triangles].
 */
const melWeightMatrix: Lower = (x) => {
  const [triangles, length, rate] = [x.numbers(0)[0]!, x.numbers(1)[0]!, x.numbers(2)[0]!];
  const [lowest, highest] = [x.numbers(3)[0]!, x.numbers(4)[0]!];
  if (triangles < 0 || length < 0 || !(rate > 0)) {
    throw x.invalid(`makes ${triangles} bands of a transform of ${length} at a sample rate of ${rate}`);
  }
  if (!(lowest >= 0 && lowest <= highest)) throw x.invalid(`goes from ${lowest} to ${highest} hertz`);
  const bins = Math.floor(length / 2) + 1;
  return made(x, [bins, triangles], function* () {
    const [first, last] = [melOf(lowest), melOf(highest)];
    const binOf = (edge: number) => {
      const hertz = hertzOf(first + (edge * (last - first)) / (triangles + 2));
      return Math.floor(((length + 1) * hertz) / rate);
    };
    // Beside the middle of the last triangle nothing is written at its end.
    if (triangles > 0 && (binOf(triangles) >= bins || binOf(triangles + 1) > bins)) {
      throw x.invalid(`has bands up to bin ${binOf(triangles + 1)}, and a spectrum of ${bins} bins`);
    }
    const weights = new Float64Array(bins * triangles);
    for (let i = 0; i < triangles; i++) {
      const [low, middle, high] = [binOf(i), binOf(i + 1), binOf(i + 2)];
      if ((i * bins) % ELEMENTS_AT_ONCE < bins) yield;
      for (let bin = low; bin < middle; bin++) weights[bin * triangles + i] = (bin - low) / (middle - low);
      weights[middle * triangles + i] = 1;
      for (let bin = middle; bin < high; bin++) weights[bin * triangles + i] = (high - bin) / (high - middle);
    }
    return weights;
  });
};

function melOf(hertz: number): number {
  return (2595 * Math.log1p(hertz / 700)) / Math.LN10;
}

function hertzOf(mel: number): number {
  return 700 * Math.expm1((mel / 2595) * Math.LN10);
}

/** The last axis has the real part of an element, or both parts; any before it may be transformed. */
const dft: Lower = function* (x) {
  const input = x.input(0);
  const parts = partsOf(x, input);
  const last = input.dims.length - 1;
  const [isInverse, isOneSided] = [flag(x.node, 'inverse', false), flag(x.node, 'onesided', false)];
  const axis = x.axis(axisOf(x), last + 1);
  if (axis === last)
    throw x.invalid(`transforms axis ${axis} of ${shapeOf(input)}, which is that of the parts`);
  if (isOneSided && parts !== (isInverse ? 2 : 1)) {
    throw x.invalid(`takes ${isInverse ? 'complex' : 'real'} elements for one side, got ${shapeOf(input)}`);
  }
  const extent = input.dims[axis]!;
  const given = x.optional(1);
  const length = x.optionalNumbers(1)?.[0] ?? (isOneSided && isInverse ? 2 * (extent - 1) : extent);
  requireLength(x, length);
  const t = { x, from: [given ?? input], isInverse };
  const order = input.dims.map((_, i) => i).filter((i) => i !== axis);
  order.splice(-1, 0, axis);
  const moved = x.build.transpose(input, order);
  const lines = x.build.view(moved, [extentOf(moved.dims, 0, last - 1), extent, parts]);
  const result =
    isOneSided && isInverse
      ? yield* realSignal(t, lines, length)
      : yield* transform(t, lines, length, isOneSided ? sideOf(length) : length);
  const made = x.build.view(result, [...moved.dims.slice(0, -2), ...result.dims.slice(1)]);
  return x.build.transpose(
    made,
    input.dims.map((_, i) => order.indexOf(i)),
  );
};

function axisOf(x: Lowering): number {
  return x.opset < 20 ? integer(x.node, 'axis', 1) : (x.optionalNumbers(2)?.[0] ?? -2);
}

/** 1 where elements are real, and 2 where they are complex. */
function partsOf(x: Lowering, { type, dims }: Value): number {
  const parts = dims.at(-1);
  if (dims.length >= 2 && (parts === 1 || parts === 2)) return parts;
  throw x.invalid(`takes two axes or more, the last of extent 1 or 2, got ${shapeOf({ type, dims })}`);
}

function requireLength(x: Lowering, length: number): void {
  if (length < 1) throw x.invalid(`makes a transform of ${length} elements`);
  if (length <= MOST_LENGTH) return;
  throw unsupportedNode(x.node, `makes a transform of ${length} elements; here it can of ${MOST_LENGTH}`);
}

/** As many elements of a real signal's transform as the others follow from. */
function sideOf(length: number): number {
  return Math.floor(length / 2) + 1;
}

/** Transforms of frames, which lie `step` elements apart and may overlap: [batch, frames, elements, 2]. */
const stft: Lower = function* (x) {
  const given = x.input(0);
  x.requireRank(given, 2, 3);
  // Exporters leave out the axis of the parts where there are real ones alone, and onnxruntime takes that.
  const signal = given.dims.length === 2 ? x.build.view(given, [...given.dims, 1]) : given;
  const parts = partsOf(x, signal);
  const [batch, extent] = signal.dims as [number, number];
  const isOneSided = flag(x.node, 'onesided', true);
  if (isOneSided && parts !== 1) throw x.invalid(`takes real elements for one side, got ${shapeOf(given)}`);
  const step = x.numbers(1)[0]!;
  if (step < 1) throw x.invalid(`has a frame_step of ${step}; it takes a positive integer`);
  const window = x.optional(2);
  const length = x.optionalNumbers(3)?.[0] ?? window?.dims[0] ?? extent;
  requireLength(x, length);
  if (length > extent) throw x.invalid(`takes frames of ${length} elements from ${shapeOf(given)}`);
  if (window !== undefined && window.dims[0] !== length) {
    throw x.invalid(`has a window of ${window.dims[0]} elements for frames of ${length}`);
  }
  const frames = Math.floor((extent - length) / step) + 1;
  const strides = stridesOf(signal.dims);
  const cut = x.build.gatherStrided(
    signal,
    [batch, frames, length, parts],
    [strides[0]!, step * strides[1]!, strides[1]!, 1],
  );
  const weighed = window === undefined ? cut : apply(x, 'multiply', [cut, x.build.view(window, [length, 1])]);
  const t = { x, from: [x.optional(3) ?? window ?? signal], isInverse: false };
  const count = isOneSided ? sideOf(length) : length;
  const lines = x.build.view(weighed, [batch * frames, length, parts]);
  return x.build.view(yield* transform(t, lines, length, count), [batch, frames, count, 2]);
};

export const signals: Record<string, Lower> = {
  BlackmanWindow: cosineSum(0.42, 0.5, 0.08),
  DFT: dft,
  HammingWindow: cosineSum(25 / 46, 21 / 46, 0),
  HannWindow: cosineSum(0.5, 0.5, 0),
  MelWeightMatrix: melWeightMatrix,
  STFT: stft,
};

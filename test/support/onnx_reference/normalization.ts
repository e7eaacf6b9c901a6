/** Operators that scale by statistics. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import { groupsOf } from './reduction';
import {
  axesOf,
  axisOf,
  broadcastData,
  forEachIndex,
  Illegal,
  requireBroadcastTo,
  sizeOf,
  Unjudged,
  type Expected,
  type RefTensor,
} from './tensor';

const ANYTHING = NaN;

const isFiniteAll = (...values: readonly number[]) => values.every(Number.isFinite);

function requireList(tensor: RefTensor, length: number): number[] {
  if (tensor.dims.join() !== `${length}`) throw new Illegal(`[${tensor.dims}] for ${length} channels`);
  return tensor.data as number[];
}

const batchNormalization: Operator = (node) => {
  const input = node.input(0);
  if (node.flag('training_mode') || !node.flag('spatial', true))
    throw new Unjudged('training, or not spatial');
  if (node.outputs > 1) throw new Unjudged('statistics as outputs');
  if (input.dims.length < 2) throw new Unjudged(`rank ${input.dims.length}`);
  const channels = input.dims[1]!;
  const [scale, shift, mean, variance] = [1, 2, 3, 4].map((i) => requireList(node.input(i), channels));
  const epsilon = node.float('epsilon', 1e-5);
  const arithmetic = arithmeticOf(input.type);
  const allowed: number[] = [];
  const data: number[] = [];
  forEachIndex(input.dims, (at, index) => {
    const [x, c] = [input.data[index] as number, at[1]!];
    const factor = scale![c]! / Math.sqrt(variance![c]! + epsilon);
    const y = (x - mean![c]!) * factor + shift![c]!;
    data.push(y);
    // As a product and a sum, whose parts may be larger than what they make.
    const parts = [x * factor, mean![c]! * factor, shift![c]!];
    allowed.push(allowedOfParts(arithmetic, y, parts, [factor, variance![c]! + epsilon, x, mean![c]!]));
  });
  return [{ type: input.type, dims: input.dims, data, allowed }];
};

/** What is not finite on the way may come out as an infinity or as NaN, by the order of operations. */
function allowedOfParts(
  { sumRule, tiny }: Arithmetic,
  y: number,
  parts: readonly number[],
  factors: readonly number[],
): number {
  const size = parts.reduce((sum, part) => sum + Math.abs(part), 0);
  if (!isFiniteAll(...parts, ...factors)) return parts.some(Number.isNaN) && Number.isNaN(y) ? 0 : ANYTHING;
  return isOrdinary(size, ...factors) ? sumRule(STATISTICS) * size + tiny : ANYTHING;
}

/** Roundings of what elements are scaled by, besides those of sums */
const STATISTICS = 8;

/** Neither so large nor so small that an intermediate result in float32 might be lost. */
function isOrdinary(...values: readonly number[]): boolean {
  return values.every((value) => value === 0 || (Math.abs(value) < 2 ** 120 && Math.abs(value) > 2 ** -120));
}

interface Statistics {
  readonly count: number;
  readonly mean: number;
  /** One over the standard deviation */
  readonly inverse: number;
  /** The mean of absolute values, and the standard deviation without epsilon */
  readonly size: number;
  readonly deviation: number;
  readonly variance: number;
  readonly isFinite: boolean;
}

function statisticsOf(terms: readonly number[], epsilon: number): Statistics {
  const average = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const mean = average(terms);
  const squared = average(terms.map((x) => (x - mean) ** 2));
  return {
    count: terms.length,
    mean,
    inverse: 1 / Math.sqrt(squared + epsilon),
    size: average(terms.map(Math.abs)),
    deviation: Math.sqrt(squared),
    variance: squared + epsilon,
    isFinite: terms.every(Number.isFinite),
  };
}

/** Errors of the mean go into the differences from it, and their squares into the variance. */
function judgedNormal(
  { sumRule, tiny }: Arithmetic,
  x: number,
  of: Statistics,
  scale: number,
  shift: number,
): readonly [number, number] {
  const y = (x - of.mean) * of.inverse * scale + shift;
  if (!of.isFinite) return [y, ANYTHING];
  const isLost = !(of.variance > 0) || !isOrdinary(of.size ** 2, of.variance);
  if (!isFiniteAll(scale, shift)) return [y, isLost || x === of.mean ? ANYTHING : 0];
  const rule = sumRule(of.count + STATISTICS);
  const off = rule * (of.size + Math.abs(x));
  const relative = rule + (of.deviation * off + off ** 2) / of.variance;
  if (isLost || relative > 0.1 || !isOrdinary(scale, shift)) return [y, ANYTHING];
  const allowed = Math.abs(scale) * of.inverse * (off + Math.abs(x - of.mean) * relative);
  return [y, allowed + rule * (Math.abs(shift) + Math.abs(y - shift)) + tiny];
}

/** Rows of adjacent elements, each normalised by itself. */
function normalized(
  input: RefTensor,
  count: number,
  epsilon: number,
  scaleAt: (index: number) => number,
  shiftAt: (index: number) => number,
): { output: Expected; rows: Statistics[] } {
  const rows = Array.from({ length: count === 0 ? 0 : input.data.length / count }, (_, row) =>
    statisticsOf(input.data.slice(row * count, (row + 1) * count) as number[], epsilon),
  );
  const judged = (input.data as readonly number[]).map((x, i) =>
    judgedNormal(arithmeticOf(input.type), x, rows[Math.floor(i / count)]!, scaleAt(i), shiftAt(i)),
  );
  const output = {
    type: input.type,
    dims: input.dims,
    data: judged.map(([y]) => y),
    allowed: judged.map(([, allowed]) => allowed),
  };
  return { output, rows };
}

function requireChannels(input: RefTensor): { channels: number; inner: number } {
  if (input.dims.length < 2) throw new Illegal(`maps of rank ${input.dims.length}`);
  // ONNX writes of spatial axes, and does not ask for one.
  if (input.dims.length < 3) throw new Unjudged(`maps of rank ${input.dims.length}`);
  return { channels: input.dims[1]!, inner: sizeOf(input.dims.slice(2)) };
}

const instanceNormalization: Operator = (node) => {
  const input = node.input(0);
  const { channels, inner } = requireChannels(input);
  const [scale, shift] = [requireList(node.input(1), channels), requireList(node.input(2), channels)];
  const channelOf = (index: number) => Math.floor(index / inner) % channels;
  const epsilon = node.float('epsilon', 1e-5);
  return [
    normalized(
      input,
      inner,
      epsilon,
      (i) => scale[channelOf(i)]!,
      (i) => shift[channelOf(i)]!,
    ).output,
  ];
};

/** Until opset 21 scale and shift had one element a group; exporters wrote one a channel before, too. */
const groupNormalization: Operator = (node) => {
  const input = node.input(0);
  const { channels, inner } = requireChannels(input);
  const groups = node.integer('num_groups');
  if (groups < 1 || channels % groups !== 0) throw new Illegal(`${channels} channels in ${groups} groups`);
  const isByChannel = node.opset >= 21 || (node.input(1).dims[0] === channels && groups !== channels);
  if (isByChannel && node.opset < 21) node.tolerate();
  const perElement = isByChannel ? channels : groups;
  const [scale, shift] = [requireList(node.input(1), perElement), requireList(node.input(2), perElement)];
  const placeOf = (index: number) => {
    const channel = Math.floor(index / inner) % channels;
    return isByChannel ? channel : Math.floor(channel / (channels / groups));
  };
  const count = (channels / groups) * inner;
  return [
    normalized(
      input,
      count,
      node.float('epsilon', 1e-5),
      (i) => scale[placeOf(i)]!,
      (i) => shift[placeOf(i)]!,
    ).output,
  ];
};

const layerNormalization: Operator = (node) => {
  const input = node.input(0);
  const axis = axisOf(node.integer('axis', -1), input.dims.length);
  requireStash(node);
  const [scale, shift] = [node.input(1), node.optional(2)];
  [scale, shift].forEach((tensor) => tensor && requireBroadcastTo(tensor.dims, input.dims));
  const scales = broadcastData(scale, input.dims) as number[];
  const shifts = shift && (broadcastData(shift, input.dims) as number[]);
  const count = sizeOf(input.dims.slice(axis));
  const epsilon = node.float('epsilon', 1e-5);
  const { output, rows } = normalized(
    input,
    count,
    epsilon,
    (i) => scales[i]!,
    (i) => shifts?.[i] ?? 0,
  );
  const dims = input.dims.map((extent, i) => (i < axis ? extent : 1));
  return [output, ...statisticsOutputs(dims, rows)].slice(0, node.outputs);
};

/** Mean and one over the standard deviation, which have the type that the first stage computes in. */
function statisticsOutputs(dims: readonly number[], rows: readonly Statistics[]): Expected[] {
  const isEmpty = rows.length < sizeOf(dims);
  const known = isEmpty ? new Array<Statistics>(sizeOf(dims)).fill(statisticsOf([], 0)) : rows;
  const { extreme, sumRule, tiny } = arithmeticOf('float32');
  const rule = sumRule(STATISTICS);
  const off = ({ size }: Statistics) => rule * size + tiny;
  // A sum may overflow that is divided afterwards.
  const isKnown = (row: Statistics) => row.isFinite && !isEmpty && row.size * row.count < extreme;
  const means = known.map((row) => (isKnown(row) ? off(row) : ANYTHING));
  const inverses = known.map((row) => {
    if (!row.isFinite || isEmpty || !isOrdinary(row.size ** 2, row.variance)) return ANYTHING;
    const relative = rule + (row.deviation * 2 * off(row) + off(row) ** 2) / row.variance;
    return relative > 0.1 ? ANYTHING : row.inverse * relative;
  });
  return [
    { type: 'float32', dims, data: known.map(({ mean }) => mean), allowed: means },
    { type: 'float32', dims, data: known.map(({ inverse }) => inverse), allowed: inverses },
  ];
}

function requireStash(node: Node): void {
  const stash = node.integer('stash_type', 1);
  if (stash !== 1) throw new Unjudged(`stash_type ${stash}`);
}

const localResponse: Operator = (node) => {
  const input = node.input(0);
  const { channels, inner } = requireChannels(input);
  const size = node.integer('size');
  if (size < 1) throw new Illegal(`size ${size}`);
  const [alpha, beta, bias] = [node.float('alpha', 1e-4), node.float('beta', 0.75), node.float('bias', 1)];
  const allowed: number[] = [];
  const data = (input.data as readonly number[]).map((x, index) => {
    const channel = Math.floor(index / inner) % channels;
    const first = Math.max(0, channel - Math.floor((size - 1) / 2));
    const last = Math.min(channels - 1, channel + Math.ceil((size - 1) / 2));
    let square = 0;
    for (let c = first; c <= last; c++) square += (input.data[index + (c - channel) * inner] as number) ** 2;
    const base = bias + (alpha / size) * square;
    const y = x / base ** beta;
    const parts = Math.abs(bias) + Math.abs((alpha / size) * square);
    allowed.push(allowedOfQuotient(arithmeticOf(input.type), x, y, base, beta, parts, square));
    return y;
  });
  return [{ type: input.type, dims: input.dims, data, allowed }];
};

function allowedOfQuotient(
  { sumRule, tiny }: Arithmetic,
  x: number,
  y: number,
  base: number,
  beta: number,
  parts: number,
  square: number,
): number {
  if (Number.isNaN(square)) return Number.isNaN(x) ? 0 : Number.isNaN(y) ? 0 : ANYTHING;
  if (!(base > 0) || !isOrdinary(base, base ** beta, square, beta) || !isFiniteAll(x, square))
    return ANYTHING;
  const relative =
    sumRule(STATISTICS) * (1 + (Math.abs(beta) * parts) / base + Math.abs(beta * Math.log(base)));
  return Math.abs(y) * relative + tiny;
}

/** Each group of elements by itself; `of` has for each what it makes of an element. */
function grouped(
  input: RefTensor,
  axes: readonly number[],
  of: (terms: readonly number[]) => (x: number) => readonly [y: number, allowed: number],
): Expected {
  const [data, allowed] = [new Array<number>(input.data.length), new Array<number>(input.data.length)];
  for (const group of groupsOf(input, axes).groups) {
    const terms = group.map((index) => input.data[index] as number);
    const judge = of(terms);
    group.forEach((index, i) => ([data[index], allowed[index]] = judge(terms[i]!) as [number, number]));
  }
  return { type: input.type, dims: input.dims, data, allowed };
}

/** A vector of zeros alone stays. */
const lpNormalization: Operator = (node) => {
  const input = node.input(0);
  const axis = axisOf(node.integer('axis', -1), input.dims.length);
  const p = node.integer('p', 2);
  if (p !== 1 && p !== 2) throw new Illegal(`p of ${p}`);
  const { sumRule, tiny } = arithmeticOf(input.type);
  const normal = grouped(input, [axis], (terms) => {
    const power = terms.reduce((total, x) => total + Math.abs(x) ** p, 0);
    const [norm, rule] = [power ** (1 / p), sumRule(terms.length + STATISTICS)];
    return (x) => {
      const y = power === 0 ? 0 : x / norm;
      if (!Number.isFinite(norm)) return [y, 0];
      return [y, isOrdinary(power) ? rule * Math.abs(y) + tiny : ANYTHING];
    };
  });
  return [normal];
};

const meanVarianceNormalization: Operator = (node) => {
  const input = node.input(0);
  const axes = axesOf(node.integers('axes') ?? [0, 2, 3], input.dims.length);
  const arithmetic = arithmeticOf(input.type);
  const normal = grouped(input, axes, (terms) => {
    const statistics = statisticsOf(terms, 0);
    const inverse = 1 / (statistics.deviation + 1e-9);
    return (x) => judgedNormal(arithmetic, x, { ...statistics, inverse }, 1, 0);
  });
  return [normal];
};

export const normalization: Readonly<Record<string, Operator>> = {
  BatchNormalization: batchNormalization,
  GroupNormalization: groupNormalization,
  InstanceNormalization: instanceNormalization,
  LRN: localResponse,
  LayerNormalization: layerNormalization,
  LpNormalization: lpNormalization,
  MeanVarianceNormalization: meanVarianceNormalization,
};

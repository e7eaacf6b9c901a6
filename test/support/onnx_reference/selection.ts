/** Operators of which only the elements say how much they select. */
import type { Operator } from './elementwise';
import {
  axisOf,
  forEachIndex,
  Illegal,
  moved,
  offsetOf,
  stridesOf,
  Unjudged,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

function int64(values: readonly number[], dims: readonly number[] = [values.length]): Expected {
  return { type: 'int64', dims, data: values.map(BigInt) };
}

/** The slices of a tensor at these places of an axis. */
function slicesAt(input: RefTensor, axis: number, places: readonly number[]): Expected {
  const strides = stridesOf(input.dims);
  return moved(input, input.dims.with(axis, places.length), (at) =>
    offsetOf(at.with(axis, places[at[axis]!]!), strides),
  );
}

/** Of a tensor that is taken for a list, unless there is an axis. */
const flat = (input: RefTensor): RefTensor => ({ ...input, dims: [input.data.length] });

const compress: Operator = (node) => {
  const [given, condition] = [node.input(0), node.input(1)];
  if (condition.dims.length !== 1) throw new Illegal(`conditions of [${condition.dims}]`);
  // ONNX asks for an axis, and without the attribute there is no need of one.
  if (given.dims.length === 0) node.tolerate();
  const input = node.has('axis') ? given : flat(given);
  const axis = node.has('axis') ? axisOf(node.integer('axis'), given.dims.length) : 0;
  const extent = input.dims[axis]!;
  if (condition.data.length > extent) throw new Unjudged(`${condition.data.length} conditions for ${extent}`);
  const places = [...condition.data.keys()].filter((place) => condition.data[place] !== 0n);
  return [slicesAt(input, axis, places)];
};

/** Decided: a scalar counts as a tensor of one axis. */
const nonZero: Operator = (node) => {
  const { dims: given, data } = node.input(0);
  const dims = given.length === 0 ? [1] : given;
  const rows = dims.map((): number[] => []);
  let count = 0;
  forEachIndex(dims, (at, index) => {
    if (Number(data[index]) === 0) return;
    count++;
    rows.forEach((row, axis) => row.push(at[axis]!));
  });
  return [int64(rows.flat(), [dims.length, count])];
};

/** Decided: NaN is equal to NaN, and behind all numbers. */
function orderOf(a: Scalar, b: Scalar): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

function orderOfLists(a: readonly Scalar[], b: readonly Scalar[]): number {
  for (let i = 0; i < a.length; i++) {
    const order = orderOf(a[i]!, b[i]!);
    if (order !== 0) return order;
  }
  return 0;
}

const unique: Operator = (node) => {
  const given = node.input(0);
  const input = node.has('axis') ? given : flat(given);
  const axis = node.has('axis') ? axisOf(node.integer('axis'), given.dims.length) : 0;
  const places = [...Array(input.dims[axis]!).keys()];
  const slices = places.map((place) => slicesAt(input, axis, [place]).data);
  // Whether slices without elements are all the same, ONNX does not say.
  if (slices[0]?.length === 0) throw new Unjudged('slices of no elements');
  const groups: number[][] = [];
  for (const place of places) {
    const group = groups.find(([first]) => orderOfLists(slices[first!]!, slices[place]!) === 0);
    if (group === undefined) groups.push([place]);
    else group.push(place);
  }
  if (node.flag('sorted', true)) groups.sort(([a], [b]) => orderOfLists(slices[a!]!, slices[b!]!));
  const firsts = groups.map(([first]) => first!);
  const found = slicesAt(input, axis, firsts);
  return [
    // Zeros of either sign are equal.
    { ...found, allowed: found.data.map(() => 0) },
    int64(firsts),
    int64(places.map((place) => groups.findIndex((group) => group.includes(place)))),
    int64(groups.map((group) => group.length)),
  ];
};

interface Box {
  readonly low: readonly [y: number, x: number];
  readonly high: readonly [y: number, x: number];
}

function boxAt(boxes: RefTensor, first: number, isCentered: boolean): Box {
  const [a, b, c, d] = boxes.data.slice(first, first + 4) as [number, number, number, number];
  if (isCentered) {
    // Of negative extents ONNX does not say what they mean.
    if (c < 0 || d < 0) throw new Unjudged(`a box of ${c} by ${d}`);
    return { low: [b - d / 2, a - c / 2], high: [b + d / 2, a + c / 2] };
  }
  return { low: [Math.min(a, c), Math.min(b, d)], high: [Math.max(a, c), Math.max(b, d)] };
}

/** How much of what two boxes cover they share. */
function overlapOf(a: Box, b: Box): number {
  const area = ({ low, high }: Box) => (high[0] - low[0]) * (high[1] - low[1]);
  const side = (axis: 0 | 1) => Math.min(a.high[axis], b.high[axis]) - Math.max(a.low[axis], b.low[axis]);
  const [height, width] = [side(0), side(1)];
  if (height <= 0 || width <= 0) return 0;
  return (height * width) / (area(a) + area(b) - height * width);
}

/** An overlap so near to the bound that rounding decides. One that is the bound itself in binary is exact. */
function isUnclear(overlap: number, bound: number): boolean {
  return overlap !== bound && Math.abs(overlap - bound) < 1e-5;
}

const nonMaxSuppression: Operator = (node) => {
  const [boxes, scores] = [node.input(0), node.input(1)];
  const [batches, classes, count] = scores.dims as [number, number, number];
  if (scores.dims.length !== 3 || boxes.dims.join() !== [batches, count, 4].join()) {
    throw new Illegal(`boxes [${boxes.dims}] and scores [${scores.dims}]`);
  }
  const scalar = (index: number, fallback: number) => {
    const given = node.optional(index);
    if (given === undefined) return fallback;
    if (given.data.length !== 1) throw new Illegal(`[${given.dims}] for one number`);
    if (given.dims.length > 0) node.tolerate();
    return Number(given.data[0]);
  };
  const [most, bound, least] = [scalar(2, 0), scalar(3, 0), scalar(4, -Infinity)];
  if (!(bound >= 0 && bound <= 1)) throw new Unjudged(`an overlap of ${bound}`);
  const isCentered = node.flag('center_point_box');
  const found: number[] = [];
  forEachIndex([batches, classes], ([batch, group], index) => {
    const own = scores.data.slice(index * count, (index + 1) * count) as number[];
    const all = own.map((_, i) => boxAt(boxes, (batch! * count + i) * 4, isCentered));
    for (const box of selected(all, own, { most, bound, least })) found.push(batch!, group!, box);
  });
  return [int64(found, [found.length / 3, 3])];
};

interface Limits {
  readonly most: number;
  readonly bound: number;
  readonly least: number;
}

/** The boxes from the highest score on that overlap none before them by more than the bound. */
function selected(
  boxes: readonly Box[],
  scores: readonly number[],
  { most, bound, least }: Limits,
): number[] {
  const order = [...scores.keys()].filter((i) => scores[i]! > least).sort((a, b) => scores[b]! - scores[a]!);
  const isOpen = scores.some((score) => Number.isNaN(score) || score === least);
  // Which of two with the same score comes first, and what becomes of one at the bound, ONNX does not say.
  if (isOpen || order.some((i, at) => scores[i] === scores[order[at + 1] ?? -1])) {
    throw new Unjudged('scores that are the same, the bound, or NaN');
  }
  const kept: number[] = [];
  for (const i of order) {
    if (kept.length >= most) break;
    const overlaps = kept.map((other) => overlapOf(boxes[i]!, boxes[other]!));
    if (overlaps.some((overlap) => Number.isNaN(overlap) || isUnclear(overlap, bound))) {
      throw new Unjudged('an overlap near the bound');
    }
    if (!overlaps.some((overlap) => overlap > bound)) kept.push(i);
  }
  return kept;
}

export const selection: Readonly<Record<string, Operator>> = {
  Compress: compress,
  NonMaxSuppression: nonMaxSuppression,
  NonZero: nonZero,
  Unique: unique,
};

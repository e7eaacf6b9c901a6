/** Operators that find elements by indices, or say where elements are. */
import { typeOfNumber, type Operator } from './elementwise';
import type { Node } from './node';
import { arithmeticOf, wrap } from './precision';
import {
  axisOf,
  forEachIndex,
  Illegal,
  isFloat,
  moved,
  offsetOf,
  OutOfRange,
  placeOf,
  requireSmall,
  sizeOf,
  stridesOf,
  Unjudged,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';
import { spatialAttribute } from './windows';

const ANYTHING = NaN;

/** Where each index of a tensor points along one axis: for each index its offset in the other tensor. */
function offsetsAlong(axis: number, data: RefTensor, indices: RefTensor): number[] {
  const { dims } = indices;
  const fits = dims.length === data.dims.length;
  if (!fits || dims.some((extent, i) => i !== axis && extent > data.dims[i]!)) {
    throw new Illegal(`indices [${dims}] along axis ${axis} of [${data.dims}]`);
  }
  const strides = stridesOf(data.dims);
  const offsets: number[] = [];
  forEachIndex(dims, (at, i) => {
    const place = placeOf(indices.data[i]!, data.dims[axis]!);
    offsets.push(offsetOf(at, strides.with(axis, 0)) + place * strides[axis]!);
  });
  return offsets;
}

const gatherElements: Operator = (node) => {
  const [data, indices] = [node.input(0), node.input(1)];
  const axis = axisOf(node.integer('axis', 0), data.dims.length);
  const offsets = offsetsAlong(axis, data, indices);
  return [{ type: data.type, dims: indices.dims, data: offsets.map((offset) => data.data[offset]!) }];
};

/** Slices that rows of indices point to: the dims of all of them, and the offset of each element of theirs. */
function sliceOffsets(data: RefTensor, indices: RefTensor, batch: number): { dims: Dims; offsets: number[] } {
  const depth = indices.dims.at(-1);
  const rows = indices.dims.slice(0, -1);
  if (depth === undefined || data.dims.length === 0) throw new Illegal('indices or data that are a scalar');
  if (batch < 0 || batch >= Math.min(indices.dims.length, data.dims.length)) {
    throw new Illegal(`${batch} axes of batches`);
  }
  if (depth === 0) throw new Unjudged('rows of no indices');
  if (batch + depth > data.dims.length || rows.slice(0, batch).some((extent, i) => extent !== data.dims[i])) {
    throw new Illegal(`[${data.dims}] by [${indices.dims}], ${batch} axes of batches`);
  }
  const strides = stridesOf(data.dims);
  const slice = data.dims.slice(batch + depth);
  requireSmall([...rows, ...slice]);
  const offsets: number[] = [];
  forEachIndex(rows, (at, row) => {
    let first = offsetOf(at.slice(0, batch), strides.slice(0, batch));
    for (let i = 0; i < depth; i++) {
      const axis = batch + i;
      first += placeOf(indices.data[row * depth + i]!, data.dims[axis]!) * strides[axis]!;
    }
    for (let i = 0; i < sizeOf(slice); i++) offsets.push(first + i);
  });
  return { dims: [...rows, ...slice], offsets };
}

const gatherND: Operator = (node) => {
  const data = node.input(0);
  const { dims, offsets } = sliceOffsets(data, node.input(1), node.integer('batch_dims', 0));
  return [{ type: data.type, dims, data: offsets.map((offset) => data.data[offset]!) }];
};

const REDUCTIONS = ['none', 'add', 'mul', 'max', 'min'] as const;
type Reduction = (typeof REDUCTIONS)[number];

function reductionOf(node: Node): Reduction {
  const reduction = node.string('reduction', REDUCTIONS);
  // ONNX has extremes since opset 18.
  if (node.opset < 18 && (reduction === 'max' || reduction === 'min')) node.tolerate();
  return reduction;
}

/** A copy of a tensor in which values have been combined with the elements at their offsets. */
function scattered(
  data: RefTensor,
  offsets: readonly number[],
  values: readonly Scalar[],
  reduction: Reduction,
): Expected {
  const { type, dims } = data;
  if (type === 'bool' && (reduction === 'add' || reduction === 'mul'))
    throw new Unjudged(`${reduction} of bool`);
  const given = new Map<number, Scalar[]>();
  offsets.forEach((offset, i) => given.set(offset, [...(given.get(offset) ?? []), values[i]!]));
  const results = [...data.data];
  const allowed = results.map(() => 0);
  for (const [offset, list] of given) {
    [results[offset], allowed[offset]] = combined(type, data.data[offset]!, list, reduction);
  }
  return reduction === 'none' && !allowed.some(Number.isNaN)
    ? { type, dims, data: results }
    : { type, dims, data: results, allowed };
}

type Judged = readonly [Scalar, number];

/** What becomes of an element. In which order several values come, ONNX leaves open. */
function combined(type: ElementType, old: Scalar, values: readonly Scalar[], reduction: Reduction): Judged {
  const all = [old, ...values];
  switch (reduction) {
    case 'none':
      return [values[0]!, values.every((value) => Object.is(value, values[0])) ? 0 : ANYTHING];
    case 'add':
      return isFloat(type)
        ? floatSum(type, all as number[])
        : [
            wrap(
              type,
              (all as bigint[]).reduce((a, b) => a + b),
            ),
            0,
          ];
    case 'mul':
      return isFloat(type)
        ? floatProduct(type, all as number[])
        : [
            wrap(
              type,
              (all as bigint[]).reduce((a, b) => a * b),
            ),
            0,
          ];
    default: {
      const isBetter = (a: Scalar, b: Scalar) => Number.isNaN(a) || (reduction === 'max' ? a > b : a < b);
      return [all.reduce((a, b) => (isBetter(b, a) && !Number.isNaN(a) ? b : a)), 0];
    }
  }
}

/** As one addition after the other rounds. */
function floatSum(type: ElementType, terms: readonly number[]): Judged {
  const { extreme, tiny, unit } = arithmeticOf(type);
  const size = terms.reduce((sum, x) => sum + (Number.isFinite(x) ? Math.abs(x) : 0), 0);
  const sum = terms.reduce((a, b) => a + b);
  return [sum, size > extreme ? ANYTHING : 2 * terms.length * unit * size + tiny];
}

function floatProduct(type: ElementType, factors: readonly number[]): Judged {
  const { extreme, tiny, unit } = arithmeticOf(type);
  const product = factors.reduce((a, b) => a * b);
  const ordinary = factors.filter((x) => Number.isFinite(x) && x !== 0).map((x) => Math.log2(Math.abs(x)));
  const reach = ordinary.reduce((sum, exponent) => sum + Math.abs(exponent), 0);
  if (reach > Math.log2(extreme)) return [product, ANYTHING];
  return [product, Number.isFinite(product) ? 2 * factors.length * unit * Math.abs(product) + tiny : 0];
}

const scatterElements: Operator = (node) => {
  const [data, indices, updates] = [node.input(0), node.input(1), node.input(2)];
  const axis = axisOf(node.integer('axis', 0), data.dims.length);
  if (updates.dims.join() !== indices.dims.join())
    throw new Illegal(`[${updates.dims}] for [${indices.dims}]`);
  return [scattered(data, offsetsAlong(axis, data, indices), updates.data, reductionOf(node))];
};

const scatterND: Operator = (node) => {
  const [data, updates] = [node.input(0), node.input(2)];
  const { dims, offsets } = sliceOffsets(data, node.input(1), 0);
  if (updates.dims.join() !== dims.join()) throw new Illegal(`[${updates.dims}] for [${dims}]`);
  return [scattered(data, offsets, updates.data, reductionOf(node))];
};

/** The only element of an input, which may be a scalar or a list of one. */
function onlyElement(node: Node, index: number): Scalar {
  const { dims, data } = node.input(index);
  if (data.length !== 1) throw new Illegal(`[${dims}] for one element`);
  if (dims.length > 1) node.tolerate();
  return data[0]!;
}

/** An input of one element, of which other runtimes take the other kind, too. */
function scalarInput(node: Node, index: number, rank: 0 | 1): number {
  const { dims, data } = node.input(index);
  if (data.length !== 1) throw new Illegal(`[${dims}] for one element`);
  if (dims.length !== rank) node.tolerate();
  return Number(data[0]);
}

function wholeNumber(x: Scalar): number {
  if (!Number.isFinite(Number(x))) throw new Unjudged(`${x} as an integer`);
  return Math.trunc(Number(x));
}

/** Negative indices count from the end since opset 11. Those beyond leave every element off. */
const oneHot: Operator = (node) => {
  const [indices, values] = [node.input(0), node.input(2)];
  const depth = wholeNumber(onlyElement(node, 1));
  if (depth < 0) throw new Illegal(`a depth of ${depth}`);
  if (values.dims.join() !== '2') throw new Illegal(`values of [${values.dims}]`);
  const axis = axisOf(node.integer('axis', -1), indices.dims.length + 1);
  const dims = indices.dims.toSpliced(axis, 0, depth);
  requireSmall(dims);
  const least = node.opset < 11 ? 0 : -depth;
  const places = indices.data.map((index) => {
    const place = wholeNumber(index);
    return place >= least && place < depth ? (place < 0 ? place + depth : place) : undefined;
  });
  const strides = stridesOf(indices.dims);
  const data: Scalar[] = [];
  forEachIndex(dims, (at) => {
    const place = places[offsetOf(at.toSpliced(axis, 1), strides)];
    data.push(values.data[place === at[axis] ? 1 : 0]!);
  });
  return [{ type: values.type, dims, data }];
};

const reverseSequence: Operator = (node) => {
  const [input, lengths] = [node.input(0), node.input(1)];
  const [batch, time] = [node.integer('batch_axis', 1), node.integer('time_axis', 0)];
  const isLegal = (batch === 0 && time === 1) || (batch === 1 && time === 0);
  if (!isLegal || input.dims.length < 2) throw new Illegal(`axes ${batch} and ${time} of [${input.dims}]`);
  if (lengths.dims.join() !== `${input.dims[batch]}`) throw new Illegal(`[${lengths.dims}] lengths`);
  if (input.data.length === 0) return [input];
  for (const length of lengths.data as readonly bigint[]) {
    if (length > input.dims[time]!) throw new OutOfRange(`the first ${length} of ${input.dims[time]}`);
    if (length < 0n) throw new Unjudged(`a length of ${length}`);
  }
  const strides = stridesOf(input.dims);
  const place = (at: readonly number[]) => {
    const length = Number(lengths.data[at[batch]!]);
    return at[time]! < length ? length - 1 - at[time]! : at[time]!;
  };
  return [moved(input, input.dims, (at) => offsetOf(at.with(time, place(at)), strides))];
};

/** Whether a goes before b where the greatest come first. NaN counts as greater than all numbers. */
function isGreater(a: Scalar, b: Scalar): boolean {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) && !Number.isNaN(b);
  return a > b;
}

const topK: Operator = (node) => {
  const input = node.input(0);
  const axis = axisOf(node.integer('axis', -1), input.dims.length);
  const count = node.opset < 10 ? node.integer('k') : scalarInput(node, 1, 1);
  if (count < 0 || count > input.dims[axis]!) throw new Illegal(`${count} elements of ${input.dims[axis]}`);
  if (count === 0) throw new Unjudged('no elements');
  const largest = node.flag('largest', true);
  const dims = input.dims.with(axis, count);
  const strides = stridesOf(input.dims);
  const [values, places]: [Scalar[], bigint[]] = [new Array(sizeOf(dims)), new Array(sizeOf(dims))];
  forEachIndex(dims.with(axis, 1), (at) => {
    const first = offsetOf(at, strides);
    const line = Array.from({ length: input.dims[axis]! }, (_, i) => input.data[first + i * strides[axis]!]!);
    sortedPlaces(line, largest)
      .slice(0, count)
      .forEach((place, i) => {
        const to = offsetOf(at.with(axis, i), stridesOf(dims));
        [values[to], places[to]] = [line[place]!, BigInt(place)];
      });
  });
  // Of more than one element in no order, ONNX does not say which comes where.
  const open = !node.flag('sorted', true) && count > 1 ? { allowed: values.map(() => ANYTHING) } : {};
  return [
    { type: input.type, dims, data: values, ...open },
    { type: 'int64', dims, data: places, ...open },
  ];
};

function sortedPlaces(line: readonly Scalar[], largest: boolean): number[] {
  const order = (a: number, b: number) => {
    const [first, second] = largest ? [line[a]!, line[b]!] : [line[b]!, line[a]!];
    return Number(isGreater(second, first)) - Number(isGreater(first, second)) || a - b;
  };
  return [...line.keys()].sort(order);
}

const zeroOf = (type: ElementType): Scalar => (isFloat(type) ? 0 : 0n);

const trilu: Operator = (node) => {
  const input = node.input(0);
  if (input.dims.length < 2) throw new Illegal(`a triangle of [${input.dims}]`);
  const k = node.optional(1) === undefined ? 0 : scalarInput(node, 1, 0);
  const isUpper = node.flag('upper', true);
  const data: Scalar[] = [];
  forEachIndex(input.dims, (at, index) => {
    const beside = at.at(-1)! - at.at(-2)!;
    const stays = isUpper ? beside >= k : beside <= k;
    data.push(stays ? input.data[index]! : zeroOf(input.type));
  });
  return [{ type: input.type, dims: input.dims, data }];
};

const eyeLike: Operator = (node) => {
  const input = node.input(0);
  if (input.dims.length !== 2) throw new Illegal(`a matrix like [${input.dims}]`);
  const type = node.has('dtype') ? typeOfNumber(node.integer('dtype')) : input.type;
  if (type === 'bfloat16' && node.opset < 22) node.tolerate();
  const k = node.integer('k', 0);
  const data: Scalar[] = [];
  forEachIndex(input.dims, ([row, column]) => {
    const isOne = column! - row! === k;
    data.push(isFloat(type) ? Number(isOne) : BigInt(isOne));
  });
  return [{ type, dims: input.dims, data }];
};

/**
 * Elements go back to where a MaxPool found them. Places are counted in the tensor that the attributes say; in ONNX's test
 * data a larger one has it in its corner.
 */
const maxUnpool: Operator = (node) => {
  const [input, indices] = [node.input(0), node.input(1)];
  const rank = input.dims.length - 2;
  if (rank < 1) throw new Illegal(`maps of rank ${input.dims.length}`);
  if (indices.dims.join() !== input.dims.join()) throw new Illegal(`[${indices.dims}] for [${input.dims}]`);
  const kernel = spatialAttribute(node, 'kernel_shape', rank, 1, 1);
  const strides = spatialAttribute(node, 'strides', rank, 1, 1);
  const pads = spatialAttribute(node, 'pads', 2 * rank, 0, 0);
  const dims = input.dims.map((extent, axis) => {
    const i = axis - 2;
    return i < 0 ? extent : (extent - 1) * strides[i]! + kernel[i]! - pads[i]! - pads[i + rank]!;
  });
  requireSmall(dims);
  const places = (indices.data as readonly bigint[]).map((index) => {
    if (index < 0n || index >= sizeOf(dims)) throw new OutOfRange(`element ${index} of [${dims}]`);
    return Number(index);
  });
  const empty = { type: input.type, dims, data: new Array<Scalar>(sizeOf(dims)).fill(0) };
  const unpooled = scattered(empty, places, input.data, 'none');
  if (node.optional(2) === undefined) return [unpooled];
  return [inCorner(unpooled, node.list(2), pads)];
};

function inCorner(tensor: Expected, wanted: readonly number[], pads: readonly number[]): Expected {
  const { dims } = tensor;
  if (wanted.join() === dims.join()) return tensor;
  if (wanted.length !== dims.length || wanted.some((extent) => extent < 0)) {
    throw new Illegal(`[${dims}] in [${wanted}]`);
  }
  // Which part a smaller one has, and what padding comes to then, ONNX does not say.
  if (wanted.some((extent, axis) => extent < dims[axis]!) || pads.some((count) => count > 0)) {
    throw new Unjudged(`[${dims}] in [${wanted}]`);
  }
  requireSmall(wanted);
  const strides = stridesOf(dims);
  // One element more, behind the others, is the rest.
  const source = (at: readonly number[]) =>
    at.every((place, axis) => place < dims[axis]!) ? offsetOf(at, strides) : tensor.data.length;
  const spread = moved({ ...tensor, data: [...tensor.data, 0] }, wanted, source);
  if (tensor.allowed === undefined) return spread;
  const bounds = moved({ ...tensor, data: [...tensor.allowed, 0] }, wanted, source);
  return { ...spread, allowed: bounds.data as number[] };
}

/** An update written into a cache along one axis, for each sequence from a place of its own. */
const tensorScatter: Operator = (node) => {
  const [cache, update, starts] = [node.input(0), node.input(1), node.optional(2)];
  const rank = cache.dims.length;
  const axis = axisOf(node.integer('axis', -2), rank);
  if (axis === 0) throw new Illegal('an axis of sequences');
  const isRing = node.string('mode', ['linear', 'circular']) === 'circular';
  const [length, room] = [update.dims[axis], cache.dims[axis]!];
  if (update.dims.length !== rank || cache.dims.with(axis, length!).join() !== update.dims.join())
    throw new Illegal(`[${update.dims}] in [${cache.dims}]`);
  if (length! > room) throw new Illegal(`${length} elements in ${room}`);
  if (starts !== undefined && starts.dims.join() !== `${cache.dims[0]}`)
    throw new Illegal(`[${starts.dims}]`);
  const data = [...cache.data];
  const strides = stridesOf(cache.dims);
  let isOdd = false;
  forEachIndex(update.dims, (at, index) => {
    const start = Number(starts?.data[at[0]!] ?? 0);
    const place = isRing ? (start + at[axis]!) % room : placeOf(start + at[axis]!, room);
    if (start < 0 || !Number.isSafeInteger(start)) isOdd = true;
    else data[offsetOf(at.with(axis, place), strides)] = update.data[index]!;
  });
  if (isOdd) throw new Unjudged('places counted from the end, or beyond what numbers here hold');
  return [{ type: cache.type, dims: cache.dims, data }];
};

export const indexing: Readonly<Record<string, Operator>> = {
  EyeLike: eyeLike,
  GatherElements: gatherElements,
  GatherND: gatherND,
  MaxUnpool: maxUnpool,
  OneHot: oneHot,
  ReverseSequence: reverseSequence,
  Scatter: scatterElements,
  ScatterElements: scatterElements,
  ScatterND: scatterND,
  TopK: topK,
  Trilu: trilu,
  TensorScatter: tensorScatter,
};

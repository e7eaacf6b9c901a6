/** Operators that bring elements to other places, or tensors to other dims. */
import type { Operator } from './elementwise';
import type { Node } from './node';
import {
  axesOf,
  axisOf,
  broadcastDims,
  broadcastStrides,
  forEachIndex,
  Illegal,
  isFloat,
  moved,
  offsetOf,
  placeOf,
  requireSmall,
  sizeOf,
  stridesOf,
  Unjudged,
  type Dims,
  type Expected,
  type RefTensor,
  type Scalar,
} from './tensor';

function relabelled(input: RefTensor, dims: Dims): Expected {
  requireSmall(dims);
  if (sizeOf(dims) !== sizeOf(input.dims)) throw new Illegal(`[${input.dims}] as [${dims}]`);
  return { type: input.type, dims, data: input.data };
}

const reshape: Operator = (node) => {
  const input = node.input(0);
  const keepsZeros = node.flag('allowzero');
  const wanted = node.list(1);
  const unknown = wanted.filter((extent) => extent === -1).length;
  if (unknown > 1 || wanted.some((extent) => extent < -1)) throw new Illegal(`dims [${wanted}]`);
  if (keepsZeros && unknown > 0 && wanted.includes(0)) throw new Illegal(`dims [${wanted}] with allowzero`);
  const copied = wanted.map((extent, axis) => {
    if (extent !== 0 || keepsZeros) return extent;
    if (axis >= input.dims.length) throw new Illegal(`copies extent ${axis} of [${input.dims}]`);
    return input.dims[axis]!;
  });
  const known = sizeOf(copied.filter((extent) => extent !== -1));
  if (unknown > 0 && known === 0) throw new Illegal('an extent of any size');
  return [
    relabelled(
      input,
      copied.map((extent) => (extent === -1 ? sizeOf(input.dims) / known : extent)),
    ),
  ];
};

const flatten: Operator = (node) => {
  const input = node.input(0);
  const rank = input.dims.length;
  const axis = node.integer('axis', 1);
  // Other runtimes count from the end in every opset.
  if (axis < 0 && node.opset < 11) node.tolerate();
  if (axis < -rank || axis > rank) throw new Illegal(`axis ${axis} of ${rank}`);
  const split = axis < 0 ? axis + rank : axis;
  return [relabelled(input, [sizeOf(input.dims.slice(0, split)), sizeOf(input.dims.slice(split))])];
};

/** An attribute at first, an input since that opset. */
function listSince(node: Node, opset: number, attribute: string, index: number): number[] | undefined {
  return node.opset < opset ? node.integers(attribute) : node.optionalList(index);
}

const squeeze: Operator = (node) => {
  const input = node.input(0);
  const given = listSince(node, 13, 'axes', 1);
  const axes = given && axesOf(given, input.dims.length);
  const goes = (extent: number, axis: number) => axes?.includes(axis) ?? extent === 1;
  if (input.dims.some((extent, axis) => goes(extent, axis) && extent !== 1)) {
    throw new Illegal(`squeezes [${given}] of [${input.dims}]`);
  }
  return [
    relabelled(
      input,
      input.dims.filter((extent, axis) => !goes(extent, axis)),
    ),
  ];
};

const unsqueeze: Operator = (node) => {
  const input = node.input(0);
  const given = listSince(node, 13, 'axes', 1) ?? [];
  const rank = input.dims.length + given.length;
  if (rank > 64) throw new Unjudged(`rank ${rank}`);
  const counted = given.map((axis) => axisOf(axis, rank));
  if (new Set(counted).size < given.length) throw new Illegal(`unsqueezes [${given}]`);
  const axes = axesOf(counted, rank);
  const rest = [...input.dims];
  return [
    relabelled(
      input,
      Array.from({ length: rank }, (_, axis) => (axes.includes(axis) ? 1 : rest.shift()!)),
    ),
  ];
};

function transposed(input: RefTensor, order: readonly number[]): Expected {
  const strides = stridesOf(input.dims);
  const dims = order.map((axis) => input.dims[axis]!);
  const permuted = order.map((axis) => strides[axis]!);
  return moved(input, dims, (at) => offsetOf(at, permuted));
}

const transpose: Operator = (node) => {
  const input = node.input(0);
  const rank = input.dims.length;
  const order = node.integers('perm') ?? Array.from({ length: rank }, (_, i) => rank - 1 - i);
  const isOrder = order.length === rank && new Set(order).size === rank;
  if (!isOrder || order.some((axis) => axis < 0 || axis >= rank))
    throw new Illegal(`perm [${order}] of rank ${rank}`);
  return [transposed(input, order)];
};

const concat: Operator = (node) => {
  const { inputs } = node;
  if (inputs.length === 0) throw new Illegal('joins nothing');
  const [first] = inputs as [RefTensor];
  const axis = axisOf(node.integer('axis'), first.dims.length);
  for (const { dims } of inputs) {
    if (
      dims.length === first.dims.length &&
      dims.every((extent, i) => i === axis || extent === first.dims[i])
    )
      continue;
    throw new Illegal(`joins [${dims}] to [${first.dims}] along ${axis}`);
  }
  const places = inputs.flatMap(({ dims }, input) =>
    Array.from({ length: dims[axis]! }, (_, at) => ({ input, at })),
  );
  const dims = first.dims.with(axis, places.length);
  requireSmall(dims);
  const strides = inputs.map((input) => stridesOf(input.dims));
  const elements = moved({ ...first, data: [] }, dims, () => 0).data.map((_, index) => {
    const at = coordinatesOf(index, dims);
    const place = places[at[axis]!]!;
    return inputs[place.input]!.data[offsetOf(at.with(axis, place.at), strides[place.input]!)]!;
  });
  return [{ type: first.type, dims, data: elements }];
};

function coordinatesOf(index: number, dims: Dims): number[] {
  return stridesOf(dims).map((stride, axis) => Math.floor(index / stride) % dims[axis]!);
}

const split: Operator = (node) => {
  const input = node.input(0);
  const axis = axisOf(node.integer('axis', 0), input.dims.length);
  const extent = input.dims[axis]!;
  const counts = listSince(node, 13, 'split', 1) ?? evenParts(node, extent);
  if (node.opset >= 18 && node.has('num_outputs') && node.optional(1) !== undefined) {
    throw new Illegal('both sizes and the number of outputs');
  }
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (counts.length !== node.outputs || total !== extent || counts.some((count) => count < 0)) {
    throw new Illegal(`splits ${extent} into [${counts}] for ${node.outputs} outputs`);
  }
  const strides = stridesOf(input.dims);
  let start = 0;
  return counts.map((count) => {
    const first = start * strides[axis]!;
    start += count;
    return moved(input, input.dims.with(axis, count), (at) => first + offsetOf(at, strides));
  });
};

/** Since opset 18 the number of parts is an attribute, and the last of them may be smaller. */
function evenParts(node: Node, extent: number): number[] {
  const parts = node.opset < 18 ? node.outputs : node.integer('num_outputs', node.outputs);
  if (parts !== node.outputs) throw new Illegal(`${parts} parts for ${node.outputs} outputs`);
  if (extent % parts === 0) return new Array<number>(parts).fill(extent / parts);
  if (node.opset < 18) throw new Unjudged(`${parts} equal parts of ${extent}`);
  const most = Math.ceil(extent / parts);
  const last = extent - most * (parts - 1);
  if (last < 0) throw new Unjudged(`${parts} parts of ${extent}`);
  return [...new Array<number>(parts - 1).fill(most), last];
}

const slice: Operator = (node) => {
  const input = node.input(0);
  const byInput = node.opset >= 10;
  const starts = byInput ? node.list(1) : node.integers('starts')!;
  const ends = byInput ? node.list(2) : node.integers('ends')!;
  const axes = (byInput ? node.optionalList(3) : node.integers('axes')) ?? starts.map((_, axis) => axis);
  const steps = (byInput ? node.optionalList(4) : undefined) ?? starts.map(() => 1);
  if ([ends, axes, steps].some((list) => list.length !== starts.length) || steps.includes(0)) {
    throw new Illegal(`starts [${starts}], ends [${ends}], axes [${axes}], steps [${steps}]`);
  }
  const strides = stridesOf(input.dims);
  const dims = [...input.dims];
  const firsts = input.dims.map(() => 0);
  const leaps = input.dims.map(() => 1);
  axesOf(axes, input.dims.length).forEach((axis, i) => {
    const range = rangeOf(input.dims[axis]!, starts[i]!, ends[i]!, steps[i]!);
    [firsts[axis], leaps[axis], dims[axis]] = [range.start, steps[i]!, range.count];
  });
  return [
    moved(input, dims, (at) =>
      offsetOf(
        at.map((place, axis) => firsts[axis]! + place * leaps[axis]!),
        strides,
      ),
    ),
  ];
};

function rangeOf(extent: number, from: number, to: number, step: number): { start: number; count: number } {
  const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x, low), high);
  const counted = (place: number) => (place < 0 ? place + extent : place);
  const start = clamp(counted(from), 0, step > 0 ? extent : extent - 1);
  const end = step > 0 ? clamp(counted(to), 0, extent) : clamp(counted(to), -1, extent - 1);
  return { start, count: extent === 0 ? 0 : Math.max(0, Math.ceil((end - start) / step)) };
}

const gather: Operator = (node) => {
  const [input, indices] = [node.input(0), node.input(1)];
  const axis = axisOf(node.integer('axis', 0), input.dims.length);
  const extent = input.dims[axis]!;
  const places = indices.data.map((index) => placeOf(index, extent));
  const [strides, indexStrides] = [stridesOf(input.dims), stridesOf(indices.dims)];
  const end = axis + indices.dims.length;
  const dims = [...input.dims.slice(0, axis), ...indices.dims, ...input.dims.slice(axis + 1)];
  const source = (at: readonly number[]) => {
    const place = places[offsetOf(at.slice(axis, end), indexStrides)]!;
    return offsetOf([...at.slice(0, axis), place, ...at.slice(end)], strides);
  };
  return [moved(input, dims, source)];
};

const expand: Operator = (node) => {
  const input = node.input(0);
  const wanted = node.list(1);
  if (wanted.some((extent) => extent < 0)) throw new Illegal(`dims [${wanted}]`);
  const dims = broadcastDims(input.dims, wanted);
  const strides = broadcastStrides(input.dims, dims);
  return [moved(input, dims, (at) => offsetOf(at, strides))];
};

const tile: Operator = (node) => {
  const input = node.input(0);
  const repeats = node.list(1);
  if (repeats.length !== input.dims.length || repeats.some((count) => count < 0)) {
    throw new Illegal(`[${input.dims}] repeated [${repeats}] times`);
  }
  const strides = stridesOf(input.dims);
  const dims = input.dims.map((extent, axis) => extent * repeats[axis]!);
  return [
    moved(input, dims, (at) =>
      offsetOf(
        at.map((place, axis) => place % input.dims[axis]!),
        strides,
      ),
    ),
  ];
};

/** A tensor under other dims, its axes in another order, and that under other dims again. */
function rearranged(input: RefTensor, dims: Dims, order: readonly number[], result: Dims): Expected {
  return relabelled(transposed(relabelled(input, dims), order), result);
}

function blocksOf(node: Node): { input: RefTensor; dims: [number, number, number, number]; block: number } {
  const input = node.input(0);
  const block = node.integer('blocksize');
  if (input.dims.length !== 4) throw new Illegal(`blocks of rank ${input.dims.length}`);
  if (block < 1) throw new Illegal(`blocks of ${block}`);
  return { input, dims: input.dims as [number, number, number, number], block };
}

const depthToSpace: Operator = (node) => {
  const { input, dims, block } = blocksOf(node);
  const [n, c, h, w] = dims;
  const channels = c / block ** 2;
  const result = [n, channels, h * block, w * block];
  return node.string('mode', ['DCR', 'CRD']) === 'DCR'
    ? [rearranged(input, [n, block, block, channels, h, w], [0, 3, 4, 1, 5, 2], result)]
    : [rearranged(input, [n, channels, block, block, h, w], [0, 1, 4, 2, 5, 3], result)];
};

const spaceToDepth: Operator = (node) => {
  const { input, dims, block } = blocksOf(node);
  const [n, c, h, w] = dims;
  const [p, q] = [h / block, w / block];
  const order = node.string('mode', ['DCR', 'CRD']) === 'DCR' ? [0, 3, 5, 1, 2, 4] : [0, 1, 3, 5, 2, 4];
  return [rearranged(input, [n, c, p, block, q, block], order, [n, c * block ** 2, p, q])];
};

const pad: Operator = (node) => {
  const input = node.input(0);
  const rank = input.dims.length;
  const pads = node.opset < 11 ? node.integers('pads')! : node.list(1);
  const given = node.opset < 18 ? undefined : node.optionalList(3);
  const axes = given === undefined ? input.dims.map((_, axis) => axis) : axesOf(given, rank);
  if (pads.length !== 2 * axes.length) throw new Illegal(`${pads.length} pads of ${axes.length} axes`);
  const [before, after] = [input.dims.map(() => 0), input.dims.map(() => 0)];
  axes.forEach((axis, i) => ([before[axis], after[axis]] = [pads[i]!, pads[i + axes.length]!]));
  const modes = ['constant', 'reflect', 'edge', ...(node.opset < 19 ? [] : ['wrap'])];
  const mode = node.string('mode', modes);
  const dims = input.dims.map((extent, axis) => extent + before[axis]! + after[axis]!);
  if (dims.some((extent) => extent < 0)) throw new Illegal(`[${input.dims}] padded by [${pads}]`);
  const value = paddingOf(node, input);
  const strides = stridesOf(input.dims);
  if (mode !== 'constant') requirePaddable(input.dims, before, after, mode);
  // One element more, behind the others, stands for the padding.
  const padded = { ...input, data: [...input.data, value] };
  const source = (at: readonly number[]) => {
    const places = at.map((place, axis) => sourceOf(place - before[axis]!, input.dims[axis]!, mode));
    return places.includes(undefined) ? input.data.length : offsetOf(places as number[], strides);
  };
  return [moved(padded, dims, source)];
};

function paddingOf(node: Node, { type }: RefTensor) {
  const value = node.opset < 11 ? node.float('value', 0) : node.optional(2);
  if (typeof value === 'object' && value.data.length !== 1) throw new Illegal(`a padding of [${value.dims}]`);
  if (typeof value === 'object' && value.dims.length > 0) node.tolerate();
  const given = typeof value === 'object' ? value.data[0]! : value;
  return given ?? (type.includes('float') ? 0 : 0n);
}

/** ONNX says nothing of padding a cut input by its elements, nor of reflections beyond the other end. */
function requirePaddable(dims: Dims, before: Dims, after: Dims, mode: string): void {
  dims.forEach((extent, axis) => {
    const most = Math.max(before[axis]!, after[axis]!);
    if (extent === 0 && most > 0) throw new Illegal(`pads an axis of 0 by its own elements`);
    if (Math.min(before[axis]!, after[axis]!) < 0) throw new Unjudged(`negative pads, mode ${mode}`);
    if (mode === 'reflect' && most > extent - 1 && most > 0)
      throw new Unjudged(`reflects ${extent} elements ${most} times`);
  });
}

/** Which element of an axis lies there; none where it is padded by a constant. */
function sourceOf(place: number, extent: number, mode: string): number | undefined {
  if (place >= 0 && place < extent) return place;
  switch (mode) {
    case 'edge':
      return place < 0 ? 0 : extent - 1;
    case 'reflect':
      return place < 0 ? -place : 2 * (extent - 1) - place;
    case 'wrap':
      return ((place % extent) + extent) % extent;
    default:
      return undefined;
  }
}

/** At inference, which is all there is: nothing is dropped. */
const dropout: Operator = (node) => {
  const input = node.input(0);
  if (node.opset >= 12 && node.optional(1) !== undefined && node.input(1).data.length !== 1) {
    throw new Illegal('a ratio of many elements');
  }
  if (node.opset >= 12 && node.optional(2) !== undefined) {
    if (node.input(2).data.length !== 1) throw new Illegal('a training_mode of many elements');
    if (node.input(2).data[0] !== 0n) throw new Unjudged('training');
  }
  const isBool = node.opset >= 10;
  const mask = input.data.map(() => (isBool ? 1n : 1));
  const outputs: Expected[] = [input, { type: isBool ? 'bool' : input.type, dims: input.dims, data: mask }];
  return outputs.slice(0, node.outputs);
};

/** The middle of each axis, or the input in the middle of zeros: of an odd difference the first half is the smaller. */
const centerCropPad: Operator = (node) => {
  const input = node.input(0);
  const rank = input.dims.length;
  const axes = axesOf(node.integers('axes') ?? input.dims.map((_, axis) => axis), rank);
  const wanted = node.list(1);
  if (wanted.length !== axes.length) throw new Illegal(`[${wanted}] for ${axes.length} axes`);
  const dims = input.dims.map((extent, axis) => (axes.includes(axis) ? wanted[axes.indexOf(axis)]! : extent));
  requireSmall(dims);
  // By how much places in the input are further on than those in the output.
  const shifts = dims.map((extent, axis) => {
    const more = input.dims[axis]! - extent;
    return Math.sign(more) * Math.floor(Math.abs(more) / 2);
  });
  const strides = stridesOf(input.dims);
  const data: Scalar[] = [];
  forEachIndex(dims, (at) => {
    const places = at.map((place, axis) => place + shifts[axis]!);
    const isInside = places.every((place, axis) => place >= 0 && place < input.dims[axis]!);
    data.push(isInside ? input.data[offsetOf(places, strides)]! : isFloat(input.type) ? 0 : 0n);
  });
  return [{ type: input.type, dims, data }];
};

export const movement: Readonly<Record<string, Operator>> = {
  CenterCropPad: centerCropPad,
  Concat: concat,
  DepthToSpace: depthToSpace,
  Dropout: dropout,
  Expand: expand,
  Flatten: flatten,
  Gather: gather,
  Identity: (node) => [node.input(0)],
  Pad: pad,
  Reshape: reshape,
  Slice: slice,
  SpaceToDepth: spaceToDepth,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};

/** Operators of `com.microsoft` that are several of ONNX's in one, by onnxruntime's texts. */
import type { Operator } from './elementwise';
import {
  ANYTHING,
  exact,
  gelu,
  geluTanh,
  listed,
  numbersOf,
  products,
  range,
  smooth,
  softmax,
  sum,
  tensorOf,
  times,
  within,
  type Inexact,
} from './inexact';
import { sigmoid } from './functions';
import type { Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import { products as matrices } from './products';
import {
  axisOf,
  broadcastStrides,
  forEachIndex,
  Illegal,
  offsetOf,
  requireBroadcastTo,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Dims,
  type Expected,
  type RefTensor,
} from './tensor';

const MOST_PRODUCTS = 2 ** 22;

const minus = ({ y, off }: Inexact): Inexact => ({ y: -y, off });

/** A tensor's element at coordinates of dims that it is broadcast to. */
function broadcast(tensor: RefTensor, dims: Dims): (at: readonly number[]) => Inexact {
  const strides = broadcastStrides(tensor.dims, dims);
  return (at) => exact(tensor.data[offsetOf(at, strides)] as number);
}

/** An element for each of the last axis, if it is there. */
function bias(node: Node, index: number, dims: Dims): ((at: readonly number[]) => Inexact) | undefined {
  const tensor = node.optional(index);
  if (tensor === undefined) return undefined;
  if (tensor.dims.length !== 1) throw new Illegal(`a bias of [${tensor.dims}]`);
  if (dims.length === 0 || tensor.dims[0] !== dims.at(-1)) {
    // Other runtimes broadcast what ONNX's Add would.
    node.tolerate();
    if (tensor.dims[0] !== 1 && dims.at(-1) !== 1)
      throw new Illegal(`a bias of [${tensor.dims}] for [${dims}]`);
    throw new Unjudged(`a bias of [${tensor.dims}] for [${dims}]`);
  }
  return broadcast(tensor, dims);
}

const biased =
  (compute: typeof gelu): Operator =>
  (node) => {
    const input = node.input(0);
    const arithmetic = arithmeticOf(input.type);
    const [own, added] = [broadcast(input, input.dims), bias(node, 1, input.dims)];
    return [
      tensorOf(input.type, input.dims, (at) =>
        compute(arithmetic, added === undefined ? own(at) : sum(arithmetic, [own(at), added(at)])),
      ),
    ];
  };

const ACTIVATIONS = ['', 'Relu', 'Tanh', 'Sigmoid', 'LeakyRelu', 'Clip', 'HardSigmoid'] as const;

function activation(node: Node, arithmetic: Arithmetic): (x: Inexact) => Inexact {
  const name = node.string('activation', ACTIVATIONS);
  const [p, q] = (node.floats('activation_params') ?? []) as [number?, number?];
  const count = { LeakyRelu: 1, Clip: 2, HardSigmoid: 2 }[name as string] ?? 0;
  if ((count > 0 && p === undefined) || (count > 1 && q === undefined))
    throw new Unjudged(`${name} of [${p}, ${q}]`);
  if (![p ?? 0, q ?? 0].every(Number.isFinite)) throw new Unjudged(`${name} of [${p}, ${q}]`);
  const of =
    (compute: (x: number) => number, slope = 1, ulps = 0) =>
    (x: Inexact) =>
      smooth(arithmetic, { compute, slope, ulps }, x);
  switch (name) {
    case '':
      return (x) => x;
    case 'Relu':
      return of((x) => Math.max(0, x));
    case 'Tanh':
      return of(Math.tanh, 1, 3);
    case 'Sigmoid':
      return of(sigmoid, 0.25, 4);
    case 'LeakyRelu':
      return of((x) => (x < 0 ? p! * x : x), Math.max(1, Math.abs(p!)), 1);
    case 'Clip':
      if (p! > q!) throw new Unjudged(`between ${p} and ${q}`);
      return of((x) => Math.min(Math.max(x, p!), q!));
    case 'HardSigmoid':
      return (x) => {
        const made = of((y) => Math.min(Math.max(p! * y + q!, 0), 1), Math.abs(p!), 1)(x);
        return {
          y: made.y,
          off: made.off + 4 * arithmetic.unit * Math.min(2, Math.abs(p! * x.y) + Math.abs(q!)),
        };
      };
  }
}

const fusedConv: Operator = (node) => {
  const [made] = matrices.Conv!(node);
  const arithmetic = arithmeticOf(made!.type);
  const activate = activation(node, arithmetic);
  const added = node.optional(3);
  if (added !== undefined) {
    requireBroadcastTo(added.dims, made!.dims);
    if (added.dims.join() !== made!.dims.join()) node.tolerate();
  }
  const other = added && broadcast(added, made!.dims);
  const sums = numbersOf(made!);
  let next = 0;
  return [
    tensorOf(made!.type, made!.dims, (at) => {
      const own = sums[next++]!;
      return activate(other === undefined ? own : sum(arithmetic, [own, other(at)]));
    }),
  ];
};

/** A tensor with its axes in another order. */
function transposed<T extends RefTensor>(tensor: T, order: readonly number[]): T {
  const dims = order.map((axis) => tensor.dims[axis]!);
  const own = stridesOf(tensor.dims);
  const strides = order.map((axis) => own[axis]!);
  const places: number[] = [];
  forEachIndex(dims, (at) => places.push(offsetOf(at, strides)));
  const { allowed } = tensor as Expected;
  return {
    ...tensor,
    dims,
    data: places.map((place) => tensor.data[place]!),
    ...(allowed === undefined ? {} : { allowed: places.map((place) => allowed[place]!) }),
  };
}

/** Images whose channels are the last axis. */
const nhwcConv: Operator = (node) => {
  const input = node.input(0);
  const rank = input.dims.length;
  if (rank < 3) throw new Illegal(`images of [${input.dims}]`);
  const spatial = range(rank).slice(1, -1);
  const planes = transposed(input, [0, rank - 1, ...spatial]);
  const [made] = fusedConv(node.with([planes, node.input(1), node.optional(2)]));
  return [transposed(made!, [0, ...spatial.map((axis) => axis + 1), 1])];
};

const fusedMatMul: Operator = (node) => {
  if (node.flag('transBatchA') || node.flag('transBatchB')) throw new Unjudged('a batch that is moved');
  const side = (index: number, name: string) => {
    const tensor = node.input(index);
    const rank = tensor.dims.length;
    if (!node.flag(name)) return tensor;
    // A vector, onnxruntime leaves as it is.
    if (rank < 2) throw new Unjudged(`[${tensor.dims}] transposed`);
    return transposed(tensor, [...range(rank - 2), rank - 1, rank - 2]);
  };
  const [made] = matrices.MatMul!(node.with([side(0, 'transA'), side(1, 'transB')]));
  const arithmetic = arithmeticOf(made!.type);
  const alpha = exact(node.float('alpha', 1));
  return [
    listed(
      made!.type,
      made!.dims,
      numbersOf(made!).map((x) => times(arithmetic, x, alpha)),
    ),
  ];
};

/** One over the root of a number; nothing is known of one that may be below 0. */
function inverseRoot(arithmetic: Arithmetic, { y, off }: Inexact): Inexact {
  const least = y - off;
  if (!(least > 0)) return { y: 1 / Math.sqrt(y), off: ANYTHING };
  const result = 1 / Math.sqrt(y);
  return within(arithmetic, result, 1 / Math.sqrt(least) - result + 8 * arithmetic.unit * result);
}

interface Normal {
  readonly normal: Inexact[];
  readonly mean: Inexact;
  readonly inverse: Inexact;
}

function normalized(
  arithmetic: Arithmetic,
  row: readonly Inexact[],
  epsilon: number,
  isCentred: boolean,
): Normal {
  const share = exact(1 / row.length);
  const mean = isCentred ? times(arithmetic, sum(arithmetic, row), share) : exact(0);
  const differences = isCentred ? row.map((x) => sum(arithmetic, [x, minus(mean)])) : row;
  const squares = differences.map((x) => times(arithmetic, x, x));
  const variance = times(arithmetic, sum(arithmetic, squares), share);
  const inverse = inverseRoot(arithmetic, sum(arithmetic, [variance, exact(epsilon)]));
  return { normal: differences.map((x) => times(arithmetic, x, inverse)), mean, inverse };
}

/** Of a sum along its last axis, which is the fourth output. */
const skipNormalization =
  (isCentred: boolean): Operator =>
  (node) => {
    const [input, skip, scale] = [node.input(0), node.input(1), node.input(2)];
    const { dims } = input;
    const width = dims.at(-1);
    if (dims.length !== 3 && dims.length !== 2) throw new Unjudged(`[${dims}] of rank ${dims.length}`);
    requireBroadcastTo(skip.dims, dims);
    if (skip.dims.at(-1) !== width) throw new Unjudged(`[${skip.dims}] beside [${dims}]`);
    const [shift, extra] = isCentred ? [node.optional(3), node.optional(4)] : [undefined, node.optional(3)];
    for (const list of [scale, shift, extra]) {
      if (list !== undefined && list.dims.join() !== `${width}`)
        throw new Illegal(`[${list.dims}] for ${width}`);
    }
    const arithmetic = arithmeticOf(input.type);
    const parts = [input, skip, ...(extra === undefined ? [] : [extra])].map((part) => broadcast(part, dims));
    const sums: Inexact[] = [];
    forEachIndex(dims, (at) =>
      sums.push(
        sum(
          arithmetic,
          parts.map((part) => part(at)),
        ),
      ),
    );
    const epsilon = node.float('epsilon', 1e-12);
    if (!(epsilon >= 0)) throw new Unjudged(`an epsilon of ${epsilon}`);
    const numbers = range(width === 0 ? 0 : sums.length / width!).flatMap((row) => {
      const { normal } = normalized(
        arithmetic,
        sums.slice(row * width!, (row + 1) * width!),
        epsilon,
        isCentred,
      );
      return normal.map((x, i) => {
        const scaled = times(arithmetic, x, exact(scale.data[i] as number));
        return shift === undefined ? scaled : sum(arithmetic, [scaled, exact(shift.data[i] as number)]);
      });
    });
    if (node.outputs > 1 && node.outputs < 4) throw new Unjudged('statistics as outputs');
    // The second and third are of training.
    const unknown: Expected = { type: 'float32', dims: [], data: [0], allowed: [ANYTHING] };
    return [listed(input.type, dims, numbers), unknown, unknown, listed(input.type, dims, sums)];
  };

/** ONNX's RMSNormalization, too. */
export const simplifiedNormalization: Operator = (node) => {
  const [input, scale] = [node.input(0), node.input(1)];
  const { dims } = input;
  const axis = axisOf(node.integer('axis', -1), dims.length);
  if (node.integer('stash_type', 1) !== 1) throw new Unjudged('another type on the way');
  if (node.outputs > 1) throw new Unjudged('statistics as outputs');
  const count = sizeOf(dims.slice(axis));
  requireBroadcastTo(scale.dims, dims);
  const isBroadcast = scale.dims.join() !== dims.slice(axis).join();
  if (isBroadcast && node.operator !== 'RMSNormalization') node.tolerate();
  const isDouble = input.type === 'float64' && scale.type === 'float64';
  const arithmetic = arithmeticOf(isDouble ? 'float64' : 'float32');
  const scaleAt = broadcast(scale, dims);
  const epsilon = node.float('epsilon', 1e-5);
  if (!(epsilon >= 0)) throw new Unjudged(`an epsilon of ${epsilon}`);
  const rows = range(count === 0 ? 0 : input.data.length / count).flatMap((row) => {
    const own = input.data.slice(row * count, (row + 1) * count).map((x) => exact(x as number));
    return normalized(arithmetic, own, epsilon, false).normal;
  });
  let next = 0;
  // onnxruntime's V is the type of the scale and of the result: what is normal is cast to it before the product.
  const ofScale = arithmeticOf(scale.type);
  return [tensorOf(scale.type, dims, (at) => times(ofScale, rows[next++]!, scaleAt(at)))];
};

/** Queries, keys or values: by batch, head, place and element. */
interface Heads {
  readonly size: number;
  readonly at: (batch: number, head: number, place: number, i: number) => Inexact;
}

interface Attended {
  readonly node: Node;
  readonly query: Heads;
  readonly key: Heads;
  readonly value: Heads;
  readonly batch: number;
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  readonly mask: RefTensor | undefined;
  readonly added: RefTensor | undefined;
}

/** softmax(scale q k + mask + what is added) v */
function attend({ node, query, key, value, batch, heads, queries, keys, mask, added }: Attended): Expected[] {
  const { type } = node.input(0);
  const arithmetic = arithmeticOf(type);
  const dims = [batch, queries, heads * value.size];
  requireSmall(dims);
  if (sizeOf(dims) * keys * query.size > MOST_PRODUCTS) throw new TooLarge(sizeOf(dims) * keys * query.size);
  if (keys === 0) throw new Unjudged('no keys');
  const full = [batch, heads, queries, keys];
  const masked = mask && maskOf(node, mask, full);
  if (added !== undefined) {
    requireBroadcastTo(added.dims, full);
    if (added.dims.length !== 4 || added.dims.slice(2).join() !== full.slice(2).join()) node.tolerate();
  }
  const addedAt = added && broadcast(added, full);
  const scale = exact(node.float('scale', 0) || 1 / Math.sqrt(query.size));
  const rows = new Map<string, Inexact[]>();
  forEachIndex([batch, heads, queries], ([b, h, q]) => {
    const scores = range(keys).map((k) => {
      const products = range(query.size).map((i) =>
        times(arithmetic, times(arithmetic, query.at(b!, h!, q!, i), scale), key.at(b!, h!, k, i)),
      );
      const at = [b!, h!, q!, k];
      const biases = [masked?.(at), addedAt?.(at)].filter((one) => one !== undefined);
      return sum(arithmetic, [sum(arithmetic, products), ...biases]);
    });
    rows.set(`${b},${h},${q}`, softmax(arithmetic, scores));
  });
  return [
    tensorOf(type, dims, ([b, q, column]) => {
      const [h, i] = [Math.floor(column! / value.size), column! % value.size];
      const weights = rows.get(`${b},${h},${q}`)!;
      return sum(
        arithmetic,
        weights.map((weight, k) => times(arithmetic, weight, value.at(b!, h, k, i))),
      );
    }),
  ];
}

/** 1 for keys that are seen and 0 for others: by batch and key, with queries between, or with heads, too. */
function maskOf(node: Node, mask: RefTensor, full: Dims): (at: readonly number[]) => Inexact {
  if (mask.dims.length < 2) throw new Unjudged('lengths as a mask');
  if (mask.data.some((x) => x !== 0n && x !== 1n)) throw new Unjudged('a mask of other numbers');
  const [batch, ...rest] = mask.dims as [number, ...number[]];
  const dims =
    rest.length === 1 ? [batch, 1, 1, rest[0]!] : rest.length === 2 ? [batch, 1, ...rest] : mask.dims;
  requireBroadcastTo(dims, full);
  if (mask.dims.length > 4) throw new Illegal(`a mask of [${mask.dims}]`);
  if (dims[0] !== full[0] || dims[3] !== full[3]) node.tolerate();
  const filter = node.float('mask_filter_value', -10000);
  const strides = broadcastStrides(dims, full);
  return (at) => exact(mask.data[offsetOf(at, strides)] === 0n ? filter : 0);
}

function headsOf(node: Node, width: number): number {
  const heads = node.integer('num_heads');
  if (heads < 1 || width % heads !== 0) throw new Illegal(`${width} elements in ${heads} heads`);
  return heads;
}

const attention: Operator = (node) => {
  const [input, weights, shift] = [node.input(0), node.input(1), node.optional(2)];
  if (node.optional(4) !== undefined || node.optional(6) !== undefined) throw new Unjudged('a past');
  if (node.has('qkv_hidden_sizes')) throw new Unjudged('parts of different sizes');
  if (node.flag('unidirectional') || node.flag('do_rotary')) throw new Unjudged('what comes later is hidden');
  if (node.flag('past_present_share_buffer') || node.has('rotary_embedding_dim'))
    throw new Unjudged('a shared past');
  if (node.outputs > 1) throw new Unjudged('a present');
  if (input.dims.length !== 3 || weights.dims.length !== 2)
    throw new Illegal(`[${input.dims}] by [${weights.dims}]`);
  const [batch, length, depth] = input.dims as [number, number, number];
  const [rows, width] = weights.dims as [number, number];
  if (rows !== depth || width % 3 !== 0) throw new Illegal(`[${input.dims}] by [${weights.dims}]`);
  if (shift !== undefined && shift.dims.join() !== `${width}`) throw new Illegal(`a bias of [${shift.dims}]`);
  const heads = headsOf(node, width / 3);
  if (width === 0 || depth === 0) throw new Unjudged('heads of no elements');
  const size = width / 3 / heads;
  const arithmetic = arithmeticOf(input.type);
  requireSmall([batch, length, width]);
  if (batch * length * width * depth > MOST_PRODUCTS) throw new TooLarge(batch * length * width * depth);
  const projected = new Map<number, Inexact>();
  const project = (b: number, place: number, column: number): Inexact => {
    const index = (b * length + place) * width + column;
    const known = projected.get(index);
    if (known !== undefined) return known;
    const own = range(depth).map((i) => exact(input.data[(b * length + place) * depth + i] as number));
    const terms = products(
      own,
      range(depth).map((i) => weights.data[i * width + column] as number),
    );
    const made = sum(
      arithmetic,
      shift === undefined ? terms : [...terms, exact(shift.data[column] as number)],
    );
    projected.set(index, made);
    return made;
  };
  const part = (which: number): Heads => ({
    size,
    at: (b, h, place, i) => project(b, place, (which * heads + h) * size + i),
  });
  return attend({
    ...{ node, batch, heads, queries: length, keys: length },
    ...{ query: part(0), key: part(1), value: part(2), mask: node.optional(3), added: node.optional(5) },
  });
};

const multiHeadAttention: Operator = (node) => {
  const [query, key, value] = [node.input(0), node.optional(1), node.optional(2)];
  if (range(4).some((i) => node.optional(i + 6) !== undefined)) throw new Unjudged('a past');
  if (node.flag('unidirectional')) throw new Unjudged('what comes later is hidden');
  if (node.outputs > 1) throw new Unjudged('a present');
  const isPlain = [query, key, value].every((one) => one?.dims.length === 3);
  if (!isPlain) throw new Unjudged('packed queries, keys and values');
  const [batch, queries, width] = query.dims as [number, number, number];
  const [keyBatch, keys, keyWidth] = key!.dims as [number, number, number];
  const [valueBatch, values, valueWidth] = value!.dims as [number, number, number];
  if (keyBatch !== batch || valueBatch !== batch || keyWidth !== width || values !== keys) {
    throw new Illegal(`[${query.dims}], [${key!.dims}] and [${value!.dims}]`);
  }
  const heads = headsOf(node, width);
  headsOf(node, valueWidth);
  if (width === 0 || valueWidth === 0) throw new Unjudged('heads of no elements');
  const shift = node.optional(3);
  if (shift !== undefined && shift.dims.join() !== `${2 * width + valueWidth}`)
    throw new Illegal(`[${shift.dims}]`);
  const arithmetic = arithmeticOf(query.type);
  const of = ({ dims, data }: RefTensor, first: number): Heads => {
    const [, length, all] = dims as [number, number, number];
    const size = all / heads;
    return {
      size,
      at: (b, h, place, i) => {
        const own = exact(data[(b * length + place) * all + h * size + i] as number);
        return shift === undefined
          ? own
          : sum(arithmetic, [own, exact(shift.data[first + h * size + i] as number)]);
      },
    };
  };
  return attend({
    ...{ node, batch, heads, queries, keys, mask: node.optional(4), added: node.optional(5) },
    ...{ query: of(query, 0), key: of(key!, width), value: of(value!, 2 * width) },
  });
};

export const fused: Readonly<Record<string, Operator>> = {
  Attention: attention,
  BiasGelu: biased(gelu),
  FastGelu: biased(geluTanh),
  FusedConv: fusedConv,
  FusedMatMul: fusedMatMul,
  MultiHeadAttention: multiHeadAttention,
  NhwcConv: nhwcConv,
  SimplifiedLayerNormalization: simplifiedNormalization,
  SkipLayerNormalization: skipNormalization(true),
  SkipSimplifiedLayerNormalization: skipNormalization(false),
};

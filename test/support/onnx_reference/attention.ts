/** Attention, and the rotation of what it compares. */
import type { Operator } from './elementwise';
import { exact, OPEN, range, softmax, sum, tensorOf, times, within, type Inexact } from './inexact';
import type { Node } from './node';
import { arithmeticOf, type Arithmetic } from './precision';
import {
  Illegal,
  offsetOf,
  placeOf,
  requireBroadcastTo,
  requireSmall,
  sizeOf,
  stridesOf,
  TooLarge,
  Unjudged,
  type Expected,
  type RefTensor,
} from './tensor';

const MOST_PRODUCTS = 2 ** 22;

/** A tensor by batch, head, place and element, whichever way its axes lie. */
interface Heads {
  readonly dims: readonly [batch: number, heads: number, length: number, size: number];
  readonly at: (batch: number, head: number, place: number, i: number) => number;
}

/** @param heads - of a tensor of three axes, whose last one has them all */
function headsOf({ dims, data }: RefTensor, heads: number): Heads {
  if (dims.length === 4) {
    const strides = stridesOf(dims);
    return {
      dims: dims as unknown as Heads['dims'],
      at: (...at) => data[offsetOf(at, strides)] as number,
    };
  }
  const [batch, length, width] = dims as [number, number, number];
  if (!(heads > 0) || width % heads !== 0) throw new Illegal(`[${dims}] in ${heads} heads`);
  const size = width / heads;
  return {
    dims: [batch, heads, length, size],
    at: (b, h, place, i) => data[(b * length + place) * width + h * size + i] as number,
  };
}

/** The past and what comes after it. */
function joined(past: RefTensor | undefined, now: Heads): Heads {
  if (past === undefined) return now;
  const [batch, heads, length, size] = now.dims;
  if (past.dims.length !== 4 || past.dims.toSpliced(2, 1).join() !== [batch, heads, size].join()) {
    throw new Illegal(`a past of [${past.dims}] for [${now.dims}]`);
  }
  const [own, before] = [headsOf(past, heads), past.dims[2]!];
  return {
    dims: [batch, heads, before + length, size],
    at: (b, h, place, i) => (place < before ? own.at(b, h, place, i) : now.at(b, h, place - before, i)),
  };
}

function wholeOf(type: Expected['type'], { dims, at }: Heads): Expected {
  return { ...tensorOf(type, dims, ([b, h, l, i]) => exact(at(b!, h!, l!, i!))), allowed: undefined };
}

interface Shape {
  readonly queries: number;
  readonly keys: number;
  readonly past: number | undefined;
  /** Of scores */
  readonly full: readonly number[];
}

/** What is added to a score: negative infinity where a key is not seen. */
type Bias = (at: readonly number[]) => number;

function maskOf(node: Node, { keys, full }: Shape): Bias {
  const mask = node.optional(3);
  if (mask === undefined) return () => 0;
  const isFlag = mask.type === 'bool';
  if (!isFlag && mask.type !== node.input(0).type) throw new Unjudged(`a mask of ${mask.type}`);
  const own = mask.dims.at(-1);
  if (own === undefined || mask.dims.length < 2) throw new Unjudged(`a mask of [${mask.dims}]`);
  if (own > keys) throw new Illegal(`a mask of [${mask.dims}] for ${keys} keys`);
  // That one may be shorter, ONNX says since opset 24.
  if (own < keys && node.opset < 24) node.tolerate();
  const [padded, given] = [mask.dims.with(-1, keys), stridesOf(mask.dims)];
  requireBroadcastTo(padded, full);
  const strides = [...new Array<number>(4 - padded.length).fill(0), ...given].map((stride, axis) =>
    axis < 3 && padded[axis - 4 + padded.length] === 1 ? 0 : stride,
  );
  return (at) => {
    if (at[3]! >= own) return -Infinity;
    const element = mask.data[offsetOf(at, strides)]!;
    return isFlag ? (element === 0n ? -Infinity : 0) : (element as number);
  };
}

function windowOf(node: Node): readonly [left: number, right: number] {
  const bounds = ['left_window_size', 'right_window_size'].map((name) => node.integer(name, -1));
  if (bounds.some((bound) => bound < -1)) throw new Illegal(`windows of ${bounds}`);
  const [left, right] = bounds.map((bound) => (bound < 0 ? Infinity : bound)) as [number, number];
  return [left, node.flag('is_causal') ? Math.min(right, 0) : right];
}

function biasOf(node: Node, shape: Shape): Bias {
  const [mask, lengths, [left, right]] = [maskOf(node, shape), node.optional(6), windowOf(node)];
  if (lengths !== undefined && lengths.dims.join() !== `${shape.full[0]}`)
    throw new Illegal(`lengths [${lengths.dims}]`);
  if (lengths !== undefined && shape.past !== undefined) throw new Unjudged('lengths beside a past');
  return (at) => {
    const [batch, , query, key] = at as [number, number, number, number];
    const length = lengths === undefined ? shape.keys : Number(lengths.data[batch]);
    const offset = shape.past ?? (lengths === undefined ? 0 : length - shape.queries);
    const place = query + offset;
    const isSeen = key < length && key >= place - left && key <= place + right;
    return mask(at) + (isSeen ? 0 : -Infinity);
  };
}

function softcapped(arithmetic: Arithmetic, x: Inexact, cap: number): Inexact {
  if (cap === 0) return x;
  const y = cap * Math.tanh(x.y / cap);
  return within(arithmetic, y, x.off + 12 * arithmetic.unit * Math.abs(y) + arithmetic.tiny);
}

const attention: Operator = (node) => {
  const [q, k, v] = [node.input(0), node.input(1), node.input(2)];
  const rank = q.dims.length;
  if ((rank !== 3 && rank !== 4) || [k, v].some(({ dims }) => dims.length !== rank))
    throw new Illegal(`[${q.dims}], [${k.dims}] and [${v.dims}]`);
  const isNamed = node.has('q_num_heads') || node.has('kv_num_heads');
  if (rank === 4 && isNamed) node.tolerate();
  const queryHeads = rank === 3 ? node.integer('q_num_heads') : q.dims[1]!;
  const keyHeads = rank === 3 ? node.integer('kv_num_heads') : k.dims[1]!;
  const query = headsOf(q, queryHeads);
  if ((node.optional(4) === undefined) !== (node.optional(5) === undefined))
    throw new Illegal('half of a past');
  const [key, value] = [
    joined(node.optional(4), headsOf(k, keyHeads)),
    joined(node.optional(5), headsOf(v, keyHeads)),
  ];
  const [batch, heads, queries, size] = query.dims;
  const [, shared, keys, depth] = key.dims;
  const isFitting =
    key.dims[0] === batch && value.dims[0] === batch && value.dims[1] === shared && value.dims[2] === keys;
  if (!isFitting || depth !== size) throw new Illegal(`[${query.dims}], [${key.dims}] and [${value.dims}]`);
  if (heads % shared !== 0) throw new Illegal(`${heads} heads for ${shared}`);
  if ([heads, shared, keys, size, value.dims[3]].includes(0)) throw new Unjudged('heads or keys of nothing');
  const full = [batch, heads, queries, keys];
  requireSmall(full);
  if (sizeOf(full) * (size + value.dims[3]) > MOST_PRODUCTS) throw new TooLarge(sizeOf(full) * size);
  const isDouble = [q, v].every(({ type }) => type === 'float64');
  const arithmetic = arithmeticOf(isDouble ? 'float64' : 'float32');
  const scale = node.float('scale', 0);
  if (node.has('scale') && !(scale > 0)) throw new Unjudged(`a scale of ${scale}`);
  const cap = node.float('softcap', 0);
  if (!(cap >= 0 && cap < 2 ** 40)) throw new Unjudged(`a softcap of ${cap}`);
  if (![1, 11].includes(node.integer('softmax_precision', 1))) throw new Unjudged('a softmax of other types');
  const mode = node.integer('qk_matmul_output_mode', 0);
  if (mode < 0 || mode > 3) throw new Illegal(`mode ${mode}`);
  // ONNX's own function has the root of the scale in float32.
  const root = Math.sqrt(node.has('scale') ? scale : 1 / Math.sqrt(size));
  const rooted = (x: number) => times(arithmetic, exact(x), { y: root, off: root * 2 ** -23 });
  const bias = biasOf(node, { queries, keys, past: node.optional(4)?.dims[2], full });
  const group = heads / shared;
  const rows = new Map<string, readonly [stages: Inexact[][], weights: Inexact[]]>();
  const rowOf = (b: number, h: number, row: number) => {
    const name = `${b},${h},${row}`;
    const known = rows.get(name);
    if (known !== undefined) return known;
    const scores = range(keys).map((place) => {
      const terms = range(size).map((i) =>
        times(arithmetic, rooted(query.at(b, h, row, i)), rooted(key.at(b, Math.floor(h / group), place, i))),
      );
      return sum(arithmetic, terms);
    });
    const capped = scores.map((score) => softcapped(arithmetic, score, cap));
    const biases = range(keys).map((place) => bias([b, h, row, place]));
    const biased = capped.map((score, place) => sum(arithmetic, [score, exact(biases[place]!)]));
    // Where a key is not seen, NaN stays NaN; rows that see none are 0 all the same.
    const isOpen =
      biases.some((one) => !(one < Infinity)) || capped.some(({ y, off }) => !Number.isFinite(y + off));
    const seen = range(keys).filter((place) => biases[place] !== -Infinity);
    const shares = softmax(
      arithmetic,
      seen.map((place) => biased[place]!),
    );
    const weights = range(keys).map((place) => {
      if (isOpen && seen.length > 0) return OPEN;
      return seen.includes(place) ? shares[seen.indexOf(place)]! : exact(0);
    });
    const made = [[scores, capped, biased], weights] as const;
    rows.set(name, made as never);
    return made;
  };
  const attended = (b: number, h: number, row: number, i: number): Inexact => {
    const [, weights] = rowOf(b, h, row);
    const elements = range(keys).map((place) => value.at(b, Math.floor(h / group), place, i));
    // Where a key is not seen, nothing times an infinity may be NaN.
    if (!elements.every(Number.isFinite)) return OPEN;
    return sum(
      arithmetic,
      weights.map((weight, place) => times(arithmetic, weight, exact(elements[place]!))),
    );
  };
  const width = value.dims[3];
  const output =
    rank === 4
      ? tensorOf(q.type, [batch, heads, queries, width], ([b, h, row, i]) => attended(b!, h!, row!, i!))
      : tensorOf(q.type, [batch, queries, heads * width], ([b, row, i]) =>
          attended(b!, Math.floor(i! / width), row!, i! % width),
        );
  const scores = tensorOf(q.type, full, ([b, h, row, place]) => {
    const [stages, weights] = rowOf(b!, h!, row!);
    return (mode === 3 ? weights : stages[mode]!)[place!]!;
  });
  return [output, wholeOf(k.type, key), wholeOf(v.type, value), scores];
};

/** Pairs of elements turned by an angle whose cosine and sine a cache has. */
const rotaryEmbedding: Operator = (node) => {
  const [input, cosines, sines] = [node.input(0), node.input(1), node.input(2)];
  const ids = node.optional(3);
  const { dims } = input;
  if (dims.length !== 3 && dims.length !== 4) throw new Illegal(`[${dims}]`);
  const heads = dims.length === 3 ? node.integer('num_heads', 0) : dims[1]!;
  const of = headsOf(input, heads);
  const [batch, , length, size] = of.dims;
  if (dims.length === 4 && ![0, heads].includes(node.integer('num_heads', 0)))
    throw new Unjudged('other heads');
  const rotated = node.integer('rotary_embedding_dim', 0) || size;
  if (rotated < 0 || rotated > size || rotated % 2 !== 0) throw new Illegal(`${rotated} of ${size} elements`);
  const half = rotated / 2;
  const cache = ids === undefined ? [batch, length, half] : [cosines.dims[0], half];
  if (cosines.dims.join() !== cache.join() || sines.dims.join() !== cache.join())
    throw new Illegal(`[${cosines.dims}] and [${sines.dims}] for [${dims}]`);
  if (ids !== undefined && ids.dims.join() !== [batch, length].join()) throw new Illegal(`ids [${ids.dims}]`);
  const places = ids?.data.map((id) => placeOf(id, cosines.dims[0]!));
  if (ids?.data.some((id) => Number(id) < 0)) throw new Unjudged('ids counted from the end');
  const isInterleaved = node.flag('interleaved');
  const arithmetic = arithmeticOf(input.type);
  const at = (b: number, h: number, place: number, i: number): Inexact => {
    const own = of.at(b, h, place, i);
    if (i >= rotated) return exact(own);
    const pair = isInterleaved ? Math.floor(i / 2) : i % half;
    const isSecond = isInterleaved ? i % 2 === 1 : i >= half;
    const other = of.at(b, h, place, isInterleaved ? i + (isSecond ? -1 : 1) : i + (isSecond ? -half : half));
    const row = places === undefined ? b * length + place : places[b * length + place]!;
    const [cosine, sine] = [cosines, sines].map(({ data }) => exact(data[row * half + pair] as number)) as [
      Inexact,
      Inexact,
    ];
    return sum(arithmetic, [
      times(arithmetic, exact(own), cosine),
      times(arithmetic, exact(isSecond ? other : -other), sine),
    ]);
  };
  if (dims.length === 4) return [tensorOf(input.type, dims, ([b, h, place, i]) => at(b!, h!, place!, i!))];
  return [tensorOf(input.type, dims, ([b, place, i]) => at(b!, Math.floor(i! / size), place!, i! % size))];
};

export const attentions: Readonly<Record<string, Operator>> = {
  Attention: attention,
  RotaryEmbedding: rotaryEmbedding,
};

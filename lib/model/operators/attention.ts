/** Attention, and what belongs to it. */
import { areSameDims } from '../../check';
import type { DataType } from '../../tensor/tensor';
import { flag, float, integer } from '../attributes';
import { shapeOf } from '../builder';
import { elementType } from '../element_types';
import type { Lower, Lowering } from '../lowering';
import type { Value } from '../values';
import { counting, takeRows } from './indexing';
import { along, join, padWith, repeated } from './layout';
import { multiply } from './matrix';
import { reduceTo, softmaxOf } from './reduction';
import { apply, asType, choose, mapped, requireWithin, scalar } from './typed';

/** [batch, length, heads * size] as [batch, heads, length, size]; tensors of four axes are that already. */
function splitHeads(x: Lowering, value: Value, heads: number): Value {
  if (value.dims.length === 4) return value;
  const [batch, length, width] = value.dims as [number, number, number];
  const size = width / heads;
  if (!Number.isInteger(size)) throw x.invalid(`splits ${shapeOf(value)} into ${heads} heads`);
  return x.build.transpose(x.build.view(value, [batch, length, heads, size]), [0, 2, 1, 3]);
}

/** [batch, heads, m, k] by [batch, fewer heads, k, n]: several heads one behind the other share a matrix on the right. */
function multiplyHeads(x: Lowering, left: Value, right: Value): Value {
  const [batch, heads, m, k] = left.dims as [number, number, number, number];
  const [, shared, depth, n] = right.dims as [number, number, number, number];
  const groups = heads / shared;
  if (!Number.isInteger(groups)) throw x.invalid(`has ${heads} heads of queries for ${shared} of keys`);
  const product = multiply(
    x,
    x.build.view(left, [batch, shared, groups, m, k]),
    x.build.view(right, [batch, shared, 1, depth, n]),
  );
  return x.build.view(product, [batch, heads, m, n]);
}

/** The products of queries and keys, [batch, heads, length, size] both, with the root of the scale on either side. */
function scoresOf(x: Lowering, query: Value, key: Value): Value {
  const scale = float(x.node, 'scale', 1 / Math.sqrt(query.dims[3]!));
  const root = (of: Value) => apply(x, 'multiply', [of, scalar(x, of.type, Math.fround(Math.sqrt(scale)))]);
  return multiplyHeads(x, root(query), x.build.transpose(root(key), [0, 1, 3, 2]));
}

const attention: Lower = (x) => {
  const given = [x.input(0), x.input(1), x.input(2)] as const;
  x.requireRank(given[0], 3, 4);
  const isFlat = given[0].dims.length === 3;
  given.forEach((tensor) => x.requireRank(tensor, isFlat ? 3 : 4));
  const queryHeads = isFlat ? integer(x.node, 'q_num_heads') : given[0].dims[1]!;
  const keyHeads = isFlat ? integer(x.node, 'kv_num_heads') : given[1].dims[1]!;
  const query = splitHeads(x, given[0], queryHeads);
  if ((x.optional(4) === undefined) !== (x.optional(5) === undefined))
    throw x.invalid('has one of past_key and past_value; it takes both or none');
  const [key, value] = [1, 2].map((i) => {
    const past = x.optional(i + 3);
    const now = splitHeads(x, given[i]!, keyHeads);
    return past === undefined ? now : join(x, [past, now], 2);
  }) as [Value, Value];
  requireFitting(x, query, key, value);
  const scores = scoresOf(x, query, key);
  const capped = softcap(x, scores, float(x.node, 'softcap', 0));
  const bias = biasOf(x, query, key);
  const biased = bias === undefined ? capped : apply(x, 'add', [capped, bias]);
  const weights = weightsOf(x, biased, bias);
  const heads = multiplyHeads(x, weights, asType(x, value, weights.type));
  const [batch, , length, width] = heads.dims as [number, number, number, number];
  const output = isFlat
    ? x.build.view(x.build.transpose(heads, [0, 2, 1, 3]), [batch, length, queryHeads * width])
    : heads;
  const mode = integer(x.node, 'qk_matmul_output_mode', 0);
  if (mode < 0 || mode > 3) throw x.invalid(`has qk_matmul_output_mode ${mode}; it takes 0 to 3`);
  // Values may be of another type, which the cache keeps.
  return [output, key, value, [scores, capped, biased, weights][mode]!];
};

/** All [batch, heads, length, size]: products broadcast what does not fit. */
function requireFitting(x: Lowering, query: Value, key: Value, value: Value): void {
  const [batch, , , size] = query.dims;
  const isKeyFitting = key.dims[0] === batch && key.dims[3] === size;
  if (isKeyFitting && areSameDims(key.dims.slice(0, 3), value.dims.slice(0, 3))) return;
  throw x.invalid(
    `has queries of ${shapeOf(query)}, keys of ${shapeOf(key)} and values of ${shapeOf(value)}`,
  );
}

function softcap(x: Lowering, scores: Value, cap: number): Value {
  if (cap === 0) return scores;
  const factor = scalar(x, scores.type, cap);
  return apply(x, 'multiply', [apply(x, 'tanh', [apply(x, 'divide', [scores, factor])]), factor]);
}

/** The softmax of the scores. A row that the mask excludes as a whole is 0. */
function weightsOf(x: Lowering, scores: Value, bias: Value | undefined): Value {
  const weights = softmaxOf(x, scores, 3);
  if (bias === undefined) return weights;
  const greatest = reduceTo(x, bias, [bias.dims.length - 1], 'maximum', true);
  const isMasked = mapped(x, 'equal', [greatest, scalar(x, bias.type, -Infinity)], 'bool');
  return choose(x, isMasked, scalar(x, weights.type, 0), weights);
}

/** What is added to the scores: the mask, and negative infinity where a key is not to be seen. */
function biasOf(x: Lowering, query: Value, key: Value): Value | undefined {
  const { type } = query;
  const [length, keys] = [query.dims[2]!, key.dims[2]!];
  const [hidden, none] = [scalar(x, type, -Infinity), scalar(x, type, 0)];
  const seen = (allowed: Value) => choose(x, allowed, none, hidden);
  const parts: Value[] = [];
  const mask = x.optional(3);
  if (mask !== undefined) {
    const lacking = keys - (mask.dims.at(-1) ?? keys);
    if (lacking < 0) throw x.invalid(`has a mask of ${shapeOf(mask)} for ${keys} keys`);
    const pad = mask.dims.map((_, axis) => (axis === mask.dims.length - 1 ? lacking : 0));
    const filling = mask.type === 'bool' ? scalar(x, 'bool', 0) : hidden;
    const none = pad.map(() => 0);
    const whole = lacking > 0 ? padWith(x, mask, none, pad, (dims) => repeated(x, filling, dims)) : mask;
    requireWithin(x, whole, [...query.dims.slice(0, 3), keys]);
    parts.push(whole.type === 'bool' ? seen(whole) : asType(x, whole, type));
  }
  const lengths = x.optional(6);
  if (lengths !== undefined && lengths.dims[0] !== query.dims[0])
    throw x.invalid(`has lengths of ${shapeOf(lengths)} for ${query.dims[0]} sequences`);
  const lengthsByBatch = lengths && x.build.view(asType(x, lengths, 'int64'), [lengths.dims[0]!, 1, 1, 1]);
  const past = x.optional(4)?.dims[2];
  const places = counting(x, keys, 1, 2);
  // How far each key lies behind the query: 0 is the query's own place.
  const behind = () => {
    const rows = counting(x, length, 0, 2);
    const offset =
      past !== undefined || lengthsByBatch === undefined
        ? scalar(x, 'int64', past ?? 0)
        : apply(x, 'subtract', [lengthsByBatch, scalar(x, 'int64', length)]);
    return apply(x, 'subtract', [apply(x, 'add', [rows, offset]), places]);
  };
  const within = (left: number, right: number) => {
    const distance = behind();
    if (right >= 0)
      parts.push(seen(mapped(x, 'greaterOrEqual', [distance, scalar(x, 'int64', -right)], 'bool')));
    if (left >= 0) parts.push(seen(mapped(x, 'lessOrEqual', [distance, scalar(x, 'int64', left)], 'bool')));
  };
  if (flag(x.node, 'is_causal', false)) within(-1, 0);
  const [left, right] = [integer(x.node, 'left_window_size', -1), integer(x.node, 'right_window_size', -1)];
  if (left < -1 || right < -1) throw x.invalid(`has a window from ${left} to ${right}; the least is -1`);
  if (left >= 0 || right >= 0) within(left, right);
  if (lengthsByBatch !== undefined) parts.push(seen(mapped(x, 'less', [places, lengthsByBatch], 'bool')));
  const [first, ...others] = parts;
  return others.reduce<Value | undefined>((sum, part) => apply(x, 'add', [sum!, part]), first);
}

const PRECISIONS: readonly DataType[] = ['float32', 'float16', 'bfloat16', 'float64'];

/** Attention whose scores and weights are changed by graphs of the node's own: ONNX's preview of opset 26. */
const flexAttention: Lower = function* (x) {
  const [query, key, value] = [x.input(0), x.input(1), x.input(2)];
  const number = integer(x.node, 'softmax_precision', null);
  const type = number === null ? query.type : elementType(number);
  if (type === undefined || !PRECISIONS.includes(type)) {
    throw x.invalid(`has softmax_precision ${number}, which is no float type`);
  }
  const modified = function* (name: string, given: Value) {
    const made = yield* x.lowerBody(name, given);
    if (made.type === given.type && areSameDims(made.dims, given.dims)) return made;
    throw x.invalid(`has a ${name} that makes ${shapeOf(made)} of ${shapeOf(given)}`);
  };
  // Halves are computed in float32, and are halves for the graphs alone.
  const wide = type === 'float64' ? type : 'float32';
  const scores = yield* modified('score_mod', asType(x, scoresOf(x, query, key), type));
  const weights = asType(x, softmaxOf(x, asType(x, scores, wide), 3), type);
  const changed = asType(x, yield* modified('prob_mod', weights), wide);
  return asType(x, multiplyHeads(x, changed, asType(x, value, wide)), query.type);
};

/** Both caches by rows of a table, or by places of the sequences. */
function requireCaches(x: Lowering, batch: number, length: number, half: number): void {
  const ids = x.optional(3);
  if (ids !== undefined && !areSameDims(ids.dims, [batch, length]))
    throw x.invalid(`has positions of ${shapeOf(ids)} for ${batch} sequences of ${length}`);
  for (const cache of [x.input(1), x.input(2)]) {
    const dims = ids === undefined ? [batch, length, half] : [x.input(1).dims[0] ?? 0, half];
    if (!areSameDims(cache.dims, dims))
      throw x.invalid(`has a cache of ${shapeOf(cache)}; it takes [${dims.join(', ')}]`);
  }
}

const rotaryEmbedding: Lower = (x) => {
  const given = x.input(0);
  x.requireRank(given, 3, 4);
  const isFlat = given.dims.length === 3;
  const ordered = isFlat ? given : x.build.transpose(given, [0, 2, 1, 3]);
  const [batch, length] = ordered.dims as [number, number];
  const heads = isFlat ? integer(x.node, 'num_heads') : ordered.dims[2]!;
  const size = isFlat ? ordered.dims[2]! / heads : ordered.dims[3]!;
  if (!Number.isInteger(size)) throw x.invalid(`splits ${shapeOf(given)} into ${heads} heads`);
  const input = x.build.view(ordered, [batch, length, heads, size]);
  const rotated = integer(x.node, 'rotary_embedding_dim', 0) || size;
  const half = rotated / 2;
  if (!(rotated >= 0 && rotated <= size && Number.isInteger(half)))
    throw x.invalid(`rotates ${rotated} of ${size} elements; it takes an even number of them`);
  requireCaches(x, batch, length, half);
  const isInterleaved = flag(x.node, 'interleaved', false);
  const part = (start: number, count: number, step = 1) => along(x, input, [{ axis: 3, start, step, count }]);
  const [one, two] = isInterleaved ? [part(0, half, 2), part(1, half, 2)] : [part(0, half), part(half, half)];
  const [cosine, sine] = [1, 2].map((i) => {
    const cache = x.input(i);
    const ids = x.optional(3);
    const rows = ids === undefined ? cache : takeRows(x, cache, ids);
    return x.build.view(rows, [batch, length, 1, half]);
  }) as [Value, Value];
  const times = (a: Value, b: Value) => apply(x, 'multiply', [a, b]);
  const real = apply(x, 'subtract', [times(cosine, one), times(sine, two)]);
  const imaginary = apply(x, 'add', [times(sine, one), times(cosine, two)]);
  const column = (value: Value) => x.build.view(value, [batch, length, heads, half, 1]);
  const turned = isInterleaved
    ? x.build.view(join(x, [column(real), column(imaginary)], 4), [batch, length, heads, rotated])
    : join(x, [real, imaginary], 3);
  const whole = rotated === size ? turned : join(x, [turned, part(rotated, size - rotated)], 3);
  return isFlat ? x.build.view(whole, given.dims) : x.build.transpose(whole, [0, 2, 1, 3]);
};

/** x * sigmoid(alpha * x) of the first, times the second */
const swiGlu: Lower = (x) => {
  const [a, b] = [x.input(0), x.input(1)];
  if (a.dims.join() !== b.dims.join())
    throw x.invalid(`has ${shapeOf(a)} and ${shapeOf(b)}; it takes one shape`);
  const gate = apply(x, 'sigmoid', [apply(x, 'multiply', [a, scalar(x, a.type, float(x.node, 'alpha', 1))])]);
  return apply(x, 'multiply', [apply(x, 'multiply', [a, gate]), b]);
};

export const attentions: Record<string, Lower> = {
  Attention: attention,
  RotaryEmbedding: rotaryEmbedding,
  SwiGLU: swiGlu,
};

export const previews: Record<string, Lower> = { FlexAttention: flexAttention };

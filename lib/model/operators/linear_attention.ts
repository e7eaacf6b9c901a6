/** Attention in linear time: a state of keys by values that every token reads and changes, and the convolution before it. */
import { float, integer, string } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { stridesOf, type Value } from '../values';
import { convolveInGroups } from './convolution';
import { cumulate } from './indexing';
import { along, join, padWith, repeated } from './layout';
import { multiply } from './matrix';
import { apply, asFloat32, choose, scalar } from './typed';

/**
 * Tokens that are computed at once. Where each element of a key decays on its own, a matrix of them takes as much room as
 * its keys do.
 */
const CHUNK = 64;
const CHUNK_OF_VECTORS = 16;

/** A token after the other, chunks make as many steps as there are: some hundred thousand at most. */
const MOST_CHUNKS = 2 ** 14;

/** Elements of what is computed of several chunks at once, before the state goes from one to the next. */
const MOST_AT_ONCE = 2 ** 22;

interface Sizes {
  readonly batch: number;
  readonly tokens: number;
  readonly queryHeads: number;
  readonly heads: number;
  readonly keySize: number;
  readonly valueSize: number;
  /** Tokens of a chunk, and chunks: the last may have fewer */
  readonly length: number;
  readonly chunks: number;
}

/** All of [chunks, batch * heads, length, …], in float32. */
interface Sequences {
  /** Those that read the same state one behind the other: [chunks, batch * heads, groups * length, key size] */
  readonly query: Value;
  readonly key: Value;
  readonly value: Value;
  /** Logarithms, of 1 element a token or of the key's */
  readonly decay: Value | undefined;
  /** Of 1 element a token */
  readonly rate: Value | undefined;
}

/** What a chunk does to a state S of [key size, value size]; w are the values that it writes, one a token. */
interface Chunk {
  /** w = written - corrected * S; nothing is corrected without an update rate */
  readonly written: Value;
  readonly corrected: Value | undefined;
  /** Its outputs are reading * S + within * w. */
  readonly reading: Value;
  readonly within: Value;
  /** It leaves fading * S + keys * w, `keys` being of [key size, length]. */
  readonly fading: Value | undefined;
  readonly keys: Value;
}

const RULES = ['linear', 'gated', 'delta', 'gated_delta'] as const;

/**
 * S_t = exp(g_t) S_(t-1) + k_t w_t, w_t being v_t or, by the delta rule, beta_t (v_t - exp(g_t) S_(t-1)^T k_t), and the output
 * scale q_t^T S_t: ONNX's operator of opset 27.
 *
 * With c_t the sum of a chunk's logarithms up to t, a token i sees what j wrote before it, or itself, by the weight
 * A_ij = sum over d of q_id k_jd exp(c_id - c_jd), and the state before the chunk by q_i exp(c_i). By the delta rule the w of
 * a chunk solve (1 + L) w = beta (v - k exp(c) S), with L_ij = beta_i (the same sum with k_i for q_i) where j < i: as
 * Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length" and "Gated Delta Networks".
 */
const linearAttention: Lower = function* (x) {
  const sizes = sizesOf(x);
  const sequences = sequencesOf(x, sizes);
  const { batch, heads, queryHeads, keySize, valueSize, chunks, length, tokens } = sizes;
  const rows = batch * heads;
  const given = x.optional(3);
  let state = given && x.build.view(asFloat32(x, given), [rows, keySize, valueSize]);
  const output = x.build.scratch('float32', [batch, tokens, queryHeads, valueSize]);
  const strides = stridesOf(output.dims);
  const group = Math.max(1, Math.floor(MOST_AT_ONCE / elementsOf(sizes, sequences)));
  for (let first = 0; first < chunks; first += group) {
    const count = Math.min(group, chunks - first);
    const all = prepare(x, part(x, sequences, first, count));
    for (let i = 0; i < count; i++) {
      yield;
      const chunk = part(x, all, i, 1);
      const written = writtenBy(x, chunk, state);
      const read = x.build.view(readBy(x, chunk, state, written), [batch, queryHeads, length, valueSize]);
      const start = (first + i) * length;
      const kept = [batch, queryHeads, Math.min(length, tokens - start), valueSize];
      const into = [strides[0]!, strides[2]!, strides[1]!, 1];
      x.build.copy(read, kept, stridesOf(read.dims), output, into, 0, start * strides[1]!);
      state = leftBy(x, chunk, state, written);
    }
  }
  const last = state ?? repeated(x, scalar(x, 'float32', 0), [rows, keySize, valueSize]);
  const { type } = x.input(0);
  return [
    x.build.cast(x.build.view(output, [batch, tokens, queryHeads * valueSize]), type),
    x.build.cast(x.build.view(last, [batch, heads, keySize, valueSize]), given?.type ?? type),
  ];
};

function sizesOf(x: Lowering): Sizes {
  const [query, key, value] = [x.input(0), x.input(1), x.input(2)];
  const [batch, tokens, width] = query.dims as [number, number, number];
  const [queryHeads, heads] = [integer(x.node, 'q_num_heads'), integer(x.node, 'kv_num_heads')];
  if (queryHeads < 1 || heads < 1 || queryHeads % heads !== 0) {
    throw x.invalid(`has ${queryHeads} heads of queries for ${heads} of keys`);
  }
  const [keySize, valueSize] = [width / queryHeads, value.dims[2]! / heads];
  const areWhole = Number.isInteger(keySize) && Number.isInteger(valueSize);
  if (!areWhole || key.dims[2] !== heads * keySize) {
    throw x.invalid(
      `splits ${shapeOf(query)}, ${shapeOf(key)} and ${shapeOf(value)} into ${queryHeads} and ${heads} heads`,
    );
  }
  requireDims(x, 3, [batch, heads, keySize, valueSize]);
  const rule = string(x.node, 'update_rule', RULES, 'gated_delta');
  requireIf(x, rule.startsWith('gated'), 4, 'decay', rule);
  requireIf(x, rule.endsWith('delta'), 5, 'beta', rule);
  requireWidth(x, 4, [heads, heads * keySize]);
  requireWidth(x, 5, [heads, 1]);
  const isOfVectors = x.optional(4) !== undefined && x.optional(4)!.dims[2] !== heads;
  const length = Math.max(1, Math.min(tokens, isOfVectors ? CHUNK_OF_VECTORS : CHUNK));
  const chunks = Math.ceil(tokens / length);
  if (chunks > MOST_CHUNKS) {
    throw unsupportedNode(
      x.node,
      `has sequences of ${tokens} tokens; here it can have ${MOST_CHUNKS * length}: run it over parts, from state to state`,
    );
  }
  return { batch, tokens, queryHeads, heads, keySize, valueSize, length, chunks };
}

function requireDims(x: Lowering, i: number, dims: readonly number[]): void {
  const value = x.optional(i);
  if (value === undefined || value.dims.join() === dims.join()) return;
  throw x.invalid(`takes dims [${dims.join(', ')}] as its input ${i}, got ${shapeOf(value)}`);
}

function requireIf(x: Lowering, isTaken: boolean, i: number, name: string, rule: string): void {
  if ((x.optional(i) !== undefined) === isTaken) return;
  throw x.invalid(`${isTaken ? 'lacks' : 'has'} its input ${i}, '${name}', with the update_rule '${rule}'`);
}

function requireWidth(x: Lowering, i: number, widths: readonly number[]): void {
  const value = x.optional(i);
  if (value === undefined || widths.includes(value.dims[2]!)) return;
  throw x.invalid(`takes ${widths.join(' or ')} elements a token as its input ${i}, got ${shapeOf(value)}`);
}

function sequencesOf(x: Lowering, sizes: Sizes): Sequences {
  const { batch, tokens, queryHeads, heads, keySize, length, chunks } = sizes;
  const scale = float(x.node, 'scale', 0) || Math.fround(1 / Math.sqrt(keySize));
  const scaled = apply(x, 'multiply', [asFloat32(x, x.input(0)), scalar(x, 'float32', scale)]);
  const chunked = (value: Value) => inChunks(x, sizes, value, heads);
  const [decay, given] = [x.optional(4), x.optional(5)].map((value) => value && asFloat32(x, value));
  const rate = given && x.build.gatherStrided(given, [batch, tokens, heads], ratesOf(given));
  return {
    query: x.build.view(inChunks(x, sizes, scaled, queryHeads), [
      ...[chunks, batch * heads, (queryHeads / heads) * length, keySize],
    ]),
    key: chunked(asFloat32(x, x.input(1))),
    value: chunked(asFloat32(x, x.input(2))),
    decay: decay && chunked(decay),
    rate: rate && chunked(rate),
  };
}

/** One rate a token may stand for those of all heads. */
function ratesOf({ dims }: Value): number[] {
  const [batch, token] = stridesOf(dims) as [number, number];
  return [batch, token, dims[2] === 1 ? 0 : 1];
}

/** [batch, tokens, heads * size] as [chunks, batch * heads, length, size]. Behind the last token are zeros, which change no state. */
function inChunks(x: Lowering, { batch, tokens, length, chunks }: Sizes, value: Value, heads: number): Value {
  const lacking = chunks * length - tokens;
  const whole = lacking === 0 ? value : padWith(x, value, [0, 0, 0], [0, lacking, 0]);
  const size = value.dims[2]! / heads;
  const split = x.build.view(whole, [batch, chunks, length, heads, size]);
  return x.build.view(x.build.transpose(split, [1, 0, 3, 2, 4]), [chunks, batch * heads, length, size]);
}

/** Of the largest tensor that is computed of one chunk. */
function elementsOf({ length }: Sizes, { query, decay }: Sequences): number {
  const [, rows, reads] = query.dims as [number, number, number];
  return Math.max(1, rows * length * Math.max(reads, length * (decay?.dims[3] ?? 1)));
}

/** Some of the first axis of all of them. */
function part<T extends object>(x: Lowering, all: T, first: number, count: number): T {
  const some = Object.entries(all).map(([name, value]: [string, Value | undefined]) => {
    return [name, value && along(x, value, [{ axis: 0, start: first, step: 1, count }])];
  });
  return Object.fromEntries(some) as T;
}

/** What follows from several chunks' tokens alone, whatever the state is. */
function prepare(x: Lowering, { query, key, value, decay, rate }: Sequences): Chunk {
  const fromStart = decay && apply(x, 'exp', [cumulate(x, decay, 2)]);
  const between = decay && decaysBetween(x, decay);
  const reading = fromStart === undefined ? query : byGroups(x, query, fromStart);
  const within = choose(x, lowerTriangle(x, key.dims[2]!, 0), weights(x, query, key, between), zero(x));
  return {
    ...corrections(x, { key, value, rate, fromStart, between }),
    reading,
    within: x.build.view(within, [...query.dims.slice(0, 3), key.dims[2]!]),
    fading: fromStart && lastOf(x, fromStart),
    keys: x.build.transpose(between === undefined ? key : times(x, key, lastOf(x, between)), [0, 1, 3, 2]),
  };
}

const times = (x: Lowering, a: Value, b: Value) => apply(x, 'multiply', [a, b]);
const zero = (x: Lowering) => scalar(x, 'float32', 0);

/** The last of axis 2, without that axis. */
function lastOf(x: Lowering, value: Value): Value {
  const last = along(x, value, [{ axis: 2, start: value.dims[2]! - 1, step: 1, count: 1 }]);
  return x.build.view(last, value.dims.toSpliced(2, 1));
}

/** The queries, each times its token's elements: groups of them share a key. */
function byGroups(x: Lowering, query: Value, byToken: Value): Value {
  const [chunks, rows, reads, size] = query.dims as [number, number, number, number];
  const length = byToken.dims[2]!;
  const split = x.build.view(query, [chunks, rows, reads / length, length, size]);
  const made = times(x, split, x.build.view(byToken, [chunks, rows, 1, length, byToken.dims[3]!]));
  return x.build.view(made, query.dims);
}

/**
 * Of tokens i and j: exp(g_(j+1) + … + g_i), [chunks, rows, length, length, size], and 1 where j is not before i. Each is a sum
 * of its own: differences of sums from the start would lose the small ones beside the large, and have none of infinities.
 */
function decaysBetween(x: Lowering, decay: Value): Value {
  const [chunks, rows, length, size] = decay.dims as [number, number, number, number];
  const isAfter = x.build.view(lowerTriangle(x, length, 1), [length, length, 1]);
  const added = choose(x, isAfter, x.build.view(decay, [chunks, rows, length, 1, size]), zero(x));
  return apply(x, 'exp', [cumulate(x, added, 2)]);
}

/** Which j lie so far before i, or farther. */
function lowerTriangle(x: Lowering, length: number, distance: number): Value {
  return matrixOf(x, `triangle ${distance}`, length, (i, j) => i - j >= distance);
}

function matrixOf(
  x: Lowering,
  what: string,
  length: number,
  holds: (i: number, j: number) => boolean,
): Value {
  return x.derive(`${what} of ${length}`, [], () => ({
    type: 'bool',
    dims: [length, length],
    data: Uint8Array.from({ length: length ** 2 }, (_, at) =>
      Number(holds(Math.floor(at / length), at % length)),
    ),
  }));
}

/** The products of reads and keys, decayed: [chunks, rows, groups, length, length]. */
function weights(x: Lowering, reads: Value, key: Value, between: Value | undefined): Value {
  const [chunks, rows, length, size] = key.dims as [number, number, number, number];
  const groups = reads.dims[2]! / length;
  const dims = [chunks, rows, groups, length, length];
  if (between === undefined || between.dims[4] === 1) {
    const products = x.build.view(multiply(x, reads, x.build.transpose(key, [0, 1, 3, 2])), dims);
    return between === undefined
      ? products
      : times(x, products, x.build.view(between, [chunks, rows, 1, length, length]));
  }
  // Of each token i its own keys: [chunks, rows, i, j, size] by [chunks, rows, i, size, groups]
  const decayed = times(x, x.build.view(key, [chunks, rows, 1, length, size]), between);
  const split = x.build.view(reads, [chunks, rows, groups, length, size]);
  const made = multiply(x, decayed, x.build.transpose(split, [0, 1, 3, 4, 2]));
  return x.build.transpose(made, [0, 1, 4, 2, 3]);
}

interface Correcting {
  readonly key: Value;
  readonly value: Value;
  readonly rate: Value | undefined;
  readonly fromStart: Value | undefined;
  readonly between: Value | undefined;
}

/** The values that are written, and by which the state corrects them. */
function corrections(
  x: Lowering,
  { key, value, rate, fromStart, between }: Correcting,
): Pick<Chunk, 'written' | 'corrected'> {
  if (rate === undefined) return { written: value, corrected: undefined };
  const length = key.dims[2]!;
  const products = x.build.view(weights(x, key, key, between), [...key.dims.slice(0, 2), length, length]);
  const solve = inverse(x, times(x, products, rate));
  const seen = fromStart === undefined ? key : times(x, key, fromStart);
  const solved = (of: Value) => (solve === undefined ? of : multiply(x, solve, of));
  return { written: solved(times(x, value, rate)), corrected: solved(times(x, seen, rate)) };
}

/**
 * The inverse of 1 + L, L being what lies below the diagonal: `undefined` where that is nothing. Blocks of doubling size: of
 * [[A, 0], [B, D]] with the inverses of A and D in M it is M - M B M, and that of blocks of one is 1.
 */
function inverse(x: Lowering, matrices: Value): Value | undefined {
  const length = matrices.dims.at(-1)!;
  let made: Value | undefined;
  for (let size = 1; size < length; size *= 2) {
    const half = (i: number) => Math.floor(i / size);
    const isBelow = (i: number, j: number) => half(i) % 2 === 1 && half(i) === half(j) + 1;
    const block = choose(x, matrixOf(x, `blocks of ${size}`, length, isBelow), matrices, zero(x));
    made =
      made === undefined
        ? apply(x, 'subtract', [identity(x, length), block])
        : apply(x, 'subtract', [made, multiply(x, multiply(x, made, block), made)]);
  }
  return made;
}

function identity(x: Lowering, length: number): Value {
  return x.derive(`identity of ${length}`, [], () => ({
    type: 'float32',
    dims: [length, length],
    data: Float32Array.from({ length: length ** 2 }, (_, at) => Number(at % (length + 1) === 0)),
  }));
}

function writtenBy(x: Lowering, { written, corrected }: Chunk, state: Value | undefined): Value {
  if (corrected === undefined || state === undefined) return written;
  return apply(x, 'subtract', [written, multiply(x, corrected, state)]);
}

function readBy(x: Lowering, { reading, within }: Chunk, state: Value | undefined, written: Value): Value {
  const own = multiply(x, within, written);
  return state === undefined ? own : apply(x, 'add', [multiply(x, reading, state), own]);
}

function leftBy(x: Lowering, { fading, keys }: Chunk, state: Value | undefined, written: Value): Value {
  const added = multiply(x, keys, written);
  const [, rows, keySize, valueSize] = added.dims as [number, number, number, number];
  const own = x.build.view(added, [rows, keySize, valueSize]);
  if (state === undefined) return own;
  const kept =
    fading === undefined ? state : times(x, state, x.build.view(fading, [rows, fading.dims.at(-1)!, 1]));
  return apply(x, 'add', [kept, own]);
}

/** Each channel's filter over what came before, and the last positions as the next call's past: ONNX's operator of opset 27. */
const causalConvolution: Lower = (x) => {
  const [input, weight, bias, past] = [x.input(0), x.input(1), x.optional(2), x.optional(3)];
  const [batch, channels] = input.dims as [number, number];
  const before = weight.dims[2]! - 1;
  if (weight.dims[1] !== 1 || before < 0) throw x.invalid(`has ${shapeOf(weight)} for one filter a channel`);
  requireDims(x, 3, [batch, channels, before]);
  const padded =
    past === undefined ? padWith(x, input, [0, 0, before], [0, 0, 0]) : join(x, [past, input], 2);
  const sums =
    input.dims[2] === 0
      ? x.build.scratch(input.type, input.dims)
      : convolveInGroups(x, padded, weight, bias, channels);
  const activation = string(x.node, 'activation', ['none', 'silu', 'swish'], 'none');
  const start = padded.dims[2]! - before;
  return [
    activation === 'none' ? sums : apply(x, 'silu', [sums]),
    along(x, padded, [{ axis: 2, start, step: 1, count: before }]),
  ];
};

/** Types of states are their own, so that this one brings halves to float32 itself. */
export const linearAttentions: Record<string, Lower> = { LinearAttention: linearAttention };
export const causalConvolutions: Record<string, Lower> = { CausalConvWithState: causalConvolution };

/** Determinants, attention whose state each token changes, and the convolution before it. */
import type { Operator } from './elementwise';
import {
  ANYTHING,
  exact,
  OPEN,
  products,
  range,
  silu,
  sum,
  tensorOf,
  times,
  within,
  type Inexact,
} from './inexact';
import type { Node } from './node';
import { arithmeticOf, ulp, type Arithmetic } from './precision';
import { Illegal, requireSmall, sizeOf, TooLarge, Unjudged, type Expected, type RefTensor } from './tensor';

const MOST_STEPS = 2 ** 22;

/** By elimination with the greatest of all elements that are left as the pivot. */
function determinantOf(given: readonly number[], rows: number): number {
  const left = range(rows).map((row) => given.slice(row * rows, (row + 1) * rows));
  let product = 1;
  for (let step = 0; step < rows; step++) {
    let [row, column] = [step, step];
    for (let i = step; i < rows; i++) {
      for (let j = step; j < rows; j++) {
        if (Math.abs(left[i]![j]!) > Math.abs(left[row]![column]!)) [row, column] = [i, j];
      }
    }
    const pivot = left[row]![column]!;
    if (pivot === 0) return 0;
    [left[step], left[row]] = [left[row]!, left[step]!];
    for (const line of left) [line[step], line[column]] = [line[column]!, line[step]!];
    product *= (row === step) === (column === step) ? pivot : -pivot;
    for (let i = step + 1; i < rows; i++) {
      const factor = left[i]![step]! / pivot;
      for (let j = step; j < rows; j++) left[i]![j]! -= factor * left[step]![j]!;
    }
  }
  return product;
}

/**
 * Elimination by rows in doubles has, for each of n^2 elements, an error of 3 n roundings of what grew to 2^(n - 1) times
 * the greatest element; the determinant changes by as much times a cofactor, which Hadamard bounds.
 */
function allowedOfDeterminant(elements: readonly number[], rows: number): number {
  const greatest = elements.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  const size = greatest ** rows * rows ** (rows / 2);
  const allowed = rows ** 2 * 3 * rows * 2 ** (rows - 1) * 2 ** -53 * size;
  return allowed < 2 ** 900 && elements.every(Number.isFinite) ? allowed : ANYTHING;
}

const det: Operator = (node) => {
  const { type, dims, data } = node.input(0);
  const rows = dims.at(-1);
  if (dims.length < 2 || rows !== dims.at(-2)) throw new Illegal(`[${dims}] as square matrices`);
  const count = sizeOf(dims.slice(0, -2));
  if (count * rows! ** 3 > MOST_STEPS) throw new TooLarge(count * rows! ** 3);
  const matrices = range(count).map((i) => data.slice(i * rows! ** 2, (i + 1) * rows! ** 2) as number[]);
  const results = matrices.map((matrix) => determinantOf(matrix, rows!));
  const rounding = (y: number) => (type === 'float64' ? 0 : 0.51 * ulp('float32', y));
  const allowed = results.map((y, i) => allowedOfDeterminant(matrices[i]!, rows!) + rounding(y));
  return [{ type, dims: dims.slice(0, -2), data: results, allowed }];
};

/** Beyond, what one token has of it may overflow in products with others'. */
const MOST_OF_CHUNKS = 2 ** 30;

const RULES = ['gated_delta', 'linear', 'gated', 'delta'] as const;

/** The exponential of a logarithm that is known. */
function decayOf(arithmetic: Arithmetic, logarithm: number): Inexact {
  const y = Math.exp(logarithm);
  return within(arithmetic, y, (8 + 4 * Math.abs(logarithm)) * arithmetic.unit * y + arithmetic.tiny);
}

function requireDims(node: Node, index: number, ...choices: readonly (readonly number[])[]): void {
  const given = node.optional(index);
  if (given === undefined || choices.some((dims) => dims.join() === given.dims.join())) return;
  throw new Illegal(`input ${index} of [${given.dims}]`);
}

/** Token by token, as the operator's text has it. */
const linearAttention: Operator = (node) => {
  const [query, key, value] = [node.input(0), node.input(1), node.input(2)];
  const [queryHeads, heads] = [node.integer('q_num_heads'), node.integer('kv_num_heads')];
  if (queryHeads < 1 || heads < 1 || queryHeads % heads !== 0)
    throw new Illegal(`${queryHeads} by ${heads} heads`);
  if (query.dims.length !== 3 || value.dims.length !== 3)
    throw new Illegal('queries and values of three axes');
  const [batch, tokens, width] = query.dims as [number, number, number];
  const [keySize, valueSize] = [width / queryHeads, value.dims[2]! / heads];
  if (!Number.isInteger(keySize) || !Number.isInteger(valueSize))
    throw new Illegal(`${width} in ${queryHeads} heads`);
  requireDims(node, 1, [batch, tokens, heads * keySize]);
  requireDims(node, 2, [batch, tokens, heads * valueSize]);
  requireDims(node, 3, [batch, heads, keySize, valueSize]);
  requireDims(node, 4, [batch, tokens, heads], [batch, tokens, heads * keySize]);
  requireDims(node, 5, [batch, tokens, heads], [batch, tokens, 1]);
  const rule = node.string('update_rule', RULES);
  const [decay, beta] = [node.optional(4), node.optional(5)];
  if (rule.startsWith('gated') && decay === undefined) throw new Illegal(`${rule} without a decay`);
  if (rule.endsWith('delta') && beta === undefined) throw new Illegal(`${rule} without a rate`);
  // What becomes of one that the rule has no place for, ONNX does not say.
  if (!rule.startsWith('gated') && decay !== undefined) throw new Unjudged(`${rule} with a decay`);
  if (!rule.endsWith('delta') && beta !== undefined) throw new Unjudged(`${rule} with a rate`);
  if (width === 0 || valueSize === 0) throw new Unjudged('heads of no elements');
  const steps = batch * tokens * queryHeads * keySize * valueSize;
  if (steps > MOST_STEPS) throw new TooLarge(steps);
  const arithmetic = arithmeticOf(query.type);
  const scale = node.float('scale', 0) || 1 / Math.sqrt(keySize);
  const at = ({ dims, data }: RefTensor, b: number, t: number, i: number) =>
    data[(b * tokens + t) * dims[2]! + i] as number;
  const past = node.optional(3);
  const state = range(batch * heads * keySize * valueSize).map((i) => exact((past?.data[i] as number) ?? 0));
  const output = new Map<number, Inexact>();
  const isTame = (y: unknown) => Math.abs(Number(y)) < MOST_OF_CHUNKS;
  const isOpen = [query, key, value, past, beta].some((input) => input && !input.data.every(isTame));
  const isOpenDecay = decay?.data.some((y) => !(Number(y) < Infinity));
  for (let b = 0; b < batch; b++) {
    for (let t = 0; t < tokens; t++) {
      for (let h = 0; h < heads; h++) {
        const keys = range(keySize).map((i) => at(key, b, t, h * keySize + i));
        const fading = keys.map((_, i) => {
          if (decay === undefined) return exact(1);
          return decayOf(arithmetic, at(decay, b, t, decay.dims[2] === heads ? h : h * keySize + i));
        });
        const rate = beta === undefined ? 1 : at(beta, b, t, beta.dims[2] === 1 ? 0 : h);
        for (let j = 0; j < valueSize; j++) {
          const place = (i: number) => ((b * heads + h) * keySize + i) * valueSize + j;
          const faded = keys.map((_, i) => times(arithmetic, fading[i]!, state[place(i)]!));
          const seen = beta === undefined ? [] : products(faded, keys).map(({ y, off }) => ({ y: -y, off }));
          const difference = sum(arithmetic, [exact(at(value, b, t, h * valueSize + j)), ...seen]);
          const written = times(arithmetic, exact(rate), difference);
          keys.forEach((k, i) => {
            state[place(i)] = sum(arithmetic, [faded[i]!, times(arithmetic, exact(k), written)]);
          });
          for (let q = (h * queryHeads) / heads; q < ((h + 1) * queryHeads) / heads; q++) {
            const queries = range(keySize).map((i) => at(query, b, t, q * keySize + i) * scale);
            const read = products(
              keys.map((_, i) => state[place(i)]!),
              queries,
            );
            output.set(((b * tokens + t) * queryHeads + q) * valueSize + j, sum(arithmetic, read));
          }
        }
      }
    }
  }
  // Chunks of tokens may be computed at once: what overflows then is everywhere in a product of matrices.
  const listed = (dims: readonly number[], type: Expected['type'], numberAt: (i: number) => Inexact) => {
    let next = 0;
    return tensorOf(type, dims, () => (isOpen || isOpenDecay ? OPEN : numberAt(next++)));
  };
  return [
    listed([batch, tokens, queryHeads * valueSize], query.type, (i) => output.get(i)!),
    listed([batch, heads, keySize, valueSize], past?.type ?? query.type, (i) => state[i]!),
  ];
};

/** A filter a channel over the past, then the input; the last places of both are what comes before the next input. */
const causalConvolution: Operator = (node) => {
  const [input, weight] = [node.input(0), node.input(1)];
  if (input.dims.length !== 3) throw new Illegal(`an input of [${input.dims}]`);
  const [batch, channels, length] = input.dims as [number, number, number];
  const [, , taps = 0] = weight.dims;
  if (weight.dims.join() !== `${channels},1,${taps}` || taps < 1)
    throw new Illegal(`a filter of [${weight.dims}]`);
  const before = taps - 1;
  requireDims(node, 2, [channels]);
  requireDims(node, 3, [batch, channels, before]);
  const activation = node.string('activation', ['none', 'silu', 'swish']);
  const [bias, past] = [node.optional(2), node.optional(3)];
  requireSmall([batch, channels, length + before]);
  if (batch * channels * length * taps > MOST_STEPS) throw new TooLarge(batch * channels * length * taps);
  const arithmetic = arithmeticOf(input.type);
  const padded = (b: number, c: number, place: number): number => {
    const row = b * channels + c;
    if (place >= before) return input.data[row * length + place - before] as number;
    return (past?.data[row * before + place] as number | undefined) ?? 0;
  };
  const output = tensorOf(input.type, input.dims, ([b, c, i]) => {
    const seen = range(taps).map((tap) => exact(padded(b!, c!, i! + tap)));
    const filter = weight.data.slice(c! * taps, (c! + 1) * taps) as number[];
    const shift = bias === undefined ? [] : [exact(bias.data[c!] as number)];
    const total = sum(arithmetic, [...products(seen, filter), ...shift]);
    return activation === 'none' ? total : silu(arithmetic, total);
  });
  const kept = range(batch * channels * before).map((index) => {
    const row = Math.floor(index / before);
    return padded(Math.floor(row / channels), row % channels, length + (index % before));
  });
  return [output, { type: input.type, dims: [batch, channels, before], data: kept }];
};

export const linearRecurrence: Readonly<Record<string, Operator>> = {
  CausalConvWithState: causalConvolution,
  Det: det,
  LinearAttention: linearAttention,
};

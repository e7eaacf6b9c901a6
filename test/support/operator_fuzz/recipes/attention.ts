/** Attention, and the rotation of what it compares. */
import type { Dims, ElementType, RefTensor } from '../../onnx_reference/tensor';
import { float, int, type Draw, type Recipe } from '../draw';

/** [batch, heads, length, size], or with the heads in the last of three axes. */
function heads(draw: Draw, dims: Dims, isFlat: boolean, type: ElementType): RefTensor {
  const [batch, count, length, size] = dims as [number, number, number, number];
  return draw.tensor(isFlat ? [batch, length, count * size] : dims, type, 'unit');
}

/** Flags, or what is added to scores, with negative infinities. */
function mask(draw: Draw, full: Dims, type: ElementType): RefTensor {
  const { random } = draw;
  const [batch, count, queries, keys] = full as [number, number, number, number];
  const isShort = draw.opset >= 24 && random.chance(0.15);
  const own = isShort ? random.integer(1, keys) : keys;
  const dims = random.pick([
    [queries, own],
    [count, queries, own],
    [random.pick([1, batch]), random.pick([1, count]), random.pick([1, queries]), own],
  ]);
  if (random.chance(0.5)) return draw.tensor(dims, 'bool');
  const added = draw.tensor(dims, type, 'unit');
  return random.chance(0.5)
    ? added
    : { ...added, data: added.data.map((x) => (random.chance(0.3) ? -Infinity : x)) };
}

const attention: Recipe = (draw) => {
  const { random } = draw;
  const batch = random.chance(0.03) ? 0 : random.integer(1, 2);
  const shared = random.integer(1, 2);
  const count = shared * random.integer(1, 3);
  const [queries, keys, size, width] = [5, 6, 6, 6].map((most) => random.integer(1, most)) as [
    number,
    number,
    number,
    number,
  ];
  const type = draw.type('Q');
  const ofValues = random.chance(0.9) ? type : draw.type('W');
  const isFlat = random.chance(0.5);
  const past = random.chance(0.4) ? random.integer(0, 4) : undefined;
  const hasLengths = draw.opset >= 24 && past === undefined && random.chance(0.3);
  const total = keys + (past ?? 0);
  const lengths: RefTensor = {
    type: 'int64',
    dims: [batch],
    data: draw.integers(batch, random.integer(0, 1), keys),
  };
  const outputs = past === undefined ? random.pick([1, 1, 4]) : random.pick([1, 3, 4]);
  return {
    attributes: {
      ...(isFlat ? { q_num_heads: int(count), kv_num_heads: int(shared) } : {}),
      ...draw.maybe('is_causal', () => int(random.integer(0, 1))),
      ...draw.maybe('left_window_size', () => int(random.integer(-1, 3)), 0.3),
      ...draw.maybe('right_window_size', () => int(random.integer(-1, 3)), 0.3),
      ...draw.maybe('scale', () => float(random.pick([0.5, 1, 0.3])), 0.3),
      ...draw.maybe('softcap', () => float(random.pick([0, 0.5, 2])), 0.3),
      ...draw.maybe('softmax_precision', () => int(type === 'float64' ? 11 : 1), 0.2),
      ...draw.maybe('qk_matmul_output_mode', () => int(random.integer(0, 3)), outputs === 4 ? 0.8 : 0.2),
    },
    inputs: [
      heads(draw, [batch, count, queries, size], isFlat, type),
      heads(draw, [batch, shared, keys, size], isFlat, type),
      heads(draw, [batch, shared, keys, width], isFlat, ofValues),
      random.chance(0.5) ? mask(draw, [batch, count, queries, total], type) : undefined,
      past === undefined ? undefined : draw.tensor([batch, shared, past, size], type, 'unit'),
      past === undefined ? undefined : draw.tensor([batch, shared, past, width], ofValues, 'unit'),
      hasLengths ? lengths : undefined,
    ].slice(0, draw.schema.inputs.length),
    outputs,
    // Those of the cache belong to a past.
    unnamed: outputs === 4 && past === undefined ? [1, 2] : [],
  };
};

const rotaryEmbedding: Recipe = (draw) => {
  const { random } = draw;
  const [batch, length] = [random.chance(0.03) ? 0 : random.integer(1, 3), random.integer(1, 6)];
  const [count, half] = [random.integer(1, 4), random.integer(1, 6)];
  const isPartial = random.chance(0.3);
  const size = 2 * half + (isPartial ? random.integer(0, 5) : 0);
  const isFlat = random.chance(0.5);
  const type = draw.type();
  const hasIds = random.chance(0.5);
  const places = random.integer(1, 9);
  const cache = hasIds ? [places, half] : [batch, length, half];
  return {
    attributes: {
      ...(isFlat ? { num_heads: int(count) } : {}),
      ...draw.maybe('interleaved', () => int(random.integer(0, 1))),
      ...(isPartial || random.chance(0.2) ? { rotary_embedding_dim: int(2 * half) } : {}),
    },
    inputs: [
      heads(draw, [batch, count, length, size], isFlat, type),
      draw.tensor(cache, type, 'unit'),
      draw.tensor(cache, type, 'unit'),
      hasIds
        ? { type: 'int64', dims: [batch, length], data: draw.integers(batch * length, 0, places - 1) }
        : undefined,
    ],
  };
};

export const attentions: Readonly<Record<string, Recipe>> = {
  Attention: attention,
  RotaryEmbedding: rotaryEmbedding,
};

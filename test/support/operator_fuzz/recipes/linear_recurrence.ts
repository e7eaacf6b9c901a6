/** Determinants, attention whose state each token changes, and the convolution before it. */
import { roundTo } from '../../onnx_reference/precision';
import type { Dims, ElementType, RefTensor } from '../../onnx_reference/tensor';
import { float, int, string, type Draw, type Recipe } from '../draw';

const det: Recipe = (draw) => {
  const { random } = draw;
  const rows = random.chance(0.05) ? 0 : random.chance(0.1) ? random.integer(9, 16) : random.integer(1, 6);
  const batch = draw.dims({ most: 2 }).map((extent) => Math.min(extent, 4));
  const tensor = draw.tensor(
    [...batch, rows, rows],
    undefined,
    random.pick(['unit', 'whole', undefined] as const),
  );
  // Two rows that are alike
  const isSingular = rows > 1 && random.chance(0.15) && tensor.data.length > 0;
  const data = isSingular
    ? tensor.data.map((x, i) => (i >= rows && i < 2 * rows ? tensor.data[i - rows]! : x))
    : tensor.data;
  return { inputs: [{ ...tensor, data }] };
};

/** Numbers of a type, each made of one between -1 and 1. */
function numbers(draw: Draw, dims: Dims, type: ElementType, make: (unit: number) => number): RefTensor {
  const tensor = draw.tensor(dims, type, 'unit');
  return { ...tensor, data: (tensor.data as readonly number[]).map((x) => roundTo(type, make(x))) };
}

const linearAttention: Recipe = (draw) => {
  const { random } = draw;
  const [heads, groups] = [random.integer(1, 3), random.integer(1, 3)];
  const [keySize, valueSize] = [random.integer(1, 8), random.integer(1, 8)];
  const [batch, tokens] = [
    random.chance(0.03) ? 0 : random.integer(1, 2),
    random.chance(0.1) ? random.integer(17, 80) : random.integer(1, 9),
  ];
  const rule = random.pick(['linear', 'gated', 'delta', 'gated_delta']);
  const [type, stateType] = [draw.type('T'), draw.type('S')];
  // Keys whose length is one at most: what they take away of a state is no more than there is.
  const size = 1 / Math.sqrt(keySize);
  const isGated = rule.startsWith('gated');
  const isDelta = rule.endsWith('delta');
  const decays = random.chance(0.5) ? heads : heads * keySize;
  const rates = random.chance(0.3) ? 1 : heads;
  return {
    attributes: {
      q_num_heads: int(heads * groups),
      kv_num_heads: int(heads),
      ...(rule === 'gated_delta' && random.chance(0.5) ? {} : { update_rule: string(rule) }),
      ...draw.maybe('scale', () => float(random.pick([0, 0.5, 1])), 0.4),
      ...draw.maybe('chunk_size', () => int(random.pick([1, 16, 64])), 0.2),
    },
    inputs: [
      numbers(draw, [batch, tokens, heads * groups * keySize], type, (x) => x),
      numbers(draw, [batch, tokens, heads * keySize], type, (x) => x * size),
      numbers(draw, [batch, tokens, heads * valueSize], type, (x) => 2 * x),
      random.chance(0.5) ? numbers(draw, [batch, heads, keySize, valueSize], stateType, (x) => x) : undefined,
      isGated
        ? numbers(draw, [batch, tokens, decays], type, (x) => -Math.abs(x) * random.pick([0.1, 1, 3]))
        : undefined,
      isDelta ? numbers(draw, [batch, tokens, rates], type, (x) => Math.abs(x)) : undefined,
    ],
    outputs: 2,
  };
};

const causalConvolution: Recipe = (draw) => {
  const { random } = draw;
  const [batch, channels] = [random.chance(0.03) ? 0 : random.integer(1, 3), random.integer(1, 9)];
  const [length, taps] = [random.chance(0.2) ? 40 : random.integer(1, 9), random.integer(1, 5)];
  const type = draw.type();
  return {
    attributes: draw.maybe('activation', () => string(random.pick(['none', 'silu', 'swish']))),
    inputs: [
      draw.tensor([batch, channels, length], type),
      draw.tensor([channels, 1, taps], type, 'unit'),
      random.chance(0.5) ? draw.tensor([channels], type) : undefined,
      random.chance(0.5) ? draw.tensor([batch, channels, taps - 1], type) : undefined,
    ],
    outputs: 2,
  };
};

export const linearRecurrence: Readonly<Record<string, Recipe>> = {
  CausalConvWithState: causalConvolution,
  Det: det,
  LinearAttention: linearAttention,
};

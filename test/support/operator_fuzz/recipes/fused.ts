/** Operators of `com.microsoft` that are several of ONNX's in one. */
import type { RefTensor } from '../../onnx_reference/tensor';
import { float, int, recipes, string, type Attributes, type Draw, type Recipe } from '../draw';
import { matmul } from './products';
import { conv } from './windows';

const biased: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, most: 4 });
  const type = draw.type();
  const hasBias = draw.operator.endsWith('BiasGelu') || draw.random.chance(0.6);
  return {
    inputs: [draw.tensor(dims, type), hasBias ? draw.tensor([dims.at(-1)!], type, 'unit') : undefined],
  };
};

const PARAMETERS: Readonly<Record<string, readonly number[]>> = {
  Clip: [-0.5, 1.5],
  HardSigmoid: [0.25, 0.5],
  LeakyRelu: [0.125],
};

function activation(draw: Draw): Attributes {
  if (draw.random.chance(0.3)) return {};
  const name = draw.random.pick(['Relu', 'Tanh', 'Sigmoid', 'LeakyRelu', 'Clip', 'HardSigmoid']);
  const parameters = PARAMETERS[name];
  return {
    activation: string(name),
    ...(parameters === undefined ? {} : { activation_params: { kind: 'floats', value: parameters } }),
  };
}

const fusedConv: Recipe = (draw) => {
  const { attributes, inputs } = conv(draw);
  return { attributes: { ...attributes, ...activation(draw) }, inputs };
};

/** The same images with their channels as the last axis; the elements may be any. */
const nhwcConv: Recipe = (draw) => {
  const { attributes, inputs } = conv(draw);
  const [images, ...rest] = inputs as [RefTensor, ...RefTensor[]];
  const [batch, channels, ...spatial] = images.dims;
  return {
    attributes: { ...attributes, ...activation(draw) },
    inputs: [{ ...images, dims: [batch!, ...spatial, channels!] }, ...rest],
  };
};

const turned = (tensor: RefTensor): RefTensor => ({
  ...tensor,
  dims: [...tensor.dims.slice(0, -2), tensor.dims.at(-1)!, tensor.dims.at(-2)!],
});

const fusedMatMul: Recipe = (draw) => {
  const [a, b] = matmul(draw).inputs as [RefTensor, RefTensor];
  const isTurned = ({ dims }: RefTensor) => dims.length > 1 && draw.random.chance(0.4);
  const [turnsA, turnsB] = [isTurned(a), isTurned(b)];
  return {
    attributes: {
      ...(turnsA ? { transA: int(1) } : {}),
      ...(turnsB ? { transB: int(1) } : {}),
      ...draw.maybe('alpha', () => float(draw.random.pick([0.125, 1, -2]))),
    },
    inputs: [turnsA ? turned(a) : a, turnsB ? turned(b) : b],
  };
};

const epsilon = (draw: Draw) => draw.maybe('epsilon', () => float(draw.random.pick([1e-5, 1e-3])), 0.6);

const skipNormalization: Recipe = (draw) => {
  const { random } = draw;
  const [batch, length, width] = [
    random.chance(0.03) ? 0 : random.integer(1, 3),
    random.integer(1, 5),
    random.integer(2, 20),
  ];
  const type = draw.type();
  const dims = [batch, length, width];
  const list = () => draw.tensor([width], type, 'unit');
  const maybe = () => (random.chance(0.5) ? list() : undefined);
  const isSimple = draw.operator.includes('Simplified');
  const hasSum = random.chance(0.5);
  return {
    attributes: epsilon(draw),
    inputs: [
      draw.tensor(dims, type, 'unit'),
      draw.tensor(random.pick([dims, dims, [1, length, width], [length, width]]), type, 'unit'),
      ...[list(), ...(isSimple ? [maybe()] : [maybe(), maybe()])],
    ],
    outputs: hasSum ? 4 : 1,
    unnamed: hasSum ? [1, 2] : [],
  };
};

const simplified: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = draw.random.integer(0, dims.length - 1);
  return {
    attributes: {
      ...epsilon(draw),
      ...(axis < dims.length - 1 || draw.random.chance(0.5)
        ? { axis: int(draw.axis(axis, dims.length, 1)) }
        : {}),
      ...draw.maybe('stash_type', () => int(1), 0.2),
    },
    inputs: [draw.tensor(dims, undefined, 'unit'), draw.tensor(dims.slice(axis), draw.type('S'), 'unit')],
  };
};

function scoring(draw: Draw, heads: number): Attributes {
  const { random } = draw;
  return {
    num_heads: int(heads),
    ...draw.maybe('scale', () => float(random.pick([0.5, 1])), 0.3),
    ...draw.maybe('mask_filter_value', () => float(random.pick([-10000, -100])), 0.3),
    ...draw.maybe('unidirectional', () => int(0), 0.2),
  };
}

/** By key, with queries, or with heads, too. */
function mask(draw: Draw, batch: number, queries: number, keys: number): RefTensor | undefined {
  const { random } = draw;
  if (random.chance(0.5)) return undefined;
  const dims = random.chance(0.5) ? [batch, keys] : [batch, queries, keys];
  return {
    type: 'int32',
    dims,
    data: draw.integers(
      dims.reduce((a, b) => a * b, 1),
      0,
      1,
    ),
  };
}

const attention: Recipe = (draw) => {
  const { random } = draw;
  const [batch, length, depth] = [
    random.chance(0.03) ? 0 : random.integer(1, 2),
    random.integer(1, 6),
    random.integer(1, 8),
  ];
  const [heads, size] = [random.integer(1, 3), random.integer(1, 6)];
  const width = 3 * heads * size;
  const type = draw.type();
  return {
    attributes: scoring(draw, heads),
    inputs: [
      ...[draw.tensor([batch, length, depth], type, 'unit'), draw.tensor([depth, width], type, 'unit')],
      random.chance(0.7) ? draw.tensor([width], type, 'unit') : undefined,
      ...[mask(draw, batch, length, length), undefined],
      random.chance(0.3)
        ? draw.tensor([random.pick([1, batch]), random.pick([1, heads]), length, length], type, 'unit')
        : undefined,
    ],
  };
};

const multiHeadAttention: Recipe = (draw) => {
  const { random } = draw;
  const [batch, queries, keys] = [
    random.chance(0.03) ? 0 : random.integer(1, 2),
    random.integer(1, 6),
    random.integer(1, 6),
  ];
  const [heads, size, valueSize] = [random.integer(1, 3), random.integer(1, 6), random.integer(1, 6)];
  const [width, valueWidth] = [heads * size, heads * valueSize];
  const type = draw.type();
  return {
    attributes: scoring(draw, heads),
    inputs: [
      draw.tensor([batch, queries, width], type, 'unit'),
      draw.tensor([batch, keys, width], type, 'unit'),
      draw.tensor([batch, keys, valueWidth], type, 'unit'),
      random.chance(0.5) ? draw.tensor([2 * width + valueWidth], type, 'unit') : undefined,
      mask(draw, batch, queries, keys),
      random.chance(0.3)
        ? draw.tensor([random.pick([1, batch]), random.pick([1, heads]), queries, keys], type, 'unit')
        : undefined,
    ],
  };
};

export const fused: Readonly<Record<string, Recipe>> = {
  ...recipes(biased, 'com.microsoft.BiasGelu com.microsoft.FastGelu'),
  ...recipes(
    skipNormalization,
    'com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization',
  ),
  'com.microsoft.Attention': attention,
  'com.microsoft.FusedConv': fusedConv,
  'com.microsoft.FusedMatMul': fusedMatMul,
  'com.microsoft.MultiHeadAttention': multiHeadAttention,
  'com.microsoft.NhwcConv': nhwcConv,
  'com.microsoft.SimplifiedLayerNormalization': simplified,
};

/** Tensors made of attributes, dims and bounds. */
import type { Attribute } from '../../onnx_reference/node';
import { roundTo } from '../../onnx_reference/precision';
import type { RefTensor } from '../../onnx_reference/tensor';
import { float, int, ints, type Recipe } from '../draw';
import { anyTensor, list } from '../values';

const constant: Recipe = (draw) => {
  const value = (): Attribute => ({
    kind: 'tensor',
    value: anyTensor(
      draw.random,
      draw.random.pick(['float32', 'int64', 'bool', 'float16'] as const),
      draw.dims(),
    ),
  });
  const others: Record<string, () => Attribute> = {
    value_float: () => float(0.1),
    value_floats: () => ({ kind: 'floats', value: [1, Math.fround(0.3), -2] }),
    value_int: () => int(-7),
    value_ints: () => ints([1, -2, 3]),
  };
  const name = draw.opset < 12 || draw.random.chance(0.4) ? 'value' : draw.random.pick(Object.keys(others));
  return { attributes: { [name]: (others[name] ?? value)() }, inputs: [] };
};

const constantOfShape: Recipe = (draw) => {
  const type = draw.random.pick([
    'float32',
    'float32',
    'int64',
    'bool',
    'float64',
    'int8',
    'uint16',
  ] as const);
  const value = (): Attribute => ({ kind: 'tensor', value: draw.tensor([1], type) });
  return { attributes: draw.maybe('value', value), inputs: [list(draw.dims())] };
};

const range: Recipe = (draw) => {
  const { random } = draw;
  const type = draw.type();
  const isFloat = type.includes('float');
  const delta = random.pick([1, 2, 3, -1, -2, ...(isFloat ? [0.5, -0.25] : [])]);
  const distance = Math.sign(delta) * random.integer(-2, 30);
  // So far out, halves have no steps of a quarter, nor doubles of one.
  const far = random.chance(0.8) ? 0 : isFloat ? 1500 : type === 'int64' ? 2 ** 60 : 300;
  const start = random.integer(-20, 20);
  const scalar = (value: number, from = 0): RefTensor => ({
    type,
    dims: [],
    data: [isFloat ? roundTo(type, from + value) : BigInt(from) + BigInt(value)],
  });
  return {
    attributes: draw.maybe('stash_type', () => int(1), 0.3),
    inputs: [scalar(start, far), scalar(start + distance, far), scalar(delta)],
  };
};

const shape: Recipe = (draw) => ({
  attributes: {
    ...draw.maybe('start', () => int(draw.random.integer(-6, 6)), 0.4),
    ...draw.maybe('end', () => int(draw.random.integer(-6, 6)), 0.4),
  },
  inputs: [draw.tensor(draw.dims())],
});

export const creation: Readonly<Record<string, Recipe>> = {
  Constant: constant,
  ConstantOfShape: constantOfShape,
  Range: range,
  Shape: shape,
};

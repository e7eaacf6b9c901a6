/** Losses of classifications. */
import type { RefTensor } from '../../onnx_reference/tensor';
import { sizeOf } from '../../onnx_reference/tensor';
import { int, recipes, string, type Recipe } from '../draw';

const loss: Recipe = (draw) => {
  const { random } = draw;
  const [batch, classes] = [random.chance(0.03) ? 0 : random.integer(1, 5), random.integer(1, 6)];
  const places = draw.dims({ least: 0, most: 3, isEmptyAllowed: false }).map((extent) => Math.min(extent, 5));
  const type = draw.type();
  const ignored = random.chance(0.5) ? random.pick([-1, 0, classes - 1, 255]) : undefined;
  const dims = [batch, ...places];
  const target: RefTensor = {
    type: draw.type('I'),
    dims,
    data: draw
      .integers(sizeOf(dims), 0, classes - 1)
      .map((x) => (ignored !== undefined && random.chance(0.2) ? BigInt(ignored) : x)),
  };
  return {
    attributes: {
      ...(ignored === undefined ? {} : { ignore_index: int(ignored) }),
      ...draw.maybe('reduction', () => string(random.pick(['none', 'sum', 'mean']))),
    },
    inputs: [
      draw.tensor([batch, classes, ...places], type),
      target,
      random.chance(0.5) ? draw.tensor([classes], type, 'positive') : undefined,
    ],
    outputs: draw.schema.outputs === 1 ? 1 : random.integer(1, 2),
  };
};

export const losses: Readonly<Record<string, Recipe>> = recipes(
  loss,
  'NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss',
);

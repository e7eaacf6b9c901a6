/** Networks of units that remember. */
import type { Attribute } from '../../onnx_reference/node';
import { roundTo } from '../../onnx_reference/precision';
import type { Dims, ElementType, RefTensor } from '../../onnx_reference/tensor';
import { float, int, string, type Attributes, type Draw, type Recipe } from '../draw';

/** Functions by how many parameters they take. */
const FUNCTIONS: readonly (readonly string[])[] = [
  ['Relu', 'Sigmoid', 'Softplus', 'Softsign', 'Tanh'],
  ['Elu', 'LeakyRelu', 'ThresholdedRelu'],
  ['Affine', 'HardSigmoid', 'ScaledTanh'],
];

/** ONNX does not say what these take by themselves. */
const WITHOUT_USUAL = ['Affine', 'ScaledTanh'];

function activations(draw: Draw, count: number): Attributes {
  const { random } = draw;
  if (random.chance(0.6)) return {};
  const any = () => random.pick(FUNCTIONS.flat());
  const strings = (value: readonly string[]): Attribute => ({ kind: 'strings', value });
  if (random.chance(0.4)) {
    const usual = FUNCTIONS.flat().filter((name) => !WITHOUT_USUAL.includes(name));
    return { activations: strings(Array.from({ length: count }, () => random.pick(usual))) };
  }
  // Whether those that take none have a place in the lists of parameters, ONNX does not say: here they come last.
  const takes = (name: string) => FUNCTIONS.findIndex((names) => names.includes(name));
  const names = Array.from({ length: count }, any).sort((a, b) => takes(b) - takes(a));
  const parameters = (least: number): Attribute => ({
    kind: 'floats',
    value: names
      .filter((name) => takes(name) >= least)
      .map(() => Math.fround(random.pick([0.1, 0.25, 0.5, 0.9, 1]))),
  });
  return {
    activations: strings(names),
    ...(names.some((name) => takes(name) >= 1) ? { activation_alpha: parameters(1) } : {}),
    ...(names.some((name) => takes(name) === 2) ? { activation_beta: parameters(2) } : {}),
  };
}

/** Weights below one: what a state is off by should not grow with each step. */
function weights(draw: Draw, dims: Dims, type: ElementType, size: number): RefTensor {
  const tensor = draw.tensor(dims, type, 'unit');
  return { ...tensor, data: (tensor.data as readonly number[]).map((x) => roundTo(type, x * size)) };
}

interface Cell {
  readonly gates: number;
  readonly functions: number;
  readonly hasState: boolean;
}

function recurrent({ gates, functions, hasState }: Cell): Recipe {
  return (draw) => {
    const { random } = draw;
    const [steps, batch] = [random.integer(1, 5), random.chance(0.03) ? 0 : random.integer(1, 3)];
    const [inputs, hidden] = [random.integer(1, 6), random.chance(0.15) ? 17 : random.integer(1, 8)];
    const direction = random.pick(['forward', 'forward', 'reverse', 'bidirectional']);
    const directions = direction === 'bidirectional' ? 2 : 1;
    const layout = draw.maybe('layout', () => int(random.integer(0, 1)), 0.4);
    const isBatchFirst = layout.layout?.value === 1n;
    const type = draw.type();
    const outputs = random.integer(1, hasState ? 3 : 2);
    const states = isBatchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
    const maybe = (dims: Dims) => (random.chance(0.5) ? weights(draw, dims, type, 1) : undefined);
    const lengths: RefTensor = { type: 'int32', dims: [batch], data: draw.integers(batch, 1, steps) };
    const x = isBatchFirst ? [batch, steps, inputs] : [steps, batch, inputs];
    return {
      attributes: {
        ...layout,
        ...activations(draw, functions * directions),
        ...(direction === 'forward' && random.chance(0.6) ? {} : { direction: string(direction) }),
        ...draw.maybe('clip', () => float(random.pick([0.3, 1, 4])), 0.25),
        ...draw.maybe('hidden_size', () => int(hidden), 0.7),
        ...draw.maybe('input_forget', () => int(random.integer(0, 1)), 0.3),
        ...draw.maybe('linear_before_reset', () => int(random.integer(0, 1))),
      },
      inputs: [
        draw.tensor(x, type, random.pick(['unit', 'unit', 'whole'])),
        weights(draw, [directions, gates * hidden, inputs], type, 1),
        weights(draw, [directions, gates * hidden, hidden], type, 1 / Math.sqrt(hidden)),
        maybe([directions, 2 * gates * hidden]),
        random.chance(0.4) ? lengths : undefined,
        maybe(states),
        ...(hasState ? [maybe(states), maybe([directions, 3 * hidden])] : []),
      ],
      outputs,
      unnamed: draw.someOutputs(outputs),
    };
  };
}

export const recurrence: Readonly<Record<string, Recipe>> = {
  GRU: recurrent({ gates: 3, functions: 2, hasState: false }),
  LSTM: recurrent({ gates: 4, functions: 3, hasState: true }),
  RNN: recurrent({ gates: 1, functions: 1, hasState: false }),
};

/** Functions of whole axes. */
import { int, ints, recipes, type Recipe } from '../draw';
import { list } from '../values';

const softmax: Recipe = (draw) => {
  const dims = draw.dims({ least: 1 });
  const axis = draw.random.integer(0, dims.length - 1);
  const needed = draw.opset < 13 && dims.length === 1;
  return {
    attributes: needed || draw.random.chance(0.7) ? { axis: int(draw.axis(axis, dims.length)) } : {},
    inputs: [draw.tensor(dims)],
  };
};

const argument: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, isEmptyAllowed: false });
  const axis = draw.random.integer(0, dims.length - 1);
  return {
    attributes: {
      ...(axis > 0 || draw.random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {}),
      ...draw.maybe('keepdims', () => int(draw.random.integer(0, 1))),
      ...draw.maybe('select_last_index', () => int(draw.random.integer(0, 1)), 0.4),
    },
    inputs: [draw.tensor(dims, undefined, draw.random.chance(0.5) ? 'whole' : undefined)],
  };
};

const reduce: Recipe = (draw) => {
  const dims = draw.dims();
  const axes = draw.someAxes(dims.length).map((axis) => draw.axis(axis, dims.length));
  const byInput = draw.schema.inputs.length > 1;
  const hasAxes = dims.length > 0 && draw.random.chance(0.75);
  const input = draw.tensor(
    dims,
    undefined,
    draw.operator === 'ReduceProd' ? draw.random.pick(['whole', 'unit', 'special']) : undefined,
  );
  return {
    attributes: {
      ...(hasAxes && !byInput ? { axes: ints(axes) } : {}),
      ...draw.maybe('keepdims', () => int(draw.random.integer(0, 1))),
      ...draw.maybe('noop_with_empty_axes', () => int(draw.random.integer(0, 1)), 0.3),
    },
    inputs: byInput
      ? [input, hasAxes ? list(axes.map(Number)) : draw.random.chance(0.3) ? list([]) : undefined]
      : [input],
  };
};

const cumulative: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = random.integer(0, dims.length - 1);
  const place = {
    type: random.pick(['int64', 'int32'] as const),
    dims: [],
    data: [draw.axis(axis, dims.length)],
  };
  const kind = draw.operator === 'CumProd' ? random.pick(['whole', 'unit', 'special'] as const) : undefined;
  return {
    attributes: {
      ...draw.maybe('exclusive', () => int(random.integer(0, 1))),
      ...draw.maybe('reverse', () => int(random.integer(0, 1))),
    },
    inputs: [draw.tensor(dims, undefined, kind), place],
  };
};

export const reduction: Readonly<Record<string, Recipe>> = {
  ...recipes(argument, 'ArgMax ArgMin'),
  ...recipes(cumulative, 'CumProd CumSum'),
  ...recipes(softmax, 'Hardmax LogSoftmax Softmax'),
  ...recipes(
    reduce,
    'ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare',
  ),
};

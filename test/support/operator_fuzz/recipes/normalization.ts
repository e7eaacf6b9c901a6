/** Scaling by statistics. */
import { float, int, ints, type Draw, type Recipe } from '../draw';
import { narrower, type Kind } from '../values';
import { maps } from './windows';

const epsilon = (draw: Draw) => draw.maybe('epsilon', () => float(draw.random.pick([1e-5, 1e-3, 0.1])), 0.5);

const batchNormalization: Recipe = (draw) => {
  const { random } = draw;
  const dims = [
    random.chance(0.03) ? 0 : random.integer(1, 3),
    ...draw.dims({ least: 1, most: 4, isEmptyAllowed: false }),
  ];
  const channels = dims[1]!;
  const types = draw.schema.inputs.map(({ group }) => group);
  const byGroup = new Map([...new Set(types)].map((group) => [group, draw.type(group)]));
  const of = (i: number, kind?: Kind) => draw.tensor([channels], byGroup.get(types[i]!), kind);
  return {
    attributes: {
      ...epsilon(draw),
      ...draw.maybe('momentum', () => float(0.9), 0.2),
      ...draw.maybe('spatial', () => int(1), 0.3),
    },
    inputs: [
      draw.tensor(dims, byGroup.get('T')),
      of(1),
      of(2),
      of(3),
      of(4, random.chance(0.85) ? 'positive' : undefined),
    ],
  };
};

const instanceNormalization: Recipe = (draw) => {
  const { batch, channels, spatial } = maps(draw);
  const type = draw.type();
  return {
    attributes: epsilon(draw),
    inputs: [
      draw.tensor([batch, channels, ...spatial], type),
      draw.tensor([channels], type),
      draw.tensor([channels], type),
    ],
  };
};

const groupNormalization: Recipe = (draw) => {
  const groups = draw.random.integer(1, 4);
  const { batch, channels, spatial } = maps(draw, 4);
  const length = draw.opset < 21 ? groups : groups * channels;
  const type = draw.type();
  return {
    attributes: { ...epsilon(draw), num_groups: int(groups) },
    inputs: [
      draw.tensor([batch, groups * channels, ...spatial], type),
      draw.tensor([length], type),
      draw.tensor([length], type),
    ],
  };
};

const layerNormalization: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = random.integer(0, dims.length - 1);
  const type = draw.type();
  const shape = random.chance(0.75) ? dims.slice(axis) : narrower(dims, random);
  const outputs = random.chance(0.7) ? 1 : random.integer(2, 3);
  return {
    attributes: {
      ...epsilon(draw),
      ...(axis < dims.length - 1 || random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {}),
    },
    inputs: [
      draw.tensor(dims, type),
      draw.tensor(shape, type),
      random.chance(0.6) ? draw.tensor(shape, type) : undefined,
    ],
    outputs,
    // The first one has to be there.
    unnamed: draw.someOutputs(outputs).filter((i) => i > 0),
  };
};

const localResponse: Recipe = (draw) => {
  const { random } = draw;
  const { batch, channels, spatial } = maps(draw, 9);
  return {
    attributes: {
      size: int(random.integer(1, 7)),
      ...draw.maybe('alpha', () => float(random.pick([0.1, 0.5, 1e-3]))),
      ...draw.maybe('beta', () => float(random.pick([0.5, 0.75, 1, 0.6]))),
      ...draw.maybe('bias', () => float(random.pick([1, 2, 0.5]))),
    },
    inputs: [draw.tensor([batch, channels, ...spatial])],
  };
};

const lpNormalization: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = draw.random.integer(0, dims.length - 1);
  return {
    attributes: {
      ...(axis < dims.length - 1 || draw.random.chance(0.5)
        ? { axis: int(draw.axis(axis, dims.length, 1)) }
        : {}),
      ...draw.maybe('p', () => int(draw.random.integer(1, 2))),
    },
    inputs: [draw.tensor(dims)],
  };
};

const meanVarianceNormalization: Recipe = (draw) => {
  const isUsual = draw.random.chance(0.5);
  const dims = draw.dims({ least: isUsual ? 4 : 1, most: 5, isEmptyAllowed: false });
  const axes = draw.someAxes(dims.length);
  return { attributes: isUsual ? {} : { axes: ints(axes) }, inputs: [draw.tensor(dims)] };
};

const rmsNormalization: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = random.integer(0, dims.length - 1);
  const shape = random.chance(0.7) ? dims.slice(axis) : narrower(dims, random);
  return {
    attributes: {
      ...epsilon(draw),
      ...(axis < dims.length - 1 || random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {}),
      ...draw.maybe('stash_type', () => int(1), 0.2),
    },
    inputs: [draw.tensor(dims), draw.tensor(shape, draw.type('S'))],
  };
};

export const normalization: Readonly<Record<string, Recipe>> = {
  BatchNormalization: batchNormalization,
  GroupNormalization: groupNormalization,
  InstanceNormalization: instanceNormalization,
  LRN: localResponse,
  LayerNormalization: layerNormalization,
  LpNormalization: lpNormalization,
  MeanVarianceNormalization: meanVarianceNormalization,
  RMSNormalization: rmsNormalization,
};

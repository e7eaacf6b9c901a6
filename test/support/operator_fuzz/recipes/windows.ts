/** Windows that step over maps. */
import type { Dims } from '../../onnx_reference/tensor';
import { int, ints, recipes, string, type Attributes, type Draw, type Recipe } from '../draw';
import { list } from '../values';

/** The windows of convolutions and pools over maps of these extents. */
function windows(draw: Draw, spatial: Dims, kernel: Dims, isTransposed = false): Attributes {
  const { random } = draw;
  const rank = spatial.length;
  const dilations = draw.maybe('dilations', () => ints(draw.integers(rank, 1, 3)), 0.4);
  const reach = kernel.map((extent, i) => (extent - 1) * dilationOf(dilations, i) + 1);
  const mode = random.pick(['NOTSET', 'NOTSET', 'NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID']);
  const isValid = spatial.every((extent, i) => extent >= reach[i]!);
  const auto =
    mode === 'NOTSET' || (mode === 'VALID' && !isValid && !isTransposed) ? {} : { auto_pad: string(mode) };
  const isPadded = !('auto_pad' in auto) && (random.chance(0.6) || (!isValid && !isTransposed));
  const side = (i: number) => {
    const lack = isTransposed ? 0 : Math.max(0, Math.ceil((reach[i % rank]! - spatial[i % rank]!) / 2));
    const most = isTransposed ? Math.floor((reach[i % rank]! - 1) / 2) : reach[i % rank]! - 1;
    return random.integer(lack, Math.max(lack, most));
  };
  const pads = isPadded ? { pads: ints(Array.from({ length: 2 * rank }, (_, i) => side(i))) } : {};
  return { ...dilations, ...auto, ...pads, ...draw.maybe('strides', () => ints(draw.integers(rank, 1, 3))) };
}

function dilationOf({ dilations }: Attributes, axis: number): number {
  return dilations?.kind === 'ints' ? Number(dilations.value[axis]) : 1;
}

export function maps(draw: Draw, mostChannels = 8): { batch: number; channels: number; spatial: number[] } {
  const { random } = draw;
  const rank = random.pick([1, 2, 2, 2, 2, 2, 3]);
  const most = rank === 3 ? 4 : rank === 2 ? 12 : 40;
  return {
    batch: random.chance(0.03) ? 0 : random.integer(1, 3),
    channels: random.integer(1, mostChannels),
    spatial: Array.from({ length: rank }, () => random.integer(1, most)),
  };
}

const kernelOf = (draw: Draw, spatial: Dims) => spatial.map(() => draw.random.pick([1, 1, 2, 3, 3, 3, 4, 5]));

/** The attributes of a convolution, and the dims of its input and of its filters. */
export function convolution(draw: Draw): { attributes: Attributes; x: Dims; w: Dims } {
  const { random } = draw;
  const { batch, channels, spatial } = maps(draw);
  const groups = random.pick([1, 1, 1, 2, 3, channels]);
  const perGroup = Math.max(1, Math.round(channels / groups));
  const filters = groups * random.integer(1, random.chance(0.1) ? 40 : 6);
  const kernel = kernelOf(draw, spatial);
  return {
    attributes: {
      ...windows(draw, spatial, kernel),
      ...(groups > 1 || random.chance(0.3) ? { group: int(groups) } : {}),
      ...draw.maybe('kernel_shape', () => ints(kernel), 0.4),
    },
    x: [batch, groups * perGroup, ...spatial],
    w: [filters, perGroup, ...kernel],
  };
}

export const conv: Recipe = (draw) => {
  const { random } = draw;
  const { attributes, x, w } = convolution(draw);
  const type = draw.type();
  const kind = random.chance(0.6) ? 'unit' : undefined;
  const bias = random.chance(0.5) ? draw.tensor([w[0]!], type, kind) : undefined;
  return { attributes, inputs: [draw.tensor(x, type, kind), draw.tensor(w, type, kind), bias] };
};

/** Offsets and places are exact in every float type: how places round would decide what weighs how much. */
const deformConv: Recipe = (draw) => {
  const { random } = draw;
  const { batch, channels, spatial: given } = maps(draw, 3);
  const spatial = given.map((extent) => Math.min(extent, 8));
  const [groups, offsetGroups] = [random.pick([1, 1, 2]), random.pick([1, 1, 2, 3])];
  const width = groups * offsetGroups * channels;
  const kernel = spatial.map(() => random.integer(1, spatial.length > 2 ? 2 : 3));
  const strides = spatial.map(() => random.integer(1, 2));
  const dilations = spatial.map(() => random.integer(1, 2));
  const reach = kernel.map((extent, i) => (extent - 1) * dilations[i]! + 1);
  const before = spatial.map(() => random.integer(0, 1));
  const after = spatial.map((extent, i) => Math.max(random.integer(0, 1), reach[i]! - extent - before[i]!));
  const outputs = spatial.map((extent, i) =>
    Math.floor((extent + before[i]! + after[i]! - reach[i]!) / strides[i]! + 1),
  );
  const taps = kernel.reduce((product, extent) => product * extent, 1);
  const filters = groups * random.integer(1, 3);
  const type = draw.type();
  const offsets = draw.tensor([batch, offsetGroups * taps * spatial.length, ...outputs], type, 'whole');
  return {
    attributes: {
      ...{ strides: ints(strides), dilations: ints(dilations), pads: ints([...before, ...after]) },
      ...(groups > 1 ? { group: int(groups) } : {}),
      ...(offsetGroups > 1 ? { offset_group: int(offsetGroups) } : {}),
      ...draw.maybe('kernel_shape', () => ints(kernel), 0.4),
    },
    inputs: [
      draw.tensor([batch, width, ...spatial], type, 'unit'),
      draw.tensor([filters, width / groups, ...kernel], type, 'unit'),
      { ...offsets, data: offsets.data.map((x) => Number(x) / 4) },
      random.chance(0.5) ? draw.tensor([filters], type, 'unit') : undefined,
      random.chance(0.5) ? draw.tensor([batch, offsetGroups * taps, ...outputs], type, 'unit') : undefined,
    ],
  };
};

const convTranspose: Recipe = (draw) => {
  const { random } = draw;
  const { batch, channels, spatial } = maps(draw, 4);
  const groups = random.pick([1, 1, 2]);
  const perGroup = random.integer(1, 4);
  const kernel = kernelOf(draw, spatial);
  const type = draw.type();
  const attributes = windows(draw, spatial, kernel, true);
  const strides =
    attributes.strides?.kind === 'ints' ? attributes.strides.value.map(Number) : spatial.map(() => 1);
  const extra = () => ints(strides.map((stride) => random.integer(0, stride - 1)));
  const target = () =>
    ints(spatial.map((extent, i) => (extent - 1) * strides[i]! + random.integer(1, kernel[i]!)));
  const bias = random.chance(0.5) ? draw.tensor([groups * perGroup], type, 'unit') : undefined;
  return {
    attributes: {
      ...attributes,
      ...(groups > 1 ? { group: int(groups) } : {}),
      ...draw.maybe('kernel_shape', () => ints(kernel), 0.4),
      ...draw.maybe('output_padding', extra, 0.25),
      ...draw.maybe('output_shape', target, 0.2),
    },
    inputs: [
      draw.tensor([batch, groups * channels, ...spatial], type, random.chance(0.7) ? 'unit' : undefined),
      draw.tensor([groups * channels, perGroup, ...kernel], type, random.chance(0.7) ? 'unit' : undefined),
      bias,
    ],
  };
};

export const pool: Recipe = (draw) => {
  const { random } = draw;
  const hasIndices = draw.schema.outputs > 1 && random.chance(0.3);
  // In which order columns of several maps are, ONNX does not say.
  const isByColumn = hasIndices && 'storage_order' in draw.schema.attributes && random.chance(0.3);
  const given = maps(draw);
  const [batch, channels] = isByColumn ? [1, 1] : [given.batch, given.channels];
  const { spatial } = given;
  const kernel = kernelOf(draw, spatial);
  const attributes = windows(draw, spatial, kernel);
  const isValid = attributes.auto_pad?.value === 'VALID';
  return {
    attributes: {
      ...attributes,
      kernel_shape: ints(kernel),
      // Text and formula of ONNX differ in what VALID makes of it.
      ...(isValid ? {} : draw.maybe('ceil_mode', () => int(draw.random.integer(0, 1)), 0.5)),
      ...draw.maybe('p', () => int(random.integer(1, 4))),
      ...draw.maybe('count_include_pad', () => int(draw.random.integer(0, 1)), 0.5),
      ...(isByColumn ? { storage_order: int(1) } : draw.maybe('storage_order', () => int(0), 0.2)),
    },
    inputs: [draw.tensor([batch, channels, ...spatial])],
    outputs: hasIndices ? 2 : 1,
  };
};

const globalPool: Recipe = (draw) => {
  const { batch, channels, spatial } = maps(draw);
  return {
    attributes: draw.maybe('p', () => int(draw.random.integer(1, 4))),
    inputs: [draw.tensor([batch, channels, ...spatial])],
  };
};

const col2Im: Recipe = (draw) => {
  const { random } = draw;
  const rank = random.pick([2, 2, 2, 3]);
  const axes = Array.from({ length: rank }, () => {
    const [block, dilation, stride] = [random.integer(1, 3), random.integer(1, 2), random.integer(1, 3)];
    const [before, after] = [random.integer(0, 2), random.integer(0, 2)];
    const reach = (block - 1) * dilation + 1;
    const image = Math.max(1, reach - before - after) + random.integer(0, 6);
    const output = Math.floor((image + before + after - reach) / stride) + 1;
    return { block, dilation, stride, before, after, image, output };
  });
  const product = (of: (axis: (typeof axes)[number]) => number) => axes.reduce((p, axis) => p * of(axis), 1);
  const channels = random.integer(1, 3);
  const type = draw.type();
  const dims = [
    random.integer(1, 2),
    channels * product(({ block }) => block),
    product(({ output }) => output),
  ];
  return {
    attributes: {
      ...{
        strides: ints(axes.map(({ stride }) => stride)),
        dilations: ints(axes.map(({ dilation }) => dilation)),
      },
      pads: ints([...axes.map(({ before }) => before), ...axes.map(({ after }) => after)]),
    },
    inputs: [
      draw.tensor(dims, type === 'bool' ? 'float32' : type),
      list(axes.map(({ image }) => image)),
      list(axes.map(({ block }) => block)),
    ],
  };
};

export const windowed: Readonly<Record<string, Recipe>> = {
  ...recipes(pool, 'AveragePool LpPool MaxPool'),
  ...recipes(globalPool, 'GlobalAveragePool GlobalLpPool GlobalMaxPool'),
  Col2Im: col2Im,
  Conv: conv,
  ConvTranspose: convTranspose,
  DeformConv: deformConv,
};

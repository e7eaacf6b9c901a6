/** Maps brought to other extents. */
import type { RefTensor } from '../../onnx_reference/tensor';
import { float, int, ints, string, type Recipe } from '../draw';
import { list } from '../values';

const upsample: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4 }).map((extent) => Math.min(extent, 8));
  const scales = dims.map(() => random.pick([1, 1, 2, 3, 1.5, 1.2, 2.25]));
  const mode = random.pick(['nearest', 'nearest', 'linear']);
  const input = draw.tensor(dims);
  const attributes = mode === 'nearest' && random.chance(0.5) ? {} : { mode: string(mode) };
  if (draw.opset < 9)
    return {
      attributes: { ...attributes, scales: { kind: 'floats', value: scales.map(Math.fround) } },
      inputs: [input],
    };
  return {
    attributes,
    inputs: [input, { type: 'float32', dims: [scales.length], data: scales.map(Math.fround) }],
  };
};

const resize: Recipe = (draw) => {
  const { random } = draw;
  const dims = [
    random.chance(0.03) ? 0 : random.integer(1, 2),
    ...draw.dims({ least: 1, most: 3, isEmptyAllowed: false }).map((extent) => Math.min(extent, 9)),
  ];
  const someAxes = draw.opset >= 18 && random.chance(0.4) ? draw.someAxes(dims.length) : undefined;
  const axes = someAxes ?? [...dims.keys()];
  const isSpatial = (axis: number) => axis > 0 && random.chance(0.7);
  const scaleOf = (axis: number) => {
    if (!isSpatial(axis)) return 1;
    const scale = Math.fround(random.pick([2, 3, 1.5, 0.5, 0.6, 1.2, 0.25, 2.25]));
    return Math.fround(dims[axis]! * scale) < 1 ? 1 : scale;
  };
  const mode = random.pick(
    draw.opset < 11 ? ['nearest', 'linear'] : ['nearest', 'nearest', 'linear', 'linear', 'cubic'],
  );
  const bySize = draw.opset >= 11 && random.chance(0.4) && axes.every((axis) => dims[axis]! > 0);
  const scales: RefTensor = { type: 'float32', dims: [axes.length], data: axes.map(scaleOf) };
  const sizes = list(axes.map((axis) => (isSpatial(axis) ? random.integer(1, 14) : dims[axis]!)));
  // What becomes of an axis that its aspect ratio leaves nothing of, ONNX does not say.
  const ratio = Math.min(...axes.map((axis, i) => Number(sizes.data[i]) / dims[axis]!));
  const keepsSome = axes.every((axis) => ratio * dims[axis]! >= 1);
  const none: RefTensor = { type: 'float32', dims: [0], data: [] };
  const crops = draw.opset >= 11 && random.chance(0.2);
  const whole = [...axes.map(() => 0), ...axes.map(() => 1)];
  // Scales of a part of the input are not judged.
  const region = () => [
    ...axes.map(() => random.pick([0, 0.25, 0.1, -0.25])),
    ...axes.map(() => random.pick([1, 0.75, 0.4, 1.5, -0.5])),
  ];
  const part: RefTensor = {
    ...{ type: 'float32', dims: [2 * axes.length] },
    data: (bySize ? region() : whole).map(Math.fround),
  };
  const noRegion = draw.opset < 13 ? none : random.chance(0.8) ? undefined : none;
  const roi = crops ? part : noRegion;
  const coordinates = [
    'half_pixel',
    'pytorch_half_pixel',
    'align_corners',
    'asymmetric',
    ...(draw.opset < 19 ? [] : ['half_pixel_symmetric']),
    ...(draw.opset < 13 ? ['tf_half_pixel_for_nn'] : []),
  ];
  const named = {
    ...(someAxes === undefined ? {} : { axes: ints(someAxes.map((axis) => draw.axis(axis, dims.length))) }),
  };
  const input = draw.tensor(dims);
  if (draw.opset < 11) return { attributes: { mode: string(mode) }, inputs: [input, scales] };
  return {
    attributes: {
      ...named,
      ...(mode !== 'nearest' || random.chance(0.5) ? { mode: string(mode) } : {}),
      ...draw.maybe(
        'coordinate_transformation_mode',
        () => string(crops ? 'tf_crop_and_resize' : random.pick(coordinates)),
        crops ? 1 : 0.8,
      ),
      ...draw.maybe('extrapolation_value', () => float(random.pick([2.5, -300])), 0.3),
      ...draw.maybe('nearest_mode', () =>
        string(random.pick(['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'])),
      ),
      ...draw.maybe('cubic_coeff_a', () => float(-0.5), 0.3),
      ...draw.maybe('exclude_outside', () => int(1), mode === 'nearest' ? 0 : 0.3),
      ...draw.maybe('antialias', () => int(1), mode === 'nearest' ? 0.05 : 0.4),
      ...(bySize && keepsSome
        ? draw.maybe(
            'keep_aspect_ratio_policy',
            () => string(random.pick(['stretch', 'not_larger', 'not_smaller'])),
            0.3,
          )
        : {}),
    },
    inputs: bySize ? [input, roi, draw.opset < 13 ? none : undefined, sizes] : [input, roi, scales],
  };
};

export const resizing: Readonly<Record<string, Recipe>> = { Resize: resize, Upsample: upsample };

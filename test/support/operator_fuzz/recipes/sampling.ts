/** Places in maps, and regions of them. */
import { roundTo } from '../../onnx_reference/precision';
import { sizeOf, type RefTensor } from '../../onnx_reference/tensor';
import { float, int, string, type Recipe } from '../draw';
import { list } from '../values';
import { maps } from './windows';

const gridSample: Recipe = (draw) => {
  const { random } = draw;
  const given = maps(draw, 3);
  // Until opset 20 there were two axes.
  const spatial = draw.opset < 20 ? [random.integer(1, 8), random.integer(1, 8)] : given.spatial;
  const batch = Math.max(1, given.batch);
  const [type, ofGrid] = [draw.type('T'), draw.type('G')];
  const names = draw.opset < 20 ? ['bilinear', 'nearest', 'bicubic'] : ['linear', 'nearest', 'cubic'];
  const places = spatial.map(() => random.integer(1, 5));
  const grid = [batch, ...places, spatial.length];
  const reach = random.pick([1, 1.3, 4]);
  return {
    attributes: {
      ...draw.maybe('align_corners', () => int(random.integer(0, 1))),
      ...draw.maybe('mode', () => string(random.pick(names)), 0.8),
      ...draw.maybe('padding_mode', () => string(random.pick(['zeros', 'border', 'reflection'])), 0.8),
    },
    inputs: [
      draw.tensor([batch, given.channels, ...spatial], type, random.chance(0.8) ? 'unit' : undefined),
      {
        type: ofGrid,
        dims: grid,
        data: Array.from({ length: sizeOf(grid) }, () => roundTo(ofGrid, reach * (2 * random.uniform() - 1))),
      },
    ],
  };
};

const roiAlign: Recipe = (draw) => {
  const { random } = draw;
  const [batch, channels] = [random.integer(1, 3), random.integer(1, 3)];
  const [height, width] = [random.integer(1, 9), random.integer(1, 9)];
  const count = random.chance(0.03) ? 0 : random.integer(1, 4);
  const type = draw.type();
  const region = () => {
    const [x, y] = [random.integer(-8, 4 * width), random.integer(-8, 4 * height)];
    // Now and then the corners change places.
    const side = (extent: number) => random.integer(random.chance(0.05) ? -8 : 0, 4 * extent);
    return [x, y, x + side(width), y + side(height)].map((place) => place / 4);
  };
  const boxes: RefTensor = { type, dims: [count, 4], data: Array.from({ length: count }, region).flat() };
  const images: RefTensor = { type: 'int64', dims: [count], data: draw.integers(count, 0, batch - 1) };
  const modes = ['half_pixel', 'output_half_pixel'];
  return {
    attributes: {
      ...draw.maybe('coordinate_transformation_mode', () => string(random.pick(modes))),
      ...draw.maybe('mode', () => string(random.pick(['avg', 'max']))),
      ...draw.maybe('output_height', () => int(random.integer(1, 4))),
      ...draw.maybe('output_width', () => int(random.integer(1, 4))),
      ...draw.maybe('sampling_ratio', () => int(random.integer(0, 3)), 0.7),
      ...draw.maybe('spatial_scale', () => float(random.pick([1, 0.5, 0.3])), 0.5),
    },
    inputs: [
      draw.tensor([batch, channels, height, width], type, random.chance(0.8) ? 'unit' : undefined),
      ...[boxes, images],
    ],
  };
};

const affineGrid: Recipe = (draw) => {
  const { random } = draw;
  const rank = random.pick([2, 2, 3]);
  const isAligned = random.chance(0.4);
  const batch = random.integer(1, 3);
  const spatial = Array.from({ length: rank }, () => random.integer(isAligned ? 2 : 1, 6));
  return {
    attributes: isAligned || random.chance(0.3) ? { align_corners: int(Number(isAligned)) } : {},
    inputs: [
      draw.tensor([batch, rank, rank + 1], undefined, random.chance(0.8) ? 'unit' : undefined),
      list([batch, random.integer(1, 4), ...spatial]),
    ],
  };
};

export const sampling: Readonly<Record<string, Recipe>> = {
  AffineGrid: affineGrid,
  GridSample: gridSample,
  RoiAlign: roiAlign,
};

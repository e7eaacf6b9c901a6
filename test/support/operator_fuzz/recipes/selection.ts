/** Selections of which only the elements say how much they select. */
import type { RefTensor } from '../../onnx_reference/tensor';
import { int, type Draw, type Recipe } from '../draw';
import { shuffled } from '../values';

const compress: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1 });
  const input = draw.tensor(dims);
  const axis = random.chance(0.7) ? random.integer(0, dims.length - 1) : undefined;
  const extent = axis === undefined ? input.data.length : dims[axis]!;
  // Conditions may be fewer than what they are for, which then is left out.
  const count = random.chance(0.7) ? extent : random.integer(0, extent);
  return {
    attributes: axis === undefined ? {} : { axis: int(draw.axis(axis, dims.length)) },
    inputs: [input, draw.tensor([count], 'bool')],
  };
};

/** Many elements of which some are zero. */
const nonZero: Recipe = (draw) => ({
  inputs: [draw.tensor(draw.dims(), undefined, draw.random.pick(['whole', 'whole', 'special', undefined]))],
});

/** Elements, or slices, of which some are the same. */
const unique: Recipe = (draw) => {
  const { random } = draw;
  const hasAxis = random.chance(0.5);
  const given = draw.dims({ least: hasAxis ? 1 : 0, most: 3, isEmptyAllowed: !hasAxis });
  const axis = random.integer(0, Math.max(0, given.length - 1));
  // Few different elements in each slice, so that there are some of the same.
  const dims = given.map((extent, i) => (hasAxis && i !== axis ? Math.min(extent, 2) : extent));
  const [type, kind] = [draw.type(), random.pick(['whole', 'special', undefined] as const)];
  const few = draw.tensor([random.integer(1, 6)], type, kind);
  const input = draw.tensor(hasAxis && random.chance(0.05) ? dims.with(axis, 0) : dims, type, kind);
  const isRepeated = random.chance(0.6);
  const outputs = random.integer(1, 4);
  return {
    attributes: {
      ...(hasAxis ? { axis: int(draw.axis(axis, dims.length)) } : {}),
      ...draw.maybe('sorted', () => int(random.integer(0, 1))),
    },
    inputs: [isRepeated ? { ...input, data: input.data.map(() => random.pick(few.data)) } : input],
    outputs,
    // The first one has to be there.
    unnamed: draw.someOutputs(outputs).filter((i) => i > 0),
  };
};

/** Boxes on a grid, of which float32 computes the areas exactly. */
function anyBox(draw: Draw, isCentered: boolean): number[] {
  const place = () => draw.random.integer(0, 16);
  if (!isCentered) return [place(), place(), place(), place()];
  const side = () => 2 * draw.random.integer(0, 6);
  return [place(), place(), side(), side()];
}

const nonMaxSuppression: Recipe = (draw) => {
  const { random } = draw;
  const [batches, classes, count] = [random.integer(1, 3), random.integer(1, 3), random.integer(0, 14)];
  const isCentered = random.chance(0.4);
  const boxes = Array.from({ length: batches * count }, () => anyBox(draw, isCentered)).flat();
  // Which of two boxes with the same score comes first, ONNX does not say.
  const scores = Array.from({ length: batches * classes }, () =>
    shuffled(
      Array.from({ length: count }, (_, i) => Math.fround((i + 1) / (count + 1))),
      random,
    ),
  ).flat();
  const scalar = (type: 'int64' | 'float32', values: readonly number[]): RefTensor | undefined => {
    const value = random.pick(values);
    if (random.chance(0.2)) return undefined;
    return { type, dims: [], data: [type === 'int64' ? BigInt(value) : Math.fround(value)] };
  };
  return {
    attributes: isCentered || random.chance(0.3) ? { center_point_box: int(Number(isCentered)) } : {},
    inputs: [
      { type: 'float32', dims: [batches, count, 4], data: boxes },
      { type: 'float32', dims: [batches, classes, count], data: scores },
      scalar('int64', [0, 1, 2, 5, 100]),
      // Eighths, of which no other overlap of these boxes is as near as a rounding.
      scalar('float32', [0, 0.125, 0.25, 0.5, 0.75, 1]),
      scalar('float32', [0, 0.3001, 0.7001, 2]),
    ],
  };
};

export const selection: Readonly<Record<string, Recipe>> = {
  Compress: compress,
  NonMaxSuppression: nonMaxSuppression,
  NonZero: nonZero,
  Unique: unique,
};

/** Elements brought to other places, or tensors to other dims. */
import { sizeOf, type RefTensor } from '../../onnx_reference/tensor';
import { float, int, ints, recipes, string, type Draw, type Drawn, type Recipe } from '../draw';
import { list, narrower, shuffled } from '../values';

const identity: Recipe = (draw) => ({ inputs: [draw.tensor(draw.dims())] });

const dropout: Recipe = (draw) => {
  const { random } = draw;
  const input = draw.tensor(draw.dims());
  const ratio = (): RefTensor => ({ type: draw.type('R'), dims: [], data: [0.25] });
  const training = (): RefTensor => ({ type: 'bool', dims: [], data: [0n] });
  const more =
    draw.opset < 12
      ? []
      : [random.chance(0.5) ? ratio() : undefined, random.chance(0.5) ? training() : undefined];
  return {
    attributes: { ...draw.maybe('ratio', () => float(0.3)), ...draw.maybe('seed', () => int(7), 0.2) },
    inputs: [input, ...more],
    outputs: random.chance(0.3) ? 2 : 1,
  };
};

const reshape: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims();
  const input = draw.tensor(dims);
  const size = sizeOf(dims);
  const allowsZero = draw.maybe('allowzero', () => int(1), size === 0 ? 0.8 : 0.2);
  let wanted = shuffled(dims, random);
  if (wanted.length > 1 && random.chance(0.5)) wanted = [wanted[0]! * wanted[1]!, ...wanted.slice(2)];
  if (random.chance(0.4)) wanted.splice(random.integer(0, wanted.length), 0, 1);
  if (size > 0 && wanted.length > 0 && random.chance(0.5)) wanted[random.integer(0, wanted.length - 1)] = -1;
  const isZeroKept = 'allowzero' in allowsZero;
  if (!isZeroKept && (size === 0 || random.chance(0.2))) wanted = dims.map(() => 0);
  return { attributes: allowsZero, inputs: [input, list(wanted)] };
};

const flatten: Recipe = (draw) => {
  const dims = draw.dims();
  const rank = dims.length;
  const axis = draw.random.integer(0, rank);
  const isDefault = rank > 0 && draw.random.chance(0.3);
  return {
    attributes: isDefault ? {} : { axis: int(axis < rank ? draw.axis(axis, rank) : axis) },
    inputs: [draw.tensor(dims)],
  };
};

/** A list that is an attribute before opset 13, and an input since. */
function axesByOpset(draw: Draw, input: RefTensor, axes: readonly (number | bigint)[]): Drawn {
  if (draw.opset < 13) return { attributes: { axes: ints(axes) }, inputs: [input] };
  return { inputs: [input, list(axes.map(Number))] };
}

const squeeze: Recipe = (draw) => {
  const dims = draw.dims().map((extent) => (draw.random.chance(0.4) ? 1 : extent));
  const input = draw.tensor(dims);
  if (draw.random.chance(0.35)) return { inputs: [input] };
  const ones = shuffled(
    [...dims.keys()].filter((axis) => dims[axis] === 1),
    draw.random,
  );
  const axes = ones.slice(0, draw.random.integer(ones.length === 0 ? 0 : 1, ones.length));
  if (axes.length === 0) return { inputs: [input] };
  return axesByOpset(
    draw,
    input,
    axes.map((axis) => draw.axis(axis, dims.length)),
  );
};

const unsqueeze: Recipe = (draw) => {
  const dims = draw.dims({ most: 4 });
  const rank = dims.length + draw.random.integer(1, 2);
  const axes = shuffled([...Array(rank).keys()], draw.random).slice(0, rank - dims.length);
  return axesByOpset(
    draw,
    draw.tensor(dims),
    axes.map((axis) => draw.axis(axis, rank)),
  );
};

const transpose: Recipe = (draw) => {
  const dims = draw.dims();
  const perm = ints(shuffled([...dims.keys()], draw.random));
  return { attributes: draw.random.chance(0.85) ? { perm } : {}, inputs: [draw.tensor(dims)] };
};

const concat: Recipe = (draw) => {
  const dims = draw.dims({ least: 1, most: 4 });
  const axis = draw.random.integer(0, dims.length - 1);
  const type = draw.type();
  const inputs = Array.from({ length: draw.random.integer(1, 4) }, () => {
    const extent = draw.random.chance(0.05) ? 0 : draw.random.integer(1, 5);
    return draw.tensor(dims.with(axis, extent), type);
  });
  return { attributes: { axis: int(draw.axis(axis, dims.length)) }, inputs };
};

const split: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4, isEmptyAllowed: false });
  const axis = random.integer(0, dims.length - 1);
  const outputs = random.integer(1, 4);
  const isEven = random.chance(0.4);
  const counts = Array.from({ length: outputs }, () => (random.chance(0.05) ? 0 : random.integer(1, 4)));
  const even = outputs * random.integer(1, 3);
  const extent = isEven ? even : counts.reduce((sum, count) => sum + count, 0);
  const attributes = axis > 0 || random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {};
  const input = draw.tensor(dims.with(axis, extent));
  if (isEven)
    return {
      attributes: { ...attributes, ...(draw.opset < 18 ? {} : { num_outputs: int(outputs) }) },
      inputs: [input],
      outputs,
    };
  if (draw.opset < 13)
    return { attributes: { ...attributes, split: ints(counts) }, inputs: [input], outputs };
  return { attributes, inputs: [input, list(counts)], outputs };
};

const slice: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1 });
  const axes = random.chance(0.3) ? [...dims.keys()] : draw.someAxes(dims.length);
  const isOrdered = axes.every((axis, i) => axis === i);
  const place = (extent: number) =>
    random.chance(0.1)
      ? random.pick([2 ** 31 - 1, -(2 ** 31), 1000])
      : random.integer(-extent - 1, extent + 1);
  const starts = axes.map((axis) => place(dims[axis]!));
  const ends = axes.map((axis) => place(dims[axis]!));
  const signed = axes.map((axis) => draw.axis(axis, dims.length, 10));
  const input = draw.tensor(dims);
  if (draw.opset < 10) {
    const attributes = { starts: ints(starts), ends: ints(ends) };
    return {
      attributes: isOrdered && random.chance(0.5) ? attributes : { ...attributes, axes: ints(axes) },
      inputs: [input],
    };
  }
  const type = random.pick(['int64', 'int64', 'int32'] as const);
  const steps = random.chance(0.5)
    ? list(
        axes.map(() => random.pick([1, 1, 2, 3, -1, -1, -2])),
        type,
      )
    : undefined;
  const named = isOrdered && random.chance(0.5) ? undefined : list(signed.map(Number), type);
  return { inputs: [input, list(starts, type), list(ends, type), named, steps] };
};

const gather: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4, isEmptyAllowed: false });
  const axis = random.integer(0, dims.length - 1);
  const shape = draw.dims({ most: 2 }).map((extent) => Math.min(extent, 5));
  const low = draw.opset < 11 ? 0 : -dims[axis]!;
  const type = random.pick(['int64', 'int64', 'int32'] as const);
  const data = Array.from({ length: sizeOf(shape) }, () => BigInt(random.integer(low, dims[axis]! - 1)));
  return {
    attributes: axis > 0 || random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {},
    inputs: [draw.tensor(dims), { type, dims: shape, data }],
  };
};

const expand: Recipe = (draw) => {
  const whole = draw.dims();
  const dims = narrower(whole, draw.random);
  const wanted = draw.random.chance(0.3)
    ? whole.slice(whole.length - draw.random.integer(0, whole.length))
    : whole;
  const asked = wanted.map((extent, i) =>
    dims[i - wanted.length + dims.length] === extent && draw.random.chance(0.3) ? 1 : extent,
  );
  return { inputs: [draw.tensor(dims), list(asked)] };
};

const tile: Recipe = (draw) => {
  const dims = draw.dims({ most: 4 });
  return {
    inputs: [
      draw.tensor(dims),
      list(dims.map(() => (draw.random.chance(0.05) ? 0 : draw.random.integer(1, 3)))),
    ],
  };
};

const blocks: Recipe = (draw) => {
  const { random } = draw;
  const block = random.integer(1, 3);
  const [n, c, h, w] = [
    random.chance(0.03) ? 0 : random.integer(1, 2),
    random.integer(1, 4),
    random.integer(1, 5),
    random.integer(1, 5),
  ];
  const dims = draw.operator === 'DepthToSpace' ? [n, c * block ** 2, h, w] : [n, c, h * block, w * block];
  return {
    attributes: { blocksize: int(block), ...draw.maybe('mode', () => string(random.pick(['DCR', 'CRD']))) },
    inputs: [draw.tensor(dims)],
  };
};

const pad: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 1, most: 4 });
  const mode = random.pick(['constant', 'constant', 'reflect', 'edge', ...(draw.opset < 19 ? [] : ['wrap'])]);
  const someAxes = draw.opset >= 18 && random.chance(0.4) ? draw.someAxes(dims.length) : undefined;
  const axes = someAxes ?? [...dims.keys()];
  const counts = Array.from({ length: 2 * axes.length }, (_, i) => {
    const extent = dims[axes[i % axes.length]!]!;
    const most =
      mode === 'constant' || mode === 'edge' || mode === 'wrap'
        ? extent === 0 && mode !== 'constant'
          ? 0
          : 3
        : Math.max(0, extent - 1);
    if (mode === 'constant' && extent > 2 && random.chance(0.1)) return -1;
    return random.chance(0.5) ? 0 : random.integer(0, Math.min(most, 4));
  });
  const type = draw.type();
  const attributes = mode !== 'constant' || random.chance(0.5) ? { mode: string(mode) } : {};
  const input = draw.tensor(dims, type);
  if (draw.opset < 11) {
    return {
      attributes: { ...attributes, pads: ints(counts), ...draw.maybe('value', () => float(1.5), 0.5) },
      inputs: [input],
    };
  }
  const value = random.chance(0.5) ? draw.tensor([], type) : undefined;
  const named =
    someAxes &&
    list(
      someAxes.map((axis) => Number(draw.axis(axis, dims.length))),
      random.pick(['int64', 'int32'] as const),
    );
  return { attributes, inputs: [input, list(counts), value, ...(draw.opset < 18 ? [] : [named])] };
};

const centerCropPad: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ most: 4 });
  const axes = random.chance(0.5) ? draw.someAxes(dims.length) : undefined;
  const wanted = (axes ?? dims).map(() => (random.chance(0.03) ? 0 : random.integer(1, 9)));
  return {
    attributes: axes === undefined ? {} : { axes: ints(axes.map((axis) => draw.axis(axis, dims.length))) },
    inputs: [draw.tensor(dims), list(wanted, draw.type('I'))],
  };
};

export const movement: Readonly<Record<string, Recipe>> = {
  ...recipes(blocks, 'DepthToSpace SpaceToDepth'),
  ...recipes(identity, 'Identity Size'),
  CenterCropPad: centerCropPad,
  Concat: concat,
  Dropout: dropout,
  Expand: expand,
  Flatten: flatten,
  Gather: gather,
  Pad: pad,
  Reshape: reshape,
  Slice: slice,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};

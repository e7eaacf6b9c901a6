/** Elements found by indices, and what says where elements are. */
import { typeNumber } from '../../onnx_reference/elementwise';
import { highestOf } from '../../onnx_reference/precision';
import {
  isFloat,
  sizeOf,
  stridesOf,
  type Dims,
  type ElementType,
  type RefTensor,
  type Scalar,
} from '../../onnx_reference/tensor';
import { int, ints, recipes, string, type Attributes, type Draw, type Drawn, type Recipe } from '../draw';
import { list, shuffled } from '../values';
import { maps } from './windows';

/** The attribute where it is needed, and else sometimes. */
function axisAttribute(draw: Draw, axis: number, rank: number, usual = 0): Attributes {
  return axis !== usual || draw.random.chance(0.5) ? { axis: int(draw.axis(axis, rank)) } : {};
}

function indexType(draw: Draw): ElementType {
  return draw.random.pick(['int64', 'int64', 'int32'] as const);
}

/** A place on an axis, counted from either end. */
function anyPlace(draw: Draw, extent: number): bigint {
  return BigInt(draw.random.integer(-extent, extent - 1));
}

interface Along {
  readonly data: RefTensor;
  readonly axis: number;
  /** Of the indices */
  readonly dims: number[];
}

function along(draw: Draw): Along {
  const { random } = draw;
  const data = draw.tensor(draw.dims({ least: 1, most: 4, isEmptyAllowed: false }));
  const axis = random.integer(0, data.dims.length - 1);
  const dims = data.dims.map((extent, i) =>
    i === axis ? random.integer(random.chance(0.05) ? 0 : 1, extent) : random.integer(1, extent),
  );
  return { data, axis, dims };
}

const gatherElements: Recipe = (draw) => {
  const { data, axis, dims } = along(draw);
  const extent = data.dims[axis]!;
  // There may be more indices than elements.
  const shape = draw.random.chance(0.3) ? dims.with(axis, extent + draw.random.integer(1, 3)) : dims;
  const indices = Array.from({ length: sizeOf(shape) }, () => anyPlace(draw, extent));
  return {
    attributes: axisAttribute(draw, axis, data.dims.length),
    inputs: [data, { type: indexType(draw), dims: shape, data: indices }],
  };
};

function reductionOf(draw: Draw, type: ElementType): string {
  if (!('reduction' in draw.schema.attributes)) return 'none';
  const extremes = draw.opset < 18 ? [] : ['max', 'min'];
  // Sums of bool mean nothing.
  return draw.random.pick(['none', ...extremes, ...(type === 'bool' ? [] : ['add', 'mul'])]);
}

const reductionAttribute = (reduction: string): Attributes =>
  reduction === 'none' ? {} : { reduction: string(reduction) };

/** Where nothing combines them, no two updates may be for the same element. */
const scatterElements: Recipe = (draw) => {
  const { data, axis, dims } = along(draw);
  const extent = data.dims[axis]!;
  const reduction = reductionOf(draw, data.type);
  const isFree = reduction !== 'none';
  const indices = new Array<bigint>(sizeOf(dims));
  const [strides, lines] = [stridesOf(dims), dims.with(axis, 1)];
  for (let line = 0; line < sizeOf(lines) && dims[axis]! > 0; line++) {
    const order = shuffled([...Array(extent).keys()], draw.random);
    const first = stridesOf(lines).reduce((sum, stride, i) => {
      return sum + (i === axis ? 0 : (Math.floor(line / stride) % lines[i]!) * strides[i]!);
    }, 0);
    for (let i = 0; i < dims[axis]!; i++) {
      const unique = BigInt(order[i]! - (draw.random.chance(0.3) ? extent : 0));
      indices[first + i * strides[axis]!] = isFree ? anyPlace(draw, extent) : unique;
    }
  }
  return {
    attributes: { ...axisAttribute(draw, axis, data.dims.length), ...reductionAttribute(reduction) },
    inputs: [data, { type: indexType(draw), dims, data: indices }, draw.tensor(dims, data.type)],
  };
};

/** A few extents, of few rows. */
function someRows(draw: Draw, least: number): number[] {
  return Array.from({ length: draw.random.integer(least, 2) }, () =>
    draw.random.integer(draw.random.chance(0.05) ? 0 : 1, 4),
  );
}

const gatherND: Recipe = (draw) => {
  const { random } = draw;
  const data = draw.tensor(draw.dims({ least: 1, most: 4, isEmptyAllowed: false }));
  const rank = data.dims.length;
  const batch = 'batch_dims' in draw.schema.attributes ? random.integer(0, Math.min(2, rank - 1)) : 0;
  const depth = random.integer(1, rank - batch);
  const rows = [...data.dims.slice(0, batch), ...someRows(draw, 0)];
  const indices = Array.from({ length: sizeOf(rows) }, () =>
    data.dims.slice(batch, batch + depth).map((extent) => anyPlace(draw, extent)),
  );
  return {
    attributes: batch > 0 || random.chance(0.2) ? draw.maybe('batch_dims', () => int(batch), 1) : {},
    inputs: [data, { type: 'int64', dims: [...rows, depth], data: indices.flat() }],
  };
};

const scatterND: Recipe = (draw) => {
  const { random } = draw;
  const data = draw.tensor(draw.dims({ least: 1, most: 4, isEmptyAllowed: false }));
  const depth = random.integer(1, data.dims.length);
  const extents = data.dims.slice(0, depth);
  const reduction = reductionOf(draw, data.type);
  const targets = shuffled([...Array(sizeOf(extents)).keys()], random);
  const wanted = someRows(draw, 1);
  // Where nothing combines them, no two updates may be for the same slice.
  const rows = reduction === 'none' && sizeOf(wanted) > targets.length ? [targets.length] : wanted;
  const strides = stridesOf(extents);
  const indices = Array.from({ length: sizeOf(rows) }, (_, i) => {
    const target = reduction === 'none' ? targets[i]! : random.pick(targets);
    return extents.map((extent, axis) => {
      const place = Math.floor(target / strides[axis]!) % extent;
      return BigInt(random.chance(0.3) ? place - extent : place);
    });
  });
  return {
    attributes: reductionAttribute(reduction),
    inputs: [
      data,
      { type: 'int64', dims: [...rows, depth], data: indices.flat() },
      draw.tensor([...rows, ...data.dims.slice(depth)], data.type),
    ],
  };
};

/** An index for a class, also beyond them, as any type of numbers has it. */
function anyClass(draw: Draw, type: ElementType, depth: number): Scalar {
  const { random } = draw;
  const isSigned = !type.startsWith('u');
  if (!isFloat(type) && random.chance(0.03)) return highestOf(type);
  const index = random.integer(isSigned ? -depth - 1 : 0, depth + 1);
  if (!isFloat(type)) return BigInt(index);
  // What is cut off lies towards zero.
  return index > 0 && random.chance(0.3) ? index + 0.5 : index;
}

const oneHot: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ most: 3 });
  const depth = random.chance(0.03) ? 0 : random.integer(1, 9);
  const mostly = (group: string) => (random.chance(0.5) ? 'int64' : draw.type(group));
  const [type, depthType] = [mostly('I'), mostly('D')];
  const axis = random.integer(0, dims.length);
  const count = isFloat(depthType) ? depth + (random.chance(0.3) ? 0.5 : 0) : BigInt(depth);
  const attributes = axisAttribute(draw, axis, dims.length + 1, dims.length);
  const indices = Array.from({ length: sizeOf(dims) }, () => anyClass(draw, type, depth));
  return {
    attributes,
    inputs: [
      { type, dims, data: indices },
      { type: depthType, dims: random.chance(0.5) ? [] : [1], data: [count] },
      draw.tensor([2], draw.type('T')),
    ],
  };
};

const reverseSequence: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 2, most: 4 });
  const batch = random.integer(0, 1);
  const isUsual = batch === 1 && random.chance(0.5);
  const lengths = Array.from({ length: dims[batch]! }, () => random.integer(0, dims[1 - batch]!));
  return {
    attributes: isUsual ? {} : { batch_axis: int(batch), time_axis: int(1 - batch) },
    inputs: [draw.tensor(dims), list(lengths)],
  };
};

/** Elements of which some are equal, or NaN. */
const topK: Recipe = (draw) => {
  const { random } = draw;
  const given = draw.dims({ least: 1, most: 4 });
  const axis = random.integer(0, given.length - 1);
  const dims = given.with(axis, Math.max(1, given[axis]!));
  const count = random.integer(1, dims[axis]!);
  const input = draw.tensor(dims, undefined, random.pick(['whole', 'special', undefined]));
  const attributes = {
    ...axisAttribute(draw, axis, dims.length, dims.length - 1),
    ...draw.maybe('largest', () => int(random.integer(0, 1))),
    // In which order others would come, ONNX does not say.
    ...draw.maybe('sorted', () => int(count === 1 ? random.integer(0, 1) : 1), 0.4),
  };
  if (draw.opset < 10) return { attributes: { ...attributes, k: int(count) }, inputs: [input], outputs: 2 };
  return { attributes, inputs: [input, list([count])], outputs: 2 };
};

const trilu: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 2, most: 4 });
  const k = random.chance(0.1) ? random.pick([-(2 ** 40), 2 ** 40]) : random.integer(-6, 6);
  const diagonal: RefTensor = { type: 'int64', dims: [], data: [BigInt(k)] };
  return {
    attributes: draw.maybe('upper', () => int(random.integer(0, 1))),
    inputs: [draw.tensor(dims), random.chance(0.7) ? diagonal : undefined],
  };
};

const eyeLike: Recipe = (draw) => ({
  attributes: {
    ...draw.maybe('dtype', () => int(typeNumber(draw.type()))),
    ...draw.maybe('k', () => int(draw.random.integer(-6, 6))),
  },
  inputs: [draw.tensor(draw.dims({ least: 2, most: 2 }))],
});

interface Unpooled {
  readonly attributes: Attributes;
  /** Without padding */
  readonly isWhole: boolean;
  readonly spatial: number[];
}

/** Windows that leave room for an element of each. */
function unpooled(draw: Draw, spatial: Dims): Unpooled {
  const { random } = draw;
  const kernel = spatial.map(() => random.integer(1, 3));
  const hasStrides = random.chance(0.7);
  const strides = kernel.map((extent) => (hasStrides ? random.integer(1, extent) : 1));
  const pads = kernel.map((extent, i) => {
    // The same before and after, and less than what lies between the windows.
    const room = (spatial[i]! - 1) * (strides[i]! - 1) + extent - 1;
    return random.chance(0.5) ? 0 : random.integer(0, Math.floor(Math.min(room, extent) / 2));
  });
  const isPadded = pads.some((count) => count > 0);
  return {
    attributes: {
      kernel_shape: ints(kernel),
      ...(hasStrides ? { strides: ints(strides) } : {}),
      ...(isPadded || random.chance(0.3) ? { pads: ints([...pads, ...pads]) } : {}),
    },
    isWhole: !isPadded,
    spatial: spatial.map((extent, i) => (extent - 1) * strides[i]! + kernel[i]! - 2 * pads[i]!),
  };
}

const maxUnpool: Recipe = (draw): Drawn => {
  const { random } = draw;
  const { batch, channels, spatial } = maps(draw, 4);
  const { attributes, isWhole, spatial: outer } = unpooled(draw, spatial);
  const [dims, whole] = [
    [batch, channels, ...spatial],
    [batch, channels, ...outer],
  ];
  const places = shuffled([...Array(sizeOf(whole)).keys()], random).slice(0, sizeOf(dims));
  const extra = isWhole && random.chance(0.5);
  const wanted = extra ? [batch, channels, ...outer.map((extent) => extent + random.integer(0, 2))] : whole;
  return {
    attributes,
    inputs: [
      draw.tensor(dims),
      { type: 'int64', dims, data: places.map(BigInt) },
      random.chance(0.4) ? list(wanted) : undefined,
    ],
  };
};

const tensorScatter: Recipe = (draw) => {
  const { random } = draw;
  const dims = draw.dims({ least: 2, most: 4, isEmptyAllowed: false });
  const axis = random.integer(1, dims.length - 1);
  const [batch, room] = [dims[0]!, dims[axis]!];
  const length = random.integer(1, room);
  const isRing = random.chance(0.4);
  const type = draw.type();
  const starts: RefTensor = {
    type: 'int64',
    dims: [batch],
    data: draw.integers(batch, 0, isRing ? 2 * room : room - length),
  };
  return {
    attributes: {
      ...(axis !== dims.length - 2 || random.chance(0.5) ? { axis: int(draw.axis(axis, dims.length)) } : {}),
      ...(isRing ? { mode: string('circular') } : draw.maybe('mode', () => string('linear'), 0.3)),
    },
    inputs: [
      draw.tensor(dims, type),
      draw.tensor(dims.with(axis, length), type),
      random.chance(0.8) ? starts : undefined,
    ],
  };
};

export const indexing: Readonly<Record<string, Recipe>> = {
  ...recipes(scatterElements, 'Scatter ScatterElements'),
  EyeLike: eyeLike,
  GatherElements: gatherElements,
  GatherND: gatherND,
  MaxUnpool: maxUnpool,
  OneHot: oneHot,
  ReverseSequence: reverseSequence,
  ScatterND: scatterND,
  TopK: topK,
  Trilu: trilu,
  TensorScatter: tensorScatter,
};

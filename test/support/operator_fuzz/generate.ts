/** Legal models of one node, at random. */
import { foldedNames } from '../../../lib/model/fold';
import { operatorNames } from '../../../lib/model/operators';
import { typeNumber } from '../onnx_reference/elementwise';
import type { Attribute } from '../onnx_reference/node';
import { schemaIn, schemasOf, type Schema } from '../onnx_reference/schemas';
import { sizeOf, type Dims, type ElementType, type RefTensor } from '../onnx_reference/tensor';
import { Random } from '../random';
import { anyShape, type Case, type CaseInput } from './case';
import { anyDims, anyTensor, list, narrower, shuffled, type DimsOptions, type Kind } from './values';

export const NEWEST_OPSET = 28;

/** ONNX's own operators and Microsoft's. */
export const OPERATORS: readonly string[] = [
  ...new Set([...operatorNames(), ...foldedNames()]),
  'com.microsoft.Gelu',
  'com.microsoft.QuickGelu',
].sort();

const COMPUTED_IN_RUNS = new Set(operatorNames());

/** What an operator's recipe draws with. */
class Draw {
  constructor(
    readonly random: Random,
    readonly operator: string,
    readonly opset: number,
    readonly schema: Schema,
  ) {}

  /** A type of a group of inputs: mostly float32, which most is computed in. */
  type(group = 'T'): ElementType {
    const types = this.schema.types[group]!;
    return types.includes('float32') && this.random.chance(0.75) ? 'float32' : this.random.pick(types);
  }

  dims(options?: DimsOptions): number[] {
    return anyDims(this.random, options);
  }

  tensor(dims: Dims, type = this.type(), kind?: Kind): RefTensor {
    return anyTensor(this.random, type, dims, kind);
  }

  /** An axis in either way of counting, where the operator knows both. */
  axis(axis: number, rank: number, negativeSince = 11): bigint {
    const isNegative = this.opset >= negativeSince && this.random.chance(0.4);
    return BigInt(isNegative ? axis - rank : axis);
  }

  someAxes(rank: number): number[] {
    return shuffled([...Array(rank).keys()], this.random).slice(
      0,
      this.random.integer(rank === 0 ? 0 : 1, rank),
    );
  }

  /** What there is now and then, if the operator knows it in this opset. */
  maybe(name: string, make: () => Attribute, probability = 0.6): Attributes {
    return name in this.schema.attributes && this.random.chance(probability) ? { [name]: make() } : {};
  }

  integers(length: number, low: number, high: number): bigint[] {
    return Array.from({ length }, () => BigInt(this.random.integer(low, high)));
  }
}

/** `undefined` stands for one that is left out. */
type Attributes = Readonly<Record<string, Attribute | undefined>>;

interface Drawn {
  readonly attributes?: Attributes;
  readonly inputs: readonly (RefTensor | undefined)[];
  readonly outputs?: number;
}

type Recipe = (draw: Draw) => Drawn;

const int = (value: number | bigint): Attribute => ({ kind: 'int', value: BigInt(value) });
const ints = (value: readonly (number | bigint)[]): Attribute => ({ kind: 'ints', value: value.map(BigInt) });
const float = (value: number): Attribute => ({ kind: 'float', value: Math.fround(value) });
const string = (value: string): Attribute => ({ kind: 'string', value });

const unary: Recipe = (draw) => {
  const scale = () => float(draw.random.pick([-1.5, 0.1, 0.2, 0.5, 1, 1.7, 3]));
  const attributes = {
    ...draw.maybe('alpha', scale),
    ...draw.maybe('beta', scale),
    ...draw.maybe('gamma', scale),
  };
  const approximate = draw.maybe('approximate', () => string(draw.random.pick(['none', 'tanh'])));
  return { attributes: { ...attributes, ...approximate }, inputs: [draw.tensor(draw.dims())] };
};

/** Two tensors that are broadcast to each other, of one type or, where the schema has two, of two. */
const binary: Recipe = (draw) => {
  const [left, right] = broadcastable(draw, 2) as [number[], number[]];
  const type = draw.type();
  const group = draw.schema.inputs[1]!.group;
  const second = group === 'T' ? type : draw.type(group);
  const isPower = draw.operator === 'Pow';
  const isMod = draw.operator === 'Mod';
  const fmod = type.includes('float') || draw.random.chance(0.4) ? 1 : 0;
  return {
    attributes: isMod && (fmod === 1 || draw.random.chance(0.5)) ? { fmod: int(fmod) } : {},
    inputs: [draw.tensor(left, type), draw.tensor(right, second, isPower ? 'whole' : undefined)],
  };
};

function broadcastable(draw: Draw, count: number): number[][] {
  const whole = draw.dims();
  const shapes = Array.from({ length: count }, () => narrower(whole, draw.random));
  shapes[draw.random.integer(0, count - 1)] = whole;
  return shapes;
}

const prelu: Recipe = (draw) => {
  const dims = draw.dims();
  const type = draw.type();
  return { inputs: [draw.tensor(dims, type), draw.tensor(narrower(dims, draw.random), type)] };
};

const variadic: Recipe = (draw) => {
  const count = draw.random.integer(1, 4);
  const type = draw.type();
  const dims = draw.dims();
  const shapes = draw.opset < 8 ? Array.from({ length: count }, () => dims) : broadcastable(draw, count);
  return { inputs: shapes.map((shape) => draw.tensor(shape, type)) };
};

const where: Recipe = (draw) => {
  const [condition, yes, no] = broadcastable(draw, 3) as [number[], number[], number[]];
  const type = draw.type();
  return { inputs: [draw.tensor(condition, 'bool'), draw.tensor(yes, type), draw.tensor(no, type)] };
};

const clip: Recipe = (draw) => {
  const type = draw.type();
  const input = draw.tensor(draw.dims(), type);
  const low = draw.random.integer(type.startsWith('u') ? 0 : -3, 2);
  const high = low + draw.random.integer(0, 4);
  if (draw.opset < 11) {
    return {
      attributes: { ...draw.maybe('min', () => float(low)), ...draw.maybe('max', () => float(high)) },
      inputs: [input],
    };
  }
  const bound = (value: number): RefTensor | undefined =>
    draw.random.chance(0.3)
      ? undefined
      : { type, dims: [], data: [type.includes('float') ? value : BigInt(value)] };
  return { inputs: [input, bound(low), bound(high)] };
};

const cast: Recipe = (draw) => {
  const to = draw.random.chance(0.4) ? 'float32' : draw.type('T');
  return { attributes: { to: int(typeNumber(to)) }, inputs: [draw.tensor(draw.dims())] };
};

const castLike: Recipe = (draw) => ({
  inputs: [draw.tensor(draw.dims()), draw.tensor(draw.dims({ most: 2 }), draw.type('U'))],
});

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

function maps(draw: Draw, mostChannels = 8): { batch: number; channels: number; spatial: number[] } {
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

const conv: Recipe = (draw) => {
  const { random } = draw;
  const { batch, channels, spatial } = maps(draw);
  const groups = random.pick([1, 1, 1, 2, 3, channels]);
  const perGroup = Math.max(1, Math.round(channels / groups));
  const filters = groups * random.integer(1, random.chance(0.1) ? 40 : 6);
  const kernel = kernelOf(draw, spatial);
  const type = draw.type();
  const kind = random.chance(0.6) ? 'unit' : undefined;
  const bias = random.chance(0.5) ? draw.tensor([filters], type, kind) : undefined;
  return {
    attributes: {
      ...windows(draw, spatial, kernel),
      ...(groups > 1 || random.chance(0.3) ? { group: int(groups) } : {}),
      ...draw.maybe('kernel_shape', () => ints(kernel), 0.4),
    },
    inputs: [
      draw.tensor([batch, groups * perGroup, ...spatial], type, kind),
      draw.tensor([filters, perGroup, ...kernel], type, kind),
      bias,
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

const pool: Recipe = (draw) => {
  const { batch, channels, spatial } = maps(draw);
  const kernel = kernelOf(draw, spatial);
  const attributes = windows(draw, spatial, kernel);
  const isValid = attributes.auto_pad?.value === 'VALID';
  return {
    attributes: {
      ...attributes,
      kernel_shape: ints(kernel),
      // Text and formula of ONNX differ in what VALID makes of it.
      ...(isValid ? {} : draw.maybe('ceil_mode', () => int(draw.random.integer(0, 1)), 0.5)),
      ...draw.maybe('count_include_pad', () => int(draw.random.integer(0, 1)), 0.5),
      ...draw.maybe('storage_order', () => int(0), 0.2),
    },
    inputs: [draw.tensor([batch, channels, ...spatial])],
  };
};

const globalPool: Recipe = (draw) => {
  const { batch, channels, spatial } = maps(draw);
  return { inputs: [draw.tensor([batch, channels, ...spatial])] };
};

const gemm: Recipe = (draw) => {
  const { random } = draw;
  const extent = () => (random.chance(0.03) ? 0 : random.integer(1, random.chance(0.1) ? 70 : 18));
  const [m, k, n] = [extent(), extent(), extent()];
  const [a, b] = [random.chance(0.5), random.chance(0.5)];
  const type = draw.type();
  const hasAddend = draw.opset < 11 || random.chance(0.6);
  return {
    attributes: {
      ...(a ? { transA: int(1) } : {}),
      ...(b ? { transB: int(1) } : draw.maybe('transB', () => int(0), 0.2)),
      ...draw.maybe('alpha', () => float(random.pick([0.5, -2, 0])), 0.3),
      ...draw.maybe('beta', () => float(random.pick([0.5, -2, 0])), 0.3),
    },
    inputs: [
      draw.tensor(a ? [k, m] : [m, k], type),
      draw.tensor(b ? [n, k] : [k, n], type),
      hasAddend ? draw.tensor(narrower([m, n], random), type) : undefined,
    ],
  };
};

const matmul: Recipe = (draw) => {
  const { random } = draw;
  const extent = () => (random.chance(0.02) ? 0 : random.integer(1, random.chance(0.1) ? 70 : 10));
  const [m, k, n] = [extent(), extent(), extent()];
  const batch = draw.dims({ most: 2, isEmptyAllowed: false }).map((size) => Math.min(size, 4));
  const [left, right] = [narrower(batch, random), random.chance(0.4) ? [] : batch];
  const type = draw.type();
  const a = random.chance(0.15) ? [k] : [...left, m, k];
  const b = random.chance(0.15) ? [k] : [...right, k, n];
  return { inputs: [draw.tensor(a, type), draw.tensor(b, type)] };
};

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
  const shape = random.chance(0.85) ? dims.slice(axis) : narrower(dims, random);
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
    outputs: random.chance(0.7) ? 1 : random.integer(2, 3),
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
  const none: RefTensor = { type: 'float32', dims: [0], data: [] };
  const roi = draw.opset < 13 ? none : random.chance(0.8) ? undefined : none;
  const coordinates = [
    'half_pixel',
    'pytorch_half_pixel',
    'align_corners',
    'asymmetric',
    ...(draw.opset < 19 ? [] : ['half_pixel_symmetric']),
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
      ...draw.maybe('coordinate_transformation_mode', () => string(random.pick(coordinates)), 0.8),
      ...draw.maybe('nearest_mode', () =>
        string(random.pick(['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'])),
      ),
      ...draw.maybe('cubic_coeff_a', () => float(-0.5), 0.3),
      ...draw.maybe('exclude_outside', () => int(1), mode === 'nearest' ? 0 : 0.3),
      ...draw.maybe('antialias', () => int(random.integer(0, 1)), 0.1),
      ...(bySize
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

const constant: Recipe = (draw) => {
  const value = (): Attribute => ({
    kind: 'tensor',
    value: anyTensor(
      draw.random,
      draw.random.pick(['float32', 'int64', 'bool', 'float16'] as const),
      draw.dims(),
    ),
  });
  const others: Record<string, () => Attribute> = {
    value_float: () => float(0.1),
    value_floats: () => ({ kind: 'floats', value: [1, Math.fround(0.3), -2] }),
    value_int: () => int(-7),
    value_ints: () => ints([1, -2, 3]),
  };
  const name = draw.opset < 12 || draw.random.chance(0.4) ? 'value' : draw.random.pick(Object.keys(others));
  return { attributes: { [name]: (others[name] ?? value)() }, inputs: [] };
};

const constantOfShape: Recipe = (draw) => {
  const type = draw.random.pick([
    'float32',
    'float32',
    'int64',
    'bool',
    'float64',
    'int8',
    'uint16',
  ] as const);
  const value = (): Attribute => ({ kind: 'tensor', value: draw.tensor([1], type) });
  return { attributes: draw.maybe('value', value), inputs: [list(draw.dims())] };
};

const range: Recipe = (draw) => {
  const { random } = draw;
  const type = draw.type();
  const scalar = (value: number): RefTensor => ({
    type,
    dims: [],
    data: [type.includes('float') ? value : BigInt(Math.round(value))],
  });
  const delta = random.pick([1, 2, 3, -1, -2, ...(type.includes('float') ? [0.5, -0.25] : [])]);
  const start = random.integer(-20, 20);
  return {
    inputs: [scalar(start), scalar(start + Math.sign(delta) * random.integer(-2, 30)), scalar(delta)],
  };
};

const shape: Recipe = (draw) => ({
  attributes: {
    ...draw.maybe('start', () => int(draw.random.integer(-6, 6)), 0.4),
    ...draw.maybe('end', () => int(draw.random.integer(-6, 6)), 0.4),
  },
  inputs: [draw.tensor(draw.dims())],
});

const each = (recipe: Recipe, names: string): [string, Recipe][] =>
  names.split(' ').map((name) => [name, recipe]);

const RECIPES: ReadonlyMap<string, Recipe> = new Map([
  ...each(
    unary,
    'Abs Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Sigmoid Sign Silu Sin Softplus Softsign Sqrt Swish Tanh com.microsoft.Gelu com.microsoft.QuickGelu',
  ),
  ...each(binary, 'Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Or Pow Sub Xor'),
  ...each(variadic, 'Max Mean Min Sum'),
  ...each(argument, 'ArgMax ArgMin'),
  ...each(pool, 'AveragePool MaxPool'),
  ...each(globalPool, 'GlobalAveragePool GlobalMaxPool'),
  ...each(softmax, 'Softmax LogSoftmax'),
  ...each(
    reduce,
    'ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare',
  ),
  ...each(identity, 'Identity NonZero Size'),
  ...each(blocks, 'DepthToSpace SpaceToDepth'),
  ...Object.entries({
    BatchNormalization: batchNormalization,
    Cast: cast,
    CastLike: castLike,
    Clip: clip,
    Concat: concat,
    Constant: constant,
    ConstantOfShape: constantOfShape,
    Conv: conv,
    ConvTranspose: convTranspose,
    Dropout: dropout,
    Expand: expand,
    Flatten: flatten,
    Gather: gather,
    Gemm: gemm,
    GroupNormalization: groupNormalization,
    InstanceNormalization: instanceNormalization,
    LRN: localResponse,
    LayerNormalization: layerNormalization,
    MatMul: matmul,
    PRelu: prelu,
    Pad: pad,
    Range: range,
    Reshape: reshape,
    Resize: resize,
    Shape: shape,
    Slice: slice,
    Split: split,
    Squeeze: squeeze,
    Tile: tile,
    Transpose: transpose,
    Unsqueeze: unsqueeze,
    Upsample: upsample,
    Where: where,
  }),
]);

/** The operators one after the other, so that any stretch of numbers has all of them. */
export function legalCase(seed: number, index: number): Case {
  const random = randomOf(seed, index);
  const name = OPERATORS[index % OPERATORS.length]!;
  const recipe = RECIPES.get(name);
  if (recipe === undefined) throw new Error(`nothing draws models of ${name}`);
  const isForeign = name.startsWith('com.microsoft.');
  const schemas = schemasOf(name);
  const oldest = Math.max(7, schemas[0]!.since);
  const newest = Math.min(NEWEST_OPSET, (schemas.at(-1)!.until ?? Infinity) - 1);
  const opset = isForeign ? 1 : random.integer(oldest, newest);
  const schema = schemaIn(name, opset)!;
  const drawn = recipe(new Draw(random, name, opset, schema));
  return {
    domain: isForeign ? 'com.microsoft' : '',
    operator: name.replace('com.microsoft.', ''),
    opset,
    attributes: given(drawn.attributes ?? {}),
    inputs: withoutTrailing(placed(drawn.inputs, name, random), random),
    outputs: drawn.outputs ?? 1,
    isRaw: random.chance(0.5),
  };
}

function given(attributes: Attributes): Record<string, Attribute> {
  const entries = Object.entries(attributes).filter(
    (entry): entry is [string, Attribute] => entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}

export function randomOf(seed: number, index: number): Random {
  return new Random((Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0);
}

/** Which inputs the run brings. What is computed only ahead of a run mostly finds its inputs in the file. */
function placed(
  inputs: readonly (RefTensor | undefined)[],
  name: string,
  random: Random,
): (CaseInput | undefined)[] {
  const isFloat = inputs[0] === undefined || inputs[0].type === 'float32';
  const isAhead = !COMPUTED_IN_RUNS.has(name) && !name.startsWith('com.');
  const how = random.uniform();
  const share = isAhead || !isFloat ? 0.7 : 0.2;
  const isFeed = (i: number) => {
    if (how < share) return false;
    if (how < share + (1 - share) * 0.5) return i === 0;
    return how < share + (1 - share) * 0.75 || random.chance(0.5);
  };
  return inputs.map((tensor, i) => {
    if (tensor === undefined) return undefined;
    return { tensor, isFeed: isFeed(i), shape: anyShape(tensor.dims, random, i) };
  });
}

/** Inputs left out at the end have an empty name, or none. */
function withoutTrailing<T>(inputs: readonly (T | undefined)[], random: Random): (T | undefined)[] {
  const result = [...inputs];
  if (random.chance(0.2)) return result;
  while (result.length > 0 && result.at(-1) === undefined) result.pop();
  return result;
}

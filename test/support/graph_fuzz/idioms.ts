/** What exporters write again and again: the patterns that are fused, folded, and planned as a whole. */
import { typeNumber } from '../onnx_reference/elementwise';
import { isFloat, sizeOf, type Dims, type ElementType, type RefTensor } from '../onnx_reference/tensor';
import { float, int, ints } from '../operator_fuzz/draw';
import { anyTensor, list } from '../operator_fuzz/values';
import { Unsuited, type GraphBuilder } from './builder';
import { listOfExtents } from './chain';
import type { Body, GraphNode } from './graph';

type Idiom = (b: GraphBuilder) => void;

function pick(b: GraphBuilder, isRight: (value: RefTensor) => boolean): string {
  const found = b.names.filter((name) => isRight(b.of(name)));
  if (found.length === 0) throw new Unsuited('no value for it');
  return b.random.pick(found.length > 3 && b.random.chance(0.6) ? found.slice(-3) : found);
}

function pickFloat(b: GraphBuilder): string {
  return pick(b, ({ type, data }) => type === 'float32' && data.length > 0);
}

/** A float32 value under dims of a rank: as it is, or brought to some. */
function ofRank(b: GraphBuilder, rank: number): string {
  const name = pickFloat(b);
  const { dims } = b.of(name);
  if (dims.length === rank) return name;
  const wanted = Array.from({ length: rank }, (_, axis) =>
    rank === 4 && axis === 0 ? b.random.integer(1, 2) : b.random.integer(2, 6),
  );
  return b.brought(name, wanted);
}

function activated(b: GraphBuilder, x: string): string {
  const { random } = b;
  switch (random.integer(0, 8)) {
    case 0:
      return b.add('Relu', [x]);
    case 1:
      return b.add('LeakyRelu', [x], { alpha: float(0.1) });
    case 2:
      return b.add('Sigmoid', [x]);
    case 3:
      return b.add('Mul', random.chance(0.5) ? [x, b.add('Sigmoid', [x])] : [b.add('Sigmoid', [x]), x]);
    case 4:
      if (b.opset < 11) return b.add('Clip', [x], { min: float(-1), max: float(1.5) });
      return b.add('Clip', [x, b.scalar(0), random.chance(0.7) ? b.scalar(6) : '']);
    case 5: {
      const inner = b.add('Div', [x, b.scalar(Math.SQRT2)]);
      const half = b.add('Mul', [x, b.scalar(0.5)]);
      return b.add('Mul', [half, b.add('Add', [b.add('Erf', [inner]), b.scalar(1)])]);
    }
    case 6: {
      const gate = b.add('HardSigmoid', [x], { alpha: float(1 / 6), beta: float(0.5) });
      return b.add('Mul', [x, gate]);
    }
    case 7:
      return b.add('Tanh', [x]);
    default:
      return x;
  }
}

/** A convolution with its scaling, a residual and an activation, some of which another node reads, too. */
const convolution: Idiom = (b) => {
  const { random } = b;
  const x = ofRank(b, 4);
  const [, channels, height, width] = b.of(x).dims as [number, number, number, number];
  if (height < 1 || width < 1 || channels < 1) throw new Unsuited('nothing to convolve');
  const isDepthwise = random.chance(0.25);
  const keeps = random.chance(0.6);
  const filters = isDepthwise || keeps ? channels : random.integer(1, 6);
  const kernel = random.pick([1, 3, 3]);
  const stride = keeps ? 1 : random.integer(1, 2);
  const padding = kernel === 3 ? 1 : 0;
  const w = b.constant(
    anyTensor(random, 'float32', [filters, isDepthwise ? 1 : channels, kernel, kernel], 'unit'),
  );
  const inputs = random.chance(0.5) ? [x, w] : [x, w, b.tensor([filters])];
  let y = b.add('Conv', inputs, {
    kernel_shape: ints([kernel, kernel]),
    pads: ints([padding, padding, padding, padding]),
    strides: ints([stride, stride]),
    group: int(isDepthwise ? channels : 1),
  });
  if (random.chance(0.5)) y = normalized(b, y, filters);
  if (random.chance(0.3)) y = scaled(b, y, filters);
  const isResidual = b.of(y).dims.join() === b.of(x).dims.join() && random.chance(0.6);
  if (isResidual) y = b.add('Add', random.chance(0.5) ? [x, y] : [y, x]);
  y = activated(b, y);
  if (random.chance(0.15)) b.add('GlobalAveragePool', [y]);
};

function normalized(b: GraphBuilder, x: string, channels: number): string {
  const of = (kind: 'unit' | 'positive') => b.constant(anyTensor(b.random, 'float32', [channels], kind));
  const inputs = [x, of('unit'), of('unit'), of('unit'), of('positive')];
  return b.add('BatchNormalization', inputs, { epsilon: float(0.01) });
}

/** Factors and addends of channels, as other exporters write what a normalisation came to. */
function scaled(b: GraphBuilder, x: string, channels: number): string {
  const of = () => b.tensor(b.random.chance(0.2) ? [] : [channels, 1, 1]);
  const product = b.add('Mul', b.random.chance(0.5) ? [x, of()] : [of(), x]);
  return b.random.chance(0.5) ? b.add('Add', [product, of()]) : b.add('Sub', [of(), product]);
}

const residual: Idiom = (b) => {
  const x = pickFloat(b);
  const y = activated(b, b.add('Mul', [x, b.tensor(b.of(x).dims.slice(-1))]));
  b.add(b.random.pick(['Add', 'Sub', 'Mul', 'Max']), [x, y]);
};

const dense: Idiom = (b) => {
  const { random } = b;
  const rank = random.integer(2, 4);
  let x = ofRank(b, rank);
  if (random.chance(0.4)) {
    const order = [...Array(rank).keys()];
    x = b.add('Transpose', [x], {
      perm: ints(random.chance(0.5) ? order.toReversed() : [...order.slice(0, -2), rank - 1, rank - 2]),
    });
  }
  const depth = b.of(x).dims.at(-1)!;
  const width = random.integer(1, 8);
  if (rank === 2 && random.chance(0.4)) {
    const isTransposed = random.chance(0.5);
    const w = b.tensor(isTransposed ? [width, depth] : [depth, width]);
    const c = random.chance(0.5) ? b.tensor([width]) : b.tensor([1, 1]);
    activated(b, b.add('Gemm', [x, w, c], { transB: int(isTransposed ? 1 : 0) }));
    return;
  }
  const product = b.add('MatMul', [x, b.tensor([depth, width])]);
  const sum = random.chance(0.7) ? b.add('Add', [product, b.tensor([width])]) : product;
  activated(b, sum);
};

/** A normalisation written out. */
const handwritten: Idiom = (b) => {
  const x = ofRank(b, b.random.integer(1, 3));
  const mean = b.along('ReduceMean', x, [-1], { keepdims: int(1) });
  const centred = b.add('Sub', [x, mean]);
  const square = b.random.chance(0.5)
    ? b.add('Pow', [centred, b.scalar(2)])
    : b.add('Mul', [centred, centred]);
  const variance = b.along('ReduceMean', square, [-1], { keepdims: int(1) });
  const root = b.add('Sqrt', [b.add('Add', [variance, b.scalar(0.01)])]);
  const scaledValue = b.add('Div', [centred, root]);
  const width = b.of(x).dims.at(-1)!;
  b.add('Add', [b.add('Mul', [scaledValue, b.tensor([width])]), b.tensor([width])]);
};

const attention: Idiom = (b) => {
  const x = ofRank(b, 3);
  const depth = b.of(x).dims[2]!;
  const of = () => b.add('MatMul', [x, b.tensor([depth, depth])]);
  const [q, k, v] = [of(), of(), of()] as const;
  const scores = b.add('MatMul', [q, b.add('Transpose', [k], { perm: ints([0, 2, 1]) })]);
  const weights = b.add('Softmax', [b.add('Mul', [scores, b.scalar(0.5)])], {
    axis: int(b.opset < 13 ? 2 : -1),
  });
  b.add('MatMul', [weights, v]);
};

/** Heads: dims of a value put together anew, with an extent that is left to be found. */
const reshaped: Idiom = (b) => {
  const { random } = b;
  const x = pick(b, ({ dims, data }) => dims.length >= 1 && data.length > 0);
  const { dims } = b.of(x);
  const merged = random.integer(0, dims.length - 1);
  const wanted: number[] =
    dims.length > 1 && merged + 1 < dims.length
      ? [...dims.slice(0, merged), dims[merged]! * dims[merged + 1]!, ...dims.slice(merged + 2)]
      : [...dims, 1];
  if (random.chance(0.6)) wanted[random.integer(0, wanted.length - 1)] = -1;
  const y = b.add('Reshape', [x, listOfExtents(b, wanted)]);
  if (random.chance(0.5)) b.add('Reshape', [activatedIfFloat(b, y), b.add('Shape', [x])]);
};

function activatedIfFloat(b: GraphBuilder, x: string): string {
  return b.of(x).type === 'float32' ? activated(b, x) : x;
}

/** Dims computed with: halves and products of them. */
const computedDims: Idiom = (b) => {
  const { random } = b;
  const x = pick(b, ({ dims, data }) => dims.length >= 2 && data.length > 0);
  const rank = b.of(x).dims.length;
  const shape = b.add('Shape', [x]);
  const [head, tail] = [b.part(shape, 0, rank - 1), b.part(shape, rank - 1, rank)];
  const two = b.list([2]);
  const wanted = random.chance(0.5)
    ? [head, b.add('Div', [b.add('Mul', [tail, two]), two])]
    : [b.along('ReduceProd', head, [0], { keepdims: int(1) }), tail];
  b.add('Reshape', [x, b.add('Concat', wanted, { axis: int(0) })]);
};

/** Dims filled, counted, or broadcast to. */
const filled: Idiom = (b) => {
  const { random } = b;
  const x = pick(b, ({ dims }) => dims.length >= 1 && dims.length <= 4);
  const shape = b.add('Shape', [x]);
  const { type, dims } = b.of(x);
  switch (random.integer(0, 3)) {
    case 0: {
      const value = anyTensor(random, random.chance(0.5) ? type : 'int64', [1], 'unit');
      b.add('ConstantOfShape', [shape], { value: { kind: 'tensor', value } });
      return;
    }
    case 1: {
      const place: RefTensor = { type: 'int64', dims: [], data: [BigInt(dims.length - 1)] };
      const extent = b.add('Gather', [shape, b.constant(place)], { axis: int(0) });
      const range = b.add('Range', [b.scalar(0, 'int64'), extent, b.scalar(1, 'int64')]);
      const rows = type === 'float32' ? b.add('Cast', [range], { to: int(1) }) : range;
      if (type === 'float32' || type === 'int64') b.add('Add', [x, rows]);
      return;
    }
    case 2:
      b.add('Expand', [
        b.tensor(
          dims.map((extent) => (random.chance(0.5) ? 1 : extent)),
          type,
        ),
        shape,
      ]);
      return;
    default: {
      const size = b.add('Cast', [b.add('Size', [x])], { to: int(1) });
      if (type === 'float32') b.add('Div', [x, size]);
    }
  }
};

const quantizedPair: Idiom = (b) => {
  const { random } = b;
  const x = pickFloat(b);
  const { dims } = b.of(x);
  const type = random.pick(['int8', 'uint8'] as const);
  const isByAxis = b.opset >= 13 && dims.length > 1 && random.chance(0.3);
  const length: Dims = isByAxis ? [dims[1]!] : [];
  const count = sizeOf(length);
  const scale = b.constant({
    type: 'float32',
    dims: length,
    data: Array.from({ length: count }, () => Math.fround(0.01 + random.uniform() / 8)),
  });
  const zero = random.chance(0.7)
    ? b.constant({
        type,
        dims: length,
        data: Array.from({ length: count }, () => BigInt(random.integer(0, 9))),
      })
    : '';
  const q = b.add('QuantizeLinear', zero === '' ? [x, scale] : [x, scale, zero]);
  const moved = random.chance(0.3) ? b.add('Identity', [q]) : q;
  const y = b.add('DequantizeLinear', zero === '' ? [moved, scale] : [moved, scale, zero]);
  if (random.chance(0.5)) b.add('Add', [x, y]);
};

const quantizedProduct: Idiom = (b) => {
  const x = pick(b, ({ type, dims }) => (type === 'int8' || type === 'uint8') && dims.length > 0);
  const { data } = b.of(x);
  if (data.length === 0) throw new Unsuited('nothing to multiply');
  const depth = Math.min(data.length, 6);
  const matrix = b.brought(x, [Math.max(1, Math.floor(data.length / depth)), depth]);
  const w = b.tensor([depth, 3], b.random.pick(['int8', 'uint8'] as const), 'whole');
  const product = b.add('MatMulInteger', [matrix, w]);
  const real = b.add('Cast', [product], { to: int(1) });
  b.add('Mul', [real, b.scalar(0.01)]);
};

const TYPES: readonly ElementType[] = [
  ...([
    'float32',
    'float16',
    'float64',
    'int32',
    'int64',
    'uint8',
    'int8',
    'bool',
    'int16',
    'bfloat16',
  ] as const),
];

/** To another type, something there, and back. */
const casts: Idiom = (b) => {
  const { random } = b;
  const x = random.pick(b.names);
  const { type } = b.of(x);
  const to = random.pick(b.opset < 13 ? TYPES.slice(0, -1) : TYPES);
  let y = b.add('Cast', [x], { to: int(typeNumber(to)) });
  if (random.chance(0.6)) {
    const operator = isFloat(to)
      ? random.pick(['Neg', 'Sigmoid', 'Relu', 'Exp', 'Identity'])
      : to === 'bool'
        ? 'Not'
        : random.pick(['Abs', 'Identity', 'Neg']);
    y = b.add(operator, [y]);
  }
  if (random.chance(0.5)) {
    const { dims } = b.of(y);
    if (to !== 'bool') y = b.add('Add', [y, b.tensor(dims.slice(-1), to)]);
  }
  const back = b.add('Cast', [y], { to: int(typeNumber(type)) });
  if (random.chance(0.4) && type === 'float32') b.add('Add', [x, back]);
};

/** Parts of a value taken apart and put together in another order, or with others. */
const parts: Idiom = (b) => {
  const { random } = b;
  const x = pick(b, ({ dims }) => dims.length > 0 && dims.some((extent) => extent > 1));
  const { dims } = b.of(x);
  const axis = random.pick([...dims.keys()].filter((i) => dims[i]! > 1));
  const extent = dims[axis]!;
  const middle = random.integer(random.chance(0.1) ? 0 : 1, extent - 1);
  const pieces =
    b.opset >= 13 && random.chance(0.5)
      ? b.addAll('Split', [x, listOfExtents(b, [middle, extent - middle])], { axis: int(axis) }, 2)
      : [[0, middle] as const, [middle, extent] as const].map(([start, end]) =>
          sliced(b, x, axis, start, end),
        );
  const [first, second] = pieces as [string, string];
  const changed = b.of(second).type === 'float32' ? activated(b, b.add('Neg', [second])) : second;
  const more = random.chance(0.3) ? [random.chance(0.5) ? first : x] : [];
  const joined = [changed, ...more, first];
  const y = b.add('Concat', random.chance(0.5) ? joined : joined.toReversed(), { axis: int(axis) });
  if (random.chance(0.3) && more.length === 0 && b.of(x).type === 'float32') b.add('Add', [x, y]);
};

function sliced(b: GraphBuilder, x: string, axis: number, start: number, end: number): string {
  if (b.opset < 10) {
    return b.add('Slice', [x], { axes: ints([axis]), starts: ints([start]), ends: ints([end]) });
  }
  return b.add('Slice', [x, b.list([start]), b.list([end]), b.list([axis])]);
}

/** Several branches from one value, each in its place of what they are joined to. */
const branches: Idiom = (b) => {
  const x = ofRank(b, b.random.integer(2, 4));
  const made = Array.from({ length: b.random.integer(2, 3) }, () => activated(b, x));
  const joined = b.add('Concat', b.random.chance(0.3) ? [...made, x] : made, {
    axis: int(b.random.integer(0, 1)),
  });
  if (b.random.chance(0.5)) activated(b, joined);
};

/** What is computed and then surrounded, or repeated, in a larger tensor. */
const placed: Idiom = (b) => {
  const { random } = b;
  const y = activated(b, b.add('Neg', [pickFloat(b)]));
  const rank = b.of(y).dims.length;
  if (rank === 0) throw new Unsuited('no axis');
  if (random.chance(0.4)) {
    b.add('Concat', [y, y], { axis: int(random.integer(0, rank - 1)) });
    return;
  }
  const counts = Array.from({ length: 2 * rank }, () => random.integer(0, 1));
  const padded =
    b.opset < 11 ? b.add('Pad', [y], { pads: ints(counts) }) : b.add('Pad', [y, listOfExtents(b, counts)]);
  if (random.chance(0.5)) activated(b, padded);
};

/** Halves, which are rounded between nodes or not, as wholes and in part. */
const halves: Idiom = (b) => {
  const { random } = b;
  const { opset } = b;
  const x = random.chance(0.5)
    ? pick(b, ({ type, dims }) => type === 'float16' && dims.length > 0)
    : b.add('Cast', [ofRank(b, random.integer(1, 2))], { to: int(10) });
  const extent = b.of(x).dims[0]!;
  let y = b.add(random.pick(['Sigmoid', 'Tanh', 'Neg', 'Exp']), [x]);
  if (random.chance(0.6)) y = sliced(b, y, 0, random.integer(0, extent - 1), extent);
  else if (random.chance(0.5)) y = b.add('Reshape', [y, b.list([-1])]);
  y = b.add(random.pick(['Sigmoid', 'Abs', 'Sqrt', 'Neg']), [y]);
  if (random.chance(0.5)) b.add('Cast', [y], { to: int(random.pick(opset < 13 ? [1, 11] : [1, 11, 16])) });
};

/** Two values of a square that are one where it has one element. */
const twins: Idiom = (b) => {
  const x = pick(b, ({ type, dims }) => type === 'float32' && dims.length === 2 && dims[0] === dims[1]);
  const y = b.random.chance(0.6) ? b.add('Transpose', [x]) : b.add('Concat', [x], { axis: int(0) });
  activated(b, b.add(b.random.pick(['Add', 'Sub']), b.random.chance(0.5) ? [x, y] : [y, x]));
};

/** One of two values, by what a comparison says. */
const chosen: Idiom = (b) => {
  const x = pickFloat(b);
  const bound = b.random.chance(0.5) ? b.scalar(0) : b.tensor(b.of(x).dims.slice(-1));
  const condition = b.add(b.random.pick(['Greater', 'Less']), [x, bound]);
  b.add('Where', [condition, activated(b, x), b.random.chance(0.5) ? x : b.scalar(-1)]);
};

function nodeOf(operator: string, inputs: readonly string[], output: string): GraphNode {
  return { domain: '', operator, attributes: {}, inputs, outputs: [output] };
}

const UNARY = ['Identity', 'Neg', 'Abs', 'Relu'];
const BINARY = ['Add', 'Sub', 'Mul'];

/** A few nodes that read what lies around them, a constant of their own, and each other. */
function branchOf(b: GraphBuilder, x: string): Body {
  const { random } = b;
  const { type, dims } = b.of(x);
  const isAlike = (name: string) => b.of(name).type === type && b.of(name).dims.join() === dims.join();
  const others = b.names.filter(isAlike);
  const own = b.newName('b');
  const constants = new Map([[own, anyTensor(random, type, random.chance(0.5) ? [] : dims, 'unit')]]);
  const nodes: GraphNode[] = [];
  let result = x;
  for (let count = random.integer(1, 3); count > 0; count--) {
    const name = b.newName('b');
    const isBinary = random.chance(0.5);
    const other = random.chance(0.5) ? own : random.pick(others);
    // Integers come to have a rectifier late.
    const unary = type === 'float32' ? UNARY : UNARY.slice(0, -1);
    nodes.push(
      isBinary
        ? nodeOf(random.pick(BINARY), random.chance(0.5) ? [result, other] : [other, result], name)
        : nodeOf(random.pick(unary), [result], name),
    );
    result = name;
  }
  return { inputs: [], constants, nodes, outputs: [{ name: result, type }] };
}

/** Asks for an extent, for an element of a feed, or for what is computed. */
const conditional: Idiom = (b) => {
  const { random } = b;
  if (b.opset < 11) throw new Unsuited('older branches');
  const x = pick(b, ({ type, data }) => (type === 'float32' || type === 'int64') && data.length > 0);
  const { type } = b.of(x);
  const value = random.chance(0.5)
    ? b.add('Size', [x])
    : b.add('Cast', [b.add('ReduceMax', [x], { keepdims: int(0) })], { to: int(7) });
  const condition = b.add('Greater', [value, b.scalar(random.integer(-2, 8), 'int64')]);
  const y = b.add(
    'If',
    [condition],
    {},
    {
      bodies: { then_branch: branchOf(b, x), else_branch: branchOf(b, x) },
    },
  );
  if (type === 'float32') b.add('Add', [y, x]);
};

/** As many as are taken apart. */
function newNames(b: GraphBuilder, count: number) {
  const names = Array.from({ length: count }, () => b.newName('l'));
  return names as [string, string, string, string, string, string];
}

const loop: Idiom = (b) => {
  const { random } = b;
  if (b.opset < 13) throw new Unsuited('older loops');
  const x = pickFloat(b);
  const isAddend = (dims: Dims) => dims.length === 0 || dims.join() === b.of(x).dims.join();
  const other = pick(b, ({ type, dims }) => type === 'float32' && isAddend(dims));
  const [round, goesOn, state, next, row, still] = newNames(b, 6);
  const type = 'float32' as const;
  const body: Body = {
    inputs: [
      { name: round, type: 'int64' },
      { name: goesOn, type: 'bool' },
      { name: state, type },
    ],
    constants: new Map(),
    nodes: [
      nodeOf('Identity', [goesOn], still),
      nodeOf(random.pick(['Add', 'Sub', 'Max']), [state, other], next),
      nodeOf(random.pick(['Tanh', 'Neg', 'Identity']), [next], row),
    ],
    outputs: [
      { name: still, type: 'bool' },
      { name: next, type },
      { name: row, type },
    ],
  };
  const trips = b.scalar(random.integer(1, 3), 'int64');
  b.addAll('Loop', [trips, '', x], {}, 2, { bodies: { body } });
};

const scan: Idiom = (b) => {
  const { random } = b;
  if (b.opset < 11) throw new Unsuited('older scans');
  const x = ofRank(b, random.integer(1, 3));
  const start = b.tensor(b.of(x).dims.slice(1));
  const [state, slice, next, row] = newNames(b, 4);
  const type = 'float32' as const;
  const body: Body = {
    inputs: [
      { name: state, type },
      { name: slice, type },
    ],
    constants: new Map(),
    nodes: [nodeOf(random.pick(['Add', 'Max', 'Min']), [state, slice], next), nodeOf('Neg', [next], row)],
    outputs: [
      { name: next, type },
      { name: row, type },
    ],
  };
  b.addAll('Scan', [start, x], { num_scan_inputs: int(1) }, 2, { bodies: { body } });
};

/** How much there is of it only a run knows. */
const found: Idiom = (b) => {
  const { random } = b;
  const x = pick(b, ({ type, dims, data }) => type === 'float32' && dims.length > 0 && data.length > 0);
  const { dims } = b.of(x);
  const mask = b.add('Greater', [x, b.scalar(0)]);
  if (random.chance(0.4)) {
    const places = b.add('NonZero', [mask]);
    const values =
      b.opset >= 12 ? b.add('GatherND', [x, b.add('Transpose', [places], { perm: ints([1, 0]) })]) : places;
    if (b.of(values).type === 'float32') activated(b, values);
    return;
  }
  const flat = b.add('Reshape', [x, b.list([-1])]);
  const kept = b.add('Compress', [flat, b.add('Reshape', [mask, b.list([-1])])], { axis: int(0) });
  const y = activated(b, kept);
  b.add('Concat', [y, b.tensor([dims[0]!])], { axis: int(0) });
};

/** Parts of no elements, which joins and sums have to take. */
const empty: Idiom = (b) => {
  const x = pick(b, ({ type, dims }) => type === 'float32' && dims.length > 0);
  const axis = b.random.integer(0, b.of(x).dims.length - 1);
  const none = activated(b, sliced(b, x, axis, 0, 0));
  b.add('Concat', b.random.chance(0.5) ? [none, x] : [x, none], { axis: int(axis) });
  b.along('ReduceSum', none, [axis], { keepdims: int(b.random.integer(0, 1)) });
};

/** Axes moved, something done, and moved back. */
const transposed: Idiom = (b) => {
  const x = pick(b, ({ dims, type }) => dims.length >= 2 && dims.length <= 4 && type === 'float32');
  const rank = b.of(x).dims.length;
  const order = [0, ...Array.from({ length: rank - 1 }, (_, i) => i + 1)];
  const perm = b.random.chance(0.5) ? order.toReversed() : [...order.slice(1), 0];
  const back = order.map((axis) => perm.indexOf(axis));
  const inner = activated(b, b.add('Transpose', [x], { perm: ints(perm) }));
  const y = b.add('Transpose', [inner], { perm: ints(b.random.chance(0.8) ? back : perm) });
  if (b.of(y).dims.join() === b.of(x).dims.join()) b.add('Add', [y, x]);
};

/** Rows that are looked up. */
const embedding: Idiom = (b) => {
  const { random } = b;
  const rows = random.integer(2, 6);
  const indices: RefTensor = { type: 'int64', dims: [random.integer(1, 2), random.integer(1, 4)], data: [] };
  const data = Array.from({ length: sizeOf(indices.dims) }, () => BigInt(random.integer(0, rows - 1)));
  const places = b.given({ ...indices, data }, 0.7);
  const x = b.add('Gather', [b.tensor([rows, random.integer(1, 5)]), places], { axis: int(0) });
  activated(b, x);
};

/** Padding, windows and sizes that follow from each other. */
const resized: Idiom = (b) => {
  const { random } = b;
  const x = ofRank(b, 4);
  if (b.of(x).data.length > 300) throw new Unsuited('large');
  if (b.opset >= 13 && random.chance(0.6)) {
    const scales: RefTensor = { type: 'float32', dims: [4], data: [1, 1, 2, 2] };
    b.add('Resize', [x, '', b.constant(scales)], {
      mode: { kind: 'string', value: random.pick(['nearest', 'linear']) },
    });
    return;
  }
  const padded =
    b.opset < 11
      ? b.add('Pad', [x], { pads: ints([0, 0, 1, 1, 0, 0, 1, 1]) })
      : b.add('Pad', [x, b.constant(list([0, 0, 1, 1, 0, 0, 1, 1]))]);
  b.add(random.pick(['MaxPool', 'AveragePool']), [padded], {
    kernel_shape: ints([2, 2]),
    strides: ints([1, 1]),
  });
};

export const IDIOMS: readonly Idiom[] = [
  ...[convolution, convolution, convolution, residual, residual, dense, dense, handwritten, attention],
  ...[reshaped, reshaped, computedDims, filled, filled, quantizedPair, quantizedProduct, casts, casts],
  ...[parts, parts, branches, branches, placed, placed, halves, halves, twins, chosen, conditional],
  ...[conditional, found, transposed, transposed, embedding, resized],
];

export const RARE_IDIOMS: readonly Idiom[] = [loop, scan, empty];

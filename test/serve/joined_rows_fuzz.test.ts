/** Random networks: wherever runs may be joined, each gets from the joined run what it gets alone. */
import { InferenceSession } from '../../lib/session/session';
import { Tensor } from '../../lib/tensor/tensor';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

type Node = ReturnType<typeof node>;

/** A network that grows at its end, which is a tensor of [N, ...row]. */
class Network {
  readonly nodes: Node[] = [];
  readonly initializers: ReturnType<typeof tensor>[] = [];
  row: readonly number[];
  end = 'x';
  #names = 0;

  constructor(
    readonly random: Random,
    row: readonly number[],
  ) {
    this.row = row;
  }

  /** @param row - of the result, where it is another */
  add(operator: string, inputs: readonly string[], attributes = {}, row?: readonly number[]): string {
    const output = `v${this.#names++}`;
    this.nodes.push(node(operator, inputs, [output], attributes));
    this.end = output;
    if (row !== undefined) this.row = row;
    return output;
  }

  reals(...dims: number[]): string {
    const count = dims.reduce((product, extent) => product * extent, 1);
    return this.#initialize(
      dims,
      Float32Array.from({ length: count }, () => 2 * this.random.uniform() - 1),
    );
  }

  integers(...elements: number[]): string {
    return this.#initialize([elements.length], elements, 'int64');
  }

  scalar(element: number): string {
    return this.#initialize([], [element], 'int64');
  }

  #initialize(dims: number[], elements: ArrayLike<number>, type: 'float32' | 'int64' = 'float32'): string {
    const name = `c${this.#names++}`;
    this.initializers.push(tensor(name, dims, elements, type));
    return name;
  }

  get rank(): number {
    return this.row.length + 1;
  }

  /** An axis that is not the rows'. */
  axis(): number {
    return this.random.integer(1, this.rank - 1);
  }
}

type Grow = (net: Network) => void;

/** The extents of all axes but one, whose is another. */
const withAxis = ({ row }: Network, axis: number, extent: number) => row.with(axis - 1, extent);

/** Steps that keep rows apart. */
const SEPARATE: Readonly<Record<string, Grow>> = {
  unary: (net) => net.add(net.random.pick(['Relu', 'Sigmoid', 'Tanh', 'Neg', 'HardSwish']), [net.end]),
  residual: (net) => net.add('Add', [net.end, net.add('Tanh', [net.end])]),
  scale: (net) => net.add('Mul', [net.end, net.reals(...net.row)]),
  shift: (net) => net.add('Add', [net.reals(1, ...net.row.map(() => 1)), net.end]),
  softmax: (net) => net.add('Softmax', [net.end], { axis: net.axis() }),
  center: (net) => {
    const { end } = net;
    net.add('Sub', [end, net.add('ReduceMean', [end], { axes: [net.axis()], keepdims: 1 })]);
  },
  layerNorm: (net) =>
    net.add('LayerNormalization', [net.end, net.reals(net.row.at(-1)!), net.reals(net.row.at(-1)!)]),
  matmul: (net) => {
    const depth = net.random.integer(1, 4);
    const weight = net.reals(net.row.at(-1)!, depth);
    net.add('MatMul', [net.end, weight], {}, withAxis(net, net.rank - 1, depth));
  },
  attention: (net) => {
    if (net.rank < 3) return;
    const { end, rank } = net;
    const order = Array.from({ length: rank }, (_, axis) => axis);
    const perm = [...order.slice(0, -2), rank - 1, rank - 2];
    net.add('MatMul', [net.add('MatMul', [end, net.add('Transpose', [end], { perm })]), end]);
  },
  transpose: (net) => {
    const order = net.row.map((_, i) => i + 1).sort(() => net.random.uniform() - 0.5);
    const row = order.map((axis) => net.row[axis - 1]!);
    net.add('Transpose', [net.end], { perm: [0, ...order] }, row);
  },
  flatten: (net) => {
    const size = net.row.reduce((product, extent) => product * extent, 1);
    net.add('Reshape', [net.end, net.integers(0, -1)], {}, [size]);
  },
  fold: (net) => {
    // Rows as several of a taller matrix, and back.
    const width = net.row.at(-1)!;
    net.add('Reshape', [net.end, net.integers(-1, width)]);
    net.add('Gemm', [net.end, net.reals(width, width), net.reals(width)]);
    net.add('Reshape', [net.end, net.integers(-1, ...net.row)]);
  },
  halves: (net) => {
    const axis = net.axis();
    const extent = net.row[axis - 1]!;
    if (extent < 2) return;
    const { end } = net;
    const [a, b] = [`${end}a`, `${end}b`];
    net.nodes.push(node('Split', [end, net.integers(1, extent - 1)], [a, b], { axis }));
    net.add('Concat', [b, net.add('Relu', [a]), end], { axis }, withAxis(net, axis, 2 * extent));
  },
  reverse: (net) => {
    const range = [-1, -9999, net.axis(), -1].map((number) => net.integers(number));
    net.add('Slice', [net.end, ...range]);
  },
  take: (net) => {
    const axis = net.axis();
    const positions = [0, net.row[axis - 1]! - 1, 0];
    net.add('Gather', [net.end, net.integers(...positions)], { axis }, withAxis(net, axis, 3));
  },
  pad: (net) => {
    const axis = net.axis();
    const pads = Array.from({ length: 2 * net.rank }, (_, i) =>
      i === axis ? 1 : i === axis + net.rank ? 2 : 0,
    );
    net.add('Pad', [net.end, net.integers(...pads)], {}, withAxis(net, axis, net.row[axis - 1]! + 3));
  },
  token: (net) => {
    // A learnt row in front of each, expanded to the number of rows.
    if (net.rank !== 3) return;
    const { end } = net;
    const [length, width] = net.row as [number, number];
    const count = net.add('Slice', [net.add('Shape', ['x']), net.integers(0), net.integers(1)]);
    const dims = net.add('Concat', [count, net.integers(1, width)], { axis: 0 });
    const tokens = net.add('Expand', [net.reals(1, 1, width), dims]);
    net.add('Concat', [tokens, end], { axis: 1 }, [length + 1, width]);
  },
  ones: (net) => {
    const { end } = net;
    const one = tensor('', [1], [1]);
    net.add('Add', [net.add('ConstantOfShape', [net.add('Shape', [end])], { value: one }), end]);
  },
  conv: (net) => {
    if (net.rank !== 4) return;
    const [channels, ...map] = net.row as [number, number, number];
    const filters = net.random.integer(1, 4);
    const weight = net.reals(filters, channels, 3, 3);
    net.add('Conv', [net.end, weight, net.reals(filters)], { pads: [1, 1, 1, 1] }, [filters, ...map]);
  },
  transposedConv: (net) => {
    if (net.rank !== 4) return;
    const [channels, h, w] = net.row as [number, number, number];
    if (h * w > 100) return;
    net.add('ConvTranspose', [net.end, net.reals(channels, 2, 2, 2)], { strides: [2, 2] }, [2, 2 * h, 2 * w]);
  },
  pool: (net) => {
    if (net.rank !== 4) return;
    net.add(net.random.pick(['MaxPool', 'AveragePool']), [net.end], {
      kernel_shape: [3, 3],
      pads: [1, 1, 1, 1],
    });
  },
  norm: (net) => {
    if (net.rank < 3) return;
    const parameters = [0, 1].map(() => net.reals(net.row[0]!));
    net.add('InstanceNormalization', [net.end, ...parameters]);
  },
  squeezeAndExcite: (net) => {
    if (net.rank !== 4) return;
    const { end } = net;
    net.add('Mul', [end, net.add('HardSigmoid', [net.add('GlobalAveragePool', [end])])]);
  },
  resize: (net) => {
    if (net.rank !== 4) return;
    const [channels, h, w] = net.row as [number, number, number];
    if (h * w > 100) return;
    const scales = tensorOf(net, [1, 1, 2, 2]);
    net.add('Resize', [net.end, '', scales], { mode: net.random.pick(['nearest', 'linear']) }, [
      channels,
      2 * h,
      2 * w,
    ]);
  },
};

function tensorOf(net: Network, scales: readonly number[]): string {
  net.initializers.push(tensor(`scales${net.initializers.length}`, [scales.length], scales));
  return `scales${net.initializers.length - 1}`;
}

/** Steps that make rows depend on each other, or on how many there are. The tensor keeps its dims. */
const MIXING: Readonly<Record<string, Grow>> = {
  softmaxOverRows: (net) => net.add('Softmax', [net.end], { axis: 0 }),
  centerRows: (net) => {
    const { end } = net;
    const operator = net.random.pick(['ReduceMean', 'ReduceMax']);
    net.add('Sub', [end, net.add(operator, [end], { axes: [0], keepdims: 1 })]);
  },
  reverseRows: (net) => {
    const range = [-1, -99, 0, -1].map((number) => net.integers(number));
    net.add('Slice', [net.end, ...range]);
  },
  addFirst: (net) => {
    const { end } = net;
    net.add('Add', [end, net.add('Gather', [end, net.integers(0)], { axis: 0 })]);
  },
  divideByRows: (net) => {
    const { end } = net;
    const count = net.add('Slice', [net.add('Shape', [end]), net.integers(0), net.integers(1)]);
    net.add('Div', [end, net.add('Cast', [count], { to: 1 })]);
  },
  numberRows: (net) => {
    const { end, row } = net;
    const count = net.add('Gather', [net.add('Shape', [end]), net.scalar(0)]);
    const numbers = net.add('Range', [net.scalar(0), count, net.scalar(1)]);
    const column = net.add('Reshape', [
      net.add('Cast', [numbers], { to: 1 }),
      net.integers(-1, ...row.map(() => 1)),
    ]);
    net.add('Add', [end, column]);
  },
  rotateRows: (net) => {
    const { end } = net;
    const part = (from: number, to: number) =>
      net.add('Slice', [end, net.integers(from), net.integers(to), net.integers(0)]);
    net.add('Concat', [part(1, 99), part(0, 1)], { axis: 0 });
  },
  normalizeAll: (net) => {
    const { end } = net;
    const dims = net.add('Shape', [end]);
    const flat = net.add('Reshape', [end, net.integers(1, -1)]);
    net.add('Reshape', [net.add('Softmax', [flat], { axis: 1 }), dims]);
  },
  interleave: (net) => {
    // The same elements as if they were stored by column.
    const { end } = net;
    const dims = net.add('Shape', [end]);
    const perm = [...net.row.map((_, i) => i + 1), 0];
    net.add('Reshape', [net.add('Transpose', [end], { perm }), dims]);
  },
  similarities: (net) => {
    const { end } = net;
    const dims = net.add('Shape', [end]);
    const flat = net.add('Flatten', [end]);
    const likeness = net.add('MatMul', [flat, net.add('Transpose', [flat])]);
    net.add('Reshape', [net.add('MatMul', [net.add('Tanh', [likeness]), flat]), dims]);
  },
};

interface Drawn {
  readonly model: Uint8Array;
  readonly row: readonly number[];
  readonly isMixing: boolean;
  readonly description: string;
}

function draw(random: Random): Drawn {
  const extent = () => random.integer(1, 4);
  const row = Array.from({ length: random.integer(1, 3) }, extent);
  const net = new Network(random, row);
  const description: string[] = [];
  let isMixing = false;
  for (let step = random.integer(1, 7); step > 0; step--) {
    const mixes = random.chance(0.08);
    const choices = mixes ? MIXING : SEPARATE;
    const name = random.pick(Object.keys(choices));
    choices[name]!(net);
    description.push(`${name} [${net.row.join()}]`);
    isMixing ||= mixes;
    if (net.row.reduce((product, one) => product * one, 1) > 2000) break;
  }
  net.add('Mul', [net.end, net.reals(1)]);
  const { nodes, initializers, end } = net;
  const model = onnxModel({
    ...{ inputs: [value('x', ['N', ...row])], outputs: [value(end)] },
    ...{ nodes, initializers },
  });
  return { model, row, isMixing, description: `[N,${row.join()}]: ${description.join(', ')}` };
}

const ROUNDS = 300;
/** Sums of a few hundred elements of the order of 1, in another order: a wrong row differs by far more. */
const TOLERANCE = 1e-4;

test('joined runs give each what it gets alone', async () => {
  const seed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 31);
  process.stdout.write(`seed ${seed}\n`);
  const counts = { joined: 0, refused: 0, different: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(seed + round);
    const { model, row, isMixing, description } = draw(random);
    const repro = `seed ${seed + round}, ${description}`;
    const session = await InferenceSession.create(model, { device: 'cpu' });
    const size = row.reduce((product, extent) => product * extent, 1);
    const rows = Array.from({ length: random.integer(2, 3) }, () => random.integer(1, 3));
    const run = async (elements: Float32Array) => {
      const x = new Tensor('float32', elements, [elements.length / size, ...row]);
      const [y] = Object.values(await session.run({ x }));
      return y!;
    };
    const inputs = rows.map((count) =>
      Float32Array.from({ length: count * size }, () => 2 * random.uniform() - 1),
    );
    const alone = await Promise.all(inputs.map(run));
    const together = await run(Float32Array.from(inputs.flatMap((elements) => [...elements])));
    const expected = Float32Array.from(alone.flatMap(({ data }) => [...(data as Float32Array)]));
    const isSame = areClose(together.data as Float32Array, expected);
    const canJoin = session.canJoin({ x: [1, ...row] }, rows);
    await session.release();
    if (canJoin && !isSame) throw new Error(`joined rows are not as alone: ${repro}, rows ${rows.join()}`);
    if (!canJoin && !isMixing) throw new Error(`not joined: ${repro}, rows ${rows.join()}`);
    if (canJoin) counts.joined++;
    else counts.refused++;
    if (!isSame) counts.different++;
  }
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(counts.joined).toBeGreaterThan(ROUNDS / 4);
  // Without a proof these would have come out wrong.
  expect(counts.different).toBeGreaterThan(0);
}, 120_000);

function areClose(actual: Float32Array, expected: Float32Array): boolean {
  const isClose = (element: number, i: number) =>
    Object.is(element, expected[i]) ||
    Math.abs(element - expected[i]!) <= TOLERANCE * (1 + Math.abs(expected[i]!));
  return actual.length === expected.length && actual.every(isClose);
}

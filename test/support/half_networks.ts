/** Small networks in the shapes of well-known ones, as PyTorch exports them, for sessions in halves. */
import { FLOAT16, nearestBits } from '../../lib/tensor/small_floats';
import { float, node, onnxModel, tensor, value } from './onnx_builder';
import { Random } from './random';

type Attributes = Parameters<typeof node>[3];

/** Writes a network node by node; tensors are known by their names. */
export class NetworkWriter {
  readonly #nodes: ReturnType<typeof node>[] = [];
  readonly #initializers: ReturnType<typeof tensor>[] = [];
  readonly #random: Random;

  /** @param type - of the input, and of constants that are reals */
  constructor(
    seed = 1,
    private readonly type: 'float32' | 'float16' = 'float32',
  ) {
    this.#random = new Random(seed);
  }

  add(operator: string, inputs: readonly string[], attributes: Attributes = {}, outputs = 1): string {
    const name = `t${this.#nodes.length}`;
    const names = Array.from({ length: outputs }, (_, i) => (i === 0 ? name : `${name}_${i}`));
    this.#nodes.push(node(operator, inputs, names, attributes, { name: `${operator} ${name}` }));
    return name;
  }

  /** Reals that keep the size of what so many of them are summed with. */
  reals(dims: readonly number[], summed = 3): string {
    const scale = Math.sqrt(3 / summed);
    const count = dims.reduce((product, extent) => product * extent, 1);
    return this.constant(
      dims,
      Float32Array.from({ length: count }, () => scale * (2 * this.#random.uniform() - 1)),
    );
  }

  constant(dims: readonly number[], elements: ArrayLike<number>): string {
    const name = `w${this.#initializers.length}`;
    const stored =
      this.type === 'float32' ? elements : Array.from(elements, (one) => nearestBits(one, FLOAT16));
    this.#initializers.push(tensor(name, dims, stored, this.type));
    return name;
  }

  integers(...elements: number[]): string {
    const name = `w${this.#initializers.length}`;
    this.#initializers.push(tensor(name, [elements.length], elements.map(BigInt), 'int64'));
    return name;
  }

  conv(
    input: string,
    channels: number,
    filters: number,
    window = 1,
    { stride = 1, groups = 1, pad = window >> 1 } = {},
  ): string {
    const depth = channels / groups;
    const weight = this.reals([filters, depth, window, window], depth * window * window);
    return this.add('Conv', [input, weight, this.reals([filters], 30)], {
      strides: [stride, stride],
      pads: [pad, pad, pad, pad],
      group: groups,
    });
  }

  relu(input: string): string {
    return this.add('Relu', [input]);
  }

  sum(a: string, b: string): string {
    return this.add('Add', [a, b]);
  }

  product(a: string, b: string): string {
    return this.add('Mul', [a, b]);
  }

  concat(...inputs: string[]): string {
    return this.add('Concat', inputs, { axis: 1 });
  }

  transpose(input: string, ...perm: number[]): string {
    return this.add('Transpose', [input], { perm });
  }

  /** Scale, shift, mean and variance by channel, which nothing before it takes. */
  normalised(input: string, channels: number): string {
    const ones = this.constant([channels], new Float32Array(channels).fill(1));
    const statistics = [this.reals([channels]), this.reals([channels]), this.reals([channels]), ones];
    return this.add('BatchNormalization', [input, ...statistics]);
  }

  model(dims: readonly number[], outputs: readonly string[]): Uint8Array {
    return onnxModel({
      inputs: [value('x', dims, this.type)],
      initializers: this.#initializers,
      nodes: this.#nodes,
      outputs: outputs.map((name) => value(name)),
    });
  }
}

export interface HalfNetwork {
  readonly model: Uint8Array;
  readonly dims: readonly number[];
}

type Write = (x: NetworkWriter) => string | readonly string[];

function network(dims: readonly number[], write: Write, type?: 'float16'): HalfNetwork {
  const x = new NetworkWriter(1, type);
  const outputs = write(x);
  return { dims, model: x.model(dims, typeof outputs === 'string' ? [outputs] : outputs) };
}

function classifier(x: NetworkWriter, input: string, channels: number): string {
  const pooled = x.add('Flatten', [x.add('GlobalAveragePool', [input])]);
  return x.add('Gemm', [pooled, x.reals([channels, 5], channels), x.reals([5])]);
}

const IMAGES = [2, 3, 13, 14] as const;

const resnet: Write = (x) => {
  const stem = x.relu(x.conv('x', 3, 16, 7, { stride: 2 }));
  let last = x.add('MaxPool', [stem], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  for (let block = 0; block < 3; block++) {
    const inner = x.relu(x.conv(x.relu(x.conv(last, 16, 8)), 8, 8, 3));
    last = x.relu(x.sum(x.conv(inner, 8, 16), last));
  }
  return [classifier(x, last, 16), last];
};

const vgg = (x: NetworkWriter): string => {
  const maps = x.relu(x.conv(x.relu(x.conv('x', 3, 16, 3)), 16, 24, 3));
  const pooled = x.add('MaxPool', [maps], { kernel_shape: [4, 4], strides: [4, 4] });
  const dense = (input: string, features: number, made: number) =>
    x.add('Gemm', [input, x.reals([made, features], features), x.reals([made])], { transB: 1 });
  const hidden = x.relu(dense(x.add('Flatten', [pooled]), 24 * 3 * 3, 32));
  const weight = x.reals([32, 16], 32);
  return dense(x.relu(x.sum(x.add('MatMul', [hidden, weight]), x.reals([16]))), 16, 5);
};

export const HALF_NETWORKS: Readonly<Record<string, HalfNetwork>> = {
  resnet: network(IMAGES, (x) => resnet(x)[0]!),

  vgg: network(IMAGES, vgg),

  'vgg of one image': network([1, 3, 13, 14], vgg),

  mobilenet: network(IMAGES, (x) => {
    const clip = (input: string) => x.add('Clip', [input, x.constant([], [0]), x.constant([], [6])]);
    let last = clip(x.conv('x', 3, 20, 3, { stride: 2 }));
    for (let block = 0; block < 2; block++) {
      const wide = clip(x.conv(last, 20, 40));
      const deep = clip(x.conv(wide, 40, 40, 3, { groups: 40 }));
      last = x.sum(x.conv(deep, 40, 20), last);
    }
    return classifier(x, last, 20);
  }),

  efficientnet: network(IMAGES, (x) => {
    const silu = (input: string) => x.product(input, x.add('Sigmoid', [input]));
    const wide = silu(x.conv('x', 3, 24, 3));
    const deep = silu(x.conv(wide, 24, 24, 5, { groups: 24, stride: 2 }));
    const squeezed = silu(x.conv(x.add('GlobalAveragePool', [deep]), 24, 6));
    const gate = x.add('Sigmoid', [x.conv(squeezed, 6, 24)]);
    return classifier(x, x.conv(x.product(deep, gate), 24, 16), 16);
  }),

  'mobilenet with gates': network(IMAGES, (x) => {
    const gate = { alpha: float(1 / 6), beta: float(0.5) };
    let last = x.add('HardSwish', [x.conv('x', 3, 20, 3, { stride: 2 })]);
    for (let block = 0; block < 2; block++) {
      const deep = x.relu(x.conv(x.relu(x.conv(last, 20, 44)), 44, 44, 3, { groups: 44 }));
      const squeezed = x.relu(x.conv(x.add('GlobalAveragePool', [deep]), 44, 12));
      const gated = x.product(x.add('HardSigmoid', [x.conv(squeezed, 12, 44)], gate), deep);
      last = x.sum(x.conv(gated, 44, 20), last);
    }
    return classifier(x, last, 20);
  }),

  densenet: network(IMAGES, (x) => {
    const parts = [x.relu(x.conv('x', 3, 32, 3))];
    for (let layer = 0; layer < 3; layer++) {
      const channels = 32 + 16 * layer;
      const joined = parts.length === 1 ? parts[0]! : x.concat(...parts);
      const inner = x.relu(x.conv(x.relu(x.normalised(joined, channels)), channels, 24));
      parts.push(x.conv(inner, 24, 16, 3));
    }
    const last = x.conv(x.relu(x.normalised(x.concat(...parts), 80)), 80, 40);
    return classifier(x, x.add('AveragePool', [last], { kernel_shape: [2, 2], strides: [2, 2] }), 40);
  }),

  shufflenet: network(IMAGES, (x) => {
    let last = x.relu(x.conv('x', 3, 20, 3));
    for (let unit = 0; unit < 2; unit++) {
      const left = x.add('Split', [last], { axis: 1 }, 2);
      const inner = x.conv(x.relu(x.conv(`${left}_1`, 10, 10)), 10, 10, 3, { groups: 10 });
      const joined = x.concat(left, x.relu(x.conv(inner, 10, 10)));
      const grouped = x.add('Reshape', [joined, x.integers(2, 2, 10, 13, 14)]);
      last = x.add('Reshape', [x.transpose(grouped, 0, 2, 1, 3, 4), x.integers(2, 20, 13, 14)]);
    }
    return classifier(x, last, 20);
  }),

  'shufflenet of one image': network([1, 3, 8, 8], (x) => {
    let last = x.relu(x.conv('x', 3, 32, 3));
    for (let unit = 0; unit < 2; unit++) {
      const left = x.add('Split', [last], { axis: 1 }, 2);
      const joined = x.concat(left, x.relu(x.conv(`${left}_1`, 16, 16, 3)));
      const grouped = x.add('Reshape', [joined, x.integers(1, 2, 16, 8, 8)]);
      last = x.add('Reshape', [x.transpose(grouped, 0, 2, 1, 3, 4), x.integers(1, 32, 8, 8)]);
    }
    return classifier(x, last, 32);
  }),

  convnext: network([2, 3, 12, 16], (x) => {
    const rows = (input: string, channels: number) =>
      x.add('LayerNormalization', [input, x.reals([channels]), x.reals([channels])], { axis: -1 });
    const stem = x.transpose(x.conv('x', 3, 16, 4, { stride: 4, pad: 0 }), 0, 2, 3, 1);
    let last = x.transpose(rows(stem, 16), 0, 3, 1, 2);
    for (let block = 0; block < 2; block++) {
      const deep = rows(x.transpose(x.conv(last, 16, 16, 7, { groups: 16 }), 0, 2, 3, 1), 16);
      const wide = x.sum(x.add('MatMul', [deep, x.reals([16, 64], 16)]), x.reals([64]));
      const normal = x.add('Erf', [x.add('Div', [wide, x.constant([], [Math.SQRT2])])]);
      const doubled = x.product(wide, x.sum(normal, x.constant([], [1])));
      const gated = x.product(doubled, x.constant([], [0.5]));
      const narrow = x.sum(x.add('MatMul', [gated, x.reals([64, 16], 64)]), x.reals([16]));
      last = x.sum(last, x.product(x.transpose(narrow, 0, 3, 1, 2), x.reals([16, 1, 1])));
    }
    return classifier(x, last, 16);
  }),

  inception: network(IMAGES, (x) => {
    let last = x.relu(x.conv('x', 3, 16, 3));
    for (let block = 0; block < 2; block++) {
      const channels = block === 0 ? 16 : 64;
      const pooled = x.add('MaxPool', [last], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] });
      last = x.concat(
        x.relu(x.conv(last, channels, 16)),
        x.relu(x.conv(x.relu(x.conv(last, channels, 8)), 8, 24, 3)),
        x.relu(x.conv(pooled, channels, 24)),
      );
    }
    return classifier(x, last, 64);
  }),

  'unet with outputs on the way': network([2, 3, 12, 8], (x) => {
    const top = x.relu(x.conv('x', 3, 16, 3));
    const bottom = x.relu(x.conv(top, 16, 32, 3, { stride: 2 }));
    const sizes = ['', '', x.integers(2, 32, 12, 8)];
    const resized = x.add('Resize', [bottom, ...sizes], { mode: 'linear' });
    const weight = x.reals([32, 16, 2, 2], 32);
    const transposed = x.add('ConvTranspose', [bottom, weight, x.reals([16])], { strides: [2, 2] });
    const joined = x.concat(top, resized, transposed);
    return [x.conv(joined, 64, 5, 3), bottom, x.add('Softmax', [x.conv(joined, 64, 4)], { axis: 1 })];
  }),

  'detector of crossing stages': network([1, 3, 16, 16], (x) => {
    const silu = (input: string) => x.product(input, x.add('Sigmoid', [input]));
    const first = silu(x.conv('x', 3, 32, 3, { stride: 2 }));
    const left = x.add('Split', [first], { axis: 1 }, 2);
    const inner = x.sum(`${left}_1`, silu(x.conv(silu(x.conv(`${left}_1`, 16, 16, 3)), 16, 16, 3)));
    const joined = silu(x.conv(x.concat(left, `${left}_1`, inner), 48, 32));
    const sizes = ['', x.constant([4], [1, 1, 2, 2])];
    const nearest = { mode: 'nearest', coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' };
    const larger = x.add('Resize', [joined, ...sizes], nearest);
    const head = x.conv(x.concat(larger, silu(x.conv('x', 3, 16, 3))), 48, 6);
    return x.transpose(x.add('Reshape', [head, x.integers(1, 2, 3, 16, 16)]), 0, 1, 3, 4, 2);
  }),

  'read by many': network(IMAGES, (x) => {
    const maps = x.relu(x.conv('x', 3, 12, 3));
    const cut = [x.integers(0, 1), x.integers(9, 12), x.integers(1, 2)] as const;
    const sliced = x.add('Slice', [maps, ...cut]);
    const odd = x.add('Slice', [
      maps,
      x.integers(1, 2),
      x.integers(13, 14),
      x.integers(2, 3),
      x.integers(2, 3),
    ]);
    const grown = x.add('Pad', [maps, x.integers(0, 0, 1, 2, 0, 0, 1, 2)]);
    const powers = x.add('ReduceMean', [maps], { axes: [1], keepdims: 1 });
    return [
      x.conv(sliced, 9, 8),
      x.relu(x.conv(odd, 12, 4)),
      x.conv(grown, 12, 4, 3),
      x.sum(maps, powers),
      x.add('Softmax', [maps], { axis: 1 }),
      x.add('Flatten', [maps]),
    ];
  }),

  'grouped and dilated': network(IMAGES, (x) => {
    const maps = x.relu(x.conv('x', 3, 24, 3));
    const grouped = x.relu(x.conv(maps, 24, 48, 3, { groups: 4 }));
    const multiplied = x.conv(grouped, 48, 96, 3, { groups: 48, stride: 2 });
    return classifier(x, x.relu(x.conv(multiplied, 96, 7)), 7);
  }),

  'channels last in the model': network([2, 13, 14, 3], (x) => {
    let last = 'x';
    for (const [channels, filters] of [
      [3, 16],
      [16, 24],
    ] as const) {
      const maps = x.relu(x.conv(x.transpose(last, 0, 3, 1, 2), channels, filters, 3));
      last = x.sum(x.transpose(maps, 0, 2, 3, 1), x.reals([filters]));
    }
    return last;
  }),
};

/** Whose input, filters and outputs are float16 */
export const RESNET_OF_FLOAT16 = network(IMAGES, resnet, 'float16');

/** Networks of convolutions and functions of single elements behind them, over `x`, [N, 4, H, W]. */
import { node, onnxModel, tensor, value } from './onnx_builder';
import { Random } from './random';

export type Nodes = ReturnType<typeof node>[];

export const CHANNELS = 4;
const reals = (random: Random, count: number) =>
  Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);

/** A network of `x`, [N, 4, H, W], with a few constants to choose from. */
export function modelOf(
  nodes: Nodes,
  outputs: readonly string[],
  shape: (string | number)[] = ['N', 4, 'H', 'W'],
) {
  const random = new Random(1);
  const initializers = [
    tensor('w', [4, 4, 3, 3], reals(random, 144)),
    tensor('v', [4, 4, 1, 1], reals(random, 16)),
    tensor('m', [4, 4], reals(random, 16)),
    tensor('bias', [4], reals(random, 4)),
    tensor('mean', [4], reals(random, 4)),
    tensor('variance', [4], [1, 2, 3, 4]),
    tensor('channels', [1, 4, 1, 1], reals(random, 4)),
    tensor('others', [4, 1, 1], reals(random, 4)),
    tensor('half', [], [0.5]),
    tensor('three', [1], [3]),
    tensor('zero', [], [0]),
    tensor('six', [], [6]),
    tensor('two', [], [2]),
  ];
  return onnxModel({
    inputs: [value('x', shape)],
    initializers,
    nodes,
    outputs: outputs.map((name) => value(name)),
  });
}

export const conv = (x: string, y: string, w = 'w') =>
  node('Conv', [x, w], [y], w === 'w' ? { pads: [1, 1, 1, 1] } : {});
export const norm = (x: string, y: string) =>
  node('BatchNormalization', [x, 'bias', 'bias', 'mean', 'variance'], [y]);
/** x * clip(x + 3, 0, 6) / 6 */
export const hardSwish = (x: string, y: string) => [
  node('Add', [x, 'three'], [`${y}a`]),
  node('Clip', [`${y}a`, 'zero', 'six'], [`${y}b`]),
  node('Mul', [x, `${y}b`], [`${y}c`]),
  node('Div', [`${y}c`, 'six'], [y]),
];

/** Each node reads one or two of the last four values before it, mostly the last. */
export function randomNodes(random: Random): { nodes: Nodes; output: string } {
  const names = ['x'];
  const pick = () => names[Math.max(0, names.length - (random.chance(0.8) ? 1 : random.integer(2, 4)))]!;
  const constants = ['channels', 'others', 'half', 'three'];
  const make: ((y: string) => Nodes)[] = [
    (y) => [conv(pick(), y)],
    (y) => [conv(pick(), y, 'v')],
    (y) => [norm(pick(), y)],
    (y) => hardSwish(pick(), y),
    (y) => [node(['Relu', 'Sigmoid', 'Tanh', 'Exp'][random.integer(0, 3)]!, [pick()], [y])],
    (y) => [node(['Add', 'Mul', 'Sub'][random.integer(0, 2)]!, [pick(), pick()], [y])],
    (y) => [
      node(['Add', 'Mul', 'Max'][random.integer(0, 2)]!, [constants[random.integer(0, 3)]!, pick()], [y]),
    ],
    (y) => [node('GlobalAveragePool', [pick()], [y])],
    (y) => [node('Pow', [pick(), 'two'], [y])],
  ];
  const count = random.integer(3, 14);
  const nodes: Nodes = [];
  for (let i = 0; i < count; i++) {
    nodes.push(...make[random.integer(0, make.length - 1)]!(`t${i}`));
    names.push(`t${i}`);
  }
  return { nodes, output: names.at(-1)! };
}

/** @param least - of height and width */
export function randomDims(random: Random, least: number): number[] {
  return [random.integer(1, 3), CHANNELS, random.integer(least, 4), random.integer(least, 4)];
}

/** Nodes that are lowered at once come to what they come to one by one. */
import { Chain } from '../../../lib/model/chain';
import { Chains } from '../../../lib/model/chains';
import { compile, type Compiled } from '../../../lib/model/compile';
import { Constants } from '../../../lib/model/constants';
import type { Graph } from '../../../lib/model/graph';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { mapBuffers } from '../../../lib/model/steps';
import {
  conv,
  hardSwish,
  modelOf,
  norm,
  randomDims,
  randomNodes,
  type Nodes,
} from '../../support/chained_networks';
import { node } from '../../support/onnx_builder';
import { Random } from '../../support/random';

const bind = (dims: readonly number[]) => ({ dims: new Map([['x', dims]]), constants: new Map() });
const content = ({ program, steps, outputs }: Compiled) => ({
  program,
  nodes: steps.map(({ nodes }) => nodes),
  outputs,
});

class Session {
  readonly constants: Constants;
  readonly chains: Chains;

  readonly graph: Graph;

  constructor(model: Uint8Array) {
    this.graph = parseOnnx(model);
    this.constants = new Constants(this.graph.constants.values());
    this.chains = new Chains(this.constants);
  }

  async compile(dims: readonly number[]) {
    return content(await compile(this.graph, bind(dims), 'auto', this.constants, this.chains));
  }

  alone = async (dims: readonly number[]) => content(await compile(this.graph, bind(dims)));

  /** How many nodes each chain has. */
  async lengths() {
    const units = await this.chains.unitsOf(this.constants.unfixed(this.graph.nodes));
    return units.filter((unit) => unit instanceof Chain).map(({ nodes }) => nodes.length);
  }
}

const NETWORKS: Record<string, [nodes: Nodes, outputs: string[], chains: number[]]> = {
  'a normalised convolution with an activation': [
    [conv('x', 'a'), norm('a', 'b'), ...hardSwish('b', 'y')],
    ['y'],
    [6],
  ],
  'what is left of a chain behind its convolution': [
    [conv('x', 'a'), norm('a', 'b'), ...hardSwish('b', 'c'), node('Mul', ['c', 'channels'], ['y'])],
    ['y'],
    [7],
  ],
  'a residual': [
    [
      conv('x', 'a'),
      node('Relu', ['a'], ['b']),
      conv('b', 'c'),
      norm('c', 'd'),
      node('Add', ['d', 'b'], ['e']),
    ],
    ['e'],
    [2, 3],
  ],
  'functions of single elements': [
    [...hardSwish('x', 'a'), node('Mul', ['a', 'others'], ['b']), node('Sub', ['b', 'half'], ['y'])],
    ['y'],
    [6],
  ],
  'a gate by channel': [
    [
      node('GlobalAveragePool', ['x'], ['p']),
      conv('p', 'q', 'v'),
      node('Sigmoid', ['q'], ['r']),
      node('Mul', ['x', 'r'], ['s']),
      node('Tanh', ['s'], ['y']),
    ],
    ['y'],
    [2, 2],
  ],
  'a product with a row and a scaled sigmoid': [
    [
      node('MatMul', ['x', 'm'], ['a']),
      node('Add', ['a', 'bias'], ['b']),
      node('Mul', ['b', 'three'], ['c']),
      node('Sigmoid', ['c'], ['d']),
      node('Mul', ['b', 'd'], ['y']),
    ],
    ['y'],
    [5],
  ],
  'a square': [[conv('x', 'a'), node('Pow', ['a', 'two'], ['b']), node('Exp', ['b'], ['y'])], ['y'], [2]],
};

const DIMS = [
  [1, 4, 6, 4],
  [2, 4, 6, 4],
  [1, 4, 1, 4],
  [3, 4, 5, 4],
  [1, 4, 6, 4],
];

test.each(Object.entries(NETWORKS))('%s', async (_, [nodes, outputs, lengths]) => {
  const session = new Session(modelOf(nodes, outputs));
  for (const dims of DIMS) expect(await session.compile(dims)).toEqual(await session.alone(dims));
  expect(await session.lengths()).toEqual(lengths);
});

test('a chain found where nothing is repeated is not taken where something is', async () => {
  const nodes = [
    node('GlobalAveragePool', ['x'], ['p']),
    node('Tanh', ['p'], ['q']),
    node('Exp', ['q'], ['r']),
    node('Mul', ['x', 'r'], ['y']),
  ];
  const session = new Session(modelOf(nodes, ['y']));
  await session.compile([1, 4, 1, 1]);
  expect(await session.lengths()).toEqual([3]);
  for (const dims of [...DIMS, [1, 4, 1, 1]]) {
    expect(await session.compile(dims)).toEqual(await session.alone(dims));
  }
  // The two before the product, which have fewer elements than it.
  expect(await session.lengths()).toEqual([2]);
});

test('what others need keeps its node', async () => {
  const shape = node('Shape', ['a'], ['s']);
  const nodes = [conv('x', 'a'), shape, node('Relu', ['a'], ['b']), node('Reshape', ['b', 's'], ['y'])];
  const session = new Session(modelOf(nodes, ['y']));
  for (const dims of DIMS) expect(await session.compile(dims)).toEqual(await session.alone(dims));
  expect(await session.lengths()).toEqual([]);

  const asOutput = new Session(modelOf([conv('x', 'a'), node('Relu', ['a'], ['y'])], ['a', 'y']));
  for (const dims of DIMS) expect(await asOutput.compile(dims)).toEqual(await asOutput.alone(dims));
  expect(await asOutput.lengths()).toEqual([]);
});

test('a node of many steps goes into no chain', async () => {
  const terms = Array.from({ length: 400 }, (_, i) => `r${i}`);
  const nodes = [
    ...terms.map((term) => node('Relu', ['x'], [term])),
    node('Sum', terms, ['s']),
    node('Relu', ['s'], ['y']),
  ];
  const session = new Session(modelOf(nodes, ['y']));
  for (const dims of DIMS) expect(await session.compile(dims)).toEqual(await session.alone(dims));
  expect(await session.lengths()).toEqual([]);
});

test('numbers that follow from the dims go into no chain', async () => {
  const nodes = [
    node('Size', ['x'], ['n']),
    node('Cast', ['n'], ['f'], { to: 1 }),
    node('Div', ['x', 'f'], ['a']),
    node('Relu', ['a'], ['y']),
  ];
  const session = new Session(modelOf(nodes, ['y']));
  for (const dims of DIMS) expect(await session.compile(dims)).toEqual(await session.alone(dims));
  expect(await session.lengths()).toEqual([]);
});

test('a normalisation of one channel is refused for more', async () => {
  const nodes = [
    node('BatchNormalization', ['x', 'three', 'three', 'three', 'three'], ['a']),
    node('Relu', ['a'], ['y']),
  ];
  const session = new Session(modelOf(nodes, ['y'], ['N', 'C', 'H', 'W']));
  await session.compile([1, 1, 2, 2]);
  await expect(session.compile([1, 5, 2, 2])).rejects.toThrow(/one element a channel/);
  expect(await session.lengths()).toEqual([]);
});

test('a bound that a run brings is taken by itself', async () => {
  const nodes = [
    node('ReduceMax', ['x'], ['bound'], { keepdims: 0 }),
    node('Clip', ['x', 'zero', 'bound'], ['a']),
    node('Relu', ['a'], ['y']),
  ];
  const session = new Session(modelOf(nodes, ['y']));
  for (const dims of DIMS) expect(await session.compile(dims)).toEqual(await session.alone(dims));
  expect(await session.lengths()).toEqual([]);
});

test('what cannot be broadcast is refused by the name of its node', async () => {
  const nodes = [node('Relu', ['x'], ['a']), node('Add', ['a', 'channels'], ['y'])];
  const session = new Session(modelOf(nodes, ['y'], ['N', 'C', 'H', 'W']));
  await session.compile([1, 4, 2, 2]);
  await expect(session.compile([1, 3, 2, 2])).rejects.toThrow(/broadcast/);
  expect(await session.compile([1, 1, 2, 2])).toEqual(await session.alone([1, 1, 2, 2]));
  expect(await session.compile([2, 4, 3, 3])).toEqual(await session.alone([2, 4, 3, 3]));
});

const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? 1);

/** Where a chain stands as a whole, its convolution comes later than by itself. */
const inAnyOrder = ({ program, nodes, outputs }: Awaited<ReturnType<Session['compile']>>) => ({
  outputs,
  steps: program.steps
    .map((step, i) =>
      JSON.stringify([nodes[i], mapBuffers(step, ({ space }) => (space === 'constant' ? 1 : 0))]),
    )
    .sort(),
});

test('networks at random', async () => {
  let chained = 0;
  for (let seed = firstSeed; seed < firstSeed + 300; seed++) {
    const random = new Random(seed);
    const { nodes, output } = randomNodes(random);
    const session = new Session(modelOf(nodes, [output]));
    for (let i = 0; i < 5; i++) {
      // Of maps of one element, which may be fused with what has been one for each map, more can become of a chain.
      const dims = randomDims(random, 2);
      const [some, alone] = [await session.compile(dims), await session.alone(dims)];
      const place = `WARPCONV_FUZZ_SEED=${seed}, dims [${dims.join()}]`;
      expect({ place, ...inAnyOrder(some) }).toEqual({ place, ...inAnyOrder(alone) });
    }
    chained += (await session.lengths()).length;
  }
  expect(chained).toBeGreaterThan(200);
});

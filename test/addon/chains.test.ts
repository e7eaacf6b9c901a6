/** A network gives for dims that come later what it gives for them alone. Set WARPCONV_FUZZ_SEED to repeat a failure. */
import { InferenceSession, Tensor } from '../../lib';
import { modelOf, randomDims, randomNodes } from '../support/chained_networks';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, subgraph, tensor, value, type OnnxModel } from '../support/onnx_builder';
import { Random } from '../support/random';

const NETWORKS = 150;
const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? 1);

async function run(session: InferenceSession, output: string, dims: readonly number[]) {
  const random = new Random(dims.join().length);
  const size = dims.reduce((product, extent) => product * extent, 1);
  const x = new Tensor(
    'float32',
    Float32Array.from({ length: size }, () => 2 * random.uniform() - 1),
    dims,
  );
  const outputs = await session.run({ x });
  return outputs[output]! as Tensor<'float32'>;
}

/** Apart by rounding: with other tensors in between, other factors go into filters. */
function differ(a: Float32Array, b: Float32Array): boolean {
  return a.some((one, i) => {
    const other = b[i]!;
    return !Object.is(one, other) && !(Math.abs(one - other) <= 1e-4 * Math.max(1, Math.abs(other)));
  });
}

test('networks at random, for many dims one after the other', async () => {
  for (let seed = firstSeed; seed < firstSeed + NETWORKS; seed++) {
    const random = new Random(seed);
    const { nodes, output } = randomNodes(random);
    const model = modelOf(nodes, [output]);
    await using session = await InferenceSession.create(model, { device: TEST_DEVICE });
    for (let i = 0; i < 4; i++) {
      const dims = randomDims(random, 1);
      await using alone = await InferenceSession.create(model, { device: TEST_DEVICE });
      const [some, expected] = [await run(session, output, dims), await run(alone, output, dims)];
      const isWrong = differ(some.data, expected.data);
      expect({ seed, dims, ofOutput: some.dims, isWrong }).toEqual({
        seed,
        dims,
        ofOutput: expected.dims,
        isWrong: false,
      });
    }
  }
}, 120_000);

describe('What is the same for some dims alone', () => {
  const int64 = (name: string, ...list: number[]) => tensor(name, [list.length], list, 'int64');
  const square = (n: number) => Array.from({ length: n * n }, (_, i) => (i % 2 === 0 ? i : -i));

  /** Runs with squares of these extents, one after the other, and returns the elements of each output. */
  async function runSquares(model: OnnxModel, extents: readonly number[]): Promise<number[][]> {
    const bytes = onnxModel({ opset: 18, inputs: [value('x', ['n', 'n'])], outputs: [value('y')], ...model });
    await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
    const results: number[][] = [];
    for (const n of extents) {
      const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(square(n)), [n, n]) });
      // Which zero it is does not matter here.
      results.push(Array.from(y!.data as Float32Array, (element) => element + 0));
    }
    return results;
  }

  const reversed = [-1, -(2 ** 31), 0, -1].map((element, i) => int64(`r${i}`, element));
  const bySize = (then: OnnxModel, other: OnnxModel): OnnxModel => ({
    initializers: [tensor('one', [], [1], 'int64')],
    nodes: [
      node('Size', ['x'], ['size']),
      node('Greater', ['size', 'one'], ['isMore']),
      node('If', ['isMore'], ['z'], { then_branch: subgraph(then), else_branch: subgraph(other) }),
    ],
  });
  const ofOne = (operator: string): OnnxModel => ({
    nodes: [node(operator, ['x'], ['branch'])],
    outputs: [value('branch')],
  });

  // What each makes of one element is that element's own tensor.
  const twins: [name: string, model: OnnxModel, other: (i: number, n: number) => number][] = [
    [
      'its transpose',
      { nodes: [node('Transpose', ['x'], ['z'])] },
      (i, n) => (i % n) * n + Math.floor(i / n),
    ],
    [
      'its rows in reverse',
      { initializers: reversed, nodes: [node('Slice', ['x', ...reversed.map(({ name }) => name)], ['z'])] },
      (i, n) => (n - 1 - Math.floor(i / n)) * n + (i % n),
    ],
  ];

  test.each(twins)('tensors: x and %s', async (_, { nodes = [], initializers = [] }, other) => {
    const model = {
      initializers: [...initializers, tensor('two', [], [2])],
      nodes: [
        ...nodes,
        node('Mul', ['z', 'two'], ['w']),
        node('Add', ['w', 'x'], ['v']),
        node('Relu', ['v'], ['y']),
      ],
    };
    const extents = [1, 2, 3, 4];
    const expected = extents.map((n) => {
      const x = square(n);
      return x.map((element, i) => Math.max(0, element + 2 * x[other(i, n)]!));
    });
    expect(await runSquares(model, extents)).toEqual(expected);
  });

  test('tensors: x and what a branch gives back', async () => {
    const { nodes = [], initializers } = bySize(ofOne('Neg'), ofOne('Identity'));
    const model = {
      initializers: [...initializers!, tensor('two', [], [2])],
      nodes: [
        ...nodes,
        node('Mul', ['z', 'two'], ['w']),
        node('Sub', ['w', 'x'], ['v']),
        node('Relu', ['v'], ['y']),
      ],
    };
    const expected = [1, 2, 3].map((n) => square(n).map((x) => Math.max(0, n === 1 ? x : -3 * x)));
    expect(await runSquares(model, [1, 2, 3])).toEqual(expected);
  });

  test('constants: of the branch that the dims choose', async () => {
    const constant = (element: number): OnnxModel => ({
      initializers: [tensor('own', [1], [element])],
      nodes: [node('Identity', ['own'], ['branch'])],
      outputs: [value('branch')],
    });
    const { nodes = [], initializers } = bySize(constant(10), constant(20));
    const model = {
      initializers: [...initializers!, tensor('two', [], [2])],
      nodes: [
        ...nodes,
        node('Mul', ['z', 'two'], ['w']),
        node('Add', ['w', 'x'], ['v']),
        node('Relu', ['v'], ['y']),
      ],
    };
    const expected = [1, 2, 1, 3].map((n) => square(n).map((x) => Math.max(0, x + (n === 1 ? 40 : 20))));
    expect(await runSquares(model, [1, 2, 1, 3])).toEqual(expected);
  });

  test('constants: a Resize of one to the dims', async () => {
    const model = {
      initializers: [tensor('c', [1, 1], [7]), tensor('two', [], [2])],
      nodes: [
        node('Shape', ['x'], ['dims']),
        node('Resize', ['c', '', '', 'dims'], ['z']),
        node('Mul', ['z', 'two'], ['y']),
      ],
    };
    const expected = [1, 2, 3].map((n) => square(n).map(() => 14));
    expect(await runSquares(model, [1, 2, 3])).toEqual(expected);
  });
});

/** Loading and compiling let the event loop turn, wherever that may be, and come to the same. */
import type * as Compiling from '../../../lib/model/compile';
import type * as Constants from '../../../lib/model/constants';
import type * as Loading from '../../../lib/model/onnx/load';
import type { Compiled } from '../../../lib/model/compile';
import { node, onnxModel, tensor, typedTensor, value } from '../../support/onnx_builder';
import { Random } from '../../support/random';

let mockTurns = 0;
/** Milliseconds from one look at the clock to the next: by default no slice ever ends. */
let mockStep = 0;
let mockTime = 0;
jest.mock('../../../lib/turn', () => ({
  onNextTurn: (resume: () => void) => {
    mockTurns++;
    setImmediate(resume);
  },
}));
// The clock is taken when the modules load.
jest.spyOn(performance, 'now').mockImplementation(() => (mockTime += mockStep));
const { compile } = jest.requireActual<typeof Compiling>('../../../lib/model/compile');
const { Constants: Session } = jest.requireActual<typeof Constants>('../../../lib/model/constants');
const { loadOnnx, parseOnnx } = jest.requireActual<typeof Loading>('../../../lib/model/onnx/load');

beforeEach(() => {
  mockTurns = 0;
  mockStep = 0;
});
/** From now on every slice ends where it can. */
const sliceFinely = () => (mockStep = 10);

const random = new Random(1);
const reals = (count: number) => Float32Array.from({ length: count }, () => 2 * random.uniform() - 1);

/** Blocks of every kind of work: what is folded, fused, joined, rearranged and resized. */
function blocks(count: number) {
  const initializers = [
    tensor('w', [4, 4, 1, 1], reals(16)),
    ...['s', 'b', 'm'].map((name) => typedTensor(name, [4], reals(4))),
    tensor('v', [4], [1, 2, 3, 4]),
    tensor('t', [4, 4, 2, 2], reals(64)),
    tensor('scales', [4], [1, 1, 2, 2]),
    tensor('grid', [1, 4, 1, 64], reals(256)),
  ];
  const nodes = Array.from({ length: count }, (_, i) => {
    const [x, at] = [i === 0 ? 'x' : `y${i - 1}`, (name: string) => `${name}${i}`];
    return [
      node('Conv', [x, 'w'], [at('c')]),
      node('BatchNormalization', [at('c'), 's', 'b', 'm', 'v'], [at('n')]),
      node('Sin', [at('n')], [at('p')]),
      node('ConvTranspose', [at('p'), 't'], [at('u')], { strides: [2, 2] }),
      node('MaxPool', [at('u')], [at('q')], { kernel_shape: [2, 2], strides: [2, 2] }),
      node('Resize', [at('q'), '', 'scales'], [at('r')], { mode: 'linear' }),
      node('AveragePool', [at('r')], [at('d')], { kernel_shape: [2, 2], strides: [2, 2] }),
      node('Concat', [at('d'), x], [at('j')], { axis: 1 }),
      node('Softmax', [at('j')], [at('f')]),
      node('Split', [at('f')], [at('a'), at('o')], { axis: 1 }),
      node('Add', ['grid', 'grid'], [at('g')]),
      node('ReduceMax', [at('g')], [at('k')]),
      node('Sum', [at('a'), x, at('k'), at('o')], [`y${i}`]),
    ];
  }).flat();
  const outputs = [value(`y${count - 1}`)];
  return onnxModel({ inputs: [value('x', ['N', 4, 4, 4])], initializers, nodes, outputs });
}

const bind = (n: number) => ({ dims: new Map([['x', [n, 4, 4, 4]]]), constants: new Map() });
/** All that a run depends on. */
const content = ({ program, steps, inputs, outputs }: Compiled) => ({
  program,
  nodes: steps.map(({ nodes }) => nodes),
  inputs,
  outputs,
});

test('a long network is compiled in many turns, and a short one in one', async () => {
  const [long, short] = [parseOnnx(blocks(100)), parseOnnx(blocks(1))];
  // With a slice a millisecond long, some 50 yields.
  mockStep = 0.02;
  await compile(long, bind(1));
  const yields = 50 * mockTurns;
  expect(yields).toBeGreaterThan(3 * long.nodes.length);
  mockTurns = 0;
  mockStep = 0.002;
  mockTime += 100;
  await compile(short, bind(1));
  expect(mockTurns).toBe(0);
});

test('compilations that overlap at every node come to what each does alone', async () => {
  const graph = parseOnnx(blocks(3));
  const rows = [1, 2, 3, 1];
  const alone = await Promise.all(rows.map((n) => compile(graph, bind(n))));
  expect(mockTurns).toBe(0);
  sliceFinely();
  const constants = new Session(graph.constants.values());
  const together = await Promise.all(rows.map((n) => compile(graph, bind(n), 'auto', constants)));
  expect(mockTurns).toBeGreaterThan(rows.length * graph.nodes.length);
  expect(together.map(content)).toEqual(alone.map(content));
  const shared = together.map(({ program: { constants: list, sharedConstants } }) =>
    list.filter((_, i) => sharedConstants[i]),
  );
  expect(new Set(shared.flat()).size).toBe(shared[0]!.length);
});

describe('a model that is loaded in many turns', () => {
  // More bytes than are copied at once.
  const COUNT = 300_000;
  const large = onnxModel({
    inputs: [value('x', [COUNT])],
    initializers: [
      tensor('odd', [COUNT], reals(COUNT)),
      typedTensor('numbers', [3000], new Array<number>(3000).fill(-7), 'int32'),
      tensor('flags', [2 ** 17], new Uint8Array(2 ** 17).fill(1), 'bool'),
    ],
    nodes: [node('Add', ['x', 'odd'], ['y'])],
    outputs: [value('y')],
  });

  test.each([
    ['of many nodes', blocks(20)],
    ['of many elements', large],
  ])('%s, is the one that is loaded at once', async (_, file) => {
    const atOnce = parseOnnx(file);
    expect(mockTurns).toBe(0);
    sliceFinely();
    expect(await loadOnnx(file)).toEqual(atOnce);
    expect(mockTurns).toBeGreaterThan(5);
  });

  test('is refused where its bytes are transferred away in the meantime', async () => {
    const bytes = new Uint8Array(large);
    sliceFinely();
    const loading = loadOnnx(bytes);
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    await expect(loading).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining('while it was read') as string,
    });
  });
});

/** What is made of a network's constants alone is made once, for all dims of its inputs. */
import { compile, type Compiled } from '../../../lib/model/compile';
import { Constants } from '../../../lib/model/constants';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { node, onnxModel, tensor, value, type OnnxModel } from '../../support/onnx_builder';

describe('a memory of what was made', () => {
  test('calls once for each key, and again after a failure', () => {
    const constants = new Constants([]);
    const [a, b] = [{}, {}];
    const make = jest.fn(() => ({}));
    const first = constants.once([a, 'x'], make);
    expect(constants.once([a, 'x'], make)).toBe(first);
    const others = [[b, 'x'], [a, 'y'], [a], [a, 'x', 0], [a, 'x', -0], [a, 'x', '0'], ['#0', 'x']];
    const made = others.map((key) => constants.once(key, make));
    expect(new Set([first, ...made]).size).toBe(others.length + 1);
    const fail = () => {
      throw new Error('first');
    };
    expect(() => constants.once([b], fail)).toThrow('first');
    expect(constants.once([b], () => 1)).toBe(1);
    expect(constants.once<unknown>(['none'], () => undefined)).toBeUndefined();
    expect(constants.once<unknown>(['none'], make)).toBeUndefined();
  });

  test('tells filters in one array apart by their places', async () => {
    const constants = new Constants([]);
    const data = Float32Array.of(1, 2, 3, 4, 0, 0, -8, 5);
    const places = [
      { data, first: 0, count: 2, size: 2 },
      { data, first: 0, count: 1, size: 4 },
      { data, first: 4, count: 2, size: 2 },
      { data: data.subarray(4), first: 0, count: 1, size: 4 },
    ];
    expect(places.map((filters) => constants.rangesOf(filters))).toEqual(places.map(() => undefined));
    await Promise.all([constants.findRanges(places), constants.findRanges(places.slice(2))]);
    const found = places.map((filters) => constants.rangesOf(filters)!);
    expect(found.map((ranges) => [...ranges])).toEqual([
      [2, 1, 4, 3],
      [4, 1],
      [0, Infinity, 8, 5],
      [8, 5],
    ]);
    await constants.findRanges(places);
    places.forEach((filters, i) => expect(constants.rangesOf(filters)).toBe(found[i]));
  });
});

const numbers = (name: string, dims: readonly number[]) => {
  const count = dims.reduce((product, extent) => product * extent, 1);
  return tensor(
    name,
    dims,
    Float32Array.from({ length: count }, (_, i) => 1 + i),
  );
};

/** All kinds of constants: the model's, those made of them by operators and ahead of a run, and one of the input's dims. */
const MODEL: OnnxModel = {
  inputs: [value('x', ['N', 2, 4, 4])],
  initializers: [
    numbers('w', [2, 2, 3, 3]),
    ...['s', 'b', 'm', 'v'].map((name) => numbers(name, [2])),
    numbers('t', [2, 2, 2, 2]),
    numbers('row', [4]),
  ],
  nodes: [
    node('Conv', ['x', 'w'], ['c'], { pads: [1, 1, 1, 1] }),
    node('BatchNormalization', ['c', 's', 'b', 'm', 'v'], ['n']),
    node('Relu', ['n'], ['r']),
    node('ConvTranspose', ['r', 't'], ['u'], { strides: [2, 2] }),
    node('MaxPool', ['u'], ['p'], { kernel_shape: [2, 2], strides: [2, 2] }),
    node('Add', ['row', 'row'], ['doubled']),
    node('Softmax', ['p'], ['q']),
    node('Pow', ['q', 'doubled'], ['g']),
    node('Mean', ['g', 'x', 'r'], ['e']),
    node('Shape', ['x'], ['dims']),
    node('ConstantOfShape', ['dims'], ['filled'], { value: tensor('', [1], [3]) }),
    node('Pow', ['e', 'filled'], ['y']),
  ],
  outputs: [value('y')],
};
const graph = parseOnnx(onnxModel(MODEL));
/** The filters w, their scale and bias; four parts of the filters t; the doubled row; and what the mean divides by. */
const SHARED = 9;

function compileFor(n: number, constants?: Constants): Promise<Compiled> {
  const dims = new Map([['x', [n, 2, 4, 4]]]);
  return compile(graph, { dims, constants: new Map() }, 'auto', constants);
}

function constantsOf({ program }: Compiled, isShared: boolean): ArrayBufferView[] {
  return program.constants.filter((_, i) => program.sharedConstants[i] === isShared);
}

describe('the programs of a session', () => {
  const session = () => new Constants(graph.constants.values());

  test('have the very same constants, but for those that follow from dims', async () => {
    const constants = session();
    const [one, two] = [await compileFor(1, constants), await compileFor(2, constants)];
    const known = new Set(constantsOf(one, true));
    expect(known.size).toBe(SHARED);
    expect(new Set(constantsOf(two, true))).toEqual(known);
    expect(constantsOf(two, true).every((constant) => known.has(constant))).toBe(true);
    expect([one, two].map((all) => constantsOf(all, false).map(({ byteLength }) => byteLength))).toEqual([
      [32 * 4],
      [64 * 4],
    ]);
  });

  test('do without the nodes that make the same for all dims', async () => {
    const constants = session();
    expect(constants.unfixed(graph.nodes)).toEqual(graph.nodes);
    const first = await compileFor(1, constants);
    const left = constants.unfixed(graph.nodes);
    expect(left.length).toBeGreaterThan(0);
    expect(left.length).toBeLessThan(graph.nodes.length);
    const fixed = graph.nodes.filter((one) => !left.includes(one));
    expect(fixed.flatMap(({ outputs }) => outputs).every((name) => constants.fixed(name))).toBe(true);
    expect(left.flatMap(({ outputs }) => outputs).some((name) => constants.fixed(name))).toBe(false);
    const again = await compileFor(1, constants);
    expect(again.program).toEqual(first.program);
    expect(again.steps.map(({ nodes }) => nodes)).toEqual(first.steps.map(({ nodes }) => nodes));
  });

  test('are what they are alone, where their compilations overlap', async () => {
    const constants = session();
    const rows = [1, 2, 3, 2, 1];
    const together = await Promise.all(rows.map((n) => compileFor(n, constants)));
    const alone = await Promise.all(rows.map((n) => compileFor(n)));
    together.forEach(({ program, steps }, i) => {
      expect(program).toEqual(alone[i]!.program);
      expect(steps.map(({ nodes }) => nodes)).toEqual(alone[i]!.steps.map(({ nodes }) => nodes));
    });
    expect(new Set(together.flatMap((all) => constantsOf(all, true))).size).toBe(SHARED);
  });

  test('of different sessions share nothing', async () => {
    const [one, other] = [await compileFor(1, session()), await compileFor(1, session())];
    const made = (all: Compiled) =>
      constantsOf(all, true).filter(({ buffer }) => !session().isOfModel(buffer));
    expect(made(one).length).toBeGreaterThan(0);
    expect(made(other).some((constant) => made(one).includes(constant))).toBe(false);
  });
});

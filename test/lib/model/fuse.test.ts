/** What becomes one step, shown by the steps that are left. Their results are compared in the networks' tests. */
import { compile, type Compiled } from '../../../lib/model/compile';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { float, node, onnxModel, tensor, value, type OnnxModel } from '../../support/onnx_builder';

async function compiled(model: OnnxModel, dims: Record<string, readonly number[]>): Promise<Compiled> {
  const graph = parseOnnx(onnxModel(model));
  return compile(graph, { dims: new Map(Object.entries(dims)), constants: new Map() });
}

const IMAGE = [2, 3, 8, 8];
const image = value('x', IMAGE);
const filters = tensor('w', [3, 3, 3, 3], new Float32Array(81).fill(0.5));
const byChannel = (name: string, ...elements: [number, number, number]) => tensor(name, [3], elements);
const conv = (from: string, to: string) => node('Conv', [from, 'w'], [to], { pads: [1, 1, 1, 1] });

/** The kinds of the steps, and of a convolution what it does besides. */
function outline({ steps }: Compiled): string[] {
  return steps.map(({ step }) => {
    if (step.kind === 'elementwise') return step.code.map(({ operation }) => operation).join('+');
    if (step.kind !== 'convolution') return step.kind;
    const residual = step.residual === null ? '' : '+residual';
    return `convolution${step.bias === null ? '' : '+bias'}${residual}+${step.convolution.activation.name}`;
  });
}

async function outlineOf(
  nodes: OnnxModel['nodes'],
  initializers: OnnxModel['initializers'] = [],
): Promise<string[]> {
  const outputs = [value('y')];
  const model = { inputs: [image], initializers: [filters, ...initializers], nodes, outputs };
  return outline(await compiled(model, { x: IMAGE }));
}

describe('into a convolution', () => {
  test('goes the activation after it', async () => {
    expect(await outlineOf([conv('x', 'c'), node('Relu', ['c'], ['y'])])).toEqual(['convolution+relu']);
  });

  test('goes normalisation, and after it the activation', async () => {
    const norm = ['scale', 'shift', 'mean', 'variance'];
    const nodes = [
      conv('x', 'c'),
      node('BatchNormalization', ['c', ...norm], ['n'], { epsilon: float(0) }),
      node('Clip', ['n', 'low', 'high'], ['y']),
    ];
    const statistics = [
      byChannel('scale', 2, 3, 4),
      byChannel('shift', 1, 1, 1),
      byChannel('mean', 0.5, 1, 2),
      byChannel('variance', 4, 9, 16),
      tensor('low', [], [0]),
      tensor('high', [], [6]),
    ];
    const model = { inputs: [image], initializers: [filters, ...statistics], nodes, outputs: [value('y')] };
    const { steps, program } = await compiled(model, { x: IMAGE });
    expect(outline({ steps } as Compiled)).toEqual(['convolution+bias+clip']);
    // Scale over deviation is 1 everywhere, so the weights stay and the bias is shift - mean.
    const [weight, bias] = program.constants as Float32Array[];
    expect([...new Set(weight)]).toEqual([0.5]);
    expect([...bias!]).toEqual([0.5, 0, -1]);
  });

  test('goes what is added to it, and the activation after that', async () => {
    const nodes = [
      conv('x', 'c'),
      node('Relu', ['c'], ['r']),
      conv('r', 'd'),
      node('Add', ['d', 'r'], ['s']),
      node('Relu', ['s'], ['y']),
    ];
    expect(await outlineOf(nodes)).toEqual(['convolution+relu', 'convolution+residual+relu']);
  });

  test.each([
    ['silu', [node('Sigmoid', ['c'], ['g']), node('Mul', ['c', 'g'], ['y'])]],
    ['silu', [node('Sigmoid', ['c'], ['g']), node('Mul', ['g', 'c'], ['y'])]],
    [
      'hardSwish',
      [
        node('HardSigmoid', ['c'], ['g'], { alpha: float(1 / 6), beta: float(0.5) }),
        node('Mul', ['c', 'g'], ['y']),
      ],
    ],
    [
      'hardSwish',
      [
        node('Add', ['c', 'three'], ['a']),
        node('Clip', ['a', 'zero', 'six'], ['b']),
        node('Mul', ['c', 'b'], ['d']),
        node('Div', ['d', 'six'], ['y']),
      ],
    ],
    [
      'hardSwish',
      [
        node('Add', ['c', 'three'], ['a']),
        node('Clip', ['a', 'zero', 'six'], ['b']),
        node('Div', ['b', 'six'], ['d']),
        node('Mul', ['c', 'd'], ['y']),
      ],
    ],
    [
      'gelu',
      [
        node('Div', ['c', 'root'], ['a']),
        node('Erf', ['a'], ['b']),
        node('Add', ['b', 'one'], ['d']),
        node('Mul', ['c', 'd'], ['e']),
        node('Mul', ['e', 'half'], ['y']),
      ],
    ],
    [
      'gelu',
      [
        node('Mul', ['c', 'half'], ['a']),
        node('Mul', ['c', 'inverse'], ['b']),
        node('Erf', ['b'], ['d']),
        node('Add', ['one', 'd'], ['e']),
        node('Mul', ['a', 'e'], ['y']),
      ],
    ],
  ])('goes %s, which the file has as several nodes', async (name, gate) => {
    const numbers = [
      ...[tensor('zero', [], [0]), tensor('three', [], [3]), tensor('six', [], [6])],
      ...[tensor('half', [], [0.5]), tensor('one', [], [1])],
      ...[tensor('root', [], [Math.SQRT2]), tensor('inverse', [], [Math.SQRT1_2])],
    ];
    expect(await outlineOf([conv('x', 'c'), ...gate], numbers)).toEqual([`convolution+${name}`]);
  });

  test.each([
    ['Reshape', [4, 4], 'Add', [4], 'convolution+none', 'add'],
    ['Squeeze', [0], 'Mul', [4, 1], 'convolution+none', 'multiply'],
    ['Reshape', [1, 4, 8], 'Mul', [4, 1], 'convolution+bias+none'],
  ] as const)(
    'after %s to %j goes %s of %j only by channel',
    async (view, to, operator, dims, ...expected) => {
      const nodes = [
        node('Conv', ['x', 'ones'], ['c']),
        node(view, ['c', 'to'], ['v']),
        node(operator, ['v', 'numbers'], ['y']),
      ];
      const initializers = [
        tensor('ones', [4, 1, 1, 1], [1, 1, 1, 1]),
        tensor('to', [to.length], to, 'int64'),
        tensor('numbers', dims, [10, 20, 30, 40]),
      ];
      const imageDims = view === 'Reshape' && to.length === 2 ? [1, 1, 2, 2] : [1, 1, 4, 2];
      const model = { inputs: [value('x', imageDims)], initializers, nodes, outputs: [value('y')] };
      expect(outline(await compiled(model, { x: imageDims }))).toEqual(expected);
    },
  );

  test.each([
    ['underflows', 1e-30, 1e-20, 'convolution+none', 'affine'],
    ['is subnormal', 1e-30, 1e-9, 'convolution+none', 'affine'],
    ['overflows', 1e10, 1e30, 'convolution+none', 'affine'],
    ['is in range', 1e-30, 1e-6, 'convolution+bias+none'],
    ['is zero, since the weight is', 0, 1e-30, 'convolution+bias+none'],
    ['is zero, since the factor is', 1e-30, 0, 'convolution+bias+none'],
    ['is subnormal and exact', 1e-40, 4, 'convolution+bias+none'],
    ['is subnormal, as the weight is, and rounded', 1e-40, 1.3, 'convolution+none', 'affine'],
  ])('goes a factor whose product with a weight %s, or stays', async (_, weight, factor, ...expected) => {
    const nodes = [node('Conv', ['x', 'one'], ['c']), node('Mul', ['c', 'factor'], ['y'])];
    const initializers = [tensor('one', [1, 3, 1, 1], [1, weight, 2]), tensor('factor', [], [factor])];
    expect(await outlineOf(nodes, initializers)).toEqual(expected);
  });

  test('goes a factor whose products vanish beside the bias for every input', async () => {
    const nodes = [node('Conv', ['x', 'one', 'bias'], ['c']), node('Mul', ['c', 'factor'], ['y'])];
    const initializers = (bias: number) => [
      tensor('one', [1, 3, 1, 1], [0, 1e-45, 0]),
      tensor('bias', [1], [bias]),
      tensor('factor', [], [1e-20]),
    ];
    expect(await outlineOf(nodes, initializers(1e6))).toEqual(['convolution+bias+none']);
    expect(await outlineOf(nodes, initializers(1))).toEqual(['convolution+bias+none', 'affine']);
  });

  describe('go factors as they are, which its filters are multiplied with later:', () => {
    /** Weights of two filters, and a node for each list of factors, or of summands. */
    async function scaleOf(weights: readonly number[], ...nodes: (readonly ['Mul' | 'Add', ...number[]])[]) {
      const chain = nodes.map(([operator], i) =>
        node(operator, [i === 0 ? 'c' : `v${i}`, `k${i}`], [i === nodes.length - 1 ? 'y' : `v${i + 1}`]),
      );
      const constants = nodes.map(([, ...list], i) =>
        tensor(`k${i}`, list.length === 1 ? [] : [2, 1, 1], list),
      );
      const model = {
        inputs: [value('x', [1, 2, 2, 2])],
        initializers: [tensor('w', [2, 2, 1, 1], weights), ...constants],
        nodes: [node('Conv', ['x', 'w'], ['c']), ...chain],
        outputs: [value('y')],
      };
      const { steps, program } = await compiled(model, { x: [1, 2, 2, 2] });
      const [{ step }] = steps as [Compiled['steps'][number]];
      const [native] = program.steps;
      if (step.kind !== 'convolution' || native?.kind !== 'convolution') throw new Error('no convolution');
      const listOf = (at: { readonly index: number } | null) =>
        at && [...(program.constants[at.index] as Float32Array)];
      const [weight, scale, bias] = [native.weight, native.scale, native.bias].map(listOf);
      return { rest: steps.length - 1, weight, scale, bias };
    }
    const weights = [1, 2, -3, 0];

    test('one for each filter, or one for all', async () => {
      const each = await scaleOf(weights, ['Mul', 0.5, -4]);
      expect(each).toEqual({ rest: 0, weight: weights, scale: [0.5, -4], bias: [0, 0] });
      const all = await scaleOf(weights, ['Mul', 3]);
      expect(all).toEqual({ rest: 0, weight: weights, scale: [3, 3], bias: [0, 0] });
    });

    test('one after the other as their product, which is rounded once', async () => {
      const [a, b] = [1 + 2 ** -23, 1 - 2 ** -24].map(Math.fround) as [number, number];
      const found = await scaleOf(weights, ['Mul', a, 7], ['Add', 1, 2], ['Mul', b, -1], ['Add', 3]);
      expect(found).toEqual({
        rest: 0,
        weight: weights,
        scale: [a * b, -7].map(Math.fround),
        bias: [b + 3, 1].map(Math.fround),
      });
    });

    test('none where it is 1 in the end, and none by what is only added', async () => {
      expect((await scaleOf(weights, ['Mul', 2, 4], ['Mul', 0.5, 0.25])).scale).toBeNull();
      const added = await scaleOf([NaN, Infinity, 1, 1], ['Add', 2, 3]);
      expect(added).toEqual({ rest: 0, weight: [NaN, Infinity, 1, 1], scale: null, bias: [2, 3] });
    });

    test.each<[string, number[], ...(['Mul', ...number[]] | ['Add', ...number[]])[]]>([
      ['a filter has NaN', [1, 1, 1, NaN], ['Mul', 1, 0]],
      ['a filter is infinite', [1, -Infinity, 1, 1], ['Mul', 0, 1]],
      ['a factor is infinite', weights, ['Mul', 1, Infinity]],
      ['a factor is NaN', weights, ['Mul', NaN, 1]],
      ['a factor is subnormal', [2 ** 30, 2 ** 30, 1, 1], ['Mul', 2 ** -127, 1]],
      ['one filter of two overflows', [1, 1, 1, 2 ** 100], ['Mul', 2 ** 100, 2 ** 28]],
      ['one filter of two underflows', [2 ** -30, 2 ** -30, 1, 2 ** -70], ['Mul', 2 ** -90, 2 ** -90]],
    ])('stay where %s', async (_, filters, ...nodes) => {
      const { rest, scale } = await scaleOf(filters, ...nodes);
      expect([rest, scale]).toEqual([1, null]);
    });

    test.each<[string, number[], number, number]>([
      ['overflows', [1e-30, 1e-30, 1, 1], 2 ** 100, 2 ** 100],
      ['is subnormal', [2 ** 100, 2 ** 100, 2 ** 100, 2 ** 100], 2 ** -100, 2 ** -30],
      ['vanishes', [2 ** 100, 2 ** 100, 2 ** 100, 2 ** 100], 2 ** -100, 2 ** -100],
      ['overflows with a filter', [1, 2 ** 20, 1, 1], 2 ** 60, 2 ** 60],
    ])('stay where a product of two %s', async (_, filters, first, second) => {
      const found = await scaleOf(filters, ['Mul', first, 2], ['Add', 1], ['Mul', second, 2]);
      expect(found.scale).toEqual([first, 2]);
      expect(found.rest).toBe(1);
    });
  });

  test('goes nothing that another node reads before', async () => {
    const nodes = [conv('x', 'c'), node('Relu', ['c'], ['r']), node('Add', ['c', 'r'], ['y'])];
    expect(await outlineOf(nodes)).toEqual(['convolution+none', 'relu+add']);
  });

  test('goes nothing when its own result is an output', async () => {
    const nodes = [conv('x', 'c'), node('Relu', ['c'], ['y'])];
    const outputs = [value('y'), value('c')];
    const model = { inputs: [image], initializers: [filters], nodes, outputs };
    expect(outline(await compiled(model, { x: IMAGE }))).toEqual(['convolution+none', 'relu']);
  });
});

test('a chain of elementwise functions is one step', async () => {
  const nodes = [
    node('Tanh', ['x'], ['a']),
    node('Mul', ['a', 'x'], ['b']),
    node('Add', ['b', 'shift'], ['c']),
    node('Exp', ['c'], ['y']),
  ];
  expect(await outlineOf(nodes, [tensor('shift', [3, 1, 1], [1, 2, 3])])).toEqual(['tanh+multiply+add+exp']);
});

test('nodes that no output depends on are left out', async () => {
  expect(await outlineOf([node('Exp', ['x'], ['unused']), node('Abs', ['x'], ['y'])])).toEqual(['absolute']);
});

describe('joined tensors', () => {
  const join = async (dims: readonly number[]) => {
    const nodes = [conv('x', 'a'), node('Sin', ['x'], ['b']), node('Concat', ['a', 'b'], ['y'], { axis: 1 })];
    const model = { inputs: [value('x', dims)], initializers: [filters], nodes, outputs: [value('y')] };
    return outline(await compiled(model, { x: dims }));
  };

  test('are written in place, where each is one piece of the whole', async () => {
    expect(await join([1, 3, 8, 8])).toEqual(['convolution+none', 'sin']);
  });

  test('are copied, where their images alternate', async () => {
    expect(await join(IMAGE)).toEqual(['convolution+none', 'sin', 'copy', 'copy']);
  });

  test('are part of what joins them again, one within the other, at any place of it', async () => {
    const nodes = [
      node('Sin', ['x'], ['a']),
      node('Cos', ['x'], ['b']),
      node('Concat', ['a', 'b'], ['ab'], { axis: 1 }),
      node('Exp', ['ab'], ['c']),
      node('Concat', ['c', 'a', 'b'], ['cab'], { axis: 1 }),
      node('Floor', ['cab'], ['d']),
      node('Concat', ['c', 'a', 'b', 'd'], ['cabd'], { axis: 1 }),
      node('Ceil', ['cabd'], ['y']),
    ];
    const { steps, program } = await compiled(
      { inputs: [image], nodes, outputs: [value('y')] },
      { x: [1, 3, 8, 8] },
    );
    expect(outline({ steps } as Compiled)).toEqual(['sin', 'cos', 'exp', 'floor', 'ceil']);
    // 3 channels each of a and b, 6 of c and 12 of d.
    expect(program.arenaBytes).toBe(24 * 64 * 4);
    const bytes = (channels: number) => channels * 64 * 4;
    expect(program.steps.map(({ output }) => output.offset)).toEqual([bytes(6), bytes(9), 0, bytes(12), 0]);
  });

  test('are one piece of memory, however many there are one within the other', async () => {
    const count = 3000;
    const nodes = Array.from({ length: count }, (_, i) => [
      node('Softmax', ['x'], [`s${i}`], { axis: 1 }),
      node('Concat', [i === 0 ? 'x' : `c${i - 1}`, `s${i}`], [`c${i}`], { axis: 1 }),
    ]).flat();
    const outputs = [value(`c${count - 1}`)];
    const { steps, program } = await compiled(
      { inputs: [value('x', [1, 1, 2])], nodes, outputs },
      { x: [1, 1, 2] },
    );
    expect(outline({ steps } as Compiled).filter((kind) => kind !== 'softmax')).toEqual(['copy']);
    expect(program.arenaBytes).toBe(0);
    // The network's input is copied to the front, and each row of two floats follows the one before.
    const offsets = program.steps.map(({ output }) => output.offset).sort((a, b) => a - b);
    expect(offsets).toEqual(Array.from({ length: count + 1 }, (_, i) => 8 * i));
  });

  test('are copied where only some of their parts are joined again, or in another order', async () => {
    const again = async (parts: readonly string[]) => {
      const nodes = [
        node('Sin', ['x'], ['a']),
        node('Cos', ['x'], ['b']),
        node('Concat', ['a', 'b'], ['ab'], { axis: 1 }),
        node('Exp', ['ab'], ['c']),
        node('Concat', [...parts, 'c'], ['y'], { axis: 1 }),
      ];
      const model = { inputs: [image], nodes, outputs: [value('y')] };
      return outline(await compiled(model, { x: [1, 3, 8, 8] }));
    };
    expect(await again(['a'])).toEqual(['sin', 'cos', 'exp', 'copy']);
    expect(await again(['b', 'a'])).toEqual(['sin', 'cos', 'exp', 'copy', 'copy']);
    expect(await again(['a', 'b'])).toEqual(['sin', 'cos', 'exp']);
  });
});

/** What becomes one step, shown by the steps that are left. Their results are compared in the networks' tests. */
import { compile, type Compiled } from '../../../lib/model/compile';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { float, node, onnxModel, tensor, value, type OnnxModel } from '../../support/onnx_builder';

function compiled(model: OnnxModel, dims: Record<string, readonly number[]>): Compiled {
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

function outlineOf(nodes: OnnxModel['nodes'], initializers: OnnxModel['initializers'] = []): string[] {
  const outputs = [value('y')];
  return outline(
    compiled({ inputs: [image], initializers: [filters, ...initializers], nodes, outputs }, { x: IMAGE }),
  );
}

describe('into a convolution', () => {
  test('goes the activation after it', () => {
    expect(outlineOf([conv('x', 'c'), node('Relu', ['c'], ['y'])])).toEqual(['convolution+relu']);
  });

  test('goes normalisation, and after it the activation', () => {
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
    const { steps, program } = compiled(model, { x: IMAGE });
    expect(outline({ steps } as Compiled)).toEqual(['convolution+bias+clip']);
    // Scale over deviation is 1 everywhere, so the weights stay and the bias is shift - mean.
    const [weight, bias] = program.constants as Float32Array[];
    expect([...new Set(weight)]).toEqual([0.5]);
    expect([...bias!]).toEqual([0.5, 0, -1]);
  });

  test('goes what is added to it, and the activation after that', () => {
    const nodes = [
      conv('x', 'c'),
      node('Relu', ['c'], ['r']),
      conv('r', 'd'),
      node('Add', ['d', 'r'], ['s']),
      node('Relu', ['s'], ['y']),
    ];
    expect(outlineOf(nodes)).toEqual(['convolution+relu', 'convolution+residual+relu']);
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
  ])('goes %s, which the file has as several nodes', (name, gate) => {
    const numbers = [tensor('zero', [], [0]), tensor('three', [], [3]), tensor('six', [], [6])];
    expect(outlineOf([conv('x', 'c'), ...gate], numbers)).toEqual([`convolution+${name}`]);
  });

  test.each([
    ['Reshape', [4, 4], 'Add', [4], 'convolution+none', 'add'],
    ['Squeeze', [0], 'Mul', [4, 1], 'convolution+none', 'multiply'],
    ['Reshape', [1, 4, 8], 'Mul', [4, 1], 'convolution+bias+none'],
  ] as const)('after %s to %j goes %s of %j only by channel', (view, to, operator, dims, ...expected) => {
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
    expect(outline(compiled(model, { x: imageDims }))).toEqual(expected);
  });

  test.each([
    ['underflows', 1e-30, 1e-20, 'convolution+none', 'affine'],
    ['is subnormal', 1e-30, 1e-9, 'convolution+none', 'affine'],
    ['overflows', 1e10, 1e30, 'convolution+none', 'affine'],
    ['is in range', 1e-30, 1e-6, 'convolution+bias+none'],
    ['is zero, since the weight is', 0, 1e-30, 'convolution+bias+none'],
    ['is zero, since the factor is', 1e-30, 0, 'convolution+bias+none'],
    ['is subnormal and exact', 1e-40, 4, 'convolution+bias+none'],
    ['is subnormal, as the weight is, and rounded', 1e-40, 1.3, 'convolution+none', 'affine'],
  ])('goes a factor whose product with a weight %s, or stays', (_, weight, factor, ...expected) => {
    const nodes = [node('Conv', ['x', 'one'], ['c']), node('Mul', ['c', 'factor'], ['y'])];
    const initializers = [tensor('one', [1, 3, 1, 1], [1, weight, 2]), tensor('factor', [], [factor])];
    expect(outlineOf(nodes, initializers)).toEqual(expected);
  });

  test('goes a factor whose products vanish beside the bias for every input', () => {
    const nodes = [node('Conv', ['x', 'one', 'bias'], ['c']), node('Mul', ['c', 'factor'], ['y'])];
    const initializers = (bias: number) => [
      tensor('one', [1, 3, 1, 1], [0, 1e-45, 0]),
      tensor('bias', [1], [bias]),
      tensor('factor', [], [1e-20]),
    ];
    expect(outlineOf(nodes, initializers(1e6))).toEqual(['convolution+bias+none']);
    expect(outlineOf(nodes, initializers(1))).toEqual(['convolution+bias+none', 'affine']);
  });

  test('goes nothing that another node reads before', () => {
    const nodes = [conv('x', 'c'), node('Relu', ['c'], ['r']), node('Add', ['c', 'r'], ['y'])];
    expect(outlineOf(nodes)).toEqual(['convolution+none', 'relu+add']);
  });

  test('goes nothing when its own result is an output', () => {
    const nodes = [conv('x', 'c'), node('Relu', ['c'], ['y'])];
    const outputs = [value('y'), value('c')];
    const model = { inputs: [image], initializers: [filters], nodes, outputs };
    expect(outline(compiled(model, { x: IMAGE }))).toEqual(['convolution+none', 'relu']);
  });
});

test('a chain of elementwise functions is one step', () => {
  const nodes = [
    node('Tanh', ['x'], ['a']),
    node('Mul', ['a', 'x'], ['b']),
    node('Add', ['b', 'shift'], ['c']),
    node('Exp', ['c'], ['y']),
  ];
  expect(outlineOf(nodes, [tensor('shift', [3, 1, 1], [1, 2, 3])])).toEqual(['tanh+multiply+add+exp']);
});

test('nodes that no output depends on are left out', () => {
  expect(outlineOf([node('Exp', ['x'], ['unused']), node('Abs', ['x'], ['y'])])).toEqual(['absolute']);
});

describe('joined tensors', () => {
  const join = (dims: readonly number[]) => {
    const nodes = [conv('x', 'a'), node('Sin', ['x'], ['b']), node('Concat', ['a', 'b'], ['y'], { axis: 1 })];
    const model = { inputs: [value('x', dims)], initializers: [filters], nodes, outputs: [value('y')] };
    return outline(compiled(model, { x: dims }));
  };

  test('are written in place, where each is one piece of the whole', () => {
    expect(join([1, 3, 8, 8])).toEqual(['convolution+none', 'sin']);
  });

  test('are copied, where their images alternate', () => {
    expect(join(IMAGE)).toEqual(['convolution+none', 'sin', 'copy', 'copy']);
  });

  test('are part of what joins them again, one within the other, at any place of it', () => {
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
    const { steps, program } = compiled(
      { inputs: [image], nodes, outputs: [value('y')] },
      { x: [1, 3, 8, 8] },
    );
    expect(outline({ steps } as Compiled)).toEqual(['sin', 'cos', 'exp', 'floor', 'ceil']);
    // 3 channels each of a and b, 6 of c and 12 of d.
    expect(program.arenaBytes).toBe(24 * 64 * 4);
    const bytes = (channels: number) => channels * 64 * 4;
    expect(program.steps.map(({ output }) => output.offset)).toEqual([bytes(6), bytes(9), 0, bytes(12), 0]);
  });

  test('are one piece of memory, however many there are one within the other', () => {
    const count = 3000;
    const nodes = Array.from({ length: count }, (_, i) => [
      node('Softmax', ['x'], [`s${i}`], { axis: 1 }),
      node('Concat', [i === 0 ? 'x' : `c${i - 1}`, `s${i}`], [`c${i}`], { axis: 1 }),
    ]).flat();
    const outputs = [value(`c${count - 1}`)];
    const { steps, program } = compiled(
      { inputs: [value('x', [1, 1, 2])], nodes, outputs },
      { x: [1, 1, 2] },
    );
    expect(outline({ steps } as Compiled).filter((kind) => kind !== 'softmax')).toEqual(['copy']);
    expect(program.arenaBytes).toBe(0);
    // The network's input is copied to the front, and each row of two floats follows the one before.
    const offsets = program.steps.map(({ output }) => output.offset).sort((a, b) => a - b);
    expect(offsets).toEqual(Array.from({ length: count + 1 }, (_, i) => 8 * i));
  });

  test('are copied where only some of their parts are joined again, or in another order', () => {
    const again = (parts: readonly string[]) => {
      const nodes = [
        node('Sin', ['x'], ['a']),
        node('Cos', ['x'], ['b']),
        node('Concat', ['a', 'b'], ['ab'], { axis: 1 }),
        node('Exp', ['ab'], ['c']),
        node('Concat', [...parts, 'c'], ['y'], { axis: 1 }),
      ];
      const model = { inputs: [image], nodes, outputs: [value('y')] };
      return outline(compiled(model, { x: [1, 3, 8, 8] }));
    };
    expect(again(['a'])).toEqual(['sin', 'cos', 'exp', 'copy']);
    expect(again(['b', 'a'])).toEqual(['sin', 'cos', 'exp', 'copy', 'copy']);
    expect(again(['a', 'b'])).toEqual(['sin', 'cos', 'exp']);
  });
});

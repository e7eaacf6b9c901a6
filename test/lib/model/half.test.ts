/** Which steps of a network are of halves, and what is left of conversions and copies. Results are compared in test/addon. */
import { compile, type Compiled } from '../../../lib/model/compile';
import { parseOnnx } from '../../../lib/model/onnx/load';
import { buffersRead, type Step } from '../../../lib/model/steps';
import type { Operand, Storage } from '../../../lib/model/values';
import { HALF_NETWORKS, NetworkWriter, RESNET_OF_FLOAT16 } from '../../support/half_networks';

type Steps = readonly Step<Operand>[];

async function halved(model: Uint8Array, dims: readonly number[], precision: 'fp16' | 'bf16' = 'fp16') {
  const graph = parseOnnx(model);
  const bindings = { dims: new Map([['x', dims]]), constants: new Map() };
  return compile(graph, bindings, 'auto', undefined, undefined, precision);
}

const stepsOf = ({ steps }: Compiled): Steps => steps.map(({ step }) => step);
const compiledOf = (name: string) => halved(HALF_NETWORKS[name]!.model, HALF_NETWORKS[name]!.dims);

function ofKind<K extends Step<Operand>['kind']>(steps: Steps, kind: K) {
  return steps.filter((step): step is Extract<Step<Operand>, { kind: K }> => step.kind === kind);
}

/** What a network of one input does, for a few lines of nodes. */
async function written(dims: readonly number[], write: (x: NetworkWriter) => readonly string[]) {
  const x = new NetworkWriter();
  const outputs = write(x);
  return halved(x.model(dims, outputs), dims);
}

/** The bytes of an element that a step reads or writes in a storage. */
function widthsOf(step: Step<Operand>): { reads: number[]; write: number } {
  const width = (type: string | undefined) => (type === undefined || type === 'float32' ? 4 : 2);
  const all = (read: number, write = read) => ({ reads: buffersRead(step).map(() => read), write });
  switch (step.kind) {
    case 'convolution': {
      const { format } = step.convolution;
      const ofWeights = [step.weight, step.scale, step.bias].filter((one) => one !== null).map(() => 4);
      const added = step.residual === null ? [] : [width(format?.residual.type)];
      return {
        reads: [width(format?.input.type), ...ofWeights, ...added],
        write: width(format?.output.type),
      };
    }
    case 'elementwise':
      return { reads: step.operands.map((_, i) => width(step.types?.[i])), write: width(step.outputType) };
    case 'pool':
      return all(width(step.inputFormat?.type));
    case 'reduce':
      return all(width(step.type), 4);
    case 'normalize':
      return { reads: [width(step.type), 4, 4].slice(0, buffersRead(step).length), write: width(step.type) };
    case 'interpolate':
      return all(width(step.type));
    case 'squeezeExcite':
      return { reads: buffersRead(step).map((_, i) => (i === 0 ? 2 : 4)), write: 2 };
    case 'format':
      return all(width(step.from.type), width(step.to.type));
    case 'copy':
      return all(step.bytes);
    case 'gather':
      return { reads: [step.bytes, 8], write: step.bytes };
    default:
      return all(4);
  }
}

describe.each(Object.keys(HALF_NETWORKS))('%s', (name) => {
  test('has each tensor read as it was written', async () => {
    const steps = stepsOf(await compiledOf(name));
    const widths = new Map<Storage, number>();
    for (const step of steps) {
      const { reads, write } = widthsOf(step);
      for (const [i, { storage }] of buffersRead(step).entries()) {
        if (storage.space === 'arena')
          expect([step.kind, widths.get(storage)]).toEqual([step.kind, reads[i]]);
      }
      const { storage } = step.output;
      // Zeros are the same in both.
      if (step.kind === 'fill') continue;
      expect(widths.get(storage) ?? write).toBe(write);
      widths.set(storage, write);
    }
    expect(ofKind(steps, 'convolution').some(({ convolution }) => convolution.format !== undefined)).toBe(
      true,
    );
  });
});

describe('halves stay halves', () => {
  test.each([
    'resnet',
    'mobilenet',
    'efficientnet',
    'densenet',
    'inception',
    'convnext',
    'grouped and dilated',
  ])('in a %s, once its first convolution has read an image', async (name) => {
    const steps = stepsOf(await compiledOf(name));
    expect(ofKind(steps, 'format')).toEqual([]);
    const plain = ofKind(steps, 'convolution').filter(
      ({ convolution }) => convolution.format?.input.type === 'float32',
    );
    expect(plain).toEqual([steps[0]]);
  });

  test('up to the mean of maps, which is float32, as is the classifier', async () => {
    const steps = stepsOf(await compiledOf('resnet'));
    const [mean, classifier] = steps.slice(-2);
    expect(mean).toMatchObject({ kind: 'reduce', type: 'float16', outer: 2, inner: 16 });
    expect(classifier!.kind).toBe('matmul');
  });

  test('in bfloat16', async () => {
    const { model, dims } = HALF_NETWORKS.resnet!;
    const steps = stepsOf(await halved(model, dims, 'bf16'));
    for (const { convolution } of ofKind(steps, 'convolution')) {
      expect(convolution).toMatchObject({ precision: 'bf16', format: { output: { type: 'bfloat16' } } });
    }
  });

  test('with residuals', async () => {
    const steps = stepsOf(await compiledOf('resnet'));
    const added = ofKind(steps, 'convolution').filter(({ residual }) => residual !== null);
    expect(added.map(({ convolution }) => convolution.format!.residual.type)).toEqual(
      Array(3).fill('float16'),
    );
  });
});

describe('squeeze-and-excitation', () => {
  type Names = {
    readonly maps: string;
    readonly mean: string;
    readonly hidden: string;
    readonly gates: string;
  };

  /** Maps times gates that two products make of the maps' means; `rest` names outputs beside it. */
  const excited = (rest: (x: NetworkWriter, names: Names) => readonly string[], gate = 'Sigmoid', n = 2) =>
    written([n, 3, 8, 6], (x) => {
      const maps = x.relu(x.conv('x', 3, 24, 3));
      const mean = x.add('GlobalAveragePool', [maps]);
      const hidden = x.relu(x.conv(mean, 24, 6));
      const gates = x.add(gate, [x.conv(hidden, 6, 24)]);
      return [x.conv(x.product(maps, gates), 24, 8, 3), ...rest(x, { maps, mean, hidden, gates })];
    });

  test.each([
    ['Sigmoid', 1, { name: 'sigmoid', parameters: [] }],
    ['Sigmoid', 2, { name: 'sigmoid', parameters: [] }],
    ['HardSigmoid', 2, { name: 'clip', parameters: [0, 1] }],
  ])('is one step, with the gates of a %s, %i images', async (gate, n, gateActivation) => {
    const steps = stepsOf(await excited(() => [], gate, n));
    expect(steps.map(({ kind }) => kind)).toEqual(['convolution', 'squeezeExcite', 'convolution', 'format']);
    const dims = {
      n,
      channels: 24,
      area: 48,
      hidden: 6,
      type: 'float16',
      inputPitch: 24,
      outputPitch: 24,
    };
    const hiddenActivation = { name: 'relu', parameters: [] };
    expect(steps[1]).toMatchObject({ ...dims, hiddenActivation, gateActivation });
  });

  test.each(['mean', 'hidden', 'gates'] as const)(
    'is several steps where others need the %s',
    async (name) => {
      const steps = stepsOf(await excited((_, names) => [names[name]]));
      expect(ofKind(steps, 'squeezeExcite')).toEqual([]);
      const [product] = ofKind(steps, 'elementwise');
      expect(product).toMatchObject({ types: ['float16', 'float32'], outputType: 'float16' });
    },
  );

  test('is none where the gates are those of other maps', async () => {
    const compiled = await written([2, 3, 8, 6], (x) => {
      const [maps, others] = [x.relu(x.conv('x', 3, 24, 3)), x.relu(x.conv('x', 3, 24, 3))];
      const hidden = x.relu(x.conv(x.add('GlobalAveragePool', [others]), 24, 6));
      return [x.product(maps, x.add('Sigmoid', [x.conv(hidden, 6, 24)])), others];
    });
    expect(ofKind(stepsOf(compiled), 'squeezeExcite')).toEqual([]);
  });
});

test('joined channels are written where they are joined', async () => {
  const steps = stepsOf(await compiledOf('densenet'));
  expect(ofKind(steps, 'copy')).toEqual([]);
  const joined = ofKind(steps, 'convolution').filter(
    ({ convolution }) => convolution.format!.output.pitch === 80,
  );
  expect(joined.map(({ output }) => output.offset / 2)).toEqual([0, 32, 48, 64]);
  expect(new Set(joined.map(({ output }) => output.storage)).size).toBe(1);
});

test('channels that begin between whole words are copied', async () => {
  const steps = stepsOf(await compiledOf('inception'));
  // Of 16, 24 and 24 channels the last begins at 40, which is no sector of a cache.
  const copies = ofKind(steps, 'copy');
  expect(copies.map(({ output }) => (output.offset / 2) % 16)).toEqual([8, 8]);
});

test('shuffled channels are made in the order in which they are read', async () => {
  const steps = stepsOf(await compiledOf('shufflenet'));
  expect(ofKind(steps, 'copy')).toEqual([]);
  const dims = ofKind(steps, 'convolution').map(({ convolution }) => convolution.weightDims.join());
  // Of 20 channels 10 are read first, and 10 pass behind zeros, whole sectors of 16; then what the branch has made.
  const unit = ['10,10,1,1', '10,1,3,3'];
  expect(dims).toEqual(['32,3,3,3', ...unit, '32,26,1,1', ...unit, '20,26,1,1']);
});

test('a transpose between maps and rows is none', async () => {
  const steps = stepsOf(await compiledOf('convnext'));
  expect(ofKind(steps, 'copy')).toEqual([]);
  expect(ofKind(steps, 'matmul').map(({ m }) => m)).toEqual([2]);
  const rows = ofKind(steps, 'convolution').filter(({ convolution }) => convolution.inputDims[2] === 1);
  expect(rows).toHaveLength(4);
  expect(ofKind(steps, 'elementwise')).toEqual([]);
  expect(rows.filter(({ convolution }) => convolution.activation.name === 'gelu')).toHaveLength(2);
  // The scale of each layer and what is added to it
  expect(rows.filter(({ scale, residual }) => scale !== null && residual !== null)).toHaveLength(2);
});

test('an image is read as it is', async () => {
  const [first] = ofKind(stepsOf(await compiledOf('resnet')), 'convolution');
  expect(first!.input.storage.space).toBe('input');
  expect(first!.convolution.format).toEqual({
    input: { type: 'float32', layout: 'nchw', pitch: 0 },
    residual: { type: 'float16', layout: 'nhwc', pitch: 0 },
    output: { type: 'float16', layout: 'nhwc', pitch: 0 },
  });
});

test.each(['vgg', 'vgg of one image'])(
  'a product with maps in a row is a convolution in %s',
  async (name) => {
    const steps = stepsOf(await compiledOf(name));
    const filters = ofKind(steps, 'convolution').map(({ convolution }) => convolution.weightDims.join());
    expect(filters).toEqual(['16,3,3,3', '24,16,3,3', '32,24,3,3', '16,32,1,1', '5,16,1,1']);
    expect(ofKind(steps, 'format')).toHaveLength(1);
  },
);

test('an output in the middle of a network is converted once, and read as halves', async () => {
  const compiled = await written([2, 3, 8, 8], (x) => {
    const middle = x.relu(x.conv('x', 3, 8, 3));
    return [x.conv(middle, 8, 8), middle];
  });
  const steps = stepsOf(compiled);
  expect(steps.map(({ kind }) => kind)).toEqual(['convolution', 'convolution', 'format', 'format']);
  expect(compiled.program.steps.slice(-2).map(({ output }) => output.space)).toEqual(['output', 'output']);
});

test('what steps of either kind read is converted once', async () => {
  const compiled = await written([2, 3, 8, 8], (x) => {
    const maps = x.relu(x.conv('x', 3, 8, 3));
    const first = x.add('Softmax', [maps], { axis: 1 });
    const second = x.add('Softmax', [maps], { axis: 2 });
    return [x.sum(first, second), x.conv(maps, 8, 8)];
  });
  const kinds = stepsOf(compiled).map(({ kind }) => kind);
  expect(kinds).toEqual([
    'convolution',
    'format',
    'softmax',
    'softmax',
    'elementwise',
    'convolution',
    'format',
  ]);
});

test('filters beyond the greatest half stay float32, and are named', async () => {
  const compiled = await written([2, 3, 8, 8], (x) => {
    const weight = x.constant([8, 8, 1, 1], new Float32Array(64).fill(65505));
    return [x.add('Conv', [x.relu(x.conv('x', 3, 8, 3)), weight])];
  });
  const [, second] = ofKind(stepsOf(compiled), 'convolution');
  expect(second!.convolution.format).toBeUndefined();
  expect(compiled.tooLarge).toEqual([['Conv t2']]);
});

test('a convolution of single pixels, and one of filters that a run brings, stay float32', async () => {
  const compiled = await written([2, 8, 1, 1], (x) => [x.conv('x', 8, 8)]);
  expect(stepsOf(compiled).map(({ kind }) => kind)).toEqual(['convolution']);
  const brought = await written([2, 2, 3, 3], (x) => [x.add('Conv', ['x', 'x'])]);
  expect(stepsOf(brought).map(({ kind }) => kind)).toEqual(['convolution']);
});

test('a network of float16 gives halves without float32 between', async () => {
  const { model, dims } = RESNET_OF_FLOAT16;
  const steps = stepsOf(await halved(model, dims));
  const ends = ofKind(steps, 'format').map(({ from, to }) =>
    [from, to].map(({ type, layout }) => type + layout),
  );
  expect(ends).toEqual([['float16nhwc', 'float16nchw']]);
  // Of the input, whose columns become channels, and of the classifier
  expect(ofKind(steps, 'map')).toHaveLength(2);
});

test('float32 is as it was', async () => {
  const { model, dims } = HALF_NETWORKS.resnet!;
  const bindings = { dims: new Map([['x', dims]]), constants: new Map() };
  const { steps } = await compile(parseOnnx(model), bindings);
  expect(steps.every(({ step }) => step.kind !== 'format')).toBe(true);
});

test('TF32 is of convolutions alone', async () => {
  const { model, dims } = HALF_NETWORKS.resnet!;
  const bindings = { dims: new Map([['x', dims]]), constants: new Map() };
  const { steps } = await compile(parseOnnx(model), bindings, 'auto', undefined, undefined, 'tf32');
  for (const { step } of steps) {
    if (step.kind === 'convolution') expect(step.convolution).toMatchObject({ precision: 'tf32' });
  }
});

/** Whatever is wrong with a call is refused with its code and by the argument's name, and the next call works. */
import {
  algorithms,
  Conv2d,
  conv2d,
  conv2dSync,
  Tensor,
  type Conv2dOptions,
  type TensorLike,
} from '../../lib';

const INVALID = 'ERR_WARPCONV_INVALID_ARGUMENT';
const UNSUPPORTED = 'ERR_WARPCONV_UNSUPPORTED';
const DISPOSED = 'ERR_WARPCONV_DISPOSED';
const ABORTED = 'ERR_WARPCONV_ABORTED';

const INPUT_DIMS = [1, 4, 5, 5];
const WEIGHT_DIMS = [6, 4, 3, 3];
const OUTPUT_DIMS = [1, 6, 3, 3];

function tensor(dims: readonly number[], value = 1): Tensor<'float32'> {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor('float32', new Float32Array(size).fill(value), dims);
}

function disposed(dims: readonly number[]): Tensor {
  const gone = tensor(dims);
  gone.dispose();
  return gone;
}

function detached(dims: readonly number[]): Tensor {
  const emptied = tensor(dims);
  structuredClone(emptied.data.buffer, { transfer: [emptied.data.buffer as ArrayBuffer] });
  return emptied;
}

const like = (changes: object): TensorLike => ({
  type: 'float32',
  dims: INPUT_DIMS,
  data: new Float32Array(100),
  location: 'cpu',
  ...changes,
});

/** A tensor that the caller's types would not let through. */
const wrong = (value: unknown) => value as TensorLike;

const input = tensor(INPUT_DIMS);
const weight = tensor(WEIGHT_DIMS);

/** Every output sums 4 channels of 3 × 3 ones. */
function expectGoodCall(): void {
  const output = conv2dSync(input, weight, { device: 'cpu' });
  expect(output.dims).toEqual(OUTPUT_DIMS);
  expect([...output.data]).toEqual(new Array(54).fill(36));
}

const refusal = (code: string, message: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(message) as string });

type Call = { input?: TensorLike; weight?: TensorLike; options?: unknown };
type Row = [what: string, call: Call, code: string, message: string];

const TENSORS: Row[] = [
  ['no input', { input: wrong(null) }, INVALID, 'input must be a tensor'],
  [
    'a number for an input',
    { input: wrong(5) },
    INVALID,
    'input must be a tensor ({ type, dims, data }), got 5',
  ],
  [
    'an array for an input',
    { input: wrong(new Float32Array(100)) },
    INVALID,
    "got Float32Array of 100 elements; wrap it: new Tensor('float32', data, dims)",
  ],
  [
    'a promise for an input',
    { input: wrong(Promise.resolve(input)) },
    INVALID,
    'got a promise; await it first',
  ],
  ['no weight', { weight: wrong(null) }, INVALID, 'weight must be a tensor'],
  [
    'an input of rank 3',
    { input: tensor([4, 5, 5]) },
    INVALID,
    'input.dims must be a list of 4 positive integers',
  ],
  ['an input of rank 5', { input: tensor([1, 1, 4, 5, 5]) }, INVALID, 'input.dims must be'],
  ['a weight of rank 2', { weight: tensor([6, 36]) }, INVALID, 'weight.dims must be'],
  ['dims that are no list', { input: like({ dims: '1455' }) }, INVALID, `input.dims must be`],
  ['no dims', { input: like({ dims: undefined }) }, INVALID, 'input.dims must be'],
  [
    'a negative extent',
    { input: like({ dims: [1, -4, 5, 5] }) },
    INVALID,
    'input.dims[1] must be a positive integer, got -4',
  ],
  [
    'a fractional extent',
    { input: like({ dims: [1, 4, 5.5, 5] }) },
    INVALID,
    'input.dims[2] must be a positive integer, got 5.5',
  ],
  [
    'an extent that is NaN',
    { input: like({ dims: [NaN, 4, 5, 5] }) },
    INVALID,
    'input.dims[0] must be a positive integer, got NaN',
  ],
  [
    'an extent in words',
    { input: like({ dims: ['1', 4, 5, 5] }) },
    INVALID,
    `input.dims[0] must be a positive integer, got '1'`,
  ],
  [
    'an extent that is a bigint',
    { input: like({ dims: [1n, 4, 5, 5] }) },
    INVALID,
    'input.dims[0] must be a positive integer, got 1n',
  ],
  [
    'a batch of less than none',
    { input: like({ dims: [-1, 4, 5, 5] }) },
    INVALID,
    'input.dims[0] must be a positive integer, got -1',
  ],
  ['no channels', { input: tensor([1, 0, 5, 5]) }, INVALID, 'input.dims[1]'],
  ['no filters', { weight: tensor([0, 4, 3, 3]) }, INVALID, 'weight.dims[0]'],
  ['filters of no height', { weight: tensor([6, 4, 0, 3]) }, INVALID, 'weight.dims[2]'],
  [
    'an inexact extent',
    { input: like({ dims: [1, 4, 5, 2 ** 60] }) },
    INVALID,
    'input.dims[3] must be a positive integer of at most',
  ],
  [
    'dims whose product wraps',
    { input: like({ dims: [2 ** 30, 4, 2 ** 30, 2 ** 30] }) },
    INVALID,
    'input would have more than',
  ],
  [
    'another type',
    { input: new Tensor('float64', new Float64Array(100), INPUT_DIMS) },
    INVALID,
    `input.type must be 'float32', 'float16' or 'bfloat16', got 'float64'`,
  ],
  ['no type', { input: like({ type: undefined }) }, INVALID, 'input.type must be'],
  [
    'other elements than the type says',
    { input: like({ data: new Float64Array(100) }) },
    INVALID,
    'input.data must be a Float32Array, got Float64Array',
  ],
  [
    'data in a list',
    { input: like({ data: new Array(100).fill(1) }) },
    INVALID,
    'input.data must be a Float32Array',
  ],
  [
    'a DataView',
    { input: like({ data: new DataView(new ArrayBuffer(400)) }) },
    INVALID,
    'input.data must be a Float32Array',
  ],
  [
    'too little data',
    { input: like({ data: new Float32Array(99) }) },
    INVALID,
    'input.data has 99 elements; input.dims [1, 4, 5, 5] needs 100',
  ],
  [
    'too much data',
    { weight: like({ dims: WEIGHT_DIMS, data: new Float32Array(217) }) },
    INVALID,
    'weight.data has 217 elements',
  ],
  [
    'a length that lies',
    { input: like({ data: Object.defineProperty(new Float32Array(9), 'length', { value: 100 }) }) },
    INVALID,
    'input.data has 9 elements',
  ],
  ['a detached input', { input: detached(INPUT_DIMS) }, INVALID, 'input.data is detached'],
  ['a detached weight', { weight: detached(WEIGHT_DIMS) }, INVALID, 'weight.data is detached'],
  ['an input that detaches the weight', detachingCall(), INVALID, 'weight.data is detached'],
  ['a disposed input', { input: disposed(INPUT_DIMS) }, DISPOSED, 'input has been disposed'],
  ['a disposed weight', { weight: disposed(WEIGHT_DIMS) }, DISPOSED, 'weight has been disposed'],
  [
    'an input elsewhere',
    { input: like({ location: 'gpu-buffer' }) },
    INVALID,
    `input is in GPU memory that is not warpconv's own`,
  ],
];

/** A getter runs between the moment the weight could be checked and the moment it is used. */
function detachingCall(): Call {
  const victim = tensor(WEIGHT_DIMS);
  const options = {
    get groups() {
      if (victim.data.length > 0)
        structuredClone(victim.data.buffer, { transfer: [victim.data.buffer as ArrayBuffer] });
      return 1;
    },
  };
  return { weight: victim, options };
}

const SHAPES: Row[] = [
  [
    'channels that differ',
    { weight: tensor([6, 3, 3, 3]) },
    INVALID,
    'weight.dims[1] is 3; the input has 4 channels in 1 group, so it must be 4',
  ],
  [
    'channels that differ in groups',
    { options: { groups: 2 } },
    INVALID,
    'weight.dims[1] is 4; the input has 4 channels in 2 groups, so it must be 2',
  ],
  ['groups that do not divide the channels', { options: { groups: 3 } }, INVALID, 'options.groups is 3'],
  [
    'groups that do not divide the filters',
    { weight: tensor([6, 1, 3, 3]), options: { groups: 4 } },
    INVALID,
    'options.groups is 4',
  ],
  ['a filter higher than its input', { weight: tensor([6, 4, 6, 3]) }, INVALID, 'output would be empty'],
  ['a filter dilated beyond its input', { options: { dilation: [1, 3] } }, INVALID, 'output would be empty'],
  [
    'an output of too many rows',
    { options: { padding: [2 ** 31 - 1, 0, 0, 0] } },
    INVALID,
    'rows with padding 2147483647 + 0 at stride 1; it can have at most 2147483647',
  ],
  [
    'an output of too many elements',
    { options: { padding: 2 ** 29 } },
    INVALID,
    'output would have more than',
  ],
  [
    'an output too large for memory',
    { options: { padding: 2 ** 17 } },
    'ERR_WARPCONV_OUT_OF_MEMORY',
    'bytes',
  ],
  ['a bias of rank 4', { options: { bias: tensor([1, 6, 1, 1]) } }, INVALID, 'options.bias.dims must be [K]'],
  ['a bias for other channels', { options: { bias: tensor([5]) } }, INVALID, 'options.bias.dims must be [6]'],
  [
    'a bias of another type',
    { options: { bias: new Tensor('int32', new Int32Array(6), [6]) } },
    INVALID,
    'options.bias.type',
  ],
  ['a disposed bias', { options: { bias: disposed([6]) } }, DISPOSED, 'options.bias has been disposed'],
  ['a detached bias', { options: { bias: detached([6]) } }, INVALID, 'options.bias.data is detached'],
  [
    'a residual of other dims',
    { options: { residual: tensor([1, 6, 3, 2]) } },
    INVALID,
    'options.residual.dims must be [1, 6, 3, 3]',
  ],
  ['a residual of the input', { options: { residual: input } }, INVALID, 'options.residual.dims'],
  [
    'a disposed residual',
    { options: { residual: disposed(OUTPUT_DIMS) } },
    DISPOSED,
    'options.residual has been disposed',
  ],
];

const OPTIONS: Row[] = [
  ['options that are no object', { options: 5 }, INVALID, 'options must be an object, got 5'],
  ['options that are null', { options: null }, INVALID, 'options must be an object, got null'],
  ['the bias for options', { options: [tensor([6])] }, INVALID, 'options must be an object'],
  [
    'a misspelt option',
    { options: { paddding: 1 } },
    INVALID,
    `options.paddding is not known; did you mean 'padding'?`,
  ],
  ['an option of others', { options: { inputDims: INPUT_DIMS } }, INVALID, 'options.inputDims is not known'],
  [
    'a stride in words',
    { options: { stride: 'two' } },
    INVALID,
    `options.stride must be a positive integer or [height, width], got 'two'`,
  ],
  ['a stride of zero', { options: { stride: 0 } }, INVALID, 'options.stride'],
  [
    'a negative stride',
    { options: { stride: [1, -1] } },
    INVALID,
    'options.stride[1] must be a positive integer, got -1',
  ],
  ['a fractional stride', { options: { stride: 1.5 } }, INVALID, 'options.stride'],
  ['a stride that is NaN', { options: { stride: NaN } }, INVALID, 'options.stride'],
  ['an infinite stride', { options: { stride: Infinity } }, INVALID, 'options.stride'],
  [
    'a huge stride',
    { options: { stride: 2 ** 31 } },
    INVALID,
    'options.stride must be a positive integer of at most 2147483647',
  ],
  ['a stride of three numbers', { options: { stride: [1, 1, 1] } }, INVALID, 'options.stride'],
  ['a stride of null', { options: { stride: null } }, INVALID, 'options.stride'],
  ['a dilation of zero', { options: { dilation: 0 } }, INVALID, 'options.dilation'],
  ['a dilation that is a bigint', { options: { dilation: 1n } }, INVALID, 'options.dilation'],
  [
    'negative padding',
    { options: { padding: -1 } },
    INVALID,
    'options.padding must be a non-negative integer, got -1',
  ],
  ['negative padding at the bottom', { options: { padding: [0, 0, -1, 0] } }, INVALID, 'options.padding[2]'],
  ['padding of three numbers', { options: { padding: [1, 1, 1] } }, INVALID, 'options.padding'],
  ['padding by an unknown word', { options: { padding: 'full' } }, INVALID, `options.padding must be`],
  ['no groups', { options: { groups: 0 } }, INVALID, 'options.groups must be a positive integer, got 0'],
  ['groups for each axis', { options: { groups: [1, 1] } }, INVALID, 'options.groups'],
  ['an unknown activation', { options: { activation: 'gelu' } }, INVALID, 'options.activation must be'],
  ['a misspelt activation', { options: { activation: 'ReLU' } }, INVALID, `did you mean 'relu'?`],
  ['a clip upside down', { options: { activation: { clip: [6, 0] } } }, INVALID, 'options.activation.clip'],
  ['a clip to NaN', { options: { activation: { clip: [NaN, 6] } } }, INVALID, 'options.activation.clip[0]'],
  [
    'an infinite slope',
    { options: { activation: { leakyRelu: Infinity } } },
    INVALID,
    'options.activation.leakyRelu',
  ],
  ['an unknown algorithm', { options: { algorithm: 'fft' } }, INVALID, `options.algorithm 'fft'`],
  [
    'an algorithm of other devices',
    { options: { algorithm: 'im2win' } },
    UNSUPPORTED,
    `options.algorithm 'im2win'`,
  ],
  [
    'a variant without its algorithm',
    { options: { variant: 'implicit' } },
    INVALID,
    `options.variant 'implicit' needs options.algorithm to name the algorithm it belongs to`,
  ],
  [
    'a variant on the CPU',
    { options: { algorithm: 'direct', variant: 'fast' } },
    UNSUPPORTED,
    `options.algorithm 'direct' refuses this problem: has no variants; options.variant is 'fast'`,
  ],
  [
    'switches of another algorithm',
    { options: { sconv: { vectorPacking: false } } },
    INVALID,
    `options.sconv is for options.algorithm 'sconv', which is 'auto'`,
  ],
  [
    'a presentation that the problem cannot have',
    { options: { algorithm: 'sconv', stride: 3, sconv: { presentation: 'asTheyLie' } } },
    UNSUPPORTED,
    `options.algorithm 'sconv' refuses this problem: reads windows as they lie`,
  ],
  [
    'switches of sconv when tuning',
    { options: { algorithm: 'tune', sconv: { vectorPacking: false } } },
    INVALID,
    `options.sconv is for options.algorithm 'sconv', which is 'tune'`,
  ],
  ['an algorithm by number', { options: { algorithm: 0 } }, INVALID, 'options.algorithm'],
  ['an unknown precision', { options: { precision: 'fp64' } }, INVALID, 'options.precision'],
  ['a layout of other devices', { options: { layout: 'nchw4' } }, INVALID, `options.layout must be 'nchw'`],
  ['determinism in words', { options: { deterministic: 'yes' } }, INVALID, 'options.deterministic'],
  ['a negative workspace', { options: { workspaceLimit: -1 } }, INVALID, 'options.workspaceLimit'],
  ['a workspace that is NaN', { options: { workspaceLimit: NaN } }, INVALID, 'options.workspaceLimit'],
  [
    'a workspace too small for the algorithm',
    { options: { algorithm: 'sconv', workspaceLimit: 0 } },
    UNSUPPORTED,
    'options.workspaceLimit is 0',
  ],
  ['an unknown device', { options: { device: 'gpu' } }, INVALID, 'options.device must be'],
  [
    'a GPU that is not there',
    { options: { device: 'cuda:99' } },
    'ERR_WARPCONV_NO_DEVICE',
    `device 'cuda:99'`,
  ],
  ['a signal that is none', { options: { signal: true } }, INVALID, 'options.signal must be an AbortSignal'],
  ['an aborted signal', { options: { signal: AbortSignal.abort() } }, ABORTED, 'options.signal'],
];

describe.each([
  ['tensors', TENSORS],
  ['shapes', SHAPES],
  ['options', OPTIONS],
])('%s', (_, rows) => {
  it.each(rows)('%s', async (_what, call, code, message) => {
    const { input: image = input, weight: filters = weight, options = {} } = call;
    const args = [image, filters, onCpu(options) as Conv2dOptions] as const;
    expect(() => conv2dSync(...args)).toThrow(refusal(code, message));
    expectGoodCall();
    await expect(conv2d(...args)).rejects.toEqual(refusal(code, message));
    expectGoodCall();
  });
});

/** The options with the CPU for a default, getters kept. */
function onCpu(options: unknown): unknown {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) return options;
  return Object.defineProperties({ device: 'cpu' }, Object.getOwnPropertyDescriptors(options));
}

describe('plans', () => {
  const create = (changes: object = {}, weights: TensorLike = weight) =>
    Conv2d.create(weights, { inputDims: INPUT_DIMS, device: 'cpu', ...changes });

  it.each<[string, object, TensorLike, string, string]>([
    [
      'without the dims of its input',
      { inputDims: undefined },
      weight,
      INVALID,
      'options.inputDims must be [N, C, H, W], got undefined',
    ],
    ['for an input of rank 3', { inputDims: [4, 5, 5] }, weight, INVALID, 'options.inputDims'],
    ['for an empty input', { inputDims: [1, 4, 0, 5] }, weight, INVALID, 'options.inputDims[2]'],
    ['for other channels', { inputDims: [1, 3, 5, 5] }, weight, INVALID, 'weight.dims[1]'],
    [
      'with an unknown option',
      { output: tensor(OUTPUT_DIMS) },
      weight,
      INVALID,
      'options.output is not known',
    ],
    ['with a disposed weight', {}, disposed(WEIGHT_DIMS), DISPOSED, 'weight has been disposed'],
    [
      'with a residual of other dims',
      { residual: tensor([1, 6, 3, 2]) },
      weight,
      INVALID,
      'options.residual.dims',
    ],
    ['with an aborted signal', { signal: AbortSignal.abort('enough') }, weight, ABORTED, 'options.signal'],
  ])('are not created %s', async (_, changes, weights, code, message) => {
    await expect(create(changes, weights)).rejects.toEqual(refusal(code, message));
    expectGoodCall();
  });

  it('are not made by new', () => {
    const Unchecked = Conv2d as unknown as new () => Conv2d;
    expect(() => new Unchecked()).toThrow(refusal(INVALID, 'Conv2d.create'));
  });

  const shared = new Float32Array(154);
  const first = new Tensor('float32', shared.subarray(0, 100), INPUT_DIMS);

  it.each<[string, TensorLike, unknown, string, string]>([
    ['an input of other dims', tensor([1, 4, 5, 6]), {}, INVALID, 'input.dims must be [1, 4, 5, 5]'],
    ['a disposed input', disposed(INPUT_DIMS), {}, DISPOSED, 'input has been disposed'],
    ['an unknown option', input, { stride: 2 }, INVALID, 'options.stride is not known'],
    [
      'an output of other dims',
      input,
      { output: tensor(INPUT_DIMS) },
      INVALID,
      'options.output.dims must be [1, 6, 3, 3]',
    ],
    [
      'an output of another type',
      input,
      { output: new Tensor('int32', new Int32Array(54), OUTPUT_DIMS) },
      INVALID,
      'options.output.type',
    ],
    [
      'an output that is an array',
      input,
      { output: new Float32Array(54) },
      INVALID,
      'options.output must be a tensor',
    ],
    ['an output of null', input, { output: null }, INVALID, 'options.output must be a tensor'],
    [
      'a disposed output',
      input,
      { output: disposed(OUTPUT_DIMS) },
      DISPOSED,
      'options.output has been disposed',
    ],
    [
      'a detached output',
      input,
      { output: detached(OUTPUT_DIMS) },
      INVALID,
      'options.output.data is detached',
    ],
    [
      'an output in shared memory',
      input,
      { output: new Tensor('float32', new Float32Array(new SharedArrayBuffer(216)), OUTPUT_DIMS) },
      INVALID,
      'options.output.data must be over an ordinary ArrayBuffer',
    ],
    [
      'an output inside the input',
      first,
      { output: new Tensor('float32', shared.subarray(99, 153), OUTPUT_DIMS) },
      INVALID,
      'options.output shares memory with input',
    ],
    [
      'an output that is the residual',
      input,
      aliased(),
      INVALID,
      'options.output shares memory with the residual',
    ],
    ['a residual of other dims', input, { residual: input }, INVALID, 'options.residual.dims'],
    ['an aborted signal', input, { signal: AbortSignal.abort() }, ABORTED, 'options.signal'],
  ])('do not run with %s', async (_, image, options, code, message) => {
    const plan = await create();
    expect(() => plan.runSync(image, options as object)).toThrow(refusal(code, message));
    await expect(plan.run(image, options as object)).rejects.toEqual(refusal(code, message));
    expect([...(await plan.run(input)).data]).toEqual(new Array(54).fill(36));
    plan.dispose();
  });

  it('may write beside their input', async () => {
    const output = new Tensor('float32', shared.subarray(100, 154), OUTPUT_DIMS);
    const plan = await create();
    expect(plan.runSync(first.reshape(INPUT_DIMS), { output })).toBe(output);
    plan.dispose();
  });

  it('do nothing once disposed', async () => {
    const plan = await create();
    plan.dispose();
    plan.dispose();
    expect(() => plan.runSync(input)).toThrow(refusal(DISPOSED, 'the plan has been disposed'));
    await expect(plan.run(input)).rejects.toEqual(refusal(DISPOSED, 'the plan has been disposed'));
    expect(() => plan.explain()).toThrow(refusal(DISPOSED, 'the plan has been disposed'));
    expectGoodCall();
  });

  it('notice that reading the arguments disposed them', async () => {
    const plan = await create();
    const image = {
      ...like({}),
      get type() {
        plan.dispose();
        return 'float32';
      },
    };
    await expect(plan.run(image)).rejects.toEqual(refusal(DISPOSED, 'the plan has been disposed'));
    expectGoodCall();
  });

  function aliased(): object {
    const both = tensor(OUTPUT_DIMS);
    return { output: both, residual: both };
  }
});

describe('algorithms', () => {
  const problem = { inputDims: INPUT_DIMS, weightDims: WEIGHT_DIMS };

  it.each<[string, unknown, unknown, string, string]>([
    ['no problem', undefined, 'cpu', INVALID, 'problem must be an object'],
    [
      'no weight',
      { inputDims: INPUT_DIMS },
      'cpu',
      INVALID,
      'problem.weightDims must be [K, C / groups, R, S]',
    ],
    ['an unknown property', { ...problem, dialation: 2 }, 'cpu', INVALID, `did you mean 'dilation'?`],
    ['an unknown device', problem, 'tpu', INVALID, 'device must be'],
    ['a GPU that is not there', problem, 'cuda:99', 'ERR_WARPCONV_NO_DEVICE', 'cuda:99'],
  ])('refuse %s', (_, shapes, device, code, message) => {
    expect(() => algorithms(shapes as typeof problem, device as 'cpu')).toThrow(refusal(code, message));
    expect(algorithms(problem, 'cpu').some(({ chosen }) => chosen)).toBe(true);
  });
});

import {
  readConv2dOptions,
  readCreateOptions,
  readProblem,
  readRunOptions,
  readTuneRequest,
} from '../../lib/conv2d/options';

const method = (options: object) => readConv2dOptions(options).method;

describe('defaults', () => {
  it('are spelt out', () => {
    const defaults = {
      method: {
        stride: [1, 1],
        padding: [0, 0, 0, 0],
        dilation: [1, 1],
        groups: 1,
        activation: { name: 'none', parameters: [] },
        algorithm: 'auto',
        variant: '',
        workspaceLimit: Infinity,
        sconv: { schedule: null, presentation: null, vectorPacking: true, packing: 'onDemand' },
      },
      bias: null,
      residual: null,
      device: 'auto',
      precision: undefined,
      layout: 'nchw',
      deterministic: false,
      signal: undefined,
    };
    expect(readConv2dOptions()).toEqual(defaults);
    expect(readConv2dOptions({ stride: undefined, bias: undefined, device: undefined })).toEqual(defaults);
  });

  it('of a run leave the choice to the plan', () => {
    expect(readRunOptions()).toEqual({ output: undefined, residual: undefined, signal: undefined });
    expect(readRunOptions({ residual: null }).residual).toBeNull();
  });
});

describe('normalisation', () => {
  it.each<[unknown, unknown]>([
    [2, [2, 2, 2, 2]],
    [
      [1, 2],
      [1, 2, 1, 2],
    ],
    [
      [1, 2, 3, 4],
      [1, 2, 3, 4],
    ],
    ['same', 'same'],
    ['valid', 'valid'],
  ])('spells padding %j out as %j', (padding, spelt) => {
    expect(method({ padding }).padding).toEqual(spelt);
  });

  it('spells stride, dilation and groups out', () => {
    expect(method({ stride: 2, dilation: [1, 3], groups: 4 })).toMatchObject({
      stride: [2, 2],
      dilation: [1, 3],
      groups: 4,
    });
  });

  it.each<[unknown, string, number[]]>([
    ['relu', 'relu', []],
    ['relu6', 'relu6', []],
    ['leakyRelu', 'leakyRelu', [0.01]],
    ['sigmoid', 'sigmoid', []],
    ['silu', 'silu', []],
    ['hardSwish', 'hardSwish', []],
    [{ leakyRelu: 0.2 }, 'leakyRelu', [0.2]],
    [{ clip: [-Infinity, 6] }, 'clip', [-Infinity, 6]],
    [{ clip: [1, 1] }, 'clip', [1, 1]],
  ])('takes the activation %j', (activation, name, parameters) => {
    expect(method({ activation }).activation).toEqual({ name, parameters });
  });

  it('passes algorithm names on: native code knows which there are', () => {
    expect(method({ algorithm: 'sconv' }).algorithm).toBe('sconv');
    expect(method({ algorithm: 'fft' }).algorithm).toBe('fft');
  });

  it('passes the switches of sconv on', () => {
    const sconv = {
      schedule: 'weightStationary',
      presentation: 'packed',
      vectorPacking: false,
      packing: 'ahead',
    };
    expect(method({ sconv }).sconv).toEqual(sconv);
    expect(method({ sconv: { packing: 'ahead' } }).sconv).toMatchObject({ schedule: null, packing: 'ahead' });
  });

  it.each(['auto', 'cpu', 'cuda', 'cuda:0', 'cuda:12'])('takes device %s', (device) => {
    expect(readConv2dOptions({ device }).device).toBe(device);
  });

  it('reads a problem as it reads options', () => {
    const problem = { inputDims: [1, 2, 3, 4], weightDims: [5, 2, 1, 1], stride: 2, workspaceLimit: 0 };
    expect(readProblem(problem)).toMatchObject({ ...problem, stride: [2, 2] });
  });

  it('reads each option once', () => {
    const reads: Record<string, number> = {};
    const options = new Proxy({ inputDims: [1, 1, 2, 2] } as Record<string, unknown>, {
      get(target, key) {
        reads[String(key)] = (reads[String(key)] ?? 0) + 1;
        return target[String(key)];
      },
    });
    readCreateOptions(options);
    expect(Object.keys(reads)).toHaveLength(18);
    expect(new Set(Object.values(reads))).toEqual(new Set([1]));
  });
});

describe('refusals', () => {
  it.each<[object, string]>([
    [{ stride: 'two' }, `options.stride must be a positive integer or [height, width], got 'two'`],
    [{ stride: 0 }, 'options.stride must be a positive integer or [height, width], got 0'],
    [{ stride: 2 ** 31 }, 'of at most 2147483647 or [height, width], got 2147483648'],
    [{ stride: null }, 'options.stride must be a positive integer or [height, width], got null'],
    [{ dilation: [1, -1] }, 'options.dilation[1] must be a positive integer, got -1'],
    [{ padding: -1 }, 'options.padding must be a non-negative integer, got -1'],
    [{ padding: [1, 2, 3] }, `[top, left, bottom, right], 'same' or 'valid', got [1, 2, 3]`],
    [{ padding: 'full' }, `'same' or 'valid', got 'full'`],
    [{ padding: 0.5 }, `'same' or 'valid', got 0.5`],
    [{ groups: 0 }, 'options.groups must be a positive integer, got 0'],
    [{ activation: 'ReLU' }, `got 'ReLU'; did you mean 'relu'?`],
    [{ activation: 7 }, '{ clip: [min, max] } or { leakyRelu: slope }, got 7'],
    [{ activation: [0, 6] }, '{ leakyRelu: slope }, got [0, 6]'],
    [{ activation: {} }, '{ leakyRelu: slope }, got an object'],
    [{ activation: { clip: [0, 1], leakyRelu: 1 } }, '{ leakyRelu: slope }, got an object'],
    [{ activation: { clamp: [0, 1] } }, 'options.activation.clamp is not known'],
    [{ activation: { clip: 6 } }, 'options.activation.clip must be [min, max], got 6'],
    [
      { activation: { clip: [6, 0] } },
      'options.activation.clip must be [min, max] with min not above max, got [6, 0]',
    ],
    [{ activation: { clip: [0, Number.NaN] } }, 'options.activation.clip[1] must be a number, got NaN'],
    [
      { activation: { leakyRelu: Infinity } },
      'options.activation.leakyRelu must be a finite number, got Infinity',
    ],
    [{ algorithm: 5 }, `options.algorithm must be 'auto', 'tune' or the name of an algorithm, got 5`],
    [
      { algorithm: 'tune', variant: 'wide' },
      `options.variant 'wide' needs options.algorithm to name the algorithm it belongs to`,
    ],
    [{ precision: 'fp64' }, `options.precision must be 'fp32', 'tf32', 'fp16' or 'bf16', got 'fp64'`],
    [{ deterministic: 'yes' }, `options.deterministic must be true or false, got 'yes'`],
    [
      { workspaceLimit: -1 },
      'options.workspaceLimit must be a non-negative integer number of bytes or Infinity',
    ],
    [{ workspaceLimit: -Infinity }, 'options.workspaceLimit must be'],
    [{ sconv: null }, 'options.sconv must be an object, got null'],
    [{ sconv: { packs: 1 } }, 'options.sconv.packs is not known'],
    [
      { sconv: { schedule: 'outputStationary' } },
      `'inputStationary' or 'weightStationary', got 'outputStationary'`,
    ],
    [{ sconv: { presentation: 'rows' } }, `options.sconv.presentation must be 'asTheyLie' or 'packed'`],
    [{ sconv: { vectorPacking: 'no' } }, `options.sconv.vectorPacking must be true or false, got 'no'`],
    [{ sconv: { packing: 'never' } }, `options.sconv.packing must be 'onDemand' or 'ahead', got 'never'`],
    [{ device: 'gpu' }, `options.device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'`],
    [{ device: 'cuda:-1' }, `got 'cuda:-1'`],
    [{ signal: {} }, 'options.signal must be an AbortSignal, got an object'],
    [{ signal: null }, 'options.signal must be an AbortSignal, got null'],
    [{ bias: 3 }, 'options.bias must be a tensor'],
    [{ bais: null }, `options.bais is not known; did you mean 'bias'?`],
  ])('%j', (options, message) => {
    expect(() => readConv2dOptions(options)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining(message) as string,
      }),
    );
  });

  it('has the precision of the type where a problem says none, and brings its dims to N, C, H, W', () => {
    const shapes = { inputDims: [2, 5, 6, 3], weightDims: [4, 3, 3, 3], layout: 'nhwc' };
    const pixels = { layout: 'nhwc', pitch: 0 };
    const half = { ...pixels, type: 'float16' };
    expect(readProblem({ ...shapes, inputType: 'float16' })).toMatchObject({
      inputDims: [2, 3, 5, 6],
      precision: 'fp16',
      format: { input: half, residual: half, output: half },
    });
    expect(readProblem({ ...shapes, precision: 'tf32' })).toMatchObject({
      precision: 'tf32',
      format: { input: { ...pixels, type: 'float32' } },
    });
    expect(readProblem({ ...shapes, layout: 'nchw' })).not.toHaveProperty('format');
    const asked = readTuneRequest(
      [{ ...shapes, inputType: 'bfloat16' }, { ...shapes, precision: 'fp16' }, shapes].slice(0, 2),
      { precision: 'tf32' },
    );
    expect(asked.problems.map(({ precision }) => precision)).toEqual(['tf32', 'fp16']);
  });

  it('refuses a signal that is already aborted, with its reason', () => {
    const reason = new Error('enough');
    expect(() => readConv2dOptions({ signal: AbortSignal.abort(reason) })).toThrow(
      expect.objectContaining({ code: 'ERR_WARPCONV_ABORTED', cause: reason }),
    );
  });

  it('needs the dims of the input for a plan, and both for a problem', () => {
    expect(() => readCreateOptions({})).toThrow('options.inputDims must be [N, C, H, W], got undefined');
    expect(() => readCreateOptions(undefined)).toThrow('options must be an object, got undefined');
    const problem = { inputDims: [1, 1, 1, 1] };
    expect(() => readProblem(problem)).toThrow(
      'problem.weightDims must be [K, C / groups, R, S], got undefined',
    );
  });
});

describe('what to tune', () => {
  const problem = { inputDims: [1, 2, 3, 4], weightDims: [5, 2, 1, 1] };

  it('is a list of problems that leave the algorithm open', () => {
    const request = readTuneRequest([problem, { ...problem, algorithm: 'tune', stride: 2 }]);
    expect(request).toMatchObject({
      problems: [
        { ...problem, algorithm: 'tune' },
        { algorithm: 'tune', stride: [2, 2] },
      ],
      device: 'auto',
      deterministic: false,
      signal: undefined,
    });
    expect(readTuneRequest([]).problems).toEqual([]);
  });

  it.each<[unknown, unknown, string]>([
    [problem, {}, 'problems must be a list of problems, got an object'],
    [[problem, 5], {}, 'problems[1] must be an object, got 5'],
    [[{ ...problem, strides: 2 }], {}, `problems[0].strides is not known; did you mean 'stride'?`],
    [[problem, { weightDims: [5, 2, 1, 1] }], {}, 'problems[1].inputDims must be [N, C, H, W]'],
    [
      [{ ...problem, algorithm: 'direct' }],
      {},
      `problems[0].algorithm must be 'tune' or left out, got 'direct'`,
    ],
    [[], { progress: 1 }, `options.progress is not known; did you mean 'onProgress'?`],
    [[], { onProgress: 1 }, 'options.onProgress must be a function, got 1'],
    [[], { device: 'gpu' }, `options.device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'`],
  ])('%j with %j is refused', (problems, options, message) => {
    expect(() => readTuneRequest(problems, options)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining(message) as string,
      }),
    );
  });
});

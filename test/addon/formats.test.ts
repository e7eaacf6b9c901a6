/**
 * Convolutions of every type and layout, on the device under test, against a reference in double precision that is rounded
 * to the type.
 */
import {
  algorithms,
  Conv2d,
  conv2d,
  conv2dSync,
  InferenceSession,
  Tensor,
  tune,
  type AlgorithmName,
  type FloatType,
  type Layout,
  type Precision,
} from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { dimsIn, elementsOf, nearest, plainValues, stepOf, tensorIn } from '../support/float_types';
import {
  fuzzProblem,
  integerOperands,
  Random,
  realOperands,
  withExactActivation,
  type FuzzProblem,
} from '../support/random';
import { node, onnxModel, value } from '../support/onnx_builder';
import { outputDims, reference, type Operands, type Problem } from '../support/reference';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const device = TEST_DEVICE;
const TYPES = ['float32', 'float16', 'bfloat16'] as const;
const LAYOUTS = ['nchw', 'nhwc'] as const;
/** A precision where the device has it */
const hereOr = (precision: string) => (device === 'cpu' ? 'fp32' : precision);
const FORMS = TYPES.flatMap((type) => LAYOUTS.map((layout) => ({ type, layout })));

interface Form {
  readonly type: FloatType;
  readonly layout: Layout;
}

/** What products may be off by, as a share of their magnitudes: on the CPU they are float32's, whatever the type. */
const TOLERANCES: Readonly<Record<FloatType, number>> =
  device === 'cpu'
    ? { float32: 4e-6, float16: 4e-6, bfloat16: 4e-6 }
    : { float32: 4e-6, float16: 2 ** -10, bfloat16: 2 ** -7 };

const PLAIN = {
  stride: [1, 1],
  padding: [0, 0, 0, 0],
  dilation: [1, 1],
  groups: 1,
  activation: 'none',
  bias: false,
  residual: false,
} as const;

const PROBLEMS: Readonly<Record<string, FuzzProblem>> = {
  'three channels': { ...PLAIN, inputDims: [2, 3, 13, 11], weightDims: [8, 3, 3, 3], padding: [1, 1, 1, 1] },
  pointwise: {
    ...PLAIN,
    inputDims: [2, 20, 7, 9],
    weightDims: [33, 20, 1, 1],
    bias: true,
    activation: 'relu',
  },
  'groups, stride and dilation': {
    ...PLAIN,
    inputDims: [1, 12, 15, 17],
    weightDims: [18, 4, 3, 2],
    groups: 3,
    stride: [2, 1],
    dilation: [1, 3],
    padding: [2, 0, 1, 3],
    residual: true,
  },
  depthwise: {
    ...PLAIN,
    inputDims: [3, 16, 9, 10],
    weightDims: [16, 1, 3, 3],
    groups: 16,
    padding: 'same',
    bias: true,
    activation: { clip: [-3, 5] },
  },
  'one pixel, residual': {
    ...PLAIN,
    inputDims: [4, 17, 1, 1],
    weightDims: [5, 17, 1, 1],
    residual: true,
    bias: true,
    activation: { leakyRelu: 0.25 },
  },
};

/** Of magnitudes that halves hold exactly, with sums that float32 does. */
function smallIntegers(problem: FuzzProblem, random: Random): Operands {
  const small = (data: Float32Array) => data.map(() => random.integer(-3, 3));
  const { input, weight, bias, residual } = integerOperands(problem, random);
  return {
    input: small(input),
    weight: small(weight),
    bias: bias && small(bias),
    residual: residual && small(residual),
  };
}

/** Rounded to the type, so that the reference is of what the library gets. */
function realsOf(type: FloatType, problem: FuzzProblem, random: Random): Operands {
  const rounded = (data: Float32Array) => data.map((value) => nearest(type, value));
  const { input, weight, bias, residual } = realOperands(problem, random);
  return {
    input: rounded(input),
    weight: rounded(weight),
    bias: bias && rounded(bias),
    residual: residual && rounded(residual),
  };
}

/** The call's arguments. Weight and bias are of the input's type, or another that goes with it. */
function argumentsOf(
  form: Form,
  problem: Problem,
  operands: Operands,
  algorithm: 'auto' | AlgorithmName,
  weightType = form.type,
) {
  const { inputDims, weightDims, stride, padding, dilation, groups, activation } = problem;
  const { input, weight, bias, residual } = operands;
  const weights = { type: weightType, layout: 'nchw' } as const;
  return [
    tensorIn(form, inputDims, input),
    tensorIn(weights, weightDims, weight),
    {
      stride,
      padding,
      dilation,
      groups,
      activation,
      algorithm,
      device,
      layout: form.layout,
      bias: bias && new Tensor(weightType, elementsOf(weightType, bias) as never, [bias.length]),
      residual: residual && tensorIn(form, outputDims(problem), residual),
    },
  ] as const;
}

function accepting({ type, layout }: Form, problem: Problem): AlgorithmName[] {
  const { inputDims, weightDims, stride, padding, dilation, groups, activation } = problem;
  const shapes = { inputDims: dimsIn(layout, inputDims), weightDims, inputType: type, layout };
  return algorithms({ ...shapes, stride, padding, dilation, groups, activation }, device)
    .filter(({ refusal }) => refusal === undefined)
    .map(({ algorithm }) => algorithm);
}

function expectRounded(form: Form, problem: Problem, operands: Operands, output: Tensor, what: string): void {
  const dims = outputDims(problem);
  expect([output.type, output.dims]).toEqual([form.type, dimsIn(form.layout, dims)]);
  const actual = plainValues(form, dims, output.data as Float32Array);
  const { y } = reference(problem, operands);
  y.forEach((exact, index) => {
    if (actual[index] === nearest(form.type, exact)) return;
    throw new Error(
      `${what}: element ${index} is ${actual[index]}, should be ${nearest(form.type, exact)} (${exact})`,
    );
  });
}

function expectNear(form: Form, problem: Problem, operands: Operands, output: Tensor, what: string): void {
  const dims = outputDims(problem);
  const actual = plainValues(form, dims, output.data as Float32Array);
  const { y, bound } = reference(problem, operands);
  y.forEach((exact, index) => {
    const off = Math.abs(actual[index]! - exact);
    const allowed = TOLERANCES[form.type] * bound[index]! + stepOf(form.type, exact) / 2;
    if (!(off <= allowed))
      throw new Error(`${what}: element ${index} is ${actual[index]}, not within ${allowed} of ${exact}`);
  });
}

describe.each(FORMS)('$type in $layout', (form) => {
  const random = new Random(49);

  it.each(Object.entries(PROBLEMS))(
    '%s: integers exactly, rounded once, by every algorithm',
    (name, problem) => {
      const operands = smallIntegers(problem, random);
      const names = accepting(form, problem);
      expect(names).toContain('direct');
      for (const algorithm of names) {
        for (const weightType of new Set([form.type, 'float32'] as const)) {
          const output = conv2dSync(...argumentsOf(form, problem, operands, algorithm, weightType));
          expectRounded(form, problem, operands, output, `${name}, ${algorithm}, weights ${weightType}`);
        }
      }
    },
  );

  it.each(Object.entries(PROBLEMS))('%s: reals within a rounding of the type', async (name, problem) => {
    const operands = realsOf(form.type, problem, random);
    for (const algorithm of accepting(form, problem)) {
      const output = await conv2d(...argumentsOf(form, problem, operands, algorithm));
      expectNear(form, problem, operands, output, `${name}, ${algorithm}`);
    }
  });

  it('passes on NaN and infinity to the windows that have them, and to no other', () => {
    const problem = PROBLEMS['three channels']!;
    for (const strange of [NaN, Infinity, -Infinity]) {
      const operands = smallIntegers(problem, random);
      operands.input[2 * 143 + 60] = strange;
      for (const algorithm of accepting(form, problem)) {
        const output = conv2dSync(...argumentsOf(form, problem, operands, algorithm));
        const actual = plainValues(form, outputDims(problem), output.data);
        const { y } = reference(problem, operands);
        expect([algorithm, ...actual]).toEqual([algorithm, ...y.map((exact) => nearest(form.type, exact))]);
      }
    }
  });

  it('gives nothing for no images', async () => {
    const empty = tensorIn(form, [0, 3, 8, 8], []);
    const weight = tensorIn({ type: form.type, layout: 'nchw' }, [4, 3, 3, 3], new Float32Array(108));
    const output = await conv2d(empty, weight, { layout: form.layout, device });
    expect([output.type, output.dims, output.size]).toEqual([
      form.type,
      dimsIn(form.layout, [0, 4, 6, 6]),
      0,
    ]);
  });

  it('is used again by a plan, into tensors of the caller, and explained', async () => {
    const problem = PROBLEMS['groups, stride and dilation']!;
    const operands = smallIntegers(problem, random);
    const [input, weight, options] = argumentsOf(form, problem, operands, 'auto');
    const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
    expect(plan.outputDims).toEqual(dimsIn(form.layout, outputDims(problem)));
    const precision = hereOr({ float32: 'fp32', float16: 'fp16', bfloat16: 'bf16' }[form.type]);
    const { outputDims: planned } = plan;
    expect(plan.explain()).toMatchObject({ ...form, precision, inputDims: input.dims, outputDims: planned });
    const own = tensorIn(form, outputDims(problem), new Float32Array(operands.residual!.length));
    for (const output of [undefined, own, own]) {
      const given = await plan.run(input, { output });
      expectRounded(form, problem, operands, given, 'run');
      if (output !== undefined) expect(given).toBe(own);
      expectRounded(form, problem, operands, plan.runSync(input, { output }), 'runSync');
    }
    const without = { ...operands, residual: undefined };
    expectRounded(form, problem, without, await plan.run(input, { residual: null }), 'no residual');
    expectRounded(form, problem, operands, await plan.run(input, { residual: options.residual }), 'residual');
    plan.dispose();
    await expect(plan.run(input)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });
});

test('random convolutions in random forms', () => {
  const seed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 32);
  process.stdout.write(`formats seed ${seed}\n`);
  for (let index = 0; index < 60; index++) {
    const random = new Random((seed + index) >>> 0);
    const form = random.pick(FORMS);
    const problem = withExactActivation(fuzzProblem(random), random);
    const operands = smallIntegers(problem, random);
    const reals = realsOf(form.type, problem, random);
    const repro = `${JSON.stringify([form, problem])}; repeat with WARPCONV_FUZZ_SEED=${(seed + index) >>> 0}`;
    for (const algorithm of accepting(form, problem)) {
      const what = `${algorithm}, ${repro}`;
      expectRounded(
        form,
        problem,
        operands,
        conv2dSync(...argumentsOf(form, problem, operands, algorithm)),
        what,
      );
      expectNear(form, problem, reals, conv2dSync(...argumentsOf(form, problem, reals, algorithm)), what);
    }
  }
});

test('what float16 has no room for becomes infinite, and ties go to even', () => {
  const run = (type: FloatType, values: readonly number[], factor: number) => {
    const form = { type, layout: 'nhwc' } as const;
    const input = tensorIn(form, [1, 1, 1, values.length], values);
    const weight = new Tensor('float32', [factor], [1, 1, 1, 1]);
    return [
      ...plainValues(
        form,
        [1, 1, 1, values.length],
        conv2dSync(input, weight, { layout: 'nhwc', device }).data,
      ),
    ];
  };
  expect(run('float16', [65504, -65504, 32752, 2048, 1], 2)).toEqual([Infinity, -Infinity, 65504, 4096, 2]);
  // Halfway between neighbours: 2049 and 2051 of steps of two
  expect(run('float16', [683, 685], 3)).toEqual([nearest('float16', 2049), nearest('float16', 2055)]);
  expect(nearest('float16', 2049)).toBe(2048);
  expect(run('bfloat16', [129, 131], 3)).toEqual([nearest('bfloat16', 387), nearest('bfloat16', 393)]);
  // Below the least normal number
  expect(run('float16', [2 ** -14, 3 * 2 ** -24], 0.5)).toEqual([2 ** -15, 2 * 2 ** -24]);
});

test('a precision may be asked of any device and type', () => {
  const problem = PROBLEMS['three channels']!;
  const operands = smallIntegers(problem, new Random(7));
  for (const form of FORMS) {
    const [input, weight, options] = argumentsOf(form, problem, operands, 'auto');
    for (const precision of ['fp32', 'tf32', 'fp16', 'bf16'] as const satisfies readonly Precision[])
      expectRounded(form, problem, operands, conv2dSync(input, weight, { ...options, precision }), precision);
  }
});

describe('refuses, naming the argument', () => {
  const half = { type: 'float16', layout: 'nhwc' } as const;
  const input = tensorIn(half, [1, 4, 5, 6], new Float32Array(120));
  const weight = tensorIn({ type: 'float16', layout: 'nchw' }, [6, 4, 3, 3], new Float32Array(216));
  const residual = (type: FloatType, layout: Layout) =>
    tensorIn({ type, layout }, [1, 6, 3, 4], new Float32Array(72));
  const layout = 'nhwc';

  it.each([
    [{ layout: 'nwhc' }, `options.layout must be 'nchw' or 'nhwc', got 'nwhc'`],
    [
      { layout, residual: residual('float32', 'nhwc') },
      `options.residual.type must be 'float16' (the input is float16), got 'float32'`,
    ],
    [{ layout, residual: residual('float16', 'nchw') }, 'options.residual.dims must be [1, 3, 4, 6]'],
    [
      { layout, bias: new Tensor('bfloat16', new Uint16Array(6), [6]) },
      `options.bias.type must be 'float32' or 'float16' (the input is float16), got 'bfloat16'`,
    ],
    [{ groups: 2 }, `the input's 5 channels (input.dims[1])`],
    [{ layout, groups: 3 }, `the input's 4 channels (input.dims[3])`],
  ] as const)('%j', async (options, message) => {
    const given = { ...options, device } as object;
    const refusal = expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining(message) as string,
    }) as Error;
    // With its dims read as N, C, H, W, where no layout is given.
    const image = 'layout' in options ? input : input.reshape([1, 5, 4, 6]);
    await expect(conv2d(image, weight, given)).rejects.toEqual(refusal);
    expect(() => conv2dSync(image, weight, given)).toThrow(refusal);
  });

  it('tensors of other types than a plan was created for', async () => {
    const plan = await Conv2d.create(weight, { inputDims: input.dims, layout, device });
    await expect(
      plan.run(tensorIn({ type: 'bfloat16', layout }, [1, 4, 5, 6], new Float32Array(120))),
    ).rejects.toThrow(`input.type must be 'float16' (what the plan was created for), got 'bfloat16'`);
    await expect(plan.run(input, { output: residual('float32', 'nhwc') })).rejects.toThrow(
      `options.output.type must be 'float16' (the input is float16), got 'float32'`,
    );
    await expect(plan.run(input, { residual: residual('bfloat16', 'nhwc') })).rejects.toThrow(
      `options.residual.type must be 'float16'`,
    );
    await expect(plan.run(input, { output: residual('float16', 'nchw') })).rejects.toThrow(
      'options.output.dims must be [1, 3, 4, 6]',
    );
    plan.dispose();
    await expect(
      Conv2d.create(weight, { inputDims: input.dims, inputType: 'float32', layout, device }),
    ).rejects.toThrow(`weight.type must be 'float32' (the input is float32), got 'float16'`);
    await expect(
      Conv2d.create(weight, { inputDims: input.dims, inputType: 'int8' as 'float32', layout, device }),
    ).rejects.toThrow(`options.inputType must be 'float32', 'float16' or 'bfloat16', got 'int8'`);
  });

  it('float16 elements in an array of another kind', () => {
    const wrong = { type: 'float16', dims: [1, 4, 5, 6], data: new Float32Array(120) } as const;
    expect(() => conv2dSync(wrong, weight, { device })).toThrow(
      'input.data must be a Float16Array or Uint16Array, got Float32Array',
    );
  });
});

describe('without workspace', () => {
  // The CPU computes in float32, and needs room for what it converts.
  const problem = { weightDims: [3, 5, 3, 3], inputDims: [1, 5, 7, 9], inputType: 'float16' } as const;

  test('every algorithm says why it refuses', () => {
    const all = algorithms({ ...problem, workspaceLimit: 0 }, 'cpu');
    expect(all.map(({ algorithm }) => algorithm)).toEqual(
      algorithms(problem, 'cpu').map(({ algorithm }) => algorithm),
    );
    for (const { chosen, refusal } of all) expect([chosen, typeof refusal]).toEqual([false, 'string']);
    expect(all.find(({ algorithm }) => algorithm === 'direct')!.refusal).toMatch(
      /options\.workspaceLimit is 0/,
    );
    expect(algorithms({ ...problem, algorithm: 'depthwise' }, 'cpu').some(({ chosen }) => chosen)).toBe(
      false,
    );
  });

  test('a call names each reason', () => {
    const input = new Tensor('float16', new Uint16Array(5 * 63), problem.inputDims);
    const weight = new Tensor('float32', new Float32Array(135), problem.weightDims);
    const call = () => conv2dSync(input, weight, { workspaceLimit: 0, device: 'cpu' });
    expect(call).toThrow(
      /^every algorithm refuses this problem: 'depthwise' takes .*; 'direct' needs \d+ bytes/,
    );
  });

  test('an algorithm that the device does not have is refused', () => {
    expect(() => algorithms({ ...problem, algorithm: 'shuffle' }, 'cpu')).toThrow(
      /does not run on device 'cpu'/,
    );
  });
});

test('tuning remembers types, layouts and precisions apart', async () => {
  const before = process.env.WARPCONV_CACHE_DIR;
  process.env.WARPCONV_CACHE_DIR = mkdtempSync(path.join(tmpdir(), 'warpconv-formats-'));
  const problem = { weightDims: [3, 5, 3, 3], inputDims: [1, 5, 7, 9] };
  const asked = [
    problem,
    { ...problem, inputType: 'float16' },
    { ...problem, layout: 'nhwc', inputDims: [1, 7, 9, 5] },
    { ...problem, precision: 'tf32' },
  ] as const;
  const first = await tune(asked, { device });
  expect(first.map(({ tuning }) => tuning?.fromCache)).toEqual([false, false, false, false]);
  expect(first.map(({ type, layout, precision }) => [type, layout, precision])).toEqual([
    ['float32', 'nchw', 'fp32'],
    ['float16', 'nchw', hereOr('fp16')],
    ['float32', 'nhwc', 'fp32'],
    ['float32', 'nchw', hereOr('tf32')],
  ]);
  expect((await tune(asked, { device })).map(({ tuning }) => tuning?.fromCache)).toEqual([
    true,
    true,
    true,
    true,
  ]);
  rmSync(process.env.WARPCONV_CACHE_DIR, { recursive: true });
  process.env.WARPCONV_CACHE_DIR = before;
});

test('a plan of float32 weights for float16 inputs', async () => {
  const problem = PROBLEMS.pointwise!;
  const operands = smallIntegers(problem, new Random(3));
  const form = { type: 'float16', layout: 'nhwc' } as const;
  const [input, weight, options] = argumentsOf(form, problem, operands, 'auto', 'float32');
  const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims, inputType: 'float16' });
  const output: Tensor<'float16'> = await plan.run(input);
  expectRounded(form, problem, operands, output, 'float32 weights');
  plan.dispose();
});

const { Float16Array: Float16 } = globalThis as { Float16Array?: Uint16ArrayConstructor };

describe('the array of float16', () => {
  const scale = new Tensor('float32', [2], [1, 1, 1, 1]);
  const identity = onnxModel({
    inputs: [value('x', [1, 1, 1, 2], 'float16')],
    nodes: [node('Identity', ['x'], ['y'])],
    outputs: [value('y', [1, 1, 1, 2], 'float16')],
  });

  test('is a Float16Array of results where the runtime has one, and else one of bits', async () => {
    const x = new Tensor('float16', [1.5, -2], [1, 1, 1, 2]);
    await using plan = await Conv2d.create(scale, { inputDims: x.dims, inputType: 'float16', device });
    await using session = await InferenceSession.create(identity, { device });
    const results = [x, await conv2d(x, scale, { device }), await plan.run(x), (await session.run({ x })).y!];
    const kinds = results.map(({ data }) => Object.prototype.toString.call(data));
    expect(kinds).toEqual(results.map(() => `[object ${Float16 === undefined ? 'Uint16' : 'Float16'}Array]`));
  });

  (Float16 === undefined ? test.skip : test)('may be a Float16Array of numbers everywhere', async () => {
    const buffers = [ArrayBuffer, SharedArrayBuffer].map((Buffer) => new Buffer(6));
    await using plan = await Conv2d.create(scale, { inputDims: [1, 1, 1, 2], inputType: 'float16', device });
    await using session = await InferenceSession.create(identity, { device });
    for (const data of buffers.map((buffer) => new Float16!(buffer, 2))) {
      data.set([1.5, -2]);
      const x = { type: 'float16', dims: [1, 1, 1, 2], data } as const;
      const output = new Tensor('float16', new Float16!(2), x.dims);
      expect((await conv2d(x, scale, { residual: x, device })).data).toEqual(new Float16!([4.5, -6]));
      expect((await plan.run(x, { output })).data).toEqual(new Float16!([3, -4]));
      await session.run({ x }, { y: output });
      expect(output.data).toEqual(new Float16!([1.5, -2]));
      expect(new Tensor(data, x.dims)).toMatchObject({ type: 'float16', data });
    }
  });

  test('stays one of bits where it is given so', () => {
    const bits = Uint16Array.of(0x3c00);
    expect(new Tensor('float16', bits).data).toBe(bits);
    expect(new Tensor(bits).type).toBe('uint16');
  });
});

/** Types and layouts of tensors on a GPU. Every problem in every form is in test/addon/formats.test.ts. */
import { compareWithCudnn, Conv2d, conv2d, memory, Tensor, type FloatType } from '../../lib';
import { nearest, plainValues, tensorIn } from '../support/float_types';
import { collectGarbage } from '../support/garbage';
import { describeGpu } from '../support/gpu';
import { outputDims, reference, type Problem } from '../support/reference';

// Memory is compared, on the way of which that of earlier tests may be collected.
beforeEach(collectGarbage);

const problem: Problem = {
  inputDims: [2, 12, 17, 20],
  weightDims: [16, 12, 3, 3],
  stride: [1, 1],
  padding: [1, 1, 1, 1],
  dilation: [1, 1],
  groups: 1,
  activation: 'relu',
};
const integers = (length: number) => Float32Array.from({ length }, (_, index) => ((index * 7) % 11) - 5);
const operands = {
  input: integers(2 * 12 * 17 * 20),
  weight: integers(16 * 12 * 9),
  bias: integers(16),
  residual: integers(2 * 16 * 17 * 20),
};
const dims = outputDims(problem);

/** The tensors and options of the problem, with weights as float32. */
function call(type: FloatType, layout: 'nchw' | 'nhwc') {
  const form = { type, layout };
  const weights = new Tensor('float32', operands.weight, problem.weightDims);
  const options = { padding: 1, activation: 'relu', layout, device: 'cuda' } as const;
  return {
    form,
    input: tensorIn(form, problem.inputDims, operands.input),
    residual: tensorIn(form, dims, operands.residual),
    weights,
    options: { ...options, bias: new Tensor('float32', operands.bias, [16]) },
    expected: [...reference(problem, operands).y].map((value) => nearest(type, value)),
  };
}

describeGpu('tensors of other forms on a GPU', () => {
  it.each([
    ['float16', 'nhwc'],
    ['bfloat16', 'nhwc'],
    ['float16', 'nchw'],
    ['float32', 'nhwc'],
  ] as const)('%s in %s: results are where the input is, and of its type', async (type, layout) => {
    const { form, input, residual, weights, options, expected } = call(type, layout);
    const resident = await input.to('cuda');
    const output = await conv2d(resident, weights, { ...options, residual: await residual.to('cuda') });
    expect([output.type, output.location, output.dims]).toEqual([type, 'gpu-buffer', residual.dims]);
    expect([...plainValues(form, dims, await output.getData())]).toEqual(expected);
    const fromCpu = await conv2d(input, weights, { ...options, residual });
    expect([...plainValues(form, dims, fromCpu.data)]).toEqual(expected);
  });

  it('runs of a plan allocate nothing on the device', async () => {
    const { form, input, residual, weights, options, expected } = call('float16', 'nhwc');
    const plan = await Conv2d.create(weights, {
      ...options,
      residual,
      inputDims: input.dims,
      inputType: 'float16',
    });
    const resident = await input.to('cuda');
    const [addend, output] = [await residual.to('cuda'), await residual.to('cuda')];
    const before = memory().gpu['cuda:0'];
    for (let run = 0; run < 20; run++)
      expect(await plan.run(resident, { output, residual: addend })).toBe(output);
    expect(memory().gpu['cuda:0']).toBe(before);
    expect([...plainValues(form, dims, await output.getData())]).toEqual(expected);
    for (const tensor of [resident, addend, output]) tensor.dispose();
    plan.dispose();
  });

  it('every precision of float32 tensors gives small integers exactly', async () => {
    const { form, input, weights, options } = call('float32', 'nchw');
    const expected = [...reference(problem, { ...operands, residual: undefined }).y];
    for (const precision of ['fp32', 'tf32', 'fp16', 'bf16'] as const) {
      const output = await conv2d(input, weights, { ...options, precision });
      expect([precision, ...plainValues(form, dims, output.data)]).toEqual([precision, ...expected]);
    }
  });

  it('tuning remembers each type, layout and precision by itself', async () => {
    const { input, weights, options } = call('float16', 'nhwc');
    const plan = await Conv2d.create(weights, {
      ...options,
      algorithm: 'tune',
      inputDims: input.dims,
      inputType: 'float16',
    });
    expect(plan.explain()).toMatchObject({ type: 'float16', layout: 'nhwc', precision: 'fp16' });
    const other = await Conv2d.create(weights, { ...options, algorithm: 'tune', inputDims: input.dims });
    expect(other.explain()).toMatchObject({ type: 'float32', layout: 'nhwc', precision: 'fp32' });
    for (const one of [plan, other]) expect(one.explain().tuning).toBeDefined();
    plan.dispose();
    other.dispose();
  });

  it('compares with cuDNN in the same precision, whose errors are of the same size', async () => {
    for (const [type, layout, precision] of [
      ['float32', 'nchw', 'tf32'],
      ['float16', 'nhwc', 'fp16'],
      ['bfloat16', 'nchw', 'bf16'],
    ] as const) {
      const { input, weights } = call(type, layout);
      const compared = await compareWithCudnn(input, weights, { padding: 1, layout, precision });
      expect(compared).toMatchObject({ device: 'cuda:0', precision, withinTolerance: true });
      expect(['nchw', 'nhwc']).toContain(compared.cudnnLayout);
      expect(compared.cudnnMaxRelativeError).toBeLessThan(0.05);
    }
  });
});

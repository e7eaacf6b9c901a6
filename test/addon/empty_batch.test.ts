/** A batch of no images has an empty result, after the checks that any batch has. */
import {
  algorithms,
  compareWithCudnn,
  Conv2d,
  conv2d,
  conv2dSync,
  Tensor,
  tune,
  type Conv2dOptions,
  type TensorLike,
} from '../../lib';

const zeros = (dims: readonly number[]) =>
  new Tensor('float32', new Float32Array(dims.reduce((product, extent) => product * extent, 1)), dims);

const input = zeros([0, 4, 5, 6]);
const weight = zeros([6, 2, 3, 3]);
const options = { groups: 2, stride: [1, 2], padding: [1, 0], device: 'cpu' } as const;
/** floor((5 + 2 - 3) / 1) + 1 and floor((6 - 3) / 2) + 1 */
const OUTPUT_DIMS = [0, 6, 5, 2];

function expectEmpty(output: Tensor): void {
  expect(output.dims).toEqual(OUTPUT_DIMS);
  expect(output.type).toBe('float32');
  expect(output.size).toBe(0);
  expect([...(output.data as Float32Array)]).toEqual([]);
}

it.each<[string, Conv2dOptions]>([
  ['plain', {}],
  ['with everything', { bias: zeros([6]), residual: zeros(OUTPUT_DIMS), activation: 'silu' }],
  ['by a named algorithm', { algorithm: 'direct' }],
  // That would take a second and a half, were anything measured.
  ['tuned', { algorithm: 'tune' }],
  ['that can be aborted', { signal: new AbortController().signal }],
])('%s', async (_, more) => {
  expectEmpty(conv2dSync(input, weight, { ...options, ...more }));
  expectEmpty(await conv2d(input, weight, { ...options, ...more }));
  const { signal, ...rest } = more;
  const plan = await Conv2d.create(weight, { inputDims: input.dims, ...options, ...rest });
  expect(plan.outputDims).toEqual(OUTPUT_DIMS);
  expect(plan.explain()).toMatchObject({ inputDims: [0, 4, 5, 6], outputDims: OUTPUT_DIMS });
  expectEmpty(plan.runSync(input));
  expectEmpty(await plan.run(input, { signal }));
  const output = zeros(OUTPUT_DIMS);
  expect(await plan.run(input, { output, signal })).toBe(output);
  plan.dispose();
  expect(() => plan.runSync(input)).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }));
});

it('is resolved beside others, whatever its padding', async () => {
  const same = { ...options, padding: 'same' } as const;
  const full = zeros([2, 4, 5, 6]);
  const [none, some] = await Promise.all([conv2d(input, weight, same), conv2d(full, weight, same)]);
  expect(none.dims).toEqual([0, ...some.dims.slice(1)]);
});

const detached = () => {
  const tensor = zeros([6, 2, 3, 3]);
  structuredClone(tensor.data.buffer, { transfer: [tensor.data.buffer as ArrayBuffer] });
  return tensor;
};
const disposed = () => {
  const tensor = zeros([0, 4, 5, 6]);
  tensor.dispose();
  return tensor;
};

describe('is refused like any other', () => {
  it.each<[string, TensorLike, TensorLike, object, string]>([
    ['for channels that differ', input, zeros([6, 3, 3, 3]), {}, 'INVALID_ARGUMENT'],
    ['for a bias of others', input, weight, { bias: zeros([5]) }, 'INVALID_ARGUMENT'],
    ['for a residual of images', input, weight, { residual: zeros([1, 6, 5, 2]) }, 'INVALID_ARGUMENT'],
    ['for an output that would have no rows', zeros([0, 4, 0, 6]), weight, {}, 'INVALID_ARGUMENT'],
    ['for a filter beyond its input', input, zeros([6, 2, 9, 3]), {}, 'INVALID_ARGUMENT'],
    ['with data', { ...input, data: new Float32Array(1) }, weight, {}, 'INVALID_ARGUMENT'],
    ['with a detached weight', input, detached(), {}, 'INVALID_ARGUMENT'],
    ['when it is disposed', disposed(), weight, {}, 'DISPOSED'],
    ['for an unknown algorithm', input, weight, { algorithm: 'fft' }, 'INVALID_ARGUMENT'],
    ['for an algorithm of GPUs', input, weight, { algorithm: 'im2win' }, 'UNSUPPORTED'],
    ['for a GPU that is not there', input, weight, { device: 'cuda:99' }, 'NO_DEVICE'],
    ['for a precision that is not there', input, weight, { precision: 'fp8' }, 'INVALID_ARGUMENT'],
    ['when it is aborted', input, weight, { signal: AbortSignal.abort() }, 'ABORTED'],
  ])('%s', async (_, image, filters, more, code) => {
    const refusal = expect.objectContaining({ code: `ERR_WARPCONV_${code}` }) as Error;
    expect(() => conv2dSync(image, filters, { ...options, ...more })).toThrow(refusal);
    await expect(conv2d(image, filters, { ...options, ...more })).rejects.toEqual(refusal);
  });

  it('when a plan is for images', async () => {
    const refusal = expect.objectContaining({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' }) as Error;
    const plan = await Conv2d.create(weight, { inputDims: [1, 4, 5, 6], ...options });
    expect(() => plan.runSync(input)).toThrow(refusal);
    plan.dispose();
  });
});

const { device, ...problem } = { ...options, inputDims: input.dims, weightDims: weight.dims };

it('is explained by the algorithms for one image', () => {
  const one = algorithms({ ...problem, inputDims: [1, 4, 5, 6] }, device);
  expect(algorithms(problem, device)).toEqual(one);
  expect(algorithms({ ...problem, algorithm: 'tune' }, device)).toEqual(one);
});

it('is nothing to measure or to compare', async () => {
  const refusal = expect.objectContaining({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining('has no images') as string,
  }) as Error;
  await expect(tune([problem], { device })).rejects.toEqual(refusal);
  await expect(compareWithCudnn(input, weight, { groups: 2 })).rejects.toEqual(refusal);
});

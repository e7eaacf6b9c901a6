import { conv2dSync, devices, setThreads, Tensor, threads } from '../../lib';
import { runChild } from '../support/child';
import { KERNEL_FILTERS } from '../support/library';

const before = threads();
afterEach(() => setThreads(before));

function random(dims: readonly number[]): Tensor<'float32'> {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor(
    'float32',
    Float32Array.from({ length: size }, () => Math.random() - 0.5),
    dims,
  );
}

it('has at most a thread for each processor by default, and at least one', () => {
  const { cores } = devices().find((device) => device.type === 'cpu')!;
  expect(before).toBeGreaterThanOrEqual(1);
  expect(before).toBeLessThanOrEqual(cores);
});

it('gives bitwise the same result for any number of threads', () => {
  const [input, weight] = [random([1, 64, 40, 40]), random([96, 64, 3, 3])];
  const results = [1, 2, 3, 8].map((count) => {
    setThreads(count);
    expect(threads()).toBe(count);
    return conv2dSync(input, weight, { padding: 1, device: 'cpu', algorithm: 'sconv' }).data;
  });
  for (const result of results)
    expect(Buffer.from(result.buffer).equals(Buffer.from(results[0]!.buffer))).toBe(true);
});

it.each([0, -1, 1.5, NaN, 1025, '2', undefined])('refuses %p threads', (count) => {
  expect(() => setThreads(count as number)).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining('count'),
    }),
  );
  expect(threads()).toBe(before);
});

it.each(Object.entries(KERNEL_FILTERS))(
  'WARPCONV_ISA=%s is right, and uses no wider kernel',
  async (isa, filters) => {
    const { stdout, code } = await runChild(['isa.cjs'], { env: { WARPCONV_ISA: isa } });
    const result = JSON.parse(stdout) as { filters: number; right: boolean };
    expect(code).toBe(0);
    expect(result.right).toBe(true);
    expect(result.filters).toBeLessThanOrEqual(filters);
    if (isa === 'portable') expect(result.filters).toBe(filters);
  },
);

it('refuses a misspelt WARPCONV_ISA', async () => {
  const { stdout } = await runChild(['isa.cjs'], { env: { WARPCONV_ISA: 'avx-512' } });
  expect(JSON.parse(stdout)).toEqual({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining(`WARPCONV_ISA is 'avx-512'`),
  });
});

/** Outputs on a GPU that is not there, of calls whose ends the test says. */
import type { Done, NativeFailure } from '../../lib/addon';
import { conv2d, conv2dSync } from '../../lib/conv2d/convolution';
import type { Conv2dOptions, Conv2dRunOptions } from '../../lib/conv2d/options';
import { Conv2d } from '../../lib/conv2d/plan';
import { Tensor } from '../../lib/tensor/tensor';

let mockFailure: NativeFailure | undefined;
const mockBuffers = new Set<object>();

class MockGpuBuffer {
  constructor() {
    mockBuffers.add(this);
  }
  dispose(): void {
    mockBuffers.delete(this);
  }
}

function mockCall(...args: unknown[]): number {
  setImmediate(args.at(-1) as Done, mockFailure);
  return 1;
}

function mockCallSync(): void {
  if (mockFailure !== undefined) throw mockFailure as unknown as Error;
}

class MockPlan {
  readonly outputDims = [1, 1, 2, 2];
  readonly algorithm = 'direct';
  readonly workspaceBytes = 0;
  readonly predictedMilliseconds = 0;
  readonly convolve = mockCall;
  readonly convolveSync = mockCallSync;
  readonly run = mockCall;
  readonly runSync = mockCallSync;
  prepare(_weight: unknown, _bias: unknown, done: Done): number {
    setImmediate(done);
    return 1;
  }
  dispose(): void {}
}

jest.mock('../../lib/load', () => ({
  addon: () => ({
    Plan: MockPlan,
    GpuBuffer: MockGpuBuffer,
    gpusProbed: () => true,
    hasGpu: () => true,
    cancel: () => {},
  }),
}));

const inputDims = [1, 1, 2, 2];
const weight = new Tensor(Float32Array.of(2), [1, 1, 1, 1]);
const residual = new Tensor(new Float32Array(1), [1, 1, 1, 1]);
const onGpu = () => ({
  type: 'float32',
  dims: inputDims,
  data: [],
  location: 'gpu-buffer',
  device: 'cuda:0',
  gpuBuffer: {},
});
const input = onGpu();

type Options = Conv2dOptions & Conv2dRunOptions;
const calls: [string, (options: Options) => Promise<Tensor>][] = [
  ['conv2d', (options) => conv2d(input, weight, options)],
  ['conv2dSync', async (options) => conv2dSync(input, weight, options)],
  ['Conv2d.run', async (options) => (await createPlan()).run(input, options)],
  ['Conv2d.runSync', async (options) => (await createPlan()).runSync(input, options)],
];
const createPlan = () => Conv2d.create(weight, { inputDims, device: 'cuda' });

beforeEach(() => {
  mockFailure = undefined;
  mockBuffers.clear();
});

describe.each(calls)('%s', (_, call) => {
  it("gives an output that is the caller's to dispose", async () => {
    const output = await call({});
    expect(mockBuffers.size).toBe(1);
    output.dispose();
    expect(mockBuffers.size).toBe(0);
  });

  it('keeps no output when native code fails', async () => {
    mockFailure = { code: 'CUDA', message: 'lost' };
    await expect(call({})).rejects.toMatchObject({ code: 'ERR_WARPCONV_CUDA' });
    expect(mockBuffers.size).toBe(0);
  });

  it('keeps no output when its arguments are refused', async () => {
    await expect(call({ residual })).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    expect(mockBuffers.size).toBe(0);
  });
});

it.each(calls.slice(2))("%s leaves the caller's output alone when it fails", async (_, call) => {
  const output = await conv2d(input, weight);
  mockFailure = { code: 'ABORTED', message: 'stopped' };
  await expect(call({ output })).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  expect(output.location).toBe('gpu-buffer');
});

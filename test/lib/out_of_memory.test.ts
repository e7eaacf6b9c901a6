/** Memory of the CPU that cannot be had: each call says so by the package's own error. */
import type { Done } from '../../lib/addon';
import { conv2d } from '../../lib/conv2d/convolution';
import { Conv2d } from '../../lib/conv2d/plan';
import { InferenceSession } from '../../lib/session/session';
import { emptyOnGpu, Tensor } from '../../lib/tensor/tensor';
import type { TensorLike } from '../../lib/tensor/tensor_like';
import { pretendMachine, restoreMachine } from '../support/memory';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

class MockGpuBuffer {
  dispose(): void {}
}

class MockPlan {
  readonly outputDims = mockOutputDims;
  readonly algorithm = 'direct';
  readonly workspaceBytes = 0;
  readonly predictedMilliseconds = 0;
  dispose(): void {}
}

class MockStore {
  readonly bytes = 0;
  readonly scratchBytes = 0;
  trim(): void {}
  dispose(): void {}
}

class MockProgram {
  readonly bytes = 0;
  prepare(done: Done): number {
    setImmediate(done);
    return 1;
  }
  dispose(): void {}
}

/** Of filters of ones. */
function mockFilterRanges(_: unknown, __: unknown, ranges: readonly Float32Array[], done: Done): number {
  ranges.forEach((range) => range.fill(1));
  setImmediate(done);
  return 1;
}

/** More elements than an address space has room for */
const TOO_MANY = 2 ** 46;
const mockOutputDims = [1, 1, 1, 1];
jest.mock('../../lib/load', () => ({
  addon: () => ({
    Plan: MockPlan,
    Store: MockStore,
    Program: MockProgram,
    nextTurn: (done: Done) => Number(setImmediate(done)),
    GpuBuffer: MockGpuBuffer,
    gpusProbed: () => true,
    hasGpu: () => true,
    allocateOutput: () => null,
    releaseIdleOutputs: () => {},
    filterRanges: mockFilterRanges,
  }),
}));

/** Whatever is copied has more bytes than there can be. */
jest.mock('../../lib/tensor/typed_array', () => ({
  ...jest.requireActual<object>('../../lib/tensor/typed_array'),
  bytesUnder: () => ({ length: Number.MAX_SAFE_INTEGER, byteLength: 4 }),
}));

const failure = (bytes: number | string, what: string) => ({
  code: 'ERR_WARPCONV_OUT_OF_MEMORY',
  message: expect.stringContaining(`cannot allocate ${bytes} bytes for ${what} of dims [`) as string,
  cause: expect.objectContaining({ name: 'RangeError' }) as object,
});

const one = new Tensor(new Float32Array(1), [1, 1, 1, 1]);
const shared = new Tensor(new Float32Array(new SharedArrayBuffer(4)), [1, 1, 1, 1]);

it('for a tensor that is fetched from a GPU', async () => {
  const large = emptyOnGpu('cuda:0', 'float32', [TOO_MANY]);
  await expect(large.getData()).rejects.toMatchObject(failure(4 * TOO_MANY, 'a tensor'));
});

it('for weights that are fetched from a GPU', async () => {
  const weight = emptyOnGpu('cuda:0', 'float32', [TOO_MANY, 1, 1, 1]);
  const call = conv2d(one, weight as TensorLike, { device: 'cuda' });
  await expect(call).rejects.toMatchObject(failure(4 * TOO_MANY, 'a copy of weight'));
});

it('for an output of conv2d', async () => {
  mockOutputDims[0] = TOO_MANY;
  const call = conv2d(one, one, { device: 'cpu' });
  mockOutputDims[0] = 1;
  await expect(call).rejects.toMatchObject(failure(4 * TOO_MANY, 'an output'));
});

it.each<[string, () => Promise<unknown>]>([
  ['an input', () => conv2d(shared, one, { device: 'cpu' })],
  ['a tensor on its way to a GPU', () => shared.to('cuda')],
  [
    'a residual that a plan keeps',
    () => Conv2d.create(one, { inputDims: [1, 1, 1, 1], residual: one, device: 'cpu' }),
  ],
])('for a copy of %s', async (_, call) => {
  await expect(call()).rejects.toMatchObject(failure(4, 'a copy of a tensor'));
});

afterEach(restoreMachine);

describe('of a session', () => {
  it('for an output', async () => {
    const pads = Array<number>(4).fill(2 ** 19 - 1);
    const model = onnxModel({
      inputs: [value('x', [1, 1, 1, 1])],
      initializers: [tensor('w', [1, 1, 1, 1], [1])],
      nodes: [node('Conv', ['x', 'w'], ['y'], { pads })],
      outputs: [value('y')],
    });
    pretendMachine({ total: Infinity, free: Infinity });
    const session = await InferenceSession.create(model, { device: 'cpu' });
    const bytes = 4 * (2 ** 20 - 1) ** 2;
    await expect(session.run({ x: one })).rejects.toMatchObject(failure(bytes, 'an output'));
  });

  it('for a copy of a feed', async () => {
    const model = onnxModel({
      inputs: [value('x', [1, 1, 1, 1])],
      nodes: [node('Relu', ['x'], ['y'])],
      outputs: [value('y')],
    });
    const session = await InferenceSession.create(model, { device: 'cpu' });
    const call = () => session.run({ x: shared });
    await expect(call()).rejects.toMatchObject(failure(4, 'a copy of a tensor'));
  });
});

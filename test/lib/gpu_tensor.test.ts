/** Tensors over a GPU that is a piece of CPU memory. */
import type { Done } from '../../lib/addon';
import { Tensor } from '../../lib/tensor';

const mockLive = new Set<object>();
let mockFailure: { code: string; message: string } | undefined;

class MockGpuBuffer {
  readonly bytes: Uint8Array;

  constructor(
    readonly index: number,
    bytes: number,
  ) {
    this.bytes = new Uint8Array(bytes);
    mockLive.add(this);
  }
  write(from: ArrayBufferView, done: Done): number {
    this.bytes.set(new Uint8Array(from.buffer, from.byteOffset, from.byteLength));
    setImmediate(done, mockFailure);
    return 1;
  }
  read(into: ArrayBufferView, done: Done): number {
    new Uint8Array(into.buffer, into.byteOffset, into.byteLength).set(this.bytes);
    setImmediate(done, mockFailure);
    return 1;
  }
  dispose(): void {
    mockLive.delete(this);
  }
}

const mockGpu = { name: 'G', computeCapability: '9.0', memoryBytes: 1, multiprocessors: 1 };
const mockOpened = new Set<number>();
jest.mock('../../lib/load', () => ({
  addon: () => ({
    GpuBuffer: MockGpuBuffer,
    gpusProbed: () => true,
    gpuProbe: () => ({
      missing: null,
      reason: '',
      driver: '13.0',
      gpus: [0, 1].map((index) => ({ ...mockGpu, index })),
    }),
    hasGpu: (index: number) => mockOpened.has(index),
    openGpu: (index: number, done: Done) => {
      mockOpened.add(index);
      setImmediate(done);
      return 1;
    },
  }),
}));

const cpu = new Tensor('float32', Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);

beforeEach(() => {
  mockLive.clear();
  mockFailure = undefined;
});

it('moves to a GPU and back, each time into memory of its own', async () => {
  const gpu = await cpu.to('cuda');
  expect([gpu.location, gpu.device, gpu.dims, gpu.size]).toEqual(['gpu-buffer', 'cuda:0', [2, 3], 6]);
  expect([cpu.location, cpu.device]).toEqual(['cpu', 'cpu']);
  const back = await gpu.to('cpu');
  expect(back.location).toBe('cpu');
  expect([...back.data]).toEqual([1, 2, 3, 4, 5, 6]);
  expect(back.data).not.toBe(cpu.data);
  expect(await gpu.to('cuda:0')).toBe(gpu);
  const other = await gpu.to('cuda:1');
  expect(other.device).toBe('cuda:1');
  expect([...(await other.getData())]).toEqual([1, 2, 3, 4, 5, 6]);
});

it('keeps every type of element', async () => {
  for (const data of [BigInt64Array.of(1n, -2n), Uint8Array.of(3, 4), Float64Array.of(0.5, -0.25)]) {
    const there = await new Tensor(data, [2]).to('cuda');
    const back = await there.getData();
    expect(back.constructor).toBe(data.constructor);
    expect([...back]).toEqual([...data]);
  }
});

it('has no data in CPU memory until it is fetched', async () => {
  const gpu = await cpu.to('cuda');
  expect(() => gpu.data).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: `the tensor's data is on 'cuda:0'; await getData() to bring it to CPU memory`,
    }),
  );
  expect(() => cpu.gpuBuffer).toThrow(/await to\('cuda'\)/);
  const kept = await gpu.getData();
  expect(gpu.location).toBe('gpu-buffer');
  const released = await gpu.getData(true);
  expect([...released]).toEqual([...kept]);
  expect([gpu.location, gpu.data]).toEqual(['cpu', released]);
  expect(mockLive.size).toBe(0);
});

it('shares memory with its reshapes, and frees it with the last of them', async () => {
  const gpu = await cpu.to('cuda');
  const reshaped = gpu.reshape([6]);
  expect(() => gpu.reshape([5])).toThrow(/has 6 elements; dims \[5\] needs 5/);
  gpu.dispose();
  gpu.dispose();
  expect([gpu.location, reshaped.location, mockLive.size]).toEqual(['none', 'gpu-buffer', 1]);
  expect([...(await reshaped.getData())]).toEqual([1, 2, 3, 4, 5, 6]);
  reshaped.dispose();
  expect(mockLive.size).toBe(0);
  await expect(reshaped.getData()).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
});

it('frees what it could not fill', async () => {
  mockFailure = { code: 'CUDA', message: 'lost' };
  await expect(cpu.to('cuda')).rejects.toMatchObject({ code: 'ERR_WARPCONV_CUDA', message: 'lost' });
  expect(mockLive.size).toBe(0);
});

/** Tensors over a GPU that is a piece of CPU memory. */
import type { Done } from '../../lib/addon';
import { allocPinned, Tensor } from '../../lib/tensor/tensor';

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
const mockPinned = new Set<ArrayBuffer>();
let mockTakesForeignMemory = true;
let mockMissing: 'driver' | null = null;
jest.mock('../../lib/load', () => ({
  addon: () => ({
    GpuBuffer: MockGpuBuffer,
    gpusProbed: () => true,
    gpuProbe: () => ({
      missing: mockMissing,
      reason: mockMissing === null ? '' : 'no driver is here',
      driver: '13.0',
      gpus: [0, 1].map((index) => ({ ...mockGpu, index })),
    }),
    hasGpu: (index: number) => mockOpened.has(index),
    openGpu: (index: number, done: Done) => {
      mockOpened.add(index);
      setImmediate(done);
      return 1;
    },
    openGpuSync: (index: number) => mockOpened.add(index),
    allocatePinned(index: number, bytes: number) {
      if (!mockOpened.has(index)) throw new Error(`cuda:${index} has not been opened`);
      if (mockFailure !== undefined) throw mockFailure as unknown as Error;
      const buffer = new ArrayBuffer(bytes);
      if (mockTakesForeignMemory) mockPinned.add(buffer);
      return mockTakesForeignMemory ? buffer : null;
    },
    releasePinned: (buffer: ArrayBuffer) => mockPinned.delete(buffer),
  }),
}));

const cpu = new Tensor('float32', Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);

beforeEach(() => {
  mockLive.clear();
  mockPinned.clear();
  mockFailure = undefined;
  mockTakesForeignMemory = true;
  mockMissing = null;
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

it('pins zeros of every type, as a tensor in CPU memory', async () => {
  const tensor = allocPinned('float32', [2, 3]);
  expect([tensor.location, tensor.device, tensor.type, tensor.dims, tensor.size]).toEqual([
    'cpu-pinned',
    'cpu',
    'float32',
    [2, 3],
    6,
  ]);
  expect(tensor.data).toEqual(new Float32Array(6));
  expect(mockPinned).toEqual(new Set([tensor.data.buffer]));
  tensor.data.set([1, 2, 3, 4, 5, 6]);
  expect(await tensor.getData()).toBe(tensor.data);
  expect(await tensor.to('cpu')).toBe(tensor);
  const gpu = await tensor.to('cuda');
  expect([...(await gpu.getData())]).toEqual([1, 2, 3, 4, 5, 6]);
  expect(tensor.location).toBe('cpu-pinned');
  expect(allocPinned('int64', [3]).data).toEqual(new BigInt64Array(3));
  expect(() => tensor.gpuBuffer).toThrow(/in CPU memory/);
});

it('frees pinned memory with the last of the reshapes over it', () => {
  const tensor = allocPinned('float32', [2, 3]);
  const reshaped = tensor.reshape([6]);
  expect([reshaped.location, reshaped.data]).toEqual(['cpu-pinned', tensor.data]);
  expect(() => tensor.reshape([5])).toThrow(/has 6 elements; dims \[5\] needs 5/);
  tensor.dispose();
  tensor.dispose();
  expect([tensor.location, reshaped.location, mockPinned.size]).toEqual(['none', 'cpu-pinned', 1]);
  expect(() => tensor.data).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }));
  reshaped.dispose();
  expect(mockPinned.size).toBe(0);
});

it('makes an ordinary tensor where nothing can be pinned', () => {
  mockTakesForeignMemory = false;
  const tensor = allocPinned('float32', [2]);
  expect([tensor.location, tensor.data]).toEqual(['cpu', new Float32Array(2)]);
  mockTakesForeignMemory = true;
  expect(allocPinned('float32', [0, 4]).location).toBe('cpu');
});

it('refuses to pin without a GPU, without memory, and what is no tensor', () => {
  mockMissing = 'driver';
  mockOpened.clear();
  expect(() => allocPinned('float32', [2])).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_NO_DEVICE',
      message: `cannot use device 'cuda': no driver is here`,
    }),
  );
  mockMissing = null;
  mockFailure = { code: 'OUT_OF_MEMORY', message: 'no room' };
  expect(() => allocPinned('float32', [2])).toThrow(
    expect.objectContaining({ code: 'ERR_WARPCONV_OUT_OF_MEMORY', message: 'no room' }),
  );
  const wrong: [type: never, dims: never][] = [
    ['float' as never, [2] as never],
    ['float32' as never, [-1] as never],
    ['float32' as never, 2 as never],
    ['float32' as never, [2 ** 40, 2 ** 40] as never],
    ['float32' as never, [...Array<number>(30).fill(2 ** 50), 0] as never],
  ];
  for (const [type, dims] of wrong) {
    expect(() => allocPinned(type, dims)).toThrow(
      expect.objectContaining({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' }),
    );
  }
});

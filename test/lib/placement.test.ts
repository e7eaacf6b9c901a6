import type { Done, NativeFailure, NativeGpuProbe } from '../../lib/addon';
import * as shared from '../../lib/placement';

const { isProbed, locate, locateForWork, probeElsewhere } = shared;

const mockAddon = {
  gpuProbe: jest.fn<NativeGpuProbe, []>(),
  firstFallback: jest.fn<boolean, []>(),
  hasGpu: jest.fn<boolean, [number]>(),
  gpusProbed: jest.fn<boolean, []>(),
  probeGpus: jest.fn<number, [Done]>(),
  openGpu: jest.fn<number, [number, Done]>(),
  openGpuSync: jest.fn<void, [number]>(),
};
jest.mock('../../lib/load', () => ({ addon: () => mockAddon }));

const NOTHING: NativeGpuProbe = { missing: 'device', reason: 'no GPU is here', driver: '13.0', gpus: [] };
const GPU = { name: 'G', computeCapability: '9.0', memoryBytes: 1, multiprocessors: 1 };
const TWO: NativeGpuProbe = {
  missing: null,
  reason: '',
  driver: '13.0',
  gpus: [0, 1].map((index) => ({ ...GPU, index })),
};

const OLD: NativeGpuProbe = { ...TWO, gpus: [{ ...GPU, index: 0, computeCapability: '7.0' }] };

let warnings: jest.SpyInstance;
beforeEach(() => {
  warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  mockAddon.gpuProbe.mockReset().mockReturnValue(NOTHING);
  const opened = new Set<number>();
  mockAddon.hasGpu.mockReset().mockImplementation((index) => opened.has(index));
  mockAddon.gpusProbed.mockReset().mockReturnValue(true);
  mockAddon.probeGpus.mockReset();
  mockAddon.openGpu.mockReset().mockImplementation((index, done) => {
    opened.add(index);
    setImmediate(done);
    return 1;
  });
  mockAddon.openGpuSync.mockReset().mockImplementation((index) => void opened.add(index));
  mockAddon.firstFallback.mockReset().mockReturnValueOnce(true).mockReturnValue(false);
});
afterEach(() => warnings.mockRestore());

it('warns once when auto ends on the CPU, with the reason and a code', () => {
  expect([locateForWork('auto'), locateForWork('auto')]).toEqual(['cpu', 'cpu']);
  expect(warnings).toHaveBeenCalledTimes(1);
  expect(warnings).toHaveBeenCalledWith(
    'running on the CPU: no GPU is here',
    expect.objectContaining({ type: 'WarpconvWarning', code: 'WARPCONV_CPU_FALLBACK' }),
  );
});

it('says how to do without the warning', () => {
  locateForWork('auto');
  expect(warnings).toHaveBeenCalledWith(
    expect.anything(),
    expect.objectContaining({
      detail: expect.stringMatching(
        /device: 'cpu', .* executionProviders: \['cpu'\], .* WARPCONV_NO_CPU_WARNING=1\.$/,
      ) as string,
    }),
  );
});

it.each([
  ['1', 0],
  ['0', 1],
  ['', 1],
])('where WARPCONV_NO_CPU_WARNING is %j, gives %i warnings', (value, count) => {
  process.env.WARPCONV_NO_CPU_WARNING = value;
  try {
    expect(locateForWork('auto')).toBe('cpu');
  } finally {
    delete process.env.WARPCONV_NO_CPU_WARNING;
  }
  expect(warnings).toHaveBeenCalledTimes(count);
});

it('does not warn about a CPU that was asked for, nor where nothing runs', () => {
  expect(locateForWork('cpu')).toBe('cpu');
  expect(locate('auto')).toBe('cpu');
  expect(mockAddon.firstFallback).not.toHaveBeenCalled();
  expect(warnings).not.toHaveBeenCalled();
});

it('places work on the GPU that is asked for, where the input lives, or on the first', () => {
  mockAddon.gpuProbe.mockReturnValue(TWO);
  expect(locate('cuda')).toBe('cuda:0');
  expect(locate('cuda:1')).toBe('cuda:1');
  expect(locate('auto')).toBe('cuda:0');
  expect(locate('auto', 'cuda:1')).toBe('cuda:1');
  expect(locate('cpu', 'cuda:1')).toBe('cpu');
  expect(locateForWork('auto')).toBe('cuda:0');
  expect(warnings).not.toHaveBeenCalled();
});

it('opens the GPU that it finds, once and no other', () => {
  mockAddon.gpuProbe.mockReturnValue(TWO);
  expect([locate('cuda:1'), locate('cuda:1'), locate('auto', 'cuda:1')]).toEqual(Array(3).fill('cuda:1'));
  expect(mockAddon.openGpuSync.mock.calls).toEqual([[1]]);
});

it('opens the GPU where an input lives, and asks native code no more than once about one that is open', () => {
  mockAddon.gpuProbe.mockReturnValue(TWO);
  locate('auto', 'cuda:1');
  expect(mockAddon.openGpuSync.mock.calls).toEqual([[1]]);
  for (const [device, near] of [['cuda:1'], ['auto', 'cuda:1']] as const) {
    mockAddon.hasGpu.mockClear();
    expect(locate(device, near)).toBe('cuda:1');
    expect(mockAddon.hasGpu).toHaveBeenCalledTimes(1);
  }
});

it('looks for GPUs and opens one off the event loop, so that placing a call waits for nothing', async () => {
  mockAddon.gpuProbe.mockReturnValue(TWO);
  mockAddon.gpusProbed.mockReturnValue(false);
  mockAddon.probeGpus.mockImplementation((done) => {
    mockAddon.gpusProbed.mockReturnValue(true);
    setImmediate(done);
    return 1;
  });
  for (const device of ['auto', 'cuda:1'] as const) {
    expect(isProbed(device)).toBe(false);
    await probeElsewhere(device);
    expect(isProbed(device)).toBe(true);
    locate(device);
  }
  expect(mockAddon.probeGpus).toHaveBeenCalledTimes(1);
  expect(mockAddon.openGpu.mock.calls.map(([index]) => index)).toEqual([0, 1]);
  expect(mockAddon.openGpuSync).not.toHaveBeenCalled();
});

it('opens nothing ahead for auto where another GPU is open, whose tensors the call may take', async () => {
  mockAddon.gpuProbe.mockReturnValue(TWO);
  await probeElsewhere('cuda:1');
  expect(isProbed('auto')).toBe(true);
  await probeElsewhere('auto');
  expect(mockAddon.openGpu).toHaveBeenCalledTimes(1);
});

it('looks for no GPU that has been opened', () => {
  mockAddon.hasGpu.mockImplementation((index) => index === 1);
  expect(locate('cuda:1')).toBe('cuda:1');
  expect(mockAddon.gpuProbe).not.toHaveBeenCalled();
  expect(() => locate('cuda')).toThrow('no GPU is here');
});

it.each<[NativeGpuProbe, 'cuda' | 'cuda:1' | 'cuda:2', string]>([
  [NOTHING, 'cuda', `cannot use device 'cuda': no GPU is here`],
  [TWO, 'cuda:2', `cannot use device 'cuda:2': there is no such GPU; this machine has cuda:0, cuda:1`],
  [
    OLD,
    'cuda',
    `cannot use device 'cuda': the G has compute capability 7.0, and the kernels are built for 7.5`,
  ],
])('refuses a GPU with the reason (%#)', (probe, device, message) => {
  mockAddon.gpuProbe.mockReturnValue(probe);
  for (const find of [locate, locateForWork]) {
    expect(() => find(device)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_NO_DEVICE',
        message: expect.stringContaining(message) as string,
      }),
    );
  }
});

describe('a GPU that is listed and cannot be opened', () => {
  const failure: NativeFailure = {
    code: 'OUT_OF_MEMORY',
    message: 'there is no room for a context',
    cudaError: 'cudaErrorMemoryAllocation',
  };
  const noDevice = expect.objectContaining({
    code: 'ERR_WARPCONV_NO_DEVICE',
    message: expect.stringMatching(
      /^cannot use device 'cuda': .*there is no room for a context; .*'cpu'$/,
    ) as string,
    cudaError: 'cudaErrorMemoryAllocation',
    cause: expect.objectContaining({ code: 'ERR_WARPCONV_OUT_OF_MEMORY', message: failure.message }) as Error,
  }) as Error;

  // It is remembered, so each test has the module to itself.
  let placement: typeof shared;
  beforeEach(() => {
    jest.resetModules();
    placement = jest.requireActual<typeof shared>('../../lib/placement');
    mockAddon.gpuProbe.mockReturnValue(TWO);
    mockAddon.openGpuSync.mockImplementation(() => {
      throw failure as unknown as Error;
    });
    mockAddon.openGpu.mockImplementation((_, done) => {
      setImmediate(done, failure);
      return 1;
    });
  });

  const expectFallback = () => {
    expect([placement.locateForWork('auto'), placement.locateForWork('auto')]).toEqual(['cpu', 'cpu']);
    expect(warnings.mock.calls).toEqual([
      [
        expect.stringMatching(/^running on the CPU: .*there is no room for a context/),
        expect.objectContaining({ type: 'WarpconvWarning', code: 'WARPCONV_CPU_FALLBACK' }),
      ],
    ]);
  };

  it('leaves auto the CPU, with one warning and one attempt', async () => {
    expect(placement.isProbed('auto')).toBe(false);
    await placement.probeElsewhere('auto');
    expect(placement.isProbed('auto')).toBe(true);
    expectFallback();
    expect(mockAddon.openGpu).toHaveBeenCalledTimes(1);
    expect(mockAddon.openGpuSync).not.toHaveBeenCalled();
  });

  it('leaves auto the CPU in synchronous calls, too', () => {
    expectFallback();
    expect(mockAddon.openGpuSync).toHaveBeenCalledTimes(1);
  });

  it('is no device for who asks for it, with the cause', async () => {
    await expect(placement.probeElsewhere('cuda')).rejects.toEqual(noDevice);
    expect(() => placement.locate('cuda')).toThrow(noDevice);
    expect(placement.whyNoGpu('cuda')).toContain(failure.message);
    expect(placement.whyNoGpu('cuda:1')).toBeUndefined();
  });

  it('is tried again for who asks for it, and serves auto from then on', async () => {
    await placement.probeElsewhere('auto');
    mockAddon.openGpu.mockImplementation((index, done) => {
      mockAddon.hasGpu.mockImplementation((asked) => asked === index);
      setImmediate(done);
      return 1;
    });
    expect(placement.isProbed('cuda')).toBe(false);
    await placement.probeElsewhere('cuda');
    expect([placement.locate('cuda'), placement.locate('auto')]).toEqual(['cuda:0', 'cuda:0']);
  });
});

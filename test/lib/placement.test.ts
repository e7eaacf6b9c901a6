import type { NativeGpuProbe } from '../../lib/addon';
import { locate, locateForWork } from '../../lib/placement';

const mockAddon = {
  gpuProbe: jest.fn<NativeGpuProbe, []>(),
  firstFallback: jest.fn<boolean, []>(),
  hasGpu: jest.fn<boolean, [number]>(),
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
  mockAddon.hasGpu.mockReset().mockReturnValue(false);
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

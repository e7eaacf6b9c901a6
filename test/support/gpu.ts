import { devices, type GpuInfo } from '../../lib';
import { describeUnless } from './skip';

/** The device that device-neutral tests run on: `npm run test:gpu` sets it to `cuda`. */
export const TEST_DEVICE = (process.env.WARPCONV_TEST_DEVICE ?? 'cpu') as 'cpu' | 'cuda';

/**
 * The one way in which tests skip for want of a GPU, saying why. Where the tests are meant for a GPU nothing is skipped,
 * so that a GPU that is not found fails them.
 *
 * @param obstacle - what else this machine lacks for these tests
 */
export function describeGpu(name: string, body: () => void, obstacle?: string): void {
  const gpu = devices().find((device): device is GpuInfo => device.type === 'cuda')!;
  const missing = gpu.available || TEST_DEVICE === 'cuda' ? undefined : gpu.reason;
  describeUnless(obstacle ?? missing, name, body);
}

/** What a session computes in. */
import type { Precision } from '../conv2d/names';
import { addon } from '../load';
import { indexOf, type Place } from '../placement';

/** That of the kernels for halves */
const COMPUTE_CAPABILITY = '9.0';

/** What is asked for, where the device has it; elsewhere float32. */
export function precisionOn(place: Place, asked: Precision): Precision {
  if (place === 'cpu' || asked === 'fp32') return 'fp32';
  const gpu = addon()
    .gpuProbe()
    .gpus.find(({ index }) => index === indexOf(place));
  return gpu?.computeCapability === COMPUTE_CAPABILITY ? asked : 'fp32';
}

/** @param tooLarge - the nodes of each convolution */
export function warnOfTooLarge(tooLarge: readonly (readonly string[])[]): void {
  const names = tooLarge.map(([node]) => `'${node}'`).join(', ');
  process.emitWarning(
    `filters beyond 65504, which float16 does not have, are computed in float32: ${names}; ` +
      "precision 'bf16' has them",
    { type: 'WarpconvWarning', code: 'WARPCONV_HALF_RANGE' },
  );
}

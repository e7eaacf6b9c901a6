/**
 * The program that load_requests.ts profiles: one kernel for each variant of shuffle and filter that its argument names.
 * Plain JavaScript, because a profiler slows the TypeScript compiler down as well.
 */
import { conv2dSync, Tensor } from 'warpconv';

const { extent, runs } = JSON.parse(process.argv[2]);

/** Small integers, so that results could be compared bit by bit. */
function integers(dims) {
  const size = dims.reduce((product, length) => product * length, 1);
  return new Tensor(
    'float32',
    Float32Array.from({ length: size }, (_, index) => (index % 7) - 3),
    dims,
  );
}

const image = integers([1, 1, extent, extent]);
for (const { filter, variant } of runs) {
  conv2dSync(image, integers([1, 1, filter, filter]), { device: 'cuda', algorithm: 'shuffle', variant });
}

import { linesOf } from '../../bench/calibrate';
import type { LayerTimes } from '../../bench/kernel_times';

const LAYER: LayerTimes = {
  name: 'pw_56_64_256',
  batch: 4,
  extents: [64, 56, 56, 256, 1, 1, 2, 0, 1],
  kernels: [
    {
      algorithm: 'pointwise',
      variant: 'stream-8x64x8',
      tiles: { filters: 8, pixels: 64 },
      milliseconds: 0.005,
    },
    { algorithm: 'im2win', variant: 'implicit-64x64', tiles: { splits: 4 }, milliseconds: 0.004 },
  ],
};

describe('what models are fitted to', () => {
  it('is a line for each kernel of the family, with its tiles and its time', () => {
    expect(linesOf([LAYER], 'pointwise')).toEqual([
      '4 64 56 56 256 1 1 2 0 1 stream-8x64x8 filters=8,pixels=64 0.005',
    ]);
    expect(linesOf([LAYER, { ...LAYER, batch: 1 }], 'im2win')).toEqual([
      '4 64 56 56 256 1 1 2 0 1 implicit-64x64 splits=4 0.004',
      '1 64 56 56 256 1 1 2 0 1 implicit-64x64 splits=4 0.004',
    ]);
    expect(linesOf([LAYER], 'halo')).toEqual([]);
  });
});

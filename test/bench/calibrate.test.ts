import { pointwiseTimes } from '../../bench/calibrate';
import { cudnn, layer, ours } from './results';

const POINTWISE = { group: 'pointwise', batch: 1, extents: [64, 56, 56, 256, 1, 1, 2, 0, 1] } as const;

describe('what models are fitted to', () => {
  it('is a line for each variant of pointwise, with its median', () => {
    const one = layer(
      [
        ours('pointwise', 0.004),
        ours('pointwise', 0.1, 'paper'),
        ours('pointwise', 0.005, 'stream-8x64x8'),
        ours('pointwise', 0.004, 'warpgroup-64x32-s4'),
        ours('im2win', 0.005, 'implicit'),
        cudnn('GEMM', 0.01),
      ],
      POINTWISE,
    );
    expect(pointwiseTimes({ layers: [one] })).toEqual([
      '1 64 56 56 256 2 stream-8x64x8 0.005',
      '1 64 56 56 256 2 warpgroup-64x32-s4 0.004',
    ]);
  });

  it('is nothing of other filters, of groups, and of what is wrong', () => {
    const wrong = ours('pointwise', 0.004, 'stream-8x64x8', { maxRelativeError: 1e-3 });
    const right = ours('pointwise', 0.004, 'stream-8x64x8');
    expect(pointwiseTimes({ layers: [layer([wrong], POINTWISE)] })).toEqual([]);
    expect(pointwiseTimes({ layers: [layer([right])] })).toEqual([]);
    const grouped = { ...POINTWISE, extents: [64, 56, 56, 256, 1, 1, 2, 0, 2] } as const;
    expect(pointwiseTimes({ layers: [layer([right], grouped)] })).toEqual([]);
  });
});

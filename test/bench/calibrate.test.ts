import { linesOf } from '../../bench/gpu/calibrate';
import { timesOf, type LayerTimes } from '../../bench/gpu/kernel_times';
import type { ContestResult } from '../../lib/conv2d/contest';

const LAYER: LayerTimes = {
  name: 'pw_56_64_256',
  batch: 4,
  extents: [64, 56, 56, 256, 1, 1, 2, 0, 1],
  kernels: [
    {
      algorithm: 'pointwise',
      variant: 'stream-8x128x4',
      tiles: { filters: 8, pixels: 64 },
      milliseconds: 0.005,
    },
    { algorithm: 'im2win', variant: 'implicit-64x64', tiles: { splits: 4 }, milliseconds: 0.004 },
  ],
};

describe('what models are fitted to', () => {
  it('is a line for each kernel of the family, with its tiles and its time', () => {
    expect(linesOf([LAYER], 'pointwise')).toEqual([
      '4 64 56 56 256 1 1 2 0 1 stream-8x128x4 filters=8,pixels=64 0.005',
    ]);
    expect(linesOf([LAYER, { ...LAYER, batch: 1 }], 'im2win')).toEqual([
      '4 64 56 56 256 1 1 2 0 1 implicit-64x64 splits=4 0.004',
      '1 64 56 56 256 1 1 2 0 1 implicit-64x64 splits=4 0.004',
    ]);
    expect(linesOf([LAYER], 'halo')).toEqual([]);
  });

  it('is the median of what is right, and says of the rest what is wrong with it', () => {
    const [stream, gemm] = LAYER.kernels.map(({ milliseconds: _, ...kernel }) => kernel);
    const result = (entry: number, maxRelativeError: number): ContestResult => ({
      entry,
      algorithm: 'pointwise',
      milliseconds: { median: 0.005, lowerQuartile: 0.004, upperQuartile: 0.006 },
      calls: 20,
      graph: true,
      workspaceBytes: 0,
      proposed: 1,
      maxError: maxRelativeError,
      maxRelativeError,
    });
    const failure = { code: 'UNSUPPORTED', message: 'takes no such thing' } as const;
    const results = [
      result(0, 3e-7),
      result(1, 1e-3),
      result(2, NaN),
      { entry: 3, algorithm: 'im2win', failure },
    ];
    expect(timesOf([stream!, gemm!, gemm!, gemm!], results)).toEqual({
      times: [{ ...stream, milliseconds: 0.005 }],
      complaints: [
        'im2win implicit-64x64: is wrong',
        'im2win implicit-64x64: is wrong',
        'im2win implicit-64x64: takes no such thing',
      ],
    });
  });
});

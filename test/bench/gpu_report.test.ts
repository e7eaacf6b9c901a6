import { gpuPictures } from '../../bench/gpu/plot';
import { renderGpuReport, renderRegressions, summariseGroup } from '../../bench/gpu/report';
import type { BenchResult } from '../../bench/cpu/report';
import type { Entry } from '../../bench/gpu/result';
import { cudnn, half, halfLayer, layer, measured, ours, result } from './results';

const LAYER = layer([
  ours('im2win', 0.25),
  ours('direct', 4),
  ours('im2win', 0.5, 'explicit', { workspaceBytes: 150e6 }),
  ours('im2win', 1, 'explicit-no-prefetch'),
  cudnn('WINOGRAD', 0.2, {}, { maxRelativeError: 2e-5, workspaceBytes: 113e6 }),
  cudnn('ENGINE_4', 0.75, { layout: 'nhwc' }),
  cudnn('ENGINE_5', 0.05, { layout: 'nhwc', arithmetic: 'fp16' }, { maxRelativeError: 1e-3 }),
  { library: 'cublas', algorithm: 'im2col', ...measured(1.5) },
]);
const POINTWISE = layer(
  [
    ours('pointwise', 0.011),
    ours('pointwise', 0.01, '32x32x4'),
    ours('pointwise', 0.02, 'paper'),
    cudnn('GEMM', 0.033),
  ],
  {
    group: 'pointwise',
    name: 'pw',
    batch: 1,
    chosen: 'pointwise',
    extents: [64, 14, 14, 384, 1, 1, 1, 0, 1],
  },
);
const LOST = layer([], {
  group: 'resnet',
  name: 'res_7',
  batch: 1,
  chosen: '',
  failure: 'its process ended',
});

const CPU: BenchResult = {
  date: '2026-11-20',
  node: 'v22.0.0',
  processor: '',
  quick: false,
  cpu: {
    device: 'cpu',
    type: 'cpu',
    available: true,
    name: 'Test CPU',
    isa: 'avx2',
    features: [],
    cores: 2,
    caches: { l1d: 32768, l2: 2 ** 20, l3: 0 },
  },
  runs: [
    {
      threads: 1,
      fmaPeakGflops: 100,
      layers: [
        {
          group: 'sconv-393',
          model: 'm',
          row: [64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1],
          count: 1,
          ms: { warpconv: 1, 'im2col+OpenBLAS': 2 },
        },
      ],
    },
  ],
};

const render = (more: Parameters<typeof result>[1] = {}) =>
  renderGpuReport(result([LAYER, POINTWISE, LOST], more), 'NAME');

/** The cells of the row of a table that begins so. */
function row(report: string, beginning: string): string[] {
  const line = report.split('\n').find((one) => one.startsWith(`| ${beginning} |`));
  return line!
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

describe('the report', () => {
  const report = render();

  it('shows a layer beside the best rival, a loss in bold and its rounding marked', () => {
    const cells = row(report, 'conv12');
    expect(cells.slice(0, 4)).toEqual(['conv12', 'im2win', '250.0 (247.5 – 252.5)', '254.0']);
    // 15.1 GFLOP in 250 µs; the floor is 251.7 µs at 60 TFLOP/s
    expect(cells.slice(4, 7)).toEqual(['60.4', '0.12', '100.7 %']);
    expect(cells[9]).toBe('cuDNN NCHW WINOGRAD †');
    expect(cells[11]).toBe('**0.80**');
    expect(cells.slice(14)).toEqual(['1500', '–', '50.00']);
  });

  it('names the floor after what it is of, which tensor cores exceed', () => {
    expect(row(report, 'layer')[6]).toBe('FMA floor / time');
    expect(report).toContain('Above 100 % of it a layer gets on tensor cores');
  });

  it('says where it was measured and what the ceilings were', () => {
    expect(report).toContain('FMA peak 60.0 TFLOP/s, copy rate 4.00 TB/s, events and launch 2.00 µs');
    expect(report).toContain('cuDNN 9.19.0, cuBLAS 13.1.0');
    expect(report).toContain('before: clocks.sm 1980 MHz');
  });

  it('keeps what failed', () => {
    expect(row(report, 'res_7')[1]).toBe('failed: its process ended');
    expect(report).toContain('- resnet res_7, batch 1: its process ended');
  });

  it('has the figures of the im2win paper', () => {
    const section = report.slice(report.indexOf('Figure 2'));
    expect(row(section, 'conv12').slice(1)).toEqual(['60.4', '30.2', '–', '3.8', '10.1', '75.5', '20.1']);
    const memory = report.slice(report.indexOf('## Memory'));
    // What holds none says so, what was not measured does not
    expect(row(memory, 'conv12').slice(2)).toEqual(['0', '0', '150', '–', '0', '113']);
    const ablation = report.slice(report.indexOf('Figure 4'));
    expect(row(ablation, 'mean').slice(1, 4)).toEqual(['1.00 ×', '0.50 ×', '–']);
  });

  it('judges what was chosen', () => {
    expect(report).toContain('The planner of pointwise: 1 of 1 within 10 %');
    expect(row(report, 'pw, batch 1')).toEqual([
      'pw, batch 1',
      '11.00',
      '32x32x4 10.00',
      '1.10',
      '2.00 ×',
      '2',
    ]);
    expect(report).toContain('What auto takes: 2 of 2 within 10 %');
  });

  it('in FP16 has rivals of FP16 alone, both layouts, errors, and no figures of float32', () => {
    const one = halfLayer([
      half(ours('implicit', 0.1)),
      half(cudnn('ENGINE_1', 0.3, { layout: 'nchw' }), 'nchw'),
      { ...half(cudnn('ENGINE_2', 0.2)), maxRelativeError: 2e-3 } as Entry,
    ]);
    const product = halfLayer(
      [
        half(ours('implicit', 0.02)),
        half(cudnn('ENGINE_3', 0.015)),
        half({ library: 'cublas', algorithm: 'product, Lt', ...measured(0.01) }),
      ],
      { group: 'pointwise', name: 'pw', batch: 1, extents: [64, 14, 14, 384, 1, 1, 1, 0, 1] },
    );
    const both = result([one, product]);
    const halves = renderGpuReport(both, 'NAME', { name: 'CPU', result: CPU });
    expect(halves).toMatch(/^# Test GPU, FP16, 2026-11-21\n/);
    expect(halves).toContain('tensors of float16, ours in NHWC, accurate to 1.5e-3 of |input| ∗ |weight|');
    // 128 images: the input 6.4 MB, filters 4.7, the output 3.3; 3.6 µs at 4 TB/s
    const cells = row(halves, 'conv12');
    expect(cells.slice(0, 2)).toEqual(['conv12', 'implicit']);
    expect(cells[6]).toBe('3.6 %');
    expect(cells[9]).toBe('cuDNN NHWC FP16 ENGINE_2 †');
    expect(cells.slice(11, 13)).toEqual(['2.00', '1.96']);
    expect(cells.slice(14)).toEqual(['300.0', '200.0', '–']);
    expect(row(halves, 'layer').slice(14)).toEqual(['cuDNN NCHW µs', 'cuDNN NHWC µs', 'cuBLASLt µs']);
    expect(row(halves, 'pw').slice(9, 12)).toEqual(['cuBLASLt NHWC FP16', '10.00', '**0.50**']);
    const [, summary] = halves.split('## Speed-ups');
    expect(row(summary!, 'mec12, batch 128').slice(1)).toEqual([
      ...['2.00 ×', '1 of 1', '1.96 ×', '3.00 ×', '2.00 ×', '–'],
    ]);
    const [, errors] = halves.split('## Errors');
    expect(row(errors!, 'mec12, batch 128').slice(1)).toEqual(['7.0e-4', '7.0e-4', '2.0e-3', '2.0e-3']);
    expect(halves).not.toMatch(/Figure|FMA floor|## The CPU|for information|\bTF32\b/);
    expect(gpuPictures(both)).toEqual(new Map());
  });

  it('in TF32 says that im2col multiplies by it', () => {
    const one = layer([{ ...ours('implicit', 0.1), arithmetic: 'tf32', layout: 'nchw' } as Entry], {
      ...{ chosen: 'implicit', form: { precision: 'tf32', layout: 'nchw' } },
    });
    const text = renderGpuReport(result([one]), 'NAME');
    expect(text).toContain('Products of TF32 and sums of float32, tensors of float32, ours in NCHW');
    expect(text).toContain('of im2col in NCHW with such a product');
    expect(row(text, 'conv12')[1]).toBe('implicit');
  });

  it('says how its pictures are had', () => {
    expect(report).not.toContain('.svg');
    expect(report).toContain('`npm run bench -- --pictures bench/results/NAME.json`');
  });

  it('shows load requests, or why there are none', () => {
    expect(report).not.toContain('Load requests');
    expect(render({ loadRequests: 'Nsight Compute is missing' })).toContain('\nNsight Compute is missing.\n');
    // 25 requests for each of the 1020^2 outputs of 32 lanes
    const counts = [
      { filter: 5, variant: 'neither', requests: (25 * 1020 ** 2) / 32, sectors: 1e6 },
    ] as const;
    const counted = render({ loadRequests: { profiler: 'ncu', extent: 1024, counts } });
    expect(row(counted, '5 × 5').slice(1, 3)).toEqual(['neither', '25.00']);
  });

  it('covers the CPU, where that was measured', () => {
    expect(report).not.toContain('## The CPU');
    const both = renderGpuReport(result([LAYER]), 'NAME', { name: 'cpu-name', result: CPU });
    expect(both).toContain('[its own report](cpu-name.md)');
    expect(row(both, 'over im2col + OpenBLAS, 393 layers').slice(1)).toEqual([
      '≥ 1.6 ×, ahead on ≥ 95 %',
      '2.00 ×, ahead on 100.0 %',
      'yes',
    ]);
  });

  it('does without ceilings and without anything measured', () => {
    const { ceilings: _, ...run } = result([]).runs[0]!;
    const bare = renderGpuReport(result([LAYER], { runs: [run] }), 'NAME');
    expect(row(bare, 'conv12')[6]).toBe('–');
    expect(renderGpuReport(result([]), 'NAME')).toContain('not measured');
  });
});

it('a group is one line in a terminal', () => {
  expect(summariseGroup({ group: 'mec12', batch: 128, layers: [LAYER] })).toBe(
    'mec12, batch 128: 0.80 × over the best rival, 0 of 1 won (1.0 s)',
  );
});

it('regressions are listed with both times, and where the earlier one is stored', () => {
  const entry = { library: 'warpconv', algorithm: 'im2win', variant: '', ...measured(0.25) } as const;
  const before = { file: 'gpu-2026-11-20', entry };
  const now = { library: 'warpconv', algorithm: 'direct', variant: '', ...measured(4) } as const;
  expect(renderRegressions([{ layer: LAYER, before, now }])).toBe(
    'Layers more than 10 % slower than they were: 1\n' +
      '  mec12 conv12, batch 128: 250.0 µs by im2win in gpu-2026-11-20, now 4000 µs by direct',
  );
  expect(renderRegressions([])).toBe('');
});

describe('the pictures', () => {
  const pictures = gpuPictures(result([LAYER, POINTWISE, LOST]));
  type Values = { values: Record<string, unknown>[] };

  it('are those of what was measured', () => {
    expect([...pictures.keys()]).toEqual(['tflops', 'memory', 'ablation', 'planner', 'roofline']);
    expect([...gpuPictures(result([LOST])).keys()]).toEqual([]);
    expect([...gpuPictures(result([POINTWISE])).keys()]).toEqual(['planner', 'roofline']);
  });

  it('have a bar for each contestant that there is', () => {
    const { values } = (pictures.get('memory') as { data: Values }).data;
    const explicit = values.find(({ contestant }) => contestant === 'im2win, explicit')!;
    expect(explicit.value).toBeCloseTo(28.8358 + 150, 3);
    expect(values.map(({ contestant }) => contestant)).not.toContain('im2col');
  });

  it('bend the roof at the ridge', () => {
    const [roof] = (pictures.get('roofline') as { layer: { data: Values }[] }).layer;
    expect(roof!.data.values).toEqual([
      { intensity: 0.1, rate: 0.4 },
      { intensity: 15, rate: 60 },
      { intensity: 1000, rate: 60 },
    ]);
  });
});

import { entriesOf } from '../../bench/gpu/entries';
import { isProduct, nameOfForm, problemOf, selectLayers, tunedGroups, workOf } from '../../bench/gpu/layers';
import { autoChoices, gpuGoals, pointwiseChoices } from '../../bench/gpu/goals';
import {
  auto,
  bestCudnn,
  bestFamily,
  bestRival,
  bestVariant,
  coldSpeedup,
  findFailures,
  findRivalTroubles,
  findRegressions,
  floorOf,
  groupLayers,
  speedup,
  withBaseline,
  withoutBeaten,
  withLayer,
  type Entry,
  type LayerResult,
  type StoredResult,
} from '../../bench/gpu/result';
import { gpuFileName } from '../../bench/results';
import { cudnn, half, halfLayer, layer, measured, ours, result, RUN } from './results';

const CUBLAS: Entry = { library: 'cublas', algorithm: 'im2col', ...measured(0.9) };

describe('the named layers', () => {
  it('are selected by group, name and batch', () => {
    const all = selectLayers({ groups: [], names: [], batches: [] });
    const counted = (groups: readonly string[]) => all.filter(({ group }) => groups.includes(group)).length;
    expect(counted(tunedGroups())).toBe(52 + 47);
    expect(counted(['wide'])).toBe(2 * 40);
    // 23 convolutions of ResNet-50, 49 of GoogLeNet and 44 of MobileNetV3 differ.
    expect(counted(['networks'])).toBe(2 * (23 + 49 + 44));
    expect(all.map(({ batch }) => batch)).toEqual(all.map(({ batch }) => batch).sort((a, b) => a - b));
    expect(all.filter(({ group, batch }) => group === 'image' && batch > 1)).toEqual([]);
    const one = selectLayers({ groups: ['mec12'], names: ['conv1'], batches: [4] });
    expect(one).toEqual([
      { group: 'mec12', name: 'conv1', batch: 4, extents: [3, 227, 227, 96, 11, 11, 4, 0, 1] },
    ]);
  });

  it('must exist', () => {
    expect(() => selectLayers({ groups: ['vgg'], names: [], batches: [] })).toThrow(/vgg .* mec12, resnet/);
    expect(() => selectLayers({ groups: [], names: ['conv13'], batches: [] })).toThrow('conv13');
  });

  it('say how much there is to do', () => {
    // 5 x 5 outputs of 512 channels, 512 * 9 products each
    expect(workOf(layer([]))).toEqual({
      flops: 2 * 128 * 512 * 25 * 512 * 9,
      bytes: 4 * (128 * 512 * 49 + 512 * 512 * 9 + 128 * 512 * 25),
    });
    const [depthwise] = selectLayers({ groups: [], names: ['dw_112x96_k3s2'], batches: [1] });
    expect(workOf(depthwise!)).toEqual({
      flops: 2 * 96 * 56 * 56 * 9,
      bytes: 4 * (96 * 112 * 112 + 96 * 9 + 96 * 56 * 56),
    });
  });
});

describe('what is kept of a search', () => {
  const entry = (ms: number, more: object = {}) => ({ ...cudnn('GEMM', ms), ...more }) as Entry;

  it('is the fastest of a rival, layout and arithmetic, and all that is wrong or failed', () => {
    const wrong = entry(0.1, { maxRelativeError: 1 });
    const failed: Entry = {
      library: 'cudnn',
      algorithm: 'GEMM',
      layout: 'nchw',
      arithmetic: 'fp32',
      failure: 'no',
    };
    const all = [entry(0.5), entry(0.3), wrong, failed, entry(0.9, { layout: 'nhwc' }), CUBLAS];
    expect(withoutBeaten(all)).toEqual([all[1], wrong, failed, all[4], CUBLAS]);
  });

  it('leaves ours alone', () => {
    const all = [ours('im2win', 1), { ...ours('im2win', 2), variant: 'basic' }, ours('direct', 3)];
    expect(withoutBeaten(all)).toEqual(all);
  });
});

describe('layers that no kernel was tuned on', () => {
  const select = (name: string) => selectLayers({ groups: [], names: [name], batches: [] })[0]!;

  it('may be dilated, and padded otherwise above than beside', () => {
    expect(problemOf(select('wide_dw_dil2'))).toMatchObject({ dilation: 2, padding: [2, 2], groups: 256 });
    expect(problemOf(select('wide_odd_1x7'))).toMatchObject({ dilation: 1, padding: [0, 3] });
    // 33 x 33 outputs of 256 channels, nine products each
    expect(workOf(select('wide_dw_dil2')).flops).toBe(2 * 256 * 33 * 33 * 9);
    expect(workOf(select('wide_odd_1x7')).flops).toBe(2 * 160 * 17 * 17 * 160 * 7);
  });
});

describe('a layer', () => {
  const one = layer([
    ours('im2win', 0.4),
    ours('direct', 5),
    ours('im2win', 0.3, 'implicit-64x64'),
    cudnn('GEMM', 1.2),
    cudnn('WINOGRAD', 0.8, {}, { maxRelativeError: 2e-5 }),
    cudnn('ENGINE_1', 0.6, { layout: 'nhwc' }),
    cudnn('ENGINE_2', 0.1, { layout: 'nhwc', arithmetic: 'tf32' }, { maxRelativeError: 5e-4 }),
    { library: 'cudnn', layout: 'nhwc', arithmetic: 'fp16', algorithm: '', failure: 'has no engine' },
    CUBLAS,
  ]);

  it('is compared with the fastest rival in float32, in any layout', () => {
    expect(auto(one)).toMatchObject({ algorithm: 'im2win', variant: '' });
    expect(bestRival(one)).toMatchObject({ algorithm: 'ENGINE_1' });
    expect(speedup(one)).toBeCloseTo(1.5);
    expect(coldSpeedup(one)).toBeCloseTo(0.604 / 0.404);
    expect(bestCudnn(one, 'fp32', 'nchw')).toMatchObject({ algorithm: 'WINOGRAD' });
    expect(bestCudnn(one, 'tf32')).toMatchObject({ algorithm: 'ENGINE_2' });
    expect(bestCudnn(one, 'fp16')).toBeUndefined();
  });

  it('knows a family from its variants', () => {
    expect(bestFamily(one)).toMatchObject({ algorithm: 'im2win', variant: '' });
    expect(bestVariant(one, 'im2win')).toMatchObject({ variant: 'implicit-64x64' });
  });

  it('does not count what is wrong, on either side', () => {
    const wrong = layer([
      ours('im2win', 0.4, '', { maxRelativeError: 5e-6 }),
      cudnn('GEMM', 1.2),
      cudnn('FFT', 0.2, {}, { maxRelativeError: null }),
      cudnn('DIRECT', 0.3, {}, { maxRelativeError: 0.5 }),
    ]);
    expect(auto(wrong)).toBeUndefined();
    expect(speedup(wrong)).toBeUndefined();
    expect(bestRival(wrong)).toMatchObject({ algorithm: 'GEMM' });
    expect(findFailures([wrong])).toEqual([
      'mec12 conv12, batch 128, im2win: off by 5e-6 of |input| * |weight|',
    ]);
    expect(findRivalTroubles([wrong, layer(wrong.entries, { batch: 1 })])).toEqual([
      'cuDNN NCHW FFT: off by NaN of |input| * |weight| (2 times)',
      'cuDNN NCHW DIRECT: off by 5e-1 of |input| * |weight| (2 times)',
    ]);
  });

  it('has a floor, by arithmetic, by traffic or by a launch', () => {
    const { ceilings } = RUN;
    const { flops } = workOf(one);
    expect(floorOf(one, ceilings)).toBeCloseTo((flops / 60e12) * 1e3, 9);
    const traffic = layer([], { extents: [1, 4096, 4096, 1, 3, 3, 1, 0, 1], batch: 1 });
    expect(floorOf(traffic, ceilings)).toBeCloseTo((workOf(traffic).bytes / 4e12) * 1e3, 9);
    expect(floorOf(layer([], { extents: [1, 8, 8, 1, 3, 3, 1, 0, 1], batch: 1 }), ceilings)).toBe(0.0009);
    expect(floorOf(one, undefined)).toBeUndefined();
  });

  it('fails as a whole or in one of ours, and not where a rival has nothing', () => {
    const lost = layer([], { failure: 'its process ended with SIGKILL' });
    expect(findFailures([one, lost])).toEqual(['mec12 conv12, batch 128: its process ended with SIGKILL']);
    expect(findRivalTroubles([one])).toEqual(['cuDNN NHWC FP16: has no engine']);
    const spoilt = layer([{ library: 'warpconv', algorithm: 'direct', variant: '', failure: 'fell over' }]);
    expect(findFailures([spoilt])).toEqual(['mec12 conv12, batch 128, direct: fell over']);
  });

  it('replaces an earlier measurement of itself', () => {
    const others = [layer([], { name: 'conv1' }), layer([]), layer([], { batch: 1 })];
    const again = layer([ours('im2win', 0.1)], { run: 1 });
    expect(withLayer(others, again)).toEqual([others[0], again, others[2]]);
    expect(withLayer([others[0]!], again)).toEqual([others[0], again]);
    expect(groupLayers(others).map(({ batch, layers }) => [batch, layers.length])).toEqual([
      [128, 2],
      [1, 1],
    ]);
  });
});

describe('layers in another form', () => {
  const form = { precision: 'fp16', layout: 'nhwc' } as const;
  const select = (name: string, batch = 1) =>
    selectLayers({ groups: [], names: [name], batches: [batch], form })[0]!;

  it('have its type, layout and bytes', () => {
    expect(problemOf(select('dw_112x96_k3s2'))).toMatchObject({
      inputDims: [1, 112, 112, 96],
      weightDims: [96, 1, 3, 3],
      inputType: 'float16',
      layout: 'nhwc',
      precision: 'fp16',
    });
    const [plain] = selectLayers({ groups: [], names: ['dw_112x96_k3s2'], batches: [1] });
    expect(plain).not.toHaveProperty('form');
    expect(problemOf(plain!)).toMatchObject({
      inputDims: [1, 96, 112, 112],
      inputType: 'float32',
      precision: 'fp32',
    });
    expect(workOf(select('dw_112x96_k3s2')).bytes).toBe(workOf(plain!).bytes / 2);
    expect(workOf({ ...plain!, form: { precision: 'tf32', layout: 'nchw' } })).toEqual(workOf(plain!));
  });

  it('name their files, with the layout where it is not the usual one', () => {
    expect(nameOfForm(form)).toBe('fp16');
    expect(nameOfForm({ precision: 'fp32', layout: 'nchw' })).toBe('');
    expect(nameOfForm({ precision: 'tf32', layout: 'nhwc' })).toBe('tf32-nhwc');
    expect(nameOfForm({ precision: 'bf16', layout: 'nchw' })).toBe('bf16-nchw');
  });

  it('are compared with what has their precision, in either layout, within its tolerance', () => {
    const one = halfLayer([
      half(ours('implicit', 0.2)),
      half(cudnn('ENGINE_1', 0.3, { layout: 'nchw' }), 'nchw'),
      half(cudnn('ENGINE_2', 0.4)),
      { ...half({ ...CUBLAS, algorithm: 'product, Lt' }), ms: [0.25, 0.25, 0.25] } as Entry,
      { ...half(cudnn('WINOGRAD', 0.1)), maxRelativeError: 6e-3 } as Entry,
      // Of float32, which rounds less and is no rival here.
      cudnn('GEMM', 0.01),
    ]);
    expect(auto(one)).toMatchObject({ algorithm: 'implicit' });
    expect(bestRival(one)).toMatchObject({ library: 'cublas', layout: 'nhwc' });
    expect(speedup(one)).toBeCloseTo(1.25);
    expect(findRivalTroubles([one])).toEqual(['cuDNN NHWC FP16 WINOGRAD: off by 6e-3 of |input| * |weight|']);
    const wrong = halfLayer([{ ...half(ours('implicit', 0.2)), maxRelativeError: 2e-3 } as Entry]);
    expect(auto(wrong)).toBeUndefined();
    // No peak of tensor cores is known: traffic alone.
    expect(floorOf(one, RUN.ceilings)).toBeCloseTo((workOf(one).bytes / 4e12) * 1e3, 9);
  });

  it('are other layers than those in float32', () => {
    const [float, halves] = [layer([ours('im2win', 0.1)]), halfLayer([half(ours('implicit', 0.4))])];
    expect(withLayer([float], halves)).toEqual([float, halves]);
    const stored = { name: 'first', result: result([float]) };
    expect(findRegressions([withBaseline(halves, [stored])])).toEqual([]);
  });

  it('have goals of their own', () => {
    const layers = [1, 128].flatMap((batch) =>
      Array.from({ length: 6 }, (_, i) =>
        halfLayer([half(ours('implicit', 0.1)), half(cudnn('ENGINE_1', i === 0 ? 0.08 : 0.3))], {
          ...{ group: 'resnet', name: `layer ${i}`, batch },
        }),
      ),
    );
    const rows = new Map(gpuGoals(layers).map((goal) => [goal.what, goal]));
    const mean = (0.8 * 3 ** 5) ** (1 / 6);
    expect(rows.get('resnet, batch 1: over the best rival')).toMatchObject({
      goal: '≥ 2 ×',
      measured: `${mean.toFixed(2)} ×`,
      met: true,
    });
    expect(rows.get('resnet, batch 128: over the best rival')).toMatchObject({ goal: '≥ 1 ×', met: true });
    expect(rows.get('layers slower than 0.85 × the best rival')).toMatchObject({
      measured: '2 of 12: layer 0 at 1 (0.80 ×), layer 0 at 128 (0.80 ×)',
      met: false,
    });
    expect([...rows.keys()].filter((what) => /im2win|pointwise\`|workspace/.test(what))).toEqual([]);
  });
});

describe('who takes part', () => {
  const plan = {
    candidates: () => [
      { algorithm: 'implicit', predictedMilliseconds: 0.1 },
      { algorithm: 'im2win', predictedMilliseconds: 0.39 },
      { algorithm: 'direct', predictedMilliseconds: 0.41 },
      { algorithm: 'shuffle', refusal: 'takes few filters' },
    ],
    variants: (algorithm: string) => [`${algorithm}-a`, `${algorithm}-b`],
  };
  const forms = {
    half: { precision: 'fp16', layout: 'nhwc' },
    tf32: { precision: 'tf32', layout: 'nchw' },
  } as const;
  const list = (name: string, more: object = {}, quick = false, without: readonly Entry[] = []) => {
    const [one] = selectLayers({ groups: [], names: [name], batches: [1], ...more });
    return entriesOf({ layer: one!, without }, plan, quick).map((entry) =>
      Object.entries(entry)
        .filter(([field, value]) => field !== 'library' || value !== 'warpconv')
        .map(([, value]) => value as string)
        .filter((value) => value !== '')
        .join(' '),
    );
  };

  it('in float32 are all families and, of a figure, variants; rivals that round more are for information', () => {
    expect(list('pw_56_64_256')).toEqual([
      ...['implicit', 'im2win', 'direct', 'pointwise pointwise-a', 'pointwise pointwise-b'],
      ...['cudnn nchw fp32', 'cudnn nhwc fp32', 'cudnn nchw tf32', 'cudnn nhwc tf32'],
      ...['cudnn nchw fp16', 'cudnn nhwc fp16', 'cublas'],
    ]);
    expect(list('pw_56_64_256', {}, true)).toEqual([
      ...['implicit', 'im2win', 'direct', 'cudnn nchw fp32', 'cudnn nhwc fp32', 'cublas'],
    ]);
  });

  it('in another precision are those that may be the fastest, and rivals of that precision in both layouts', () => {
    expect(list('pw_56_64_256', { form: forms.half })).toEqual([
      ...['implicit', 'im2win', 'cudnn nchw fp16', 'cudnn nhwc fp16', 'cublas nchw fp16', 'cublas nhwc fp16'],
    ]);
    expect(list('res_56', { form: forms.half })).toEqual([
      ...['implicit', 'im2win', 'cudnn nchw fp16', 'cudnn nhwc fp16'],
    ]);
    // im2col is there for float32 in NCHW.
    expect(list('res_56', { form: forms.tf32 })).toEqual([
      ...['implicit', 'im2win', 'cudnn nchw tf32', 'cudnn nhwc tf32', 'cublas nchw tf32'],
    ]);
  });

  it('leave out who has spoiled a process', () => {
    const without = [
      half(ours('implicit', 1)),
      half(cudnn('', 1), 'nchw'),
      half({ ...CUBLAS, layout: 'nhwc' }),
    ];
    expect(list('pw_56_64_256', { form: forms.half }, false, without)).toEqual([
      ...['im2win', 'cudnn nhwc fp16', 'cublas nchw fp16'],
    ]);
  });

  it('products are 1 x 1 filters that visit every pixel', () => {
    const products = (['pw_56_64_256', 'res_56', 'wide_pw_s2', 'wide_pw_odd'] as const).map((name) =>
      isProduct(selectLayers({ groups: [], names: [name], batches: [1] })[0]!),
    );
    expect(products).toEqual([true, false, false, true]);
  });
});

describe('a regression', () => {
  const file = (name: string, layers: readonly LayerResult[], quick = false): StoredResult => ({
    name,
    result: result(layers, { runs: [{ ...RUN, quick }] }),
  });
  const taking = (ms: number, more: Parameters<typeof ours>[3] = {}) => layer([ours('im2win', ms, '', more)]);
  const stored = [file('first', [taking(0.4), layer([ours('im2win', 0.4)], { name: 'conv11' })])];
  const judge = (now: LayerResult, files = stored) => findRegressions([withBaseline(now, files)]);

  it('is more than a tenth, and more than noise', () => {
    expect(judge(taking(0.45))).toMatchObject([
      { layer: { name: 'conv12' }, before: { file: 'first', entry: { ms: [0.396, 0.4, 0.404] } } },
    ]);
    expect(judge(taking(0.43))).toEqual([]);
    expect(judge(taking(0.45, { ms: [0.4, 0.45, 0.5] }))).toEqual([]);
    expect(judge(taking(0.2))).toEqual([]);
  });

  it('needs something of the same layer that was measured thoroughly', () => {
    expect(judge(taking(0.9), [])).toEqual([]);
    expect(judge(layer([ours('im2win', 0.9)], { batch: 1 }))).toEqual([]);
    expect(judge(taking(0.9), [file('quick', [taking(0.4)], true)])).toEqual([]);
  });

  it('is from the newest of these, which a part of the layers and a quick run leave where it is', () => {
    const conv11 = file('part', [layer([ours('im2win', 0.1)], { name: 'conv11' })]);
    const quick = file('quick', [taking(0.9)], true);
    const failed = file('failed', [layer([], { chosen: '', failure: 'lost' })]);
    const before = { file: 'first' };
    expect(judge(taking(0.45), [...stored, conv11, quick, failed])).toMatchObject([{ before }]);
    expect(judge(taking(0.45), [...stored, file('second', [taking(0.44)])])).toEqual([]);
  });

  it('is one again the next time, on the same day, too', () => {
    const slow = withBaseline(taking(0.6), stored);
    expect(judge(taking(0.6), [file('first', [slow])])).toMatchObject([{ before: { file: 'first' } }]);
    const failed = withBaseline(layer([], { chosen: '', failure: 'lost' }), [file('first', [slow])]);
    expect(judge(taking(0.6), [file('first', [failed])])).toMatchObject([{ before: { file: 'first' } }]);
    const mended = withBaseline(taking(0.3), [file('first', [slow])]);
    expect(judge(taking(0.4), [file('first', [mended])])).toMatchObject([
      { before: { entry: { ms: [0.297, 0.3, 0.303] } } },
    ]);
  });

  it('is accepted by whoever removes the file that it is from', () => {
    const slow = file('second', [withBaseline(taking(0.6), stored)]);
    expect(judge(taking(0.6), [...stored, slow])).toMatchObject([{ before: { file: 'first' } }]);
    expect(judge(taking(0.6), [slow])).toEqual([]);
    expect(judge(taking(0.9), [slow])).toMatchObject([{ before: { file: 'second' } }]);
  });

  it('is of what auto takes, whichever that is', () => {
    const other = layer([ours('direct', 0.5), ours('im2win', 0.3)], { chosen: 'direct' });
    expect(judge(other)).toMatchObject([{ now: { algorithm: 'direct' } }]);
  });
});

it('a quick run has a file of its own', () => {
  expect(gpuFileName('Test GPU', '2026-11-23', false)).toBe('test-gpu-2026-11-23');
  expect(gpuFileName('Test GPU', '2026-11-23', true)).toBe('test-gpu-2026-11-23-quick');
  expect(gpuFileName('Test GPU', '2026-11-23', true, 'networks')).toBe('test-gpu-2026-11-23-networks-quick');
});

describe('the goals', () => {
  const goalOf = (layers: Parameters<typeof gpuGoals>[0], what: string) =>
    gpuGoals(layers).find((goal) => goal.what.includes(what))!;

  it('are met or not by geometric means of whole groups', () => {
    const resnet = (times: readonly number[]) =>
      times.map((rival, i) =>
        layer([ours('im2win', 0.1), cudnn('GEMM', rival)], { group: 'resnet', batch: 1, name: `layer ${i}` }),
      );
    const half = resnet([0.8, 0.2, 0.8, 0.2, 0.8, 0.2]);
    expect(goalOf(half, 'resnet, batch 1:')).toMatchObject({ measured: '4.00 ×', met: true });
    const slow = resnet([0.2, 0.2, 0.2, 0.2, 0.2, 0.2]);
    expect(goalOf(slow, 'resnet, batch 1:')).toMatchObject({ measured: '2.00 ×', met: false });
    expect(goalOf(slow, 'resnet, batch 128')).toEqual({
      what: 'resnet, batch 128: over the best rival',
      goal: '≥ 0.9 ×, then ≥ 2 ×',
      measured: '',
    });
    const part = goalOf(half.slice(0, 2), 'resnet, batch 1:');
    expect(part.measured).toBe('4.00 ×, of 2 of 6 layers');
    expect(part.met).toBeUndefined();
  });

  it('name the layers that are lost', () => {
    const lost = layer([ours('im2win', 0.4), cudnn('GEMM', 0.2)]);
    expect(goalOf([lost], 'slower than')).toMatchObject({
      measured: '1 of 1: conv12 at 128 (0.50 ×)',
      met: false,
    });
  });

  it('hold choices to a tenth of the best', () => {
    const missed = layer([ours('im2win', 0.4), ours('shuffle', 0.2), ours('shuffle', 0.1, 'wide')]);
    const close = layer([ours('im2win', 0.21), ours('shuffle', 0.2)], { name: 'conv1' });
    const failed = layer([], { failure: 'lost' });
    const ratios = autoChoices([missed, close, failed]).map(({ ratio }) => Number(ratio.toFixed(3)));
    expect(ratios).toEqual([2, 1.05]);
    expect(goalOf([missed, close], '`auto`')).toMatchObject({ measured: '50.0 %, 1 of 2', met: false });
  });

  it('judge the planner of pointwise only where its candidates were measured', () => {
    const without = layer([ours('pointwise', 0.4)], { group: 'pointwise', chosen: 'pointwise' });
    const withThem = {
      ...without,
      entries: [...without.entries, ours('pointwise', 0.3, '64x64x1'), ours('pointwise', 0.9, 'paper')],
    };
    expect(pointwiseChoices([without])).toEqual([]);
    expect(pointwiseChoices([withThem])[0]!.ratio).toBeCloseTo(4 / 3);
  });

  it('take rates from the slowest', () => {
    const extents = [32, 112, 112, 32, 3, 3, 1, 1, 32] as const;
    const depthwise = layer([ours('shuffle', 0.2)], { group: 'depthwise', chosen: 'shuffle', extents });
    const rate = workOf(depthwise).bytes / 0.2 / 1e9;
    expect(goalOf([depthwise], 'above 50 MB')).toMatchObject({
      measured: `${rate.toFixed(2)} TB/s`,
      met: rate >= 2.2,
    });
    const small = { ...depthwise, extents: [8, 8, 8, 8, 3, 3, 1, 1, 8] as const };
    expect(goalOf([small], 'above 50 MB').measured).toBe('');
  });
});

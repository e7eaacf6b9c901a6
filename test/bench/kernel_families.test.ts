import {
  candidatesOf,
  choiceOf,
  familyOf,
  meanLonger,
  ratioWithout,
  renderKernelFamilies,
  worstLayer,
  type CandidateLayer,
} from '../../bench/gpu/kernel_families';
import type { LayerTimes } from '../../bench/gpu/kernel_times';

/** Kernels as variant, measured and predicted milliseconds. */
function layer(
  name: string,
  kernels: readonly (readonly [variant: string, milliseconds: number, predicted: number])[],
): CandidateLayer {
  return {
    group: 'pointwise',
    name,
    batch: 16,
    kernels: kernels.map(([variant, milliseconds, predicted]) => ({ variant, milliseconds, predicted })),
  };
}

/** `tensor` is chosen though `rows` is faster; without it `64x64x1` is. */
const MISJUDGED = layer('misjudged', [
  ['64x64x1', 3, 2.1],
  ['tensor-64x64x2', 2, 1.8],
  ['tensor-32x64x4', 2.5, 1.9],
  ['rows-48x64x3', 1.6, 2.2],
]);
/** Without `tensor` the choice is faster. */
const BETTER_WITHOUT = layer('better', [
  ['64x64x1', 2, 3],
  ['tensor-64x64x2', 4, 1],
]);
const ALONE = layer('alone', [
  ['64x64x1', 1, 1],
  ['16x256x1-s2', 2, 2],
]);

const MISJUDGED_CHOICE = choiceOf(MISJUDGED);
const ALONE_CHOICE = choiceOf(ALONE);

/** The cells of a row that begins so. */
function cells(report: string, beginning: string): string[] {
  const line = report.split('\n').find((one) => one.startsWith(`| ${beginning} |`))!;
  return line
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());
}

function render(...layers: readonly CandidateLayer[]): string {
  return renderKernelFamilies({
    date: '2026-11-28',
    gpu: 'Test GPU',
    version: '0.1.0',
    timesVersion: '0.0.9',
    times: 'bench/data/test-kernels.json',
    layers: layers.map(choiceOf),
  });
}

describe('a family', () => {
  it.each([
    ['16x256x1', 'fma'],
    ['32x64x2-s4', 'fma'],
    ['tensor-64x64x2-s2', 'tensor'],
    ['stream-8x128x4', 'stream'],
    ['stream-tensor-16x64x4', 'stream-tensor'],
    ['rows-tf32-48x64x3', 'rows-tf32'],
  ])('of %s is %s', (variant, family) => {
    expect(familyOf(variant)).toBe(family);
  });

  it('that nobody knows is refused', () => {
    expect(() => familyOf('columns-48x64x3')).toThrow("'columns-48x64x3' is of no family");
  });
});

describe('what takes part', () => {
  const times: LayerTimes = {
    name: 'pw_56_64_256',
    batch: 4,
    extents: [64, 56, 56, 256, 1, 1, 1, 0, 1],
    kernels: [
      { algorithm: 'pointwise', variant: 'L1-8', milliseconds: 1 },
      { algorithm: 'im2win', variant: 'implicit', milliseconds: 2 },
      { algorithm: 'pointwise', variant: '32x64x2', milliseconds: 3 },
      { algorithm: 'pointwise', variant: '64x64x1', milliseconds: 4 },
    ],
  };
  const known = {
    group: 'pointwise',
    batch: 4,
    kernels: [{ variant: '64x64x1', milliseconds: 4, predicted: 0.5 }],
  };

  it('is what the planner has but for the published scheme, each with its own prediction', () => {
    const other = { ...times, name: 'pw_56_256_64', kernels: times.kernels.slice(2) };
    expect(candidatesOf([times, other], ['0.1', '-', '0.5', '-', '0.7'])).toEqual([
      { ...known, name: 'pw_56_64_256' },
      { ...known, name: 'pw_56_256_64', kernels: [{ ...known.kernels[0], predicted: 0.7 }] },
    ]);
  });

  it('is no layer without kernels', () => {
    expect(candidatesOf([{ ...times, kernels: times.kernels.slice(0, 2) }], ['0.1'])).toEqual([]);
  });

  it('is no layer that bench/layers lacks', () => {
    expect(() => candidatesOf([{ ...times, name: 'pw_0' }], [])).toThrow("a layer 'pw_0'");
  });
});

describe('the choice', () => {
  it('goes by predictions, and without its family to another one', () => {
    expect(MISJUDGED_CHOICE).toEqual({
      group: 'pointwise',
      name: 'misjudged',
      batch: 16,
      fastest: { variant: 'rows-48x64x3', milliseconds: 1.6 },
      chosen: { variant: 'tensor-64x64x2', milliseconds: 2 },
      instead: { variant: '64x64x1', milliseconds: 3 },
    });
  });

  it('takes longer without its own family alone', () => {
    expect(ratioWithout('tensor', MISJUDGED_CHOICE)).toBe(1.5);
    expect(ratioWithout('rows', MISJUDGED_CHOICE)).toBe(1);
    expect(ratioWithout('fma', MISJUDGED_CHOICE)).toBe(1);
  });

  it('is nothing where no other family has a kernel', () => {
    expect(ALONE_CHOICE).not.toHaveProperty('instead');
    expect(ratioWithout('fma', ALONE_CHOICE)).toBeUndefined();
    expect(ratioWithout('tensor', ALONE_CHOICE)).toBe(1);
  });
});

describe('over several layers', () => {
  it('the mean is geometric, signed, and a dash where a layer has no ratio', () => {
    expect(meanLonger([1, 4])).toBe('100.0');
    expect(meanLonger([1, 0.98])).toBe('−1.0');
    expect(meanLonger([1, 0.9999])).toBe('0.0');
    expect(meanLonger([1.5, undefined])).toBe('–');
  });

  it('the worst one is named with its factor, where any is slower', () => {
    const layers = [BETTER_WITHOUT, MISJUDGED, ALONE].map(choiceOf);
    expect(worstLayer(layers, (one) => ratioWithout('tensor', one))).toBe('misjudged at 16: 1.50 ×');
    expect(worstLayer(layers, (one) => ratioWithout('fma', one))).toBe('none');
  });
});

describe('the report', () => {
  const nine = Array<CandidateLayer>(9).fill(MISJUDGED);

  it('has a row for each family, with a dash where it alone has kernels', () => {
    const report = render(...nine, ALONE);
    expect(cells(report, 'left out')).toEqual(['pointwise, 16', 'worst layer']);
    // The tenth root of 1.5 to the ninth
    expect(cells(report, '`tensor`')).toEqual(['44.0', 'misjudged at 16: 1.50 ×']);
    expect(cells(report, '`fma`')).toEqual(['–', 'no other family on 1 of 10']);
    expect(cells(report, '`rows`')).toEqual(['0.0', 'none']);
  });

  it('compares the choice with the fastest kernel', () => {
    expect(cells(render(...nine, MISJUDGED), 'pointwise')).toEqual([
      '16',
      '10',
      '25.0',
      'misjudged at 16: 1.25 ×',
    ]);
  });

  it('leaves small groups out of the first table, and says so', () => {
    const report = render(...nine, MISJUDGED, { ...BETTER_WITHOUT, group: 'wide' });
    expect(report).toContain('Groups of fewer than 10 layers are left out: wide.');
    expect(cells(report, 'left out')).toEqual(['pointwise, 16', 'worst layer']);
    expect(cells(report, 'wide')).toEqual(['16', '1', '100.0', 'better at 16: 2.00 ×']);
  });
});

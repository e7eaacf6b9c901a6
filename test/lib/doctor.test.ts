import type { Addon } from '../../lib/addon';
import { examine, format, isHealthy, type Finding } from '../../lib/commands/doctor';

let mockLoad: () => Partial<Addon>;
jest.mock('../../lib/here', () => ({ PACKAGE_ROOT: '/package' }));
jest.mock('../../lib/load', () => ({
  addon: () => mockLoad(),
  loadedBinary: () => ({ addon: mockLoad(), file: '/package/build/Release/warpconv.node' }),
}));

/** A binary whose convolutions give one value everywhere. */
const fake = (value: number): Partial<Addon> => ({
  Plan: class {
    outputDims = [1, 1, 4, 4];
    convolveSync(...buffers: unknown[]) {
      (buffers[4] as Float32Array).fill(value);
    }
    dispose() {}
  } as unknown as Addon['Plan'],
  cpu: () => ({ name: 'C', isa: 'avx2', features: ['fma'], cores: 3, caches: { l1d: 32768, l2: 0, l3: 0 } }),
  hasGpu: () => false,
  gpuProbe: () => ({ missing: 'driver', reason: 'no driver here', driver: '', gpus: [] }),
});

const named = (findings: Finding[], name: string) => findings.find((finding) => finding.name === name);

it('reports a binary that does not load once, and still looks for the rest', () => {
  mockLoad = () => {
    throw new Error('nothing\nat all');
  };
  const findings = examine();
  expect(findings.map(({ name }) => name)).toEqual(['binary', 'cuDNN']);
  expect(findings[0]).toMatchObject({ status: 'failed', detail: 'nothing\nat all' });
  expect(isHealthy(findings)).toBe(false);
});

it('fails where a convolution gives wrong values', () => {
  mockLoad = () => fake(1);
  const findings = examine();
  expect(named(findings, 'self-test')).toMatchObject({ status: 'failed' });
  expect(isHealthy(findings)).toBe(false);
});

it('does without a GPU, and says what would help', () => {
  mockLoad = () => fake(1);
  const findings = examine();
  expect(named(findings, 'binary')?.detail).toBe('build/Release/warpconv.node');
  expect(named(findings, 'CPU')?.detail).toBe('C, 3 cores, avx2 (fma)');
  expect(named(findings, 'caches')?.detail).toBe('L1 data 32 KiB, L2 unknown, L3 unknown');
  expect(named(findings, 'GPUs')).toMatchObject({
    status: 'missing',
    detail: 'none: no driver here',
    remedy: expect.stringContaining('driver') as string,
  });
});

it('aligns its lines, those of a long detail too', () => {
  const findings: Finding[] = [
    { name: 'a', status: 'ok', detail: 'fine' },
    { name: 'long', status: 'missing', detail: 'one\ntwo', remedy: 'do this' },
  ];
  expect(format(findings).split('\n')).toEqual([
    'a     ok       fine',
    'long  missing  one',
    '               two',
    '               do this',
  ]);
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { renderGpuNetworks } from '../../bench/networks/gpu_report';
import {
  FORMS,
  isCompiled,
  withNetwork,
  type GpuNetworksResult,
  type NetworkMeasurement,
} from '../../bench/networks/gpu_result';
import { LineProcess } from '../../bench/line_process';
import { batchOf, errorOf, IMAGE_DIMS, networksIn } from '../../bench/networks/files';
import { result as gpuResult } from './results';

const same = (value: number) => [value, value, value] as const;

function measurement(network: string, batch: number, toCpu: number): NetworkMeasurement {
  return {
    network,
    batch,
    run: 0,
    ours: { error: 2e-7, toCpu: same(toCpu), steps: { 'convolution direct': 0.6, pool: 0.2 } },
    rivals: [
      { form: 'NCHW', error: 1e-6, replay: same(2), toCpu: same(2.4) },
      { form: 'channels_last', error: 1e-6, replay: same(1.6), toCpu: same(2.6) },
    ],
    failures: [],
  };
}

const LOST: NetworkMeasurement = {
  network: 'vgg16',
  batch: 1,
  run: 0,
  rivals: [],
  failures: ['warpconv: its process ended with SIGSEGV'],
};

function render(networks: readonly NetworkMeasurement[], more: Partial<GpuNetworksResult['runs'][0]> = {}) {
  const { date, gpu } = gpuResult([]);
  const torch = { gpu: 'Test GPU', torch: '2.11.0', torchvision: '0.26.0', cudnn: 91900 };
  const run = { started: date, quick: false, node: 'v20', version: '0.1.0', torch, clocks: [], ...more };
  return renderGpuNetworks({ date, gpu, runs: [run], networks });
}

/** The last cells of the row that begins so. */
function cells(report: string, beginning: string, count: number): string[] {
  const line = report.split('\n').find((one) => one.startsWith(`| ${beginning}`));
  return line!
    .split('|')
    .slice(-1 - count, -1)
    .map((cell) => cell.trim());
}

describe('the report of networks on a GPU', () => {
  test('compares FP16 with what else is FP16, outputs on the GPU with a replay', () => {
    const { date, gpu } = gpuResult([]);
    const half: NetworkMeasurement = {
      ...measurement('resnet50', 1, 0.8),
      ours: { error: 4e-4, toCpu: same(0.8), onGpu: same(0.5), steps: { 'convolution implicit': 0.5 } },
      rivals: [
        { form: 'NCHW', error: 1e-6, replay: same(0.1), toCpu: same(0.1) },
        { form: 'FP16', error: 1e-3, replay: same(1.5), toCpu: same(2) },
        { form: 'FP16 compiled', error: 1e-3, replay: same(1), toCpu: same(1.6) },
      ],
    };
    const slow = { ...half, network: 'vgg16', ours: { ...half.ours!, onGpu: same(1.25) } };
    const report = renderGpuNetworks({ date, gpu, runs: [], precision: 'fp16', networks: [half, slow] });
    const [onGpu, toCpu, errors] = ['Outputs on the GPU', 'Outputs in CPU memory', 'Errors'].map((title) =>
      report.slice(report.indexOf(title)),
    ) as [string, string, string];
    // Of 1 ms, the faster of the two replays: 0.5 ms of ours, and 0.5 of its steps.
    expect(cells(onGpu, 'resnet50', 2)).toEqual(['2.00', '2.00']);
    expect(cells(onGpu, 'vgg16', 2)).toEqual(['**0.80**', '2.00']);
    expect(cells(onGpu, 'geometric mean', 2)).toEqual(['1.26', '2.00']);
    // Of 1.6 ms, and of the replay: 0.8 ms.
    expect(cells(toCpu, 'resnet50', 2)).toEqual(['2.00', '1.25']);
    expect(cells(errors, 'resnet50', 3)).toEqual(['4.0e-4', '1.0e-3', '1.0e-3']);
    expect(cells(report, 'batch 1, geometric mean, run() within', 3)).toEqual([
      '≥ 2.0 ×',
      '1.26 ×',
      '**no**',
    ]);
    expect(cells(report, 'networks below 0.95 ×', 3)).toEqual([
      ...['none', 'vgg16, batch 1 (0.80 ×)', '**no**'],
    ]);
    expect(report).toContain('replay, FP16 compiled');
    expect(report).not.toContain('replay, NCHW');
  });

  test('has a table of a cold cache where that was measured, with the rival that is fastest there', () => {
    const one = measurement('resnet50', 1, 0.8);
    const cold: NetworkMeasurement = {
      ...one,
      ours: { ...one.ours!, onGpu: same(0.5), onGpuCold: same(1) },
      rivals: [
        { ...one.rivals[0]!, replayCold: same(2.5) },
        { ...one.rivals[1]!, replayCold: same(3) },
      ],
    };
    const report = render([cold, { ...one, network: 'vgg16' }]);
    const table = report.slice(report.indexOf('L2 cache was overwritten:'));
    expect(cells(table, 'resnet50', 5)).toEqual([
      ...['1.000 (1.000 – 1.000)', '2.500 (2.500 – 2.500)', '3.000 (3.000 – 3.000)', '–', '2.50'],
    ]);
    expect(cells(table, 'vgg16', 5)).toEqual(['–', '–', '–', '–', '–']);
    expect(render([one])).not.toContain('L2 cache was overwritten:');
  });

  test('has rivals in every precision, compiled ones too', () => {
    const { date, gpu } = gpuResult([]);
    for (const precision of ['tf32', 'fp16', 'bf16'] as const) {
      const forms = FORMS[precision];
      expect(forms.filter(isCompiled)).toEqual([`${precision.toUpperCase()} compiled`]);
      const rivals = forms.map((form, i) => ({ form, error: 1e-3, replay: same(2 - i), toCpu: same(2 - i) }));
      const one = { ...measurement('resnet50', 1, 0.5), rivals };
      const report = renderGpuNetworks({ date, gpu, runs: [], precision, networks: [one] });
      expect(cells(report.slice(report.indexOf('Outputs in CPU memory')), 'resnet50', 2)).toEqual([
        '2.00',
        '2.00',
      ]);
    }
  });

  test('compares with the faster layout by each measure, and has losses bold', () => {
    const report = render([measurement('resnet50', 1, 0.8), measurement('resnet50', 128, 3.2)]);
    const [one, many] = report.split('## Batch 128') as [string, string];
    const toCpu = (batch: string) =>
      cells(batch.slice(batch.indexOf('Outputs in CPU memory')), 'resnet50', 2);
    expect(cells(one, 'resnet50', 2)).toEqual(['–', '2.00']);
    expect(toCpu(one)).toEqual(['3.00', '2.00']);
    expect(toCpu(many)).toEqual(['**0.75**', '**0.50**']);
    expect(one).toContain('convolution direct 0.600 (75.0 %), pool 0.200 (25.0 %)');
  });

  test('judges the geometric means of both batches', () => {
    const report = render([measurement('a', 1, 0.4), measurement('b', 1, 1.6), measurement('a', 128, 2)]);
    expect(cells(report, 'batch 1, geometric mean, run()', 3)).toEqual(['≥ 2.0 ×', '2.00 ×', 'yes']);
    expect(cells(report, 'batch 128, geometric mean, run()', 3)).toEqual(['≥ 1.0 ×', '0.80 ×', '**no**']);
    expect(cells(report, 'batch 128, geometric mean, both to', 3)).toEqual(['≥ 1.0 ×', '1.20 ×', 'yes']);
  });

  test('shows what failed, and says why there is no rival', () => {
    const alone = { ...measurement('resnet50', 1, 1), rivals: [] };
    const report = render([LOST, alone], { torch: "without PyTorch: No module named 'torch'" });
    expect(report).toContain('- vgg16, batch 1: warpconv: its process ended with SIGSEGV');
    expect(report).toContain("without PyTorch: No module named 'torch'");
    expect(cells(report, 'vgg16', 9)).toEqual(['failed', ...Array<string>(8).fill('–')]);
    expect(cells(report, 'resnet50', 2)).toEqual(['–', '–']);
    expect(cells(report, 'batch 1, geometric mean, run()', 2)).toEqual(['not measured', '–']);
  });

  test('lists the runs of which something is left', () => {
    const { date, gpu } = gpuResult([]);
    const run = { started: date, quick: false, node: 'v20', version: '0.1.0', torch: 'none', clocks: [] };
    const networks = [{ ...measurement('resnet50', 1, 1), run: 1 }];
    const report = renderGpuNetworks({ date, gpu, runs: [run, run], networks });
    expect(report).not.toContain('- Run 1,');
    expect(report).toContain('- Run 2,');
  });

  test('a later measurement replaces the earlier one of the same network and batch', () => {
    const [first, second] = [measurement('a', 1, 1), measurement('a', 128, 1)];
    const again = measurement('a', 1, 2);
    expect(withNetwork([first, second], again)).toEqual([again, second]);
    expect(withNetwork([first], second)).toEqual([first, second]);
  });
});

describe('a process that answers lines', () => {
  const program = `
    const lines = require('node:readline').createInterface({ input: process.stdin });
    lines.on('line', (line) => {
      const request = JSON.parse(line);
      if (request.exit !== undefined) process.exit(request.exit);
      console.log(JSON.stringify(request.answer ?? { pid: process.pid }));
    });`;
  const child = new LineProcess([process.execPath, '-e', program]);
  const pid = async () => (await child.ask<{ pid: number }>({})).pid;
  afterAll(() => child.close());

  test('is the same one as long as it works, and fails with what it answers', async () => {
    const before = await pid();
    await expect(child.ask({ answer: { failure: 'too large' } })).rejects.toThrow('too large');
    expect(await pid()).toBe(before);
  });

  test('is started anew after it was lost, or has said that it is of no use any more', async () => {
    const before = await pid();
    await expect(child.ask({ exit: 3 })).rejects.toThrow('its process ended with code 3');
    const after = await pid();
    expect(after).not.toBe(before);
    await expect(child.ask({ answer: { failure: 'no device', isLast: true } })).rejects.toThrow('no device');
    expect(await pid()).not.toBe(after);
  });

  test('fails where there is no such program', async () => {
    await expect(new LineProcess(['no-such-program']).ask({})).rejects.toThrow('ENOENT');
  });
});

describe('the files of a network', () => {
  const elements = IMAGE_DIMS.reduce((product, extent) => product * extent, 1);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'networks-'));
  const model = path.join(folder, 'two.onnx');
  const images = Float32Array.from({ length: 2 * elements }, (_, i) => (i < elements ? 1 : 2));
  writeFileSync(model, '');
  writeFileSync(path.join(folder, 'two.input'), images);
  writeFileSync(path.join(folder, 'two.output'), new Float64Array([1, 2, 3, 4]));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('a batch has the images over and over', () => {
    const batch = batchOf(model, 3);
    expect(batch).toHaveLength(3 * elements);
    expect([0, 1, 2].map((image) => batch[image * elements + 5])).toEqual([1, 2, 1]);
  });

  test('an output is judged by the image that it belongs to', () => {
    expect(errorOf(model, 3, new Float32Array([1, 2, 3, 4, 1, 2]))).toBe(0);
    expect(errorOf(model, 3, new Float32Array([1, 2, 1, 2, 3, 4]))).toBe(0.5);
    expect(errorOf(model, 1, new Float32Array([1, NaN]))).toBeNaN();
    expect(errorOf(model, 2, new Float32Array([1, 2]))).toBeNaN();
  });

  test('a network that is not there is named, with how to make it', () => {
    expect(networksIn(folder, undefined)).toEqual(['two']);
    expect(() => networksIn(folder, ['two', 'other'])).toThrow('scripts/export_networks.py');
    expect(() => networksIn(path.join(folder, 'none'), undefined)).toThrow('there is no network in');
  });
});

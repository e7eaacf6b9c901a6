import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { chooseBench, requireOwnOptions } from '../../bench/choose';
import { formatJson } from '../../bench/json';
import { parseCounts, plannedCounts, requestsPerOutput } from '../../bench/gpu/load_requests';
import { readOne, readThreads } from '../../bench/options';
import { PAIRS, renderModels, renderReport, type BenchResult } from '../../bench/cpu/report';
import { readCpuRequest, readCpuResult } from '../../bench/cpu/bench';
import { layersOf } from '../../bench/layers';
import { FOLDER } from '../../bench/results';
import { significant } from '../../bench/statistics';

describe('npm run bench', () => {
  const never = () => {
    throw new Error('not to be asked');
  };

  it('measures the GPU where there is one', () => {
    const args = ['--quick', '--batch', '1'];
    expect(chooseBench(args, () => true, never)).toEqual({ bench: 'gpu', args });
    expect(chooseBench(args, () => false, never)).toEqual({ bench: 'cpu', args });
  });

  it('measures what it is told to, without asking', () => {
    expect(chooseBench(['--device', 'cuda:1'], never, never)).toEqual({
      bench: 'gpu',
      args: ['--device', 'cuda:1'],
    });
    const rest = ['--threads', '1', '--quick'];
    expect(chooseBench(['--threads', '1', '--device', 'cpu', '--quick'], never, never)).toEqual({
      bench: 'cpu',
      args: rest,
    });
    expect(chooseBench(['--device=cpu', ...rest], never, never)).toEqual({ bench: 'cpu', args: rest });
    expect(() => chooseBench(['--device', 'tpu'], never, never)).toThrow(`not 'tpu'`);
    expect(() => chooseBench(['--device'], never, never)).toThrow('cpu, cuda or cuda:N');
  });

  it('says what its options are, whatever else is asked', () => {
    for (const args of [['--help'], ['-h'], ['--device', 'cuda', '--help']]) {
      expect(chooseBench(args, never, never).bench).toBe('help');
    }
  });

  it('renders a report by the bench that wrote it', () => {
    const args = ['--report', 'some.json'];
    const read = (content: object) => () => JSON.stringify(content);
    expect(chooseBench(args, never, read({ gpu: {} })).bench).toBe('gpu');
    expect(chooseBench(args, never, read({ cpu: {} })).bench).toBe('cpu');
    expect(() => chooseBench(args, never, read({}))).toThrow('some.json has neither a gpu nor a cpu');
    expect(() => chooseBench(args, never, () => 'null')).toThrow('some.json has neither');
    expect(() => chooseBench(args, never, () => '# Title')).toThrow('--report takes the JSON');
  });

  it('says for whom an option is that the other bench has', () => {
    expect(() => requireOwnOptions('cpu', ['--batch', '1'])).toThrow(
      '--batch is for the bench of the GPU, but that of the CPU is meant, as there is no usable GPU',
    );
    expect(() => requireOwnOptions('cpu', ['--device', 'cpu', '--json'])).toThrow('as --device says');
    expect(() => requireOwnOptions('cpu', ['--report', 'x', '--json'])).toThrow('as --report says');
    expect(() => requireOwnOptions('gpu', ['--threads', '1'])).toThrow(
      '--threads is for the bench of the CPU',
    );
    requireOwnOptions('cpu', ['--threads', '1', '--group', 'mobile', '--quick']);
    expect(() => requireOwnOptions('cpu', ['--device', 'cpu', '--precision', 'fp16'])).toThrow(
      '--precision is for the bench of the GPU',
    );
    requireOwnOptions('gpu', ['--batch', '1', '--group', 'mec12', '--json']);
    requireOwnOptions('gpu', ['--precision', 'fp16', '--layout', 'nhwc']);
  });

  it('takes words that it knows, and lists them', () => {
    expect(readOne('precision', 'fp16', ['fp32', 'fp16'])).toBe('fp16');
    expect(() => readOne('precision', 'half', ['fp32', 'fp16'])).toThrow(
      "--precision takes fp32, fp16, not 'half'",
    );
  });

  it('renders results of the CPU bench from any folder, and nothing else', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-report-'));
    const write = (name: string, content: object) => {
      const file = path.join(folder, name);
      writeFileSync(file, JSON.stringify(content));
      return file;
    };
    try {
      const result = { cpu: {}, runs: [] };
      expect(readCpuResult(write('cpu-2026-11-23.json', result))).toEqual(result);
      const packing = write('cpu-2026-11-23-packing.json', { cpu: {}, layers: [] });
      expect(() => readCpuResult(packing)).toThrow(`${packing} is not a result of this bench`);
      expect(() => readCpuResult(path.join(folder, 'missing.json'))).toThrow('is not a result of this bench');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

it('the CPU bench knows the whole, which it stores, from a part, which it stores where it is told to', () => {
  const whole = {
    groups: ['sconv-393', 'mobile'],
    counts: [1, 2],
    quick: false,
    isWhole: true,
    folder: FOLDER,
  };
  const part = { ...whole, isWhole: false, folder: undefined };
  expect(readCpuRequest([], 2)).toEqual(whole);
  expect(readCpuRequest(['--quick'], 2)).toEqual({ ...whole, quick: true });
  expect(readCpuRequest([], 1)).toEqual({ ...whole, counts: [1] });
  const group = ['--group', 'mobile'];
  expect(readCpuRequest(group, 2)).toEqual({ ...part, groups: ['mobile'] });
  expect(readCpuRequest([...group, '--out', '/some'], 2).folder).toBe(path.resolve('/some'));
  expect(readCpuRequest(['--out', '/some'], 2)).toEqual({ ...whole, folder: path.resolve('/some') });
  expect(readCpuRequest(['--threads', '1'], 2)).toEqual({ ...part, counts: [1] });
  expect(() => readCpuRequest(['--threads', '4'], 2)).toThrow('--threads takes');
  expect(() => readCpuRequest(['--group', 'mec12'], 2)).toThrow(/mec12 .* sconv-393, mobile/);
});

it('a quick run of the CPU bench is of some layers of every model', () => {
  const groups = ['sconv-393', 'mobile'];
  const [all, some] = [false, true].map((quick) => layersOf(groups, quick));
  expect(all).toHaveLength(295);
  expect(some).toHaveLength(37);
  expect(all).toEqual(expect.arrayContaining(some!));
  const modelsOf = (layers: typeof all) => [...new Set(layers!.map(({ model }) => model))];
  expect(modelsOf(some)).toEqual(modelsOf(all));
});

it('threads are integers, and no more than there are processors', () => {
  expect(readThreads('2', 2)).toBe(2);
  for (const text of ['4', '0', '-1', '1.5', 'abc', '']) {
    expect(() => readThreads(text, 2)).toThrow(`from 1 to 2, this machine's processors, not '${text}'`);
  }
});

it('the convolutions of a model are added up, as often as it has each', () => {
  const layer = (model: string, count: number, ours: number, rival: number) => ({
    group: 'sconv-393',
    model,
    row: [3, 8, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1] as const,
    count,
    ms: Object.fromEntries(
      PAIRS.flatMap((pair) => [
        [pair.rival, rival],
        [pair.ours, ours],
      ]),
    ),
  });
  const layers = [layer('a', 3, 1, 2), layer('b', 1, 5, 4), layer('a', 1, 2, 9)];
  const rows = renderModels({ threads: 1, fmaPeakGflops: 100, layers }).split('\n').slice(4);
  expect(rows[0]).toBe('| a | 5.0 | 3.00 × | 3.00 × | 3.00 × | 3.00 × | 3.00 × |');
  expect(rows[1]).toBe('| b | 5.0 | 0.80 × | 0.80 × | 0.80 × | 0.80 × | 0.80 × |');
});

it('a missing rival is a dash, and so is the peak that its addon measures', () => {
  const layer = { group: 'mobile', model: 'm', row: [3, 8, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1], count: 1 };
  const ms = {
    warpconv: 2,
    'warpconv run()': 2,
    'warpconv run(), own output': 2,
    'onnxruntime-node': 1,
    'onnxruntime-node, own output': 3,
  };
  const run = { fmaPeakGflops: null, layers: [{ ...layer, ms }] };
  const about = { date: '2026-11-23', node: 'v22', processor: '', quick: false, cpu: { name: 'CPU' } };
  const runs = [1, 2].map((threads) => ({ ...run, threads }));
  const report = renderReport({ ...about, runs } as unknown as BenchResult, 'NAME', {});
  expect(report).not.toMatch(/NaN|undefined.*×|Two threads over one/);
  expect(report).toContain('FMA peak of one core, in the same run: – GFLOP/s.');
  expect(report).toContain('GFLOP/s, – % of peak | – | – | – | 1.50 ×, 100 % won |');
  expect(report).toContain('| m | 2.0 | – | – | 1.50 × | 1.50 × | 0.50 × |');
  expect(report).toContain('groups 1 | 2.000 | – | – | 1.50 | 1.50 | **0.50** |');
});

it('measurements are kept without the digits that are noise', () => {
  expect(significant(0.002263999916613102)).toBe(0.002264);
  expect(significant(402.9871)).toBe(402.99);
  expect(significant(2.548465393346585e-8, 3)).toBe(2.55e-8);
  expect(significant(0)).toBe(0);
});

it('results are written with a line for each thing from a depth on', () => {
  const value = { a: [{ b: 1, c: [2, null] }, 'd'], e: undefined, f: [] };
  expect(formatJson(value, 2)).toBe('{\n "a": [\n  {"b":1,"c":[2,null]},\n  "d"\n ],\n "f": []\n}\n');
  expect(JSON.parse(formatJson(value, 1))).toEqual({ a: value.a, f: [] });
});

describe('the output of the profiler', () => {
  const HEADS = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"';
  const REQUESTS = 'l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum';
  const SECTORS = 'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum';
  const lines = plannedCounts().flatMap((_, id) => [
    `"${id}","77","void kernel<""a"", 3>(int, float)","${REQUESTS}","request","1,0${id}0"`,
    `"${id}","77","void kernel<""a"", 3>(int, float)","${SECTORS}","sector","12,345"`,
  ]);
  const output = ['==PROF== Connected to process 77', HEADS, ...lines, '==PROF== Disconnected'].join('\n');

  it('becomes counts of what was planned', () => {
    const counts = parseCounts(output);
    expect(counts).toHaveLength(8);
    expect(counts[1]).toEqual({ filter: 3, variant: 'column', requests: 1010, sectors: 12345 });
    expect(counts[7]).toEqual({ filter: 5, variant: 'both', requests: 1070, sectors: 12345 });
  });

  it('is refused where it has other kernels or other metrics', () => {
    expect(() => parseCounts([HEADS, ...lines.slice(2)].join('\n'))).toThrow('7 kernels; 8');
    expect(() => parseCounts('==ERROR== no permission')).toThrow('0 kernels');
    expect(() => parseCounts(output.replaceAll(SECTORS, 'other.sum'))).toThrow(SECTORS);
  });

  it('is counted for each output of a lane', () => {
    const outputs = (1024 - 5 + 1) ** 2;
    const count = { filter: 5, variant: 'column', requests: (10 * outputs) / 32, sectors: 1 } as const;
    expect(requestsPerOutput(count, 1024)).toBe(10);
  });
});

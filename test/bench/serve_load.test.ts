import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { ROOT } from '../../bench/command';
import { LoadedServer, ONE_BY_ONE, OURS, RIVAL } from '../../bench/serve/loaded_server';
import { convModel } from '../../bench/rivals/onnx_model';
import { failures, longFailures } from '../../bench/serve/failures';
import {
  renderLongServeReport,
  renderServeReport,
  type Load,
  type LongServeResult,
  type ServeResult,
} from '../../bench/serve/report';
import { readServeSettings } from '../../bench/serve/settings';

const DIGITS = { model: path.join(ROOT, 'examples/digits/digits.onnx'), device: 'cpu' };

describe('a server under load', () => {
  it('is killed where its task fails', async () => {
    let child: ChildProcess | undefined;
    const task = async (server: LoadedServer) => {
      child = server.process;
      await server.figures();
      throw new Error('a request failed');
    };
    await expect(LoadedServer.use(OURS, DIGITS, task)).rejects.toThrow('a request failed');
    expect(child!.signalCode).toBe('SIGKILL');
  });

  it('fails its task where it ends', async () => {
    const task = (server: LoadedServer) => {
      server.process.kill('SIGKILL');
      return server.message();
    };
    await expect(LoadedServer.use(OURS, DIGITS, task)).rejects.toThrow('ended with SIGKILL');
  });

  it('takes a model of a fixed batch', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-serve-'));
    const model = path.join(folder, 'fixed.onnx');
    const [inputDims, weightDims, outputDims] = [
      [1, 1, 4, 4],
      [1, 1, 1, 1],
      [1, 1, 4, 4],
    ];
    const node = { strides: [1, 1], pads: [0, 0, 0, 0], dilations: [1, 1], group: 1 };
    writeFileSync(model, convModel({ ...node, inputDims, weightDims, outputDims }, Float32Array.of(2)));
    const task = async ({ url }: LoadedServer) => (await fetch(`${url}/v2/models/model/ready`)).status;
    try {
      expect(await LoadedServer.use(OURS, { model, device: 'cpu' }, task)).toBe(200);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the load', () => {
  it('is the usual one, which is stored, unless told otherwise', () => {
    expect(readServeSettings([])).toEqual({
      ...DIGITS,
      seconds: 10,
      network: undefined,
      connections: [1, 8, 32, 128],
      requests: 'float32',
      servers: [OURS, ONE_BY_ONE, RIVAL],
      threads: undefined,
      clients: undefined,
      minutes: undefined,
      quick: false,
      suffix: 'serve',
    });
    expect(readServeSettings(['--minutes', '30'])).toMatchObject({
      minutes: 30,
      connections: [32],
      servers: [OURS],
      quick: false,
      suffix: 'serve-long',
    });
    expect(readServeSettings(['--network', 'resnet50'])).toMatchObject({
      network: 'resnet50',
      seconds: 30,
      quick: false,
      suffix: 'serve-resnet50',
    });
    for (const [option, value, quick] of [
      ['seconds', '2', true],
      ['seconds', '20', false],
      ['minutes', '1', true],
      ['device', 'cuda', false],
      ['model', 'other.onnx', false],
      ['connections', '1,8', false],
      ['servers', 'ours', false],
      ['threads', '1', false],
    ] as const) {
      expect(readServeSettings([`--${option}`, value])).toMatchObject({ quick, suffix: undefined });
    }
  });

  it('has a network that the bench can make', () => {
    expect(() => readServeSettings(['--network', 'resnet5'])).toThrow('--network resnet5 is none of those');
  });

  it('is of so many connections on those servers, as it is told', () => {
    const settings = readServeSettings([
      ...['--connections', '4,64', '--servers', 'rival,ours', '--requests', 'float32'],
      ...['--threads', '1'],
    ]);
    expect(settings).toMatchObject({ connections: [4, 64], servers: [RIVAL, OURS], threads: 1 });
    // How many processes clients are in is no other load.
    expect(readServeSettings(['--clients', '2'])).toMatchObject({ clients: 2, suffix: 'serve' });
    for (const [args, message] of [
      ['--connections=1,x', "--connections takes integers above 0 with commas between them, not '1,x'"],
      ['--connections=0', '--connections takes integers above 0'],
      ['--clients=1,2', "--clients takes an integer above 0, not '1,2'"],
      ['--servers=theirs', '--servers theirs is none of those that there are: ours, one-by-one, rival'],
      ['--requests=int8', '--requests int8 is none of those that there are: float32'],
      ['--threads=0', '--threads takes an integer'],
      ['--minutes=1 --connections=1,2', '--connections takes an integer above 0'],
      ['--minutes=1 --servers=ours,rival', '--servers takes one with --minutes'],
    ] as const) {
      expect(() => readServeSettings(args.split(' '))).toThrow(message);
    }
  });

  it('has a length', () => {
    for (const text of ['x', '0', '-1', 'Infinity', '']) {
      expect(() => readServeSettings([`--seconds=${text}`])).toThrow(
        `--seconds takes a number above 0, not '${text}'`,
      );
      expect(() => readServeSettings([`--minutes=${text}`])).toThrow('--minutes takes');
    }
  });
});

const LOAD: Load = {
  perSecond: 1234,
  p50: 1,
  p99: 2,
  statuses: { 200: 100 },
  connectionErrors: 0,
  wrong: 0,
  clientsCpu: 0.25,
  cpuPerAnswer: 0.125,
  delayP99: 3,
  rssBefore: 1e8,
  rss: 2e8,
};
const LOADING = {
  date: '2026-11-27',
  node: 'v20.0.0',
  cpu: { name: 'CPU', cores: 2 } as ServeResult['cpu'],
  processor: '',
  quick: false,
  model: 'digits.onnx',
  device: 'cpu',
  requests: 'float32',
  command: 'npx ts-node bench/serve/main.ts',
};
const RESULT: ServeResult = {
  ...LOADING,
  seconds: 10,
  servers: [OURS, RIVAL].map((who) => ({ who, loads: [{ ...LOAD, connections: 8 }] })),
  overload: {
    connections: 512,
    before: LOAD,
    full: { ...LOAD, statuses: { 200: 1, 503: 2 } },
    after: LOAD,
  },
  termination: {
    ...{ connections: 32, milliseconds: 50, exitCode: 0, answered: 7, received: 7 },
    statuses: { 200: 7, 503: 1 },
  },
};
const LONG: LongServeResult = {
  ...LOADING,
  who: OURS,
  load: LOAD,
  connections: 32,
  samples: [{ minutes: 1, delayP99: 3, rss: 2e8 }],
};

describe('a result fails', () => {
  const withLoad = (who: string, load: Partial<Load>): ServeResult => ({
    ...RESULT,
    servers: [{ who, loads: [{ ...LOAD, connections: 8, ...load }] }],
  });
  const withOverload = (statuses: Load['statuses']): ServeResult => ({
    ...RESULT,
    overload: { ...RESULT.overload!, full: { ...LOAD, statuses } },
  });
  const LOST = 'not every request was answered by 200, with room in the queue';

  it('where anything was lost, refused or wrong that should not be', () => {
    expect(failures(RESULT)).toEqual([]);
    expect(failures({ ...RESULT, overload: undefined, termination: undefined })).toEqual([]);
    expect(failures(withLoad(OURS, { connectionErrors: 1 }))).toEqual([LOST]);
    expect(failures(withLoad(OURS, { statuses: { 200: 1, 500: 1 } }))).toEqual([LOST]);
    expect(failures(withLoad(RIVAL, { connectionErrors: 1 }))).toEqual([]);
    expect(failures(withLoad(RIVAL, { wrong: 2, worst: 0.5 }))).toEqual([
      `2 answers of ${RIVAL} were wrong; the first by 0.5 of the largest element`,
    ]);
    expect(failures(withOverload({ 200: 1 }))).toEqual(['the queue was never full']);
    expect(failures(withOverload({ 503: 1, 500: 1 }))).toEqual([
      'an overloaded server answered by none of 200, 503 and 504',
    ]);
    const termination = { ...RESULT.termination!, received: 6, exitCode: 1 };
    expect(failures({ ...RESULT, termination })).toEqual([
      'accepted requests were lost at SIGTERM',
      'SIGTERM ended the server with exit code 1',
    ]);
    expect(longFailures(LONG)).toEqual([]);
    expect(longFailures({ ...LONG, load: { ...LOAD, connectionErrors: 1 } })).toEqual([LOST]);
  });
});

describe('the page of a result', () => {
  it('has a column of the GPU where it ran on one', () => {
    const heads = 'answers / s | p50 ms | p99 ms | CPU ms / answer | event loop p99 ms | memory MB';
    const cells = '1,230 | 1.00 | 2.00 | 0.125 | 3.00 | 100 → 200 | 25 |';
    const page = renderServeReport(RESULT);
    expect(page).toContain(`| connections | ${heads} | clients' CPU % |\n`);
    expect(page).toContain(`| 8 | ${cells}\n`);
    expect(page).toContain('7 of 200, 1 of 503');
    const loads = [{ ...LOAD, connections: 8, gpuBusy: 0.5 }];
    const onGpu = renderServeReport({ ...RESULT, device: 'cuda', servers: [{ who: OURS, loads }] });
    expect(onGpu).toContain(`| connections | ${heads} | clients' CPU % | GPU busy % |\n`);
    expect(onGpu).toContain(`| 8 | ${cells} 50 |\n`);
  });

  it('has no more than was measured', () => {
    const page = renderServeReport({ ...RESULT, overload: undefined, termination: undefined });
    expect(page).not.toMatch(/SIGTERM|More than the queue takes|GPU/);
    expect(renderLongServeReport(LONG)).toContain('| 1.00 | 3.00 | 200 |');
    expect(renderLongServeReport(LONG)).not.toContain('GPU');
  });
});

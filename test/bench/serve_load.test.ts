import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { ROOT } from '../../bench/command';
import { LoadedServer, OURS } from '../../bench/loaded_server';
import { convModel } from '../../bench/rivals/onnx_model';
import { readServeSettings } from '../../bench/serve_settings';

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
      minutes: undefined,
      quick: false,
      suffix: 'serve',
    });
    expect(readServeSettings(['--minutes', '30'])).toMatchObject({
      minutes: 30,
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
    ] as const) {
      expect(readServeSettings([`--${option}`, value])).toMatchObject({ quick, suffix: undefined });
    }
  });

  it('has a network that the bench can make', () => {
    expect(() => readServeSettings(['--network', 'resnet5'])).toThrow('--network resnet5 is none of those');
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

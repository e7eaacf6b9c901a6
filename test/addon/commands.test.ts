/** `warpconv inspect`, `bench` and `profile`, as a shell starts them: the built command, its output and how it ends. */
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import type { BenchResult } from '../../lib/commands/bench_command';
import type { Inspection } from '../../lib/commands/inspect_command';
import type { ProfileResult } from '../../lib/commands/profile_command';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

const CLI = path.join(__dirname, '../../dist/cli.js');
const CPU = ['--device', 'cpu'];

let folder: string;

/** Twice what the model gives. With TELL it says when it is loaded, and with END it ends its process in the second run. */
const OTHER = `
exports.env = { versions: { node: '9.8.7' } };
exports.Tensor = class { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } };
exports.InferenceSession = {
  async create() {
    if (process.env.TELL) process.stderr.write('loaded\\n');
    let runs = 0;
    const run = async ({ x }) => {
      if (process.env.END && runs++ > 0) process.exit(3);
      return { y: { type: x.type, dims: x.dims, data: x.data.map((one) => 2 * one) } };
    };
    return { run };
  },
};
`;

/** Tells at the end which models were opened. */
const OPENS = `
const promises = require('node:fs/promises');
const { open } = promises;
const opened = [];
promises.open = (file, ...rest) => (opened.push(file), open(file, ...rest));
process.on('exit', () => process.stderr.write(opened.filter((file) => /onnx$/.test(file)).join()));
`;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'warpconv-commands-'));
  const write = (name: string, bytes: Uint8Array | string) => writeFileSync(path.join(folder, name), bytes);
  write(
    'conv.onnx',
    onnxModel({
      inputs: [value('x', ['N', 3, 8, 8])],
      initializers: [tensor('w', [8, 3, 3, 3], new Float32Array(216).fill(1))],
      nodes: [node('Conv', ['x', 'w'], ['a'], { pads: [1, 1, 1, 1] }), node('Relu', ['a'], ['y'])],
      outputs: [value('y')],
    }),
  );
  write(
    'relu.onnx',
    onnxModel({
      inputs: [value('x', ['N', 4])],
      nodes: [node('Relu', ['x'], ['y'])],
      outputs: [value('y')],
    }),
  );
  write(
    'odd.onnx',
    onnxModel({
      inputs: [value('x', ['N'])],
      nodes: [
        node('Odd', ['x'], ['a'], {}, { name: 'first' }),
        node('Relu', ['a'], ['b']),
        node('Odd', ['b'], ['c'], {}, { name: 'second' }),
        node('Even', ['c'], ['y'], {}, { name: 'third', domain: 'com.microsoft' }),
      ],
      domains: { 'com.microsoft': 1 },
      outputs: [value('y')],
    }),
  );
  write(
    'flat.onnx',
    onnxModel({
      inputs: [value('x', ['N', 3, 'H', 'W'])],
      initializers: [tensor('w', [192, 2], new Float32Array(384))],
      nodes: [node('Flatten', ['x'], ['a']), node('MatMul', ['a', 'w'], ['y'])],
      outputs: [value('y')],
    }),
  );
  write(
    'any.onnx',
    onnxModel({ inputs: [value('x')], nodes: [node('Relu', ['x'], ['y'])], outputs: [value('y')] }),
  );
  write(
    'names.onnx',
    onnxModel({
      inputs: [value('x\u001b[31m\n', ['N\u009b2J', 4])],
      nodes: [node('Relu', ['x\u001b[31m\n'], ['y'], {}, { name: 'line\nline' })],
      outputs: [value('y')],
    }),
  );
  write('opens.cjs', OPENS);
  write('damaged.onnx', 'no model');
  write('empty.onnx', '');
  const other = path.join(folder, 'node_modules/onnxruntime-node');
  mkdirSync(other, { recursive: true });
  writeFileSync(path.join(other, 'index.js'), OTHER);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(args: readonly string[], env?: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [CLI, ...args], {
    ...{ cwd: folder, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout!.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr })),
  );
  return { child, ended };
}

const run = (...args: string[]) => start(args).ended;

async function runJson<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await run(...args, '--json', ...CPU);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as T;
}

describe('inspect', () => {
  test('it counts what the file has, and what it is compiled to', async () => {
    const inspection = await runJson<Inspection>('inspect', 'conv.onnx', '--batch', '2');
    expect(inspection).toMatchObject({
      file: 'conv.onnx',
      inputs: [{ name: 'x', type: 'float32', shape: ['N', 3, 8, 8] }],
      operators: { Conv: 1, Relu: 1 },
      parameters: { float32: 216 },
      weightBytes: 864,
      unsupported: [],
      problem: null,
      compiled: { device: 'cpu', inputs: [{ dims: [2, 3, 8, 8] }], assumed: [] },
    });
    const { steps, flops } = inspection.compiled!;
    expect(steps).toMatchObject([{ kind: 'convolution', nodes: [expect.anything(), expect.anything()] }]);
    expect(flops).toBe(2 * (2 * 8 * 8 * 8) * (3 * 3 * 3));
  });

  test('it says so for people, too', async () => {
    const { code, stdout, stderr } = await run('inspect', 'conv.onnx', '--steps', ...CPU);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^inputs\n {2}x +float32 +\[N, 3, 8, 8\]$/m);
    expect(stdout).toMatch(/^2 operators, 2 nodes\n {2}Conv 1, Relu 1$/m);
    expect(stdout).toMatch(/^assumed: N = 1 /m);
    expect(stdout).toMatch(/^1 +cpu +convolution +\w+ +27\.6 k +1x3x8x8 \* 8x3x3x3, relu +Conv/m);
  });

  test('it names all that is not supported', async () => {
    const { code, stdout, stderr } = await run('inspect', 'odd.onnx', ...CPU);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^ {2}x +float32 +\[N\]$/m);
    expect(stdout).toMatch(/^ {2}Odd: export the model without it.*\n {4}first, second$/m);
    expect(stdout).toMatch(/^ {2}com\.microsoft\.Even: an operator of onnxruntime's own.*\n {4}third$/m);
    expect(stderr).toMatch(/^warpconv: ERR_WARPCONV_UNSUPPORTED: the model has 2 operators .*\n$/);
  });

  test.each([
    ['empty.onnx', /^warpconv: ERR_WARPCONV_INVALID_MODEL: the model has no graph.*\n$/],
    ['damaged.onnx', /^warpconv: ERR_WARPCONV_INVALID_MODEL: the model is not an ONNX file.*\n$/],
    ['none.onnx', /^warpconv: ERR_WARPCONV_INVALID_ARGUMENT: model cannot be read.*none\.onnx'\n$/],
  ])('of %s there is nothing but a line', async (file, message) => {
    const { code, stdout, stderr } = await run('inspect', file);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(message);
  });

  test('it reads the file once', async () => {
    const { ended } = start(['inspect', 'conv.onnx', ...CPU], { NODE_OPTIONS: '--require ./opens.cjs' });
    expect(await ended).toMatchObject({ code: 0, stderr: 'conv.onnx' });
  });

  test('it runs no input of any rank as a scalar, unless it is told to', async () => {
    const { code, stdout, stderr } = await run('inspect', 'any.onnx', ...CPU);
    expect([code, stderr]).toEqual([1, expect.stringContaining('--shape x=1x3x224x224')]);
    expect(stdout).toMatch(/^ {2}x +float32 +of any rank$/m);
    const { compiled } = await runJson<Inspection>('inspect', 'any.onnx', '--shape', 'scalar');
    expect(compiled!.inputs).toMatchObject([{ dims: [] }]);
  });

  test('a terminal obeys no name of the file', async () => {
    const { stdout } = await run('inspect', 'names.onnx', '--steps', ...CPU);
    expect(stdout).toMatch(/^ {2}x\\u001b\[31m\\n +float32 +\[N\\u009b2J, 4\]$/m);
    expect(stdout).toMatch(/line\\nline$/m);
    expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
  });

  test('a reader that goes ends it without a word', async () => {
    const { child, ended } = start(['inspect', 'conv.onnx', ...CPU]);
    child.stdout!.destroy();
    expect(await ended).toMatchObject({ code: 141, stderr: '' });
  });
});

describe('bench', () => {
  test('it measures the model beside the onnxruntime-node of the working directory', async () => {
    const result = await runJson<BenchResult>('bench', 'relu.onnx', '--seconds', '1', '--threads', '1');
    const { warpconv, onnxruntimeNode, threads, difference } = result;
    expect(threads).toBe(1);
    expect(difference).toEqual({ relative: 0.5, absolute: expect.any(Number) as number, output: 'y' });
    expect(onnxruntimeNode).toMatchObject({ version: '9.8.7', device: 'cpu' });
    for (const one of [warpconv, onnxruntimeNode as typeof warpconv]) {
      expect(one.newShape!.change).toBe('N + 1');
      expect(one.runs).toBeGreaterThan(3);
      for (const field of ['load', 'firstRun', 'p50', 'mean', 'runsPerSecond', 'residentBytes'] as const)
        expect(one[field]).toBeGreaterThan(0);
      expect(one.p50).toBeLessThanOrEqual(one.p90);
      expect(one.p90).toBeLessThanOrEqual(one.p99);
    }
  });

  test('or alone, as a table', async () => {
    const options = ['--seconds', '1', '--alone', '--precision', 'bf16', ...CPU];
    const { code, stdout, stderr } = await run('bench', 'relu.onnx', ...options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^relu\.onnx with x 1x4; CPU threads: \d+\nassumed: N = 1 /);
    expect(stdout).toMatch(/^p50 +[\d.]+ ms$/m);
    expect(stdout).not.toContain('onnxruntime');
  });

  test('Ctrl+C ends it and its processes at once', async () => {
    const { child, ended } = start(['bench', 'relu.onnx', '--seconds', '3600', ...CPU], { TELL: '1' });
    const line = await new Promise<string>((resolve) => child.stderr!.once('data', resolve));
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: null, signal: 'SIGINT', stdout: '', stderr: line });
    // Its processes have the same stderr, so that `ended` waits for the last of them, too.
  });

  test('where the other one ends, its own results stay', async () => {
    const { code, stdout } = await start(['bench', 'relu.onnx', '--seconds', '1', ...CPU], { END: '1' })
      .ended;
    expect(code).toBe(0);
    expect(stdout).toMatch(/^p50 +[\d.]+ ms$/m);
    expect(stdout).toContain('cannot run the model: the process of onnxruntime-node ended with 3\n');
  });
});

test.each([
  [
    'extents that do not fit',
    ['bench', 'flat.onnx', '--alone'],
    /^warpconv: ERR_WARPCONV_INVALID_MODEL: .*; assumed: N = 1, H = 224, W = 224 .*\n$/,
  ],
  [
    'more elements than there is memory',
    ['profile', 'relu.onnx', '--batch', '2000000000'],
    /^warpconv: ERR_WARPCONV_OUT_OF_MEMORY: .* 'x' .*\n$/,
  ],
  [
    'a device that is not there',
    ['profile', 'relu.onnx', '--device', 'cuda:99'],
    /^warpconv: ERR_WARPCONV_NO_DEVICE: .*\n$/,
  ],
  [
    'extents that do not fit',
    ['profile', 'flat.onnx'],
    /^warpconv: ERR_WARPCONV_INVALID_MODEL: .*; assumed: N = 1, H = 224, W = 224 .*\n$/,
  ],
])('%s: a line, and 1 (%j)', async (_, args, message) => {
  const { code, stdout, stderr } = await run(...args.toSpliced(2, 0, ...CPU));
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(message);
});

describe('profile', () => {
  test('it writes a trace where it is told to, and names the slowest steps', async () => {
    const { code, stdout, stderr } = await run(
      'profile',
      'conv.onnx',
      '--output',
      'trace.json',
      '--runs',
      '3',
      ...CPU,
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^[\d.]+ +100\.0 % +convolution +\w+ +[\d.]+ +1x3x8x8/m);
    expect(stdout).toContain('The trace is in trace.json;');
    const events = JSON.parse(readFileSync(path.join(folder, 'trace.json'), 'utf8')) as {
      cat: string;
      ph: string;
    }[];
    expect(events.map(({ cat }) => cat)).toEqual(['run', 'step', 'run', 'step', 'run', 'step']);
  });

  test('it writes through a link, and leaves it', async () => {
    symlinkSync('aim.json', path.join(folder, 'link.json'));
    await runJson('profile', 'relu.onnx', '--output', 'link.json', '--runs', '1');
    expect(JSON.parse(readFileSync(path.join(folder, 'aim.json'), 'utf8'))).toHaveLength(2);
    expect(lstatSync(path.join(folder, 'link.json')).isSymbolicLink()).toBe(true);
  });

  test('it measures nothing where the trace cannot be written', async () => {
    const { code, stderr } = await run('profile', 'conv.onnx', '--output', 'none/trace.json', ...CPU);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^warpconv: ENOENT: no such file .*'none'\n$/)]);
  });

  test('without a name it is named after the model', async () => {
    const { trace, steps, runs } = await runJson<ProfileResult>('profile', 'conv.onnx');
    expect(trace).toMatch(/^conv_profile_.*\.json$/);
    expect(existsSync(path.join(folder, trace))).toBe(true);
    expect(runs).toBe(10);
    expect(steps[0]!.milliseconds).toBeGreaterThan(0);
  });
});

describe('every command', () => {
  const COMPARE = ['compare', '--input', '1x8x8x8', '--weight', '4x8x3x3'];
  const NAMES = ['doctor', 'inspect', 'bench', 'profile', 'serve', 'compare', 'build'];

  test.each(NAMES)('%s has a help of its own', async (name) => {
    const { code, stdout, stderr } = await run(name, '-h');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.match(/usage: .*/g)).toEqual([expect.stringMatching(`^usage: warpconv ${name}\\b`)]);
  });

  test.each<[string[], string]>([
    [['--precision', 'half'], "options.precision must be 'fp32', 'tf32', 'fp16' or 'bf16', got 'half'"],
    [['--layout', 'hwcn'], "options.layout must be 'nchw' or 'nhwc', got 'hwcn'"],
    [
      ['--type', 'bfloat16', '--precision', 'bf16', '--layout', 'nhwc', '--device', 'cpu'],
      'cuDNN runs on GPUs',
    ],
  ])('compare hands %j to the comparison', async (args, complaint) => {
    const { code, stdout, stderr } = await run(...COMPARE, ...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(complaint);
  });

  test('build names what is missing of the sources', () => {
    const place = path.join(folder, 'warpconv');
    cpSync(path.dirname(CLI), path.join(place, 'dist'), { recursive: true });
    writeFileSync(path.join(place, 'package.json'), '{ "name": "warpconv" }');
    const { status, stderr } = spawnSync(process.execPath, [path.join(place, 'dist/cli.js'), 'build'], {
      ...{ encoding: 'utf8', env: { ...process.env, NODE_PATH: path.join(__dirname, '../../node_modules') } },
    });
    expect(stderr).toMatch(/^warpconv: .*warpconv, CMakeLists\.txt is missing: install the package again\n$/);
    expect(status).toBe(1);
  });

  const onDeviceThatIsFull = existsSync('/dev/full') ? test : test.skip;
  onDeviceThatIsFull('an output that cannot be written is complained of', () => {
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [CLI, 'help'], {
      ...{ stdio: ['ignore', full, 'pipe'], encoding: 'utf8' },
    });
    closeSync(full);
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(/^warpconv: the output cannot be written: ENOSPC.*\n$/),
    ]);
  });

  test('the list has them all', async () => {
    const [{ code, stdout }, ...same] = await Promise.all([run('help'), run('-h'), run('help', 'help')]);
    expect(code).toBe(0);
    for (const one of same) expect(one.stdout).toBe(stdout);
    const listed = [...stdout.matchAll(/^ {2}(\w+) {2}/gm)].map(([, name]) => name);
    expect(listed).toEqual(expect.arrayContaining(NAMES));
  });

  test.each<[string[], string]>([
    [['bench'], 'bench needs an ONNX file, for example: warpconv bench model.onnx'],
    [['inspect', 'a.onnx', 'b.onnx'], "inspect takes 1 argument, got 'b.onnx'"],
    [['bench', 'relu.onnx', '--treads', '1'], 'bench takes no --treads; did you mean --threads?'],
    [['profile', 'relu.onnx', '-x'], 'profile takes no -x'],
    [['profile', 'relu.onnx', '--output', ''], "--output takes a file, got ''"],
    [['profile', 'relu.onnx', '--output', '.'], "--output takes a file, and '.' is a folder"],
    [['bench', 'relu.onnx', '--batch', '0'], "--batch takes an integer from 1 to 2147483647, got '0'"],
    [['bench', 'relu.onnx', '--device', 'cuda:9999999999'], '--device takes auto, cpu, cuda or cuda:N, got'],
    [['serve', 'relu.onnx', '--device', 'cuda:9999999999'], "--device takes 'cpu' or 'cuda:N', got"],
    [
      ['compare', '--input', '1x3x8x8', '--weight', '4x3x3x3', '--groups', '9999999999'],
      'options.groups must be a positive integer of at most 2147483647, got 9999999999',
    ],
    [['bench', 'relu.onnx', '--precision', 'half'], "--precision takes fp32, tf32, fp16 or bf16, got 'half'"],
    [['bench', 'relu.onnx', '--shape', 'x:1x4'], '--shape takes dims as in'],
    [['inspect', 'relu.onnx', '--dim', 'M=3'], "--dim: the model has no open dimension 'M'; it has N"],
    [[...COMPARE, '--type', 'int8'], '--type takes float32, float16, bfloat16, got int8'],
    [['benhc', 'relu.onnx'], "there is no command 'benhc'; did you mean 'bench'?"],
  ])('%j is refused with 2', async (args, complaint) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    const [line, ...usage] = stderr.split('\n');
    expect(line).toMatch(/^warpconv: /);
    expect(line).toContain(complaint);
    expect(usage[0]).toMatch(/^usage: warpconv /);
  });
});

/**
 * What becomes of the package when the CUDA driver refuses a call: each of some evenly spread calls of an operation, or
 * all of them with WARPCONV_REFUSED_CALLS_MOST=1000000.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { describeGpu } from '../support/gpu';

const MOST = Number(process.env.WARPCONV_REFUSED_CALLS_MOST ?? 12);
/** Of the calls that open a GPU, in processes of their own. */
const OPENING_CALLS = MOST > 1000 ? 200 : 6;

interface Report {
  readonly points: number;
  readonly tried: number;
  readonly outcomes: Readonly<Record<string, number>>;
}

const obstacle =
  process.arch === 'x64' && process.platform === 'linux'
    ? undefined
    : 'the stubs are code for Linux on x86-64';

const name = 'calls of the CUDA driver that are refused';
const body = () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-refused-'));
  const library = path.join(folder, 'refused_calls.so');
  const control = path.join(folder, 'control');

  beforeAll(() => {
    const source = path.join(__dirname, 'support', 'refused_calls.c');
    const compiler = spawnSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, source, '-ldl', '-lpthread']);
    expect(String(compiler.stderr)).toBe('');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function refuse(operation: string, number: number): Report {
    writeFileSync(control, Buffer.alloc(16));
    const child = spawnSync(
      process.execPath,
      [path.join(__dirname, 'children', 'refused_calls.cjs'), operation, String(number)],
      {
        encoding: 'utf8',
        env: { ...process.env, LD_PRELOAD: library, WARPCONV_REFUSED_CALLS: control },
        timeout: 600_000,
      },
    );
    expect({ status: child.status, signal: child.signal, stderr: child.stderr }).toEqual({
      status: 0,
      signal: null,
      stderr: '',
    });
    return JSON.parse(child.stdout) as Report;
  }

  it.each([
    'conv2d',
    'create',
    'run',
    'runResident',
    'tensors',
    'pinned',
    'session',
    'sessionRun',
    'sessionOutputs',
  ])(
    'of %s',
    (operation) => {
      const report = refuse(operation, MOST);
      process.stdout.write(`${operation}: ${JSON.stringify(report)}\n`);
      expect(report.points).toBeGreaterThan(0);
      const { done = 0, ERR_WARPCONV_OUT_OF_MEMORY: refused = 0 } = report.outcomes;
      expect(done + refused).toBe(report.tried);
      // Were none refused, the library would not have been in between.
      expect(refused).toBeGreaterThan(0);
    },
    600_000,
  );

  it('of opening a GPU', () => {
    const { points } = refuse('open', 2 ** 40);
    const step = Math.max(1, Math.ceil(points / OPENING_CALLS));
    const outcomes: string[] = [];
    for (let k = 1; k <= points; k += step) outcomes.push(...Object.keys(refuse('open', k).outcomes));
    process.stdout.write(`opening: ${points} calls, refused in turn: ${outcomes.join(' ')}\n`);
    for (const outcome of outcomes) expect(outcome).toMatch(/^(done|ERR_WARPCONV_\w+)$/);
  }, 600_000);
};

describeGpu(name, body, obstacle);

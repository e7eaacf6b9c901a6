/** The look at what kernels use, over a cuobjdump that says what the test says. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const MODULE = pathToFileURL(path.join(__dirname, '../../scripts/kernels.mjs')).href;

interface Look {
  readonly kernels: readonly Record<string, unknown>[];
  readonly complaints: readonly string[];
}

let folder: string;
beforeEach(() => (folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-test-'))));
afterEach(() => rmSync(folder, { recursive: true }));

/** What the module makes of that output, in a process of its own: Jest does not load ES modules. */
function lookAt(output: string): Look {
  const tool = path.join(folder, 'cuobjdump');
  writeFileSync(tool, `#!/bin/sh\ncat <<'END'\n${output}\nEND\n`);
  chmodSync(tool, 0o755);
  const script = `
    import { complaints, cuobjdump, readKernels } from '${MODULE}';
    const kernels = readKernels(cuobjdump(), 'some.node');
    console.log(JSON.stringify({ kernels, complaints: complaints(kernels) }));`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${folder}${path.delimiter}${process.env.PATH}` },
  });
  return JSON.parse(stdout) as Look;
}

const usage = (registers: number, stack: number, local: number) =>
  `  REG:${registers} STACK:${stack} SHARED:1024 LOCAL:${local} CONSTANT[0]:568 TEXTURE:0 SURFACE:0 SAMPLER:0`;
const SLIDING =
  '_ZN8warpconv4cuda43_GLOBAL__N__9c17e423_10_sliding_cu_39ffb71113slidingKernelILi7ELi2ELb0ELb1EEEvNS0_11ShuffleCallE';
const GEMM = '_ZN8warpconv4cuda6im2win10im2winGemmILi4EEEvNS1_13GemmArgumentsE';
const dump = (architecture: string, ...kernels: [symbol: string, usage: string][]) =>
  [
    `Fatbin elf code:\n================\narch = ${architecture}\ncode version = [1,8]\n\nResource usage:\n Common:\n  GLOBAL:0`,
    ...kernels.map(([symbol, used]) => ` Function ${symbol}:\n${used}`),
  ].join('\n');

it('reads what every kernel uses, by architecture, family and name', () => {
  const { kernels, complaints } = lookAt(
    [
      dump('sm_90', [SLIDING, usage(92, 0, 0)], [GEMM, usage(144, 0, 0)]),
      dump('sm_75', [SLIDING, usage(90, 0, 0)]),
    ].join('\n\n'),
  );
  const sliding = { family: 'shuffle', name: 'slidingKernel<7, 2, false, true>' };
  const nothing = { shared: 1024, stack: 0, local: 0 };
  expect(kernels).toEqual([
    { architecture: 'sm_75', ...sliding, registers: 90, ...nothing },
    { architecture: 'sm_90', family: 'im2win', name: 'im2winGemm<4>', registers: 144, ...nothing },
    { architecture: 'sm_90', ...sliding, registers: 92, ...nothing },
  ]);
  expect(complaints).toEqual([]);
});

it('complains of a stack, of local memory, and of what it cannot read', () => {
  const { complaints } = lookAt(
    dump('sm_80', [SLIDING, usage(255, 16, 0)], [GEMM, usage(255, 0, 8)], [`${GEMM}x`, '  REG:12']),
  );
  expect(complaints).toEqual([
    expect.stringMatching(/^im2win: .* for sm_80 has 0 bytes of stack and 8 of local memory a thread$/),
    expect.stringMatching(/ has NaN bytes of stack and NaN of local memory a thread$/),
    'shuffle: slidingKernel<7, 2, false, true> for sm_80 has 16 bytes of stack and 0 of local memory a thread',
  ]);
});

it('finds no kernels in a binary without code for GPUs', () => {
  expect(lookAt('')).toEqual({ kernels: [], complaints: [] });
});

/** What the CPU's benches compare with: a package of its own, so that users of warpconv never install it. */
import path from 'node:path';

import type { CpuInfo } from 'warpconv';

import { installPackages, ROOT, run } from './command';

export const RIVALS = path.join(__dirname, 'rivals');

/** The folder in which node-gyp-build finds the package's addon with OpenBLAS in its im2col (rivals/native/base.cpp). */
export const BASE = path.join(RIVALS, 'build/base');

/** @param target - of rivals/CMakeLists.txt: `all` adds BASE, which takes minutes to compile and only whole networks need */
export function installRivals(target: 'rivals' | 'all'): void {
  process.stderr.write('bench: rivals, installed and compiled before the first run …');
  installPackages(RIVALS);
  const cmakeJs = path.join(ROOT, 'node_modules/cmake-js/bin/cmake-js');
  const build = [
    'compile',
    '-d',
    RIVALS,
    '-O',
    path.join(RIVALS, 'build'),
    '--config',
    'Release',
    '--target',
    target,
  ];
  run(process.execPath, [cmakeJs, ...build]);
  process.stderr.write(' ready\n');
}

/** Numbers of threads reach the rivals through their environment. */
export function rivalEnvironment(cpu: CpuInfo, threads: number): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = { ...process.env, OMP_NUM_THREADS: String(threads) };
  // OpenBLAS falls back to its AVX2 kernels on processors newer than itself, or where a machine has set the variable to those;
  // these are faster.
  if (cpu.features.includes('avx512f')) environment.OPENBLAS_CORETYPE = 'SkylakeX';
  return environment;
}

/** What the kernels in a built binary use, as CUDA's cuobjdump reads it from the machine code. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { which } from './prerequisites.mjs';
import { ROOT } from './root.mjs';

/**
 * @typedef {object} Kernel
 * @property {string} architecture - for example `sm_90`
 * @property {string} family - the folder of cuda/ that it comes from
 * @property {string} name - with its template arguments, without namespaces
 * @property {number} registers - of a thread
 * @property {number} shared - static shared memory of a block, in bytes
 * @property {number} stack - of a thread, in bytes: registers that were spilled, and arrays that are indexed by variables
 * @property {number} local - of a thread, in bytes
 */

/** CUDA's tool, on the PATH or beside nvcc; undefined where there is none. */
export function cuobjdump() {
  const nvcc = which('nvcc');
  const beside = nvcc && path.join(path.dirname(realpathSync(nvcc)), 'cuobjdump');
  return which('cuobjdump') ?? (beside && statSync(beside, { throwIfNoEntry: false }) ? beside : undefined);
}

/**
 * @param {string} tool - cuobjdump
 * @param {string} binary
 * @returns {Kernel[]} by architecture, family and name; none where the binary has no code for GPUs
 */
export function readKernels(tool, binary) {
  // It fails where there is nothing to dump.
  const { stdout } = spawnSync(tool, ['--dump-resource-usage', binary], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  const entries = [...(stdout ?? '').matchAll(ENTRY)].map(({ groups }) => groups);
  // Of one architecture until the next is named; functions follow it.
  let architecture = '';
  const functions = [];
  for (const { arch, symbol, usage } of entries) {
    if (arch !== undefined) architecture = arch;
    else functions.push({ architecture, symbol, usage });
  }
  const names = demangled(functions.map(({ symbol }) => symbol));
  return functions
    .map(({ architecture, symbol, usage }, index) => kernelOf(architecture, symbol, names[index], usage))
    .sort((a, b) => compare(a.architecture, b.architecture) || compare(a.family, b.family) || byName(a, b));
}

const ENTRY = /^arch = (?<arch>\w+)|^ *Function (?<symbol>\S+):\n(?<usage>.*)/gm;

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });

function kernelOf(architecture, symbol, demangledName, usage) {
  const amount = (what) => Number(new RegExp(`\\b${what}:(\\d+)`).exec(usage)?.[1]);
  return {
    architecture,
    family: familyOf(symbol, demangledName),
    name: shortened(demangledName),
    registers: amount('REG'),
    shared: amount('SHARED'),
    stack: amount('STACK'),
    local: amount('LOCAL'),
  };
}

/** As the compiler of the host names them, or as they are where there is no tool for that. */
function demangled(symbols) {
  const filter = ['cu++filt', 'c++filt', 'llvm-cxxfilt'].find(which);
  if (filter === undefined || symbols.length === 0) return symbols;
  return execFileSync(filter, [], { input: symbols.join('\n'), encoding: 'utf8' })
    .trimEnd()
    .split('\n');
}

/** `wideKernel<3, 1>` of `void warpconv::cuda::(anonymous namespace)::wideKernel<3, 1>(warpconv::cuda::Call)` */
function shortened(name) {
  const plain = name.replaceAll('(anonymous namespace)::', '').replaceAll(/\([\w:]+\)(?=\d)/g, '');
  return /([^\s:<(]+(<[^(]*>)?)\(/.exec(plain)?.[1] ?? plain;
}

/** Families have a namespace of their own, or none; nvcc then puts the name of the file into that of its kernels. */
function familyOf(symbol, name) {
  const namespace = /warpconv::cuda::(\w+)::/.exec(name)?.[1];
  if (namespace !== undefined) return namespace;
  const file = /_GLOBAL__N__[0-9a-f]+_\d+_(\w+)_cu_[0-9a-f]+/.exec(symbol)?.[1];
  const source = readdirSync(path.join(ROOT, 'cuda'), { recursive: true }).find(
    (found) => path.basename(found) === `${file}.cu`,
  );
  return source === undefined ? 'others' : source.split(path.sep)[0];
}

/** One sentence for each kernel that keeps in memory what belongs into registers. */
export function complaints(kernels) {
  return kernels
    .filter(({ stack, local }) => !(stack === 0 && local === 0))
    .map(
      ({ architecture, family, name, stack, local }) =>
        `${family}: ${name} for ${architecture} has ${stack} bytes of stack and ${local} of local memory a thread`,
    );
}

/** Bytes of code by architecture, before compression. */
export function codeSizes(tool, binary) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-kernels-'));
  try {
    execFileSync(tool, ['--extract-elf', 'all', path.resolve(binary)], { cwd: folder, stdio: 'pipe' });
    const sizes = {};
    for (const file of readdirSync(folder)) {
      const architecture = /\.(sm_\w+)\.cubin$/.exec(file)[1];
      sizes[architecture] = (sizes[architecture] ?? 0) + statSync(path.join(folder, file)).size;
    }
    return sizes;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

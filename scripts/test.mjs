/**
 * Runs every check and ends with one line, `N passed, N failed, N skipped`: lint, types, the native tests under
 * sanitizers, and Jest. With arguments it runs Jest alone and passes them on.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

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

function show(title, [program, ...args], options = {}) {
  console.log(`\n── ${title}`);
  return run(program, args, { cwd: ROOT, echo: true, ...options });
}

/** A check that passes or fails as a whole. */
async function check(title, command) {
  const { ok } = await show(title, command);
  return ok ? PASSED : FAILED;
}

/** Counts of a runner that tells its own; one that ends badly without a failed test has crashed. */
const unlessCrashed = (ok, counts) => (ok || counts.failed > 0 ? counts : { ...counts, failed: 1 });

/** @param {'address' | 'thread'} sanitizer - address includes undefined behaviour */
async function nativeTests(sanitizer) {
  const build = path.join(BUILDS, sanitizer);
  const definitions = {
    WARPCONV_ADDON: 'OFF',
    WARPCONV_TESTS: 'ON',
    WARPCONV_SANITIZE: sanitizer,
    CMAKE_BUILD_TYPE: 'RelWithDebInfo',
  };
  const configure = [
    '-S',
    '.',
    '-B',
    build,
    ...Object.entries(definitions).map(([key, value]) => `-D${key}=${value}`),
  ];
  const compile = ['--build', build, '--parallel', String(os.availableParallelism())];
  for (const [stage, args] of Object.entries({ configure, compile })) {
    const { ok, output } = await show(`native tests, ${sanitizer} sanitizer: ${stage}`, ['cmake', ...args]);
    if (ok) continue;
    if (/(cannot find|library not found|no such file).*([atu]|ub)san/i.test(output)) {
      console.log(`The compiler's sanitizers are missing. To do: ${installCommand(['sanitizers'])}`);
    }
    return FAILED;
  }
  const command = [...(await withoutAddressRandomisation()), path.join(build, 'warpconv_native_tests')];
  const env = { ...process.env, UBSAN_OPTIONS: 'print_stacktrace=1' };
  const { ok, output } = await show(`native tests, ${sanitizer} sanitizer`, command, { env });
  return unlessCrashed(ok, doctestCounts(output));
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

async function jest(args) {
  mkdirSync(BUILDS, { recursive: true });
  const report = path.join(BUILDS, 'jest.json');
  rmSync(report, { force: true });
  const command = [...bin('jest/bin/jest.js'), '--ci', '--json', `--outputFile=${report}`, ...args];
  const { ok } = await show('Jest', command);
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

async function everything() {
  return [
    await check('lint', [...bin('eslint/bin/eslint.js'), '.']),
    await check('format', [...bin('prettier/bin/prettier.cjs'), '--check', '.']),
    await check('types', [...bin('typescript/bin/tsc'), '-p', '.']),
    await nativeTests('address'),
    await nativeTests('thread'),
    await jest([]),
  ];
}

const args = process.argv.slice(2);
const counts = args.length > 0 ? [await jest(args)] : await everything();
const total = (key) => counts.reduce((sum, count) => sum + count[key], 0);
console.log(`\n${total('passed')} passed, ${total('failed')} failed, ${total('skipped')} skipped`);
process.exitCode = total('failed') === 0 && total('passed') > 0 ? 0 : 1;

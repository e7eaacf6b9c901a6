/**
 * `npx warpconv build`, in the tarball that is published. cmake configures as it would, and the compiling is left out: the
 * binary that this clone has takes its place, unless WARPCONV_PACKAGE_BUILD=1 asks for the real thing, which takes minutes.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(__dirname, '../..');
const UNPACKED_BUDGET_MB = 5;
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  version: string;
  dependencies: object;
  peerDependencies: object;
};

const scratch = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'warpconv-build-')));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const modules = path.join(scratch, 'project/node_modules');
const installed = path.join(modules, 'warpconv');
const cache = path.join(scratch, 'cache');
const tools = path.join(scratch, 'tools');
for (const folder of [modules, tools]) mkdirSync(folder, { recursive: true });

function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
  const options = { cwd: path.dirname(modules), encoding: 'utf8', env } as const;
  return spawnSync(program, args, options);
}

/** The command with these tools before or in place of others. */
function build(PATH: string, ...args: string[]) {
  const env = { ...process.env, PATH, CUDACXX: '', WARPCONV_CACHE_DIR: cache };
  return run(process.execPath, [path.join(installed, 'dist/cli.js'), 'build', ...args], env);
}

const WITH_TOOLS = `${tools}${path.delimiter}${process.env.PATH}`;

const fileOf = (program: string) => run('which', [program]).stdout.trim();

/** The binary that a convolution runs with. */
function loaded(): string {
  const program = "Object.keys(require.cache).find((file) => file.endsWith('.node'))";
  const env = { ...process.env, WARPCONV_CACHE_DIR: cache, WARPCONV_NO_CPU_WARNING: '1' };
  const { status, stdout, stderr } = run(process.execPath, ['require.cjs'], env);
  expect([status, stdout, stderr]).toEqual([0, '', '']);
  return run(process.execPath, ['-p', `require('warpconv'); ${program}`], env).stdout.trim();
}

beforeAll(() => {
  const out = path.join(scratch, 'packages');
  const packages = run(process.execPath, [path.join(ROOT, 'scripts/packages.mjs'), '--out', out]);
  if (packages.status !== 0) throw new Error(packages.stdout + packages.stderr);
  run('tar', ['-xzf', path.join(out, `warpconv-${manifest.version}.tgz`), '-C', modules]);
  run('mv', [path.join(modules, 'package'), installed]);
  for (const name of readdirSync(path.join(ROOT, 'node_modules'))) {
    const isNeeded =
      name in manifest.dependencies || name in manifest.peerDependencies || name === '@bufbuild';
    if (isNeeded) symlinkSync(path.join(ROOT, 'node_modules', name), path.join(modules, name));
  }
  copyFileSync(path.join(__dirname, 'consumer/require.cjs'), path.join(scratch, 'project/require.cjs'));

  const cmake = fileOf('cmake');
  const compiled = path.join(ROOT, 'build/Release/warpconv.node');
  const stub = `#!/bin/sh\n[ "$1" = --build ] || exec ${cmake} "$@"\nmkdir -p "$2/out" && cp ${compiled} "$2/out"\n`;
  if (!process.env.WARPCONV_PACKAGE_BUILD) writeFileSync(path.join(tools, 'cmake'), stub, { mode: 0o755 });
});

test('the tarball is small, and has nothing that cannot be used', () => {
  const files = readdirSync(installed, { recursive: true }).map(String);
  const bytes = Number(run('du', ['-sb', installed]).stdout.split('\t')[0]);
  expect(bytes / 1e6).toBeLessThan(UNPACKED_BUDGET_MB);
  expect(files.filter((file) => /\.(map|png|node)$|^(lib|test|bench|prebuilds|build)\b/.test(file))).toEqual(
    [],
  );
});

test('it names what is missing', () => {
  const empty = path.join(scratch, 'empty');
  mkdirSync(empty);
  const { status, stderr } = build(empty);
  expect([status, stderr]).toEqual([
    1,
    expect.stringMatching(/missing: a C\+\+20 compiler, cmake 3\.22 or later, make/),
  ]);
  expect(existsSync(path.join(installed, 'build'))).toBe(false);
});

test('it names nvcc where code for GPUs is asked for', () => {
  const folder = path.join(scratch, 'without nvcc');
  mkdirSync(folder);
  for (const name of ['c++', 'cmake', 'make']) symlinkSync(fileOf(name), path.join(folder, name));
  const { status, stderr } = build(folder, '--cuda');
  expect([status, stderr]).toEqual([1, expect.stringMatching(/there is no nvcc on the PATH/)]);
});

test.each([
  [['--cpu', '--cuda'], /exclude each other/],
  [['--jobs', '0'], /--jobs takes a number/],
])('%j is refused', (args, complaint) => {
  const { status, stderr } = build(WITH_TOOLS, ...args);
  expect([status, stderr]).toEqual([2, expect.stringMatching(complaint)]);
});

test('it is refused in a clone, which has a build of its own', () => {
  const { status, stderr } = run(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'build']);
  expect([status, stderr]).toEqual([1, expect.stringMatching(/is a clone of the repository/)]);
});

test('what it builds is loaded, and leaves nothing else behind', () => {
  const { status, stdout, stderr } = build(WITH_TOOLS, '--cpu');
  expect([status, stderr]).toEqual([0, expect.stringMatching(/building for CPU/)]);
  const binary = path.join(installed, 'build/Release/warpconv.node');
  expect(stdout).toContain(binary);
  expect(loaded()).toBe(binary);
  expect(readdirSync(path.join(installed, 'build'))).toEqual(['Release']);
}, 900_000);

test('where the package cannot be written, it goes into the cache of the user', () => {
  rmSync(path.join(installed, 'build'), { recursive: true, force: true });
  symlinkSync(path.join(scratch, 'nowhere/build'), path.join(installed, 'build'));
  // It has been configured above.
  const cmake = path.join(tools, 'cmake');
  const quick = `#!/bin/sh\n[ "$1" = -S ] || exec ${path.join(tools, 'real')} "$@"\n`;
  if (existsSync(cmake)) {
    copyFileSync(cmake, path.join(tools, 'real'));
    writeFileSync(cmake, quick);
    chmodSync(cmake, 0o755);
  }
  const { status, stderr } = build(WITH_TOOLS, '--cpu');
  expect([status, stderr]).toEqual([0, expect.stringMatching(/building for CPU/)]);
  expect(loaded()).toMatch(new RegExp(`^${cache}/build-${manifest.version}-.*/Release/warpconv\\.node$`));
}, 900_000);

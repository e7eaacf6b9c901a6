/** scripts/publish.mjs, with an npm that notes what it is asked for. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');
const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
const TARGETS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64',
];
const TARBALLS = [...TARGETS.map((target) => `warpconv-${target}-${version}.tgz`), `warpconv-${version}.tgz`];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-publish-'));
  mkdirSync(path.join(folder, 'packages'));
  for (const name of TARBALLS) writeFileSync(path.join(folder, 'packages', name), '');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** @param npm - a script of the shell that answers for npm */
function publish(npm: string): { status: number | null; output: string; published: string[] } {
  const log = path.join(folder, 'log');
  const program = path.join(folder, 'npm');
  writeFileSync(program, `#!/bin/sh\n[ "$1" = publish ] && echo "$@" >> ${log}\n${npm}\n`);
  chmodSync(program, 0o755);
  const script = path.join(ROOT, 'scripts/publish.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, 'packages', '--provenance'], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: `${folder}${path.delimiter}${process.env.PATH}` },
  });
  const published = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { status, output: stdout + stderr, published };
}

const called = (tarball: string) =>
  `publish ${path.join(folder, 'packages', tarball)} --access public --provenance`;

test('publishes binaries first, and what asks for them last', () => {
  const { status, published } = publish(
    '[ "$1" = view ] && { echo "npm error code E404" >&2; exit 1; }; exit 0',
  );
  expect(status).toBe(0);
  expect(published).toEqual(TARBALLS.map(called));
});

test('finishes what was begun', () => {
  // A package that is there without this version is told of by silence.
  const { status, output, published } = publish(
    `case "$1 $2" in "view @warpconv/linux-x64"*) echo '"${version}"' ;; esac`,
  );
  expect(status).toBe(0);
  expect(output).toContain(`@warpconv/linux-x64-gnu@${version} is published already`);
  expect(published).toEqual(TARBALLS.filter((name) => !name.includes('linux-x64')).map(called));
});

test('stops where npm takes a package not, before what asks for it', () => {
  const { status, output, published } = publish('case "$*" in publish*win32*) exit 1 ;; esac');
  expect(status).toBe(1);
  expect(output).toContain('@warpconv/win32-x64 was not published');
  expect(published).toHaveLength(TARGETS.length);
});

test('publishes nothing where npm does not answer, or a tarball is missing', () => {
  expect(publish('echo "npm error code ETIMEDOUT" >&2; exit 1')).toMatchObject({ status: 1, published: [] });
  rmSync(path.join(folder, 'packages', TARBALLS[2]!));
  const { status, output, published } = publish('exit 0');
  expect({ status, published }).toEqual({ status: 1, published: [] });
  expect(output).toContain(`there is no ${path.join(folder, 'packages', TARBALLS[2]!)}`);
});

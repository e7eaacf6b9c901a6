/**
 * Installs the tarballs of warpconv and of this platform's binary in an empty folder, and runs a program there that uses
 * them. It needs npm and its registry, for what warpconv depends on, and nothing that a clone is developed with.
 *
 *     node scripts/smoke.mjs FOLDER
 */
import { execFileSync, execSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { ROOT } from './root.mjs';
import { packageName } from './targets.mjs';

const PROGRAMS = ['require.cjs', 'import.mjs'];

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: node scripts/smoke.mjs FOLDER');
  process.exit(2);
}

const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
const { glibcVersionRuntime } = process.report.getReport().header;
const libc = process.platform === 'linux' ? [glibcVersionRuntime === undefined ? 'musl' : 'gnu'] : [];
const target = [process.platform, process.arch, ...libc].join('-');
const tarballs = ['warpconv', `warpconv-${target}`].map((name) =>
  path.resolve(folder, `${name}-${version}.tgz`),
);

const project = mkdtempSync(path.join(os.tmpdir(), 'warpconv-smoke-'));
try {
  writeFileSync(path.join(project, 'package.json'), '{ "private": true }');
  // By the shell: npm is a script on Windows.
  const run = (command) => execSync(command, { cwd: project, encoding: 'utf8' });
  run(`npm install --no-audit --no-fund --ignore-scripts ${tarballs.map((file) => `"${file}"`).join(' ')}`);
  for (const program of PROGRAMS) {
    cpSync(path.join(ROOT, 'test/package/consumer', program), path.join(project, program));
    execFileSync(process.execPath, [program], { cwd: project, stdio: 'inherit' });
  }
  const report = run('npx --no-install warpconv doctor');
  console.log(report);
  if (!report.includes(packageName(target)))
    throw new Error(`the binary is not that of ${packageName(target)}`);
} finally {
  rmSync(project, { recursive: true });
}

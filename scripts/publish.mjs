/**
 * Publishes the tarballs that scripts/packages.mjs has made: those with binaries first, and warpconv, which asks for them,
 * last. What npm has already is passed over: a half-finished release is finished by running this again.
 *
 *     node scripts/publish.mjs FOLDER [OPTION OF npm publish ...]
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from './root.mjs';
import { packageName, TARGETS } from './targets.mjs';

const [folder, ...options] = process.argv.slice(2);
const { name: main, version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
const packages = [...Object.keys(TARGETS).map(packageName), main].map((name) => ({
  name,
  tarball: path.resolve(folder ?? '', `${name.replace('@', '').replace('/', '-')}-${version}.tgz`),
}));

function fail(message) {
  console.error(`publish: ${message}`);
  process.exit(1);
}

function npm(args, stdio) {
  return spawnSync('npm', args, { encoding: 'utf8', stdio });
}

function isPublished(name) {
  const { status, stdout, stderr } = npm(['view', `${name}@${version}`, 'version', '--json'], 'pipe');
  // npm tells of a version that is not there by saying nothing, and of a package that is not there by E404.
  if (status === 0) return stdout.trim() !== '';
  if (/\bE404\b/.test(stdout + stderr)) return false;
  return fail(`cannot ask npm for ${name}: ${stderr}`);
}

if (folder === undefined) fail('usage: node scripts/publish.mjs FOLDER [OPTION OF npm publish ...]');
const missing = packages.filter(({ tarball }) => !existsSync(tarball)).map(({ tarball }) => tarball);
if (missing.length > 0) fail(`nothing is published, since there is no ${missing.join(', ')}`);

// Who installs warpconv without saying which gets no version before its release.
const tag = version.includes('-') ? ['--tag', 'next'] : [];
for (const { name, tarball } of packages) {
  if (isPublished(name)) {
    console.log(`${name}@${version} is published already`);
    continue;
  }
  const { status } = npm(['publish', tarball, '--access', 'public', ...tag, ...options], 'inherit');
  if (status !== 0) fail(`${name} was not published; run this again when that is mended`);
}

#!/usr/bin/env node
/**
 * Makes the tarballs that are published: warpconv, which has no binary and no script, and beside it one for each platform,
 * which npm installs where it fits.
 *
 *     node scripts/packages.mjs [--out build-packages] [--allow-no-cuda] [TARGET=BINARY ...]
 *     node scripts/packages.mjs linux-x64-gnu=build-prebuild/build/Release/warpconv.node
 *
 * Refuses a binary that would not load where its package is installed, has no code for GPUs though it should, or is larger
 * than its budget. dist/ has to be there (`npm run build`).
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { ROOT } from './root.mjs';
import { packageName, TARGETS } from './targets.mjs';

/** The glibc of the oldest systems that Node.js runs on; cmake/glibc_floor.cmake. */
const OLDEST_GLIBC = '2.28';

const inRoot = (file) => path.join(ROOT, file);
const manifest = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));

/** What of the clone's manifest is of no use to who installs the package. */
const { scripts: _scripts, devDependencies: _tools, files: _files, binary: _binary, ...published } = manifest;
/** What a program uses, and a reader of the package's page. */
const CONTENTS = ['dist', 'docs', 'examples', 'CHANGELOG.md', 'LICENSE', 'README.md'];

/** @returns {string[]} what is wrong with a binary */
function complaints(target, file, allowNoCuda) {
  const { libc, hasCuda, megabytes } = TARGETS[target];
  const said = [];
  const size = statSync(file).size / 1e6;
  if (size > megabytes) said.push(`has ${size.toFixed(1)} MB; its budget is ${megabytes}`);
  if (libc !== undefined) {
    const read = execFileSync('readelf', ['-SW', '--dyn-syms', file], {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    const newer = [...read.matchAll(/\bUND (\S+@GLIBC_(\S+))/g)].filter(
      ([, , version]) => libc === 'musl' || version.localeCompare(OLDEST_GLIBC, 'en', { numeric: true }) > 0,
    );
    if (newer.length > 0) said.push(`needs ${newer.map(([, symbol]) => symbol).join(', ')}`);
    if (hasCuda && !allowNoCuda && !read.includes('.nv_fatbin')) said.push('has no code for GPUs');
  }
  return said;
}

/** Writes a folder with that manifest and packs it. @returns {{ filename: string, size: number, unpackedSize: number }} */
function pack(out, folder, content) {
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(content, null, 2)}\n`);
  const args = ['pack', folder, '--json', '--ignore-scripts', '--pack-destination', out];
  return JSON.parse(execFileSync('npm', args, { encoding: 'utf8' }))[0];
}

function stage(out, name, copies) {
  const folder = path.join(out, name);
  mkdirSync(folder, { recursive: true });
  for (const [from, to] of copies)
    cpSync(from, path.join(folder, to), { recursive: true, dereference: true });
  return folder;
}

function packMain(out) {
  const folder = stage(
    out,
    manifest.name,
    CONTENTS.map((name) => [inRoot(name), name]),
  );
  rmSync(path.join(folder, 'docs/api'), { recursive: true, force: true });
  const optionalDependencies = Object.fromEntries(
    Object.keys(TARGETS).map((target) => [packageName(target), manifest.version]),
  );
  return pack(out, folder, { ...published, files: CONTENTS, optionalDependencies });
}

function packBinary(out, target, file) {
  const folder = stage(out, packageName(target), [
    [file, 'warpconv.node'],
    [inRoot('LICENSE'), 'LICENSE'],
  ]);
  const { os, cpu, libc } = TARGETS[target];
  const { version, license, engines, repository, homepage, bugs, author } = manifest;
  const place = [os, cpu, libc].filter((part) => part !== undefined).join(', ');
  writeFileSync(
    path.join(folder, 'README.md'),
    `# ${packageName(target)}\n\nThe binary of warpconv for ${place}. npm installs it with warpconv.\n`,
  );
  return pack(out, folder, {
    name: packageName(target),
    version,
    description: `The binary of warpconv for ${place}`,
    ...{ license, author, repository, homepage, bugs, engines },
    main: 'warpconv.node',
    files: ['warpconv.node'],
    ...{ os: [os], cpu: [cpu], libc: libc && [libc] },
  });
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: inRoot('build-packages') },
    'allow-no-cuda': { type: 'boolean', default: false },
  },
});
const out = path.resolve(values.out);
const binaries = positionals.map((argument) => {
  const [, target, file] = /^([^=]+)=(.+)$/.exec(argument) ?? [];
  if (target in TARGETS) return { target, file };
  console.error(
    `packages: expected TARGET=BINARY with a target of ${Object.keys(TARGETS).join(', ')}; got '${argument}'`,
  );
  process.exit(2);
});
const wrong = binaries.flatMap(({ target, file }) =>
  complaints(target, file, values['allow-no-cuda']).map((complaint) => `${file} for ${target} ${complaint}`),
);
if (wrong.length > 0) {
  console.error(wrong.join('\n'));
  process.exit(1);
}
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const made of [packMain(out), ...binaries.map(({ target, file }) => packBinary(out, target, file))]) {
  const [packed, unpacked] = [made.size, made.unpackedSize].map((bytes) => (bytes / 1e6).toFixed(2));
  console.log(`${made.filename}: ${packed} MB, unpacked ${unpacked} MB`);
}

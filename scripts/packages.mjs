#!/usr/bin/env node
/**
 * Makes the tarballs that are published: warpconv, which has no binary and no script, and beside it one for each platform,
 * which npm installs where it fits.
 *
 *     node scripts/packages.mjs [--out FOLDER] [--allow-no-cuda] [TARGET=BINARY ...]
 *     node scripts/packages.mjs linux-x64-gnu=prebuilds/linux-x64/warpconv.glibc.node
 *
 * FOLDER is new or empty, build-packages/ is made anew. Refuses a binary that would not load where its package is
 * installed, has no code for GPUs though it should, or is larger than its budget. dist/ has to be there (`npm run build`).
 */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { copyHeaders } from './headers.mjs';
import { ROOT } from './root.mjs';
import { OLDEST_GLIBC, packageName, TARGETS } from './targets.mjs';

const inRoot = (file) => path.join(ROOT, file);
const manifest = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));

/** What of the clone's manifest is of no use to who installs the package. */
const { scripts: _scripts, devDependencies: _tools, files: _files, binary: _binary, ...published } = manifest;

/** What binaries for a system and a processor begin with, at a byte of the file. */
const FORMATS = {
  'darwin-arm64': [0, [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1]],
  'darwin-x64': [0, [0xcf, 0xfa, 0xed, 0xfe, 0x07, 0, 0, 1]],
  'linux-arm64': [18, [183, 0]],
  'linux-x64': [18, [62, 0]],
  'win32-x64': [0, [0x4d, 0x5a]],
};
const ELF = [0, [0x7f, 0x45, 0x4c, 0x46]];

/** @returns {string[]} what is wrong with a binary */
function complaints(target, file, allowNoCuda) {
  const { os, cpu, libc, hasCuda, megabytes } = TARGETS[target];
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return ['is no file'];
  const bytes = readFileSync(file);
  const has = ([offset, format]) => format.every((byte, i) => bytes[offset + i] === byte);
  if (!has(FORMATS[`${os}-${cpu}`]) || (os === 'linux' && !has(ELF)))
    return [`is no binary for ${os} on ${cpu}`];
  const said = [];
  const size = bytes.length / 1e6;
  if (size > megabytes) said.push(`has ${size.toFixed(1)} MB; its budget is ${megabytes}`);
  if (libc === undefined) return said;
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28 };
  const read = execFileSync('readelf', ['-SW', '--dyn-syms', file], options);
  const newer = [...read.matchAll(/\bUND (\S+@GLIBC_(\S+))/g)].filter(
    ([, , version]) => libc === 'musl' || version.localeCompare(OLDEST_GLIBC, 'en', { numeric: true }) > 0,
  );
  if (newer.length > 0) said.push(`needs ${newer.map(([, symbol]) => symbol).join(', ')}`);
  if (hasCuda && !allowNoCuda && !read.includes('.nv_fatbin')) said.push('has no code for GPUs');
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
  copyHeaders();
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const [{ files }] = JSON.parse(execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' }));
  // Binaries have packages of their own.
  const contents = files.map(({ path }) => path).filter((name) => !name.startsWith('prebuilds/'));
  const folder = stage(
    out,
    manifest.name,
    contents.map((name) => [inRoot(name), name]),
  );
  const optionalDependencies = Object.fromEntries(
    Object.keys(TARGETS).map((target) => [packageName(target), manifest.version]),
  );
  return pack(out, folder, { ...published, optionalDependencies });
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

function fail(...complaints) {
  console.error(complaints.map((complaint) => `packages: ${complaint}`).join('\n'));
  process.exit(1);
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: { out: { type: 'string' }, 'allow-no-cuda': { type: 'boolean', default: false } },
    });
  } catch (error) {
    return fail(error.message);
  }
}

function readBinary(argument) {
  const [, target, file] = /^([^=]+)=(.+)$/.exec(argument) ?? [];
  if (Object.hasOwn(TARGETS, target ?? '')) return { target, file: path.resolve(file) };
  return fail(
    `expected TARGET=BINARY with a target of ${Object.keys(TARGETS).join(', ')}; got '${argument}'`,
  );
}

const { values, positionals } = readArguments();
const binaries = positionals.map(readBinary);
const wrong = binaries.flatMap(({ target, file }) =>
  complaints(target, file, values['allow-no-cuda']).map((complaint) => `${file} for ${target} ${complaint}`),
);
if (new Set(binaries.map(({ target }) => target)).size < binaries.length)
  wrong.push('a target is given twice');
if (!existsSync(inRoot('dist/index.js'))) wrong.push('there is no dist/; npm run build makes it');
// Nothing that somebody else has put somewhere is removed.
const own = inRoot('build-packages');
const out = path.resolve(values.out ?? own);
if (out !== own && existsSync(out) && readdirSync(out).length > 0) wrong.push(`${out} is not empty`);
if (binaries.some(({ file }) => file.startsWith(own + path.sep)))
  wrong.push(`${own} is made anew; move the binary elsewhere`);
if (wrong.length > 0) fail(...wrong);
if (out === own) rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const made of [packMain(out), ...binaries.map(({ target, file }) => packBinary(out, target, file))]) {
  const [packed, unpacked] = [made.size, made.unpackedSize].map((bytes) => (bytes / 1e6).toFixed(2));
  console.log(`${made.filename}: ${packed} MB, unpacked ${unpacked} MB`);
}

#!/usr/bin/env node
/**
 * Lets prebuildify, which knows only node-gyp, build with cmake-js.
 *
 * prebuildify calls `<this> rebuild --target=<node> --devdir=… --arch=<arch> --release` in a folder of its own and takes
 * the binary from `build/Release` there. The compiler runs in that folder itself, as deep as build/ is, so that a cache of
 * its results serves both. `--target` means something else to cmake-js, and Node-API needs neither of
 * the others.
 */
'use strict';
const { spawnSync } = require('node:child_process');
const { cpSync } = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  strict: false,
  options: { arch: { type: 'string', default: process.arch } },
});
if (positionals.join() !== 'rebuild') {
  console.error(`cmake-gyp: expected the command 'rebuild', got '${positionals.join(' ')}'`);
  process.exit(2);
}

const root = path.resolve(__dirname, '..');
const { status } = spawnSync(
  process.execPath,
  [
    path.join(root, 'node_modules/cmake-js/bin/cmake-js'),
    'compile',
    ...['--config', 'Release', '--arch', values.arch],
    ...['--directory', root, '--out', process.cwd()],
  ],
  { stdio: 'inherit' },
);
if (status === 0) cpSync('Release', 'build/Release', { recursive: true });
process.exit(status ?? 1);

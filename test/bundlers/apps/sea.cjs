'use strict';
// Of one executable file: the binary is an asset of it, and loads from a folder of its own.
const { mkdtempSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { getRawAsset } = require('node:sea');

const folder = mkdtempSync(path.join(os.tmpdir(), 'app-'));
writeFileSync(path.join(folder, 'warpconv.node'), new Uint8Array(getRawAsset('warpconv.node')));
process.env.WARPCONV_PREBUILD = folder;
require('./app.cjs');

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import * as esm from 'warpconv/serve';

const require = createRequire(import.meta.url);
for (const [name, value] of Object.entries(require('warpconv/serve'))) assert.equal(esm[name], value, name);
assert.throws(() => esm.createHandler({ models: {} }), { code: 'ERR_WARPCONV_INVALID_ARGUMENT' });

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import * as esm from 'warpconv/serve';
import { servePlugin } from 'warpconv/serve/fastify';

// The plugin needs no more of Fastify than its types: an application that registers it has Fastify itself.
const require = createRequire(import.meta.url);
for (const [name, value] of Object.entries(require('warpconv/serve'))) assert.equal(esm[name], value, name);
assert.equal(require('warpconv/serve/fastify').servePlugin, servePlugin);
assert.throws(() => esm.createHandler({ models: {} }), { code: 'ERR_WARPCONV_INVALID_ARGUMENT' });

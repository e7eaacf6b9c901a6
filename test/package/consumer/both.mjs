import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import * as esm from 'warpconv';

const cjs = createRequire(import.meta.url)('warpconv');
assert.equal(esm.default, cjs);
for (const [name, value] of Object.entries(cjs)) assert.equal(esm[name], value, name);

// One library: what one entry made, the other takes and counts.
const ones = new esm.Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
const plan = await cjs.Conv2d.create(ones, { inputDims: [1, 1, 3, 3], padding: 1 });
assert.equal(esm.memory().plans, 1);
const output = await esm.Conv2d.prototype.run.call(plan, ones);
assert.ok(output instanceof cjs.Tensor);
assert.deepEqual([...output.data], [4, 6, 4, 6, 9, 6, 4, 6, 4]);
plan.dispose();

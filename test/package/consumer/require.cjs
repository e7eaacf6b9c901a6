'use strict';
const assert = require('node:assert/strict');
const { Conv2d, Tensor, conv2d, conv2dSync, devices, memory } = require('warpconv');

async function main() {
  const ones = new Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
  const expected = [4, 6, 4, 6, 9, 6, 4, 6, 4];
  assert.deepEqual([...(await conv2d(ones, ones, { padding: 1 })).data], expected);
  assert.deepEqual([...conv2dSync(ones, ones, { padding: 1 }).data], expected);

  const plan = await Conv2d.create(ones, { inputDims: [1, 1, 3, 3], padding: 1 });
  assert.deepEqual([...(await plan.run(ones)).data], expected);
  plan.dispose();

  await assert.rejects(conv2d(ones, ones, { paddign: 1 }), { code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  assert.ok(devices().length > 0);
  assert.equal(memory().plans, 0);
}

void main();

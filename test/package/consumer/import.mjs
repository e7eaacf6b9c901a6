import assert from 'node:assert/strict';
import warpconv, { Tensor, conv2d } from 'warpconv';

const ones = new Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
const output = await conv2d(ones, ones, { padding: 1 });
assert.equal(warpconv.Tensor, Tensor);
assert.deepEqual([...output.data], [4, 6, 4, 6, 9, 6, 4, 6, 4]);

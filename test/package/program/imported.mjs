import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import ort, { InferenceSession, Tensor } from 'onnxruntime-node';
import * as namespace from 'onnxruntime-node';

const require = createRequire(import.meta.url);
assert.equal(ort.InferenceSession, InferenceSession);
assert.equal(namespace.Tensor, Tensor);
assert.equal(require('onnxruntime-node'), ort);
const { buffer, byteOffset, length } = require('./model.cjs');
const session = await InferenceSession.create(buffer, byteOffset, length, {
  executionProviders: [{ name: 'cpu' }],
});
const { y } = await session.run({ x: new Tensor('float32', [5, 6], [1, 2]) });
assert.deepEqual([...(await y.getData())], [56]);
await session.release();

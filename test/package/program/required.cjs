'use strict';
const assert = require('node:assert/strict');
const ort = require('onnxruntime-node');
const model = require('./model.cjs');

async function main() {
  assert.equal(require('onnxruntime-node/package.json').name, 'warpconv');
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
  });
  assert.deepEqual([session.inputNames, session.outputNames], [['x'], ['y']]);
  assert.deepEqual(
    { ...session.inputMetadata[0] },
    { name: 'x', isTensor: true, type: 'float32', shape: ['N', 2] },
  );
  const x = new ort.Tensor('float32', Float32Array.from([1, 2, 3, 4]), [2, 2]);
  const { y } = await session.run({ x });
  assert.ok(y instanceof ort.Tensor);
  assert.deepEqual([y.type, [...y.dims], [...y.data]], ['float32', [2, 1], [12, 34]]);
  assert.deepEqual([...(await session.run({ x }, ['y'])).y.data], [12, 34]);
  await session.release();
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  assert.equal(typeof ort.env.versions.common, 'string');
  assert.ok(ort.listSupportedBackends().some(({ name }) => name === 'cpu'));
}

void main();

'use strict';
/**
 * Tries the package where it is installed, and writes what it found to result.json: Node.js under Wine has no stdout. A
 * worker thread loads the binary, too, and ends before the main thread does.
 */
const assert = require('node:assert/strict');
const { writeFileSync } = require('node:fs');
const path = require('node:path');
const { Worker, isMainThread } = require('node:worker_threads');

const { InferenceSession, Tensor, conv2d, devices } = require('warpconv');

async function convolve() {
  const ones = new Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
  assert.deepEqual(
    [...(await conv2d(ones, ones, { padding: 1, device: 'cpu' })).data],
    [4, 6, 4, 6, 9, 6, 4, 6, 4],
  );
}

/** A stroke through the middle is a one. */
async function readDigit() {
  const session = await InferenceSession.create(path.join(__dirname, 'digits.onnx'), { device: 'cpu' });
  const { shape } = session.inputMetadata[0];
  const dims = shape.map((size) => (typeof size === 'number' && size > 0 ? size : 1));
  const pixels = new Float32Array(dims.reduce((product, size) => product * size, 1));
  const width = dims.at(-1);
  for (let y = 4; y < width - 4; ++y) pixels[y * width + width / 2] = 1;
  const { probabilities } = await session.run({ image: new Tensor('float32', pixels, dims) });
  const values = [...probabilities.data];
  assert.ok(Math.abs(values.reduce((sum, value) => sum + value, 0) - 1) < 1e-5);
  assert.equal(values.indexOf(Math.max(...values)), 1);
}

async function tryAll() {
  await convolve();
  await readDigit();
  await new Promise((resolve, reject) => {
    new Worker(__filename)
      .on('error', reject)
      .on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${code}`))));
  });
  const { isa } = devices().find(({ type }) => type === 'cpu');
  return { node: process.versions.node, isa };
}

if (isMainThread) {
  const write = (said) => writeFileSync(path.join(__dirname, 'result.json'), JSON.stringify({ said }));
  tryAll().then(write, (error) => write({ error: error.stack }));
} else {
  void convolve();
}

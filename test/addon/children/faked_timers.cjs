// Calls under timers that are faked before the package loads, as test frameworks do: none of them ever fires.
'use strict';
const timers = require('node:timers');
const promises = require('node:timers/promises');

const real = { ...timers };
for (const name of ['setImmediate', 'setTimeout', 'setInterval']) {
  globalThis[name] = timers[name] = () => ({ ref() {}, unref() {}, hasRef: () => false });
  promises[name] = () => new Promise(() => {});
}
const { Conv2d, conv2d, InferenceSession, Tensor, tune } = require('warpconv');
const fs = require('node:fs');
const path = require('node:path');

function ones(dims) {
  return new Tensor(new Float32Array(dims.reduce((a, b) => a * b)).fill(1), dims);
}
const input = ones([1, 16, 28, 28]);
const weight = ones([16, 16, 3, 3]);
const options = { padding: 1, device: 'cpu' };
const signal = () => new AbortController().signal;

const steps = {
  conv2d: () => conv2d(input, weight, { ...options, signal: signal() }),
  'a plan': async () => {
    const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
    const run = plan.run(input, { signal: signal() });
    await plan[Symbol.asyncDispose]();
    await run;
    for (let i = 0; i < 1000; i++) await conv2d(input, weight, options);
  },
  tune: () => tune([{ inputDims: [1, 1, 4, 4], weightDims: [1, 1, 3, 3] }], { device: 'cpu' }),
  'a session': async () => {
    const digits = fs.readFileSync(path.join(__dirname, '../../../examples/digits/digits.onnx'));
    const session = await InferenceSession.create(digits, { device: 'cpu' });
    const feeds = Object.fromEntries(
      session.inputMetadata.map(({ name, shape }) => [
        name,
        ones(shape.map((d) => (typeof d === 'number' ? d : 1))),
      ]),
    );
    await session.run(feeds);
    await session.release();
  },
};

async function main() {
  for (const [name, step] of Object.entries(steps)) {
    const hangs = real.setTimeout(() => {
      console.log(`${name} never settles`);
      process.exit(1);
    }, 30_000);
    await step();
    real.clearTimeout(hangs);
    console.log(`${name} settles`);
  }
}

main();

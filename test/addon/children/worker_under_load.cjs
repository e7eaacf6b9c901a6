// A worker that convolves without pause, in the way that workerData says, until its parent says stop; then it checks
// a few more results and posts whether all were right.
const { once } = require('node:events');
const { setImmediate: nextTurn } = require('node:timers/promises');
const { parentPort, workerData } = require('node:worker_threads');
const { Conv2d, conv2dSync } = require('warpconv');
const { expectedData, operands, sameBits } = require('./layers.cjs');

const CALLS_AFTER_STOP = 3;

async function main() {
  const { seed, layer, calls } = workerData;
  const { input, weight, options } = operands(layer, seed);
  const expected = expectedData(layer, seed);
  const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
  const isRight = ({ data }) => sameBits(data, expected);
  const variants = {
    // Several at a time, so that some are queued while others run; with a signal, so that none runs at once.
    async: async () => {
      const { signal } = new AbortController();
      const runs = [plan.run(input), plan.run(input, { signal }), plan.run(input, { signal })];
      return (await Promise.all(runs)).every(isRight);
    },
    sync: async () => isRight(conv2dSync(input, weight, options)),
  };
  let remaining = Infinity;
  once(parentPort, 'message').then(() => (remaining = CALLS_AFTER_STOP));
  parentPort.postMessage('busy');
  let right = true;
  while (remaining-- > 0) {
    right = (await variants[calls]()) && right;
    await nextTurn();
  }
  plan.dispose();
  parentPort.postMessage({ right });
}

main();

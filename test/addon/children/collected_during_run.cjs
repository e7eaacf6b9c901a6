// Drops every reference to inputs, weights and plans while their calls run, and collects garbage all the while.
// Run with --expose-gc. Prints how many results were right, then how many plans are left.
const { setImmediate: nextTurn } = require('node:timers/promises');
const { Conv2d, conv2d, memory } = require('warpconv');
const { expectedData, operands, sameBits } = require('./layers.cjs');

const CALLS = 6;

function startCall(seed) {
  const { input, weight, options } = operands('slow', seed);
  return conv2d(input, weight, options);
}

async function startRun(seed) {
  const { input, weight, options } = operands('slow', seed);
  const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
  return plan.run(input);
}

async function collectUntil(isDone) {
  while (!isDone()) {
    // Overwrites what was freed, if anything was.
    for (let i = 0; i < 8; i++) new Float32Array(64 * 40 * 40).fill(NaN);
    global.gc();
    await nextTurn();
  }
}

async function main() {
  let settled = false;
  const calls = Array.from({ length: CALLS }, (_, seed) =>
    seed % 2 === 0 ? startCall(seed) : startRun(seed),
  );
  const results = Promise.all(calls).finally(() => (settled = true));
  await collectUntil(() => settled);
  const right = (await results).filter(({ data }, seed) => sameBits(data, expectedData('slow', seed)));
  console.log(`${right.length} of ${CALLS} right`);
  // Nobody disposed the plans: the collector gives back what they held.
  await collectUntil(() => memory().plans === 0 && memory().cpu === 0);
  console.log('no plans left');
}

main();

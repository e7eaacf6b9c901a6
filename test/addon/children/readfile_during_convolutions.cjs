// Reads eight files while sixteen convolutions are under way, and prints whether eight of those were still pending
// when the last file had been read. Run with UV_THREADPOOL_SIZE=1, on whose one thread files would have to queue
// behind convolutions if these ran there.
const { readFile } = require('node:fs/promises');
const { conv2d } = require('warpconv');
const { operands } = require('./layers.cjs');

const CALLS = 16;

async function main() {
  const { input, weight, options } = operands('slow', 1);
  let pending = CALLS;
  for (let call = 0; call < CALLS; call++) conv2d(input, weight, options).finally(() => pending--);
  await Promise.all(Array.from({ length: 8 }, () => readFile(__filename)));
  console.log(pending >= 8 ? 'pending' : `only ${pending} pending`);
  process.exit();
}

main();

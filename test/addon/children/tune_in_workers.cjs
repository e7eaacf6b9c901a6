// Workers that tune the same problem and one of their own, beside one that is terminated while it measures. Prints what became
// of each, and what native memory is in use when all have gone.
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { memory, tune } = require('warpconv');
const { tuneOne } = require('./tuning.cjs');

const SHARED = 100;

async function work() {
  if (workerData === 'endless') {
    parentPort.postMessage('busy');
    // Each takes a good part of a second.
    for (let extent = 200; ; extent++) {
      const problem = { inputDims: [1, 64, extent, 200], weightDims: [64, 64, 3, 3] };
      await tune([problem], { device: 'cpu' });
    }
  }
  const both = await Promise.all([SHARED, SHARED + workerData].map(tuneOne));
  parentPort.postMessage(both.every(({ right }) => right) ? 'right' : 'wrong');
}

async function main() {
  const start = (data) => new Worker(__filename, { workerData: data });
  const endless = start('endless');
  await once(endless, 'message');
  const others = await Promise.all([1, 2, 3].map(async (own) => (await once(start(own), 'message'))[0]));
  console.log(`terminated ${await endless.terminate()}, others ${others.join(', ')}`);
  console.log(`${memory().cpu} bytes left`);
}

if (isMainThread) main();
else work();

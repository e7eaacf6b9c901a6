const { once } = require('node:events');
const path = require('node:path');
const { Worker } = require('node:worker_threads');

/** Four workers under load from a layer of layers.cjs, once each of them is at it. */
async function startWorkers(layer, firstSeed) {
  const workers = ['async', 'sync', 'async', 'sync'].map((calls, index) => {
    const workerData = { seed: firstSeed + index, layer, calls };
    return new Worker(path.join(__dirname, 'worker_under_load.cjs'), { workerData });
  });
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  return workers;
}

module.exports = { startWorkers };

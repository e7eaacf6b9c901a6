// Serves a model that takes its time, on as many threads as an argument says, until SIGTERM. Prints the address, and the metrics at the end.
'use strict';
const { setTimeout } = require('node:timers/promises');
const { serve } = require('../../../dist/serve');

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N'] };
const y = { ...x, name: 'y' };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [y],
  async run(feeds) {
    await setTimeout(300);
    return { y: feeds.x };
  },
};

async function main() {
  const models = { slow: { session, maxBatch: 4 } };
  const { url, handler } = await serve({
    port: 0,
    models,
    threads: Number(process.argv[2]),
    closeOn: ['SIGTERM'],
  });
  process.stdout.write(`${url}\n`);
  process.once('SIGTERM', () => process.stdout.write('terminating\n'));
  process.once('exit', () => process.stdout.write(handler.metrics()));
}

void main();

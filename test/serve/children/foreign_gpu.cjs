// Serves a session of another package, which says that it runs on a GPU, on three threads. Prints the answer to a request.
'use strict';
const { serve } = require('../../../dist/serve');

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N'] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  device: 'cuda:0',
  run: async (feeds) => ({ y: feeds.x }),
};

async function main() {
  const { url, close } = await serve({ port: 0, threads: 3, models: { echo: session } });
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [1], data: [7] }];
  const answer = await fetch(`${url}/v2/models/echo/infer`, {
    ...{ method: 'POST', headers: { 'Content-Type': 'application/json' } },
    body: JSON.stringify({ inputs }),
  });
  process.stdout.write(`${answer.status} ${(await answer.json()).outputs[0].data}\n`);
  await close();
}

void main();

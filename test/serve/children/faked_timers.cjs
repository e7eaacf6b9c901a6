// Serves, drains and closes while the global timers are faked, as test frameworks do, from before the package is loaded.
'use strict';
const http = require('node:http');
for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask'])
  globalThis[name] = () => ({});
for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate']) globalThis[name] = () => {};
const { serve } = require('../../../dist/serve');

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N'] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  run: async (feeds) => ({ y: feeds.x }),
};

function post(url, agent, data) {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [data.length], data }] });
  return new Promise((resolve, reject) => {
    const call = http.request(`${url}/v2/models/echo/infer`, { method: 'POST', agent }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('end', () => resolve(JSON.parse(text).outputs[0].data.length));
    });
    call.on('error', reject).end(body);
  });
}

async function main() {
  const { url, close } = await serve({
    port: 0,
    threads: Number(process.argv[2]),
    models: { echo: { session, maxBatch: 1e6 } },
  });
  const agent = new http.Agent({ keepAlive: true });
  const lengths = Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? 10 : 30_000));
  const answers = await Promise.all(lengths.map((length) => post(url, agent, new Array(length).fill(0.5))));
  // The agent keeps its connections, so that there are idle ones to close.
  await close();
  agent.destroy();
  process.stdout.write(answers.join() === lengths.join() ? 'closed' : answers.join());
}

void main();

'use strict';
const assert = require('node:assert/strict');
const { serve } = require('warpconv/serve');

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N'] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  run: async (feeds) => ({ y: feeds.x }),
};

async function main() {
  const { url, close } = await serve({ port: 0, models: { echo: session } });
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [2], data: [1, 2] }] });
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(`${url}/v2/models/echo/infer`, { method: 'POST', headers, body });
  const { outputs } = await response.json();
  assert.deepEqual(outputs, [{ name: 'y', datatype: 'FP32', shape: [2], data: [1, 2] }]);
  await close();
}

void main();

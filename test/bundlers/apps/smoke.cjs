'use strict';
// By require and by import, in the main thread and in another; the process ends by itself.
const assert = require('node:assert/strict');
const { isMainThread, Worker } = require('node:worker_threads');
const warpconv = require('warpconv');
const check = require('./check.cjs');

async function main() {
  const imported = await import('warpconv');
  assert.equal(imported.Tensor, warpconv.Tensor);
  const result = await check(imported);
  if (!isMainThread) return;
  const code = await new Promise((resolve, reject) =>
    new Worker(__filename).once('error', reject).once('exit', resolve),
  );
  assert.equal(code, 0);
  console.log(result);
}

void main();

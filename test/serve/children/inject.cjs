// Asks a Fastify application that listens nowhere.
'use strict';
const Fastify = require('fastify');
const { servePlugin } = require('../../../dist/serve/fastify');

const x = { name: 'x', isTensor: true, type: 'float32', shape: [2] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  run: async (feeds) => ({ y: feeds.x }),
};

async function main() {
  const app = Fastify();
  await app.register(servePlugin, { models: { echo: session } });
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [2], data: [1, 2] }];
  const url = '/v2/models/echo/infer';
  const good = await app.inject({ method: 'POST', url, payload: { inputs } });
  const answer = { in: inputs[0].data, out: good.json().outputs[0].data };
  const bad = await app.inject({ method: 'POST', url, payload: {} });
  const ready = await app.inject('/v2/health/ready');
  process.stdout.write(`${good.statusCode} ${JSON.stringify(answer)}\n${bad.statusCode}\n`);
  process.stdout.write(`${ready.statusCode} ${ready.body}\n`);
  await app.close();
}

void main();

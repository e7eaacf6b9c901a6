// Serves a model that gives back what it gets, until SIGTERM: by itself, on as many threads as an argument says, or
// inside Fastify.
'use strict';
const { once } = require('node:events');
const { setTimeout } = require('node:timers/promises');
const { serve } = require('../../../dist/serve');

const x = { name: 'x', isTensor: true, type: 'uint8', shape: ['N'] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  async run(feeds) {
    await setTimeout(1);
    return { y: feeds.x };
  },
};
const models = { echo: { session, maxBatch: 8 } };

async function serveByFastify() {
  const { servePlugin } = require('../../../dist/serve/fastify');
  const app = require('fastify')();
  await app.register(servePlugin, { models });
  const url = await app.listen({ port: 0 });
  void once(process, 'SIGTERM').then(() => app.close());
  return url;
}

async function serveAlone() {
  const { url } = await serve({ port: 0, models, threads: Number(process.argv[3]), closeOn: ['SIGTERM'] });
  return url;
}

const start = process.argv[2] === 'fastify' ? serveByFastify : serveAlone;
void start().then((url) => process.stdout.write(`${url}\n`));

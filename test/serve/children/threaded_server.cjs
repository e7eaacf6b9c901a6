// Serves a model that gives back what it gets, read by three threads that its parent may end, in a process of its own.
'use strict';
const { readdirSync } = require('node:fs');
const { setTimeout } = require('node:timers/promises');
const threads = require('node:worker_threads');

const workers = new Set();
threads.Worker = class extends threads.Worker {
  constructor(...args) {
    super(...args);
    workers.add(this);
    this.once('exit', () => workers.delete(this));
  }
};
const { serve } = require('../../../dist/serve');

const x = { name: 'x', isTensor: true, type: 'uint8', shape: ['N'] };
let gate = setTimeout(0);
let open = () => {};
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  async run(feeds) {
    await gate;
    await setTimeout(1);
    return { y: feeds.x };
  },
};

const failures = [];
const logger = { error: ({ err }, message) => failures.push(`${message}: ${err.message}`) };

async function main() {
  const models = { echo: { session, maxBatch: 8 } };
  const { url, close } = await serve({ port: 0, threads: 3, models, logger });
  const commands = {
    url: () => url,
    files: () => readdirSync('/proc/self/fd').length,
    readers: () => workers.size,
    failures: () => failures,
    hold: () => void (gate = new Promise((resolve) => (open = resolve))),
    open: () => open(),
    terminate: async (...indices) => {
      const all = [...workers];
      await Promise.all(indices.map((index) => all[index].terminate()));
    },
    // It is told of a call that it has never made.
    crash: (index) => [...workers][index].postMessage([{ kind: 'freed', id: -1 }]),
    close: async () => {
      await close();
      process.disconnect();
    },
  };
  process.on('message', async ({ id, command, args }) => {
    const result = await commands[command](...args);
    if (process.connected) process.send({ id, result });
  });
  process.send('listening');
}

void main();

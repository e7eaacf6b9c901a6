// A thread that shares a session, and does with it what its parent says. Answers with what came of it.
'use strict';
const { parentPort, workerData } = require('node:worker_threads');
const { SharedSession, Tensor } = require('../../../dist');

const tensor = ({ type, data, dims }) => new Tensor(type, data, dims);
const tensors = (feeds) =>
  Object.fromEntries(
    Object.entries(feeds).map(([name, one]) => [name, Array.isArray(one) ? one.map(tensor) : tensor(one)]),
  );

let session, running;
const tasks = {
  open: async () => {
    session = await SharedSession.open(workerData);
    const { inputNames, outputNames, inputMetadata, outputMetadata, device } = session;
    return { inputNames, outputNames, inputMetadata, outputMetadata, device };
  },
  run: async (method, feeds, ...rest) => {
    const results = await session[method](tensors(feeds), ...rest);
    return Object.fromEntries(
      Object.entries(results).map(([name, { type, dims, data, location }]) => [
        name,
        { type, dims, data, location },
      ]),
    );
  },
  /** A run that `finish` waits for. The thread is at it when this ends, however slow the machine is. */
  begin: async (feeds) => {
    running = session.run(tensors(feeds));
    running.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 20));
  },
  finish: async () => Object.keys(await running),
  /** Writes over the feed as soon as it may. */
  overwrite: async (feeds) => {
    const given = tensors(feeds);
    const pending = session.run(given);
    for (const { data } of Object.values(given)) data.fill(99);
    return (await pending).y.data;
  },
  abort: async (feeds, milliseconds) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('enough')), milliseconds);
    await session.run(tensors(feeds), { signal: controller.signal });
  },
  into: async (feeds) =>
    session.run(tensors(feeds), { y: new Tensor('float32', new Float32Array(4), [1, 4]) }),
  /** While a run is under way. */
  dispose: async (feeds) => {
    const pending = session.run(tensors(feeds));
    session.dispose();
    await pending;
  },
};

parentPort.on('message', ({ id, task, args }) => {
  if (task === 'leave') return parentPort.close();
  tasks[task](...args).then(
    (result) => parentPort.postMessage({ id, result }),
    ({ name, code, message, cause }) =>
      parentPort.postMessage({ id, failure: { name, code, message, cause: cause?.message } }),
  );
});

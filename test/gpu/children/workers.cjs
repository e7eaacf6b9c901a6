// Workers on one GPU: argument 2 of them are terminated in the middle of their runs, the others must be right.
const { once } = require('node:events');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { memory } = require('warpconv');

async function main() {
  const [workers, terminated, calls] = process.argv.slice(2).map(Number);
  const all = Array.from(
    { length: workers },
    (_, seed) => new Worker(path.join(__dirname, 'worker.cjs'), { workerData: { calls, seed } }),
  );
  const endings = await Promise.all(
    all.map(async (worker, index) => {
      await once(worker, 'message');
      if (index < terminated) return worker.terminate();
      const [{ right }] = await once(worker, 'message');
      await once(worker, 'exit');
      return `right ${right}`;
    }),
  );
  console.log(endings.join(', '));
  console.log(`${memory().cpu} bytes left`);
}

main();

// Rounds of four workers under load: terminates two of them in the middle of calls, and has the other two go on.
// Prints what became of each, and what native memory is in use when all have gone. The argument is the layer.
const { once } = require('node:events');
const { memory } = require('warpconv');
const { startWorkers } = require('./load.cjs');

const ROUNDS = 2;
const layer = process.argv[2];

async function finish(worker) {
  const [result, exit] = [once(worker, 'message'), once(worker, 'exit')];
  worker.postMessage('stop');
  const [{ right }] = await result;
  const [code] = await exit;
  return `${right ? 'right' : 'wrong'} ${code}`;
}

async function main() {
  for (let round = 0; round < ROUNDS; round++) {
    const [first, second, ...others] = await startWorkers(layer, 4 * round);
    const survivors = Promise.all(others.map(finish));
    const terminated = await Promise.all([first.terminate(), second.terminate()]);
    console.log(`terminated ${terminated.join(' ')}, others ${(await survivors).join(', ')}`);
  }
  console.log(`${memory().cpu} bytes left`);
}

main();

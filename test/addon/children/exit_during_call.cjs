// Ends in the middle of calls, in the way that the argument says.
const { conv2d } = require('warpconv');
const { startWorkers } = require('./load.cjs');
const { operands } = require('./layers.cjs');

function startCalls() {
  const { input, weight, options } = operands('slow', 1);
  return Promise.all([1, 2, 3, 4].map(() => conv2d(input, weight, options)));
}

const ways = {
  exit: () => {
    startCalls();
    setTimeout(() => process.exit(0), 20);
  },
  exitWithWorkers: async () => {
    // Quick calls, so that some end at the very moment the process does.
    await startWorkers('quick', 1);
    startCalls();
    process.exit(0);
  },
  throw: () => {
    startCalls();
    setTimeout(() => {
      throw new Error('on purpose');
    }, 20);
  },
  // Nothing but the pending calls keeps the event loop alive.
  natural: () => {
    startCalls().then((outputs) => console.log(`${outputs.length} done`));
  },
};

ways[process.argv[2]]();

// Provokes every kind of rejection, each promise handled by its caller alone. Node ends the process with code 1 if
// the package keeps a rejected promise of its own that nobody handles, and warns if it takes the many calls that
// share a signal for a leak of listeners.
const { Conv2d, conv2d } = require('warpconv');
const { operands } = require('./layers.cjs');

async function main() {
  const { input, weight, options } = operands('slow', 1);
  const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [
    conv2d(input, weight, { ...options, stride: 0 }),
    conv2d(input, weight, { ...options, device: 'cuda:99' }),
    plan.run(weight),
    ...Array.from({ length: 10 }, () => conv2d(input, weight, { ...options, signal })),
    ...Array.from({ length: 10 }, () => plan.run(input, { signal })),
    Conv2d.create(weight, { ...options, inputDims: input.dims, signal }),
  ];
  controller.abort();
  const disposed = plan[Symbol.asyncDispose]();
  calls.push(plan.run(input));
  const settled = await Promise.allSettled(calls);
  await disposed;
  // On a busy machine the first calls may be done before they are aborted.
  const rejected = settled.filter(({ status }) => status === 'rejected');
  console.log([...new Set(rejected.map(({ reason }) => reason?.code ?? 'none'))].sort().join(' '));
}

main();

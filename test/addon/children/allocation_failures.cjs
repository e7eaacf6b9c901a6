// Fails allocations of the addon while an operation runs, one after the other, until the operation needs no more: each
// time it must succeed or say that memory ran out, and what comes after must be right. Prints what is not so.
//
// Arguments: the operation, how many allocations fail in a row, on which threads (0 any, 1 this one, 2 the others),
// the first and the step, and how many operations come before that allocate what is allocated once in a process.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const warpconv = require('warpconv');

const loaded = { exports: {} };
process.dlopen(loaded, process.env.FAILING_ALLOCATOR);
const { arm, disarm } = loaded.exports;

const [operation, ...numbers] = process.argv.slice(2);
const [length, threads, first, step, warmUps] = numbers.map(Number);
const digits = fs.readFileSync(path.join(__dirname, '../../../examples/digits/digits.onnx'));

const { Conv2d, conv2d, conv2dSync, InferenceSession, Tensor } = warpconv;
function ones(dims) {
  return new Tensor(new Float32Array(dims.reduce((a, b) => a * b)).fill(1), dims);
}
const input = ones([1, 16, 28, 28]);
const weight = ones([16, 16, 3, 3]);
const options = { padding: 1, device: 'cpu' };
const shapes = { inputDims: input.dims, weightDims: weight.dims, padding: 1 };
const signal = () => new AbortController().signal;

/** Each gives what it holds to be disposed, or nothing. */
const operations = {
  conv2dSync: () => void conv2dSync(input, weight, options),
  conv2d: async () => void (await conv2d(input, weight, { ...options, signal: signal() })),
  atOnce: async () => void (await conv2d(input, weight, options)),
  aborted: async () => {
    const controller = new AbortController();
    const calls = Array.from({ length: 4 }, () =>
      conv2d(input, weight, { ...options, signal: controller.signal }),
    );
    controller.abort();
    const endings = await Promise.allSettled(calls);
    const failed = endings.find(({ reason }) => reason && reason.code !== 'ERR_WARPCONV_ABORTED');
    if (failed !== undefined) throw failed.reason;
  },
  create: async () => (await Conv2d.create(weight, { ...options, inputDims: input.dims })).dispose(),
  tuned: async () =>
    (await Conv2d.create(weight, { ...options, algorithm: 'tune', inputDims: input.dims })).dispose(),
  run: async ({ plan }) => void (await plan.run(input, { signal: signal() })),
  runs: async ({ plan }) => {
    const endings = await Promise.allSettled(
      Array.from({ length: 40 }, () => plan.run(input, { signal: signal() })),
    );
    const failed = endings.find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  },
  runSync: ({ plan }) => void plan.runSync(input),
  explain: ({ plan }) => void plan.explain(),
  algorithms: () => void warpconv.algorithms(shapes, 'cpu'),
  facts: () => void [warpconv.devices(), warpconv.memory(), warpconv.threads()],
  session: async () => {
    const session = await InferenceSession.create(digits, { device: 'cpu' });
    try {
      await session.run(feedsOf(session));
    } finally {
      await session.release();
    }
  },
  sessionRun: async ({ session }) => void (await session.run(feedsOf(session))),
  sessionRunSync: ({ session }) => void session.runSync(feedsOf(session)),
  sessionExplain: async ({ session }) => void (await session.explain(dimsOf(session))),
};

function feedsOf(session) {
  return Object.fromEntries(
    session.inputMetadata.map(({ name, shape }) => [
      name,
      ones(shape.map((one) => (typeof one === 'number' ? one : 1))),
    ]),
  );
}

function dimsOf(session) {
  return Object.fromEntries(Object.entries(feedsOf(session)).map(([name, { dims }]) => [name, dims]));
}

function complain(...what) {
  console.log(...what);
  process.exitCode = 1;
}

async function outcomeOf(run, held) {
  try {
    await run(held);
    return 'succeeded';
  } catch (error) {
    return error.code ?? `no code: ${error.stack}`;
  }
}

async function hold(held) {
  held.plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
  held.session = await InferenceSession.create(digits, { device: 'cpu' });
  await works(held);
}

/** Whether all that is usual still works. */
async function works({ plan, session }) {
  const results = [
    conv2dSync(input, weight, options),
    await conv2d(input, weight, { ...options, signal: signal() }),
    await plan.run(input, { signal: signal() }),
  ];
  await session.run(feedsOf(session));
  return results.every(({ data }) => data[29] === 144 && data[0] === 64);
}

async function main() {
  const run = operations[operation];
  const held = {};
  if (warmUps > 0) await hold(held);
  for (let i = 0; i < warmUps; i++) await run(held);
  let points = 0;
  for (let counted = Infinity, point = first; point <= counted; point += step) {
    // A crash has this for its last line.
    fs.writeSync(2, `${operation}, allocation ${point}\n`);
    const hangs = setTimeout(() => {
      fs.writeSync(1, `${operation}, allocation ${point}: never ends\n`);
      process.exit(1);
    }, 30_000);
    arm(point, length, threads);
    const outcome = await outcomeOf(run, held);
    counted = disarm();
    if (outcome !== 'succeeded' && outcome !== 'ERR_WARPCONV_OUT_OF_MEMORY')
      complain(`allocation ${point}: ${outcome}`);
    if (held.plan === undefined) await hold(held);
    if (!(await works(held))) complain(`allocation ${point}: wrong afterwards`);
    clearTimeout(hangs);
    points++;
    if (warmUps === 0) break;
  }
  held.plan.dispose();
  await held.session.release();
  if (operation !== 'facts' && points === 0) complain('nothing was allocated');
  const { cpu, plans } = warpconv.memory();
  if (cpu !== 0 || plans !== 0) complain(`${cpu} bytes and ${plans} plans left`);
  console.log(`${points} survived`);
}

main();

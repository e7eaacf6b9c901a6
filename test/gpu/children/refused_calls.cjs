/**
 * Calls of the CUDA driver refused one after the other, by test/gpu/support/refused_calls.c, which is preloaded.
 *
 *     node refused_calls.cjs OPERATION MOST      at most MOST points of an operation, evenly spread
 *     node refused_calls.cjs open K              the K-th call of the process itself
 *
 * Prints a line of JSON: how many points there are, how many were tried, and what became of them. Each has to end as if
 * nothing had been, or with a code; and then everything is right again.
 */
const fs = require('node:fs');
const path = require('node:path');

const { allocPinned, Conv2d, conv2d, InferenceSession, Tensor } = require('warpconv');

const control = fs.openSync(process.env.WARPCONV_REFUSED_CALLS, 'r+');

/** Refuses call number `k` from now on, or none for 0. */
function arm(k) {
  fs.writeSync(control, Buffer.from(BigInt64Array.of(BigInt(k), 0n).buffer), 0, 16, 0);
}

/** Calls since then. */
function count() {
  const numbers = new BigInt64Array(2);
  fs.readSync(control, new Uint8Array(numbers.buffer), 0, 16, 0);
  return Number(numbers[1]);
}

const filled = (dims, element) => {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor('float32', new Float32Array(size).fill(element), dims);
};
const x = filled([2, 16, 28, 28], 1);
const w = filled([16, 16, 3, 3], 1);
const options = { padding: 1, device: 'cuda' };
const digits = fs.readFileSync(path.join(__dirname, '../../../examples/digits/digits.onnx'));

/** An inner output of 3 x 3 x 16 ones. */
async function isRight(output) {
  return (await output.getData())[29] === 144;
}

async function operations() {
  const plan = await Conv2d.create(w, { ...options, inputDims: x.dims });
  const session = await InferenceSession.create(digits, { device: 'cuda' });
  const residentSession = await InferenceSession.create(digits, {
    device: 'cuda',
    preferredOutputLocation: 'gpu-buffer',
  });
  const feeds = Object.fromEntries(
    session.inputMetadata.map(({ name, shape }) => [
      name,
      filled(
        shape.map((extent) => (typeof extent === 'number' ? extent : 1)),
        1,
      ),
    ]),
  );
  const resident = await x.to('cuda');
  await session.run(feeds);
  await residentSession.run(feeds);
  return {
    conv2d: () => conv2d(x, w, options),
    create: async () => (await Conv2d.create(w, { ...options, inputDims: x.dims })).dispose(),
    run: () => plan.run(x),
    runResident: async () => (await plan.run(resident)).dispose(),
    tensors: async () => {
      const there = await filled([1024], 1).to('cuda');
      try {
        await there.getData();
      } finally {
        there.dispose();
      }
    },
    pinned: async () => allocPinned('float32', [1024]).dispose(),
    session: async () => {
      const other = await InferenceSession.create(digits, { device: 'cuda' });
      try {
        await other.run(feeds);
      } finally {
        await other.release();
      }
    },
    sessionRun: () => session.run(feeds),
    sessionOutputs: async () => {
      const outputs = Object.values(await residentSession.run(feeds));
      try {
        for (const output of outputs) await output.getData();
      } finally {
        for (const output of outputs) output.dispose();
      }
    },
  };
}

async function outcomeOf(operation) {
  try {
    await operation();
    return 'done';
  } catch (error) {
    return error.code ?? `no code: ${error}`;
  }
}

async function refuseEach(name, most) {
  const operation = (await operations())[name];
  await operation();
  arm(Number.MAX_SAFE_INTEGER);
  await operation();
  const points = count();
  const step = Math.max(1, Math.ceil(points / most));
  const outcomes = {};
  let tried = 0;
  for (let k = 1; k <= points; k += step) {
    arm(k);
    const outcome = await outcomeOf(operation);
    arm(0);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    tried++;
    await operation();
    if (!(await isRight(await conv2d(x, w, options)))) throw new Error(`wrong after call ${k} was refused`);
  }
  return { points, tried, outcomes };
}

async function refuseOpening(k) {
  arm(k);
  const outcome = await outcomeOf(() => conv2d(x, w, options));
  return { points: count(), tried: 1, outcomes: { [outcome]: 1 } };
}

const [name, number] = process.argv.slice(2);
const work = name === 'open' ? refuseOpening(Number(number)) : refuseEach(name, Number(number));
work.then((result) => console.log(JSON.stringify(result)));

/**
 * How long a convolution of a second or more keeps the event loop waiting: the longest gap of a 1 ms timer from
 * before the call until after its promise has resolved, and the time until the call returns its promise. Exit code 1
 * when either is over 5 ms.
 *
 * conv2d makes a new output each time; plan.run writes into one of the caller's, because the collector frees the outputs of
 * the rounds before on the event loop's thread, and giving 130 MB back to the system takes it 6 to 10 ms.
 *
 * Small calls without end, one after the other and in many chains at once, are held to the same: the first run on the
 * event loop's own thread until its budget is spent.
 *
 * Of each longest gap it says what V8's collector took of it. Two controls stand beside it: an idle second, and one with
 * a worker thread that spins, which shows what a second busy processor costs on this machine without us. Plain
 * JavaScript, because under ts-node the collector walks the TypeScript compiler's 25 MB heap in the middle of the
 * measurement, which takes 8 to 13 ms.
 *
 * With `--device cuda` tensors lie on the GPU, and the long convolutions are those of the slowest algorithm there: of
 * any other a second takes gigabytes.
 *
 *     npm run build && node bench/event_loop.mjs [--device cuda]
 */
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';

import { Conv2d, conv2d, devices, Tensor, threads } from 'warpconv';

const LONGEST_GAP_MS = 5;
const SHORTEST_CONVOLUTION_MS = 1000;
const ROUNDS = 5;
/** Much arithmetic for few bytes, so that the outputs themselves give the collector little to do. */
const [C, H, W, K] = [512, 28, 28, 256];
const { device } = parseArgs({ options: { device: { type: 'string', default: 'cpu' } } }).values;
const options = { padding: 5, device, algorithm: device === 'cpu' ? 'auto' : 'direct' };

function randomTensor(dims) {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor(
    'float32',
    Float32Array.from({ length: size }, () => Math.random() - 0.5),
    dims,
  );
}
const randomInput = (dims) => randomTensor(dims).to(device);

const collections = [];
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] });

/** Milliseconds that the collector ran between two moments. The observer hears of it later. */
async function collected(from, to) {
  await sleep(1);
  const within = ({ startTime, duration }) => Math.min(startTime + duration, to) - Math.max(startTime, from);
  return collections.reduce((sum, one) => sum + Math.max(within(one), 0), 0);
}

/** Milliseconds, all of them. */
async function measure(start) {
  let [gap, end, last] = [0, 0, performance.now()];
  const tick = () => {
    const now = performance.now();
    if (now - last > gap) [gap, end] = [now - last, now];
    last = now;
  };
  const timer = setInterval(tick, 1);
  const begin = performance.now();
  const promise = start();
  const call = performance.now() - begin;
  await promise;
  const duration = performance.now() - begin;
  tick();
  clearInterval(timer);
  if (call > gap) [gap, end] = [call, begin + call];
  return { duration, longest: gap, collecting: await collected(end - gap, end) };
}

async function besideABusyThread(start) {
  const worker = new Worker('for (;;);', { eval: true });
  await sleep(100);
  const measurement = await measure(start);
  await worker.terminate();
  return measurement;
}

/** A batch that this machine needs clearly more than a second for. */
async function chooseBatch(weight) {
  for (let batch = 1; ;) {
    const input = await randomInput([batch, C, H, W]);
    const { duration } = await measure(() => conv2d(input, weight, options));
    if (duration > 1.3 * SHORTEST_CONVOLUTION_MS) return batch;
    batch = Math.ceil((batch * 1.5 * SHORTEST_CONVOLUTION_MS) / duration);
  }
}

const weight = randomTensor([K, C, 11, 11]);
const input = await randomInput([await chooseBatch(weight), C, H, W]);
const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
const output = await plan.run(input);
const smallInput = await randomInput([1, 16, 14, 14]);
const small = await Conv2d.create(randomTensor([16, 16, 3, 3]), {
  device,
  inputDims: smallInput.dims,
});

async function smallRuns(chains) {
  const end = performance.now() + 1.1 * SHORTEST_CONVOLUTION_MS;
  const follow = async () => {
    const own = await small.run(smallInput);
    while (performance.now() < end) await small.run(smallInput, { output: own });
  };
  await Promise.all(Array.from({ length: chains }, follow));
}

const rest = () => sleep(1.1 * SHORTEST_CONVOLUTION_MS);
const measurements = {
  idle: () => measure(rest),
  'beside a busy thread': () => besideABusyThread(rest),
  conv2d: () => measure(() => conv2d(input, weight, options)),
  'plan.run': () => measure(() => plan.run(input, { output })),
  'small runs': () => measure(() => smallRuns(1)),
  '64 chains of small runs': () => measure(() => smallRuns(64)),
};
const CONTROLS = ['idle', 'beside a busy thread'];

const { name } = devices().find((one) => one.device === device || one.type === device);
console.log(`${name}, ${threads()} threads of ours, Node.js ${process.version}`);
console.log(
  `input ${input.dims.join('x')}, weight ${weight.dims.join('x')}; longest gap of a 1 ms timer in ms`,
);
const worst = {};
// Round 0 is for the just-in-time compiler.
for (let round = 0; round <= ROUNDS; round++) {
  const gaps = [];
  for (const [what, run] of Object.entries(measurements)) {
    const { duration, longest, collecting } = await run();
    if (duration < SHORTEST_CONVOLUTION_MS) throw new Error(`${what} took less than a second`);
    if (round > 0) worst[what] = Math.max(worst[what] ?? 0, longest);
    const ofCollector = collecting > 0 ? ` (collector ${collecting.toFixed(2)})` : '';
    gaps.push(`${what} ${longest.toFixed(2)}${ofCollector}`);
  }
  console.log(`round ${round}: ${gaps.join(', ')}`);
}
plan.dispose();
small.dispose();
for (const what of Object.keys(measurements)) {
  if (CONTROLS.includes(what) || worst[what] <= LONGEST_GAP_MS) continue;
  console.log(`FAILED: ${what} kept the event loop waiting ${worst[what].toFixed(2)} ms`);
  process.exitCode = 1;
}

// What becomes of the memory of results. The argument says what is tried; run with --expose-gc.
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { isMainThread, parentPort, Worker, workerData } = require('node:worker_threads');

/** Of 32 maps of 56 x 56 */
const OUTPUT_BYTES = 4 * 32 * 56 * 56;

const filled = (dims, value) => {
  const { Tensor } = require('warpconv');
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor('float32', new Float32Array(size).fill(value), dims);
};

/** Every element of the result is three times `value`. */
async function makePlan() {
  const { Conv2d } = require('warpconv');
  const plan = await Conv2d.create(filled([32, 3, 1, 1], 1), { inputDims: [1, 3, 56, 56], device: 'cpu' });
  return (value) => plan.runSync(filled([1, 3, 56, 56], value)).data;
}

const idle = () => require('warpconv').memory().idle;
const allocate = (bytes) => require('../../../dist/load').addon().allocateOutput(bytes);

async function collectUntil(isDone) {
  while (!isDone()) {
    global.gc();
    await sleep(1);
  }
}

function startWorker(task, data) {
  return new Worker(__filename, { workerData: { task, ...data } });
}

const tasks = {
  async reused() {
    new Uint8Array(allocate(OUTPUT_BYTES)).fill(7);
    await collectUntil(() => idle() >= OUTPUT_BYTES);
    const again = new Uint8Array(allocate(OUTPUT_BYTES));
    console.log(`${again.length} bytes, ${again.every((byte) => byte === 7) ? 'the same' : 'others'}`);
    console.log(`${idle()} bytes idle`);
  },

  /** Results over memory that holds others are those that the first memory had. */
  async written() {
    const { Conv2d, conv2d, conv2dSync, InferenceSession, Tensor } = require('warpconv');
    const tensor = (dims, salt) => {
      const size = dims.reduce((product, extent) => product * extent, 1);
      return new Tensor(
        'float32',
        Float32Array.from({ length: size }, (_, i) => ((i * 7 + salt) % 11) - 5),
        dims,
      );
    };
    const [input, weight] = [tensor([2, 8, 57, 59], 1), tensor([17, 8, 3, 3], 2)];
    const options = { padding: 1, device: 'cpu' };
    const plan = await Conv2d.create(weight, { ...options, inputDims: input.dims });
    const model = fs.readFileSync(path.join(__dirname, '../../../examples/digits/digits.onnx'));
    const session = await InferenceSession.create(model, { device: 'cpu' });
    const [{ name, shape }] = session.inputMetadata;
    const feeds = { [name]: tensor([2048, ...shape.slice(1)], 3) };
    const [output] = session.outputNames;
    const signal = new AbortController().signal;
    const ways = {
      conv2d: async () => conv2d(input, weight, options),
      conv2dSync: async () => conv2dSync(input, weight, options),
      run: async () => plan.run(input),
      'run on another thread': async () => plan.run(input, { signal }),
      'session.run': async () => (await session.run(feeds))[output],
      'session.runSync': async () => session.runSync(feeds)[output],
    };
    for (const [way, call] of Object.entries(ways)) {
      const { data: first } = await call();
      const expected = Buffer.from(first.buffer.slice(0));
      let right = 0;
      for (let round = 0; round < 20; round++) {
        const { data } = await call();
        if (data.byteLength === data.buffer.byteLength && expected.equals(Buffer.from(data.buffer))) right++;
        data.fill(NaN);
        if (round % 5 === 4) await collectUntil(() => idle() >= data.byteLength);
      }
      console.log(`${way}: ${right} of 20 right`);
    }
  },

  async transferred() {
    const run = await makePlan();
    const result = run(1);
    const clone = structuredClone(result, { transfer: [result.buffer] });
    console.log(`left ${result.length}, cloned ${clone.length} of ${clone.at(-1)}`);
    const worker = startWorker('receive');
    const sent = run(2);
    worker.postMessage(sent, [sent.buffer]);
    const [[sum]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
    console.log(`left ${sent.length}, sum in the worker ${sum}`);
    const received = await resultOfWorker();
    console.log(`from the worker that has ended ${received.length} of ${received.at(-1)}`);
  },

  /** This thread has never loaded the addon, and the one that has is gone when the memory comes back. */
  async loadedElsewhere() {
    let result = await resultOfWorker();
    console.log(`${result.length} of ${result.at(-1)}`);
    result = undefined;
    for (let i = 0; i < 20; i++) {
      global.gc();
      await sleep(5);
    }
    console.log('lives');
  },

  async receive() {
    const [data] = await once(parentPort, 'message');
    parentPort.postMessage(data.reduce((sum, element) => sum + element, 0));
  },

  async send() {
    const data = (await makePlan())(workerData.value);
    parentPort.postMessage(data, [data.buffer]);
  },

  /** A call goes on writing to what it was given as its output, which was transferred away and collected. */
  async inUse() {
    const { Conv2d } = require('warpconv');
    // Work for a second on two cores, so that it goes on behind the collections on sixteen.
    const weight = filled([32, 256, 9, 9], 1);
    const input = filled([1, 256, 56, 56], 1);
    const plan = await Conv2d.create(weight, {
      inputDims: input.dims,
      padding: 4,
      algorithm: 'direct',
      device: 'cpu',
    });
    const output = plan.runSync(input);
    const call = plan.run(input, { output, signal: new AbortController().signal });
    structuredClone(output.data, { transfer: [output.data.buffer] });
    const before = idle();
    for (let i = 0; i < 3; i++) {
      global.gc();
      await sleep(1);
    }
    console.log(`${idle() - before} bytes given back during the call`);
    await call;
    await collectUntil(() => idle() - before >= OUTPUT_BYTES);
    console.log('given back after it');
  },

  /** Of calls that fail or are aborted nobody sees a result, and its memory comes back. */
  async failed() {
    const { conv2d } = require('warpconv');
    const [input, weight] = [filled([1, 64, 56, 56], 1), filled([32, 64, 5, 5], 1)];
    const controller = new AbortController();
    const options = { padding: 2, algorithm: 'direct', device: 'cpu', signal: controller.signal };
    setImmediate(() => controller.abort());
    console.log(await conv2d(input, weight, options).catch(({ code }) => code));
    await collectUntil(() => idle() >= OUTPUT_BYTES);
    console.log('given back');
  },

  /** A runtime that may have another V8, or none. */
  async elsewhere() {
    Object.defineProperty(process, 'versions', { value: { ...process.versions, electron: '40.0.0' } });
    const run = await makePlan();
    const data = run(1);
    global.gc();
    await sleep(10);
    global.gc();
    console.log(`${data.length} of ${data.at(-1)}, recycled ${allocate(OUTPUT_BYTES)}, ${idle()} bytes idle`);
  },

  /** Results of any size, of which some are kept for a while. */
  async uneven() {
    const { Conv2d, memory } = require('warpconv');
    const plans = [];
    for (const side of [53, 71, 97, 128, 171, 230, 308]) {
      const inputDims = [1, 3, side, side];
      const plan = await Conv2d.create(filled([16, 3, 1, 1], 1), { inputDims, device: 'cpu' });
      const input = filled(inputDims, 1);
      plans.push(() => plan.run(input));
    }
    let [kept, least, most, mostIdle] = [[], Infinity, 0, 0];
    for (let i = 0; i < 1500; i++) {
      const { data } = await plans[(Math.imul(i, 2654435761) >>> 8) % plans.length]();
      if (i % 50 === 0) kept = [...kept.slice(-5), data];
      if (i % 16 !== 0) continue;
      await sleep(0);
      mostIdle = Math.max(mostIdle, memory().idle);
      if (i < 500) continue;
      [least, most] = [Math.min(least, process.memoryUsage.rss()), Math.max(most, process.memoryUsage.rss())];
    }
    console.log(`idle ${mostIdle <= 128 * 2 ** 20}, growth ${most - least <= 128 * 2 ** 20}`);
    kept = [];
  },

  /** It goes by itself, and keeps no process from ending. */
  async idle() {
    const run = await makePlan();
    run(1);
    await collectUntil(() => idle() > 0);
    while (idle() > 0) await sleep(50);
    console.log('nothing idle');
    run(1);
    await collectUntil(() => idle() > 0);
    process.on('exit', () => console.log(`ended with memory idle: ${idle() > 0}`));
  },
};

async function resultOfWorker() {
  const worker = startWorker('send', { value: 3 });
  const [[result]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
  return result;
}

tasks[isMainThread ? process.argv[2] : workerData.task]();

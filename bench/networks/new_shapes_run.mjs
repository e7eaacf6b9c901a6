/**
 * What new_shapes.ts measures, in plain JavaScript: under ts-node the collector walks the TypeScript compiler's heap, which
 * keeps the event loop waiting for 8 to 13 ms.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { InferenceSession, memory, Tensor } from 'warpconv';

const RUNS = 12;
const { file, device, images } = JSON.parse(process.argv[2]);
const options = { device, cachedShapes: images.length };

const heldBytes = () => {
  const { cpu, gpu } = memory();
  return device === 'cpu' ? cpu : Object.values(gpu).reduce((sum, bytes) => sum + bytes, 0);
};

function feedsOf(count) {
  const dims = [count, 3, 224, 224];
  const size = dims.reduce((product, extent) => product * extent, 1);
  return {
    x: new Tensor(
      'float32',
      Float32Array.from({ length: size }, (_, i) => ((i * 7) % 13) / 13 - 0.5),
      dims,
    ),
  };
}

/** Milliseconds, and the longest that the event loop waited meanwhile. */
async function measured(work) {
  let [gap, last] = [0, performance.now()];
  const tick = () => {
    const now = performance.now();
    gap = Math.max(gap, now - last);
    last = now;
  };
  const timer = setInterval(tick, 1);
  const begin = last;
  await work();
  const end = performance.now();
  tick();
  clearInterval(timer);
  return { milliseconds: end - begin, gap };
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function runShape(session, feeds) {
  const runs = [];
  for (let run = 0; run < RUNS; run++) {
    // What is done in the background has its time, and the collector.
    await sleep(20);
    runs.push(await measured(() => session.run(feeds)));
  }
  const [first, second, ...later] = runs.map(({ milliseconds }) => milliseconds);
  return { first, second, later: median(later), gap: runs[0].gap };
}

const feeds = images.map(feedsOf);
const before = heldBytes();
const megabytes = () => (heldBytes() - before) / 1e6;
const session = await InferenceSession.create(file, options);
const shapes = [];
for (const [index, count] of images.entries()) {
  shapes.push({ images: count, ...(await runShape(session, feeds[index])), megabytes: megabytes() });
}
await session.release();
const alone = await InferenceSession.create(file, options);
await runShape(alone, feeds[images.indexOf(Math.max(...images))]);
console.log(JSON.stringify({ shapes, alone: megabytes() }));
await alone.release();

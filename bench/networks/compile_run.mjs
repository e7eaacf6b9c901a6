/**
 * What compile.ts measures of one model, in plain JavaScript: under ts-node the collector walks the TypeScript compiler's heap,
 * which keeps the event loop waiting for 8 to 13 ms. Nothing is run, and nothing else goes on in the process.
 */
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import calls from '../../dist/calls.js';
import load from '../../dist/load.js';
import compiling from '../../dist/model/compile.js';
import constants from '../../dist/model/constants.js';
import loading from '../../dist/model/onnx/load.js';
import native from '../../dist/session/native_program.js';

const { file, dims } = JSON.parse(process.argv[2]);

const collections = [];
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] });

/** Milliseconds that the collector ran between two moments. The observer hears of it later. */
async function collected(from, to) {
  await sleep(5);
  const within = ({ startTime, duration }) => Math.min(startTime + duration, to) - Math.max(startTime, from);
  return collections.reduce((sum, one) => sum + Math.max(within(one), 0), 0);
}

const figures = {};

/** What some work gives; notes the milliseconds that it takes, and the longest that the event loop waits meanwhile. */
async function measured(name, work) {
  await sleep(20);
  let [gap, end, last] = [0, 0, performance.now()];
  const tick = () => {
    const now = performance.now();
    if (now - last > gap) [gap, end] = [now - last, now];
    last = now;
  };
  const timer = setInterval(tick, 1);
  const begin = last;
  const result = await work();
  const milliseconds = performance.now() - begin;
  tick();
  clearInterval(timer);
  figures[name] = { milliseconds, gap, collecting: await collected(end - gap, end) };
  return result;
}

const graph = await measured('load', () => loading.loadOnnx(file));
const session = new constants.Constants(graph.constants.values());
const store = new (load.addon().Store)(-1);
for (const [name, x] of Object.entries(dims)) {
  const bindings = { dims: new Map([['x', x]]), constants: new Map() };
  const { program } = await measured(name, () => compiling.compile(graph, bindings, 'auto', session));
  const made = await measured(`${name}, to native code`, async () => {
    const handed = await native.makeProgram({ ...program, store });
    await calls.callNativeAsync((done) => handed.prepare(done));
    return handed;
  });
  await measured(`${name}, disposed`, async () => {
    made.dispose();
    await sleep(5);
  });
}
store.dispose();
console.log(JSON.stringify(figures));

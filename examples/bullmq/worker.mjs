// Classifies the pictures of a BullMQ queue. It may be killed at any moment, and there may be several: README.md says how.
//
//     node examples/bullmq/worker.mjs [model.onnx]
//
// REDIS_URL (redis://127.0.0.1:6379), RESULTS (a folder; ./results), LOCK_MS (30000: how long until the jobs of a worker that
// died go to another). Needs BullMQ, ioredis and sharp: npm install bullmq ioredis sharp
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';

import { UnrecoverableError, Worker } from 'bullmq';

import { openClassifier } from '../shared/classifier.mjs';
import { stop } from '../shared/service.mjs';
import { connect, QUEUE, reportErrors, resultOf, RESULTS_FOLDER } from './queue.mjs';

/** Jobs at once: one is decoded while another runs. */
const CONCURRENCY = 4;
/**
 * How often a job may be on a worker that dies. BullMQ's default of 1 fails jobs that did nothing wrong but be there twice;
 * without a limit one that kills its worker would go on killing.
 */
const MOST_DEATHS = 5;
/** Trying again would not help: no picture, no such file, a picture that the model does not take. */
const LASTING = ['ERR_PICTURE', 'ENOENT', 'EISDIR', 'ERR_WARPCONV_INVALID_ARGUMENT'];

/** A result is there whole or not at all. Whoever writes it again, having been taken for dead, writes the same. */
async function store(id, result) {
  const temporary = `${resultOf(id)}.${randomUUID()}.tmp`;
  await writeFile(temporary, JSON.stringify(result));
  await rename(temporary, resultOf(id));
}

async function classify({ id, data: { input } }, _token, signal) {
  // A worker that died after it had stored the result has left only the message to Redis to do.
  if (existsSync(resultOf(id))) return;
  try {
    const classes = await classifier.classify(await readFile(input), { signal });
    await store(id, { input, classes });
  } catch (error) {
    if (LASTING.includes(error.code)) throw new UnrecoverableError(error.message);
    throw error;
  }
}

await mkdir(RESULTS_FOLDER, { recursive: true });
const redis = await connect().catch(stop);
const classifier = await openClassifier(process.argv[2]).catch(stop);

// BullMQ renews a job's lock twice in this time. A run does not hold it up, since it is not on the event loop.
const lockDuration = Number(process.env.LOCK_MS ?? 30_000);
const worker = new Worker(QUEUE, classify, {
  ...{ connection: redis, concurrency: CONCURRENCY, maxStalledCount: MOST_DEATHS },
  ...{ lockDuration, stalledInterval: lockDuration },
});
worker.on('failed', (job, error) => console.error(`job ${job?.id} (${job?.data.input}): ${error.message}`));
// Another worker has the job, since this one was held up for too long: its run is aborted here.
worker.on('lockRenewalFailed', (ids) => ids.forEach((id) => worker.cancelJob(id)));
reportErrors(worker, redis);
await worker.waitUntilReady();
console.log(`classifies by ${classifier.name} on ${classifier.device}`);

// Jobs in work are finished; those that wait are for others.
async function close() {
  await worker.close();
  await classifier.release();
  await redis.quit();
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, close);

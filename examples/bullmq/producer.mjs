// Has pictures classified by the workers of a BullMQ queue, and prints one line for each of them.
//
//     node examples/bullmq/producer.mjs PICTURE|FOLDER…
//
// REDIS_URL and RESULTS as of the worker. Asked again, or started again after it was killed, it gets the answers that there
// are already. Needs BullMQ and ioredis: npm install bullmq ioredis
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';

import { Queue, QueueEvents } from 'bullmq';

import { PICTURE } from '../shared/pictures.mjs';
import { stop } from '../shared/service.mjs';
import { connect, QUEUE, reportErrors, resultOf } from './queue.mjs';

const JOB_OPTIONS = {
  // What fails for a while, such as memory that is short, is tried again.
  attempts: 5,
  backoff: { type: 'exponential', delay: 1000 },
  // A job that is still known is not done again. Seconds.
  removeOnComplete: { age: 24 * 3600 },
  removeOnFail: { age: 24 * 3600 },
};

async function filesOf(argument) {
  if (!(await stat(argument)).isDirectory()) return [path.resolve(argument)];
  const names = (await readdir(argument)).filter((name) => PICTURE.test(name));
  return names.sort().map((name) => path.resolve(argument, name));
}

/** The same for the same version of a file: the job's id, under which it is done once, and its result's name. */
async function idOf(file) {
  const { size, mtimeMs } = await stat(file);
  return createHash('sha256').update(`${file} ${size} ${mtimeMs}`).digest('hex');
}

/**
 * Events that are later than this one are heard. By default those are that come after BullMQ has begun to listen: a job that
 * is done before that, and after its state was asked for, would be waited for for ever.
 */
async function newestEvent(queue, connection) {
  const [newest] = await connection.xrevrange(queue.toKey('events'), '+', '-', 'COUNT', 1);
  return newest?.[0] ?? '0';
}

async function report(job, events) {
  const { input } = job.data;
  try {
    await job.waitUntilFinished(events);
    const { classes } = JSON.parse(await readFile(resultOf(job.id), 'utf8'));
    console.log(`${input}: ${classes[0].label} ${(100 * classes[0].score).toFixed(1)} %`);
  } catch (error) {
    console.log(`${input}: failed, ${error.message}`);
    process.exitCode = 1;
  }
}

async function main(args) {
  if (args.length === 0) throw new Error('usage: node examples/bullmq/producer.mjs PICTURE|FOLDER…');
  const files = [...new Set((await Promise.all(args.map(filesOf))).flat())];
  const connection = await connect();
  const queue = new Queue(QUEUE, { connection });
  const events = new QueueEvents(QUEUE, { connection, lastEventId: await newestEvent(queue, connection) });
  for (const emitter of [queue, events]) reportErrors(emitter, connection);
  // Each job that is waited for listens.
  queue.setMaxListeners(0);
  // A job carries the name of its input: Redis keeps jobs in memory, and reads them on one thread.
  const jobs = await queue.addBulk(
    await Promise.all(
      files.map(async (input) => ({
        ...{ name: 'picture', data: { input } },
        opts: { ...JOB_OPTIONS, jobId: await idOf(input) },
      })),
    ),
  );
  await Promise.all(jobs.map((job) => report(job, events)));
  await Promise.all([events.close(), queue.close()]);
  await connection.quit();
}

await main(process.argv.slice(2)).catch(stop);

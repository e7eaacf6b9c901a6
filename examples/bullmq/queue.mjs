/** What producers and workers agree on: Redis, the queue, and where results lie. */
import path from 'node:path';

import { Redis } from 'ioredis';

export const QUEUE = 'classify';

const { REDIS_URL = 'redis://127.0.0.1:6379', RESULTS = 'results' } = process.env;

/** A folder here; a bucket of an object store where workers are on several machines. */
export const RESULTS_FOLDER = path.resolve(RESULTS);
export const resultOf = (id) => path.join(RESULTS_FOLDER, `${id}.json`);

const MOST_WAIT_MS = 2000;

/** Tells of the errors of a queue or a worker, but for those of a Redis that has gone, which is told of once. */
export function reportErrors(emitter, redis) {
  emitter.on('error', (error) => {
    if (redis.status === 'ready') console.error(error.message);
  });
}

/** Fails at once where there is no Redis. Later it waits for a Redis that has gone, and goes on when it is back. */
export async function connect() {
  let [wasThere, isThere, trouble] = [false, false];
  const redis = new Redis(REDIS_URL, {
    lazyConnect: true,
    // As BullMQ needs it: commands wait for the connection.
    maxRetriesPerRequest: null,
    retryStrategy: (times) => (wasThere ? Math.min(100 * times, MOST_WAIT_MS) : null),
  });
  redis.on('ready', () => (wasThere = isThere = true));
  redis.on('error', (error) => {
    trouble = error.message || error.code;
    if (isThere) console.error(`Redis has gone: ${trouble}; waiting for it`);
    isThere = false;
  });
  try {
    await redis.connect();
  } catch (error) {
    const { path: socket, host, port } = redis.options;
    const where = socket ?? `${host}:${port}`;
    throw new Error(`Redis at ${where}: ${trouble ?? error.message}; start it, or set REDIS_URL`, {
      cause: error,
    });
  }
  return redis;
}

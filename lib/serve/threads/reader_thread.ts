/** What a reader's thread runs. */
import { parentPort, workerData } from 'node:worker_threads';

import type { ToReader } from './messages';
import { Reader, type ReaderData } from './reader';

const reader = new Reader(parentPort!, workerData as ReaderData);
parentPort!.on('message', (messages: readonly ToReader[]) =>
  messages.forEach((message) => reader.hear(message)),
);

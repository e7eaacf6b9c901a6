/** Mutual exclusion between processes by a file that lists the processes that hold it. */
import { appendFileSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const POLL_MILLISECONDS = 200;

/**
 * Runs `action` while no other process holds `file`.
 *
 * `action` gets a function that adds a child process to the holders: should this process be killed, the lock
 * stays taken until that child has ended too. A lock whose holders have all ended is taken over.
 */
export async function withLock(file, action) {
  await acquire(file);
  try {
    return await action((pid) => appendFileSync(file, `${pid}\n`));
  } finally {
    rmSync(file, { force: true });
  }
}

async function acquire(file) {
  let announced = false;
  while (!take(file)) {
    const holders = readIfPresent(file);
    if (holders === undefined) continue;
    const running = holders.trim().split('\n').find(isRunning);
    if (running === undefined) {
      discard(file, holders);
      continue;
    }
    if (!announced)
      console.error(`setup: waiting for process ${running}; if that is no setup, delete ${file}`);
    announced = true;
    await setTimeout(POLL_MILLISECONDS);
  }
}

/** Takes the lock if it is free. A link appears at once with its content; a created file is empty at first. */
function take(file) {
  const own = `${file}.${process.pid}`;
  writeFileSync(own, `${process.pid}\n`);
  try {
    linkSync(own, file);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(own);
  }
}

/** Removes a lock whose holders have ended, unless another process has just taken it over. */
function discard(file, holders) {
  const aside = `${file}.${process.pid}`;
  try {
    renameSync(file, aside);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (readFileSync(aside, 'utf8') !== holders) linkSync(aside, file);
  rmSync(aside);
}

function isRunning(pid) {
  if (Number(pid) === process.pid) return false;
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** A file's text, or undefined where there is no such file. */
export function readIfPresent(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

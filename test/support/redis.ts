import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';

import { describeUnless } from './skip';

/** Tests that need a Redis; skipped, saying why, where there is none. */
export function describeRedis(name: string, body: () => void): void {
  const isThere = spawnSync('redis-server', ['--version']).status === 0;
  describeUnless(isThere ? undefined : 'no redis-server on the PATH', name, body);
}

/** Starts a Redis that keeps nothing on disk. It listens on a socket in the folder, and nowhere else. */
export function startRedis(folder: string): { readonly socket: string; readonly stop: () => Promise<void> } {
  const socket = path.join(folder, 'redis.sock');
  const options = ['--port', '0', '--unixsocket', socket, '--dir', folder, '--save', ''];
  const server = spawn('redis-server', options, { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => server.once('close', () => resolve()));
  const stop = () => {
    server.kill();
    return ended;
  };
  return { socket, stop };
}

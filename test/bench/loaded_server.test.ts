import type { ChildProcess } from 'node:child_process';
import path from 'node:path';

import { ROOT } from '../../bench/command';
import { LoadedServer, OURS } from '../../bench/loaded_server';

const DIGITS = { model: path.join(ROOT, 'examples/digits/digits.onnx'), device: 'cpu' };

describe('a server under load', () => {
  it('is killed where its task fails', async () => {
    let child: ChildProcess | undefined;
    const task = async (server: LoadedServer) => {
      child = server.process;
      await server.figures();
      throw new Error('a request failed');
    };
    await expect(LoadedServer.use(OURS, DIGITS, task)).rejects.toThrow('a request failed');
    expect(child!.signalCode).toBe('SIGKILL');
  });

  it('fails its task where it ends', async () => {
    const task = (server: LoadedServer) => {
      server.process.kill('SIGKILL');
      return server.message();
    };
    await expect(LoadedServer.use(OURS, DIGITS, task)).rejects.toThrow('ended with SIGKILL');
  });
});

import type { Socket } from 'node:net';

import { clearTimeout, setTimeout } from './timers';

/** The connections on which there were requests, while they are open. */
export class Connections {
  readonly #open = new Set<Socket>();
  #onGone = () => {};

  add(socket: Socket): void {
    if (this.#open.has(socket) || socket.destroyed) return;
    this.#open.add(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      if (this.#open.size === 0) this.#onGone();
    });
  }

  /** Resolves once there are none, at the latest after so many milliseconds. */
  async gone(milliseconds: number): Promise<void> {
    if (this.#open.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#onGone = resolve;
      timer = setTimeout(resolve, milliseconds);
    });
    clearTimeout(timer);
  }
}

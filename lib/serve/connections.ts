import type { Socket } from 'node:net';

import { clearTimeout, setTimeout } from './timers';

/** The connections on which there were requests, while they are open. */
export class Connections {
  /** With those who follow each */
  readonly #open = new Map<Socket, Set<() => void>>();
  #onGone = () => {};

  add(socket: Socket): void {
    if (this.#open.has(socket) || socket.destroyed) return;
    this.#open.set(socket, new Set());
    socket.once('close', () => {
      const followers = this.#open.get(socket)!;
      this.#open.delete(socket);
      for (const follower of followers) follower();
      if (this.#open.size === 0) this.#onGone();
    });
  }

  /**
   * Calls `follower` when a connection closes, at once if it has. Responses say so only of the request whose turn it is,
   * and a client may send several before it reads an answer.
   *
   * @returns what ends that
   */
  follow(socket: Socket, follower: () => void): () => void {
    const followers = this.#open.get(socket);
    if (followers === undefined) follower();
    followers?.add(follower);
    return () => void followers?.delete(follower);
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

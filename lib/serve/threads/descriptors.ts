/** The file descriptors by which connections go from one thread to another. */
import type { Socket } from 'node:net';

import { callNative } from '../../errors';
import { addon } from '../../load';

/** Of a connection's socket. Node.js tells it to those who listen, and hands it to `new Socket({ fd })`. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle?: { readonly fd?: number } };
  return handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : undefined;
}

/** Another descriptor for the same connection; null where the system has none to give. */
export function duplicateDescriptor(descriptor: number): number | null {
  return callNative(() => addon().duplicateDescriptor(descriptor));
}

/** Which of the file descriptors that a thread was handed it has taken: it closes these, and nobody else. */
export class TakenDescriptors {
  readonly #taken: Uint8Array;

  constructor(readonly memory = new SharedArrayBuffer(MOST_DESCRIPTORS)) {
    this.#taken = new Uint8Array(memory);
  }

  /** Whether it is one that can be noted. */
  canHold(descriptor: number): boolean {
    return descriptor < this.#taken.length;
  }

  note(descriptor: number, isTaken: boolean): void {
    Atomics.store(this.#taken, descriptor, Number(isTaken));
  }

  isTaken(descriptor: number): boolean {
    return Atomics.load(this.#taken, descriptor) === 1;
  }
}

/** Linux gives the lowest that is free, so that there are no larger ones with fewer connections. */
const MOST_DESCRIPTORS = 65_536;

import type { MessagePort } from 'node:worker_threads';

import { isObject } from '../check';
import { WarpconvError } from '../errors';
import type { ValueInfo } from '../model/graph';
import type { Tensor } from '../tensor/tensor';
import { buffersOf, copied, type Failure, type FromOwner, type Parcel, type ToOwner } from './messages';

/** What the owner's end needs of a session. */
export interface Shareable {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly device: string;
  run(
    inputs: readonly Parcel[],
    fetches: readonly string[] | undefined,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, Tensor>>>;
}

/** Runs a session for the thread at the other end of a port. */
export class SharingOwner {
  readonly #port: MessagePort;
  readonly #session: Shareable;
  readonly #running = new Map<number, AbortController>();
  readonly #answers = new Set<Promise<void>>();

  /** @param onEnd - called when the port is closed, by either side */
  constructor(port: MessagePort, session: Shareable, onEnd: () => void) {
    this.#port = port;
    this.#session = session;
    const { inputs, outputs, device } = session;
    this.#tell({ kind: 'session', inputs, outputs, device });
    port.on('message', (message: unknown) => {
      // The port is public: any value may come.
      if (isObject(message)) this.#hear(message as ToOwner);
    });
    port.once('close', () => {
      // Nobody waits for it any more.
      for (const controller of this.#running.values()) controller.abort();
      onEnd();
    });
    // The session lives as long as its thread, and keeps that from nothing.
    port.unref();
  }

  /** Once what is under way is answered. */
  async close(): Promise<void> {
    await Promise.all(this.#answers);
    this.#port.close();
  }

  #hear(message: ToOwner): void {
    switch (message.kind) {
      case 'cancel':
        return this.#running.get(message.id)?.abort();
      case 'run': {
        const answer = this.#run(message);
        this.#answers.add(answer);
        return void answer.finally(() => this.#answers.delete(answer));
      }
    }
  }

  async #run({ id, inputs, fetches }: Extract<ToOwner, { readonly kind: 'run' }>): Promise<void> {
    const controller = new AbortController();
    this.#running.set(id, controller);
    try {
      const results = await this.#session.run(inputs, fetches, controller.signal);
      const outputs = Object.entries(results).map(([name, tensor]) => takenFrom(name, tensor));
      this.#tell({ kind: 'ran', id, outputs }, buffersOf(outputs));
    } catch (error) {
      this.#tell({ kind: 'failed', id, failure: failureOf(error) });
    } finally {
      this.#running.delete(id);
    }
  }

  #tell(message: FromOwner, transferred: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transferred);
  }
}

/** The tensor's memory may be recycled, and stays with this thread. */
function takenFrom(name: string, tensor: Tensor): Parcel {
  const { type, dims, data } = tensor;
  const parcel = copied({ name, type, dims, elements: data });
  tensor.dispose();
  return parcel;
}

function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof WarpconvError ? error.code : undefined, message };
}

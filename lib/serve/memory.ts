/** What requests take up: how much at once, and where their bytes lie. */
import { unavailable } from './refusal';

/** A number of bytes that several may change. */
export interface ByteCounter {
  readonly bytes: number;
  /** @returns what there was before */
  add(bytes: number): number;
}

class LocalCounter implements ByteCounter {
  bytes = 0;

  add(bytes: number): number {
    const before = this.bytes;
    this.bytes += bytes;
    return before;
  }
}

/** How many bytes requests and answers may take up at once, all models together. */
export class MemoryBudget {
  constructor(
    readonly limit: number,
    readonly counter: ByteCounter = new LocalCounter(),
  ) {}

  get held(): number {
    return this.counter.bytes;
  }
}

/** What one request takes of a budget: nothing at first. */
export class Holding {
  #bytes = 0;

  constructor(readonly budget: MemoryBudget) {}

  /** Holds more, for what is still to come. */
  take(bytes: number): void {
    const { counter, limit } = this.budget;
    const held = counter.add(bytes) + bytes;
    if (held > limit) {
      counter.add(-bytes);
      throw unavailable('the server holds as many bytes of requests as it may; try again later');
    }
    this.#bytes += bytes;
  }

  /** Holds more, for what is there already and cannot be refused: only those that come later can. */
  keep(bytes: number): void {
    this.#bytes += bytes;
    this.budget.counter.add(bytes);
  }

  release(bytes = this.#bytes): void {
    this.keep(-bytes);
  }
}

/** What keeps the elements of a request's inputs as they are: for as long as somebody holds it. */
export interface Held {
  hold(): void;
  letGo(): void;
}

/** The memory that one request's body and inputs lie in. Its maker holds it. */
export interface RequestMemory extends Held {
  /**
   * Uninitialised memory.
   *
   * @param alignedAt - the offset that has to lie at a multiple of 8 bytes, for typed arrays over what follows
   */
  allocate(length: number, alignedAt: number): Buffer;
}

/** Memory that the collector frees. */
export const HEAP: RequestMemory = {
  allocate(length, alignedAt) {
    // Short ones come from Node.js's pool: memory of its own for each would cost as much as reading it.
    const memory = Buffer.allocUnsafe(length + 7);
    const padding = (8 - ((memory.byteOffset + alignedAt) % 8)) % 8;
    return memory.subarray(padding, padding + length);
  },
  hold() {},
  letGo() {},
};

/** Numbers that all threads of a server see as they are now. */
import type { ByteCounter } from '../memory';

/** The memory under a server's counters; plain data, for a worker. */
export interface CounterMemory {
  readonly held: SharedArrayBuffer;
  readonly connections: SharedArrayBuffer;
}

export function allocateCounters(readers: number): CounterMemory {
  const { BYTES_PER_ELEMENT } = Int32Array;
  return {
    held: new SharedArrayBuffer((2 + readers) * BigInt64Array.BYTES_PER_ELEMENT),
    connections: new SharedArrayBuffer(readers * BYTES_PER_ELEMENT),
  };
}

/** Bytes of requests and answers, of all threads together, as one of them counts them. */
export class SharedByteCounter implements ByteCounter {
  /** The sum, then that of the models' thread, then those of the readers */
  readonly #bytes: BigInt64Array;
  readonly #own: number;

  /** @param reader - which one; none for the thread of the models */
  constructor({ held }: CounterMemory, reader = -1) {
    this.#bytes = new BigInt64Array(held);
    this.#own = 2 + reader;
  }

  get bytes(): number {
    return Number(Atomics.load(this.#bytes, 0));
  }

  add(bytes: number): number {
    Atomics.add(this.#bytes, this.#own, BigInt(bytes));
    return Number(Atomics.add(this.#bytes, 0, BigInt(bytes)));
  }

  /** Takes back what the thread has added, which is gone. */
  clear(): void {
    const own = Atomics.exchange(this.#bytes, this.#own, 0n);
    Atomics.sub(this.#bytes, 0, own);
  }
}

/** One of several numbers. */
export class SharedNumber {
  readonly #numbers: Int32Array;

  constructor(
    readonly memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT),
    readonly index = 0,
  ) {
    this.#numbers = new Int32Array(memory);
  }

  get value(): number {
    return Atomics.load(this.#numbers, this.index);
  }

  set value(value: number) {
    Atomics.store(this.#numbers, this.index, value);
  }

  add(change: number): void {
    Atomics.add(this.#numbers, this.index, change);
  }
}

import { elementCount } from './check';

/**
 * The most that one call may be expected to take where the event loop's thread runs it. Handing a call to another
 * thread and back takes 10 to 120 µs on a virtual machine (its sleeping processors have to be woken), which is as much
 * as many a call itself and a tenth of the longest here; in exchange the loop has that time for itself. A thread that
 * looks for the next call for 300 µs before it sleeps would save nearly all of it, at twice the processor time a call.
 */
const LONGEST_CALL = 0.5;

/**
 * The same for a run of a network that was measured, where the loop has little else to do. With the other threads' help a
 * run takes as long here as there, and the way there and back adds 0.1 to 0.4 ms, mostly to wake two threads. The loop is
 * held up no longer than by a request's JSON; onnxruntime-node holds it up for every run.
 */
export const LONGEST_RUN = 3;

/** Milliseconds from the first such call until the loop has to turn before there is another. */
const BUDGET = 1;

/**
 * Milliseconds after which the loop counts as turned. A test framework may have faked the immediate that tells of it,
 * and thrown it away. A call that was refused has let the loop turn by then.
 */
const LONGEST_TURN = 100;

/** Bytes that come from memory and go there in a millisecond, where no cache holds them. */
const MOVED_BYTES = 1e7;

/**
 * Bytes of weights packed in a millisecond: 7e6 of 3x3 filters, 1.3e6 of those that winograd transforms, 2.2e6 of 1x1 ones on
 * one Zen 4 core.
 */
const PACKED_BYTES = 1.3e6;

/**
 * Milliseconds that a run may be expected to take: its arithmetic, which is what the planner predicts, and bringing its
 * tensors, which is most of it where there is little arithmetic for each element.
 */
export function runMilliseconds(arithmetic: number, ...tensors: readonly (readonly number[])[]): number {
  return tensors.reduce((total, dims) => total + bytesOf(dims) / MOVED_BYTES, arithmetic);
}

/** Milliseconds that packing weights may be expected to take. */
export function packMilliseconds(weightDims: readonly number[]): number {
  return bytesOf(weightDims) / PACKED_BYTES;
}

function bytesOf(dims: readonly number[]): number {
  return elementCount(dims) * Float32Array.BYTES_PER_ELEMENT;
}

/**
 * Which calls run on the event loop's thread: short ones, and no longer than {@link BUDGET} before the loop turns.
 * A promise that is settled already does not let it turn, so that without this an endless `await plan.run(input)` would
 * keep timers and sockets waiting for ever.
 */
export class LoopBudget {
  /** When the first call since the loop last turned came; what else has run since counts too. */
  #since: number | undefined;

  /** Whether a call that is expected to take so long may run now. */
  admits(milliseconds: number, longest = LONGEST_CALL): boolean {
    if (milliseconds > longest) return false;
    const now = performance.now();
    if (this.#since !== undefined && now < this.#since + LONGEST_TURN) {
      return now + milliseconds <= this.#since + BUDGET;
    }
    this.#since = now;
    // It keeps the process for this one turn. Without a reference the loop would sleep, the budget still spent.
    setImmediate(() => (this.#since = undefined));
    return true;
  }

  /** Whether nothing has run since the loop last turned. */
  isWhole(): boolean {
    return this.#since === undefined || performance.now() >= this.#since + LONGEST_TURN;
  }

  /** Called when the loop is known to have turned. */
  renew(): void {
    this.#since = undefined;
  }
}

/** Milliseconds for which calls are expected to overlap after they have. */
const CROWDED = 100;

/** Milliseconds of sleep at least, in which somebody else could have sent a request that came alone. */
const LEAST_SLEEP = 0.01;

/**
 * Whether one call may be expected to come while another runs. Then each had better have a thread to itself: two threads
 * that share a run get less done, and the loop has requests to read.
 */
export class Crowd {
  #seen = -Infinity;
  /** Of the last run on the loop's thread: when it ended, and how long the loop had slept until then */
  #ended = -Infinity;
  #slept = 0;

  /** Called when calls overlap. */
  note(): void {
    this.#seen = performance.now();
  }

  /** Called when a run on the loop's thread has ended. */
  ran(): void {
    this.#ended = performance.now();
    this.#slept = sleptUntilNow();
  }

  /** Whether calls have overlapped lately. */
  isThere(): boolean {
    return performance.now() < this.#seen + CROWDED;
  }

  /**
   * The same, of a run that comes now and is not the next of a chain. Where runs hold the loop up none is seen to overlap;
   * but then the next one has come meanwhile, and the loop has not slept before it.
   */
  isFound(): boolean {
    const isClose = performance.now() < this.#ended + CROWDED;
    if (isClose && sleptUntilNow() < this.#slept + LEAST_SLEEP) this.note();
    return this.isThere();
  }
}

function sleptUntilNow(): number {
  return performance.eventLoopUtilization().idle;
}

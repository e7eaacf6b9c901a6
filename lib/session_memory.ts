/** What a session takes of memory, and what it may. */
import { availableMemory, LEAST_CHECKED_BYTES } from './allocation';
import { elementCount } from './check';
import { WarpconvError } from './errors';
import type { Compiled } from './model/compile';
import type { Place } from './placement';

/** The bytes of a compiled network. */
export interface Footprint {
  /** As long as it is kept: packed weights and, on a GPU, the memory of a run */
  readonly kept: number;
  /** For the tensors between the steps of a run; each of several runs at once has its own */
  readonly arena: number;
  /** For the outputs of a run */
  readonly outputs: number;
}

/** What a network will take, as far as that can be known before weights are packed. */
export function footprintOf({ program }: Compiled, place: Place): Footprint {
  const { arenaBytes, inputBytes, outputBytes, constants } = program;
  const outputs = sumOf(outputBytes);
  if (place === 'cpu') return { kept: weightBytes(program), arena: arenaBytes, outputs };
  const ports = GPU_PORTS * (sumOf(inputBytes) + outputs);
  return {
    kept: sumOf(constants.map(({ byteLength }) => byteLength)) + arenaBytes + ports,
    arena: 0,
    outputs: 0,
  };
}

/** A run's inputs and outputs are copied while the next one computes. */
const GPU_PORTS = 2;

function weightBytes({ steps }: Compiled['program']): number {
  const weights = steps.map((step) =>
    step.kind === 'convolution' && step.weight.space === 'constant' ? step.convolution.weightDims : [0],
  );
  return sumOf(weights.map((dims) => elementCount(dims) * Float32Array.BYTES_PER_ELEMENT));
}

export function sumOf(bytes: readonly number[]): number {
  return bytes.reduce((sum, count) => sum + count, 0);
}

/** What is asked of a session's memory. */
export interface Demand {
  /** As a message calls it, for example `'a run'` */
  readonly what: string;
  /** Bytes that are taken now */
  readonly taken: number;
  /** Bytes that will be needed at the same time, and are taken later */
  readonly later: number;
  /** Bytes of all these that the system has still to give; 0 where they are a GPU's */
  readonly unallocated: number;
}

/** Counts what the programs and runs of a session take. */
export class SessionMemory {
  #taken = 0;

  /** @param limit - the most bytes at once */
  constructor(readonly limit: number) {}

  /** Whether a run that needs so few bytes can be left unchecked. */
  isAmple(bytes: number): boolean {
    return this.limit === Infinity && bytes < LEAST_CHECKED_BYTES;
  }

  /**
   * Takes memory, of programs that are disposed where there is none left.
   *
   * @param evict - disposes a program, unless there is none
   * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  take(demand: Demand, evict: () => boolean): void {
    for (;;) {
      const shortage = this.#shortage(demand);
      if (shortage === undefined) break;
      if (demand.taken + demand.later > this.limit || !evict()) throw outOfMemory(demand, shortage);
    }
    this.#taken += demand.taken;
  }

  /** Takes what is known to be there. */
  keep(bytes: number): void {
    this.#taken += bytes;
  }

  giveBack(bytes: number): void {
    this.#taken -= bytes;
  }

  #shortage({ taken, later, unallocated }: Demand): string | undefined {
    const others = this.#taken;
    if (others + taken + later > this.limit) {
      const beside = others > 0 ? ` besides the ${others} that other dims and runs take` : '';
      return `options.memoryLimit is ${this.limit}${beside}; raise it`;
    }
    if (unallocated === 0) return undefined;
    const available = availableMemory();
    return unallocated > available ? `${available} are available; free memory` : undefined;
  }
}

function outOfMemory({ what, taken, later }: Demand, shortage: string): WarpconvError {
  const message = `${what} needs ${taken + later} bytes of memory, and ${shortage}, or use smaller inputs`;
  return new WarpconvError('ERR_WARPCONV_OUT_OF_MEMORY', message);
}

/** What a session takes of memory, and what it may. */
import { availableMemory, LEAST_CHECKED_BYTES } from '../tensor/allocation';
import { elementCount } from '../check';
import { WarpconvError } from '../errors';
import type { Compiled } from '../model/compile';
import type { Place } from '../placement';

/** The bytes that a compiled network takes of its device's memory, as far as that is known before weights are packed. */
export interface Footprint {
  /** By the constants that other programs of the session may have, too: packed weights and, on a GPU, copies */
  readonly shared: ReadonlyMap<ArrayBufferView, number>;
  /** Of its own constants */
  readonly own: number;
  /** For the tensors between the steps of a run and, on a GPU, its inputs and outputs */
  readonly scratch: number;
  /** For the outputs of a run that are in that memory */
  readonly outputs: number;
  /** Of CPU memory for the outputs of a run, wherever it is computed */
  readonly hostOutputs: number;
}

/** @param resident - the names of the outputs that are made on a GPU */
export function footprintOf(
  { program, outputs: ports }: Compiled,
  place: Place,
  resident: ReadonlySet<string>,
): Footprint {
  const { arenaBytes, inputBytes, outputBytes, constants, sharedConstants } = program;
  const outputs = sumOf(outputBytes);
  const bytes = place === 'cpu' ? weightBytes(program) : constants.map(({ byteLength }) => byteLength);
  const isShared = (_: unknown, i: number) => sharedConstants[i];
  const shared = new Map(constants.map((constant, i) => [constant, bytes[i]!] as const).filter(isShared));
  const own = sumOf(bytes) - sumOf([...shared.values()]);
  if (place === 'cpu') return { shared, own, scratch: arenaBytes, outputs, hostOutputs: outputs };
  const scratch = arenaBytes + GPU_PORTS * (sumOf(inputBytes) + outputs);
  const onGpu = sumOf(outputBytes.filter((_, i) => resident.has(ports[i]!.name)));
  return { shared, own, scratch, outputs: onGpu, hostOutputs: outputs - onGpu };
}

/** A run's inputs and outputs are copied while the next one computes. */
const GPU_PORTS = 2;

/** For each constant what it takes as a convolution's packed weights. */
function weightBytes({ steps, constants }: Compiled['program']): number[] {
  const bytes = new Array<number>(constants.length).fill(0);
  for (const step of steps) {
    if (step.kind !== 'convolution' || step.weight.space !== 'constant') continue;
    const { weightDims } = step.convolution;
    bytes[step.weight.index] = elementCount(weightDims) * Float32Array.BYTES_PER_ELEMENT;
  }
  return bytes;
}

export function sumOf(bytes: readonly number[]): number {
  return bytes.reduce((sum, count) => sum + count, 0);
}

/** What is asked of a session's memory. */
export interface Demand {
  /** As a message calls it, for example `'a run'` */
  readonly what: string;
  /** Bytes that it would take if it were alone */
  readonly alone: number;
  /** Bytes that it takes beside what there is */
  readonly more: number;
  /** Bytes that the system has still to give; 0 where they are a GPU's */
  readonly unallocated: number;
}

/** Keeps what a session takes within its limit. */
export class SessionMemory {
  #taken = 0;

  /**
   * @param limit - the most bytes at once
   * @param held - what programs hold now
   */
  constructor(
    readonly limit: number,
    readonly held: () => number,
  ) {}

  /** Whether a run that needs so few bytes can be left unchecked. */
  isAmple(bytes: number): boolean {
    return this.limit === Infinity && bytes < LEAST_CHECKED_BYTES;
  }

  /**
   * Sees to it that there is so much memory, of programs that are disposed where there is none left. Takes nothing.
   *
   * @param evict - disposes a program, or gives other memory back; false where there is none
   * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  require(demand: Demand, evict: () => boolean): void {
    for (;;) {
      const shortage = this.#shortage(demand);
      if (shortage === undefined) return;
      if (demand.alone > this.limit || !evict()) throw outOfMemory(demand, shortage);
    }
  }

  /** Takes what is not held by a program: outputs, and what a program is going to hold. */
  take(bytes: number): void {
    this.#taken += bytes;
  }

  giveBack(bytes: number): void {
    this.#taken -= bytes;
  }

  #shortage({ more, unallocated }: Demand): string | undefined {
    const others = this.limit === Infinity ? 0 : this.#taken + this.held();
    if (others + more > this.limit) {
      const beside = others > 0 ? ` besides the ${others} that other dims and runs take` : '';
      return `options.memoryLimit is ${this.limit}${beside}; raise it`;
    }
    if (unallocated === 0) return undefined;
    const available = availableMemory(unallocated);
    return unallocated > available ? `${available} are available; free memory` : undefined;
  }
}

function outOfMemory({ what, alone }: Demand, shortage: string): WarpconvError {
  const message = `${what} needs ${alone} bytes of memory, and ${shortage}, or use smaller inputs`;
  return new WarpconvError('ERR_WARPCONV_OUT_OF_MEMORY', message);
}

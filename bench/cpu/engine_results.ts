/** What is stored of the CPU engine itself. */
import type { Layer } from '../layers';
import type { Circumstances } from '../results';

export const PACKING_ALGORITHMS = ['sconv', 'im2col'] as const;
export type PackingAlgorithm = (typeof PACKING_ALGORITHMS)[number];

export interface PackingTime {
  /** Milliseconds of a run, and of rearranging its input */
  readonly total: number;
  readonly packing: number;
}

export interface PackingResult extends Circumstances {
  readonly layers: readonly (Layer & { readonly ms: Readonly<Record<PackingAlgorithm, PackingTime>> })[];
}

export interface Counts {
  readonly instructions: number;
  /** Reads and writes of data */
  readonly accesses: number;
  readonly l1Misses: number;
  readonly l2Misses: number;
}

export interface CacheResult extends Circumstances {
  readonly layers: readonly (Layer & { readonly counts: Readonly<Record<PackingAlgorithm, Counts>> })[];
}

export interface AblationResult extends Circumstances {
  readonly variants: readonly string[];
  /** Milliseconds by variant; those are missing that a layer cannot have or that change nothing in it */
  readonly layers: readonly (Layer & { readonly ms: Readonly<Record<string, number>> })[];
}

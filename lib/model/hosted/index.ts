/**
 * Operators that are computed between two programs, by JavaScript on the CPU: of which only a run knows what dims their
 * outputs have, or how often a graph of theirs runs.
 */
import type { GraphNode } from '../graph';
import type { Hosted } from './hosted';
import { loop, scan } from './loops';
import { nonMaxSuppression } from './non_max_suppression';
import { compress, nonZero, range, unique } from './selection';

const HOSTED: Readonly<Record<string, Hosted>> = {
  Compress: compress,
  Loop: loop,
  NonMaxSuppression: nonMaxSuppression,
  NonZero: nonZero,
  Range: range,
  Scan: scan,
  Unique: unique,
};

export type { BodyRun } from './hosted';

export function isHosted(node: GraphNode): boolean {
  return hostedOf(node) !== undefined;
}

export function hostedOf({ domain, operator }: GraphNode): Hosted | undefined {
  return domain === '' && Object.hasOwn(HOSTED, operator) ? HOSTED[operator] : undefined;
}

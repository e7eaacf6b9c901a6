/**
 * Operators that JavaScript computes on the CPU, between two native programs. Only a run knows the dims of their outputs,
 * or how often it runs their body.
 */
import type { GraphNode } from '../graph';
import type { Hosted } from './hosted';
import { branch, loop, scan } from './loops';
import { nonMaxSuppression } from './non_max_suppression';
import { compress, nonZero, range, unique } from './selection';

/** By ONNX's name. */
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

/** Of ONNX's own operators, those that are computed between programs. */
export function hostedNames(): string[] {
  return Object.keys(HOSTED).sort();
}

export function isHosted({ domain, operator }: GraphNode): boolean {
  return domain === '' && Object.hasOwn(HOSTED, operator);
}

/** What computes a node between two programs: of an If, whose branch is compiled in mostly, too. */
export function hostedOf({ domain, operator }: GraphNode): Hosted | undefined {
  if (domain !== '') return undefined;
  if (operator === 'If') return branch;
  return Object.hasOwn(HOSTED, operator) ? HOSTED[operator] : undefined;
}

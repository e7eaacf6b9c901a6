/** Quantiles of the latencies that client processes counted in buckets. */

/** Bucket i is from `least * growth ** i` milliseconds to the next; the first and the last take all that is beyond. */
export interface Scale {
  readonly least: number;
  readonly growth: number;
  readonly buckets: number;
}

/** From 10 µs to 10 minutes. The middle of a bucket is within 0.5 % of all that is in it. */
export const SCALE: Scale = { least: 0.01, growth: 1.01, buckets: 1800 };

/** The counts of several processes together. */
export function addCounts(all: readonly Float64Array[]): Float64Array {
  const total = new Float64Array(SCALE.buckets);
  for (const counts of all) counts.forEach((count, bucket) => (total[bucket]! += count));
  return total;
}

/** Milliseconds, as `quantile` of statistics.ts has it, within a bucket; NaN where there is none. */
export function quantileOf(counts: Float64Array, part: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const rank = Math.min(total - 1, Math.floor(part * total));
  let below = 0;
  const bucket = counts.findIndex((count) => (below += count) > rank);
  return total === 0 ? NaN : SCALE.least * SCALE.growth ** (bucket + 0.5);
}

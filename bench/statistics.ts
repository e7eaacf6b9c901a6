export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function geometricMean(values: readonly number[]): number {
  return Math.exp(sum(values.map(Math.log)) / values.length);
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

/** A measurement without the digits that are noise: a time's quartiles differ in the third or fourth. */
export function significant(value: number, digits = 5): number {
  return Number(value.toPrecision(digits));
}

/** The value that so large a part of the others is not above; NaN where there is none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

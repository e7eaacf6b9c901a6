export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function geometricMean(values: readonly number[]): number {
  return Math.exp(sum(values.map(Math.log)) / values.length);
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

/** Counts latencies by the buckets of a scale (latencies.ts), in memory that does not grow. */
export class LatencyCounts {
  /** Of each bucket */
  counts;
  #least;
  #perBucket;

  /** @param {import('./latencies').Scale} scale */
  constructor({ least, growth, buckets }) {
    this.counts = new Float64Array(buckets);
    this.#least = least;
    this.#perBucket = Math.log(growth);
  }

  /** @param {number} milliseconds */
  add(milliseconds) {
    const bucket = Math.floor(Math.log(milliseconds / this.#least) / this.#perBucket);
    this.counts[Math.min(Math.max(bucket, 0), this.counts.length - 1)]++;
  }
}

/**
 * Counters in the text format of Prometheus, version 0.0.4. These four kinds are all there is to it, and a client library
 * would be a third dependency that everybody installs; see docs/serving.md for use beside prom-client.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';

type Labels = Readonly<Record<string, string>>;

interface Metric {
  /** Samples, without the name of the metric in front. */
  samples(): Iterable<string>;
}

interface Entry<T> {
  readonly labels: Labels;
  readonly value: T;
}

/** What has been counted for each set of labels. They are put into words when somebody asks, which is seldom. */
class Labelled<T> {
  readonly #entries = new Map<string, Entry<T>>();

  /** @param initial - makes what is there before anything has been counted */
  constructor(readonly initial: () => T) {}

  get(labels: Labels): T {
    const key = Object.values(labels).join('\0');
    let entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, (entry = { labels, value: this.initial() }));
    return entry.value;
  }

  entries(): readonly Entry<T>[] {
    return [...this.#entries.values()];
  }
}

interface Count {
  count: number;
}

class Counter implements Metric {
  readonly #counts = new Labelled<Count>(() => ({ count: 0 }));

  add(labels: Labels): void {
    this.#counts.get(labels).count++;
  }

  snapshot(): readonly Entry<Count>[] {
    return this.#counts.entries();
  }

  absorb(entries: readonly Entry<Count>[]): void {
    for (const { labels, value } of entries) this.#counts.get(labels).count += value.count;
  }

  *samples(): Iterable<string> {
    for (const { labels, value } of this.#counts.entries()) yield `${labelText(labels)} ${value.count}`;
  }
}

interface Distribution {
  /** Observations up to each bound, not counting those up to the bound before. */
  readonly counts: number[];
  count: number;
  sum: number;
}

class Histogram implements Metric {
  readonly #distributions: Labelled<Distribution>;

  /** @param bounds - upper bounds of the buckets, ascending */
  constructor(readonly bounds: readonly number[]) {
    this.#distributions = new Labelled(() => ({ counts: bounds.map(() => 0), count: 0, sum: 0 }));
  }

  observe(labels: Labels, value: number): void {
    const distribution = this.#distributions.get(labels);
    const bucket = this.bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) distribution.counts[bucket]!++;
    distribution.count++;
    distribution.sum += value;
  }

  snapshot(): readonly Entry<Distribution>[] {
    return this.#distributions.entries();
  }

  /** @param entries - of a histogram with the same bounds */
  absorb(entries: readonly Entry<Distribution>[]): void {
    for (const { labels, value } of entries) {
      const distribution = this.#distributions.get(labels);
      value.counts.forEach((count, bucket) => (distribution.counts[bucket]! += count));
      distribution.count += value.count;
      distribution.sum += value.sum;
    }
  }

  *samples(): Iterable<string> {
    for (const { labels, value } of this.#distributions.entries()) {
      const { counts, count, sum } = value;
      let below = 0;
      for (const [index, bound] of this.bounds.entries()) {
        below += counts[index]!;
        yield `_bucket${labelText({ ...labels, le: String(bound) })} ${below}`;
      }
      yield `_bucket${labelText({ ...labels, le: '+Inf' })} ${count}`;
      yield `_sum${labelText(labels)} ${sum}`;
      yield `_count${labelText(labels)} ${count}`;
    }
  }
}

/** A sum and a count, whose quotient over any time is the mean. */
class Summary implements Metric {
  readonly #totals = new Labelled(() => ({ count: 0, sum: 0 }));

  observe(labels: Labels, value: number): void {
    const totals = this.#totals.get(labels);
    totals.count++;
    totals.sum += value;
  }

  *samples(): Iterable<string> {
    for (const { labels, value } of this.#totals.entries()) {
      yield `_sum${labelText(labels)} ${value.sum}`;
      yield `_count${labelText(labels)} ${value.count}`;
    }
  }
}

class Gauge implements Metric {
  constructor(readonly read: () => Iterable<readonly [Labels, number]>) {}

  *samples(): Iterable<string> {
    for (const [labels, value] of this.read()) yield `${labelText(labels)} ${value}`;
  }
}

function labelText(labels: Labels): string {
  const entries = Object.entries(labels);
  if (entries.length === 0) return '';
  return `{${entries.map(([name, value]) => `${name}="${escapeLabel(value)}"`).join()}}`;
}

function escapeLabel(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}

/** What the server counts of itself whenever it is asked. */
export interface Gauges {
  /** Waiting requests by model. */
  readonly queueLengths: () => Iterable<readonly [model: string, length: number]>;
  readonly heldBytes: () => number;
}

/** What one thread has counted of the requests that it answered: plain data. */
export interface RequestCounts {
  readonly requests: readonly Entry<Count>[];
  readonly durations: readonly Entry<Distribution>[];
  readonly inFlight: number;
  /** Nanoseconds by which the event loop was late, in at most half of the cases and so on */
  readonly delays: Delays;
}

interface Delays {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const REQUESTS = [1, 2, 4, 8, 16, 32, 64, 128];
/** Of the timer whose lateness is the delay of the event loop. Node.js's figures have this in them. */
const RESOLUTION_MS = 10;

/** Counts the requests that a thread answers. */
export class RequestMetrics {
  inFlight = 0;
  readonly #requests = new Counter();
  readonly #durations = new Histogram(SECONDS);
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

  constructor() {
    this.#delay.enable();
  }

  /** @param model - the empty string where the request named none that is served */
  answered(model: string, status: number, milliseconds: number): void {
    this.#requests.add({ model, status: String(status) });
    this.#durations.observe({ model }, milliseconds / 1e3);
  }

  /** So far. Delays of the event loop are those since they were last reset. */
  counts(): RequestCounts {
    const delays = {
      p50: this.#delay.percentile(50),
      p99: this.#delay.percentile(99),
      max: this.#delay.max,
    };
    const [requests, durations] = [this.#requests.snapshot(), this.#durations.snapshot()];
    return { requests, durations, inFlight: this.inFlight, delays };
  }

  resetDelays(): void {
    this.#delay.reset();
  }

  close(): void {
    this.#delay.disable();
  }
}

/** Counts the runs of models. */
export class RunMetrics {
  readonly batches = new Histogram(REQUESTS);
  readonly runs = new Summary();

  ran(model: string, requests: number, milliseconds: number): void {
    this.batches.observe({ model }, requests);
    this.runs.observe({ model, requests: String(requests) }, milliseconds / 1e3);
  }
}

type Family = readonly [name: string, type: string, help: string, metric: Metric];

/** A page of all that was counted, by one thread or several. */
export function metricsPage(
  threads: readonly RequestCounts[],
  { batches, runs }: RunMetrics,
  gauges: Gauges,
): string {
  const { requests, durations } = together(threads);
  const inFlight = threads.reduce((sum, thread) => sum + thread.inFlight, 0);
  const queue = new Gauge(() => Array.from(gauges.queueLengths(), ([model, length]) => [{ model }, length]));
  return textOf([
    ['requests_total', 'counter', 'Inference requests that were answered.', requests],
    ['request_duration_seconds', 'histogram', 'From the headers to the answer.', durations],
    ['batch_size', 'histogram', 'Requests that one run of the model served.', batches],
    ['run_duration_seconds', 'summary', 'Runs of the model, by the requests that they served.', runs],
    ['queue_length', 'gauge', 'Requests that wait for the model.', queue],
    ['requests_in_flight', 'gauge', 'Inference requests that are not answered yet.', single(inFlight)],
    ['held_bytes', 'gauge', 'Bytes that requests and answers take up.', single(gauges.heldBytes())],
    ...delayFamilies(threads.map(({ delays }) => delays)),
  ]);
}

function together(threads: readonly RequestCounts[]) {
  const requests = new Counter();
  const durations = new Histogram(SECONDS);
  for (const thread of threads) {
    requests.absorb(thread.requests);
    durations.absorb(thread.durations);
  }
  return { requests, durations };
}

/** What threads had counted that have ended: nothing of theirs is in flight or late any more. */
export function pastCounts(threads: readonly RequestCounts[]): RequestCounts {
  const { requests, durations } = together(threads);
  const delays = { p50: 0, p99: 0, max: 0 };
  return { requests: requests.snapshot(), durations: durations.snapshot(), inFlight: 0, delays };
}

function single(value: number): Metric {
  return new Gauge(() => [[{}, value]]);
}

/** Of several threads, that of the one that was late most. */
function delayFamilies(threads: readonly Delays[]): Family[] {
  const since = 'delay of the event loop since this was last asked for.';
  const latest = (read: (delays: Delays) => number) =>
    single(Math.max(0, ...threads.map((delays) => read(delays) / 1e9 - RESOLUTION_MS / 1e3)));
  return [
    ['event_loop_delay_p50_seconds', 'gauge', `Median ${since}`, latest(({ p50 }) => p50)],
    ['event_loop_delay_p99_seconds', 'gauge', `99th percentile of the ${since}`, latest(({ p99 }) => p99)],
    ['event_loop_delay_max_seconds', 'gauge', `Longest ${since}`, latest(({ max }) => max)],
  ];
}

function textOf(families: readonly Family[]): string {
  const lines: string[] = [];
  for (const [suffix, type, help, metric] of families) {
    const name = `warpconv_${suffix}`;
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const sample of metric.samples()) lines.push(name + sample);
  }
  return `${lines.join('\n')}\n`;
}

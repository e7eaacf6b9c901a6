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

/** What has been counted for each set of labels. They are put into words when somebody asks, which is seldom. */
class Labelled<T> {
  readonly #entries = new Map<string, { readonly labels: Labels; readonly value: T }>();

  /** @param initial - makes what is there before anything has been counted */
  constructor(readonly initial: () => T) {}

  get(labels: Labels): T {
    const key = Object.values(labels).join('\0');
    let entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, (entry = { labels, value: this.initial() }));
    return entry.value;
  }

  entries(): Iterable<{ readonly labels: Labels; readonly value: T }> {
    return this.#entries.values();
  }
}

class Counter implements Metric {
  readonly #counts = new Labelled(() => ({ count: 0 }));

  add(labels: Labels): void {
    this.#counts.get(labels).count++;
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
  readonly inFlight: () => number;
  readonly heldBytes: () => number;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const REQUESTS = [1, 2, 4, 8, 16, 32, 64, 128];
/** Of the timer whose lateness is the delay of the event loop. Node.js's figures have this in them. */
const RESOLUTION_MS = 10;

export class Metrics {
  readonly #requests = new Counter();
  readonly #durations = new Histogram(SECONDS);
  readonly #batches = new Histogram(REQUESTS);
  readonly #runs = new Summary();
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  readonly #families: readonly [name: string, type: string, help: string, metric: Metric][];

  constructor({ queueLengths, inFlight, heldBytes }: Gauges) {
    this.#delay.enable();
    const single = (read: () => number) => new Gauge(() => [[{}, read()]]);
    const delay = (nanoseconds: () => number) =>
      single(() => Math.max(0, nanoseconds() / 1e9 - RESOLUTION_MS / 1e3));
    const queue = new Gauge(() => Array.from(queueLengths(), ([model, length]) => [{ model }, length]));
    this.#families = [
      ['requests_total', 'counter', 'Inference requests that were answered.', this.#requests],
      ['request_duration_seconds', 'histogram', 'From the headers to the answer.', this.#durations],
      ['batch_size', 'histogram', 'Requests that one run of the model served.', this.#batches],
      ['run_duration_seconds', 'summary', 'Runs of the model, by the requests that they served.', this.#runs],
      ['queue_length', 'gauge', 'Requests that wait for the model.', queue],
      ['requests_in_flight', 'gauge', 'Inference requests that are not answered yet.', single(inFlight)],
      ['held_bytes', 'gauge', 'Bytes that requests and answers take up.', single(heldBytes)],
      ...this.#delayFamilies(delay),
    ];
  }

  #delayFamilies(delay: (nanoseconds: () => number) => Gauge): [string, string, string, Metric][] {
    const since = 'delay of the event loop since this was last asked for.';
    return [
      ['event_loop_delay_p50_seconds', 'gauge', `Median ${since}`, delay(() => this.#delay.percentile(50))],
      [
        'event_loop_delay_p99_seconds',
        'gauge',
        `99th percentile of the ${since}`,
        delay(() => this.#delay.percentile(99)),
      ],
      ['event_loop_delay_max_seconds', 'gauge', `Longest ${since}`, delay(() => this.#delay.max)],
    ];
  }

  /** @param model - the empty string where the request named none that is served */
  answered(model: string, status: number, milliseconds: number): void {
    this.#requests.add({ model, status: String(status) });
    this.#durations.observe({ model }, milliseconds / 1e3);
  }

  ran(model: string, requests: number, milliseconds: number): void {
    this.#batches.observe({ model }, requests);
    this.#runs.observe({ model, requests: String(requests) }, milliseconds / 1e3);
  }

  text(): string {
    const lines: string[] = [];
    for (const [suffix, type, help, metric] of this.#families) {
      const name = `warpconv_${suffix}`;
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
      for (const sample of metric.samples()) lines.push(name + sample);
    }
    this.#delay.reset();
    return `${lines.join('\n')}\n`;
  }

  close(): void {
    this.#delay.disable();
  }
}

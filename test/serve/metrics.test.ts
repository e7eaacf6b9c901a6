/** What `/metrics` says, read by the rules of Prometheus's text format. */
import { createHandler } from '../../lib/serve';
import { postJson, request } from './support/client';
import { doublingRequest, doublingSession, FakeSession } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, until } from './support/serving';

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

interface Family {
  type?: string;
  help?: string;
  readonly samples: Map<string, number>;
}

/** Parses the exposition format, version 0.0.4, and fails at whatever is none of it. */
function parse(text: string): Map<string, Family> {
  expect(text.endsWith('\n')).toBe(true);
  const families = new Map<string, Family>();
  const family = (name: string) => {
    if (!families.has(name)) families.set(name, { samples: new Map() });
    return families.get(name)!;
  };
  for (const line of text.trimEnd().split('\n')) {
    const comment = /^# (HELP|TYPE) ([a-z_0-9]+) (.+)$/.exec(line);
    if (comment) {
      family(comment[2]!)[comment[1] === 'HELP' ? 'help' : 'type'] = comment[3]!;
      continue;
    }
    const label = '[a-z_]+="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
    const sample = new RegExp(`^([a-z_0-9]+)((?:\\{${label}(?:,${label})*\\})?) (\\S+)$`).exec(line);
    if (!sample) throw new Error(`not of the format: ${line}`);
    const name = sample[1]!;
    const base = families.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '');
    expect(families.get(base)?.type).toBeDefined();
    const { samples } = families.get(base)!;
    expect(samples.has(name + sample[2]!)).toBe(false);
    expect(Number.isNaN(Number(sample[3]))).toBe(false);
    samples.set(name + sample[2]!, Number(sample[3]));
  }
  return families;
}

async function scrape(url: string): Promise<Map<string, Family>> {
  const { status, headers, body } = await request(url, { path: '/metrics' });
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  return parse(body.toString());
}

const infer = (url: string, body: object = doublingRequest([[1, 2]])) =>
  postJson(url, '/v2/models/double/infer', body);

test('every metric has a type and a help text', async () => {
  const { url } = await open({ models: { double: doublingSession() } });
  await infer(url);
  const families = await scrape(url);
  expect([...families].map(([name, { type }]) => [name, type])).toEqual([
    ['warpconv_requests_total', 'counter'],
    ['warpconv_request_duration_seconds', 'histogram'],
    ['warpconv_batch_size', 'histogram'],
    ['warpconv_run_duration_seconds', 'summary'],
    ['warpconv_queue_length', 'gauge'],
    ['warpconv_requests_in_flight', 'gauge'],
    ['warpconv_held_bytes', 'gauge'],
    ['warpconv_event_loop_delay_p50_seconds', 'gauge'],
    ['warpconv_event_loop_delay_p99_seconds', 'gauge'],
    ['warpconv_event_loop_delay_max_seconds', 'gauge'],
  ]);
  for (const { help, samples } of families.values()) {
    expect(help).toMatch(/^[A-Z0-9].*\.$/);
    expect(samples.size).toBeGreaterThan(0);
  }
});

test('requests by model and status, and their durations', async () => {
  const { url } = await open({ models: { double: doublingSession(), other: doublingSession() } });
  await infer(url);
  await infer(url);
  await infer(url, {});
  await postJson(url, '/v2/models/other/infer', doublingRequest([[1, 2]]));
  const families = await scrape(url);
  expect(Object.fromEntries(families.get('warpconv_requests_total')!.samples)).toEqual({
    'warpconv_requests_total{model="double",status="200"}': 2,
    'warpconv_requests_total{model="double",status="400"}': 1,
    'warpconv_requests_total{model="other",status="200"}': 1,
  });
  const durations = families.get('warpconv_request_duration_seconds')!.samples;
  const buckets = [...durations].filter(([name]) => name.includes('_bucket{model="double"'));
  const counts = buckets.map(([, count]) => count);
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(buckets.at(-1)).toEqual(['warpconv_request_duration_seconds_bucket{model="double",le="+Inf"}', 3]);
  expect(durations.get('warpconv_request_duration_seconds_count{model="double"}')).toBe(3);
  expect(durations.get('warpconv_request_duration_seconds_sum{model="double"}')).toBeGreaterThan(0);
});

test('durations are in seconds', async () => {
  const session = doublingSession();
  const { url } = await open({ models: { double: session }, timeout: 120 });
  session.hold();
  await infer(url);
  session.open();
  const samples = (await scrape(url)).get('warpconv_request_duration_seconds')!.samples;
  const bucket = (le: string) =>
    samples.get(`warpconv_request_duration_seconds_bucket{model="double",le="${le}"}`);
  // It took the 0.12 s of the timeout at least; how much more depends on the machine.
  expect([bucket('0.1'), bucket('+Inf')]).toEqual([0, 1]);
  expect(samples.get('warpconv_request_duration_seconds_sum{model="double"}')).toBeGreaterThanOrEqual(0.119);
  expect(samples.get('warpconv_request_duration_seconds_sum{model="double"}')).toBeLessThan(100);
});

test('the queue, the sizes of batches, and the times of their runs', async () => {
  joinAll();
  const session = doublingSession();
  const { url, handler } = await open({ models: { double: session } });
  session.hold();
  const answers = [1, 2, 3, 4, 5].map(() => infer(url));
  await until(() => handler.metrics().includes('warpconv_queue_length{model="double"} 4\n'));
  const before = await scrape(url);
  expect([...before.get('warpconv_requests_in_flight')!.samples.values()]).toEqual([5]);
  expect([...before.get('warpconv_held_bytes')!.samples.values()][0]).toBeGreaterThan(0);
  const held = 20;
  await new Promise((resolve) => setTimeout(resolve, held));
  session.open();
  await Promise.all(answers);
  const after = await scrape(url);
  expect([...after.get('warpconv_queue_length')!.samples]).toEqual([
    ['warpconv_queue_length{model="double"}', 0],
  ]);
  const sizes = after.get('warpconv_batch_size')!.samples;
  const bucket = (le: string) => sizes.get(`warpconv_batch_size_bucket{model="double",le="${le}"}`);
  expect(['1', '2', '4', '128', '+Inf'].map(bucket)).toEqual([1, 1, 2, 2, 2]);
  expect(sizes.get('warpconv_batch_size_sum{model="double"}')).toBe(5);
  const times = after.get('warpconv_run_duration_seconds')!.samples;
  const time = (of: string, requests: number) =>
    times.get(`warpconv_run_duration_seconds_${of}{model="double",requests="${requests}"}`);
  expect([1, 2, 4].map((requests) => time('count', requests))).toEqual([1, undefined, 1]);
  // Only the first run was held. Timers may come up to a millisecond early.
  expect(time('sum', 1)).toBeGreaterThanOrEqual((held - 1) / 1e3);
  expect(time('sum', 4)).toBeGreaterThan(0);
});

test('names of models are escaped', async () => {
  const name = 'a"b\\c\nd';
  const { url } = await open({ models: { [name]: doublingSession() } });
  await postJson(url, `/v2/models/${encodeURIComponent(name)}/infer`, doublingRequest([[1, 2]]));
  const { samples } = (await scrape(url)).get('warpconv_requests_total')!;
  expect([...samples]).toEqual([['warpconv_requests_total{model="a\\"b\\\\c\\nd",status="200"}', 1]]);
});

test('the delay of the event loop does not count the timer that measures it', async () => {
  const { url } = await open({ models: { double: doublingSession() } });
  const median = async () =>
    [...(await scrape(url)).get('warpconv_event_loop_delay_p50_seconds')!.samples.values()][0]!;
  // The timer is set to 10 ms, so that with it this would never be less.
  do await new Promise((resolve) => setTimeout(resolve, 100));
  while ((await median()) > 0.005);
});

test('the delay of the event loop is measured anew each time', async () => {
  const { inputMetadata, outputMetadata, compute } = doublingSession();
  const session = new FakeSession(inputMetadata, outputMetadata, (feeds) => {
    const end = performance.now() + 300;
    while (performance.now() < end);
    return compute(feeds);
  });
  const { url } = await open({ models: { double: session } });
  const longest = async () =>
    [...(await scrape(url)).get('warpconv_event_loop_delay_max_seconds')!.samples.values()][0]!;
  // The timer has to have run once before it can be late.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await infer(url);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await longest()).toBeGreaterThanOrEqual(0.25);
  // On a busy processor more than one time may be long, but not all that follow.
  while ((await longest()) >= 0.25);
});

test('are there for a server that has its own', async () => {
  const handler = createHandler({ models: { double: doublingSession() } });
  expect([...parse(handler.metrics()).keys()]).toContain('warpconv_requests_total');
  handler.close();
});

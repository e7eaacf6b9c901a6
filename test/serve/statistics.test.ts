/** What runs came to, as Triton's statistics extension has it. */
import { Batcher } from '../../lib/serve/batcher';
import { Cancellation } from '../../lib/serve/cancellation';
import { readModel } from '../../lib/serve/model';
import { json, postJson, request } from './support/client';
import { doublingRequest, doublingSession, FakeSession, value } from './support/fake_session';
import { joinAll } from './support/joining';
import { closeAll, open, openThreaded } from './support/serving';

afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

interface Duration {
  readonly count: number;
  readonly ns: number;
}

interface Statistics {
  readonly name: string;
  readonly version: string;
  readonly last_inference: number;
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: Readonly<Record<string, Duration>>;
  readonly batch_stats: readonly Readonly<Record<string, unknown>>[];
}

const GOOD = doublingRequest([[1, 2]]);
const infer = (url: string, body: object = GOOD, name = 'double') =>
  postJson(url, `/v2/models/${name}/infer`, body);

async function statistics(url: string, target = 'double/stats'): Promise<readonly Statistics[]> {
  const received = await request(url, { path: `/v2/models/${target}` });
  expect(received.status).toBe(200);
  return json(received).model_stats as Statistics[];
}

const none = { count: 0, ns: 0 };
const stages = (count: number) => ({
  compute_input: { count, ns: expect.any(Number) as number },
  compute_infer: { count, ns: expect.any(Number) as number },
  compute_output: { count, ns: expect.any(Number) as number },
});

test.each([
  ['one thread', open],
  ['two threads', openThreaded],
] as const)('of one model and of all, on %s', async (_, start) => {
  const models = { double: doublingSession(), other: { session: doublingSession(), version: '7' } };
  const { url } = await start({ models });
  const untouched = { last_inference: 0, inference_count: 0, execution_count: 0, batch_stats: [] };
  const nothing = { success: none, fail: none, queue: none, ...stages(0) };
  expect(await statistics(url, 'stats')).toEqual([
    { name: 'double', version: '1', ...untouched, inference_stats: nothing },
    { name: 'other', version: '7', ...untouched, inference_stats: nothing },
  ]);
  const earliest = Date.now();
  await infer(url);
  await infer(url, doublingRequest(Array.from({ length: 3 }, () => [1, 2] as const)));
  const [double] = await statistics(url);
  expect(double).toEqual({
    ...{ name: 'double', version: '1', last_inference: expect.any(Number) },
    ...{ inference_count: 4, execution_count: 2 },
    inference_stats: {
      ...{
        success: { count: 2, ns: expect.any(Number) },
        fail: none,
        queue: { count: 2, ns: expect.any(Number) },
      },
      ...stages(2),
    },
    batch_stats: [
      { batch_size: 1, ...stages(1) },
      { batch_size: 3, ...stages(1) },
    ],
  });
  expect(double!.last_inference).toBeGreaterThanOrEqual(earliest);
  const { success, queue, compute_input, compute_infer, compute_output } = double!.inference_stats;
  const parts = [queue, compute_input, compute_infer, compute_output].map((one) => one!.ns);
  // Each is rounded to whole nanoseconds.
  expect(Math.abs(success!.ns - parts.reduce((sum, one) => sum + one))).toBeLessThanOrEqual(4);
  expect(await statistics(url, 'other/versions/7/stats')).toMatchObject([
    { name: 'other', execution_count: 0 },
  ]);
  for (const target of ['none/stats', 'other/versions/1/stats'])
    expect((await request(url, { path: `/v2/models/${target}` })).status).toBe(404);
});

test('requests that a run joins are one execution', async () => {
  joinAll();
  const session = doublingSession();
  const { url } = await open({ models: { double: session } });
  session.hold();
  const first = infer(url);
  while (session.runs.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const rest = Array.from({ length: 4 }, () => infer(url));
  while (!/queue_length{model="double"} 4/.test((await request(url, { path: '/metrics' })).body.toString()));
  session.open();
  await Promise.all([first, ...rest]);
  const [double] = await statistics(url);
  expect(double).toMatchObject({
    ...{ inference_count: 5, execution_count: 2 },
    inference_stats: { success: { count: 5 }, queue: { count: 5 }, ...stages(5) },
    batch_stats: [
      { batch_size: 1, ...stages(1) },
      { batch_size: 4, ...stages(1) },
    ],
  });
});

test('runs that fail and requests that are given up count as failed', async () => {
  const session = new FakeSession(
    [value('x', 'float32', ['N', 2])],
    [value('y', 'float32', ['N', 2])],
    () => {
      throw new Error('no');
    },
  );
  const { url } = await open({ models: { double: session }, logger: { error: () => {} } });
  expect((await infer(url)).status).toBe(500);
  session.hold();
  const late = await request(url, {
    ...{ path: '/v2/models/double/infer', body: JSON.stringify(GOOD) },
    headers: { 'Content-Type': 'application/json', 'Request-Timeout-Ms': 50 },
  });
  expect(late.status).toBe(504);
  session.open();
  const [double] = await statistics(url);
  expect(double).toMatchObject({
    inference_count: 0,
    inference_stats: { success: none, fail: { count: 2 } },
  });
});

test('a client that goes away once its request has run counts as answered', async () => {
  const model = readModel('options.models.double', 'double', doublingSession());
  const batcher = new Batcher(model, 8, () => {});
  const x = { type: 'float32', dims: [1, 2], data: Float32Array.of(1, 2), location: 'cpu' } as const;
  const cancellation = new Cancellation();
  await batcher.run(new Map([['x', x]]), model.outputs, cancellation);
  cancellation.request(new Error('gone'));
  expect(batcher.statistics.describe(model)).toMatchObject({
    inference_stats: { success: { count: 1 }, fail: none },
  });
});

test('a model without rows counts requests', async () => {
  const { url } = await open({ models: { double: { session: doublingSession(), maxBatch: 1 } } });
  await infer(url, doublingRequest(Array.from({ length: 3 }, () => [1, 2] as const)));
  expect(await statistics(url)).toMatchObject([
    { inference_count: 1, execution_count: 1, batch_stats: [{ batch_size: 1 }] },
  ]);
});

test('sizes beyond those that are counted apart are in the sums', async () => {
  const { url } = await open({ models: { double: { session: doublingSession(), maxBatch: 2 } } });
  const sizes = Array.from({ length: 260 }, (_, index) => index + 1);
  for (const rows of sizes)
    await infer(url, doublingRequest(Array.from({ length: rows }, () => [1, 2] as const)));
  const [double] = await statistics(url);
  expect([double!.inference_count, double!.execution_count, double!.batch_stats.length]).toEqual([
    (260 * 261) / 2,
    260,
    256,
  ]);
});

test('a model of the name stats is described at its version', async () => {
  const { url } = await open({ models: { stats: doublingSession() } });
  expect(await statistics(url, 'stats')).toMatchObject([{ name: 'stats' }]);
  expect(json(await request(url, { path: '/v2/models/stats/versions/1' }))).toMatchObject({ name: 'stats' });
});

/** Runs of a network on the event loop's own thread: when, and that nobody can tell from the results. */
import { runOnLoop } from '../../lib/calls';
import { InferenceSession, Tensor } from '../../lib';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

jest.mock('../../lib/calls', () => ({
  ...jest.requireActual<object>('../../lib/calls'),
  runOnLoop: jest.fn(),
}));
const loop = jest.mocked(runOnLoop);

/** Whether runs go to the event loop's thread, which `took` so long there. */
function decide(here: boolean, took = 1): void {
  loop.mockImplementation(async (_, work) => {
    if (!here) return undefined;
    work();
    return took;
  });
}

/** Rows of x picked by an index, and twice x. */
const model = onnxModel({
  inputs: [value('x', [2, 3]), value('row', [1], 'int64')],
  initializers: [tensor('two', [], [2])],
  nodes: [node('Mul', ['x', 'two'], ['twice']), node('Gather', ['x', 'row'], ['picked'], { axis: 0 })],
  outputs: [value('twice', [2, 3]), value('picked', [1, 3])],
});

const feedsOf = (row: bigint) => ({
  x: new Tensor('float32', [1, 2, 3, 4, 5, 6], [2, 3]),
  row: new Tensor('int64', new BigInt64Array([row]), [1]),
});

let session: InferenceSession;
beforeAll(async () => void (session = await InferenceSession.create(model, { device: 'cpu' })));
afterAll(() => session.release());
beforeEach(() => loop.mockReset());

test('the first goes to other threads, and later ones are judged by what the last took', async () => {
  const fresh = await InferenceSession.create(model, { device: 'cpu' });
  decide(false);
  await fresh.run(feedsOf(0n));
  decide(true, 7);
  await fresh.run(feedsOf(0n));
  await fresh.run(feedsOf(0n));
  const [first, second, third] = loop.mock.calls.map(([milliseconds]) => milliseconds);
  expect(first).toBe(Infinity);
  expect(second).toBeGreaterThan(0);
  expect(second).toBeLessThan(10_000);
  expect(third).toBe(7);
  await fresh.release();
});

test('gives what other threads give, without a turn of the event loop', async () => {
  decide(true);
  let turned = false;
  setImmediate(() => (turned = true));
  const atOnce = await session.run(feedsOf(1n));
  expect(turned).toBe(false);
  expect(atOnce.picked!.data).toEqual(new Float32Array([4, 5, 6]));
  decide(false);
  const elsewhere = await session.run(feedsOf(1n));
  expect(elsewhere.twice!.data).toEqual(atOnce.twice!.data);
  expect(elsewhere.picked!.data).toEqual(atOnce.picked!.data);
});

test('writes into tensors of the caller', async () => {
  decide(true);
  const picked = new Tensor('float32', [0, 0, 0], [1, 3]);
  expect((await session.run(feedsOf(0n), { picked })).picked).toBe(picked);
  expect(picked.data).toEqual(new Float32Array([1, 2, 3]));
});

test('fails as other threads do', async () => {
  const failures: unknown[] = [];
  for (const atOnce of [true, false]) {
    decide(atOnce);
    await session.run(feedsOf(5n)).catch((error: unknown) => failures.push(error));
  }
  expect(failures).toHaveLength(2);
  const [here, there] = failures as { code: string; message: string }[];
  expect(here!.code).toMatch(/^ERR_WARPCONV_/);
  expect([here!.code, here!.message]).toEqual([there!.code, there!.message]);
});

test('an abort right after the call still ends it', async () => {
  decide(true);
  const controller = new AbortController();
  const run = session.run(feedsOf(0n), { signal: controller.signal });
  controller.abort(new Error('enough'));
  await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: { message: 'enough' } });
  expect(loop).not.toHaveBeenCalled();
});

test('an abort is seen until the run begins', async () => {
  const abort = new AbortController();
  loop.mockImplementation(async (_, work) => {
    abort.abort();
    work();
    return 1;
  });
  const run = session.run(feedsOf(0n), { signal: abort.signal });
  await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
});

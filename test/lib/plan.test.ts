/** Plans over native code that does what the test says. */
import type { Done, NativeCandidate } from '../../lib/addon';
import { Conv2d } from '../../lib/conv2d/plan';
import { Tensor } from '../../lib/tensor/tensor';

const mockRun = jest.fn();
const mockRunSync = jest.fn();

class MockPlan {
  readonly outputDims = [1, 1, 1, 1];
  readonly algorithm = 'direct';
  readonly workspaceBytes = 0;
  readonly predictedMilliseconds = mockMilliseconds;
  readonly run = mockRun;
  readonly runSync = mockRunSync;

  candidates(): NativeCandidate[] {
    return mockCandidates;
  }
  prepare(_weight: Float32Array, _bias: Float32Array | null, done: Done): number {
    setImmediate(done);
    return 1;
  }
  dispose(): void {}
}

let mockMilliseconds = 0;
const mockCandidates: NativeCandidate[] = [];
jest.mock('../../lib/load', () => ({
  addon: () => ({
    Plan: MockPlan,
    firstFallback: () => false,
    gpusProbed: () => true,
    hasGpu: () => false,
    gpuProbe: () => ({ missing: 'driver', reason: 'no driver here', driver: '', gpus: [] }),
  }),
}));

const one = new Tensor(Float32Array.of(2), [1, 1, 1, 1]);
const failure = { code: 'OUT_OF_MEMORY', message: 'no room' };
const expected = { code: 'ERR_WARPCONV_OUT_OF_MEMORY', message: 'no room' };

async function createPlan(milliseconds: number): Promise<Conv2d> {
  mockMilliseconds = milliseconds;
  const plan = await Conv2d.create(one, { inputDims: one.dims });
  await new Promise(setImmediate);
  return plan;
}

beforeEach(() => {
  mockRun.mockReset().mockImplementation((_input, _residual, _output, done: Done) => setImmediate(done));
  mockRunSync.mockReset();
});

it('runs a short call before run returns, and still resolves later', async () => {
  const plan = await createPlan(0);
  let settled = false;
  const call = plan.run(one).then(() => (settled = true));
  expect(mockRunSync).toHaveBeenCalledTimes(1);
  expect(settled).toBe(false);
  await call;
  expect(mockRun).not.toHaveBeenCalled();
});

it('rejects with what a short call fails with', async () => {
  const plan = await createPlan(0);
  mockRunSync.mockImplementation(() => {
    throw failure;
  });
  const call = plan.run(one);
  await expect(call).rejects.toMatchObject(expected);
  expect(() => plan.runSync(one)).toThrow(expect.objectContaining(expected));
});

it('leaves to other threads what is long or can be aborted', async () => {
  await (await createPlan(100)).run(one);
  await (await createPlan(0)).run(one, { signal: new AbortController().signal });
  expect(mockRun).toHaveBeenCalledTimes(2);
  expect(mockRunSync).not.toHaveBeenCalled();
});

it('rejects with what other threads report', async () => {
  const plan = await createPlan(100);
  mockRun.mockImplementation((_input, _residual, _output, done: Done) => setImmediate(done, failure));
  await expect(plan.run(one)).rejects.toMatchObject(expected);
});

it('explains what each algorithm chose from, and why the rest lost', async () => {
  const considered = [
    { name: 'small', tiles: { pixels: 8 }, figures: { M_A: 1.5 }, lost: 'is predicted slower' },
    { name: 'large', tiles: { pixels: 64 }, figures: { M_A: 3 } },
  ];
  const refused = { algorithm: 'shuffle', refusal: 'takes something else' };
  const chosen = { algorithm: 'direct', predictedMilliseconds: 1, workspaceBytes: 0, tiles: {}, considered };
  mockCandidates.splice(0, Infinity, refused, chosen);
  const plan = await createPlan(0);
  expect(plan.explain().candidates).toEqual([
    { ...refused, chosen: false },
    { ...chosen, chosen: true },
  ]);
});

/** Sessions and convolutions that share the executor's threads. */
import { Conv2d, conv2d, InferenceSession, setThreads, Tensor, threads } from '../../lib';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

// All runs go to the executor.
jest.mock('../../lib/calls', () => ({
  ...jest.requireActual<object>('../../lib/calls'),
  runsAtOnce: () => false,
  runOnLoop: async () => undefined,
}));

const before = threads();
beforeAll(() => setThreads(1));
afterAll(() => setThreads(before));

const CHANNELS = 64;
const SHORT_DIMS = [1, CHANNELS, 8, 8];
const LONG_DIMS = [1, CHANNELS, 128, 128];
/** 12e9 multiply-adds: many times what the short runs and their turns take */
const LONG_CONVOLUTIONS = 20;
/** The same in one step */
const LONG_BATCH_DIMS = [LONG_CONVOLUTIONS, ...LONG_DIMS.slice(1)];
const SHORT_RUNS = 5;

function ramp(dims: readonly number[]): Tensor<'float32'> {
  const data = new Float32Array(dims.reduce((product, extent) => product * extent, 1));
  for (let index = 0; index < data.length; index++) data[index] = ((index % 17) - 8) / CHANNELS;
  return new Tensor('float32', data, dims);
}

const weight = ramp([CHANNELS, CHANNELS, 3, 3]);

async function makeSession(dims: readonly number[], convolutions: number): Promise<InferenceSession> {
  const names = Array.from({ length: convolutions + 1 }, (_, index) => `x${index}`);
  const model = onnxModel({
    inputs: [value('x0', dims)],
    initializers: [tensor('w', weight.dims, weight.data)],
    nodes: names
      .slice(1)
      .map((name, index) => node('Conv', [names[index]!, 'w'], [name], { pads: [1, 1, 1, 1] })),
    outputs: [value(names.at(-1)!)],
  });
  return InferenceSession.create(model, { device: 'cpu' });
}

/** Where other processes keep this one from running, a long run may end meanwhile. */
const ATTEMPTS = 3;

/** How many runs of the short one, one after the other, have ended when the long one does: the most of a few attempts. */
async function endedBeside(long: () => Promise<unknown>, short: () => Promise<unknown>): Promise<number> {
  let most = 0;
  for (let attempt = 0; attempt < ATTEMPTS && most < SHORT_RUNS; attempt++) {
    let ended = 0;
    const atEnd = long().then(() => ended);
    for (; ended < SHORT_RUNS; ended++) await short();
    most = Math.max(most, await atEnd);
  }
  return most;
}

it('lets runs of a short session end before one of a long session that began first', async () => {
  const [long, short] = [await makeSession(LONG_DIMS, LONG_CONVOLUTIONS), await makeSession(SHORT_DIMS, 1)];
  const [longFeeds, shortFeeds] = [{ x0: ramp(LONG_DIMS) }, { x0: ramp(SHORT_DIMS) }];
  const bytesOf = (outputs: Awaited<ReturnType<typeof long.run>>) =>
    Buffer.from((outputs[`x${LONG_CONVOLUTIONS}`]!.data as Float32Array).buffer);
  const alone = bytesOf(await long.run(longFeeds));
  let beside: Buffer | undefined;
  const ended = await endedBeside(
    async () => (beside = bytesOf(await long.run(longFeeds))),
    () => short.run(shortFeeds),
  );
  expect(ended).toBe(SHORT_RUNS);
  expect(beside!.equals(alone)).toBe(true);
  await long.release();
  await short.release();
});

it('lets a convolution and a session take turns, whichever is longer', async () => {
  const options = { padding: 1, device: 'cpu' } as const;
  const session = await makeSession(SHORT_DIMS, 1);
  const plan = await Conv2d.create(weight, { ...options, inputDims: LONG_BATCH_DIMS });
  const [longInput, shortInput] = [ramp(LONG_BATCH_DIMS), ramp(SHORT_DIMS)];
  const runPlan = () => plan.run(longInput);
  expect(await endedBeside(runPlan, () => session.run({ x0: shortInput }))).toBe(SHORT_RUNS);
  const long = await makeSession(LONG_DIMS, LONG_CONVOLUTIONS);
  const runSession = () => long.run({ x0: ramp(LONG_DIMS) });
  expect(await endedBeside(runSession, () => conv2d(shortInput, weight, options))).toBe(SHORT_RUNS);
  plan.dispose();
  await session.release();
  await long.release();
});

it('stops a run that waits for its turn', async () => {
  const [long, other] = [
    await makeSession(LONG_DIMS, LONG_CONVOLUTIONS),
    await makeSession(LONG_DIMS, LONG_CONVOLUTIONS),
  ];
  const feeds = { x0: ramp(LONG_DIMS) };
  const controller = new AbortController();
  const stopped = long.run(feeds, { signal: controller.signal });
  const finished = other.run(feeds);
  setTimeout(() => controller.abort(), 30);
  await expect(stopped).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  await expect(finished).resolves.toBeDefined();
  await long.release();
  await other.release();
});

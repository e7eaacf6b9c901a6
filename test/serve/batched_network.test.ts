/** Real sessions behind the server: what is joined where that pays, and what is not. */
import { InferenceSession } from '../../lib/session/session';
import { float, node, onnxModel, tensor, value } from '../support/onnx_builder';
import { json, postJson } from './support/client';
import { joinAll } from './support/joining';
import { closeAll, open } from './support/serving';

beforeEach(joinAll);
afterEach(() => {
  jest.restoreAllMocks();
  return closeAll();
});

const WIDTH = 4;
const input = value('x', ['N', WIDTH]);
const output = value('y', ['N', WIDTH]);

/** How many requests each run served, and the first elements of each answer. */
async function serveTogether(
  nodes: Parameters<typeof onnxModel>[0]['nodes'],
  requests: readonly (readonly number[])[],
): Promise<{ runs: string; answers: number[][] }> {
  const model = onnxModel({
    ...{ inputs: [input], outputs: [output], nodes: nodes! },
    initializers: [tensor('zero', [], [0], 'int64')],
  });
  const session = await InferenceSession.create(model, { device: 'cpu' });
  const { url, handler } = await open({ models: { network: session } });
  const answers = await Promise.all(
    requests.map(async (firsts) => {
      const data = firsts.flatMap((first) => [first, ...new Array<number>(WIDTH - 1).fill(0)]);
      const inputs = [{ name: 'x', datatype: 'FP32', shape: [firsts.length, WIDTH], data }];
      const received = json(await postJson(url, '/v2/models/network/infer', { inputs }));
      const [{ data: elements }] = received.outputs as [{ data: number[] }];
      return elements.filter((_, index) => index % WIDTH === 0);
    }),
  );
  const [, runs] = /batch_size_count\{model="network"\} (\d+)/.exec(handler.metrics())!;
  await session.release();
  return { runs: runs!, answers };
}

const REQUESTS = Array.from({ length: 12 }, (_, index) => (index % 3 === 0 ? [0, index] : [index]));

test('rows that are independent are joined', async () => {
  const { runs, answers } = await serveTogether([node('Elu', ['x'], ['y'], { alpha: float(0.5) })], REQUESTS);
  expect(answers).toEqual(REQUESTS);
  expect(Number(runs)).toBeLessThan(REQUESTS.length);
});

test.each([
  ['over which there is a softmax', [node('Softmax', ['x'], ['y'], { axis: 0 })]],
  [
    'divided by their number',
    [
      node('Shape', ['x'], ['shape']),
      node('Gather', ['shape', 'zero'], ['rows']),
      node('Cast', ['rows'], ['count'], { to: 1 }),
      node('Div', ['x', 'count'], ['y']),
    ],
  ],
])('rows %s are not', async (_, nodes) => {
  const { runs, answers } = await serveTogether(nodes, REQUESTS);
  const isSoftmax = nodes.length === 1;
  answers.forEach((answer, index) => {
    const elements = REQUESTS[index]!;
    const total = elements.reduce((sum, element) => sum + Math.exp(element), 0);
    const expected = elements.map((element) =>
      isSoftmax ? Math.exp(element) / total : element / elements.length,
    );
    answer.forEach((element, row) => expect(element).toBeCloseTo(expected[row]!, 5));
  });
  expect(Number(runs)).toBe(REQUESTS.length);
});

test('canJoin() says so, and refuses what is no question', async () => {
  const nodes = [node('Softmax', ['x'], ['y'], { axis: 0 })];
  const session = await InferenceSession.create(
    onnxModel({ inputs: [value('x', [null, WIDTH])], outputs: [output], nodes }),
    { device: 'cpu' },
  );
  expect(session.canJoin({ x: [7, WIDTH] }, [5])).toBe(true);
  expect(session.canJoin({ x: [1, WIDTH] }, [1, 1])).toBe(false);
  for (const [dims, rows, reason] of [
    [{}, [1], /inputDims\.x must be a list of non-negative integers, got undefined/],
    [{ x: [1, WIDTH + 1] }, [1], /inputDims\.x must be \[\?, 4\]/],
    [{ x: [1, WIDTH] }, [0], /rows\[0\] must be a positive integer, got 0/],
    [{ x: [1, WIDTH] }, 3, /rows must be a list/],
  ] as [Record<string, number[]>, number[], RegExp][]) {
    expect(() => session.canJoin(dims, rows)).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringMatching(reason) as string,
      }),
    );
  }
  await session.release();
  expect(() => session.canJoin({ x: [1, WIDTH] }, [1])).toThrow(
    expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }),
  );
});

test('a session whose model fixes the rows joins none', async () => {
  const session = await InferenceSession.create(
    onnxModel({
      inputs: [value('x', [2, WIDTH])],
      outputs: [value('y', [2, WIDTH])],
      nodes: [node('Relu', ['x'], ['y'])],
    }),
    { device: 'cpu' },
  );
  expect(session.canJoin({ x: [2, WIDTH] }, [2])).toBe(true);
  expect(session.canJoin({ x: [2, WIDTH] }, [1, 1])).toBe(false);
  expect(session.canJoin({ x: [2, WIDTH] }, [2, 2])).toBe(false);
  await session.release();
});

/** As a backend of onnxruntime, by way of its own classes. */
import * as ort from 'onnxruntime-common';

import { backend } from '../../lib/onnxruntime';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { late, odd } from '../support/unsupported_models';

const model = onnxModel({
  inputs: [value('x', ['N', 2])],
  initializers: [tensor('w', [2, 3], [1, 2, 3, 4, 5, 6])],
  nodes: [node('MatMul', ['x', 'w'], ['y']), node('ArgMax', ['y'], ['most'], { axis: 1, keepdims: 0 })],
  outputs: [value('y', ['N', 3]), value('most', ['N'], 'int64')],
});

function create(options: object = { name: 'warpconv', device: 'cpu' }): Promise<ort.InferenceSession> {
  return ort.InferenceSession.create(model, { executionProviders: [options] } as never);
}

test('a session of onnxruntime runs on it', async () => {
  const session = await create();
  expect(session.inputNames).toEqual(['x']);
  expect(session.outputMetadata).toMatchObject([{ name: 'y', shape: ['N', 3] }, { name: 'most' }]);
  const x = new ort.Tensor('float32', Float32Array.of(1, 0, 0, -1), [2, 2]);
  const { y, most } = await session.run({ x });
  expect(y).toBeInstanceOf(ort.Tensor);
  expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, -4, -5, -6]);
  expect([...(most!.data as BigInt64Array)]).toEqual([2n, 0n]);
  expect(Object.keys(await session.run({ x }, ['most']))).toEqual(['most']);
  await session.release();
});

test('its options are checked as ours are', async () => {
  await expect(create({ name: 'warpconv', devise: 'cpu' })).rejects.toThrow(/did you mean 'device'/);
});

test('the backend can be registered elsewhere', () => {
  expect(Object.keys(backend)).toEqual(['init', 'createInferenceSessionHandler']);
});

describe('with another provider behind it', () => {
  const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const ran: string[] = [];

  beforeAll(() => {
    // In the place of onnxruntime-node's own.
    const handler = {
      inputNames: ['x'],
      outputNames: ['y'],
      inputMetadata: [],
      outputMetadata: [],
      dispose: () => Promise.resolve(),
      startProfiling() {},
      endProfiling() {},
      run: () => {
        ran.push('elsewhere');
        return Promise.resolve({ y: new ort.Tensor('float32', Float32Array.of(7), [1]) });
      },
    };
    ort.registerBackend(
      'elsewhere',
      {
        init: () => Promise.resolve(),
        createInferenceSessionHandler: () => Promise.resolve(handler),
      } as never,
      -1,
    );
  });
  afterAll(() => warn.mockRestore());
  beforeEach(() => warn.mockClear());

  const providers = [{ name: 'warpconv', device: 'cpu' }, 'elsewhere'];
  const x = new ort.Tensor('float32', Float32Array.of(1), [1]);

  test.each([
    ['when it is loaded', odd, /a model is run by onnxruntime's other providers: .*Odd: 'Odd#0'/s],
    ['in its first run', late, /other providers: Dropout 'Dropout#0' trains/],
  ])('a model that is refused %s goes there, with one warning', async (_, bytes, message) => {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: providers } as never);
    for (let run = 0; run < 2; run++)
      expect([...((await session.run({ x })).y!.data as Float32Array)]).toEqual([7]);
    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(message), { type: 'WarpconvWarning', code: 'WARPCONV_FALLBACK' }],
    ]);
    await session.release();
  });

  test('what is supported stays here, and what is wrong is an error', async () => {
    const session = await ort.InferenceSession.create(model, { executionProviders: providers } as never);
    const before = ran.length;
    await session.run({ x: new ort.Tensor('float32', Float32Array.of(1, 0), [1, 2]) });
    await expect(session.run({ x })).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    expect([ran.length, warn.mock.calls]).toEqual([before, []]);
    await session.release();
  });

  test('nothing else is tried where none is named', async () => {
    const alone = { executionProviders: ['warpconv'] } as never;
    await expect(ort.InferenceSession.create(odd, alone)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
    });
  });
});

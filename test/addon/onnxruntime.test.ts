/** As a backend of onnxruntime, by way of its own classes. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import * as ort from 'onnxruntime-common';

import { backend } from '../../lib/onnxruntime';
import { InferenceSession } from '../../lib/session/session';
import { externalTensor, node, onnxModel, rawBytes, tensor, value } from '../support/onnx_builder';
import { late, odd } from '../support/unsupported_models';

const model = onnxModel({
  inputs: [value('x', ['N', 2])],
  initializers: [tensor('w', [2, 3], [1, 2, 3, 4, 5, 6])],
  nodes: [node('MatMul', ['x', 'w'], ['y']), node('ArgMax', ['y'], ['most'], { axis: 1, keepdims: 0 })],
  outputs: [value('y', ['N', 3]), value('most', ['N'], 'int64')],
});

function create(options: object = { name: 'warpconv', device: 'cpu' }): Promise<ort.InferenceSession> {
  return ort.InferenceSession.create(model, { executionProviders: [options as { name: 'warpconv' }] });
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

describe("onnxruntime's own options", () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-provider-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  const split = onnxModel({
    inputs: [value('x', [2])],
    initializers: [externalTensor('b', [2], { location: 'weights.bin' })],
    nodes: [node('Add', ['x', 'b'], ['y'])],
    outputs: [value('y')],
  });
  const weights = (numbers: number[]) => [
    { path: './weights.bin', data: Uint8Array.from(new Uint8Array(rawBytes(numbers))) },
  ];
  const x = new ort.Tensor('float32', Float32Array.of(1, 2), [2]);

  /** @param beside - what is in our entry */
  const load = (options: object, beside: object = {}) =>
    ort.InferenceSession.create(split, {
      ...options,
      executionProviders: [{ name: 'warpconv', device: 'cpu', ...beside }],
    });

  test('are taken: externalData', async () => {
    const session = await load({ externalData: weights([10, 20]) });
    expect([...((await session.run({ x })).y!.data as Float32Array)]).toEqual([11, 22]);
    await session.release();
  });

  test('are taken: a profile is written when the session ends', async () => {
    const options = { enableProfiling: true, profileFilePrefix: path.join(folder, 'trace') };
    const session = await load({ ...options, externalData: weights([1, 2]) });
    await session.run({ x });
    await session.release();
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^trace_.*\.json$/)]);
  });

  test('are taken: a free dimension is checked, as ours is', async () => {
    const call = load({ freeDimensionOverrides: { N: 0 }, externalData: weights([1, 2]) });
    await expect(call).rejects.toThrow(/freeDimensionOverrides\.N must be/);
  });

  test('are passed over where they mean nothing here', async () => {
    const session = await load({ externalData: weights([1, 2]), intraOpNumThreads: 1, ofTomorrow: true });
    const options = { tag: 'a', ofTomorrow: true } as ort.InferenceSession.RunOptions;
    expect(Object.keys(await session.run({ x }, options))).toEqual(['y']);
    await session.release();
  });

  test('terminate a run, and so does a signal', async () => {
    const session = await load({ externalData: weights([1, 2]) });
    for (const [options, message] of [
      [{ terminate: true }, /^options\.terminate is true/],
      [{ signal: AbortSignal.abort() }, /aborted by options\.signal/],
    ] as const) {
      const run = session.run({ x }, options as ort.InferenceSession.RunOptions);
      await expect(run).rejects.toMatchObject({
        code: 'ERR_WARPCONV_ABORTED',
        message: expect.stringMatching(message) as string,
      });
    }
    expect(Object.keys(await session.run({ x }, ['y'], { terminate: false }))).toEqual(['y']);
    await session.release();
  });
});

describe.each([
  ['of onnxruntime', ort.InferenceSession],
  ['of ours', InferenceSession as unknown as typeof ort.InferenceSession],
])('options beside our name, in a session %s', (_, Session) => {
  const x = new ort.Tensor('float32', Float32Array.of(1, 0), [1, 2]);
  const load = (beside: object, options: object = {}) =>
    Session.create(model, {
      ...options,
      executionProviders: [{ name: 'warpconv', device: 'cpu', ...beside } as { name: 'warpconv' }],
    });

  test.each<[string, object, object]>([
    ['alone', { precision: 'fp16', memoryLimit: 2 ** 20 }, {}],
    ['said again', { freeDimensionOverrides: undefined, profileFilePrefix: 'a' }, { profileFilePrefix: 'a' }],
  ])('are taken: %s', async (_, beside, options) => {
    const session = await load(beside, options);
    expect([...((await session.run({ x })).y!.data as Float32Array)]).toEqual([1, 2, 3]);
    await session.release();
  });

  test.each<[string, object, object, string, RegExp]>([
    ['one that limits', { memoryLimit: 1 }, {}, 'OUT_OF_MEMORY', /memoryLimit/],
    [
      'a misspelt one',
      { presicion: 'fp16' },
      {},
      'INVALID_ARGUMENT',
      /Providers\[0\]\.presicion is not known; did/,
    ],
    [
      'a list within',
      { executionProviders: [] },
      {},
      'INVALID_ARGUMENT',
      /\[0\]\.executionProviders is not known/,
    ],
    [
      'a wrong value',
      { precision: 'fp8' },
      {},
      'INVALID_ARGUMENT',
      /^options\.executionProviders\[0\]\.precision must be/,
    ],
    [
      'one against an option',
      { profileFilePrefix: 'a' },
      { profileFilePrefix: 'b' },
      'INVALID_ARGUMENT',
      /^options\.profileFilePrefix is 'b' and options\.executionProviders\[0\]\.profileFilePrefix is 'a'; give one/,
    ],
  ])('%s is refused or refuses', async (_, beside, options, code, message) => {
    const run = async () => (await load(beside, options)).run({ x });
    await expect(run()).rejects.toMatchObject({
      code: `ERR_WARPCONV_${code}`,
      message: expect.stringMatching(message) as string,
    });
  });
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

  const providers = [{ name: 'warpconv', device: 'cpu' } as const, 'elsewhere'];
  const x = new ort.Tensor('float32', Float32Array.of(1), [1]);

  test.each([
    ['when it is loaded', odd, /a model is run by onnxruntime's other providers: .*Odd: 'Odd#0'/s],
    ['in its first run', late, /other providers: Dropout 'Dropout#0' trains/],
  ])('a model that is refused %s goes there, with one warning', async (_, bytes, message) => {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: providers });
    for (let run = 0; run < 2; run++)
      expect([...((await session.run({ x })).y!.data as Float32Array)]).toEqual([7]);
    // Who else may run it is what happens.
    expect(warn.mock.calls[0]![0]).not.toContain('gives such a model');
    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(message), { type: 'WarpconvWarning', code: 'WARPCONV_FALLBACK' }],
    ]);
    await session.release();
  });

  test('what is supported stays here, and what is wrong is an error', async () => {
    const session = await ort.InferenceSession.create(model, { executionProviders: providers });
    const before = ran.length;
    await session.run({ x: new ort.Tensor('float32', Float32Array.of(1, 0), [1, 2]) });
    await expect(session.run({ x })).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    expect([ran.length, warn.mock.calls]).toEqual([before, []]);
    await session.release();
  });

  test.each([
    ['when it is loaded', odd],
    ['in its first run', late],
  ])('nothing else is tried where none is named, and a refusal %s says so', async (_, bytes) => {
    const run = async () => {
      const alone = { executionProviders: [{ name: 'warpconv', device: 'cpu' } as const] };
      return (await ort.InferenceSession.create(bytes, alone)).run({ x });
    };
    const error = (await run().catch((thrown: unknown) => thrown)) as Error;
    expect(error).toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
    expect(error.message.match(/gives such a model to .*/g)).toEqual([
      "gives such a model to onnxruntime's own provider",
    ]);
  });
});

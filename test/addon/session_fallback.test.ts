/** `fallback: 'onnxruntime'`, with a session in the place of onnxruntime-node's. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { InferenceSession, Tensor, type WarpconvError } from '../../lib';
import * as fallbacks from '../../lib/session/fallback';
import type { OtherSession, OtherTensor } from '../../lib/session/fallback';
import { node, onnxModel, value } from '../support/onnx_builder';
import { late, odd } from '../support/unsupported_models';

const metadata = (name: string, type = 'float32') => ({ name, isTensor: true, type, shape: ['N'] });

/** Doubles its input. */
const other = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [metadata('x')],
  outputMetadata: [metadata('y')],
  run: jest.fn((feeds: Readonly<Record<string, OtherTensor>>) => {
    const { type, dims, data } = feeds.x!;
    return Promise.resolve({ y: { type, dims, data: (data as Float32Array).map((number) => 2 * number) } });
  }),
  release: jest.fn(() => Promise.resolve()),
};
const create = jest.fn((): Promise<OtherSession> => Promise.resolve(other));
const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
const installed = jest
  .spyOn(fallbacks, 'onnxruntimeNode')
  .mockImplementation(() => ({ InferenceSession: { create } }));

beforeEach(() => jest.clearAllMocks());
afterAll(() => jest.restoreAllMocks());

const options = { device: 'cpu', fallback: 'onnxruntime' } as const;
const x = new Tensor('float32', [1, 2, 3], [3]);

describe.each([
  ['when it is loaded', odd],
  ['in its first run', late],
])('a model that is refused %s', (_, model) => {
  test('is run there, with one warning, and its outputs are our tensors', async () => {
    const session = await InferenceSession.create(model, options);
    expect([session.inputNames, session.outputNames, session.device]).toEqual([['x'], ['y'], 'cpu']);
    for (let run = 0; run < 2; run++) {
      const { y } = await session.run({ x });
      expect(y).toBeInstanceOf(Tensor);
      expect([y!.dims, [...(y!.data as Float32Array)]]).toEqual([[3], [2, 4, 6]]);
    }
    expect(create.mock.calls).toHaveLength(1);
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(/^a model is run by onnxruntime-node: .*(Odd|Dropout)/s),
        { type: 'WarpconvWarning', code: 'WARPCONV_FALLBACK' },
      ],
    ]);
    await session.release();
    expect(other.release).toHaveBeenCalledTimes(1);
    await expect(session.run({ x })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });

  test('writes to the tensors that it is given, and checks them', async () => {
    const session = await InferenceSession.create(model, options);
    const y = new Tensor('float32', new Float32Array(3), [3]);
    expect((await session.run({ x }, { y })).y).toBe(y);
    expect([...y.data]).toEqual([2, 4, 6]);
    const short = new Tensor('float32', new Float32Array(2), [2]);
    await expect(session.run({ x }, { y: short })).rejects.toThrow(/^fetches\.y must be a float32 tensor/);
    await session.release();
  });

  test.each([undefined, 'none' as const])('is refused with the option %p', async (fallback) => {
    const run = async () => (await InferenceSession.create(model, { device: 'cpu', fallback })).run({ x });
    const error = (await run().catch((thrown: unknown) => thrown)) as WarpconvError;
    expect(error.code).toBe('ERR_WARPCONV_UNSUPPORTED');
    // Who chose knows of the choice.
    const advice = /options\.fallback 'onnxruntime' gives such a model to onnxruntime-node/g;
    expect(error.message.match(advice)?.length).toBe(fallback === undefined ? 1 : undefined);
    expect(create).not.toHaveBeenCalled();
  });
});

test('feeds are checked as ever, and what only this package does is refused', async () => {
  const session = await InferenceSession.create(odd, options);
  const wrong = new Tensor('int32', [1], [1]);
  await expect(session.run({ x: wrong })).rejects.toThrow("feeds.x.type must be 'float32', got 'int32'");
  expect(() => session.runSync({ x })).toThrow(/^runSync\(\) needs a model that this package runs/);
  await expect(session.explain({ x: [1] })).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
  expect(session.canJoin({ x: [1] }, [1, 1])).toBe(false);
  await session.release();
});

test('bytes may change once the session is there', async () => {
  const [bytes, data] = [Uint8Array.from(late), Uint8Array.of(1)];
  const externalData = [{ path: 'weights', data }];
  const session = await InferenceSession.create(bytes, { ...options, externalData });
  for (const one of [bytes, data]) one.fill(0);
  await session.run({ x });
  expect(create.mock.calls).toEqual([
    [
      late,
      {
        executionProviders: ['cpu'],
        freeDimensionOverrides: {},
        externalData: [{ path: 'weights', data: Uint8Array.of(1) }],
      },
    ],
  ]);
  await session.release();
});

test('a model that it runs needs nobody else', async () => {
  const model = onnxModel({
    inputs: [value('x', ['N'])],
    nodes: [node('Neg', ['x'], ['y'])],
    outputs: [value('y')],
  });
  const session = await InferenceSession.create(model, options);
  expect([...((await session.run({ x })).y!.data as Float32Array)]).toEqual([-1, -2, -3]);
  await session.release();
  expect([create.mock.calls, warn.mock.calls]).toEqual([[], []]);
});

test('strings have no tensors here', async () => {
  create.mockResolvedValueOnce({ ...other, outputMetadata: [metadata('label', 'string')] });
  await expect(InferenceSession.create(odd, options)).rejects.toThrow(
    /Odd.*; onnxruntime-node cannot run the model either: 'label' is a tensor of type 'string'/s,
  );
  expect(other.release).toHaveBeenCalledTimes(1);
});

test('what only a run of ours refuses is not given advice', async () => {
  const session = await InferenceSession.create(late, { device: 'cpu' });
  expect(() => session.runSync({ x })).toThrow(/^runSync\(\) compiles nothing[^;]*; await run\(\)[^;]*$/);
  await session.release();
});

describe('without onnxruntime-node', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-fallback-'));
  const cwd = jest.spyOn(process, 'cwd');

  beforeAll(() => {
    installed.mockRestore();
    const overridden = path.join(folder, 'overridden/node_modules/onnxruntime-node');
    mkdirSync(overridden, { recursive: true });
    writeFileSync(
      path.join(overridden, 'package.json'),
      JSON.stringify({ name: 'warpconv', main: 'index.js' }),
    );
    writeFileSync(path.join(overridden, 'index.js'), '');
  });
  afterAll(() => {
    cwd.mockRestore();
    rmSync(folder, { recursive: true });
  });

  test.each([
    ['bare', 'onnxruntime-node is not installed; npm install onnxruntime-node'],
    ['overridden', "is this package, by the package manager's overrides; remove the override"],
  ])('the error of an application that is %s says so', async (application, message) => {
    cwd.mockReturnValue(path.join(folder, application));
    await expect(InferenceSession.create(odd, options)).rejects.toThrow(message);
  });
});

/** What programs written for onnxruntime-common ask of a session beside running it. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { InferenceSession, listSupportedBackends, registerBackend, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { externalTensor, node, onnxModel, rawBytes, tensor, value } from '../support/onnx_builder';

const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-contract-'));
afterAll(() => rmSync(folder, { recursive: true }));

const device = TEST_DEVICE;
const x = new Tensor('float32', Float32Array.of(1, 2), [2]);

const plain = onnxModel({
  inputs: [value('x', [2])],
  initializers: [tensor('b', [2], [10, 20])],
  nodes: [node('Add', ['x', 'b'], ['sum']), node('Softmax', ['sum'], ['y'])],
  outputs: [value('y')],
});

const splitAt = (location: string) =>
  onnxModel({
    inputs: [value('x', [2])],
    initializers: [externalTensor('b', [2], { location })],
    nodes: [node('Add', ['x', 'b'], ['y'])],
    outputs: [value('y')],
  });
const split = splitAt('weights.bin');
const weights = rawBytes([10, 20]);

async function sumOf(
  model: string | Uint8Array,
  externalData?: readonly (string | object)[],
): Promise<number[]> {
  await using session = await InferenceSession.create(model, { device, externalData: externalData as never });
  const { y } = await session.run({ x });
  return Array.from(y!.data as Float32Array);
}

describe('data in other files', () => {
  test('are given as bytes or by a path, whatever is in the folder', async () => {
    const file = path.join(folder, 'elsewhere.bin');
    writeFileSync(file, weights);
    const bytes = new Uint8Array(weights);
    expect(await sumOf(split, [{ path: 'weights.bin', data: bytes }])).toEqual([11, 22]);
    expect(await sumOf(split, [{ path: 'weights.bin', data: file }])).toEqual([11, 22]);
    const model = path.join(folder, 'alone.onnx');
    writeFileSync(model, split);
    expect(await sumOf(model, [{ path: 'weights.bin', data: bytes }])).toEqual([11, 22]);
    const { buffer } = Uint8Array.from(bytes);
    expect(await sumOf(split, [{ path: 'weights.bin', data: buffer }])).toEqual([11, 22]);
  });

  test.each([
    ['weights.bin', './weights.bin'],
    ['./weights.bin', 'weights.bin'],
    ['parts/weights.bin', 'parts\\weights.bin'],
    ['parts\\weights.bin', './parts//weights.bin'],
  ])('are the same where the model says %j and the program %j', async (location, given) => {
    expect(await sumOf(splitAt(location), [{ path: given, data: new Uint8Array(weights) }])).toEqual([
      11, 22,
    ]);
  });

  test('have their very name where others come to the same', async () => {
    const files = ['parts\\weights.bin', 'parts/weights.bin'].map((name, i) => ({
      path: name,
      data: new Uint8Array(Float32Array.of(10 * (i + 1), 20).buffer),
    }));
    expect(await sumOf(splitAt('parts/weights.bin'), files)).toEqual([21, 22]);
    expect(await sumOf(splitAt('parts\\weights.bin'), files)).toEqual([11, 22]);
    await expect(sumOf(splitAt('./parts/weights.bin'), files)).rejects.toThrow(/gives as \[.*\]; give one$/);
  });

  test('may be changed by the caller once the model is loaded', async () => {
    const bytes = new Uint8Array(weights);
    const externalData = [{ path: 'weights.bin', data: bytes }];
    await using session = await InferenceSession.create(split, { device, externalData });
    bytes.fill(0);
    expect(Array.from((await session.run({ x })).y!.data as Float32Array)).toEqual([11, 22]);
  });

  test('that are not given are asked for', async () => {
    await expect(sumOf(split)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringMatching(
        /'weights.bin'; load the model by its path, or give options.externalData/,
      ) as string,
    });
    const others = [{ path: 'weight.bin', data: new Uint8Array(weights) }, 'bias.bin'];
    const named = /; options\.externalData gives \['weight\.bin', 'bias\.bin'\]$/;
    await expect(sumOf(split, others)).rejects.toThrow(named);
    const alone = path.join(mkdtempSync(path.join(folder, 'empty-')), 'model.onnx');
    writeFileSync(alone, split);
    await expect(sumOf(alone, others)).rejects.toThrow(named);
    await expect(sumOf(alone)).rejects.toThrow(/'weights\.bin', which cannot be read: ENOENT[^;]*$/);
    const short = sumOf(split, [{ path: 'weights.bin', data: new Uint8Array(4) }]);
    await expect(short).rejects.toThrow(/needs 8 bytes from byte 0 of 'weights.bin', which has 4/);
  });

  test.each([
    ['a number', [1]],
    ['no data', [{ path: 'weights.bin' }]],
    ['data of another kind', [{ path: 'weights.bin', data: 1 }]],
    ['no path', [{ data: new Uint8Array(8) }]],
    ['one name twice', ['weights.bin', 'weights.bin']],
  ])('%s is refused', async (_, given) => {
    await expect(sumOf(split, given as never)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
  });

  test('are found where a model is a link beside links, as caches of model hubs have it', async () => {
    const [blobs, snapshot] = ['blobs', 'snapshots/one'].map((name) => path.join(folder, name)) as [
      string,
      string,
    ];
    mkdirSync(blobs);
    mkdirSync(snapshot, { recursive: true });
    writeFileSync(path.join(blobs, 'aa'), split);
    writeFileSync(path.join(blobs, 'bb'), weights);
    symlinkSync('../../blobs/aa', path.join(snapshot, 'model.onnx'));
    symlinkSync('../../blobs/bb', path.join(snapshot, 'weights.bin'));
    expect(await sumOf(path.join(snapshot, 'model.onnx'))).toEqual([11, 22]);
  });
});

describe('profiling', () => {
  const prefix = path.join(folder, 'trace');

  test('writes what the steps of each run took', async () => {
    await using session = await InferenceSession.create(plain, { device, profileFilePrefix: prefix });
    expect(session.endProfiling()).toBeUndefined();
    session.startProfiling();
    await session.run({ x });
    await session.run({ x });
    const file = session.endProfiling()!;
    expect(file.startsWith(prefix)).toBe(true);
    const events = JSON.parse(readFileSync(file, 'utf8')) as {
      name: string;
      cat: string;
      ts: number;
      dur: number;
    }[];
    const { steps } = await session.explain();
    expect(events.filter(({ cat }) => cat === 'run')).toHaveLength(2);
    expect(events.filter(({ cat }) => cat === 'step')).toHaveLength(2 * steps.length);
    expect(events.every(({ ts, dur }) => ts >= 0 && dur >= 0)).toBe(true);
    expect(events.some(({ name }) => name.includes('Softmax'))).toBe(true);
  });

  test('begins with the session where that is asked for', async () => {
    const options = { device, enableProfiling: true, profileFilePrefix: prefix };
    await using session = await InferenceSession.create(plain, options);
    await session.run({ x });
    expect(existsSync(session.endProfiling()!)).toBe(true);
  });

  describe('that goes on when the session ends', () => {
    const newFolder = () => mkdtempSync(path.join(folder, 'released-'));
    const record = (profileFilePrefix: string) =>
      InferenceSession.create(plain, { device, enableProfiling: true, profileFilePrefix });
    const endings: [string, (session: InferenceSession) => Promise<void>][] = [
      ['release()', (session) => session.release()],
      ['await using', (session) => session[Symbol.asyncDispose]()],
      [
        'dispose()',
        async (session) => {
          session.dispose();
          // The first does not wait, the second does.
          await session.release();
        },
      ],
    ];

    test.each(endings)('is written once, with the runs under way, by %s', async (_, end) => {
      const into = newFolder();
      const session = await record(path.join(into, 'trace'));
      const run = session.run({ x });
      await end(session);
      await run;
      await session.release();
      const [file, ...more] = readdirSync(into);
      expect(more).toEqual([]);
      const events = JSON.parse(readFileSync(path.join(into, file!), 'utf8')) as { cat: string }[];
      expect(events.filter(({ cat }) => cat === 'run')).toHaveLength(1);
    });

    test('is a file of each of the sessions that end together', async () => {
      const into = newFolder();
      const sessions = await Promise.all(
        ['trace', 'trace', 'trace'].map((name) => record(path.join(into, name))),
      );
      await Promise.all(sessions.map((session) => session.run({ x })));
      await Promise.all(sessions.map((session) => session.release()));
      expect(readdirSync(into)).toHaveLength(3);
    });

    test('is no file where nothing ran', async () => {
      const into = newFolder();
      await (await record(path.join(into, 'trace'))).release();
      expect(readdirSync(into)).toEqual([]);
    });

    test('is a warning where it cannot be written, and the session has ended', async () => {
      const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
      const session = await record(path.join(folder, 'nowhere/trace'));
      await session.run({ x });
      await session.release();
      expect(warn.mock.calls).toEqual([
        [
          expect.stringMatching(/^the profile of a session is lost: ENOENT.*nowhere/),
          { type: 'WarpconvWarning', code: 'WARPCONV_PROFILE_LOST' },
        ],
      ]);
      warn.mockRestore();
      await expect(session.run({ x })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
    });
  });
});

test('options of onnxruntime that choose nothing here are taken', async () => {
  const options = {
    device,
    extra: { session: { set_denormal_as_zero: '1' } },
    enableGraphCapture: false,
    optimizedModelFilePath: 'unused.onnx',
    preferredOutputLocation: { y: 'cpu' },
  };
  await using session = await InferenceSession.create(plain, options);
  const { y } = await session.run({ x }, { tag: 'a', extra: {} } as never);
  expect(y!.dims).toEqual([2]);
  const elsewhere = InferenceSession.create(plain, { preferredOutputLocation: 'texture' });
  await expect(elsewhere).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
});

test('a run that is to be terminated does not begin', async () => {
  await using session = await InferenceSession.create(plain, { device });
  const refused = {
    code: 'ERR_WARPCONV_ABORTED',
    message: 'options.terminate is true, so the run does not begin',
  };
  await expect(session.run({ x }, { terminate: true })).rejects.toMatchObject(refused);
  expect(() => session.runSync({ x }, { terminate: true })).toThrow(expect.objectContaining(refused));
  expect((await session.run({ x }, { terminate: false })).y!.dims).toEqual([2]);
});

test('backends of others are taken, and change nothing', () => {
  const before = listSupportedBackends();
  registerBackend('other', { init: () => {} }, 10);
  expect(listSupportedBackends()).toEqual(before);
  expect(() => registerBackend('', {})).toThrow(/name must be/);
  expect(() => registerBackend('other', undefined as never)).toThrow(/backend must be/);
});

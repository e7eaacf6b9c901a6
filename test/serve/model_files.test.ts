/** Models that a server loads from files: its own sessions, which begin and end with it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

import type { AnyModel, ServeOptions } from '../../lib/serve';
import { withoutGarbage } from '../support/garbage';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { createHandler, InferenceSession, memory, openBuilt, serve } from './support/built';
import { binaryRequest, json, postJson, request } from './support/client';
import { closeAll } from './support/serving';

let folder: string;
let before: ReturnType<typeof memory>;
const file = () => path.join(folder, 'model.onnx');

/** Three times an image, by a convolution whose weights have to be packed. */
const model = onnxModel({
  inputs: [value('x', ['N', 1, 2, 2])],
  initializers: [tensor('w', [1, 1, 1, 1], [3])],
  nodes: [node('Conv', ['x', 'w'], ['y'])],
  outputs: [value('y', ['N', 1, 2, 2])],
});
/** The same for one image alone: it is compiled when it is loaded. */
const fixed = onnxModel({
  inputs: [value('x', [1, 1, 2, 2])],
  initializers: [tensor('w', [1, 1, 1, 1], [3])],
  nodes: [node('Conv', ['x', 'w'], ['y'])],
  outputs: [value('y', [1, 1, 2, 2])],
});

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'warpconv-'));
  await Promise.all([writeFile(file(), model), writeFile(path.join(folder, 'fixed.onnx'), fixed)]);
  before = await withoutGarbage(memory);
});
afterEach(async () => {
  await closeAll();
  await rm(folder, { recursive: true });
});

const SLOW_BYTES = 32 * 112 * 112 * 4;

/** Takes a tenth of a second. */
function slowModel(): Uint8Array {
  return onnxModel({
    inputs: [value('x', [1, 32, 112, 112])],
    initializers: [tensor('w', [32, 32, 7, 7], new Float32Array(32 * 32 * 49).fill(0.01))],
    nodes: [
      node('Conv', ['x', 'w'], ['a'], { pads: [3, 3, 3, 3] }),
      node('Conv', ['a', 'w'], ['y'], { pads: [3, 3, 3, 3] }),
    ],
    outputs: [value('y', [1, 32, 112, 112])],
  });
}

const CPU = { device: 'cpu' } as const;
const numbers = { name: 'x', datatype: 'FP32', shape: [1, 1, 2, 2], data: [1, 2, 3, 4] };
const bytes = { name: 'x', datatype: 'UINT8', shape: [1, 2, 2, 1], data: [1, 2, 3, 4] };

async function expectTripled(
  url: string,
  name: string,
  input: object = numbers,
  version = '',
): Promise<void> {
  const received = await postJson(url, `/v2/models/${name}${version}/infer`, { inputs: [input] });
  expect([received.status, json(received).outputs]).toMatchObject([
    200,
    [{ name: 'y', data: [3, 6, 9, 12] }],
  ]);
}

/** As much as there was before a server: what it loaded it has let go of. */
function expectNothingLeft(): void {
  const { plans, cpu, gpu } = memory();
  expect({ plans, cpu, gpu }).toEqual({ plans: before.plans, cpu: before.cpu, gpu: before.gpu });
}

describe.each([1, 3])('%i threads', (threads) => {
  const start = (options: ServeOptions) => openBuilt(options, threads);

  test('files with what there is to say about them, beside sessions', async () => {
    const session = await InferenceSession.create(model, CPU);
    const image = { scale: 1 };
    const { url, close } = await start({
      models: {
        file: { file: file() },
        options: {
          file: file(),
          sessionOptions: { ...CPU, cachedShapes: 1 },
          version: '7',
          maxBatch: 2,
          image,
        },
        fixed: { file: path.join(folder, 'fixed.onnx'), sessionOptions: CPU },
        session,
        listed: { session: [session], image },
      },
    });
    for (const name of ['file', 'options', 'fixed', 'session', 'listed']) await expectTripled(url, name);
    for (const name of ['options', 'listed']) await expectTripled(url, name, bytes);
    await expectTripled(url, 'options', bytes, '/versions/7');
    expect((await request(url, { path: '/v2/models/options/versions/1' })).status).toBe(404);
    for (const name of ['file', 'fixed', 'session'])
      expect((await postJson(url, `/v2/models/${name}/infer`, { inputs: [bytes] })).status).toBe(400);
    expect(memory().plans).toBeGreaterThan(before.plans);
    await close();
    const { y } = await session.run({
      x: { type: 'float32', dims: [1, 1, 2, 2], data: new Float32Array(4) },
    });
    expect(y!.dims).toEqual([1, 1, 2, 2]);
    await session.release();
    expectNothingLeft();
  });

  // The list of sessions that is made of the path is taken for the model's options.
  test('a path alone', async () => {
    const { url } = await start({ models: { m: file() } });
    await expectTripled(url, 'm');
  });

  test('sessions end after the answers, when the server closes', async () => {
    const slow = path.join(folder, 'slow.onnx');
    await writeFile(slow, slowModel());
    const { url, close } = await start({ models: { m: { file: slow, sessionOptions: CPU } } });
    const { headers, body } = binaryRequest(
      {
        inputs: [
          {
            ...{ name: 'x', datatype: 'FP32', shape: [1, 32, 112, 112] },
            parameters: { binary_data_size: SLOW_BYTES },
          },
        ],
        parameters: { binary_data_output: true },
      },
      new Uint8Array(SLOW_BYTES),
    );
    const answer = request(url, { path: '/v2/models/m/infer', headers, body });
    while (!(await request(url, { path: '/metrics' })).body.includes('requests_in_flight 1'));
    await close();
    expect((await answer).status).toBe(200);
    expectNothingLeft();
    await close();
  });

  test('a session that cannot be made leaves nothing open, and says why by a code', async () => {
    const missing = path.join(folder, 'none.onnx');
    await writeFile(path.join(folder, 'text.onnx'), 'this is no model');
    const good = { file: path.join(folder, 'fixed.onnx'), sessionOptions: CPU };
    const given: [AnyModel, string, RegExp][] = [
      [
        { file: missing, sessionOptions: CPU },
        'ERR_WARPCONV_INVALID_ARGUMENT',
        /^model cannot be read: ENOENT: .*none\.onnx/,
      ],
      [{ file: folder }, 'ERR_WARPCONV_INVALID_ARGUMENT', /^model cannot be read: it is not a file: '.+'$/],
      [{ file: '' }, 'ERR_WARPCONV_INVALID_ARGUMENT', /^model cannot be read: ENOENT/],
      [
        { file: path.join(folder, 'text.onnx') },
        'ERR_WARPCONV_INVALID_MODEL',
        /^model 'bad' cannot be loaded: ./,
      ],
      [missing, 'ERR_WARPCONV_INVALID_ARGUMENT', /none\.onnx/],
    ];
    for (const [bad, code, message] of given) {
      const error = { code, message: expect.stringMatching(message) as string };
      await expect(start({ models: { good, bad } })).rejects.toMatchObject(error);
      expectNothingLeft();
    }
  });

  test('options that are wrong leave nothing open', async () => {
    const good = { file: path.join(folder, 'fixed.onnx'), sessionOptions: CPU };
    const given: [object, string][] = [
      [{ models: { good }, maxQueue: 0 }, 'options.maxQueue must be'],
      [{ models: { good: { ...good, maxBatch: 2 } } }, 'options.models.good.maxBatch must be 1, got 2'],
      [{ models: { good: { ...good, maxbatch: 2 } } }, 'options.models.good.maxbatch is not known'],
      [{ models: { good: { ...good, image: { std: 0 } } } }, 'std has a 0'],
      [
        { models: { good, bad: { file: 3 } } },
        'options.models.bad.file must be the path of an ONNX file, got 3',
      ],
      [
        { models: { good, bad: { file: undefined } } },
        "options.models.bad must be a session, the path of an ONNX file, or an object with a 'session' or a 'file'",
      ],
      [{ models: { bad: { ...good, devise: 'cpu' } } }, 'bad takes file, sessionOptions, session, version'],
      [
        { models: { bad: { session: {}, ...good } } },
        'options.models.bad has a session and a file; give one',
      ],
      [{ models: { bad: { session: {}, sessionOptions: CPU } } }, 'bad.sessionOptions are for a file'],
      [{ models: { good, bad: 3 } }, 'options.models.bad must be a session'],
      [{ models: { good, bad: null } }, 'options.models.bad must be'],
      [{ models: { good, '': good } }, 'the name of a model must be a string that is not empty'],
      [{ models: {} }, 'options.models must be'],
      [{ models: file() }, 'options.models must be'],
    ];
    for (const [options, message] of given) {
      await expect(start(options as ServeOptions)).rejects.toMatchObject({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining(message),
      });
      expectNothingLeft();
    }
  });

  test('options of sessions that are wrong are named', async () => {
    const given: [unknown, string][] = [
      [{ ...CPU, cachedShapes: 0 }, 'options.models.m.sessionOptions.cachedShapes must be'],
      [{ ...CPU, cachedShape: 1 }, `cachedShape is not known; did you mean 'cachedShapes'?`],
      [{ device: 'tpu' }, 'device must be'],
    ];
    for (const [sessionOptions, message] of given) {
      const models = { m: { file: file(), sessionOptions: sessionOptions as object } };
      await expect(start({ models })).rejects.toMatchObject({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining(message),
      });
      expectNothingLeft();
    }
  });

  // As createHandler has it; the list becomes an object by the numbers of its items.
  test.each<[string, () => Promise<unknown[]>]>([
    ['files', async () => [{ file: file(), sessionOptions: CPU }]],
    ['sessions', async () => [await InferenceSession.create(model, CPU)]],
  ])('a list of %s is refused', async (_, models) => {
    await expect(start({ models: (await models()) as never })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
  });

  test('a port that is taken leaves nothing open', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as AddressInfo;
    const models = { m: { file: path.join(folder, 'fixed.onnx'), sessionOptions: CPU } };
    await expect(serve({ models, port, threads })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    expectNothingLeft();
    await new Promise((resolve) => taken.close(resolve));
  });

  test('a list of sessions is of one model', async () => {
    const sessions = await Promise.all([1, 2].map(() => InferenceSession.create(model, CPU)));
    const { url, close } = await start({ models: { m: { session: sessions } } });
    await Promise.all(Array.from({ length: 16 }, () => expectTripled(url, 'm')));
    await close();
    await Promise.all(sessions.map((session) => session.release()));
    expectNothingLeft();
  });
});

test('createHandler() makes no sessions, and says so', () => {
  for (const models of [{ m: file() }, { m: { file: file() } }] as unknown[]) {
    expect(() => createHandler({ models: models as never })).toThrow(
      expect.objectContaining({
        code: 'ERR_WARPCONV_INVALID_ARGUMENT',
        message: expect.stringContaining('options.models.m'),
      }),
    );
  }
});
